//! A child process that says on its first line where it listens, and ends with this one.
//!
//! Its standard input is a pipe that this process holds, and writes to only if the child is told
//! more than its arguments: closing it asks the child to stop (`--exit-with-parent`), and the
//! system closes it when this process ends, however it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_netem::Namespace;
use serde_json::Value;

/// How often it is looked whether a child has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of a line that is passed on, at most.
const LINE_BYTES: u64 = 64 << 10;

/// What to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// What it is called in messages.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where what it prints goes; what is there stays.
    pub log: PathBuf,
    /// Whether what it prints is shown as well.
    pub echo: Echo,
    /// The network namespace it starts in; `None`: this process's.
    pub namespace: Option<Namespace>,
}

/// Whether what children print is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Only in the log file.
    No,
    /// On this process's standard output too, each line behind the child's name.
    Prefixed,
}

/// Why a child is not of use.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("{name} cannot be started: {source}")]
    Start {
        /// Which.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// It ended before it was up.
    #[error("{name} {how}; its last words: {words}; see {}", log.display())]
    Ended {
        /// Which.
        name: String,
        /// How it ended.
        how: String,
        /// The end of its log.
        words: String,
        /// Its log.
        log: PathBuf,
    },
    /// It did not say in time that it is up.
    #[error("{name} is not up after {patience:?}; see {}", log.display())]
    Late {
        /// Which.
        name: String,
        /// How long it was waited for.
        patience: Duration,
        /// Its log.
        log: PathBuf,
    },
}

/// A child process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    announced: Receiver<Value>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// [`ProcessError::Start`].
    pub fn start(start: &Start) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Start { name: start.name.clone(), source };
        let log = File::options().create(true).append(true).open(&start.log).map_err(failed)?;
        let mut command = Command::new(&start.program);
        command.args(&start.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(namespace) = &start.namespace {
            namespace.enter(&mut command);
        }
        let mut child = command.spawn().map_err(failed)?;
        let (sender, announced) = channel();
        let mut readers = Vec::new();
        let prefix = (start.echo == Echo::Prefixed).then(|| start.name.clone());
        let copy = log.try_clone().map_err(failed)?;
        if let Some(out) = child.stdout.take() {
            readers.push(read_lines(out, copy, prefix.clone(), Some(sender)).map_err(failed)?);
        }
        if let Some(err) = child.stderr.take() {
            readers.push(read_lines(err, log, prefix, None).map_err(failed)?);
        }
        Ok(Self { name: start.name.clone(), log: start.log.clone(), child, announced, readers })
    }

    /// What it says once it is up.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] or [`ProcessError::Late`].
    pub fn announced(&mut self, patience: Duration) -> Result<Value, ProcessError> {
        match self.announced.recv_timeout(patience) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Timeout) => {
                Err(ProcessError::Late { name: self.name.clone(), patience, log: self.log.clone() })
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.child.wait().map_or_else(|error| error.to_string(), how_it_ended);
                let words = last_line(&self.log);
                let (name, log) = (self.name.clone(), self.log.clone());
                Err(ProcessError::Ended { name, how, words, log })
            }
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in the system.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where what it prints is.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has: "exited with code 3", "was killed by signal 9".
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(how_it_ended)
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join_readers();
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// It does not read any more.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.child.stdin {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        last_line(&self.log)
    }

    /// Asks it to stop, without waiting.
    pub fn ask_to_stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Asks it to stop, and kills it if it has not after `patience`. How it ended.
    pub fn stop(&mut self, patience: Duration) -> String {
        self.ask_to_stop();
        let began = Instant::now();
        loop {
            if let Some(how) = self.ended() {
                self.join_readers();
                return how;
            }
            if began.elapsed() >= patience {
                self.kill();
                return format!("did not stop in {patience:?} and was killed");
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            // A reader that panicked has said so on standard error.
            let _ = reader.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        }
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended in good order".to_owned(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Copies lines to the log, and shows them if there is a prefix. The first line in JSON is the
/// announcement.
fn read_lines(
    from: impl Read + Send + 'static,
    mut log: File,
    prefix: Option<String>,
    mut announce: Option<Sender<Value>>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("child's words".to_owned()).spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while (&mut from).take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            // A log that cannot be written is no reason to let the child block on a full pipe.
            let _ = log.write_all(&line);
            let text = String::from_utf8_lossy(&line);
            if let Some(prefix) = &prefix {
                let mut out = io::stdout().lock();
                let _ = writeln!(out, "[{prefix}] {}", text.trim_end());
            }
            if let (Some(sender), Ok(value)) = (&announce, serde_json::from_str(&text)) {
                let _ = sender.send(value);
                announce = None;
            }
            line.clear();
        }
    })
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
    let lines: Vec<_> = text.lines().rev().take(3).map(str::trim).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" ")
}
