//! Snapshots made while they are sent.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::super::{Backup, told};
use super::*;
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::{Response, Unproven};
use quorate_core::ledger::state_machine::KeepError;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::protocol::Shown;
use quorate_core::replica::message::Offer;
use quorate_core::{Digest, Epoch};
use quorate_journal::States;
use quorate_store::disk::MemoryDisk;
use quorate_transport::ConnectionId;

/// A state that becomes as many chunks as the test lets it.
struct Paced {
    pace: Mutex<Receiver<()>>,
    chunks: u8,
    fails: bool,
}

impl Snapshot for Paced {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let pace = self.pace.lock().unwrap();
        for chunk in 0..self.chunks {
            if pace.recv().is_err() || !sink(&[chunk; 100]) {
                return;
            }
        }
    }

    fn failure(&self) -> Option<KeepError> {
        self.fails.then(|| KeepError("the disk is gone".to_owned()))
    }
}

fn states() -> States {
    let disk: Arc<dyn quorate_store::disk::Disk> = Arc::new(MemoryDisk::new());
    States::open(disk, [1; 16]).expect("a folder")
}

fn transfer(chunks: u8, fails: bool, max_bytes: u64) -> (Transfer, Sender<()>) {
    let (go, pace) = channel();
    let paced = Paced { pace: Mutex::new(pace), chunks, fails };
    let source: Source = Box::new(move |sink| {
        paced.chunks(&mut |chunk| sink(Bytes::copy_from_slice(chunk)));
        paced.failure().map_or(Ok(()), |failure| Err(failure.to_string()))
    });
    let spool = states().spool().expect("in memory");
    let mut made = Transfer::make(Height(7), spool, source, max_bytes).expect("a thread");
    // However slow the machine is.
    made.patience = Duration::from_secs(60);
    (made, go)
}

/// One that is made already.
fn made(height: u64, chunks: &[Bytes]) -> Transfer {
    let chunks = chunks.to_vec();
    let source: Source = Box::new(move |sink| {
        chunks.into_iter().all(sink);
        Ok(())
    });
    let spool = states().spool().expect("in memory");
    let mut made = Transfer::make(Height(height), spool, source, 1 << 20).expect("a thread");
    made.patience = Duration::from_secs(60);
    made
}

#[test]
fn chunks_are_sent_as_they_are_made_and_the_last_is_known_as_such() {
    let (mut transfer, go) = transfer(3, false, 1 << 20);
    (0..3).for_each(|_| go.send(()).unwrap());
    let chunks: Vec<_> = (0..3).map(|index| transfer.chunk(index).expect("made")).collect();
    assert_eq!(chunks.iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(chunks.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [false, false, true]);
    // Whoever asks again, or later, has the same.
    assert_eq!(transfer.chunk(1), Some(chunks[1].clone()));
    assert_eq!(transfer.chunk(3), None);
    assert_eq!(transfer.chunk(u32::MAX), None);
}

#[test]
fn what_is_not_made_is_not_waited_for_for_long() {
    let (mut transfer, go) = transfer(255, false, 1 << 20);
    (0..2).for_each(|_| go.send(()).unwrap());
    assert!(transfer.chunk(0).is_some());
    // It might be the last.
    transfer.patience = Duration::from_millis(1);
    assert_eq!(transfer.chunk(1), None);
    transfer.patience = Duration::from_secs(60);
    go.send(()).unwrap();
    assert!(transfer.chunk(1).is_some_and(|(_, last)| !last));
    // Who drops it waits until the store is not read any more: a chunk long.
    let keeps_going = std::thread::spawn(move || while go.send(()).is_ok() {});
    drop(transfer);
    keeps_going.join().unwrap();
}

#[test]
fn what_could_not_be_made_has_no_end_and_takes_no_room() {
    let (mut broken, go) = transfer(2, true, 1 << 20);
    (0..2).for_each(|_| go.send(()).unwrap());
    while broken.failed().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(broken.chunk(1), None);
    assert!(broken.chunks.lock().chunks.is_none());
    let (mut large, go) = transfer(100, false, 250);
    // It may have ended before the last of these: then nobody takes it.
    for _ in 0..100 {
        let _ = go.send(());
    }
    while !large.chunks.lock().ended {
        std::thread::yield_now();
    }
    assert!(large.failed().is_some());
    assert_eq!(large.chunk(0), None);
    assert!(large.chunks.lock().chunks.is_none());
    drop(large);
    assert!(go.send(()).is_err(), "it goes no further");
}

#[test]
fn askers_of_one_snapshot_share_it_and_those_of_others_do_not_end_it() {
    let states = states();
    let checkpoints = Checkpoints::new(None);
    let mut transfers = Transfers::new(1 << 20);
    assert_eq!(transfers.chunk(&states, &checkpoints, Height(7), 0), None);
    let chunks = |tag: u8| vec![Bytes::from(vec![tag; 10]), Bytes::from(vec![tag; 20])];
    for height in [5, 6, 7] {
        transfers.open.push(made(height, &chunks(height as u8)));
    }
    let mut ask = |height, index| {
        let chunk = transfers.chunk(&states, &checkpoints, Height(height), index);
        chunk.map(|(bytes, last)| (bytes[0], last))
    };
    // The last one first, another height, one that is not there.
    assert_eq!(ask(7, 1), Some((7, true)));
    assert_eq!(ask(7, 0), Some((7, false)));
    assert_eq!(ask(6, 0), Some((6, false)));
    assert_eq!(ask(9, 0), None);
    assert_eq!(ask(5, 1), Some((5, true)));
    assert_eq!(ask(7, 1), Some((7, true)));
}

/// A client that fetches a snapshot which is gone need not wait until it gives up.
#[test]
fn whoever_asks_for_a_snapshot_that_was_replaced_is_offered_the_newer_one() {
    let (states, checkpoints) = (states(), Checkpoints::new(None));
    let mut transfers = Transfers::new(1 << 20);
    let ask = |transfers: &mut Transfers, height, chunk| {
        let chunk = Some((Height(height), chunk));
        let backup = Backup { connection: ConnectionId(1), id: 3, chunk };
        told::<Types>(backup, &states, (transfers, &checkpoints))
    };
    let not_yet = Response::Unproven { id: 3, reason: Unproven::Unavailable };
    assert_eq!(ask(&mut transfers, 7, 0), not_yet, "there is no other");

    let block = Arc::new(Block::genesis(Digest([1; 32]), Epoch(0)));
    let shown = Shown { block: Arc::clone(&block), evidence: Qc::genesis(block.id()) };
    let offer = Offer::<Types> { epoch: Epoch(0), block, recent: Vec::new(), shown };
    states.keep_offer(&offer).unwrap();
    let Response::Offer { id: 3, offer: told } = ask(&mut transfers, 7, 0) else {
        panic!("it has another")
    };
    assert_eq!(Offer::from_bytes(told).unwrap(), offer);
    // That is the one which is asked for.
    assert_eq!(ask(&mut transfers, 0, 0), not_yet);
    // What was begun goes on.
    let (mut slow, go) = transfer(3, false, 1 << 20);
    (0..2).for_each(|_| go.send(()).unwrap());
    transfers.open.push({
        assert!(slow.chunk(0).is_some());
        slow.patience = Duration::from_millis(1);
        slow
    });
    assert!(matches!(ask(&mut transfers, 7, 0), Response::Chunk { last: false, .. }));
    assert_eq!(ask(&mut transfers, 7, 2), not_yet);
    drop(go);
}
