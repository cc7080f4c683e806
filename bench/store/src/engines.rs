//! The engines, each set up as its manual says for data that fits in memory, behind one small trait.

use crate::workload::VALUE_BYTES;
use std::path::Path;

/// How far a commit goes before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The operating system has it: it survives `kill -9`.
    Os,
    /// The disk has it: it survives the loss of power.
    Sync,
}

pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Put = ([u8; 23], [u8; VALUE_BYTES]);

/// A store under measurement. Reads check that the value is the item's.
pub trait Engine: Send + Sync {
    /// The first eight bytes of an item's value.
    fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure>;
    /// Commits puts as one batch.
    fn write(&self, puts: &[Put]) -> Result<(), Failure>;
    /// Reads an item, changes it and writes it back as a commit of its own.
    fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure>;
    /// Everything on disk and in order, before a measurement.
    fn settle(&self) -> Result<(), Failure>;
    /// Anything worth telling.
    fn report(&self) -> String {
        String::new()
    }
}

fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_le_bytes)
}

pub const NAMES: &[&str] = &[
    "quorate",
    #[cfg(feature = "heed")]
    "lmdb",
    #[cfg(feature = "heed")]
    "lmdb-writemap",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

pub fn open(name: &str, folder: &Path, durable: Durable) -> Result<Box<dyn Engine>, Failure> {
    match name {
        "quorate" => Ok(Box::new(quorate::Quorate::open(folder, durable)?)),
        #[cfg(feature = "heed")]
        "lmdb" | "lmdb-writemap" => {
            Ok(Box::new(lmdb::Lmdb::open(folder, durable, name == "lmdb-writemap")?))
        }
        #[cfg(feature = "redb")]
        "redb" => Ok(Box::new(redb_engine::Redb::open(folder, durable)?)),
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Box::new(fjall_engine::Fjall::open(folder, durable)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(rocks::Rocks::open(folder, durable)?)),
        _ => Err(format!("no engine {name}; there are {NAMES:?}").into()),
    }
}

mod quorate {
    use super::{Durable, Engine, Failure, Put, number};
    use quorate_store::lazy_trie::{Batch, Durability, Options, Store};
    use std::path::Path;

    pub struct Quorate(Store);

    impl Quorate {
        pub fn open(folder: &Path, durable: Durable) -> Result<Quorate, Failure> {
            let durability = match durable {
                Durable::Os => Durability::Os,
                Durable::Sync => Durability::Sync,
            };
            let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
            let mut options = Options { durability, ..Options::default() };
            options.bucket_items = number("BUCKET_ITEMS").unwrap_or(options.bucket_items);
            if let Some(mib) = number("CHECKPOINT_MIB") {
                options.checkpoint_bytes = (mib as u64) << 20;
            }
            Ok(Quorate(Store::open(folder, options)?.0))
        }
    }

    impl Engine for Quorate {
        fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure> {
            Ok(self.0.snapshot()?.get_ref(key)?.and_then(number))
        }

        fn write(&self, puts: &[Put]) -> Result<(), Failure> {
            if let [(key, value)] = puts {
                return Ok(self.0.put(key, value)?);
            }
            let mut batch = Batch::new();
            for (key, value) in puts {
                batch.put(key, value)?;
            }
            Ok(self.0.write(&batch)?)
        }

        fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure> {
            Ok(self.0.merge(key, |value| {
                value.map(|value| {
                    let mut value = value.to_vec();
                    change(&mut value);
                    value
                })
            })?)
        }

        fn settle(&self) -> Result<(), Failure> {
            self.0.checkpoint()?;
            Ok(self.0.checkpoint()?)
        }

        fn report(&self) -> String {
            let s = self.0.statistics();
            let data = s.key_bytes + s.value_bytes;
            let percent = |bytes: u64| 100.0 * bytes as f64 / data.max(1) as f64;
            format!(
                "tree {:.1} % of data (nodes {:.1}, buckets {:.1}), item slots {:.1} %, waiting {:.1} %, space {:.1} %, \
                 checkpoints {}, stalls {} of {:.0} ms",
                percent(s.bucket_slot_bytes + s.node_slot_bytes),
                percent(s.node_slot_bytes),
                percent(s.bucket_slot_bytes),
                percent(s.item_slot_bytes),
                percent(s.waiting_slot_bytes),
                percent(s.space_bytes),
                s.checkpoints,
                s.stalls,
                s.stall_ns as f64 / 1e6,
            )
        }
    }
}

#[cfg(feature = "heed")]
mod lmdb {
    use super::{Durable, Engine, Failure, Put, number};
    use heed::types::Bytes;
    use heed::{Database, Env, EnvFlags, EnvOpenOptions};
    use std::path::Path;

    pub struct Lmdb {
        env: Env,
        items: Database<Bytes, Bytes>,
    }

    impl Lmdb {
        pub fn open(folder: &Path, durable: Durable, write_map: bool) -> Result<Lmdb, Failure> {
            std::fs::create_dir_all(folder)?;
            let mut options = EnvOpenOptions::new();
            options.map_size(64 << 30);
            let mut flags = EnvFlags::empty();
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
        fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure> {
            let read = self.env.read_txn()?;
            Ok(self.items.get(&read, key)?.and_then(number))
        }

        fn write(&self, puts: &[Put]) -> Result<(), Failure> {
            let mut write = self.env.write_txn()?;
            for (key, value) in puts {
                self.items.put(&mut write, key, value)?;
            }
            Ok(write.commit()?)
        }

        fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure> {
            let mut write = self.env.write_txn()?;
            if let Some(value) = self.items.get(&write, key)? {
                let mut value = value.to_vec();
                change(&mut value);
                self.items.put(&mut write, key, &value)?;
            }
            Ok(write.commit()?)
        }

        fn settle(&self) -> Result<(), Failure> {
            Ok(self.env.force_sync()?)
        }
    }
}

#[cfg(feature = "redb")]
mod redb_engine {
    use super::{Durable, Engine, Failure, Put, number};
    use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
    use std::path::Path;

    const ITEMS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("items");

    pub struct Redb {
        database: Database,
        durability: Durability,
    }

    impl Redb {
        pub fn open(folder: &Path, durable: Durable) -> Result<Redb, Failure> {
            std::fs::create_dir_all(folder)?;
            let mut builder = Database::builder();
            builder.set_cache_size(8 << 30);
            let database = builder.create(folder.join("items.redb"))?;
            let write = database.begin_write()?;
            write.open_table(ITEMS)?;
            write.commit()?;
            // It has nothing between memory and disk: with `Os` its commits do not even survive the process.
            let durability = match durable {
                Durable::Os => Durability::None,
                Durable::Sync => Durability::Immediate,
            };
            Ok(Redb { database, durability })
        }
    }

    impl Engine for Redb {
        fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure> {
            let read = self.database.begin_read()?;
            let items = read.open_table(ITEMS)?;
            Ok(items.get(key)?.and_then(|value| number(value.value())))
        }

        fn write(&self, puts: &[Put]) -> Result<(), Failure> {
            let mut write = self.database.begin_write()?;
            write.set_durability(self.durability)?;
            {
                let mut items = write.open_table(ITEMS)?;
                for (key, value) in puts {
                    items.insert(key.as_slice(), value.as_slice())?;
                }
            }
            Ok(write.commit()?)
        }

        fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure> {
            let mut write = self.database.begin_write()?;
            write.set_durability(self.durability)?;
            {
                let mut items = write.open_table(ITEMS)?;
                let old = items.get(key.as_slice())?.map(|value| value.value().to_vec());
                if let Some(mut value) = old {
                    change(&mut value);
                    items.insert(key.as_slice(), value.as_slice())?;
                }
            }
            Ok(write.commit()?)
        }

        fn settle(&self) -> Result<(), Failure> {
            Ok(self.database.begin_write()?.commit()?)
        }
    }
}

#[cfg(feature = "fjall")]
mod fjall_engine {
    use super::{Durable, Engine, Failure, Put, number};
    use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
    use std::path::Path;
    use std::sync::Mutex;

    pub struct Fjall {
        database: Database,
        items: Keyspace,
        mode: PersistMode,
        modifying: Mutex<()>,
    }

    impl Fjall {
        pub fn open(folder: &Path, durable: Durable) -> Result<Fjall, Failure> {
            let database = Database::builder(folder).cache_size(8 << 30).open()?;
            let items = database.keyspace("items", KeyspaceCreateOptions::default)?;
            let mode = match durable {
                Durable::Os => PersistMode::Buffer,
                Durable::Sync => PersistMode::SyncData,
            };
            Ok(Fjall { database, items, mode, modifying: Mutex::new(()) })
        }
    }

    impl Engine for Fjall {
        fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure> {
            Ok(self.items.get(key)?.and_then(|value| number(&value)))
        }

        fn write(&self, puts: &[Put]) -> Result<(), Failure> {
            let mut batch = self.database.batch().durability(Some(self.mode));
            for (key, value) in puts {
                batch.insert(&self.items, key.as_slice(), value.as_slice());
            }
            Ok(batch.commit()?)
        }

        fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure> {
            let _one = self.modifying.lock();
            if let Some(value) = self.items.get(key)? {
                let mut value = value.to_vec();
                change(&mut value);
                self.items.insert(key.as_slice(), value)?;
                self.database.persist(self.mode)?;
            }
            Ok(())
        }

        fn settle(&self) -> Result<(), Failure> {
            Ok(self.database.persist(PersistMode::SyncAll)?)
        }
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::{Durable, Engine, Failure, Put, number};
    use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBatch, WriteOptions};
    use std::path::Path;
    use std::sync::Mutex;

    pub struct Rocks {
        database: DB,
        write: WriteOptions,
        modifying: Mutex<()>,
    }

    impl Rocks {
        /// As the tuning guide's "other general options", with a cache that holds everything and whole-key Bloom filters.
        pub fn open(folder: &Path, durable: Durable) -> Result<Rocks, Failure> {
            let mut table = BlockBasedOptions::default();
            table.set_block_cache(&Cache::new_lru_cache(8 << 30));
            table.set_bloom_filter(10.0, false);
            table.set_block_size(16 << 10);
            table.set_cache_index_and_filter_blocks(true);
            table.set_pin_l0_filter_and_index_blocks_in_cache(true);
            table.set_format_version(5);
            let mut options = Options::default();
            options.create_if_missing(true);
            options.set_block_based_table_factory(&table);
            options.set_level_compaction_dynamic_level_bytes(true);
            options.set_bytes_per_sync(1 << 20);
            options.increase_parallelism(2);
            options.set_max_background_jobs(2);
            options.set_write_buffer_size(64 << 20);
            options.set_max_write_buffer_number(4);
            options.set_compression_type(rocksdb::DBCompressionType::None);
            options.set_enable_pipelined_write(true);
            let database = DB::open(&options, folder)?;
            let mut write = WriteOptions::default();
            write.set_sync(durable == Durable::Sync);
            Ok(Rocks { database, write, modifying: Mutex::new(()) })
        }
    }

    impl Engine for Rocks {
        fn read(&self, key: &[u8]) -> Result<Option<u64>, Failure> {
            Ok(self.database.get_pinned(key)?.and_then(|value| number(&value)))
        }

        fn write(&self, puts: &[Put]) -> Result<(), Failure> {
            let mut batch = WriteBatch::default();
            for (key, value) in puts {
                batch.put(key, value);
            }
            Ok(self.database.write_opt(&batch, &self.write)?)
        }

        fn modify(&self, key: &[u8; 23], change: &mut dyn FnMut(&mut [u8])) -> Result<(), Failure> {
            let _one = self.modifying.lock();
            if let Some(mut value) = self.database.get(key)? {
                change(&mut value);
                self.database.put_opt(key, value, &self.write)?;
            }
            Ok(())
        }

        fn settle(&self) -> Result<(), Failure> {
            self.database.flush()?;
            self.database.compact_range::<&[u8], &[u8]>(None, None);
            Ok(())
        }
    }
}
