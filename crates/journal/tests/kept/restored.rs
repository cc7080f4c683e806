//! Tests of states restored from a backup: cut short anywhere, and never where there is data.

use std::sync::Arc;

use quorate_app::kv::KeyValue;
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::state_machine::{Snapshot as _, StateMachine as _};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::replica::drive::Journal as _;
use quorate_core::replica::{Record, SnapshotMeta};
use quorate_core::{Digest, Height};
use quorate_journal::{Chunks, Disks, OpenError, OpenOptions, Opened, Owner, Restored};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};

use crate::chain::{Chain, owner};
use crate::machine::{log_options, options};

const HEIGHT: u64 = 20;

fn disks(log: &MemoryDisk, states: impl Disk + 'static) -> Disks {
    Disks { log: Arc::new(log.fork()), states: Arc::new(states) }
}

fn restore(chain: &Chain, disks: &Disks, height: u64) -> Result<(), OpenError> {
    let state = chain.state(height).snapshot();
    let (meta, offer) = (chain.meta(height), Some(chain.offer(height)));
    let chunks: Chunks<'_> = &mut |sink| {
        state.chunks(sink);
        Ok(())
    };
    quorate_journal::restore(
        disks,
        &owner(),
        Restored { handovers: Vec::new(), meta, offer, chunks },
    )
}

fn open(disks: &Disks, rejoin: bool) -> Result<Opened<Types, KeyValue>, OpenError> {
    let options = OpenOptions { rejoin, ..options() };
    quorate_journal::open(disks, &owner(), options, &KeyValue::new)
}

/// It has the state, and no memory of what it signed.
fn assert_restored(chain: &Chain, opened: &Opened<Types, KeyValue>, height: u64) {
    assert_eq!(opened.execution.state_root(), chain.root(height));
    assert!(opened.recovery.is_none(), "what it signed is in no backup");
    assert!(opened.restored.memory.is_none());
    let snapshot = opened.restored.snapshot.as_ref().map(|meta| meta.block.id());
    assert_eq!(snapshot, Some(chain.id(height)));
    assert_eq!(opened.restored.offer, Some(chain.offer(height)));
}

/// The process is killed, or the power fails, behind each operation on the disk. What is left is a
/// folder without a state, or with all of it, or one that says that the restore has to be done
/// again; and then it can be.
#[test]
fn a_restore_may_be_cut_short_anywhere_and_done_again() {
    let chain = Chain::new(HEIGHT + 2);
    let (log, crash) = (MemoryDisk::new(), CrashDisk::new());
    restore(&chain, &disks(&log, crash.clone()), HEIGHT).expect("on a blank disk");
    let (mut half, mut whole) = (0, 0);
    for cut in 0..=crash.operations() {
        let fates = [
            Fate::Kept,
            Fate::Lost,
            Fate::ContentLost,
            Fate::NamesLost,
            Fate::Torn { sectors: 1 },
            Fate::Mixed { seed: cut as u64 },
        ];
        for fate in fates {
            let left = crash.materialise(cut, fate);
            let missing = open(&disks(&log, left.fork()), false);
            assert!(matches!(missing, Err(OpenError::Missing)), "cut {cut}: it would vote");
            match open(&disks(&log, left.fork()), true) {
                Ok(opened) if opened.execution.height() == Height(HEIGHT) => {
                    assert_eq!(opened.execution.state_root(), chain.root(HEIGHT));
                    whole += 1;
                }
                Ok(opened) => assert_eq!(opened.execution.height(), Height(0), "cut {cut}"),
                Err(OpenError::HalfRestored) => half += 1,
                Err(error) => panic!("cut {cut}, {fate:?}: {error}"),
            }
            let again = disks(&log, left);
            restore(&chain, &again, HEIGHT).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
            assert_restored(&chain, &open(&again, true).expect("it is whole"), HEIGHT);
        }
    }
    assert!(half > 0 && whole > 0, "{half} halves, {whole} wholes");
}

#[test]
fn another_state_takes_the_place_of_one_that_was_never_started_from() {
    let chain = Chain::new(HEIGHT + 2);
    let (log, states) = (MemoryDisk::new(), MemoryDisk::new());
    for height in [HEIGHT, HEIGHT - 5, HEIGHT - 1] {
        let disks = disks(&log, states.clone());
        restore(&chain, &disks, height).expect("it was not started from");
        assert_restored(&chain, &open(&disks, true).expect("a state"), height);
    }
}

