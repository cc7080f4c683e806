//! Why a network cannot be had.

use std::io;
use std::path::PathBuf;

use crate::topology::TopologyError;

/// Why a network cannot be had; [`NetError::remedy`] says what helps.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// Who runs this may not make namespaces.
    #[error("network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {0}")]
    NotPermitted(io::Error),
    /// There is no TUN device.
    #[error("cannot open /dev/net/tun: {0}")]
    NoTun(io::Error),
    /// The program `ip` is not there.
    #[error("the program `ip` is not there")]
    NoIp,
    /// `ip` did not do what it was told.
    #[error("ip failed in the namespace of node {node}: {words}")]
    Program {
        /// Of which node.
        node: String,
        /// What it said.
        words: String,
    },
    /// A name that cannot be one of a network.
    #[error("{0:?} cannot be the name of a network")]
    Name(String),
    /// There is one of this name.
    #[error("there is a network {name:?} already ({})", place.display())]
    Clash {
        /// The name.
        name: String,
        /// Its namespace.
        place: PathBuf,
    },
    /// The description.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A call to the system.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The emulator is gone: its thread ended by an error.
    #[error("the emulator has stopped: {0}")]
    Stopped(String),
    /// What was asked of a running network is not understood or not possible.
    #[error("{0}")]
    Refused(String),
}

impl NetError {
    /// What helps against it.
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

    /// What a call that `doing` describes ended with.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}
