//! An application as a process of its own, in any language, over its standard input and output.
//!
//! `quorate start` runs the command that `service.command` of `node.toml` names, and speaks with it
//! in *messages*: a length (four bytes, most significant first), a kind (one byte), and a body.
//! Lists in a body are one byte string after the other, each behind a length of four bytes. The
//! replica asks, and the application answers each question before it is asked the next one:
//!
//! | asked | body | answer | body |
//! |---|---|---|---|
//! | `H` | JSON: `protocol` (1), `newest_protocol` (2), `service`, `replica`, `agreed` (the table `service` of `cluster.toml`, TOML) | `H` | JSON: `protocol` (1 or 2); with 2 also `newest_rules` |
//! | `A` | in protocol 1: height (8 bytes), view (8 bytes), the block's commands as a list; in protocol 2: height, view, rules (2 bytes), the block's callers as a list behind its length (4 bytes), and a list of commands, each behind the number of its caller (4 bytes, from 0) | `A` | one reply to each command, as a list |
//! | `R` | | `R` | 1 to 64 bytes that are equal for equal states only, such as a SHA-256 of the state |
//! | `Q` | a question | `Q` | its answer |
//! | `S` | | `S` | the state as a list of chunks, equal for equal states |
//! | `L` | a list of chunks | `L` | nothing: the state is now what the chunks say |
//!
//! The replica offers a range of protocols, from `protocol` to `newest_protocol`, and the
//! application chooses one. Protocol 2 tells it who sent each command ([`Decided::callers`]) and by
//! which rules the epoch executes ([`Decided::rules`]); `newest_rules`, 1 if it is missing, is what
//! [`StateMachine::newest_rules`] says. A *caller* is the client's public key (32 bytes) and what
//! the list of clients grants it: 0 (one byte) if the list does not name the key, and it may do
//! everything; or 1, its quota of stored bytes (8 bytes, 0 if it has none), and the prefixes of its
//! grant as a list.
//!
//! Instead of `L` it may answer `X` with a text: the chunks are no state of its. Standard error
//! goes to the replica's log. At the end of its input it ends.
//!
//! A process belongs to one state: a replica that takes over a snapshot starts another one. The
//! process is not believed more than a peer is: every answer has a time
//! ([`Limits::answer_within`]) and a length within which it must come. One that ends, hangs, says
//! too much or answers something else is killed, and the replica stops with exit code 6 and a
//! message that names the service and its command. Blocks are on disk before the process is given
//! them, so nothing is lost.

mod caller;
mod process;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::ledger::state_machine::{
    Decided, KeepError, MAX_BLOCK_REPLY_BYTES, MAX_CHUNK_BYTES, Replies, RestoreError, Snapshot,
    StateMachine, Usage,
};
use quorate_node::launch::Launched;
use toml::Value;

use crate::exit::{Exit, Failure};
use crate::program::host;
use crate::start::Ready;
use caller::{has_limits, write_called};
pub(crate) use process::kill_all;
use process::{Process, list, unlisted};

/// Longest reply to a command, bytes.
const MOST_OF_A_REPLY: usize = 1 << 20;
/// The versions of the protocol.
const PROTOCOL: u64 = 1;
const NEWEST_PROTOCOL: u64 = 2;
/// How long an answer may take, if `service.answer_within_ms` says nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of a root.
const MOST_OF_A_ROOT: usize = 64;

/// What an application's process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long an answer may take.
    pub answer_within: Duration,
    /// Most bytes of a state.
    pub state_bytes: usize,
}

/// How an application's process is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The service's name.
    pub service: String,
    /// What it is told in the beginning, as JSON.
    pub hello: String,
    /// What it may take.
    pub limits: Limits,
}

/// The application of a process, as a state machine.
pub struct Piped {
    command: Command,
    /// It is asked by one thread at a time; questions ask through a shared reference.
    process: Mutex<Result<Process, String>>,
    agreed: Agreed,
    /// What the last snapshot took, given or taken over.
    state_bytes: AtomicU64,
    /// The log was told that nobody sees to what clients are granted.
    warned: AtomicBool,
}

/// What a process said when it was greeted.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    protocol: u64,
    newest_rules: u16,
}

/// A process that runs, and what it said.
type Greeted = Result<(Process, Agreed), String>;

