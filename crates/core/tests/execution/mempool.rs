//! The mempool: order, bounds, forks.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use quorate_core::client::message::Refusal;
use quorate_core::ledger::block::MOST_PROOFS;
use quorate_core::ledger::frame::{Frame, FrameId, SharedFrame};
use quorate_core::ledger::mempool::{Admission, Cap, Limits, MOST_STEPS, Mempool, Origin};
use quorate_core::ledger::sessions::{self, Sessions};
use quorate_core::{ReplicaId, Time};

use crate::fixtures::*;

const NO_ANCESTORS: &dyn Fn(&FrameId) -> bool = &|_| false;
const PLENTY: usize = usize::MAX;

fn no_sessions() -> Sessions {
    Sessions::new(sessions::Limits::default()).expect("limits of use")
}

fn add(pool: &mut Mempool, frame: &SharedFrame) -> Admission {
    pool.insert(frame.clone(), Origin::Client, Time(0), &no_sessions())
}

fn filled(frames: &[&SharedFrame]) -> Mempool {
    let mut pool = Mempool::new(Limits::default());
    for frame in frames {
        assert_eq!(add(&mut pool, frame), Admission::Added);
    }
    pool
}

#[test]
fn a_frame_is_in_once() {
    let one = frame(1, 1, 1, &["a"]);
    let mut pool = filled(&[&one]);
    assert_eq!(add(&mut pool, &signed_frame(1, 1, 1, &[b"a".to_vec()], 9)), Admission::Known);
    assert_eq!((pool.len(), pool.bytes()), (1, one.encoded_bytes().len()));
    assert_eq!(pool.get(&one.id()), Some(&one));
    assert!(pool.contains(&one.id()));
    let removed = pool.committed(std::slice::from_ref(&one), &no_sessions());
    assert_eq!((removed.len(), pool.len(), pool.bytes()), (0, 0, 0));
    assert_eq!(pool.oldest(), None);
}

#[test]
fn predecessors_go_first_and_nobody_waits_for_them() {
    let (a3, b1, a1, a2) = (
        frame(1, 1, 3, &["a3"]),
        frame(2, 2, 1, &["b1"]),
        frame(1, 1, 1, &["a1"]),
        frame(1, 1, 2, &["a2"]),
    );
    let pool = filled(&[&a3, &b1, &a1, &a2]);
    let all = [a1.clone(), a2.clone(), a3.clone(), b1.clone()];
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, PLENTY), all);
    // a2 is nowhere to be seen: a3 goes all the same.
    let pool = filled(&[&a3, &b1, &a1]);
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, PLENTY), [a1.clone(), a3.clone(), b1.clone()]);
    let ancestor = a1.id();
    assert_eq!(pool.batch(&|id| *id == ancestor, PLENTY, PLENTY), [a3, b1]);
}

#[test]
fn a_batch_fits_or_is_one_frame() {
    let big = frame(1, 1, 1, &["a", "b", "c"]);
    let small = frame(2, 2, 1, &["d"]);
    let pool = filled(&[&big, &small]);
    assert_eq!(pool.batch(NO_ANCESTORS, 1, 1), std::slice::from_ref(&big));
    assert_eq!(pool.batch(NO_ANCESTORS, 3, PLENTY), std::slice::from_ref(&big));
    assert_eq!(pool.batch(NO_ANCESTORS, 4, PLENTY), [big.clone(), small.clone()]);
    let bytes = big.encoded_bytes().len() + small.encoded_bytes().len();
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, bytes - 1), std::slice::from_ref(&big));
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, bytes), [big, small]);
}

