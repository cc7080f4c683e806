//! A replica that keeps its state on disk loses its power, or is killed, at any operation, and goes on from what is there.
//!
//! One chain is executed in memory first. Then a replica with log, snapshots and state on one machine lives through it, and is cut short
//! again and again; each time what it comes back with must be a state of that chain, and lead to the same outcomes as before.

mod chain;
mod machine;

use std::ops::ControlFlow;
use std::sync::Arc;

use chain::Chain;
use machine::Site;
use quorate_app::kv::{Disk, KeyValue};
use quorate_core::Height;
use quorate_core::execution::Execution;
use quorate_core::replica::Record;
use quorate_core::replica::drive::Journal as _;
use quorate_journal::Opened;
use quorate_store::disk::Fate;

const BLOCKS: u64 = 60;
const SNAPSHOT_EVERY: u64 = 17;

/// What a life came to.
#[derive(Default)]
struct Lived {
    /// Recorded, by what the log acknowledged.
    recorded: u64,
    /// Executed, by what the state acknowledged.
    executed: u64,
    /// Notes of recoveries.
    notes: Vec<String>,
    /// The heights at which lives began.
    resumed: Vec<u64>,
}

/// Opens what there is and checks it; `None` if the power failed meanwhile.
fn recover(
    site: &Site,
    chain: &Chain,
    fate: Fate,
    lived: &mut Lived,
) -> Option<Opened<KeyValue<Disk>>> {
    let opened = match site.open() {
        Ok(opened) => opened,
        Err(error) => {
            assert!(site.machine.is_off(), "{fate:?}: {error}");
            return None;
        }
    };
    let height = opened.execution.height().0;
    assert_eq!(opened.execution.state_root(), chain.root(height), "{fate:?}: height {height}");
    assert_eq!(opened.execution.block_id(), chain.id(height));
    for below in 0..64.min(height) {
        let of = height - below;
        if let Some(root) = opened.execution.root_at(Height(of)) {
            assert_eq!(root, chain.root(of), "{fate:?}: the root of {of}, at {height}");
        }
    }
    let recovery = opened.recovery.as_ref().expect("a safety record");
    let snapshot = recovery.snapshot.as_ref().map_or(0, |meta| meta.block.height.0);
    assert!(height >= snapshot);
    let heights: Vec<_> = recovery.blocks.iter().map(|full| full.block.height.0).collect();
    assert_eq!(heights, (snapshot + 1..).take(heights.len()).collect::<Vec<_>>());
    let last = snapshot + heights.len() as u64;
    assert!(last >= height && last >= lived.recorded, "{fate:?}: {last} of {}", lived.recorded);
    if fate == Fate::Kept && lived.executed > 0 {
        assert!(height >= lived.executed, "{height} of {}: executed again", lived.executed);
    }
    lived.recorded = last;
    lived.resumed.push(height);
    lived.notes.extend(opened.notes.iter().cloned());
    Some(opened)
}

