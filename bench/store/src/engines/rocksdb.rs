//! RocksDB.

use super::{CACHE_BYTES, Durable, Engine, Failure, Key, KeyLocks, Put, Value, copy};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::Path;

const BLOCK_BYTES: usize = 4 << 10;

pub struct Rocks {
    database: DB,
    write: WriteOptions,
    locks: KeyLocks,
}

impl Rocks {
    /// The manual's "basic tuning" (dynamic levels, 1 MiB a sync of files in the background,
    /// whole-key Bloom filters of 10 bits, a large cache), for two cores, and what it says of data
    /// that is cached: the cache without locks, blocks of 4 KiB with hash indexes, indexes and
    /// filters in memory, no filters in the last level where reads hit. Memtables of 64 MiB, up to
    /// 4 of them.
    pub fn open(folder: &Path, durable: Durable) -> Result<Rocks, Failure> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_hyper_clock_cache(CACHE_BYTES, BLOCK_BYTES));
        table.set_block_size(BLOCK_BYTES);
        table.set_bloom_filter(10.0, false);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_optimize_filters_for_hits(true);
        options.set_bytes_per_sync(1 << 20);
        options.increase_parallelism(2);
        options.set_write_buffer_size(64 << 20);
        options.set_max_write_buffer_number(4);
        options.set_compression_type(DBCompressionType::None);
        options.set_enable_pipelined_write(true);
        let database = DB::open(&options, folder)?;
        let mut write = WriteOptions::default();
        write.set_sync(durable == Durable::Sync);
        Ok(Rocks { database, write, locks: KeyLocks::default() })
    }
}

impl Engine for Rocks {
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure> {
        self.database.get_pinned(key)?.map_or(Ok(false), |bytes| copy(&bytes, value))
    }

    fn write(&self, puts: &[Put]) -> Result<(), Failure> {
        if let [(key, value)] = puts {
            return Ok(self.database.put_opt(key, value, &self.write)?);
        }
        let mut batch = WriteBatch::default();
        for (key, value) in puts {
            batch.put(key, value);
        }
        Ok(self.database.write_opt(batch, &self.write)?)
    }

    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure> {
        let _one = self.locks.lock(key);
        let mut value = [0; _];
        if self.read(key, &mut value)? {
            change(&mut value);
            self.database.put_opt(key, value, &self.write)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        Ok(self.database.wait_for_compact(&wait)?)
    }
}
