//! Tests of a replica that keeps its state on disk. It loses its power, or is killed, at any
//! operation, and continues from the data that is left.
//!
//! One chain is executed in memory first. Then a replica with log, checkpoints and state on one
//! machine executes it and is interrupted again and again. Each time it must restart with the state
//! of its last checkpoint and the blocks above it. Their outcomes must be the same as before.

mod blocks;
mod chain;
mod damage;
mod machine;
mod restored;

use std::ops::ControlFlow;
use std::sync::Arc;

use chain::Chain;
use machine::Site;
use quorate_app::kv::{KeyValue, Storage};
use quorate_core::Height;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::replica::Record;
use quorate_core::replica::drive::Journal as _;
use quorate_journal::{OFFER_FILE, OpenError, Opened};
use quorate_store::disk::Fate;

const BLOCKS: u64 = 60;
const CHECKPOINT_EVERY: u64 = 17;
const LAST_CHECKPOINT: u64 = BLOCKS / CHECKPOINT_EVERY * CHECKPOINT_EVERY;

/// The result of a replica's life.
#[derive(Default)]
struct Lived {
    /// The last block that the log has acknowledged.
    recorded: u64,
    /// The height of the last finished checkpoint.
    kept: u64,
    /// The last block executed.
    executed: u64,
    /// Notes of recoveries.
    notes: Vec<String>,
    /// The heights at which lives began.
    resumed: Vec<u64>,
}

/// Checks the recovered data. Returns `None` if the power failed meanwhile.
fn recover<S: StateMachine>(
    opened: Result<Opened<Types, S>, OpenError>,
    site: &Site,
    chain: &Chain,
    lived: &mut Lived,
) -> Option<Opened<Types, S>> {
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            assert!(site.machine.is_off(), "{error}");
            return None;
        }
    };
    let height = opened.execution.height().0;
    assert_eq!(opened.execution.state_root(), chain.root(height), "height {height}");
    assert_eq!(opened.execution.block_id(), chain.id(height));
    let recovery = opened.recovery.as_ref().expect("a safety record");
    if let Some(offer) = &recovery.offer {
        assert_eq!(offer.block.height.0, height, "what is offered can be sent");
    }
    let snapshot = recovery.snapshot.as_ref().map_or(0, |meta| meta.block.height.0);
    assert_eq!(height, snapshot, "the protocol begins where the state is");
    assert!(height >= lived.kept, "{height}, and {} was kept", lived.kept);
    let heights: Vec<_> = recovery.blocks.iter().map(|full| full.block.height.0).collect();
    assert_eq!(heights, (height + 1..).take(heights.len()).collect::<Vec<_>>());
    let last = height + heights.len() as u64;
    assert!(last >= lived.recorded, "{last} of {}", lived.recorded);
    (lived.recorded, lived.kept) = (last, height);
    lived.resumed.push(height);
    lived.notes.extend(opened.notes.iter().cloned());
    Some(opened)
}

/// Continues to the end of the chain, or to the next power failure.
fn live<S: Storage>(
    opened: Opened<Types, KeyValue<S>>,
    chain: &Chain,
    lived: &mut Lived,
    mut each: impl FnMut(u64) -> ControlFlow<()>,
) {
    let Opened { mut journal, states, mut execution, .. } = opened;
    let first = execution.height().0 + 1;
    for height in first..=BLOCKS {
        let full = chain.block(height);
        if height > lived.recorded {
            if journal.write(vec![Record::<Types>::Block(full.clone())]).is_err() {
                return;
            }
            lived.recorded = height;
        }
        journal.index().committed(&[Arc::clone(&full.block)]);
        let executed =
            execution.execute(full.block.height, full.block.view, full.block.id(), &full.frames);
        let Ok(executed) = executed else { return };
        assert_eq!(&executed, chain.executed(height), "height {height}");
        lived.executed = height;
        if height.is_multiple_of(CHECKPOINT_EVERY) {
            let Ok(handle) = execution.freeze() else { return };
            if states.write(&chain.meta(height), handle).is_err() {
                return;
            }
            lived.kept = height;
        }
        // Blocks have shown its root by now, so older data is removed.
        if height > CHECKPOINT_EVERY && height % CHECKPOINT_EVERY == 2 {
            let of = height - 2;
            if states.keep_offer(&chain.offer(of)).is_err()
                || journal.retire(0, Height(of)).is_err()
            {
                return;
            }
        }
        if each(height).is_break() {
            return;
        }
    }
}

