//! A running network.

use std::fmt;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::Control;
use crate::device::{self, DEVICE};
use crate::emulator::{self, Emulator, Report};
use crate::error::NetError;
use crate::leftovers;
use crate::namespace::{self, Namespace};
use crate::topology::Topology;

/// The naming of namespaces in the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// No names. Only the owner's descriptors and processes hold the namespaces, so the end of the
    /// owner undoes everything. To look into one: `nsenter --net=` [`Namespace::path`].
    #[default]
    Anonymous,
    /// Names `quorate-OWNER-NAME-NODE` for `ip netns exec`, with a control socket. If the owner is
    /// killed, the names stay until [`leftovers::remove`].
    Named(String),
}

/// The settings of a network.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The naming of its namespaces.
    pub naming: Naming,
    /// The seed of all chance: a link loses the same packets of the same sequence.
    pub seed: u64,
    /// The longest packet, in bytes.
    pub mtu: u16,
    /// The most packets under way; more are dropped. Each takes `mtu` bytes after its first use.
    pub most_under_way: u32,
    /// Whether the emulator has priority over other threads (niceness −20), so that the network
    /// does not wait for its users. Do not use it for heavy traffic on a machine that is shared.
    pub before_others: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            naming: Naming::Anonymous,
            seed: 1,
            mtu: 1500,
            most_under_way: 1 << 17,
            before_others: true,
        }
    }
}

/// The packets that may wait in a device for the emulator; more are dropped. More than a kernel's
/// usual 500, because the emulator may not run for a while.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// The running part, which the control socket uses too.
pub(crate) struct Running {
    topology: Mutex<Topology>,
    emulator: Emulator,
    /// Whether another process has requested the end.
    pub(crate) told_to_end: AtomicBool,
}

impl Running {
    fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current links.
    pub(crate) fn links(&self) -> Topology {
        self.topology().clone()
    }

    /// The counters so far.
    pub(crate) fn report(&self) -> Result<Report, NetError> {
        self.emulator.report()
    }

    /// Changes links, all or none.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Topology) -> Result<T, NetError>,
    ) -> Result<T, NetError> {
        let mut topology = self.topology();
        let mut changed = topology.clone();
        let told = change(&mut changed)?;
        let mut different = Vec::new();
        for from in 0..changed.size() {
            for to in 0..changed.size() {
                if let Some(link) =
                    changed.link(from, to).filter(|new| topology.link(from, to) != Some(*new))
                {
                    different.push((from, to, link.clone()));
                }
            }
        }
        self.emulator.set(different)?;
        *topology = changed;
        Ok(told)
    }
}

/// A running network. Dropping it takes it down; processes that still run in it lose their links.
pub struct Network {
    // The fields are dropped in this order: first the changes end, then the packets, then the
    // names, then the namespaces.
    control: Option<Control>,
    running: Arc<Running>,
    names: Names,
    namespaces: Vec<Namespace>,
}

impl Network {
    /// Creates a namespace for every node of `topology`, and carries packets between them from now
    /// on.
    ///
    /// # Errors
    /// [`NetError`]; then nothing is left behind.
    pub fn up(topology: &Topology, settings: &Settings) -> Result<Self, NetError> {
        let mut names = Names::new(&settings.naming)?;
        let mut namespaces = Vec::new();
        let mut devices = Vec::new();
        for (id, node) in topology.names().iter().enumerate() {
            let address = address_of(id);
            let name = names.claim(node)?;
            let (namespace, device) = Namespace::make(node, address, || {
                furnish(node, address, settings.mtu, name.as_deref())
            })?;
            namespaces.push(namespace);
            devices.push(device);
        }
        let emulator = Emulator::start(topology, devices, settings)?;
        let running = Arc::new(Running {
            topology: Mutex::new(topology.clone()),
            emulator,
            told_to_end: AtomicBool::new(false),
        });
        let control = match &names.socket {
            Some(socket) => Some(Control::listen(socket, Arc::clone(&running))?),
            None => None,
        };
        Ok(Self { control, running, names, namespaces })
    }

    /// The namespaces: those of the replicas by number, then that of the clients.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// A replica's namespace.
    #[must_use]
    pub fn replica(&self, id: usize) -> Option<&Namespace> {
        self.namespaces.get(id).filter(|_| id + 1 < self.namespaces.len())
    }