#[test]
fn frames_of_an_abandoned_fork_are_proposed_again() {
    let (mine, theirs, later) =
        (frame(1, 1, 1, &["m"]), frame(2, 2, 1, &["t"]), frame(3, 3, 1, &["l"]));
    let mut pool = filled(&[&mine]);
    let learnt = pool.insert(theirs.clone(), Origin::Proposal, Time(1), &no_sessions());
    assert_eq!(learnt, Admission::Added);
    add(&mut pool, &later);
    let fork: BTreeSet<_> = [mine.id(), theirs.id()].into();
    assert_eq!(pool.batch(&|id| fork.contains(id), PLENTY, PLENTY), std::slice::from_ref(&later));
    // The next block does not extend the fork.
    let expected = [mine, theirs, later];
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, PLENTY), expected);
}

#[test]
fn a_batch_looks_at_itself_and_the_ancestors_alone() {
    let mut pool = Mempool::new(Limits { key: Limits::default().submitted, ..Limits::default() });
    let frames: Vec<_> =
        (0..20_000u64).map(|i| frame((i % 50) as u8, i % 50 + 1, i / 50 + 1, &["x"])).collect();
    frames.iter().for_each(|frame| assert_eq!(add(&mut pool, frame), Admission::Added));
    let in_flight: BTreeSet<_> = frames[..300].iter().map(|frame| frame.id()).collect();
    let looked = Cell::new(0);
    let in_ancestors = |id: &FrameId| {
        looked.set(looked.get() + 1);
        in_flight.contains(id)
    };
    let batch = pool.batch(&in_ancestors, 100, PLENTY);
    assert_eq!(batch, frames[300..400]);
    assert_eq!(looked.get(), 401);
}

#[test]
fn what_needs_no_ordering_is_not_taken_in() {
    let mut state = state(sessions::Limits::default());
    let (done, waiting) = (frame(1, 1, 1, &["a"]), frame(1, 1, 5, &["e"]));
    execute(&mut state, &[open(1, 1), done.clone(), waiting.clone()]);
    let mut pool = Mempool::new(Limits::default());
    let mut ask = |frame| pool.insert(frame, Origin::Client, Time(0), state.sessions());
    assert_eq!(ask(done), Admission::Answered(executed(1, 1, 0, &["a"])));
    assert_eq!(ask(waiting), Admission::Waiting);
    assert_eq!(ask(open(1, 1)), Admission::Answered(opened(1, 1)));
    assert_eq!(ask(frame(1, 1, 2, &["b"])), Admission::Added);
    assert_eq!(pool.len(), 1);
}

#[test]
fn a_commit_settles_other_framings_and_ended_sessions() {
    let mut state = state(sessions::Limits::default());
    execute(&mut state, &[open(1, 1), open(2, 1)]);
    let whole = frame(1, 1, 1, &["a", "b"]);
    let (part, more) = (frame(1, 1, 1, &["a"]), frame(1, 1, 2, &["b", "c"]));
    let (dead, newer) = (frame(2, 2, 3, &["x"]), open(2, 2));
    let mut pool = filled(&[&part, &whole, &more, &dead, &newer]);
    let block = [whole, newer];
    execute(&mut state, &block);
    assert_eq!(pool.committed(&block, state.sessions()), [part, dead]);
    assert_eq!(pool.batch(NO_ANCESTORS, PLENTY, PLENTY), [more]);
}

#[test]
fn frames_are_passed_on_once_when_they_are_old() {
    let mut pool = Mempool::new(Limits::default());
    let frames: Vec<_> = (1..=5).map(|client| frame(client, 1, 1, &["x"])).collect();
    let origins =
        [Origin::Client, Origin::Relayed, Origin::Proposal, Origin::Client, Origin::Client];
    for (at, (frame, origin)) in (10..).zip(frames.iter().zip(origins)) {
        pool.insert(frame.clone(), origin, Time(at), &no_sessions());
    }
    assert_eq!(pool.oldest(), Some(Time(10)));
    pool.committed(&frames[3..4], &no_sessions());
    assert_eq!(pool.unrelayed_before(Time(10), Time(20)), []);
    assert_eq!(pool.unrelayed_before(Time(14), Time(20)), [frames[0].clone()]);
    assert_eq!(pool.unrelayed_before(Time(15), Time(20)), [frames[4].clone()]);
    assert_eq!(pool.unrelayed_before(Time(99), Time(20)), []);
    assert_eq!(pool.len(), 4);
}

