//! fjall.

use super::{CACHE_BYTES, Durable, Engine, Failure, Key, KeyLocks, Put, Value, copy};
use fjall::config::{CompressionPolicy, HashRatioPolicy, PinningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::time::Duration;

pub struct Fjall {
    database: Database,
    items: Keyspace,
    durable: Durable,
    locks: KeyLocks,
}

impl Fjall {
    /// The manual: a cache for all if the data fits, hash indexes in blocks and pinned index blocks
    /// for what is cached, no filters in the last level where reads hit; blocks of 4 KiB and
    /// memtables of 64 MiB as by default; as many threads as cores.
    pub fn open(folder: &Path, durable: Durable) -> Result<Fjall, Failure> {
        let database = Database::builder(folder).cache_size(CACHE_BYTES as u64).open()?;
        let items = database.keyspace("items", || {
            KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .data_block_hash_ratio_policy(HashRatioPolicy::all(0.75))
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .expect_point_read_hits(true)
        })?;
        Ok(Fjall { database, items, durable, locks: KeyLocks::default() })
    }

    /// Each insert and batch hands its journal to the operating system anyway.
    fn persist(&self) -> Result<(), Failure> {
        if self.durable == Durable::Sync {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure> {
        self.items.get(key)?.map_or(Ok(false), |bytes| copy(&bytes, value))
    }

    fn write(&self, puts: &[Put]) -> Result<(), Failure> {
        if let [(key, value)] = puts {
            self.items.insert(key.as_slice(), value.as_slice())?;
            return self.persist();
        }
        let mode = match self.durable {
            Durable::Os => PersistMode::Buffer,
            Durable::Sync => PersistMode::SyncData,
        };
        let mut batch = self.database.batch().durability(Some(mode));
        for (key, value) in puts {
            batch.insert(&self.items, key.as_slice(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure> {
        let _one = self.locks.lock(key);
        let mut value = [0; _];
        if self.read(key, &mut value)? {
            change(&mut value);
            self.items.insert(key.as_slice(), value.as_slice())?;
        }
        self.persist()
    }

    fn settle(&self) -> Result<(), Failure> {
        self.database.persist(PersistMode::SyncAll)?;
        self.items.rotate_memtable_and_wait()?;
        let mut completed = usize::MAX;
        while self.database.outstanding_flushes() > 0
            || self.database.active_compactions() > 0
            || completed != self.database.compactions_completed()
        {
            completed = self.database.compactions_completed();
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}
