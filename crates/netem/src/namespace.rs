//! Network namespaces, held by a descriptor. A namespace disappears with its descriptor and the
//! last process in it.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::device;
use crate::error::NetError;
use crate::leftovers::NAMES;

/// A node's network: its own interfaces, addresses, ports and TCP.
#[derive(Clone, Debug)]
pub struct Namespace {
    node: String,
    address: Ipv4Addr,
    held: Arc<OwnedFd>,
}

impl Namespace {
    /// Creates a namespace, runs `inside` in it and returns its result. The calling thread stays
    /// where it is.
    pub(crate) fn make<T: Send>(
        node: &str,
        address: Ipv4Addr,
        inside: impl FnOnce() -> Result<T, NetError> + Send,
    ) -> Result<(Self, T), NetError> {
        let made: Result<_, NetError> = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                device::leave_for_new().map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => NetError::NotPermitted(error),
                    _ => NetError::System {
                        doing: "making a network namespace".to_owned(),
                        source: error,
                    },
                })?;
                let held = device::current_namespace()
                    .map_err(NetError::system("holding a network namespace"))?;
                Ok((held, inside()?))
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let (held, made) = made?;
        Ok((Self { node: node.to_owned(), address, held: Arc::new(held) }, made))
    }

    /// Opens a namespace by its name for `ip netns`.
    ///
    /// # Errors
    /// It does not exist, or cannot be opened.
    pub(crate) fn open(name: &str, node: &str, address: Ipv4Addr) -> Result<Self, NetError> {
        let place = Path::new(NAMES).join(name);
        let held = File::open(&place)
            .map_err(NetError::system(format!("opening the namespace {}", place.display())))?;
        Ok(Self { node: node.to_owned(), address, held: Arc::new(held.into()) })
    }

    /// The name of its node: a replica's number, or `clients`.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The node's address in the network.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The path for other programs while this process lives: for `nsenter --net=`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.held.as_raw_fd())
    }

    /// Makes `command` start inside. The command holds the namespace from now on.
    pub fn enter(&self, command: &mut Command) {
        let held = Arc::clone(&self.held);
        // SAFETY: between fork and exec only setns is called. It is a bare system call: it takes no
        // lock and allocates nothing, and its error is a number.
        #[expect(unsafe_code, reason = "only a child that has not yet begun can be moved")]
        unsafe {
            command.pre_exec(move || device::enter(&held));
        }
    }

    /// Runs a function inside, in a thread of its own. Sockets that it creates stay there.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn within<T: Send>(&self, what: impl FnOnce() -> T + Send) -> Result<T, NetError> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                device::enter(&self.held).map_err(NetError::system(format!(
                    "entering the namespace of node {}",
                    self.node
                )))?;
                Ok(what())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Runs `ip` in the namespace of the calling thread. With `-batch -` it reads commands from
/// `input`.
pub(crate) fn run_ip(node: &str, arguments: &[&str], input: &str) -> Result<(), NetError> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NetError::NoIp,
            _ => NetError::System { doing: "starting ip".to_owned(), source: error },
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program does not read everything, its status below tells why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = child.wait_with_output().map_err(NetError::system("waiting for ip"))?;
    if ended.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(NetError::Program { node: node.to_owned(), words })
}
