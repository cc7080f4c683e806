//! Named networks, as visible in the file system: running ones, and those of killed owners. A
//! killed owner leaves only the names of its namespaces and its control socket. Its devices, its
//! memory and its emulator are gone.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::error::NetError;
use crate::namespace::Namespace;
use crate::network::address_of;
use crate::topology::Topology;

/// The folder in which `ip netns` keeps names.
pub const NAMES: &str = "/run/netns";
/// The folder of the control sockets of running networks.
pub const SOCKETS: &str = "/run/quorate-net";
const PREFIX: &str = "quorate-";

/// A named network with traces in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The process id of its owner.
    pub owner: u32,
    /// Whether that process is alive. Another process with its id does not count, since only the
    /// owner holds the control socket.
    pub alive: bool,
    /// Its namespaces, as named for `ip netns exec`.
    pub namespaces: Vec<String>,
    /// Its control socket.
    pub socket: PathBuf,
}

impl Found {
    /// The namespace of a node of its topology.
    ///
    /// # Errors
    /// It does not exist, or cannot be opened.
    pub fn namespace(&self, topology: &Topology, node: usize) -> Result<Namespace, NetError> {
        let Some(called) = topology.names().get(node) else {
            return Err(NetError::Refused(format!("there is no node {node}")));
        };
        let name = namespace_name(self.owner, &self.name, called);
        Namespace::open(&name, called, address_of(node))
    }

    /// The ids of the processes in its namespaces.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let place = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        let ours: Vec<_> =
            self.namespaces.iter().filter_map(|name| place(&Path::new(NAMES).join(name))).collect();
        let numbers = names_in("/proc").into_iter().filter_map(|name| name.parse().ok());
        let inside = |process: &u32| {
            place(Path::new(&format!("/proc/{process}/ns/net")))
                .is_some_and(|place| ours.contains(&place))
        };
        numbers.filter(inside).collect()
    }
}

/// Whether the owner is alive. A process with its id that does not listen on the socket is another
/// one.
fn lives(owner: u32, socket: &Path) -> bool {
    let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    Path::new(&format!("/proc/{owner}")).exists()
        && !UnixStream::connect(socket).is_err_and(refused)
}

/// The name of a namespace.
pub(crate) fn namespace_name(owner: u32, network: &str, node: &str) -> String {
    format!("{PREFIX}{owner}-{network}-{node}")
}

/// The path of a network's control socket.
pub(crate) fn socket_path(owner: u32, network: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{owner}-{network}.sock"))
}

/// Whether `name` is allowed for a network.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=16).contains(&name.len()) && name.bytes().all(allowed)
}

/// The owner, the network and the node of a namespace's name.
fn parse(name: &str) -> Option<(u32, &str, &str)> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let owner = parts.next()?.parse().ok()?;
    let network = parts.next().filter(|network| is_name(network))?;
    Some((owner, network, parts.next()?))
}

/// The owner and the network of a socket's name.
fn parse_socket(name: &str) -> Option<(u32, &str)> {
    let (owner, network) = name.strip_suffix(".sock")?.split_once('-')?;
    Some((owner.parse().ok()?, Some(network).filter(|network| is_name(network))?))
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// All named networks, of living owners and of dead ones.
#[must_use]
pub fn find() -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    let mut note = |owner: u32, network: &str, namespace: Option<&String>| {
        let place = all.iter().position(|found| found.owner == owner && found.name == network);
        let place = place.unwrap_or_else(|| {
            let socket = socket_path(owner, network);
            all.push(Found {
                name: network.to_owned(),
                owner,
                alive: lives(owner, &socket),
                namespaces: Vec::new(),
                socket,
            });
            all.len() - 1
        });
        if let Some(found) = all.get_mut(place) {
            found.namespaces.extend(namespace.cloned());
        }
    };
    for name in names_in(NAMES) {
        if let Some((owner, network, _)) = parse(&name) {
            note(owner, network, Some(&name));
        }
    }
    for name in names_in(SOCKETS) {
        if let Some((owner, network)) = parse_socket(&name) {
            note(owner, network, None);
        }
    }
    all
}

/// Removes the traces of dead owners, and nothing else. Returns the networks removed.
///
/// # Errors
/// `ip` is missing or fails.
pub fn remove() -> Result<Vec<Found>, NetError> {
    let dead: Vec<Found> = find().into_iter().filter(|found| !found.alive).collect();
    for found in &dead {
        erase(&found.namespaces, &found.socket)?;
    }
    Ok(dead)
}

/// Removes names and a socket. It is no error if they are gone already.
pub(crate) fn erase(namespaces: &[String], socket: &Path) -> Result<(), NetError> {
    for name in namespaces {
        let is_there = || Path::new(NAMES).join(name).exists();
        if is_there()
            && let Err(error) =
                crate::namespace::run_ip(name, &["netns", "delete", name.as_str()], "")
            && is_there()
        {
            return Err(error);
        }
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(NetError::system(format!("removing {}", socket.display()))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