#[test]
fn frames_are_passed_on_again_when_asked_for_some_time_later() {
    let mut pool = Mempool::new(Limits::default());
    let [late, passed] = [1, 2].map(|client| frame(client, 1, 1, &["x"]));
    pool.insert(late.clone(), Origin::Client, Time(10), &no_sessions());
    pool.insert(passed.clone(), Origin::Relayed, Time(10), &no_sessions());
    for frame in [&late, &passed] {
        assert!(!pool.pass_on_again(&frame.id(), Time(10), Time(30)));
        assert!(pool.pass_on_again(&frame.id(), Time(11), Time(30)));
        assert!(!pool.pass_on_again(&frame.id(), Time(30), Time(50)));
        assert!(pool.pass_on_again(&frame.id(), Time(31), Time(50)));
    }
    // That was instead of the first time.
    assert_eq!(pool.oldest_unrelayed(), None);
    let unknown = frame(3, 1, 1, &["x"]);
    assert!(!pool.pass_on_again(&unknown.id(), Time(99), Time(99)));
}

fn tight() -> Limits {
    Limits {
        session: Cap { frames: 3, bytes: 600 },
        key: Cap { frames: 5, bytes: 900 },
        submitted: Cap { frames: 9, bytes: 1500 },
        learnt: Cap { frames: 4, bytes: 700 },
    }
}

#[test]
fn a_leader_who_proposes_without_end_takes_no_room_from_clients() {
    let mut pool = Mempool::new(tight());
    let propose = |pool: &mut Mempool, frame: &SharedFrame| {
        pool.insert(frame.clone(), Origin::Proposal, Time(0), &no_sessions())
    };
    let busy = Admission::Refused(Refusal::Busy);
    for client in 10..14 {
        assert_eq!(propose(&mut pool, &frame(client, 1, 1, &["x"])), Admission::Added);
    }
    assert_eq!(propose(&mut pool, &frame(14, 1, 1, &["x"])), busy);
    for client in 1..=8 {
        assert_eq!(add(&mut pool, &frame(client, 1, 1, &["x"])), Admission::Added);
    }
    // One that was learnt and is now submitted changes rooms, and leaves room for another.
    assert_eq!(add(&mut pool, &frame(10, 1, 1, &["x"])), Admission::Known);
    assert_eq!(add(&mut pool, &frame(9, 1, 1, &["x"])), busy);
    assert_eq!(propose(&mut pool, &frame(14, 1, 1, &["x"])), Admission::Added);
}

/// The liars of a committee together get half of the room for what was submitted.
#[test]
fn who_passes_on_without_end_takes_no_room_from_clients() {
    let mut pool = Mempool::new(tight());
    pool.share_among(2);
    let pass_on = |pool: &mut Mempool, peer, client| {
        let origin = Origin::RelayedBy(ReplicaId(peer));
        pool.insert(frame(client, 1, 1, &["x"]), origin, Time(0), &no_sessions())
    };
    let busy = Admission::Refused(Refusal::Busy);
    // A quarter of nine frames each.
    for client in [10, 11] {
        assert_eq!(pass_on(&mut pool, 1, client), Admission::Added);
    }
    assert_eq!(pass_on(&mut pool, 1, 12), busy);
    for client in [12, 13] {
        assert_eq!(pass_on(&mut pool, 2, client), Admission::Added);
    }
    assert_eq!(pass_on(&mut pool, 2, 14), busy);
    for client in 1..=5 {
        assert_eq!(add(&mut pool, &frame(client, 1, 1, &["x"])), Admission::Added);
    }
    // What was committed makes room for more of the same replica.
    pool.committed(&[frame(10, 1, 1, &["x"])], &no_sessions());
    assert_eq!(pass_on(&mut pool, 2, 14), busy);
    assert_eq!(pass_on(&mut pool, 1, 14), Admission::Added);
}