impl Piped {
    /// Starts the process, and greets it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn start(command: &Command) -> Result<Self, String> {
        let greeted = greeted(command)?;
        Ok(Self::of(command, Ok(greeted)))
    }

    /// As [`start`](Self::start); what is wrong is said when it is first asked something.
    #[must_use]
    pub fn fresh(command: &Command) -> Self {
        Self::of(command, greeted(command))
    }

    fn of(command: &Command, greeted: Greeted) -> Self {
        let (process, agreed) = match greeted {
            Ok((process, agreed)) => (Ok(process), agreed),
            // Its rules are not what keeps it from executing: what is wrong with it is said then.
            Err(trouble) => (Err(trouble), Agreed { protocol: PROTOCOL, newest_rules: u16::MAX }),
        };
        let (process, state_bytes) = (Mutex::new(process), AtomicU64::new(0));
        let warned = AtomicBool::new(false);
        Self { command: command.clone(), process, agreed, state_bytes, warned }
    }

    /// Says once that clients have limits of which the process is not told.
    fn warn_of_limits(&self, block: &Decided<'_>) {
        if !self.warned.load(Ordering::Relaxed) && has_limits(block) {
            self.warned.store(true, Ordering::Relaxed);
            let process = self.command.words.join(" ");
            tracing::warn!(
                process,
                "the list of clients has prefixes or quotas, and nothing enforces them: the process \
                 chose protocol 1, in which it is not told who sent a command; have it choose \
                 protocol 2 (\"Who sent a command\" in docs/own-service.md)"
            );
        }
    }

    /// Asks the process. After the first trouble it is asked nothing more.
    fn ask(&self, kind: u8, body: &[u8], most: usize) -> Result<Bytes, String> {
        let mut held = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let process = held.as_mut().map_err(|trouble| trouble.clone())?;
        let within = self.command.limits.answer_within;
        let answer = process.ask(kind, body, most, within);
        answer.map_err(|trouble| {
            let trouble = named(&self.command, &trouble);
            *held = Err(trouble.clone());
            trouble
        })
    }

    /// The answer has another shape than it must have: the process is not asked again.
    fn misshapen(&self, what: &str) -> String {
        let trouble = named(&self.command, what);
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Err(trouble.clone());
        trouble
    }

    /// Most bytes of a state in a message.
    fn most_of_a_state(&self) -> usize {
        let state = self.command.limits.state_bytes;
        state.saturating_add(4 * (state / 1024 + 1))
    }

    fn replies(&self, block: &Decided<'_>) -> Result<Vec<Bytes>, String> {
        let mut body = block.height.0.to_be_bytes().to_vec();
        body.extend_from_slice(&block.view.0.to_be_bytes());
        if self.agreed.protocol < 2 {
            self.warn_of_limits(block);
            list(&mut body, block.commands.iter().copied());
        } else {
            body.extend_from_slice(&block.rules.to_be_bytes());
            write_called(&mut body, block);
        }
        let replies = unlisted(self.ask(b'A', &body, MAX_BLOCK_REPLY_BYTES)?)
            .ok_or_else(|| self.misshapen("its answer to a block is no list"))?;
        if replies.len() != block.commands.len() {
            let (given, asked) = (replies.len(), block.commands.len());
            return Err(self.misshapen(&format!("it gave {given} replies to {asked} commands")));
        }
        if let Some(long) = replies.iter().find(|reply| reply.len() > MOST_OF_A_REPLY) {
            let length = long.len();
            let what = format!("a reply has {length} bytes, more than {MOST_OF_A_REPLY}");
            return Err(self.misshapen(&what));
        }
        Ok(replies)
    }

    fn chunks(&self) -> Result<Vec<Bytes>, String> {
        let state = self.ask(b'S', &[], self.most_of_a_state())?;
        self.state_bytes.store(state.len() as u64, Ordering::Relaxed);
        let chunks = unlisted(state).ok_or_else(|| self.misshapen("its snapshot is no list"))?;
        match chunks.iter().find(|chunk| chunk.len() > MAX_CHUNK_BYTES) {
            None => Ok(chunks),
            Some(long) => Err(self.misshapen(&format!(
                "a chunk of its snapshot has {} bytes, more than {MAX_CHUNK_BYTES}",
                long.len()
            ))),
        }
    }
}

fn named(command: &Command, trouble: &str) -> String {
    format!("the process `{}`: {trouble}", command.words.join(" "))
}

fn greeted(command: &Command) -> Greeted {
    let hello = || {
        let mut process = Process::start(&command.words)?;
        let within = command.limits.answer_within;
        let answer = process.ask(b'H', command.hello.as_bytes(), 64 << 10, within)?;
        let said: serde_json::Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("its greeting is no JSON: {error}"))?;
        let protocol =
            said["protocol"].as_u64().filter(|it| (PROTOCOL..=NEWEST_PROTOCOL).contains(it));
        let protocol = protocol.ok_or_else(|| {
            format!(
                "its greeting does not say that it speaks protocol {PROTOCOL} or {NEWEST_PROTOCOL}"
            )
        })?;
        // Rules are told from protocol 2 on.
        let newest_rules = match &said["newest_rules"] {
            serde_json::Value::Null => 1,
            _ if protocol < 2 => 1,
            number => {
                let number = number.as_u64().and_then(|number| u16::try_from(number).ok());
                number
                    .filter(|number| *number > 0)
                    .ok_or("its greeting has a `newest_rules` that is no number from 1 to 65535")?
            }
        };
        Ok((process, Agreed { protocol, newest_rules }))
    };
    hello().map_err(|trouble: String| named(command, &trouble))
}

