//! Snapshots out and in, honest and not.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::client::message::Rejection;
use quorate_core::ledger::execution::{
    Execution, ExecutionError, Header, Restoring, SnapshotError, StateSummary,
};
use quorate_core::ledger::sessions::{Limits, Sessions};
use quorate_core::ledger::state_machine::{
    Decided, MAX_CHUNK_BYTES, Replies, RestoreError, Snapshot, StateMachine,
};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::protocol::Missing;
use quorate_core::protocols::protocol::Shown;
use quorate_core::replica::catch_up::{CatchUp, Chunked};
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time, View};

use crate::fixtures::*;

/// A state whose sessions fill several chunks, with answers across the boundaries.
fn large() -> Execution<Journal> {
    let mut state = state(Limits::default());
    for client in 1..=6 {
        let big = "big 300000";
        let frames = [open(client, 1), frame(client, u64::from(client), 1, &["a", big, big, "b"])];
        execute(&mut state, &frames);
        execute(&mut state, &[frame(client, u64::from(client), 9, &["waits"])]);
    }
    state
}

fn restore(chunks: Vec<Bytes>, root: Digest) -> Result<Execution<Journal>, SnapshotError> {
    Execution::restore(Journal::default(), Limits::default(), &mut chunks.into_iter(), root)
}

