use super::*;
use crate::base::types::Digest;

fn id(number: usize) -> FrameId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Digest(bytes)
}

fn told(ahead: &mut Ahead, from: u16, numbers: std::ops::Range<usize>) {
    ahead.note(Time(0), ReplicaId(from), numbers.map(|number| ShortId::of(&id(number))), 1);
}

#[test]
fn of_a_peer_that_tells_without_end_the_last_frames_count() {
    let mut ahead = Ahead::new(Dissemination::Ahead, 4);
    told(&mut ahead, 2, 5..6);
    told(&mut ahead, 1, 0..MOST_TOLD + 10);
    assert_eq!(ahead.holders.len(), MOST_TOLD + 1, "and the one of r2");
    let is_held = |ahead: &Ahead, number| ahead.holders.contains_key(&ShortId::of(&id(number)));
    assert!(is_held(&ahead, 5) && !is_held(&ahead, 6) && is_held(&ahead, 10));
    // What is told again counts once.
    told(&mut ahead, 1, 10..20);
    assert_eq!(ahead.told.get(ReplicaId(1)).map(|told| told.ids.len()), Some(MOST_TOLD));
    // Nobody else is told of: no such replica.
    told(&mut ahead, 4, 0..10);
    assert!(!is_held(&ahead, 6));
    ahead.connected(ReplicaId(1));
    assert_eq!(ahead.holders.len(), 1, "it may have lost what it held");
}

#[test]
fn each_asker_asks_another_one_that_told_and_not_the_proposer() {
    let mut ahead = Ahead::new(Dissemination::Ahead, 6);
    for holder in [1, 2, 4] {
        told(&mut ahead, holder, 0..1);
    }
    let asked = |ahead: &Ahead, now, me| {
        ahead.holder(now, &id(0), ReplicaId(me), ReplicaId(1)).map(|peer| peer.0)
    };
    let now = Time(7);
    assert_eq!([0, 3, 5].map(|me| asked(&ahead, now, me)), [Some(2), Some(4), Some(2)]);
    assert_eq!(ahead.holder(now, &id(1), ReplicaId(0), ReplicaId(1)), None);
    // Who did not send it is passed over for ten seconds, or until it sends something.
    ahead.was_silent(now, ReplicaId(2));
    assert_eq!([0, 3, 5].map(|me| asked(&ahead, now, me)), [Some(4); 3]);
    ahead.was_silent(now, ReplicaId(4));
    assert_eq!(asked(&ahead, now, 0), None, "the proposer is asked at once");
    ahead.sent(ReplicaId(4));
    assert_eq!(asked(&ahead, now, 0), Some(4));
    assert_eq!(asked(&ahead, now.after(SILENT_FOR), 0), Some(2));
}

/// A peer that tells without end is not listened to, and to connect again does not change that.
#[test]
fn what_a_peer_tells_is_looked_at_in_bounds() {
    let mut ahead = Ahead::new(Dissemination::Ahead, 4);
    let (liar, other) = (ReplicaId(1), ReplicaId(2));
    let listens = |ahead: &mut Ahead, now, peer| ahead.tells(Time(now), peer, 1024);
    assert!((0..8).all(|_| listens(&mut ahead, 0, liar)));
    assert!(!listens(&mut ahead, 0, liar));
    ahead.connected(liar);
    assert!(!listens(&mut ahead, 0, liar) && listens(&mut ahead, 0, other));
    assert!(!listens(&mut ahead, 15_000_000, liar), "of 1,024 only 960 are earned");
    assert!(listens(&mut ahead, 16_000_000, liar) && !listens(&mut ahead, 16_000_000, liar));
}

/// A replica tells once in four milliseconds, as there are four, and of all that came meanwhile.
#[test]
fn what_is_held_is_told_at_once_and_then_in_turns() {
    let mut ahead = Ahead::new(Dissemination::Ahead, 4);
    assert_eq!((ahead.take_due(Time(0)), ahead.deadline()), (None, None));
    let millis = |count: u64| Time(count * 1_000_000);
    ahead.tell(&id(1));
    assert_eq!(ahead.take_due(millis(7)).map(|ids| ids.len()), Some(1));
    ahead.tell(&id(2));
    ahead.tell(&id(3));
    assert_eq!((ahead.take_due(millis(8)), ahead.deadline()), (None, Some(millis(11))));
    assert_eq!(ahead.take_due(millis(11)).map(|ids| ids.len()), Some(2));
    // No more waits to be told than a peer remembers.
    (0..2 * MOST_TOLD).for_each(|number| ahead.tell(&id(number)));
    assert_eq!(ahead.to_tell.len(), MOST_TOLD);
    let mut direct = Ahead::new(Dissemination::Direct, 4);
    direct.tell(&id(1));
    assert_eq!(direct.deadline(), None);
}

/// A body's lag begins when an honest replica has it.
#[test]
fn a_body_is_late_from_when_more_than_lie_have_told_of_it() {
    let mut ahead = Ahead::new(Dissemination::Ahead, 4);
    let millis = |count: u64| Time(count * 1_000_000);
    let ids = |number| [ShortId::of(&id(number))];
    ahead.note(millis(0), ReplicaId(1), ids(0), 1);
    ahead.note(millis(30), ReplicaId(2), ids(0), 1);
    ahead.passed_on(millis(50), ReplicaId(3), ids(0), 1);
    assert_eq!(ahead.usual_lag(millis(50)), Some(Duration::from_millis(20)));
    let mut ahead = Ahead::new(Dissemination::Ahead, 4);
    ahead.note(millis(0), ReplicaId(1), ids(0), 1);
    ahead.passed_on(millis(50), ReplicaId(3), ids(0), 1);
    assert_eq!(ahead.usual_lag(millis(50)), Some(Duration::ZERO), "nobody honest is known to");
}
