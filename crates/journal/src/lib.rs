//! The durable data of a replica, and recovery from it. Production and the simulator run the same
//! code.
//!
//! - [`Journal`]: blocks and the safety record in a write-ahead log, one sync a turn;
//! - [`BlockIndex`]: the positions of the blocks in the log, for peers and executors that ask;
//! - `kept`: restart from a checkpoint that the application keeps itself;
//! - [`States`]: snapshots of the replicated state, the parts beside checkpoints, and the newest
//!   offer;
//! - [`Spool`]: chunks of a snapshot while peers ask for them;
//! - [`create`] and [`open`]: how data is begun, and how it is recovered after a restart;
//! - [`restore`]: a state from a backup, for a replica that has none.
//!
//! All of it works on two folders ([`Disks`]) of any kind.
#![forbid(unsafe_code)]

mod epochs;
mod index;
mod journal;
mod kept;
mod open;
mod owner;
mod restored;
mod spool;
mod states;

pub use index::BlockIndex;
pub use journal::{BLOCK_RECORD, Journal};
pub use kept::write_whole;
pub use open::{Disks, OpenError, OpenOptions, Opened, create, open};
pub use owner::Owner;
pub use restored::{Restored, restore};
pub use spool::{Spool, Spooled};
pub use states::{Chunks, OFFER_FILE, OFFER_LIMIT_BYTES, States, StatesError, Whole, Written};