    /// The namespace of the clients.
    ///
    /// # Panics
    /// Never: the last node of a topology is the clients'.
    #[must_use]
    pub fn clients(&self) -> &Namespace {
        self.namespaces.last().expect("a topology has the clients as its last node")
    }

    /// The names of the namespaces for `ip netns exec`, if they have any.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names.claimed
    }

    /// The path of the control socket, if the network has a name.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.control.as_ref().and(self.names.socket.as_deref())
    }

    /// Whether another process has requested the end (`down`, over the control socket). The network
    /// runs until it is dropped.
    #[must_use]
    pub fn is_told_to_end(&self) -> bool {
        self.running.told_to_end.load(Ordering::Acquire)
    }

    /// The current links.
    #[must_use]
    pub fn links(&self) -> Topology {
        self.running.links()
    }

    /// Changes the links from `from` to `to`: numbers, `clients`, or `*` for all. `link` is read as
    /// in [`Link::change`](crate::Link::change). Packets under way are not affected.
    ///
    /// # Errors
    /// There is no such node, `link` is malformed, or the emulator is gone. Then nothing is
    /// changed.
    pub fn set(&self, from: &str, to: &str, link: &str) -> Result<(), NetError> {
        self.running.change(|topology| Ok(topology.change(from, to, link, "set").map(|_| ())?))
    }

    /// Cuts all links between different groups of nodes. Nodes in no group keep theirs; links that
    /// were cut stay cut.
    ///
    /// # Errors
    /// The emulator is gone.
    pub fn partition(&self, groups: &[Vec<usize>]) -> Result<(), NetError> {
        self.running.change(|topology| {
            topology.partition(groups);
            Ok(())
        })
    }

    /// Restores all links that were cut.
    ///
    /// # Errors
    /// The emulator is gone.
    pub fn heal(&self) -> Result<(), NetError> {
        self.running.change(|topology| {
            topology.heal();
            Ok(())
        })
    }

    /// The counters so far.
    ///
    /// # Errors
    /// The emulator is gone.
    pub fn report(&self) -> Result<Report, NetError> {
        self.running.report()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

/// The address of a node.
#[must_use]
pub fn address_of(node: usize) -> Ipv4Addr {
    let [a, b, c] = emulator::PREFIX;
    // A topology has at most 254 nodes.
    Ipv4Addr::new(a, b, c, (node + 1) as u8)
}

/// Sets up a new namespace, which the calling thread is in.
fn furnish(
    node: &str,
    address: Ipv4Addr,
    mtu: u16,
    name: Option<&str>,
) -> Result<OwnedFd, NetError> {
    let device = device::open()?;
    // Otherwise the kernel would look for routers. Without IPv6 the file does not exist.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6"), "1");
    let commands = format!(
        "link set lo up\n\
         link set {DEVICE} mtu {mtu} txqueuelen {DEVICE_QUEUE_PACKETS}\n\
         addr add {address}/24 dev {DEVICE}\n\
         link set {DEVICE} up\n"
    );
    namespace::run_ip(node, &["-batch", "-"], &commands)?;
    if let Some(name) = name {
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        namespace::run_ip(node, &["netns", "attach", name, &thread], "")?;
    }
    Ok(device)
}

/// The names in the file system. Dropping removes them.
struct Names {
    network: Option<String>,
    claimed: Vec<String>,
    socket: Option<PathBuf>,
}

impl Names {
    fn new(naming: &Naming) -> Result<Self, NetError> {
        let Naming::Named(name) = naming else {
            return Ok(Self { network: None, claimed: Vec::new(), socket: None });
        };
        if !leftovers::is_name(name) {
            return Err(NetError::Name(name.clone()));
        }
        let socket = leftovers::socket_path(std::process::id(), name);
        if socket.exists() {
            return Err(NetError::Clash { name: name.clone(), place: socket });
        }
        Ok(Self { network: Some(name.clone()), claimed: Vec::new(), socket: Some(socket) })
    }

    /// The name of a node's namespace.
    fn claim(&mut self, node: &str) -> Result<Option<String>, NetError> {
        let Some(network) = &self.network else { return Ok(None) };
        let name = leftovers::namespace_name(std::process::id(), network, node);
        let place = Path::new(leftovers::NAMES).join(&name);
        if place.exists() {
            return Err(NetError::Clash { name: network.clone(), place });
        }
        self.claimed.push(name.clone());
        Ok(Some(name))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // `leftovers` finds names that cannot be removed now.
            let _ = leftovers::erase(&self.claimed, socket);
        }
    }
}