#[test]
fn data_is_never_written_over() {
    let chain = Chain::new(HEIGHT + 2);
    let log = MemoryDisk::new();
    quorate_journal::create(Arc::new(log.clone()), log_options(), &owner()).expect("a log");
    let with_log = disks(&log, MemoryDisk::new());
    let refused = restore(&chain, &with_log, HEIGHT);
    assert!(matches!(refused, Err(OpenError::NotLost { snapshots: false })), "{refused:?}");
    assert_eq!(with_log.states.list().expect("a list"), Vec::<String>::new());

    // The log alone was lost: nobody restored this.
    let states = MemoryDisk::new();
    let mark = "restored";
    restore(&chain, &disks(&MemoryDisk::new(), states.clone()), HEIGHT).expect("on a blank disk");
    states.remove(mark).expect("the mark");
    let alone = disks(&MemoryDisk::new(), states.clone());
    let refused = restore(&chain, &alone, HEIGHT);
    assert!(matches!(refused, Err(OpenError::NotLost { snapshots: true })), "{refused:?}");
    let refused = open(&alone, true).map(drop);
    assert!(matches!(refused, Err(OpenError::NotLost { snapshots: true })), "{refused:?}");
}

/// Once it has a memory again, it starts as any other, from the restored state, and is no replica
/// that lost its data.
#[test]
fn with_a_memory_it_goes_on_as_any_other() {
    let chain = Chain::new(HEIGHT + 2);
    let disks = disks(&MemoryDisk::new(), MemoryDisk::new());
    restore(&chain, &disks, HEIGHT).expect("on a blank disk");
    let mut opened = open(&disks, true).expect("a state");
    let memory = Arc::new(owner().origin.memory);
    let block = Record::Block(chain.block(HEIGHT + 1).clone());
    opened.journal.write(vec![Record::<Types>::Memory(memory), block]).expect("in memory");
    drop(opened);
    let refused = open(&disks, true).map(drop);
    assert!(matches!(refused, Err(OpenError::NotLost { snapshots: false })), "{refused:?}");
    let opened = open(&disks, false).expect("its data");
    assert_eq!(opened.execution.state_root(), chain.root(HEIGHT));
    let recovery = opened.recovery.expect("a memory");
    assert_eq!(recovery.blocks.len(), 1);
    drop(opened.journal);
    let refused = restore(&chain, &disks, HEIGHT - 1);
    assert!(matches!(refused, Err(OpenError::NotLost { snapshots: false })), "{refused:?}");
}

/// A chain that begins with a restored state: no replica begins with another, and the state may be
/// put beside the log of one that was just begun.
#[test]
fn a_chain_that_begins_with_a_restored_state_begins_with_no_other() {
    let chain = Chain::new(HEIGHT);
    let mut application = chain.state(HEIGHT).into_application();
    let root = application.root();
    let owner = owner().beginning_with(Some(root));
    let log = MemoryDisk::new();
    quorate_journal::create(Arc::new(log.clone()), log_options(), &owner).expect("a log");
    let disks = disks(&log, MemoryDisk::new());
    let begin = |owner: &Owner<Types>| {
        quorate_journal::open(&disks, owner, options(), &KeyValue::new)
            .map(|opened| (opened.execution.height(), opened.execution.summary().application))
    };
    let is_refused = |begun: Result<(Height, Digest), OpenError>| match begun {
        Err(OpenError::OtherBeginning { expected, found }) => expected == root && found != root,
        _ => false,
    };
    assert!(is_refused(begin(&owner)), "it would begin with an empty state");

    let put = |state: &Execution<KeyValue>| {
        let handle = state.snapshot();
        let meta = SnapshotMeta {
            block: owner.genesis(),
            committed: Height(0),
            recent: Vec::new(),
            roots: vec![handle.root()],
        };
        let chunks: Chunks<'_> = &mut |sink| {
            handle.chunks(sink);
            Ok(())
        };
        quorate_journal::restore(
            &disks,
            &owner,
            Restored { handovers: Vec::new(), meta, offer: None, chunks },
        )
    };
    let genesis = owner.genesis().id();
    let state_of =
        |application| Execution::new(application, crate::chain::LIMITS, genesis).expect("limits");
    let other = chain.state(HEIGHT - 1).into_application();
    put(&state_of(other)).expect("beside a log that knows nothing");
    assert!(is_refused(begin(&owner)), "it would begin with another state");
    put(&state_of(application)).expect("again");
    assert_eq!(begin(&owner).expect("its beginning"), (Height(0), root));
}
