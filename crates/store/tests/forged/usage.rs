//! All operations on a store, as if it were intact.

use crate::random::{Owned, Random, name, value};
use quorate_store::lazy_trie::{Batch, Error, Hash, Recovered, Store};

/// The most that an iteration of such a small store may return.
const TOLD: usize = 200_000;

#[track_caller]
fn expect_clean(error: &Error) {
    let text = error.to_string();
    let names_a_file =
        [".space", ".wal", "store.head", "write-ahead log"].iter().any(|name| text.contains(name));
    let is_clean = match error {
        Error::Damaged { .. } | Error::Foreign { .. } | Error::Missing { .. } | Error::Log(_) => {
            names_a_file
        }
        Error::Stopped { .. } | Error::LimitReached { .. } => true,
        // A mode or a number of regions that the store was not created with.
        Error::Options { .. } | Error::Version { .. } => true,
        _ => false,
    };
    assert!(is_clean, "{error:?}: {error}");
}

fn note<T>(result: Result<T, Error>) -> Option<T> {
    result.inspect_err(expect_clean).ok()
}

/// Opens a store and uses it.
pub fn all(open: impl Fn() -> Result<(Store, Recovered), Error>, random: &mut Random) {
    let Some((store, _)) = note(open()) else { return };
    read(&store, random);
    write(&store, random);
    note(store.checkpoint());
    let _ = store.statistics();
    read(&store, random);
    write(&store, random);
    note(store.checkpoint());
    note(store.sync());
}

fn read(store: &Store, random: &mut Random) {
    note(store.check());
    let _ = store.statistics();
    let Some(snapshot) = note(store.snapshot()) else { return };
    let _ = snapshot.root();
    let mut last = None;
    for from in [Hash([0; 32]), Hash([0x5a; 32])] {
        last = None;
        for (told, item) in snapshot.iter_from(&from).enumerate() {
            assert!(told < TOLD, "it does not end");
            if let Some((hash, item)) = note(item) {
                assert!(last < Some(hash), "the order of hashes");
                assert_eq!(item.hash(), hash);
                last = Some(hash);
            }
        }
    }
    snapshot.look_ahead((0..100).map(|_| name(random, 250).hash()));
    let mut names: Vec<Owned> = (0..60).map(|_| name(random, 250)).collect();
    names.extend(last.map(Owned::Hash));
    for name in names {
        note(store.get(name.name()));
        match snapshot.prove(name.name()) {
            Err(Error::NotAuthenticated | Error::NoProofs) => {}
            proof => drop(note(proof)),
        }
    }
}

fn write(store: &Store, random: &mut Random) {
    let held = note(store.snapshot());
    for _ in 0..25 {
        let name = name(random, 250);
        match random.below(4) {
            0 => drop(note(store.delete(name.name()))),
            1 => drop(note(store.replace(name.name(), &value(random)))),
            2 => {
                let mut batch = Batch::new();
                // The larger ones are for several threads.
                let most = [60, 400][random.below(2) as usize];
                for _ in 0..random.below(most) {
                    let name = crate::random::name(random, 250);
                    match random.below(2) {
                        0 => batch.delete(name.name()).unwrap(),
                        _ => batch.put(name.name(), &value(random)).unwrap(),
                    }
                }
                note(store.write(&batch));
            }
            _ => drop(note(store.put(name.name(), &value(random)))),
        }
    }
    if let Some(held) = held {
        held.iter().take(2000).for_each(|item| _ = note(item));
    }
}
