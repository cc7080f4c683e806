//! Folders of disks that a test has in hand.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use quorate_app::kv::disk::{Folders, Shelf};
use quorate_store::disk::{Disk, MemoryDisk};
use quorate_store::lazy_trie::{Options, WriteOut};

/// Folders in memory; clones share them.
#[derive(Clone, Default)]
pub struct InMemory(pub Arc<Mutex<BTreeMap<u64, MemoryDisk>>>);

impl InMemory {
    pub fn shelf(&self) -> Arc<Shelf> {
        Shelf::open(self.clone(), small()).expect("a shelf")
    }

    /// With room for the longest values.
    pub fn roomy_shelf(&self) -> Arc<Shelf> {
        let options = Options { write_out: WriteOut::Inline, ..Options::default() };
        Shelf::open(self.clone(), options).expect("a shelf")
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap().keys().copied().collect()
    }
}

impl Folders for InMemory {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.numbers())
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(self.0.lock().unwrap().entry(number).or_default().clone()))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.0.lock().unwrap().remove(&number);
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        format!("state/{number:06}")
    }
}

/// Small files, and checkpoints often.
pub fn small() -> Options {
    Options {
        bucket_items: 4,
        slab_bytes: 4096,
        region_bytes: 256 << 10,
        segment_bytes: 64 << 10,
        checkpoint_bytes: 32 << 10,
        write_buffer_bytes: 4 << 20,
        limit_bytes: 64 << 20,
        write_out: WriteOut::Inline,
        ..Options::default()
    }
}