#[test]
fn frames_that_are_not_ready_hold_up_their_own_session_alone() {
    let (a1, a2, a3) = (frame(1, 1, 1, &["a"]), frame(1, 1, 2, &["a"]), frame(1, 1, 3, &["a"]));
    let (b1, c1) = (frame(2, 2, 1, &["b"]), frame(3, 3, 1, &["c"]));
    let pool = filled(&[&a1, &b1, &a3, &a2, &c1]);
    let ready = |held_up: &[&SharedFrame]| {
        let ids: BTreeSet<FrameId> = held_up.iter().map(|frame| frame.id()).collect();
        let proofs_of = |it: &Frame| (!ids.contains(&it.id())).then_some(0);
        pool.ready_batch(NO_ANCESTORS, &proofs_of, PLENTY, PLENTY)
    };
    assert_eq!(ready(&[&a2]), [a1.clone(), b1.clone(), c1.clone()]);
    assert_eq!(ready(&[&a1, &c1]), std::slice::from_ref(&b1));
    assert_eq!(ready(&[]), pool.batch(NO_ANCESTORS, PLENTY, PLENTY));
    // Only what was passed on at once has a time from which it waits.
    let mut pool = filled(&[&a1]);
    for (frame, origin) in [(&b1, Origin::Relayed), (&c1, Origin::RelayedBy(ReplicaId(2)))] {
        pool.insert(frame.clone(), origin, Time(7), &no_sessions());
    }
    let since = [&a1, &b1, &c1, &a2].map(|frame| pool.passed_on_at_once(&frame.id()));
    assert_eq!(since, [None, Some(Time(7)), Some(Time(7)), None]);
    assert_eq!(pool.all_passed_on_at_once().cloned().collect::<Vec<_>>(), [b1, c1]);
}

/// Others refuse a block whose proofs weigh more.
#[test]
fn a_block_takes_proofs_of_so_much_weight_and_one_frame_whatever_it_weighs() {
    let frames: Vec<_> = (1..=4).map(|client| frame(client, 1, 1, &["x"])).collect();
    let pool = filled(&frames.iter().collect::<Vec<_>>());
    let batch = |weights: [usize; 4]| {
        let proofs_of = |frame: &Frame| {
            let at = frames.iter().position(|it| it.id() == frame.id());
            Some(weights[at.expect("it is in the pool")])
        };
        pool.ready_batch(NO_ANCESTORS, &proofs_of, PLENTY, PLENTY).len()
    };
    assert_eq!(batch([0; 4]), 4);
    assert_eq!(batch([MOST_PROOFS / 2, 0, MOST_PROOFS / 2, 1]), 3);
    assert_eq!(batch([MOST_PROOFS + 1, 0, 0, 0]), 1);
    // What has no room waits, and holds up nobody else.
    assert_eq!(batch([0, MOST_PROOFS + 1, usize::MAX, 0]), 2);
    assert_eq!(batch([MOST_PROOFS / 2, MOST_PROOFS, 0, MOST_PROOFS / 2]), 3);
}

/// One that lies may have as many sound steps as there are sessions, and each costs as much as
/// hundreds of signatures.
#[test]
fn a_key_has_few_steps_of_key_generations_and_whatever_rests_on_less_passes_them_by() {
    let step = |session| frame(1, session, 1, &["quorate generation 1, and so on"]);
    let mut pool = Mempool::new(Limits::default());
    for session in 1..=MOST_STEPS as u64 {
        assert!(pool.takes_step(&step(session), 0));
        assert_eq!(add(&mut pool, &step(session)), Admission::Added);
    }
    let one_more = step(MOST_STEPS as u64 + 1);
    assert!(!pool.takes_step(&one_more, 0));
    assert!(!Mempool::new(Limits::default()).takes_step(&step(1), MOST_STEPS));
    assert_eq!(add(&mut pool, &one_more), Admission::Refused(Refusal::Busy));
    // Its other commands have room, and so have others' steps.
    let (plain, other) = (frame(1, 9000, 1, &["x"]), frame(2, 1, 1, &["quorate generation 1"]));
    assert_eq!(add(&mut pool, &plain), Admission::Added);
    assert_eq!(add(&mut pool, &other), Admission::Added);
    let asked = Cell::new(0);
    let proofs_of = |it: &Frame| {
        asked.set(asked.get() + 1);
        Some(if it.id() == plain.id() { 0 } else { MOST_PROOFS / 4 })
    };
    let block = pool.ready_batch(NO_ANCESTORS, &proofs_of, PLENTY, PLENTY);
    assert_eq!(block, [step(1), step(2), step(3), step(4), plain.clone()]);
    assert!(asked.get() < 30, "it costs little to pass them by: {}", asked.get());
    // Room comes back with what is executed.
    pool.committed(&[step(1)], &no_sessions());
    assert_eq!(add(&mut pool, &one_more), Admission::Added);
}

