//! Damaged pages: an error or the right value, never another one. Hostile ones: no panic, whatever
//! is read or written then.

use crate::damage::{be_hostile, grown, options, rot};
use crate::input::Input;
use crate::random::{Random, name};
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Error, Store};
use std::sync::Arc;

const PAGES: [&str; 2] = [".space", "store.head"];

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk = grown().disk.fork();
    if input.byte() & 1 == 0 {
        rot(&disk, &PAGES, &mut input);
        look(&disk);
    } else {
        be_hostile(&disk, &PAGES, &mut input);
        use_it(&disk, &mut input);
    }
}

/// Every item is right or told to be damaged, and a check agrees.
fn look(disk: &MemoryDisk) {
    let model = grown().models.last().expect("a model");
    let store = match Store::open_on(Arc::new(disk.clone()), options()) {
        Ok((store, _)) => store,
        Err(error) => {
            let text = error.to_string();
            assert!(
                [".space", "store.head", "the write-ahead log"]
                    .iter()
                    .any(|name| text.contains(name)),
                "{text}"
            );
            return;
        }
    };
    let mut errors = 0;
    for (hash, value) in model {
        match store.get(hash) {
            Ok(found) => assert!(found.as_ref() == Some(value), "a wrong value"),
            Err(Error::Damaged { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let damage = store.check().unwrap().damage;
    assert_eq!(damage.is_empty(), errors == 0, "{damage:?}");
}

/// Reads and writes as if nothing were wrong.
fn use_it(disk: &MemoryDisk, input: &mut Input<'_>) {
    let Ok((store, _)) = Store::open_on(Arc::new(disk.clone()), options()) else { return };
    let _ = store.check();
    let _ = store.statistics();
    if let Ok(snapshot) = store.snapshot() {
        snapshot.iter().for_each(drop);
    }
    let mut random = Random(input.number());
    for _ in 0..20 {
        let name = name(&mut random, 250);
        let _ = store.get(name.name());
        let _ = store.put(name.name(), b"in a hostile store");
        let _ = store.delete(name.name());
    }
    let _ = store.checkpoint();
    let _ = store.check();
}