/// The replica stops at a panic of its application, with a message of these words. The panic hook
/// is not asked: a backtrace of this program says nothing about another one.
fn stop(trouble: &str) -> ! {
    std::panic::resume_unwind(Box::new(trouble.to_owned()))
}

impl StateMachine for Piped {
    fn newest_rules(&self) -> u16 {
        self.agreed.newest_rules
    }

    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        let given = self.replies(block).unwrap_or_else(|trouble| stop(&trouble));
        given.iter().for_each(|reply| replies.push(reply));
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.ask(b'Q', question, MOST_OF_A_REPLY).unwrap_or_else(|trouble| stop(&trouble))
    }

    fn root(&mut self) -> Digest {
        let root = self.ask(b'R', &[], MOST_OF_A_ROOT).unwrap_or_else(|trouble| stop(&trouble));
        if root.is_empty() {
            stop(&self.misshapen("its root is empty"));
        }
        Digest::of("root of a piped service", &root)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen(self.chunks()))
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let refused = |reason| RestoreError { chunk: 0, reason };
        let mut body = Vec::new();
        for (chunk, bytes) in chunks.enumerate() {
            if body.len() + bytes.len() > self.most_of_a_state() {
                return Err(RestoreError { chunk, reason: "the state is too large".to_owned() });
            }
            list(&mut body, [&bytes[..]]);
        }
        self.state_bytes.store(body.len() as u64, Ordering::Relaxed);
        self.ask(b'L', &body, 0).map(drop).map_err(refused)
    }

    /// By the last snapshot: the process is not asked.
    fn usage(&self) -> Option<Usage> {
        let used_bytes = self.state_bytes.load(Ordering::Relaxed);
        Some(Usage { used_bytes, limit_bytes: self.command.limits.state_bytes as u64 })
    }

    fn fault(&self) -> Option<String> {
        let mut held = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trouble) = held.as_mut().ok().and_then(Process::has_ended) {
            *held = Err(named(&self.command, &trouble));
        }
        held.as_ref().err().cloned()
    }
}

/// A state, as the process gave it; or why it gave none.
struct Frozen(Result<Vec<Bytes>, String>);

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let _ = self.0.iter().flatten().all(|chunk| sink(chunk));
    }

    fn failure(&self) -> Option<KeepError> {
        self.0.as_ref().err().cloned().map(KeepError)
    }
}

/// Launches a replica of a service whose application is a process: `service.command` of
/// `node.toml`.
///
/// # Errors
/// [`Failure`]; the process is not running then.
pub async fn launch(ready: Ready<'_>) -> Result<Launched, Failure> {
    let (loaded, node_file) = (ready.loaded, ready.loaded.home.node_file());
    let command = command_of(ready.loaded).map_err(|what| {
        let remedy = "run the service's own program, or name its command in [service] of node.toml, \
                      as in command = [\"python3\", \"counter.py\"]";
        Failure::at(Exit::Usage, what, &node_file, remedy)
    })?;
    let first = Piped::start(&command).map_err(|what| {
        let what = format!("service `{}`: {what}", command.service);
        let remedy = "correct service.command, and see what the process says in the log";
        Failure::at(Exit::Application, what, &loaded.home.node_file(), remedy)
    })?;
    drop(first);
    let service = command.service.clone();
    host(ready, &service, Box::new(move || Piped::fresh(&command))).await
}

fn command_of(loaded: &quorate_node::config::Loaded) -> Result<Command, String> {
    let own: toml::Table = toml::from_str(&loaded.node.service).unwrap_or_default();
    let service = loaded.cluster.application_name();
    let (mut words, mut answer_within) = (Vec::new(), ANSWER_WITHIN);
    for (key, value) in &own {
        match (key.as_str(), value) {
            ("command", Value::Array(array)) => {
                let texts = array.iter().map(|word| word.as_str().map(str::to_owned));
                words = texts.collect::<Option<_>>().ok_or("`service.command` holds no texts")?;
            }
            ("answer_within_ms", Value::Integer(millis @ 1..=600_000)) => {
                answer_within = Duration::from_millis(millis.unsigned_abs());
            }
            ("command", _) => return Err("`service.command` is no list of texts".to_owned()),
            ("answer_within_ms", _) => {
                return Err("`service.answer_within_ms` is no number from 1 to 600000".to_owned());
            }
            _ => return Err(format!("unknown key `service.{key}`")),
        }
    }
    if words.is_empty() {
        return Err(format!(
            "the cluster replicates the service `{service}`, which this program lacks"
        ));
    }
    let hello = serde_json::json!({
        "protocol": PROTOCOL,
        "newest_protocol": NEWEST_PROTOCOL,
        "service": service,
        "replica": loaded.node.replica.0,
        "agreed": loaded.cluster.service,
    });
    let state_bytes = usize::try_from(loaded.cluster.limits.max_state_bytes).unwrap_or(usize::MAX);
    // A message says its length in four bytes.
    let limits = Limits { answer_within, state_bytes: state_bytes.min(1 << 31) };
    Ok(Command { words, service, hello: hello.to_string(), limits })
}