#[test]
fn a_restored_state_is_the_state() {
    let mut state = large();
    let snapshot = state.snapshot();
    let chunks = chunks_of(&snapshot);
    assert!(chunks.len() >= 4, "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= MAX_CHUNK_BYTES));
    let mut restored = restore(chunks.clone(), snapshot.root()).expect("an honest snapshot");
    assert_eq!(restored.height(), snapshot.height());
    assert_eq!(restored.block_id(), snapshot.block_id());
    assert_eq!(restored.state_root(), state.state_root());
    assert_eq!(restored.root_at(state.height()), Some(snapshot.root()));
    assert_eq!(restored.root_at(Height(state.height().0 - 1)), None);
    assert_eq!(chunks_of(&restored.snapshot()), chunks);
    let next = [
        frame(3, 3, 1, &["a", "big 300000", "big 300000", "b"]),
        frame(3, 3, 3, &["big 300000", "b", "c"]),
        frame(4, 4, 5, &["e", "f", "g", "h"]),
        open(5, 1),
        open(6, 2),
    ];
    assert_eq!(execute(&mut restored, &next), execute(&mut state, &next));
}

#[test]
fn a_state_without_sessions_restores_too() {
    let state = state(Limits::default());
    let restored = restore(chunks_of(&state.snapshot()), state.state_root());
    assert_eq!(restored.expect("an honest snapshot").state_root(), state.state_root());
}

#[test]
fn a_sink_that_has_enough_gets_no_more() {
    let snapshot = large().snapshot();
    let all = chunks_of(&snapshot);
    for enough in 1..=all.len() {
        let mut got = Vec::new();
        snapshot.chunks(&mut |chunk| {
            got.push(Bytes::copy_from_slice(chunk));
            got.len() < enough
        });
        assert_eq!(got, all[..enough]);
    }
}

#[test]
fn another_state_than_the_certified_one_is_refused() {
    let state = large();
    let expected = Digest([9; 32]);
    let found = state.state_root();
    let error = restore(chunks_of(&state.snapshot()), expected).expect_err("another root");
    assert_eq!(error, SnapshotError::Root { expected, found });
}

/// Feeds chunks one by one: which is refused, and why; one more than there are: the state as a
/// whole.
fn refused(chunks: &[Bytes], root: Digest) -> Option<(usize, SnapshotError)> {
    let mut restoring = Restoring::new(Journal::default(), Limits::default(), root);
    for (at, chunk) in chunks.iter().enumerate() {
        if let Err(error) = restoring.take(chunk.clone()) {
            return Some((at, error));
        }
    }
    restoring.finish().err().map(|error| (chunks.len(), error))
}

#[test]
fn the_header_is_checked_before_anything_else_is_taken() {
    let state = large();
    let chunks = chunks_of(&state.snapshot());
    let header = Header::from_bytes(chunks[0].clone()).expect("a header");
    assert_eq!(header.summary.root(), state.state_root());
    let lie = StateSummary { application: Digest([3; 32]), ..header.summary };
    let forged = Header { summary: lie, ..header }.to_bytes();
    let (at, error) = refused(&[forged], state.state_root()).expect("another root");
    assert_eq!(at, 0);
    assert_eq!(error, SnapshotError::Root { expected: state.state_root(), found: lie.root() });
}

/// A root that a quorum signed may be that of another state than the one that was offered.
#[test]
fn a_state_of_another_block_is_found_out_by_its_header() {
    let state = large();
    let header = chunks_of(&state.snapshot()).remove(0);
    let of = |height: Height, id: Digest| {
        let new = Restoring::new(Journal::default(), Limits::default(), state.state_root());
        new.behind((height, id)).take(header.clone())
    };
    assert_eq!(of(state.height(), state.block_id()), Ok(()));
    let other = SnapshotError::Other { found: state.height() };
    assert_eq!(of(state.height().next(), state.block_id()), Err(other.clone()));
    assert_eq!(of(state.height(), Digest([5; 32])), Err(other));
}

#[test]
fn the_session_table_is_checked_when_it_is_whole() {
    let state = large();
    let chunks = chunks_of(&state.snapshot());
    let header = Header::from_bytes(chunks[0].clone()).expect("a header");
    let sessions = header.session_chunks as usize;
    assert!(sessions > 1 && sessions + 1 < chunks.len());
    // The reply to a retry.
    let mut forged = chunks.clone();
    let mut last = forged[sessions].to_vec();
    let at = last.windows(8).position(|bytes| bytes == [b'.'; 8]).expect("a long reply");
    last[at] = b'y';
    forged[sessions] = last.into();
    let (at, error) = refused(&forged, state.state_root()).expect("forged");
    assert_eq!(at, sessions, "before the application's: {error}");
    assert!(matches!(error, SnapshotError::Sessions(_)));
    // What the application cannot tell by the chunk is found at the end.
    let mut forged = chunks.clone();
    let mut last = forged[chunks.len() - 1].to_vec();
    *last.last_mut().expect("a byte") ^= 1;
    forged[chunks.len() - 1] = last.into();
    let (at, error) = refused(&forged, state.state_root()).expect("forged");
    assert_eq!(at, chunks.len());
    assert!(matches!(error, SnapshotError::Root { .. }));
}

/// How many chunks of sessions come is the sender's word, and no more are taken than the limits
/// allow.
#[test]
fn sessions_without_end_are_not_taken() {
    let state = state(Limits::default());
    let chunks = chunks_of(&state.snapshot());
    let header = Header::from_bytes(chunks[0].clone()).expect("a header");
    let endless = Header { session_chunks: u32::MAX, ..header }.to_bytes();
    // Ten sessions of a mebibyte, and what stands before them.
    let limits =
        Limits { max_sessions: 10, answer_bytes: 1 << 20, window_bytes: 0, ..Limits::default() };
    let mut large = Restoring::new(Journal::default(), limits, state.state_root());
    large.take(endless.clone()).expect("the root is right");
    let chunk = Bytes::from(vec![0; MAX_CHUNK_BYTES]);
    let taken = (0..100).take_while(|_| large.take(chunk.clone()).is_ok()).count();
    assert_eq!(taken, 5);
    // Nor in crumbs.
    let mut small = Restoring::new(Journal::default(), limits, state.state_root());
    small.take(endless).expect("the root is right");
    small.take(Bytes::from_static(b"crumb")).expect("it may be the last");
    small.take(Bytes::from_static(b"crumb")).expect_err("there was room");
}

#[test]
fn chunks_left_out_or_swapped_or_beyond_the_limits_are_refused() {
    let state = large();
    let chunks = chunks_of(&state.snapshot());
    for left_out in 0..chunks.len() {
        let mut some = chunks.clone();
        some.remove(left_out);
        restore(some, state.state_root()).expect_err("a chunk is missing");
        let mut swapped = chunks.clone();
        swapped.swap(left_out, (left_out + 1) % chunks.len());
        restore(swapped, state.state_root()).expect_err("chunks are out of order");
    }
    let table = || chunks[1..].iter().cloned();
    Sessions::restore(Limits::default(), &mut table()).expect("within the limits");
    let tight = [
        Limits { max_sessions: 5, ..Limits::default() },
        Limits { answer_bytes: 500_000, ..Limits::default() },
        Limits { window_frames: 0, ..Limits::default() },
    ];
    for limits in tight {
        Sessions::restore(limits, &mut table()).expect_err("more than the limits allow");
    }
}

#[test]
fn a_restored_session_stays_ended() {
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1), open(1, 2)]);
    let restored = restore(chunks_of(&state.snapshot()), state.state_root());
    let answer = restored.expect("an honest snapshot").sessions().answer(&frame(1, 1, 1, &["a"]));
    assert_eq!(answer, Some(rejected(1, 1, Rejection::UnknownSession)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_changed_byte_survives(
        chunk in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        flip in 1..=255u8,
        cut in any::<bool>(),
    ) {
        let mut state = state(Limits::default());
        let frames = [
            open(1, 1), open(2, 1),
            frame(1, 1, 1, &["a", "b"]), frame(2, 2, 7, &["waits", "too"]),
        ];
        execute(&mut state, &frames);
        let mut chunks = chunks_of(&state.snapshot());
        let chunk = chunk.index(chunks.len());
        let mut changed = chunks[chunk].to_vec();
        let byte = byte.index(changed.len());
        if cut {
            changed.truncate(byte);
        } else {
            changed[byte] ^= flip;
        }
        chunks[chunk] = changed.into();
        prop_assert!(restore(chunks, state.state_root()).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_refused_in_peace(
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
        whole_header in any::<bool>(),
    ) {
        let mut chunks: Vec<Bytes> = noise.into_iter().map(Bytes::from).collect();
        if whole_header {
            chunks.insert(0, chunks_of(&state(Limits::default()).snapshot())[0].clone());
        }
        prop_assert!(restore(chunks, Digest([9; 32])).is_err());
    }
}

fn offer() -> Box<Offer<Types>> {
    let block = Arc::new(Block::genesis(Digest::default(), Epoch(0)));
    let evidence = Qc::genesis(block.id());
    let shown = Shown { block: Arc::clone(&block), evidence };
    Box::new(Offer { epoch: Epoch(0), block, recent: Vec::new(), shown })
}

/// A liar offers a snapshot, gives no chunk of it, and offers it again, quicker than anybody else
/// answers. Its second offer waits for its turn, and the others have theirs before.
#[test]
fn who_gives_nothing_of_what_it_offers_waits_for_its_turn() {
    let (liar, holder) = (ReplicaId(1), ReplicaId(2));
    let keys = (0..4).map(|id| ReplicaKey::from([id; 32])).collect();
    let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
    let missing = Missing { block: Digest([1; 32]), holders: vec![liar, holder] };
    let mut catch_up = CatchUp::<Types, Journal>::new(1 << 30);
    let mut now = Time(0);
    let mut next = |catch_up: &mut CatchUp<Types, Journal>| loop {
        now = catch_up.deadline().unwrap().max(now);
        catch_up.want(Some(&missing), ReplicaId(0), &committee);
        if let Some((to, PeerMessage::FetchChain { .. })) = catch_up.due(now, Height(0)) {
            return (now, to);
        }
    };
    catch_up.want(Some(&missing), ReplicaId(0), &committee);
    let (now, asked) = next(&mut catch_up);
    assert_eq!(asked, liar);
    assert!(catch_up.takes_offers(liar));
    let restoring = Restoring::new(Journal::default(), Limits::default(), large().state_root());
    let _: PeerMessage<Types> = catch_up.accept(now, liar, offer(), restoring);
    assert_eq!(next(&mut catch_up).1, holder, "the chunk was asked for often enough");
    assert!(!catch_up.takes_offers(liar));
    assert!(catch_up.takes_offers(holder));
    assert_eq!(next(&mut catch_up).1, liar, "the other did not answer");
    assert!(catch_up.takes_offers(liar));
}

/// A liar offers a genuine state, and sends chunks without end, each in time. The application tells
/// of none of them that it is wrong; but the whole has its time as well.
#[test]
fn who_never_comes_to_the_end_of_a_snapshot_is_left() {
    let liar = ReplicaId(1);
    let mut catch_up = CatchUp::<Types, Journal>::new(1 << 30);
    let second = Duration::from_secs(1);
    let mut now = Time(0);
    for patience in [60, 120] {
        let restoring = Restoring::new(Journal::default(), Limits::default(), large().state_root());
        let _: PeerMessage<Types> = catch_up.accept(now, liar, offer(), restoring);
        let mut genuine = chunks_of(&large().snapshot()).into_iter();
        // The last of the genuine ones is never sent.
        let genuine_chunks = genuine.len() as u32 - 1;
        for number in 0..patience {
            let chunk = genuine.next().filter(|_| number < genuine_chunks);
            let chunk = chunk.unwrap_or_else(|| Bytes::from_static(b"more"));
            let answer = catch_up.chunk(now, liar, (Height(0), number, false), chunk);
            assert!(matches!(answer, Chunked::More), "chunk {number}: {answer:?}");
            now = now.after(second);
        }
        let more = Bytes::from_static(b"more");
        let answer = catch_up.chunk(now, liar, (Height(0), patience, false), more);
        let Chunked::Unfit(SnapshotError::TooSlow { seconds }) = answer else {
            panic!("{answer:?} after {patience} s");
        };
        assert_eq!(seconds, u64::from(patience));
    }
}

/// Chunks that nobody asked for, at the moment at which they would hurt: while a snapshot is taken
/// over from another, of other snapshots, ahead of their turn, and behind the end.
#[test]
fn chunks_nobody_asked_for_are_passed_over() {
    let chunks = chunks_of(&large().snapshot());
    let (now, peer, liar) = (Time(0), ReplicaId(1), ReplicaId(2));
    let mut catch_up = CatchUp::new(1 << 30);
    let junk = || Bytes::from_static(b"junk");
    let before = catch_up.chunk(now, peer, (Height(0), 0, true), junk());
    assert!(matches!(before, Chunked::Unasked), "nothing was asked for");
    let restoring = Restoring::new(Journal::default(), Limits::default(), large().state_root());
    let _: PeerMessage<Types> = catch_up.accept(now, peer, offer(), restoring);
    let last = chunks.len() as u32 - 1;
    for (at, chunk) in chunks.into_iter().enumerate() {
        let at = at as u32;
        let unasked = [
            (liar, Height(0), at),
            (peer, Height(1), at),
            (peer, Height(0), at + 1),
            (peer, Height(0), u32::MAX),
        ];
        for (from, height, number) in unasked {
            let answer = catch_up.chunk(now, from, (height, number, number == last), junk());
            assert!(matches!(answer, Chunked::Unasked), "{from:?}, {height}, {number} at {at}");
        }
        match catch_up.chunk(now, peer, (Height(0), at, at == last), chunk) {
            Chunked::More if at < last => {}
            Chunked::Complete(_, restoring) if at == last => {
                let restored = restoring.finish().expect("all that belongs to it");
                assert_eq!(restored.state_root(), large().state_root());
            }
            other => panic!("chunk {at}: {other:?}"),
        }
    }
    let behind = catch_up.chunk(now, peer, (Height(0), last + 1, true), junk());
    assert!(matches!(behind, Chunked::Unasked), "it is complete");
}

/// A liar can send chunks for ever that the application has to collect before it can tell them from
/// others. The transfer ends at the cluster's limit, and what follows was not asked for.
#[test]
fn a_snapshot_without_end_is_given_up_at_the_limit() {
    let chunks = chunks_of(&large().snapshot());
    let root = large().state_root();
    let honest: usize = chunks.iter().map(Bytes::len).sum();
    let limit_bytes = honest + 10 * MAX_CHUNK_BYTES;
    let (now, peer) = (Time(0), ReplicaId(1));
    let mut catch_up = CatchUp::new(limit_bytes as u64);
    let restoring = Restoring::new(Journal::default(), Limits::default(), root);
    let _: PeerMessage<Types> = catch_up.accept(now, peer, offer(), restoring);
    let endless = std::iter::repeat(Bytes::from(vec![7; MAX_CHUNK_BYTES]));
    let mut taken = 0;
    for (at, chunk) in chunks.into_iter().chain(endless).enumerate() {
        let bytes = chunk.len();
        match catch_up.chunk(now, peer, (Height(0), at as u32, false), chunk) {
            Chunked::More => taken += bytes,
            Chunked::Unfit(SnapshotError::TooLarge { limit_bytes: said }) => {
                assert_eq!(said, limit_bytes as u64);
                let next = (Height(0), at as u32 + 1, false);
                let next = catch_up.chunk(now, peer, next, Bytes::from_static(b"more"));
                assert!(matches!(next, Chunked::Unasked), "it goes on");
                break;
            }
            other => panic!("chunk {at}: {other:?}"),
        }
        assert!(taken <= limit_bytes, "{taken} bytes are kept, {limit_bytes} are the limit");
    }
    assert!(taken > honest, "the limit was not what ended it");
}

/// Its state is empty. Panics at any chunk, and, if `fails`, when it is frozen.
#[derive(Debug, Default)]
struct Brittle {
    fails: bool,
}

impl StateMachine for Brittle {
    fn apply(&mut self, _: &Decided<'_>, _: &mut Replies) {}

    fn query(&self, _: &[u8]) -> Bytes {
        Bytes::new()
    }

    fn root(&mut self) -> Digest {
        Digest([5; 32])
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        assert!(!self.fails, "not to be frozen");
        Box::new(Empty)
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        assert_eq!(chunks.next(), None, "nothing can be made of this");
        Ok(())
    }
}

struct Empty;

impl Snapshot for Empty {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let _ = sink(b"") && sink(b"");
    }
}

fn brittle(fails: bool) -> Execution<Brittle> {
    Execution::new(Brittle { fails }, Limits::default(), GENESIS).expect("limits of use")
}

/// An application may hand out its empty state as a chunk that is empty.
#[test]
fn an_empty_chunk_is_none() {
    let snapshot = brittle(false).snapshot();
    let chunks = chunks_of(&snapshot);
    assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
    let restored = Execution::restore(
        Brittle::default(),
        Limits::default(),
        &mut chunks.into_iter(),
        snapshot.root(),
    );
    assert_eq!(restored.expect("the empty state").state_root(), snapshot.root());
}

/// What a liar sends behind an honest header must not stop the replica.
#[test]
fn an_application_that_panics_on_chunks_has_refused_them() {
    let snapshot = brittle(false).snapshot();
    let mut chunks = chunks_of(&snapshot);
    chunks.push(Bytes::from_static(b"a lie"));
    let mut chunks = chunks.into_iter();
    let refused =
        Execution::restore(Brittle::default(), Limits::default(), &mut chunks, snapshot.root());
    let Err(SnapshotError::Application(RestoreError { reason, .. })) = refused else {
        panic!("it was taken over")
    };
    assert!(reason.contains("the application panicked: ") && reason.contains("nothing can be"));
}

#[test]
fn a_panic_when_the_state_is_frozen_is_final() {
    let mut state = brittle(true);
    let failed = state.freeze().map(drop);
    let Err(ExecutionError::Panicked { height: Height(0), at: None, message }) = &failed else {
        panic!("{failed:?}")
    };
    assert_eq!(message, "not to be frozen");
    assert_eq!(state.execute(Height(1), View(1), Digest([3; 32]), &[]).map(drop), failed);
}

/// A liar that withholds bodies could have others wait for one block after the other.
#[test]
fn at_one_height_bodies_are_waited_for_once() {
    let mut catch_up = CatchUp::<Types, Journal>::new(0);
    let longest = Some(Duration::from_millis(100));
    let millis = |count: u64| Time(count * 1_000_000);
    let mut waits = |at, height, is_missing, longest| {
        let waits = catch_up.waits(millis(at), Height(height), is_missing, longest);
        assert_eq!(catch_up.deadline().is_some(), waits, "it wakes, and no more than that");
        waits
    };
    assert!(waits(0, 7, true, longest) && waits(99, 7, true, longest));
    assert!(!waits(100, 7, true, longest), "they were to be here");
    assert!(!waits(150, 7, true, None) && !waits(151, 7, true, longest));
    assert!(waits(160, 8, true, longest), "there was progress");
    assert!(!waits(260, 8, true, longest));
    assert!(!waits(261, 8, false, None) && waits(262, 8, true, longest), "all came");
}
