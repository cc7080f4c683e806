//! The application that only orders.
#![allow(missing_docs)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::ordering::{Ordering, Tally};
use quorate_core::base::wire::Decode;
use quorate_core::ledger::state_machine::StateMachine;
use support::{apply_raw, chunks};

fn blob_slices(blobs: &[Vec<u8>]) -> Vec<&[u8]> {
    blobs.iter().map(Vec::as_slice).collect()
}

proptest! {
    #[test]
    fn replies_are_positions_and_snapshots_restore(
        blocks in vec(vec(vec(any::<u8>(), 0..20), 0..6), 0..10),
    ) {
        let (mut app, mut twin) = (Ordering::new(), Ordering::new());
        let (mut count, mut bytes) = (0u64, 0);
        for (height, blobs) in blocks.iter().enumerate() {
            let before = app.root();
            for reply in apply_raw(&mut app, height as u64, &blob_slices(blobs)) {
                prop_assert_eq!(&reply[..], &count.to_le_bytes());
                count += 1;
            }
            bytes += blobs.iter().map(Vec::len).sum::<usize>() as u64;
            apply_raw(&mut twin, height as u64, &blob_slices(blobs));
            prop_assert_eq!(app.root(), twin.root());
            prop_assert_eq!(app.root() == before, blobs.is_empty());
        }
        prop_assert_eq!((app.tally().count, app.tally().bytes), (count, bytes));
        let mut restored = Ordering::new();
        restored.restore(&mut chunks(&*app.snapshot()).into_iter()).expect("a snapshot");
        prop_assert_eq!(restored.root(), app.root());
        prop_assert_eq!(Tally::from_bytes(app.query(b"")), Ok(restored.tally()));
    }
}

#[test]
fn the_history_tells_order_boundaries_and_heights_apart() {
    let run = |blocks: &[(u64, &[&[u8]])]| {
        let mut app = Ordering::new();
        for (height, blobs) in blocks {
            apply_raw(&mut app, *height, blobs);
        }
        app.tally().history
    };
    let histories = [
        run(&[(1, &[b"ab", b"c"])]),
        run(&[(1, &[b"c", b"ab"])]),
        run(&[(1, &[b"a", b"bc"])]),
        run(&[(2, &[b"ab", b"c"])]),
        run(&[(1, &[b"ab"]), (2, &[b"c"])]),
        run(&[]),
    ];
    for (at, one) in histories.iter().enumerate() {
        assert!(histories[..at].iter().all(|other| other != one), "history {at}");
    }
}

#[test]
fn a_snapshot_of_another_shape_is_refused() {
    let whole = chunks(&*Ordering::new().snapshot()).remove(0);
    let refused = [vec![], vec![whole.slice(1..)], vec![whole.clone(), whole]];
    for list in refused {
        assert!(Ordering::new().restore(&mut list.into_iter()).is_err());
    }
}
