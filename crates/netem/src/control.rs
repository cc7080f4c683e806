//! The control socket: another process changes a network by sending a line over a Unix socket, and
//! reads an answer.
//!
//! | line | what it does |
//! |---|---|
//! | `set FROM TO KEY=VALUE...` | changes the links from `FROM` to `TO` |
//! | `both A B KEY=VALUE...` | the same in both directions |
//! | `partition 0,1 2,3` | cuts all links between the groups |
//! | `heal` | heals all that is cut |
//! | `show` | prints the links |
//! | `report` | prints what was carried, as JSON |
//! | `down` | asks the owner to take it down |

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::NetError;
use crate::network::Running;
use crate::topology::Topology;

/// The length limit of a line.
const LINE_BYTES: u64 = 64 << 10;
/// The time limit for sending a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket of a running network. Dropping it ends its thread.
pub(crate) struct Control {
    listener: UnixListener,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    pub(crate) fn listen(socket: &Path, running: Arc<Running>) -> Result<Self, NetError> {
        let failed = || NetError::system(format!("listening at {}", socket.display()));
        if let Some(folder) = socket.parent() {
            std::fs::create_dir_all(folder).map_err(failed())?;
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
                .map_err(failed())?;
        }
        // Found only once it listens: before, it would be taken for what a dead owner left.
        let new = socket.with_extension("new");
        let _ = std::fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(failed())?;
        std::fs::rename(&new, socket).map_err(failed())?;
        let accepting = listener.try_clone().map_err(failed())?;
        let stopping = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("network control".to_owned())
            .spawn(move || {
                for stream in accepting.incoming() {
                    if told.load(Ordering::Acquire) {
                        return;
                    }
                    if let Ok(stream) = stream {
                        // A client that left does not need the answer.
                        let _ = serve(&stream, &running);
                    }
                }
            })
            .map_err(failed())?;
        Ok(Self { listener, stopping, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the accepting thread. It cannot fail for a listening socket.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it on standard error.
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: &UnixStream, running: &Running) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES)).read_line(&mut line)?;
    match obey(line.trim(), running) {
        Ok(said) => writeln!(stream, "ok\n{said}"),
        Err(error) => writeln!(stream, "error\n{error}"),
    }
}

fn obey(line: &str, running: &Running) -> Result<String, NetError> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "show" => Ok(running.links().to_string()),
        "down" => {
            running.told_to_end.store(true, Ordering::Release);
            Ok(String::new())
        }
        "report" => {
            let report = running.report()?;
            serde_json::to_string(&report).map_err(|error| NetError::Refused(error.to_string()))
        }
        _ => running.change(|topology| apply(topology, word, rest)),
    }
}

/// Applies a line, given as its first word and the rest, to `topology`.
fn apply(topology: &mut Topology, word: &str, rest: &str) -> Result<String, NetError> {
    match word {
        "set" | "both" => {
            let mut parts = rest.splitn(3, ' ');
            let (Some(from), Some(to), Some(link)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(NetError::Refused(
                    "set wants two nodes and what is to be: set 0 1 delay=50ms".to_owned(),
                ));
            };
            // Messages call it `set` for both commands.
            topology.change(from, to, link, "set")?;
            if word == "both" {
                topology.change(to, from, link, "set")?;
            }
        }
        "partition" => {
            let groups: Vec<&str> = rest.split_whitespace().collect();
            if groups.len() < 2 {
                return Err(NetError::Refused(
                    "partition wants at least two groups: partition 0,1 2,3,clients".to_owned(),
                ));
            }
            let mut nodes = Vec::new();
            for group in groups {
                let mut members = Vec::new();
                for name in group.split(',') {
                    members.extend(topology.nodes_named(name, "partition")?);
                }
                nodes.push(members);
            }
            topology.partition(&nodes);
        }
        "heal" => topology.heal(),
        _ => {
            return Err(NetError::Refused(format!(
                "{word:?} is none of set, both, partition, heal, show, report, down"
            )));
        }
    }
    Ok(String::new())
}

/// Sends a line to the network with this socket, and returns the answer.
///
/// # Errors
/// The network does not answer, or refuses.
pub fn ask(socket: &Path, line: &str) -> Result<String, NetError> {
    let failed = || NetError::system(format!("asking the network at {}", socket.display()));
    let mut stream = UnixStream::connect(socket).map_err(failed())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
    writeln!(stream, "{}", line.replace('\n', " ")).map_err(failed())?;
    let mut said = String::new();
    stream.read_to_string(&mut said).map_err(failed())?;
    match said.trim_end().split_once('\n').unwrap_or((said.trim_end(), "")) {
        ("ok", said) => Ok(said.to_owned()),
        (_, why) => Err(NetError::Refused(why.to_owned())),
    }
}

/// The current links of the network with this socket.
///
/// # Errors
/// As [`ask`], or the answer is malformed.
pub fn links(socket: &Path) -> Result<Topology, NetError> {
    let shown = ask(socket, "show")?;
    Topology::of_lines(&shown).ok_or_else(|| {
        NetError::Refused(format!("{} does not answer as a network does", socket.display()))
    })
}

#[cfg(test)]
mod tests;
