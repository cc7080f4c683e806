//! The engines behind one small trait, each set up as its manual says for data that fits in memory.
//! What none of them is given: compression (the values are random), direct I/O (the page cache is
//! what all share).

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "heed")]
mod lmdb;
mod quorate;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use crate::workload::{KEY_BYTES, VALUE_BYTES};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Memory for a cache of its own, for engines that want one: more than the data at 10^7 items.
#[cfg(any(feature = "redb", feature = "fjall", feature = "rocksdb"))]
const CACHE_BYTES: usize = 8 << 30;

/// How far a commit goes before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durable {
    /// The operating system has it: it survives `kill -9`.
    Os,
    /// The disk has it: it survives the loss of power.
    Sync,
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub durable: Durable,
    /// Of this store: the threshold of sluggish splitting, if not its default.
    pub bucket_items: Option<usize>,
}

pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Key = [u8; KEY_BYTES];
pub type Value = [u8; VALUE_BYTES];
pub type Put = (Key, Value);

/// A store under measurement. Every engine does the same: a read copies the value, of the newest
/// commit.
pub trait Engine: Send + Sync {
    /// Copies an item's value; whether there is one.
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure>;
    /// Commits puts as one batch.
    fn write(&self, puts: &[Put]) -> Result<(), Failure>;
    /// Reads an item, changes it and writes it back as a commit of its own, with no other change of
    /// it in between.
    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure>;
    /// Pays what was put off: memory written out, all of it on disk, compactions done that are due.
    fn settle(&self) -> Result<(), Failure>;
    /// Nodes and buckets of this store's tree, in bytes.
    fn tree_bytes(&self) -> Option<[u64; 2]> {
        None
    }
}

/// The engines of this build, with what they risk.
pub const NAMES: &[&str] = &[
    "quorate",
    #[cfg(feature = "heed")]
    "lmdb",
    #[cfg(feature = "heed")]
    "lmdb-writemap",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "redb")]
    "redb-none",
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// Bytes on disk per byte of data at the most, seen while loading and under updates: for the
/// estimate before a run.
pub fn disk_factor(name: &str) -> f64 {
    match name {
        "quorate" => 1.5,
        "redb" | "redb-none" => 4.0,
        _ => 3.0,
    }
}

/// # Errors
/// Those of the engine, and a name that this build does not have.
pub fn open(name: &str, folder: &Path, setup: Setup) -> Result<Box<dyn Engine>, Failure> {
    std::fs::create_dir_all(folder)?;
    match name {
        "quorate" => Ok(Box::new(quorate::Quorate::open(folder, setup)?)),
        #[cfg(feature = "heed")]
        "lmdb" | "lmdb-writemap" => {
            Ok(Box::new(lmdb::Lmdb::open(folder, setup.durable, name == "lmdb-writemap")?))
        }
        #[cfg(feature = "redb")]
        "redb" | "redb-none" => Ok(Box::new(redb::Redb::open(folder, name == "redb-none")?)),
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Box::new(fjall::Fjall::open(folder, setup.durable)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(rocksdb::Rocks::open(folder, setup.durable)?)),
        _ => Err(format!("no engine {name}; this build has {}", NAMES.join(", ")).into()),
    }
}

fn copy(from: &[u8], value: &mut Value) -> Result<bool, Failure> {
    *value = from.try_into().map_err(|_| format!("a value of {} bytes", from.len()))?;
    Ok(true)
}

/// For engines without a read-modify-write of their own: locks, each for a share of the keys, so
/// that others go on.
#[cfg(any(feature = "fjall", feature = "rocksdb"))]
#[derive(Default)]
struct KeyLocks([std::sync::Mutex<()>; 32]);

#[cfg(any(feature = "fjall", feature = "rocksdb"))]
impl KeyLocks {
    fn lock(&self, key: &Key) -> std::sync::MutexGuard<'_, ()> {
        let lock = &self.0[usize::from(key[KEY_BYTES - 1]) % self.0.len()];
        lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
