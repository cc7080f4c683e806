//! Clusters of real processes: made in a folder of their own, killed, stopped, wiped, restarted.
//!
//! One cluster runs at a time in a test program, so that tests do not compete for the machine.
//! What is waited for is a condition with a generous deadline, never a time.

mod ports;
pub mod probe;
pub mod writers;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::client::SessionConfig;
use quorate_crypto::SecretKey;
use quorate_node::client::{Authenticity, Client, ClientConfig, ReplicaAddress};
use quorate_node::config::{Cluster as Agreed, Home, load_cluster};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub use ports::ports;

/// How long anything may take before the test fails.
pub const DEADLINE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of each replica's log that a failed test prints.
const LOG_LINES: usize = 40;

static TURN: Mutex<()> = Mutex::new(());

/// Waits until `holds`, and fails the test if that takes too long.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain until {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until what is seen is what is wanted, and otherwise fails with what was seen last.
pub fn wait_until_seen<T: PartialEq + Debug>(what: &str, wanted: &T, mut look: impl FnMut() -> T) {
    let mut seen = look();
    let start = Instant::now();
    while seen != *wanted {
        assert!(
            start.elapsed() < DEADLINE,
            "waited {DEADLINE:?} in vain until {what}: {wanted:?} is wanted, {seen:?} was seen last"
        );
        std::thread::sleep(LOOK_EVERY);
        seen = look();
    }
}

/// A cluster on this machine.
pub struct Cluster {
    pub agreed: Agreed,
    pub runtime: Runtime,
    processes: Vec<Option<Process>>,
    folder: TempDir,
    settings: Vec<String>,
    /// The last block that each replica showed.
    heights: Mutex<BTreeMap<usize, u64>>,
    _ports: TcpListener,
    _turn: MutexGuard<'static, ()>,
}

struct Process {
    child: Child,
    /// Kept, so that the replica can write to it.
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a process that should not have come up ended.
pub struct Refusal {
    pub code: Option<i32>,
    pub stderr: String,
}

/// The turn of those who start processes without a [`Cluster`].
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Four replicas' homes; nothing runs yet. `init` goes to `testnet init`, `settings` to every
    /// `start` as `--set`.
    pub fn new(init: &[&str], settings: &[&str]) -> Self {
        Self::of(4, init, settings)
    }

    /// The same with `replicas` homes.
    pub fn of(replicas: u16, init: &[&str], settings: &[&str]) -> Self {
        Self::made(replicas, settings, |folder, port| {
            let mut command = quorate();
            command.args(["testnet", "init", "--port", port, "--replicas", &replicas.to_string()]);
            command.args(init).arg(folder);
            command
        })
    }

    /// The homes that a command makes, in a folder and from a port on.
    pub fn made(
        replicas: u16,
        settings: &[&str],
        command: impl FnOnce(&Path, &str) -> Command,
    ) -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let (held, base) = ports(3 * replicas);
        let made = command(folder.path(), &base.to_string()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let client = Home::new(folder.path().join("client"));
        let (agreed, _) = load_cluster(&client.cluster_file()).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self {
            processes: agreed.members.iter().map(|_| None).collect(),
            agreed,
            runtime,
            folder,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            heights: Mutex::default(),
            _ports: held,
            _turn: turn,
        }
    }

