//! A network that is up.

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

/// Whether the namespaces have names in the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// None: whatever ends the owner undoes everything, as nothing but its descriptors and processes hold the
    /// namespaces. To look into one: `nsenter --net=` [`Namespace::path`].
    #[default]
    Anonymous,
    /// As `quorate-OWNER-NAME-NODE` for `ip netns exec`, with a control socket. If the owner is killed the names stay until
    /// [`leftovers::remove`].
    Named(String),
}

/// How a network is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether it has a name.
    pub naming: Naming,
    /// What chance is drawn from: the same packets in the same order are lost on a link.
    pub seed: u64,
    /// The longest packet, in bytes.
    pub mtu: u16,
    /// The most packets under way; those beyond are dropped. Each takes `mtu` bytes once it was used.
    pub most_under_way: u32,
    /// Whether the emulator is given the processor before all others (niceness −20): a network does not wait for those who use
    /// it. Not for carrying more than a machine that others share can spare.
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

/// Packets that wait in a device for the emulator; those beyond are dropped. More than a kernel's usual 500, as
/// the emulator may not run for a while.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// The running part, which the control socket shares.
pub(crate) struct Running {
    topology: Mutex<Topology>,
    emulator: Emulator,
    /// Whether somebody asked for its end.
    pub(crate) told_to_end: AtomicBool,
}

impl Running {
    fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The links as they are now.
    pub(crate) fn links(&self) -> Topology {
        self.topology().clone()
    }

    /// What was carried so far.
    pub(crate) fn report(&self) -> Result<Report, NetError> {
        self.emulator.report()
    }

    /// Changes links; all or none.
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

/// A network that is up. Dropping it takes it down; processes that still run in it lose their links.
pub struct Network {
    // Taken down in this order: no more changes, then no more packets, then the names, then the namespaces.
    control: Option<Control>,
    running: Arc<Running>,
    names: Names,
    namespaces: Vec<Namespace>,
}

impl Network {
    /// Makes a namespace for every node of `topology`, and carries packets between them from now on.
    ///
    /// # Errors
    /// [`NetError`]; nothing is left then.
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

    /// The namespaces: of the replicas by number, then that of the clients.
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
    /// Never: a topology has the clients as its last node.
    #[must_use]
    pub fn clients(&self) -> &Namespace {
        self.namespaces.last().expect("a topology has the clients as its last node")
    }

    /// What the namespaces are called, if they are; for `ip netns exec`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names.claimed
    }

    /// Where it is told what to change by other processes, if it has a name.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.control.as_ref().and(self.names.socket.as_deref())
    }

    /// Whether another process asked for its end (`down`, over the control socket). It stays up until it is dropped.
    #[must_use]
    pub fn is_told_to_end(&self) -> bool {
        self.running.told_to_end.load(Ordering::Acquire)
    }

    /// The links as they are now.
    #[must_use]
    pub fn links(&self) -> Topology {
        self.running.links()
    }

    /// Changes the links from `from` to `to`: numbers, `clients`, or `*` for all. `link` is read as
    /// [`Link::change`](crate::Link::change) says. Packets under way arrive as they would have.
    ///
    /// # Errors
    /// No such node, not a link, or the emulator is gone; nothing is changed then.
    pub fn set(&self, from: &str, to: &str, link: &str) -> Result<(), NetError> {
        self.running.change(|topology| Ok(topology.change(from, to, link, "set").map(|_| ())?))
    }

    /// Cuts all links between different groups of nodes; nodes in no group keep theirs, what was cut stays cut.
    ///
    /// # Errors
    /// The emulator is gone.
    pub fn partition(&self, groups: &[Vec<usize>]) -> Result<(), NetError> {
        self.running.change(|topology| {
            topology.partition(groups);
            Ok(())
        })
    }

    /// Heals all that is cut.
    ///
    /// # Errors
    /// The emulator is gone.
    pub fn heal(&self) -> Result<(), NetError> {
        self.running.change(|topology| {
            topology.heal();
            Ok(())
        })
    }

    /// What was carried so far.
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

/// Makes what a namespace needs, in the namespace of the calling thread.
fn furnish(
    node: &str,
    address: Ipv4Addr,
    mtu: u16,
    name: Option<&str>,
) -> Result<OwnedFd, NetError> {
    let device = device::open()?;
    // Without it the kernel would ask for routers. Where it has no IPv6 there is no such file.
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
            // What cannot be removed now is found by `leftovers`.
            let _ = leftovers::erase(&self.claimed, socket);
        }
    }
}
