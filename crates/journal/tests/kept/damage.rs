//! Tests of the data beside a state: damaged, or unreadable for a moment.

use std::io;
use std::sync::Arc;

use quorate_core::Height;
use quorate_journal::{OFFER_FILE, OpenError};
use quorate_store::disk::{Disk, DiskFile, PowerDisk};

use crate::chain::Chain;
use crate::{BLOCKS, LAST_CHECKPOINT, lived_until};

/// The digest detects damage of an offer at any byte. The replica makes another offer in time.
#[test]
fn a_damaged_offer_is_none() {
    let chain = Chain::new(BLOCKS);
    let offered = |site: &crate::machine::Site| {
        site.open().expect("a state").recovery.expect("a safety record").offer
    };
    let site = lived_until(&chain, BLOCKS);
    assert_eq!(offered(&site).expect("an offer").block.height, Height(LAST_CHECKPOINT));
    let length = site.states.open(OFFER_FILE).unwrap().size().unwrap();
    for at in [0, 15, 31, 32, 50, length / 2, length - 1] {
        let site = lived_until(&chain, BLOCKS);
        let mut byte = [0];
        site.states.open(OFFER_FILE).unwrap().read_at(at, &mut byte).unwrap();
        site.states.damage(OFFER_FILE, at, &[!byte[0]]).expect("there is an offer");
        assert!(offered(&site).is_none(), "byte {at} is damaged");
    }
}

/// A folder in which the parts beside checkpoints cannot be opened.
struct Failing(PowerDisk);

impl Disk for Failing {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.0.create(name, size)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        if name.ends_with(".beside") {
            return Err(io::Error::other("too many open files"));
        }
        self.0.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
}

/// An error of the system proves nothing about the state, which may be the only one.
#[test]
fn a_state_that_cannot_be_read_for_now_is_not_given_up() {
    let chain = Chain::new(BLOCKS);
    let site = lived_until(&chain, BLOCKS);
    let failed = site.open_with(Arc::new(Failing(site.states.clone()))).map(|_| ());
    let error = failed.expect_err("it is not known what is there");
    assert!(matches!(&error, OpenError::Snapshot(_)) && error.io().is_some(), "{error}");
    let opened = site.open().expect("it can be read again");
    assert_eq!(opened.execution.height(), Height(LAST_CHECKPOINT));
    assert_eq!(opened.notes, Vec::<String>::new());
}
