//! A simulated machine with the folders of a replica.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use quorate_app::kv::disk::{Folders, Shelf};
use quorate_app::kv::{Disk, KeyValue};
use quorate_core::Height;
use quorate_core::protocols::hotstuff::Types;
use quorate_journal::{Disks, OpenError, OpenOptions, Opened};
use quorate_store::disk::{self, Fate, Machine, PowerDisk};
use quorate_store::lazy_trie::{self, WriteOut};
use quorate_store::wal::{self, Durability};

use super::chain::{LIMITS, owner};

/// The folders of the application's state.
#[derive(Clone)]
pub struct StateFolders(pub Arc<Mutex<BTreeMap<u64, PowerDisk>>>, Machine);

impl Folders for StateFolders {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.lock().unwrap().keys().copied().collect())
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn disk::Disk>> {
        let mut folders = self.0.lock().unwrap();
        Ok(Arc::new(folders.entry(number).or_insert_with(|| PowerDisk::new(&self.1)).clone()))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        // Without power nothing can be removed.
        if !self.1.is_off() {
            self.0.lock().unwrap().remove(&number);
        }
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        format!("state/{number:06}")
    }
}

/// A replica's machine.
pub struct Site {
    pub machine: Machine,
    pub log: PowerDisk,
    pub states: PowerDisk,
    pub folders: StateFolders,
}

impl Site {
    /// A machine with a new log.
    pub fn new() -> Self {
        let machine = Machine::new();
        let site = Self {
            log: PowerDisk::new(&machine),
            states: PowerDisk::new(&machine),
            folders: StateFolders(Arc::default(), machine.clone()),
            machine,
        };
        quorate_journal::create(Arc::new(site.log.clone()), log_options(), &owner())
            .expect("a log");
        site
    }

    pub fn open(&self) -> Result<Opened<Types, KeyValue<Disk>>, OpenError> {
        self.open_with(Arc::new(self.states.clone()))
    }

    /// The same, with another disk for the folder of the snapshots.
    pub fn open_with(
        &self,
        states: Arc<dyn disk::Disk>,
    ) -> Result<Opened<Types, KeyValue<Disk>>, OpenError> {
        let (shelf, disks) = (self.shelf()?, Disks { states, ..self.disks() });
        quorate_journal::open(&disks, &owner(), options(), &|| KeyValue::on_disk(&shelf))
    }

    /// The same, for a replica that has its state in memory.
    pub fn open_in_memory(&self) -> Result<Opened<Types, KeyValue>, OpenError> {
        quorate_journal::open(&self.disks(), &owner(), options(), &KeyValue::new)
    }

    /// Turns the state on disk into a whole snapshot.
    pub fn write_whole(&self) -> Result<Option<Height>, OpenError> {
        let shelf = self.shelf()?;
        let fresh = || KeyValue::on_disk(&shelf);
        quorate_journal::write_whole(&self.disks(), &owner(), LIMITS, &fresh, &mut Vec::new())
    }

    fn shelf(&self) -> Result<Arc<Shelf>, OpenError> {
        Ok(Shelf::open(self.folders.clone(), small())?)
    }

    fn disks(&self) -> Disks {
        Disks { log: Arc::new(self.log.clone()), states: Arc::new(self.states.clone()) }
    }

    /// The power fails, if it has not yet, and returns.
    pub fn lose(&mut self, fate: Fate) {
        self.machine.cut_power();
        self.log.lose(fate);
        self.states.lose(fate);
        for disk in self.folders.0.lock().unwrap().values() {
            disk.lose(fate);
        }
        self.machine.power_on();
    }
}

pub fn options() -> OpenOptions {
    OpenOptions {
        log: log_options(),
        durability: Durability::Sync,
        rejoin: false,
        sessions: LIMITS,
    }
}

pub fn log_options() -> wal::Options {
    wal::Options {
        segment_bytes: 128 << 10,
        slot_bytes: 4096,
        preparation: wal::Preparation::Inline,
        ..wal::Options::new(owner().identity())
    }
}

/// Small files and frequent checkpoints.
fn small() -> lazy_trie::Options {
    lazy_trie::Options {
        bucket_items: 4,
        slab_bytes: 4096,
        region_bytes: 256 << 10,
        segment_bytes: 64 << 10,
        checkpoint_bytes: 32 << 10,
        write_buffer_bytes: 4 << 20,
        limit_bytes: 64 << 20,
        write_out: WriteOut::Inline,
        ..lazy_trie::Options::default()
    }
}