/// A replica passes on frames of very many sessions to a few alone, so that nobody tells of them.
/// Those of others go into the next block all the same, and to find them takes few questions.
#[test]
fn a_replica_whose_frames_nobody_holds_delays_no_others() {
    let mut pool = Mempool::new(Limits::default());
    let pass_on = |pool: &mut Mempool, peer, frame| {
        let origin = Origin::RelayedBy(ReplicaId(peer));
        assert_eq!(pool.insert(frame, origin, Time(0), &no_sessions()), Admission::Added);
    };
    for session in 1..=3000 {
        pass_on(&mut pool, 1, frame(1, session, 1, &["withheld"]));
    }
    let (held, own) = (frame(2, 1, 1, &["held"]), frame(3, 1, 1, &["own"]));
    pass_on(&mut pool, 2, held.clone());
    pool.insert(own.clone(), Origin::Relayed, Time(0), &no_sessions());
    let (ready, asked) = ([held.id(), own.id()], Cell::new(0));
    let proofs_of = |frame: &Frame| {
        asked.set(asked.get() + 1);
        ready.contains(&frame.id()).then_some(0)
    };
    assert_eq!(pool.ready_batch(NO_ANCESTORS, &proofs_of, PLENTY, PLENTY), [held, own]);
    assert!(asked.get() < 1100, "{}", asked.get());
}

/// The order of [`Mempool::batch`], spelled out: in the order of arrival, each frame behind those
/// of its lane that are to go before it.
fn whole_order(arrivals: &[SharedFrame], ancestors: &BTreeSet<FrameId>) -> Vec<SharedFrame> {
    let mut order: Vec<SharedFrame> = Vec::new();
    for arrival in arrivals {
        let mut due: Vec<_> = arrivals
            .iter()
            .filter(|f| (f.key(), f.session()) == (arrival.key(), arrival.session()))
            .filter(|f| (f.first(), f.id()) <= (arrival.first(), arrival.id()))
            .filter(|f| !ancestors.contains(&f.id()) && !order.contains(f))
            .cloned()
            .collect();
        due.sort_by_key(|f| (f.first(), f.id()));
        order.extend(due);
    }
    order
}

#[derive(Clone, Debug)]
enum Deed {
    Insert { client: u8, session: u64, first: u64, count: usize, proposal: bool },
    Commit { max_commands: usize },
    Propose { max_commands: usize, max_bytes: usize },
    Abandon,
}

fn deeds() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (1..5u8, 1..3u64, 1..8u64, 1..4usize, any::<bool>()).prop_map(
            |(client, session, first, count, proposal)|
                Deed::Insert { client, session, first, count, proposal }),
        1 => (1..6usize).prop_map(|max_commands| Deed::Commit { max_commands }),
        2 => (1..8usize, 100..900usize)
            .prop_map(|(max_commands, max_bytes)| Deed::Propose { max_commands, max_bytes }),
        1 => Just(Deed::Abandon),
    ]
}

