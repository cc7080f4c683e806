//! The errors of networks, with their remedies.

use std::io;
use std::path::PathBuf;

use crate::topology::TopologyError;

/// The reason why a network cannot be used; [`NetError::remedy`] gives the remedy.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The user may not create namespaces.
    #[error("network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {0}")]
    NotPermitted(io::Error),
    /// There is no TUN device.
    #[error("cannot open /dev/net/tun: {0}")]
    NoTun(io::Error),
    /// The program `ip` is missing.
    #[error("the program `ip` is not there")]
    NoIp,
    /// `ip` failed.
    #[error("ip failed in the namespace of node {node}: {words}")]
    Program {
        /// The node.
        node: String,
        /// The message of `ip`.
        words: String,
    },
    /// A name that is not allowed for a network.
    #[error("{0:?} cannot be the name of a network")]
    Name(String),
    /// A network with this name exists.
    #[error("there is a network {name:?} already ({})", place.display())]
    Clash {
        /// The name.
        name: String,
        /// Its namespace.
        place: PathBuf,
    },
    /// The description is invalid.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The emulator's thread ended with an error.
    #[error("the emulator has stopped: {0}")]
    Stopped(String),
    /// A request to a running network is malformed or impossible.
    #[error("{0}")]
    Refused(String),
}

impl NetError {
    /// The remedy, if one is known.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotPermitted(_) => "run this with sudo",
            Self::NoTun(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "run this with sudo"
            }
            Self::NoTun(_) => {
                "load the module (modprobe tun), and in a container pass the device (--device \
                 /dev/net/tun)"
            }
            Self::NoIp => "install iproute2 (apt-get install iproute2)",
            Self::Program { .. } => {
                "see what `ip` says, and that no other program changes these namespaces"
            }
            Self::Name(_) => "take 1 to 16 of a-z and 0-9",
            Self::Clash { .. } => "take another name, or take that one down",
            Self::Topology(_) | Self::Refused(_) => {
                "docs/networks.md says how a network is described"
            }
            Self::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run this with sudo"
            }
            Self::System { .. } => "see to the cause, and try again",
            Self::Stopped(_) => "take the network down, and up again",
        }
    }

    /// Wraps the error of the system call that `doing` describes.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}