/// A life up to some height, on a new machine.
fn lived_until(chain: &Chain, until: u64) -> Site {
    let site = Site::new();
    let mut lived = Lived::default();
    let opened = recover(site.open(), &site, chain, &mut lived).expect("a life");
    live(opened, chain, &mut lived, |height| {
        if height < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(lived.executed, until);
    site
}

/// A life from the beginning, with a power failure after each of these numbers of operations.
/// `fate` decides about unsynced writes.
fn life(chain: &Chain, cuts: &[u64], fate: Fate) -> Lived {
    let mut site = Site::new();
    let mut lived = Lived::default();
    for cut in cuts {
        site.machine.cut_power_in(*cut);
        if let Some(opened) = recover(site.open(), &site, chain, &mut lived) {
            live(opened, chain, &mut lived, |_| ControlFlow::Continue(()));
        }
        site.lose(fate);
    }
    let opened = recover(site.open(), &site, chain, &mut lived).expect("the power is on");
    live(opened, chain, &mut lived, |_| ControlFlow::Continue(()));
    assert_eq!(lived.executed, BLOCKS);
    let opened = recover(site.open(), &site, chain, &mut lived).expect("a whole life");
    assert_eq!(opened.execution.height().0, LAST_CHECKPOINT);
    assert_eq!(lived.recorded, BLOCKS);
    lived
}

#[test]
fn what_is_above_the_last_checkpoint_is_executed_again() {
    let chain = Chain::new(BLOCKS);
    let lived = life(&chain, &[], Fate::Kept);
    assert_eq!((lived.resumed, lived.notes), (vec![0, LAST_CHECKPOINT], vec![]));
    // At each height: close and open again.
    let site = Site::new();
    let mut lived = Lived::default();
    for until in 1..=BLOCKS {
        let opened = recover(site.open(), &site, &chain, &mut lived).expect("the power is on");
        live(opened, &chain, &mut lived, |height| {
            if height < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    let expected = (0..BLOCKS).map(|height| height / CHECKPOINT_EVERY * CHECKPOINT_EVERY);
    assert_eq!(lived.resumed, expected.collect::<Vec<_>>());
    assert_eq!(lived.notes, Vec::<String>::new());
}

#[test]
fn power_fails_at_any_operation() {
    let chain = Chain::new(BLOCKS);
    let operations = {
        let site = Site::new();
        let before = site.machine.operations();
        let mut lived = Lived::default();
        let opened = recover(site.open(), &site, &chain, &mut lived).expect("a life");
        live(opened, &chain, &mut lived, |_| ControlFlow::Continue(()));
        site.machine.operations() - before
    };
    let fates = [Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    let mut gone_on = 0;
    for cut in 1..operations {
        let mixed = Fate::Mixed { seed: cut };
        for fate in [fates[cut as usize % fates.len()], mixed] {
            let lived = life(&chain, &[cut], fate);
            let [.., resumed, _] = lived.resumed.as_slice() else { panic!("lives") };
            gone_on += usize::from(*resumed > 0);
        }
        // Again during recovery, or shortly after it.
        life(&chain, &[cut, 1 + cut % 40, 1 + cut % 7], mixed);
    }
    assert!(gone_on > 50, "{gone_on}");
}

#[test]
fn a_state_begun_anew_counts_from_its_first_checkpoint_on() {
    const EMPTIED: u64 = 25;
    let chain = Chain::emptied_at(EMPTIED, BLOCKS);
    for (until, resumed, folders) in [(24, 17, 1), (25, 17, 2), (33, 17, 2), (34, 34, 1)] {
        for fate in [Fate::Kept, Fate::Lost] {
            let mut site = Site::new();
            let mut lived = Lived::default();
            let opened = recover(site.open(), &site, &chain, &mut lived).expect("a life");
            live(opened, &chain, &mut lived, |height| {
                if height < until {
                    return ControlFlow::Continue(());
                }
                assert_eq!(site.folders.0.lock().unwrap().len(), folders, "until {until}");
                // The state in the middle of it, not after it.
                site.machine.cut_power();
                ControlFlow::Break(())
            });
            site.lose(fate);
            let opened = recover(site.open(), &site, &chain, &mut lived).expect("the power is on");
            assert_eq!(lived.resumed, [0, resumed], "until {until}");
            live(opened, &chain, &mut lived, |_| ControlFlow::Continue(()));
            assert_eq!(lived.executed, BLOCKS);
            assert_eq!(site.folders.0.lock().unwrap().len(), 1);
        }
    }
}

#[test]
fn without_its_state_a_replica_begins_at_the_first_block() {
    let chain = Chain::new(BLOCKS);
    let site = lived_until(&chain, 40);
    site.folders.0.lock().unwrap().clear();
    let opened = site.open().expect("it is taken over from others");
    assert_eq!(opened.execution.height(), Height(0));
    let recovery = opened.recovery.expect("what it voted for is not forgotten");
    assert!(recovery.snapshot.is_none() && recovery.memory.is_some());
    // The log was never cut: nobody else need have the blocks.
    assert!(opened.notes.iter().any(|note| note.contains("executed again")), "{:?}", opened.notes);
    // The same if the part beside the state is gone.
    let site = lived_until(&chain, 40);
    let names = quorate_store::disk::Disk::list(&site.states).unwrap();
    assert_eq!(names, [format!("{:020}.beside", 34), OFFER_FILE.to_owned()]);
    quorate_store::disk::Disk::remove(&site.states, &names[0]).unwrap();
    let opened = site.open().expect("it is taken over from others");
    assert_eq!(opened.execution.height(), Height(0));
    assert!(opened.notes.iter().any(|note| note.contains("is not there")), "{:?}", opened.notes);
}

#[test]
fn a_replica_may_have_its_state_in_memory_and_on_disk_by_turns() {
    let chain = Chain::new(BLOCKS);
    let site = lived_until(&chain, 40);
    // From disk into memory.
    assert_eq!(site.write_whole().expect("it can be read"), Some(Height(34)));
    assert_eq!(site.write_whole().expect("it can be read"), Some(Height(34)));
    let mut lived = Lived { recorded: 40, kept: 34, ..Lived::default() };
    let opened = recover(site.open_in_memory(), &site, &chain, &mut lived).expect("a state");
    live(opened, &chain, &mut lived, |height| {
        if height < 55 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((lived.executed, lived.kept), (55, 51));
    // And back: the state on disk is older than the snapshot.
    let opened = recover(site.open(), &site, &chain, &mut lived).expect("a state");
    assert_eq!(lived.resumed, [34, 51]);
    assert!(lived.notes.iter().any(|note| note.contains("below the snapshot")));
    live(opened, &chain, &mut lived, |_| ControlFlow::Continue(()));
    assert_eq!(lived.executed, BLOCKS);
}

#[test]
fn a_damaged_state_is_refused_with_place_and_remedy() {
    let chain = Chain::new(BLOCKS);
    let site = lived_until(&chain, BLOCKS);
    let (number, disk) =
        site.folders.0.lock().unwrap().first_key_value().map(|(n, d)| (*n, d.clone())).unwrap();
    for at in [0, 4096, 8192] {
        disk.damage("store.head", at, &[0x5A; 512]).expect("there is a head");
    }
    let error = site.open().map(|_| ()).expect_err("it is damaged").to_string();
    assert!(error.contains("state/") && error.contains("store.head"), "{error}");
    assert!(error.contains("remove state/"), "{error}");
    site.folders.0.lock().unwrap().remove(&number);
    let opened = site.open().expect("it is taken over from others");
    assert_eq!(opened.execution.height(), Height(0));
}
