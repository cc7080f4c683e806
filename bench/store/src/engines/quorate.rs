//! This store.

use super::{Durable, Engine, Failure, Key, Put, Setup, Value, copy};
use quorate_store::lazy_trie::{Batch, Durability, Error, Options, Store};
use std::path::Path;
use std::time::{Duration, Instant};

const LOCK_WAIT: Duration = Duration::from_secs(10);

pub struct Quorate(Store);

impl Quorate {
    pub fn open(folder: &Path, setup: Setup) -> Result<Quorate, Failure> {
        let durability = match setup.durable {
            Durable::Os => Durability::Os,
            Durable::Sync => Durability::Sync,
        };
        let mut options = Options { durability, ..Options::default() };
        options.bucket_items = setup.bucket_items.unwrap_or(options.bucket_items);
        let begun = Instant::now();
        loop {
            match Store::open(folder, options.clone()) {
                // A process that was killed a moment ago is still on its way out.
                Err(Error::Lock(_)) if begun.elapsed() < LOCK_WAIT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => return Ok(Quorate(opened?.0)),
            }
        }
    }
}

impl Engine for Quorate {
    fn read(&self, key: &Key, value: &mut Value) -> Result<bool, Failure> {
        self.0.get_with(key, |bytes| copy(bytes, value))?.unwrap_or(Ok(false))
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

    fn modify(&self, key: &Key, change: &mut dyn FnMut(&mut Value)) -> Result<(), Failure> {
        Ok(self.0.merge(key, |value| {
            let mut value: Value = value?.try_into().ok()?;
            change(&mut value);
            Some(value.to_vec())
        })?)
    }

    /// The second gives back the slots that the first has freed.
    fn settle(&self) -> Result<(), Failure> {
        self.0.checkpoint()?;
        Ok(self.0.checkpoint()?)
    }

    fn tree_bytes(&self) -> Option<[u64; 2]> {
        let statistics = self.0.statistics();
        Some([statistics.node_slot_bytes, statistics.bucket_slot_bytes])
    }
}
