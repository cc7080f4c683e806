//! A snapshot on its way from one replica to another.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use quorate_core::Height;
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_sim::network::Fate;
use quorate_sim::{Cluster, Config, Peer};

const AWAY: usize = 3;

/// What a replica asked for, and how often: of whom, which chunk of which snapshot.
type Asked = Rc<RefCell<BTreeMap<(usize, Height, u32), u32>>>;

/// A replica is away until the others have only snapshots of what it lacks; then it is back, and
/// `meddle` decides over what the others send it.
fn comes_back(meddle: impl Fn(usize, &Peer) -> Fate + 'static) -> (Cluster, Asked) {
    let config =
        Config { snapshot_blocks: 5, retire: true, log_room_bytes: 0, ..Config::default() };
    let mut cluster = Cluster::new(config);
    cluster.request(0, 2, 10);
    assert!(cluster.run_until_answered(60_000_000));
    cluster.crash(AWAY);
    for _ in 0..20 {
        cluster.request(0, 3, 40);
        assert!(cluster.run_until_answered(60_000_000));
    }
    let asked = Asked::default();
    let seen = Rc::clone(&asked);
    cluster.meddler = Some(Box::new(move |from, to, message| match message {
        PeerMessage::FetchChunk { height, chunk } if from == AWAY => {
            *seen.borrow_mut().entry((to, *height, *chunk)).or_default() += 1;
            Fate::Goes
        }
        _ if to == AWAY => meddle(from, message),
        _ => Fate::Goes,
    }));
    cluster.boot(AWAY);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(60_000_000));
    assert!(cluster.run_until(60_000_000, Cluster::is_level), "it stays behind");
    (cluster, asked)
}

/// From whom transfers of the first snapshot were begun. (Blocks above it may be gone by then, and
/// another one follows.)
fn begun(asked: &Asked) -> Vec<usize> {
    let asked = asked.borrow();
    let first = asked.keys().map(|(_, height, _)| *height).min();
    let begins = asked.keys().filter(|(_, height, chunk)| *chunk == 0 && Some(*height) == first);
    begins.map(|(from, ..)| *from).collect()
}

/// The fate of so many chunks behind the first.
fn first_chunks(count: u32, fate: Fate) -> impl Fn(usize, &Peer) -> Fate {
    let left = RefCell::new(count);
    move |_, message| match message {
        PeerMessage::Chunk { chunk, .. } if *chunk > 0 && *left.borrow() > 0 => {
            *left.borrow_mut() -= 1;
            fate.clone()
        }
        _ => Fate::Goes,
    }
}

#[test]
fn a_chunk_that_is_lost_is_asked_for_again_of_the_same_replica() {
    let (_, asked) = comes_back(first_chunks(2, Fate::Lost));
    assert_eq!(begun(&asked).len(), 1, "one transfer: {asked:?}");
    let most = asked.borrow().values().copied().max();
    assert_eq!(most, Some(3), "asked for once more, and once more");
}

#[test]
fn one_that_does_not_answer_at_all_is_followed_by_another() {
    let (_, asked) = comes_back(first_chunks(3, Fate::Lost));
    let from: BTreeSet<usize> = asked.borrow().keys().map(|(from, ..)| *from).collect();
    assert!(from.len() > 1, "another was asked: {asked:?}");
}

#[test]
fn an_answer_that_is_late_and_comes_twice_does_no_harm() {
    let (cluster, asked) = comes_back(first_chunks(1, Fate::Late(1_001_000)));
    assert_eq!(begun(&asked).len(), 1, "one transfer: {asked:?}");
    assert_eq!(asked.borrow().values().copied().max(), Some(2));
    assert_eq!(
        cluster.refused.get(&Refused::Unasked),
        None,
        "who was asked twice may answer twice"
    );
}

/// Somebody offers what there is again and again, while it is taken over from another.
#[test]
fn offers_do_not_end_a_transfer_that_is_under_way() {
    let offered = RefCell::new(None);
    let (_, asked) = comes_back(move |from, message| {
        let mut offered = offered.borrow_mut();
        match (&*offered, message) {
            (None, PeerMessage::Behind(_)) => *offered = Some((from, message.clone())),
            (Some((first, offer)), _) if from != *first => {
                return Fate::Bent(Box::new(offer.clone()));
            }
            _ => {}
        }
        // A while, so that there is time for it.
        if matches!(message, PeerMessage::Chunk { .. }) { Fate::Late(100_000) } else { Fate::Goes }
    });
    assert_eq!(begun(&asked).len(), 1, "one transfer: {asked:?}");
}
