//! A replica's data folder whose log and files hold anything, with checksums that are right:
//! opening it is refused with a reason, or gives a replica that can be opened again.

use std::sync::Arc;

use quorate_app::kv::KeyValue;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::sessions;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::rules::{Chained, Rules as _};
use quorate_core::protocols::hotstuff::{self, Types};
use quorate_journal::{BLOCK_RECORD, Disks, OFFER_FILE, OpenOptions, Owner, create, open};
use quorate_sim::keys::{Key, committee};
use quorate_store::disk::MemoryDisk;
use quorate_store::wal::{self, Durability, Log};

use crate::input::Input;

fn owner() -> Owner<Types> {
    let domain = Domain::new(committee(4), Chained.facts().number);
    Owner::new(hotstuff::origin(&domain), ReplicaKey::from(Key::of_replica(0).public_key().0))
}

fn log_options(owner: &Owner<Types>) -> wal::Options {
    wal::Options {
        segment_bytes: 128 << 10,
        slot_bytes: 4096,
        preparation: wal::Preparation::Inline,
        ..wal::Options::new(owner.identity())
    }
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let owner = owner();
    let (log, states) = (MemoryDisk::new(), MemoryDisk::new());
    let made = create(Arc::new(log.clone()), log_options(&owner), &owner);
    assert!(made.is_ok(), "an empty disk is refused");
    if let Ok((mut log, _)) = Log::open(Arc::new(log.clone()), log_options(&owner)) {
        let genuine = log.slot().map(<[u8]>::to_vec).unwrap_or_default();
        for _ in 0..input.byte() % 4 {
            let kind = if input.byte() & 1 == 1 { BLOCK_RECORD } else { input.byte() };
            let length = usize::from(input.byte());
            let record = input.bytes(length);
            if log.append(kind, &[&record]).is_err() {
                break;
            }
        }
        // The safety record: as it was, bent, or anything.
        let mut slot = genuine;
        match input.byte() % 3 {
            0 => {}
            1 => {
                let at = input.below(slot.len().max(1) as u64) as usize;
                if let Some(byte) = slot.get_mut(at) {
                    *byte ^= input.byte();
                }
            }
            _ => slot = input.bytes(60),
        }
        if log.commit(Some(&slot), Durability::Os).is_err() {
            return;
        }
    }
    if input.byte() & 1 == 1 {
        states.put(OFFER_FILE, input.bytes(80));
    }
    let disks = Disks { log: Arc::new(log.clone()), states: Arc::new(states.clone()) };
    let open = || {
        let options = OpenOptions {
            log: log_options(&owner),
            durability: Durability::Os,
            rejoin: false,
            sessions: sessions::Limits::default(),
        };
        open(&disks, &owner, options, &KeyValue::new)
    };
    let first = open().map(|opened| (opened.execution.height(), opened.recovery.is_some()));
    match first {
        Ok(found) => {
            let again = open().map(|opened| (opened.execution.height(), opened.recovery.is_some()));
            assert_eq!(again.ok(), Some(found), "what was opened once");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
