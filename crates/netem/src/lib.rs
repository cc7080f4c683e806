//! Emulated networks on one machine. Every replica has a network namespace of its own. Between any
//! two replicas is a link with delay, jitter, loss, reordering, duplication, bandwidth with a
//! bounded queue, and partitions.
//!
//! Programs in the namespaces run unchanged and use the kernel's real TCP and UDP. Each namespace
//! has a TUN device. One thread, the [`emulator`], reads the packets of all devices, holds each as
//! long as its link demands, and writes it to the device of the destination.
//!
//! - [`link`]: the effect of a link on packets, as checked text;
//! - [`topology`]: the nodes and the links between them, from a matrix or a [`preset`];
//! - [`network`]: a running network: start processes in it, change it, take it down;
//! - [`control`]: changes of a running network from another process;
//! - [`measure`]: requested against observed behaviour of links;
//! - [`leftovers`]: the traces of owners that died.
//!
//! Everything is undone when the owner ends, even if it is killed, because file descriptors hold
//! the namespaces and the devices. Only a *named* network (for `ip netns exec`) leaves names behind
//! when its owner is killed. They contain the owner's process id, and the next owner removes them.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod control;
pub mod emulator;
pub mod error;
pub mod leftovers;
pub mod link;
pub mod measure;
pub mod namespace;
pub mod network;
pub mod preset;
pub mod topology;
pub mod units;

mod device;
mod pool;
mod random;
mod shaper;

pub use error::NetError;
pub use link::{Distribution, Link};
pub use namespace::Namespace;
pub use network::{Naming, Network, Settings};
pub use topology::Topology;
