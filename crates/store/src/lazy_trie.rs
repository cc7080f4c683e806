//! The lazy-trie store: a persistent key-value store in memory-mapped files, with the crate's
//! write-ahead log.
//!
//! Keys are hashed (BLAKE3) to 32 bytes. A 128-ary trie reads them as digits of seven bits. Nodes
//! skip digits that all items below them share (path compression). Items gather in a bucket until
//! there are too many for one (sluggish splitting). So the trie stays shallow and small. The design
//! follows CedrusDB of a doctoral thesis (Yin, 2021); `docs/store.md` lists the deviations.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! use quorate_store::lazy_trie::{Batch, Options, Store};
//! let (store, _) = Store::open(folder.path(), Options::default())?;
//! store.put(b"planet", b"Uranus")?;
//! let mut batch = Batch::new();
//! batch.put(b"planet", b"Neptune")?;
//! batch.delete(b"moon")?;
//! let before = store.snapshot()?;
//! store.write(&batch)?;
//! assert_eq!(before.get_ref(b"planet")?, Some(&b"Uranus"[..]));
//! assert_eq!(store.get(b"planet")?, Some(b"Neptune".to_vec()));
//! # drop(before);
//! # Ok::<(), quorate_store::lazy_trie::Error>(())
//! ```
//!
//! # How it stays whole
//! A checkpoint's data is never overwritten. Changed nodes are copied to other slots (shadows), and
//! slots are reused only when a newer checkpoint is durable. A commit is a record of the log. Its
//! changes to the space are written out later, beside other work and in any order. After a crash
//! the last checkpoint is intact, and the log has the rest. If commits are not logged
//! ([`Options::log_commits`]), the store's owner has the rest.

mod ahead;
mod apart;
mod batch;
mod bucket;
mod capture;
mod check;
mod checkpoint;
mod classes;
mod compact;
mod digests;
mod edit;
mod entry;
mod error;
mod hash;
mod head;
mod item;
mod lanes;
mod ledger;
mod log_side;
mod memory;
mod node;
mod open;
mod options;
mod queue;
mod readers;
mod recover;
mod regions;
mod room;
mod side_by_side;
mod slab;
mod slots;
mod snapshot;
mod space;
mod statistics;
mod store;
mod tree;
mod versions;
mod wish;
mod writer;

pub use batch::{BATCH_LIMIT_BYTES, Batch};
pub use check::{Checked, Damage};
pub use checkpoint::Checkpoint;
pub use compact::Compacted;
pub use error::Error;
pub use hash::Hash;
pub use head::FORMAT_VERSION;
pub use item::{Item, KEY_LIMIT_BYTES, Name, VALUE_LIMIT_BYTES};
pub use open::Recovered;
pub use options::{Durability, Options, Proofs, Recovery, WriteOut};
pub use snapshot::{Iter, Snapshot};
pub use statistics::Statistics;
pub use store::Store;