/// Lives on to the end of the chain, or to the next power failure.
fn live(
    opened: Opened<KeyValue<Disk>>,
    chain: &Chain,
    lived: &mut Lived,
    mut each: impl FnMut(&mut Execution<KeyValue<Disk>>, u64) -> ControlFlow<()>,
) {
    let Opened { mut journal, states, mut execution, .. } = opened;
    let first = execution.height().0 + 1;
    for height in first..=BLOCKS {
        let full = chain.block(height);
        if height > lived.recorded {
            if journal.write(vec![Record::Block(full.clone())]).is_err() {
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
        if each(&mut execution, height).is_break() {
            return;
        }
        if height % SNAPSHOT_EVERY == 0 {
            let (meta, handle) = (chain.meta(height), execution.snapshot());
            execution.renew_base();
            if states.write(&meta, &handle).is_err() || journal.retire(0, Height(height)).is_err() {
                return;
            }
        }
    }
}

/// A life from the beginning, with power failures behind these numbers of operations, each met with `fate`.
fn life(chain: &Chain, cuts: &[u64], fate: Fate) -> Lived {
    let mut site = Site::new();
    let mut lived = Lived::default();
    for cut in cuts {
        site.machine.cut_power_in(*cut);
        if let Some(opened) = recover(&site, chain, fate, &mut lived) {
            live(opened, chain, &mut lived, |_, _| ControlFlow::Continue(()));
        }
        site.lose(fate);
    }
    let opened = recover(&site, chain, fate, &mut lived).expect("the power is on");
    live(opened, chain, &mut lived, |_, _| ControlFlow::Continue(()));
    assert_eq!(lived.executed.max(*lived.resumed.last().expect("a life")), BLOCKS);
    let opened = site.open().expect("a whole life");
    assert_eq!(opened.execution.state_root(), chain.root(BLOCKS));
    lived
}

#[test]
fn a_state_survives_without_executing_anything_again() {
    let chain = Chain::new(BLOCKS);
    let lived = life(&chain, &[], Fate::Kept);
    assert_eq!((lived.resumed, lived.notes), (vec![0], vec![]));
    // At each height: closed, and opened again.
    let site = Site::new();
    let mut lived = Lived::default();
    loop {
        let opened = recover(&site, &chain, Fate::Kept, &mut lived).expect("the power is on");
        if opened.execution.height().0 == BLOCKS {
            break;
        }
        live(opened, &chain, &mut lived, |_, _| ControlFlow::Break(()));
    }
    assert_eq!(lived.resumed, (0..=BLOCKS).collect::<Vec<_>>());
    assert_eq!(lived.notes, Vec::<String>::new());
}

#[test]
fn power_fails_at_any_operation() {
    let chain = Chain::new(BLOCKS);
    let operations = {
        let site = Site::new();
        let before = site.machine.operations();
        let opened = recover(&site, &chain, Fate::Kept, &mut Lived::default()).expect("a life");
        live(opened, &chain, &mut Lived::default(), |_, _| ControlFlow::Continue(()));
        site.machine.operations() - before
    };
    let fates = [Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    let mut gone_on = 0;
    for (index, cut) in (1..operations).step_by(2).enumerate() {
        let seed = cut;
        let mixed = Fate::Mixed { seed };
        for fate in [fates[index % fates.len()], mixed] {
            let lived = life(&chain, &[cut], fate);
            gone_on += usize::from(lived.resumed.last().is_some_and(|height| *height > 0));
            if fate == Fate::Kept {
                assert_eq!(lived.notes, Vec::<String>::new(), "cut at {cut}");
            }
        }
        // Again while it comes back, or shortly after.
        life(&chain, &[cut, 1 + cut % 40, 1 + cut % 7], mixed);
    }
    assert!(gone_on > 50, "{gone_on}");
}

#[test]
fn a_state_begun_anew_counts_once_its_sessions_are_kept_there_too() {
    const EMPTIED: u64 = 25;
    let chain = Chain::emptied_at(EMPTIED, BLOCKS);
    for (until, resumed, folders) in
        [(EMPTIED - 1, EMPTIED - 1, 1), (EMPTIED, EMPTIED - 1, 2), (EMPTIED + 1, EMPTIED + 1, 1)]
    {
        for fate in [Fate::Kept, Fate::Lost] {
            let mut site = Site::new();
            let mut lived = Lived::default();
            let opened = recover(&site, &chain, fate, &mut lived).expect("a life");
            live(opened, &chain, &mut lived, |_, height| {
                if height < until {
                    return ControlFlow::Continue(());
                }
                assert_eq!(site.folders.0.lock().unwrap().len(), folders);
                // As it is in the middle of it, not as it is left.
                site.machine.cut_power();
                ControlFlow::Break(())
            });
            site.lose(fate);
            lived.executed = 0;
            let opened = recover(&site, &chain, fate, &mut lived).expect("the power is on");
            let height = opened.execution.height().0;
            match fate {
                Fate::Kept => assert_eq!(height, resumed, "until {until}"),
                _ => assert!(height <= resumed, "until {until}: {height}"),
            }
            live(opened, &chain, &mut lived, |_, _| ControlFlow::Continue(()));
            assert_eq!(lived.executed, BLOCKS);
            assert_eq!(site.folders.0.lock().unwrap().len(), 1);
        }
    }
}

#[test]
fn what_does_not_fit_the_log_is_made_again() {
    let chain = Chain::new(BLOCKS);
    for (until, snapshots) in [(12, true), (40, true), (12, false)] {
        let mut site = Site::new();
        let mut lived = Lived::default();
        let opened = recover(&site, &chain, Fate::Kept, &mut lived).expect("a life");
        let mut early = None;
        live(opened, &chain, &mut lived, |_, height| {
            if height == until - 5 {
                early = Some(site.copy());
            }
            if height < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // The log and the snapshots are those of before: the state is ahead of them.
        let early = early.expect("it came so far");
        let state = site.folders.clone();
        site = Site { folders: state, ..early };
        if !snapshots {
            site.folders.0.lock().unwrap().clear();
        }
        let opened = site.open().expect("it is made again");
        let height = opened.execution.height().0;
        assert!(height < until && height.is_multiple_of(SNAPSHOT_EVERY), "{height}");
        assert_eq!(opened.execution.state_root(), chain.root(height));
        if snapshots {
            assert!(
                opened.notes.iter().any(|note| note.contains("made again")),
                "{:?}",
                opened.notes
            );
        }
        let mut lived = Lived { recorded: until - 5, ..Lived::default() };
        live(opened, &chain, &mut lived, |_, _| ControlFlow::Continue(()));
        assert_eq!(lived.executed, BLOCKS);
        assert_eq!(site.folders.0.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_state_below_the_snapshot_is_made_again() {
    let chain = Chain::new(BLOCKS);
    let site = Site::new();
    let mut lived = Lived::default();
    let opened = recover(&site, &chain, Fate::Kept, &mut lived).expect("a life");
    let mut early = None;
    live(opened, &chain, &mut lived, |_, height| {
        if height == 20 {
            early = Some(site.copy());
        }
        ControlFlow::Continue(())
    });
    let folders = early.expect("it came so far").folders;
    let site = Site { folders, ..site };
    let opened = site.open().expect("it is made again");
    assert_eq!(opened.execution.height().0, BLOCKS / SNAPSHOT_EVERY * SNAPSHOT_EVERY);
    assert!(
        opened.notes.iter().any(|note| note.contains("below the snapshot")),
        "{:?}",
        opened.notes
    );
}

#[test]
fn a_damaged_state_is_refused_with_place_and_remedy() {
    let chain = Chain::new(BLOCKS);
    let site = Site::new();
    let mut lived = Lived::default();
    let opened = recover(&site, &chain, Fate::Kept, &mut lived).expect("a life");
    live(opened, &chain, &mut lived, |_, _| ControlFlow::Continue(()));
    let (number, disk) =
        site.folders.0.lock().unwrap().first_key_value().map(|(n, d)| (*n, d.clone())).unwrap();
    for at in [0, 4096, 8192] {
        disk.damage("store.head", at, &[0x5A; 512]).expect("there is a head");
    }
    let error = site.open().map(|_| ()).expect_err("it is damaged").to_string();
    assert!(error.contains("state/") && error.contains("store.head"), "{error}");
    assert!(error.contains("remove state/"), "{error}");
    site.folders.0.lock().unwrap().remove(&number);
    let opened = site.open().expect("it is made again");
    assert_eq!(opened.execution.height().0, BLOCKS / SNAPSHOT_EVERY * SNAPSHOT_EVERY);
    assert!(opened.notes.iter().any(|note| note.contains("no kept state")), "{:?}", opened.notes);
}
