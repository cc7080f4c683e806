//! redb. It has nothing between memory and disk: a commit is synced (`redb`, whatever is asked
//! for), or is lost with the process (`redb-none`).

use super::{CACHE_BYTES, Engine, Failure, Key, Put, Value, copy};
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const ITEMS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("items");
/// Without a durable commit now and then, pages of the last one are not used again and the file
/// grows.
const DURABLE_EVERY: Duration = Duration::from_secs(1);

pub struct Redb {
    database: Database,
    /// When the last durable commit was, if not all are.
    durable: Option<Mutex<Instant>>,
}

impl Redb {
    pub fn open(folder: &Path, none: bool) -> Result<Redb, Failure> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(folder.join("items.redb"))?;
        let write = database.begin_write()?;
        write.open_table(ITEMS)?;
        write.commit()?;
        Ok(Redb { database, durable: none.then(|| Mutex::new(Instant::now())) })
    }

    fn begin(&self) -> Result<WriteTransaction, Failure> {
        let mut write = self.database.begin_write()?;
        if let Some(last) = &self.durable {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() > DURABLE_EVERY {
                *last = Instant::now();
            } else {
                write.set_durability(Durability::None)?;
            }
        }
        Ok(write)
    }
}

impl Engine for Redb {
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure> {
        let read = self.database.begin_read()?;
        let items = read.open_table(ITEMS)?;
        items.get(key.as_slice())?.map_or(Ok(false), |found| copy(found.value(), value))
    }

    fn write(&self, puts: &[Put]) -> Result<(), Failure> {
        let write = self.begin()?;
        {
            let mut items = write.open_table(ITEMS)?;
            for (key, value) in puts {
                items.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(write.commit()?)
    }

    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure> {
        let write = self.begin()?;
        {
            let mut items = write.open_table(ITEMS)?;
            let mut value = [0; _];
            let there = match items.get(key.as_slice())? {
                Some(found) => copy(found.value(), &mut value)?,
                None => false,
            };
            if there {
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