    /// Four replicas that run.
    pub fn start(init: &[&str], settings: &[&str]) -> Self {
        let mut cluster = Self::new(init, settings);
        cluster.start_all();
        cluster
    }

    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// Makes room for the process of another home, and returns its number.
    pub fn add_home(&mut self) -> usize {
        self.processes.push(None);
        self.size() - 1
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn home(&self, replica: usize) -> PathBuf {
        self.folder.path().join(format!("replica-{replica}"))
    }

    pub fn data(&self, replica: usize) -> PathBuf {
        self.home(replica).join("data")
    }

    pub fn log(&self, replica: usize) -> PathBuf {
        self.home(replica).join("log")
    }

    pub fn log_text(&self, replica: usize) -> String {
        std::fs::read_to_string(self.log(replica)).unwrap_or_default()
    }

    pub fn start_all(&mut self) {
        for replica in 0..self.size() {
            self.start_replica(replica, &[]);
        }
    }

    /// The command that starts a replica.
    pub fn command(&self, replica: usize, arguments: &[&str]) -> Command {
        let mut command = quorate();
        command.args(["--output", "json", "start", "--home"]).arg(self.home(replica));
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.args(arguments);
        command
    }

    /// Starts a replica and waits until it listens.
    pub fn start_replica(&mut self, replica: usize, arguments: &[&str]) {
        let command = self.command(replica, arguments);
        self.start_command(replica, command);
    }

    /// As [`Cluster::start_replica`], of a command made elsewhere.
    pub fn start_command(&mut self, replica: usize, mut command: Command) {
        assert!(self.processes[replica].is_none(), "replica {replica} runs");
        let log = File::options().append(true).create(true).open(self.log(replica)).unwrap();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        self.processes[replica] = Some(Process { child, _stdout: stdout });
        assert!(line.contains("client_address"), "replica {replica} did not come up");
    }

    /// Starts a replica that should refuse to run, and waits for its end.
    pub fn refused(&self, replica: usize, arguments: &[&str]) -> Refusal {
        self.refused_command(replica, self.command(replica, arguments))
    }

    /// As [`Cluster::refused`], of a command made elsewhere.
    pub fn refused_command(&self, replica: usize, mut command: Command) -> Refusal {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let mut ended = None;
        let start = Instant::now();
        while ended.is_none() && start.elapsed() < DEADLINE {
            std::thread::sleep(LOOK_EVERY);
            ended = child.try_wait().unwrap();
        }
        // It runs although it should not; it must not outlive the test.
        let _ = child.kill();
        let _ = child.wait();
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        let code = ended.unwrap_or_else(|| panic!("replica {replica} runs:\n{text}")).code();
        Refusal { code, stderr: text }
    }

    pub fn runs(&self, replica: usize) -> bool {
        self.processes[replica].is_some()
    }

    pub fn pid(&self, replica: usize) -> Pid {
        let process = self.processes[replica].as_ref().expect("the replica runs");
        Pid::from_child(&process.child)
    }

    /// kill −9.
    pub fn kill(&mut self, replica: usize) {
        drop(self.processes[replica].take());
    }

    /// kill −9 of all, one right after the other.
    pub fn kill_all(&mut self) {
        for replica in 0..self.size() {
            if self.runs(replica) {
                // It may have ended already.
                let _ = kill_process(self.pid(replica), Signal::KILL);
            }
        }
        self.processes.iter_mut().for_each(|process| *process = None);
    }

    pub fn signal(&self, replica: usize, signal: Signal) {
        kill_process(self.pid(replica), signal).unwrap();
    }

    /// Waits until a replica has ended by itself.
    pub fn ended(&mut self, replica: usize) -> ExitStatus {
        let mut status = None;
        wait_until(&format!("replica {replica} has ended"), || {
            let process = self.processes[replica].as_mut().expect("the replica runs");
            status = process.child.try_wait().unwrap();
            status.is_some()
        });
        self.processes[replica] = None;
        status.unwrap()
    }

    /// Bytes that a replica's data folder takes on the disk.
    pub fn disk(&self, replica: usize) -> u64 {
        folder_bytes(&self.data(replica))
    }

    /// The configuration of a client.
    pub fn client_config(&self) -> ClientConfig {
        let addresses = self.agreed.members.iter().map(|member| ReplicaAddress {
            address: member.client_address.to_string(),
            key: member.transport_key,
        });
        ClientConfig {
            replicas: addresses.collect(),
            session: SessionConfig {
                tentative: self.agreed.tentative,
                ..SessionConfig::new(self.agreed.chain_digest(), self.agreed.members.len())
            },
            give_up_after: None,
            authenticity: Authenticity::of(&self.agreed),
            incarnation: None,
        }
    }

    /// A client with a session of its own.
    pub fn client(&self) -> Client {
        self.runtime.block_on(connect(self.client_config()))
    }
}

/// Connects within the deadline.
pub async fn connect(config: ClientConfig) -> Client {
    let key = Arc::new(SecretKey::generate().unwrap());
    let connecting = Client::connect(config, key);
    let connected = tokio::time::timeout(DEADLINE, connecting).await;
    connected.expect("a session is opened in time").expect("a session is granted")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
        if std::thread::panicking() {
            for replica in 0..self.size() {
                let text = self.log_text(replica);
                let lines: Vec<&str> = text.lines().collect();
                let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
                eprintln!("--- log of replica {replica}:\n{}", tail.join("\n"));
            }
        }
    }
}

/// The program, without settings of whoever runs the tests.
pub fn quorate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command
}

/// Allocated bytes of all files below `folder`.
fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    // A file may be removed between the listing and the look at it.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(data) if data.is_dir() => bytes += folder_bytes(&entry.path()),
            Ok(data) => bytes += 512 * data.blocks(),
            Err(_) => {}
        }
    }
    bytes
}
