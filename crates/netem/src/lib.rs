//! Emulated networks on one machine: every replica in a network namespace of its own, and between any two of
//! them a link with delay, jitter, loss, reordering, duplication, bandwidth with a bounded queue, and partitions.
//!
//! What runs in the namespaces is not changed and talks through the kernel's real TCP and UDP. Each namespace has a
//! TUN device; one thread of ours ([`emulator`]) reads the packets of all, holds each as long as its link says, and
//! writes it to the device of the namespace it is for.
//!
//! - [`link`]: what a link does to packets, as text and checked;
//! - [`topology`]: the nodes and the links between them, from a matrix or a [`preset`];
//! - [`network`]: a network that is up: start processes in it, change it, take it down;
//! - [`control`]: change a running network from another process;
//! - [`measure`]: what was asked for against what is observed;
//! - [`leftovers`]: what owners that died left behind.
//!
//! Everything is undone when the owner ends, however it ends: namespaces are held by file descriptors and so are the
//! devices. Only a *named* network (for `ip netns exec`) leaves names behind when its owner is killed; they carry
//! the number of the owner, and are removed by whoever comes next.
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
