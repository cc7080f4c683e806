//! LMDB. `lmdb` writes through `pwrite`; `lmdb-writemap` through the map, which its manual calls
//! faster and at the mercy of stray writes. Without syncs, both may be corrupt after a loss of
//! power unless the file system keeps the order of writes.

use super::{Durable, Engine, Failure, Key, Put, Value, copy};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Of address space, and of a sparse file with `WRITE_MAP`.
const MAP_BYTES: usize = 256 << 30;

pub struct Lmdb {
    env: Env,
    items: Database<Bytes, Bytes>,
}

impl Lmdb {
    /// The manual's flags: no sync where none is wanted (with the map, that includes `MAPASYNC`),
    /// and unused parts of pages not cleared. Readers keep their slot in thread-local storage, as
    /// by default.
    pub fn open(folder: &Path, durable: Durable, write_map: bool) -> Result<Lmdb, Failure> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        let mut flags = EnvFlags::NO_MEM_INIT;
        if durable == Durable::Os {
            flags |= EnvFlags::NO_SYNC;
        }
        if write_map {
            flags |= EnvFlags::WRITE_MAP;
        }
        // SAFETY: no other program uses the folder.
        let env = unsafe {
            options.flags(flags);
            options.open(folder)?
        };
        let mut write = env.write_txn()?;
        let items = env.create_database(&mut write, None)?;
        write.commit()?;
        Ok(Lmdb { env, items })
    }
}

impl Engine for Lmdb {
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure> {
        let read = self.env.read_txn()?;
        self.items.get(&read, key)?.map_or(Ok(false), |bytes| copy(bytes, value))
    }

    fn write(&self, puts: &[Put]) -> Result<(), Failure> {
        let mut write = self.env.write_txn()?;
        for (key, value) in puts {
            self.items.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure> {
        let mut write = self.env.write_txn()?;
        let mut value = [0; _];
        if let Some(bytes) = self.items.get(&write, key)? {
            copy(bytes, &mut value)?;
            change(&mut value);
            self.items.put(&mut write, key, &value)?;
        }
        Ok(write.commit()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.env.force_sync()?)
    }
}
