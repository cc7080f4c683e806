//! What a replica keeps on disk, and how it comes back from it: the same code in production and in the simulator.
//!
//! - [`Journal`]: blocks and the safety record in a write-ahead log, one sync a turn;
//! - [`BlockIndex`]: where in it the blocks are, for peers and executors that ask;
//! - `kept`: going on from a checkpoint that the application keeps itself;
//! - [`States`]: snapshots of the replicated state, what is beside checkpoints, and the newest offer;
//! - [`Spool`]: chunks of a snapshot while peers ask for them;
//! - [`create`] and [`open`]: how that is begun, and what of it is believed after a restart.
//!
//! All of it works on two folders ([`Disks`]), whatever these are.
#![forbid(unsafe_code)]

mod index;
mod journal;
mod kept;
mod open;
mod owner;
mod spool;
mod states;

pub use index::BlockIndex;
pub use journal::{BLOCK_RECORD, Journal};
pub use kept::write_whole;
pub use open::{Disks, OpenError, OpenOptions, Opened, create, open};
pub use owner::Owner;
pub use spool::{Spool, Spooled};
pub use states::{OFFER_FILE, OFFER_LIMIT_BYTES, States, StatesError, Whole};