/// Whether what is held, each with whether it takes the room of what is learnt, is within bounds.
fn within_caps(held: &[(SharedFrame, bool)]) -> bool {
    let limits = tight();
    let within = |cap: Cap, of: &dyn Fn(&SharedFrame, bool) -> bool| {
        let some: Vec<_> = held.iter().filter(|(frame, learnt)| of(frame, *learnt)).collect();
        let bytes: usize = some.iter().map(|(frame, _)| frame.encoded_bytes().len()).sum();
        some.len() <= cap.frames && bytes <= cap.bytes
    };
    held.iter().all(|(frame, room)| {
        let total = if *room { limits.learnt } else { limits.submitted };
        let same_key = |f: &SharedFrame, learnt| learnt == *room && f.key() == frame.key();
        within(total, &|_, learnt| learnt == *room)
            && within(limits.key, &same_key)
            && within(limits.session, &|f, learnt| {
                same_key(f, learnt) && f.session() == frame.session()
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_flood_stays_in_order_and_within_bounds(deeds in prop::collection::vec(deeds(), 1..80)) {
        let sessions = no_sessions();
        let mut pool = Mempool::new(tight());
        // In order of arrival; whether each takes the room of what is learnt.
        let mut held: Vec<(SharedFrame, bool)> = Vec::new();
        let mut ancestors: BTreeSet<FrameId> = BTreeSet::new();
        for deed in deeds {
            let arrivals: Vec<_> = held.iter().map(|(frame, _)| frame.clone()).collect();
            match deed {
                Deed::Insert { client, session, first, count, proposal } => {
                    let frame = frame(client, session, first, &vec!["command"; count]);
                    let origin = if proposal { Origin::Proposal } else { Origin::Relayed };
                    let known = held.iter().position(|(other, _)| *other == frame);
                    match pool.insert(frame.clone(), origin, Time(0), &sessions) {
                        Admission::Added => {
                            prop_assert_eq!(known, None);
                            held.push((frame, proposal));
                        }
                        Admission::Known => {
                            let known = known.expect("it was held");
                            if held[known].1 && !proposal {
                                held[known].1 = false;
                                held[known].1 = !within_caps(&held);
                            }
                        }
                        Admission::Refused(Refusal::Busy) => {
                            prop_assert_eq!(known, None);
                            held.push((frame, proposal));
                            prop_assert!(!within_caps(&held), "refused without need");
                            held.pop();
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                    prop_assert!(within_caps(&held));
                }
                Deed::Propose { max_commands, max_bytes } => {
                    let order = whole_order(&arrivals, &ancestors);
                    let batch = pool.batch(&|id| ancestors.contains(id), max_commands, max_bytes);
                    let fits = |n: usize| {
                        let commands: usize = order[..n].iter().map(|f| f.count() as usize).sum();
                        let bytes: usize = order[..n].iter().map(|f| f.encoded_bytes().len()).sum();
                        n == 1 || commands <= max_commands && bytes <= max_bytes
                    };
                    let expected = (1..=order.len()).take_while(|n| fits(*n)).last().unwrap_or(0);
                    prop_assert_eq!(&batch[..], &order[..expected]);
                    ancestors.extend(batch.iter().map(|frame| frame.id()));
                }
                Deed::Commit { max_commands } => {
                    let batch = pool.batch(NO_ANCESTORS, max_commands, PLENTY);
                    prop_assert_eq!(pool.committed(&batch, &sessions), []);
                    held.retain(|(frame, _)| !batch.contains(frame));
                    batch.iter().for_each(|frame| { ancestors.remove(&frame.id()); });
                }
                Deed::Abandon => ancestors.clear(),
            }
            let bytes: usize = held.iter().map(|(frame, _)| frame.encoded_bytes().len()).sum();
            prop_assert_eq!((pool.len(), pool.bytes()), (held.len(), bytes));
        }
        let all: Vec<_> = held.into_iter().map(|(frame, _)| frame).collect();
        pool.committed(&all, &sessions);
        prop_assert_eq!((pool.len(), pool.bytes(), pool.oldest()), (0, 0, None));
    }
}
