//! Damaged logs: strictly refused, or taken up to the damage; what is there is what was committed.
//! Hostile ones: no panic.

use crate::damage::{be_hostile, grown, options, rot};
use crate::input::Input;
use crate::random::{Random, content, name};
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Error, Options, Recovery, Store};
use quorate_store::wal;
use std::sync::Arc;

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let grown = grown();
    let disk = grown.disk.fork();
    let hostile = input.byte() & 1 == 1;
    if hostile {
        be_hostile(&disk, &[".wal", ".spare"], &mut input);
    } else {
        rot(&disk, &[".wal"], &mut input);
    }
    let open = |disk: &MemoryDisk, recovery| {
        let options = Options { recovery, ..options() };
        Store::open_on(Arc::new(disk.fork()), options).map(|(store, _)| store)
    };
    if let Ok(store) = open(&disk, Recovery::Strict) {
        let found = content(&store).unwrap();
        // Rot in the record of the last commit looks like a write that power was lost in.
        let mut newest = grown.models.iter().rev().take(2);
        assert!(
            hostile || newest.any(|model| *model == found),
            "neither the last commit nor the one before"
        );
    }
    let saved = open(&disk, Recovery::BestEffort);
    if let (false, Err(error)) = (hostile, &saved) {
        // A segment whose first bytes are not a segment's is left to the operator.
        use wal::Error::{Foreign, Identity, Version};
        assert!(
            matches!(error, Error::Log(Foreign { .. } | Version { .. } | Identity { .. })),
            "one byte is too much for best effort: {error}"
        );
    }
    let Ok(store) = saved else { return };
    let found = content(&store).unwrap();
    assert!(hostile || grown.models.contains(&found), "not a commit");
    let mut random = Random(input.number());
    for _ in 0..5 {
        let name = name(&mut random, 250);
        store.put(name.name(), b"goes on").unwrap();
        assert_eq!(store.get(name.name()).unwrap().as_deref(), Some(&b"goes on"[..]));
    }
    assert!(store.check().unwrap().damage.is_empty());
}
