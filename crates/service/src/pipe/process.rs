//! The process of an application: messages to it and from it, within a time and a length.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};

/// How long a process has to end once its input has.
const END_WITHIN: Duration = Duration::from_millis(500);
/// How long to wait for how a process ended once its pipe has: the system closes the pipe first.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What kind an answer has that says what is wrong.
const REFUSAL: u8 = b'X';
/// Longest text of a refusal, bytes.
const MOST_OF_A_REFUSAL: usize = 4096;

/// What is said of a process whose output ends between two messages.
const CLOSED: &str = "closed its output";

/// A message of the process: its kind and its body.
type Message = (u8, Bytes);

/// What the thread that reads makes of the process's output.
type Said = Result<Message, String>;

/// The processes of this program, for when it ends without waiting for the threads that have them.
static STARTED: Mutex<Vec<Weak<Mutex<Child>>>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<Weak<Mutex<Child>>>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every application that runs behind a pipe. One that hangs would not see that its input has
/// ended.
pub(crate) fn kill_all() {
    for child in started().drain(..).filter_map(|child| child.upgrade()) {
        // One that has ended cannot be killed, and need not.
        let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

/// A running process.
pub(super) struct Process {
    child: Arc<Mutex<Child>>,
    /// Messages on their way to it: a thread writes them, for it may not read.
    input: Option<SyncSender<Vec<u8>>>,
    output: Receiver<Said>,
    /// Most bytes of the next answer's body.
    most: Arc<AtomicUsize>,
}

impl Process {
    /// Starts it.
    pub(super) fn start(words: &[String]) -> Result<Self, String> {
        let (program, arguments) = words.split_first().ok_or("no program is named")?;
        let spawned = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = spawned.map_err(|error| format!("it cannot be started: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no standard input or output".to_owned());
        };
        let (input, messages) = sync_channel::<Vec<u8>>(1);
        let (said, output) = sync_channel(1);
        let most = Arc::new(AtomicUsize::new(MOST_OF_A_REFUSAL));
        let bound = Arc::clone(&most);
        let threads = spawn("pipe-in", move || write_all(stdin, &messages))
            .and_then(|()| spawn("pipe-out", move || read_all(stdout, &bound, &said)));
        let child = Arc::new(Mutex::new(child));
        let mut all = started();
        all.retain(|child| child.strong_count() > 0);
        all.push(Arc::downgrade(&child));
        let this = Self { child, input: Some(input), output, most };
        threads.map(|()| this).map_err(|error| format!("no thread for its pipe: {error}"))
    }

    /// Sends a message, and waits for the answer of the same kind.
    pub(super) fn ask(
        &mut self,
        kind: u8,
        body: &[u8],
        most: usize,
        within: Duration,
    ) -> Result<Bytes, String> {
        let answer = self.try_ask(kind, body, most, within);
        if answer.is_err() {
            self.end(Duration::ZERO);
        }
        answer
    }

    fn try_ask(
        &mut self,
        kind: u8,
        body: &[u8],
        most: usize,
        within: Duration,
    ) -> Result<Bytes, String> {
        let length = u32::try_from(body.len() + 1).map_err(|_| "a message is too long")?;
        let mut message = length.to_be_bytes().to_vec();
        message.push(kind);
        message.extend_from_slice(body);
        self.most.store(most.max(MOST_OF_A_REFUSAL), Ordering::SeqCst);
        // The thread takes it at once: the answer to the last message has come.
        let sent = self.input.as_ref().map(|input| input.send(message));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.gone("does not read any more"));
        }
        let shown = char::from(kind);
        match self.output.recv_timeout(within) {
            Ok(Ok((of, answer))) if of == kind && answer.len() <= most => Ok(answer),
            Ok(Ok((REFUSAL, why))) => {
                Err(format!("it refuses `{shown}`: {}", String::from_utf8_lossy(&why)))
            }
            Ok(Ok((of, answer))) => Err(format!(
                "it answered `{shown}` with a message `{}` of {} bytes, and {most} are allowed",
                char::from(of).escape_default(),
                answer.len()
            )),
            Ok(Err(trouble)) if trouble == CLOSED => Err(self.gone(CLOSED)),
            Ok(Err(trouble)) => Err(format!("it {trouble}")),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it did not answer `{shown}` within {within:?}, and was killed"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.gone("says nothing any more")),
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That it has ended, and how; nothing while it runs.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        let status = self.child().try_wait().ok().flatten()?;
        Some(format!("it has ended ({status})"))
    }

    /// Its pipe has ended: most often because it has.
    fn gone(&mut self, trouble: &str) -> String {
        match self.ended(TOLD_WITHIN) {
            Some(status) => format!("it has ended ({status})"),
            None => format!("it {trouble}"),
        }
    }

    fn ended(&mut self, within: Duration) -> Option<std::process::ExitStatus> {
        let began = Instant::now();
        loop {
            let status = self.child().try_wait();
            match status {
                Ok(Some(status)) => return Some(status),
                Ok(None) if began.elapsed() < within => std::thread::sleep(LOOK_EVERY),
                _ => return None,
            }
        }
    }

    /// Closes its input, and kills it if it has not ended after a while.
    fn end(&mut self, within: Duration) {
        self.input = None;
        if self.ended(within).is_none() {
            let mut child = self.child();
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(END_WITHIN);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

fn write_all(mut input: ChildStdin, messages: &Receiver<Vec<u8>>) {
    while let Ok(message) = messages.recv() {
        if input.write_all(&message).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Hands on message after message, until one is not as it must be.
fn read_all(mut output: impl Read, most: &AtomicUsize, said: &SyncSender<Said>) {
    loop {
        let message = read(&mut output, most);
        let is_last = message.is_err();
        if said.send(message).is_err() || is_last {
            return;
        }
    }
}

fn read(output: &mut impl Read, most: &AtomicUsize) -> Said {
    let mut head = [0; 5];
    output.read_exact(&mut head).map_err(|_| CLOSED.to_owned())?;
    let [a, b, c, d, kind] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let most = most.load(Ordering::SeqCst);
    let Some(length) = length.checked_sub(1).filter(|length| *length <= most) else {
        return Err(format!("announced a message of {length} bytes, and {most} are allowed"));
    };
    // Memory grows with what really comes.
    let mut body = Vec::new();
    let read = output.take(length as u64).read_to_end(&mut body);
    match read {
        Ok(read) if read == length => Ok((kind, body.into())),
        _ => Err("broke off in a message".to_owned()),
    }
}

/// Appends byte strings, each behind its length.
pub(super) fn list<'a>(out: &mut Vec<u8>, items: impl IntoIterator<Item = &'a [u8]>) {
    for item in items {
        // Commands and chunks are far shorter.
        let length = u32::try_from(item.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(item);
    }
}

/// The byte strings of a list; `None`: it is none.
pub(super) fn unlisted(mut body: Bytes) -> Option<Vec<Bytes>> {
    let mut items = Vec::new();
    while !body.is_empty() {
        let length = body.try_get_u32().ok()? as usize;
        if length > body.len() {
            return None;
        }
        items.push(body.split_to(length));
    }
    Some(items)
}
