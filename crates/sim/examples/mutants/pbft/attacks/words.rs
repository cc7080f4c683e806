//! Votes that are none, and what a restart must not forget.

use quorate_adversary::pbft::named;
use quorate_core::Duration;
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, Patience, Settings};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;

use super::super::{BASE, Place, recovers};
use super::{came_to, committed, cut_off, detail, is_vote, lose, request_all, settings, start};
use super::{vote, work};

/// One replica sends votes without signatures where all are signed, and with where none is.
pub fn unsigned(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    let make = named("double-voter").expect("it is one of all");
    cluster.make_liar(3, make(5));
    work(cluster, 20);
    let reason = match authentication {
        Authentication::Signatures => Refused::BadSignature,
        Authentication::Macs => Refused::Malformed(Malformed::WrongForm),
    };
    let refused = cluster.refused.contains_key(&reason);
    assert!(refused, "refusal: votes without signatures are taken: {:?}", cluster.refused);
    recovers(cluster);
}

/// A primary orders one chain at a backup and another at all others. The backup learns by a
/// checkpoint that the first block of the other is decided, and starts again: what it prepared
/// above that binds it, though it is on the wrong chain.
pub fn two_chains(authentication: Authentication, place: &mut Place) {
    let base = Duration::from_micros(20 * BASE);
    let patience = Patience { base, max: base * 64 };
    let pbft = settings(authentication);
    let cluster = start(place, Settings { checkpoint_every: 1, patience, ..pbft });
    let make = named("equivocating-primary").expect("it is one of all");
    cluster.make_liar(0, make(1));
    let first = committed(cluster, 3).next();
    lose(cluster, move |_, _, message| {
        vote(message, Phase::Commit).is_some_and(|vote| vote.height > first)
    });
    (0..2).for_each(|client| cluster.request(client, 1, 10));
    came_to(cluster, 500_000, "the first block is not decided", |cluster| {
        committed(cluster, 3) == first && detail(cluster, 1, "prepared") > first.0
    });
    cluster.crash(3);
    cluster.boot(3);
    cluster.run_for(500_000);
    cluster.meddler = None;
    recovers(cluster);
}

/// All start again with blocks under way, and the next view begins.
pub fn all_restart(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    lose(cluster, |_, _, message| is_vote(message, Phase::Commit));
    request_all(cluster);
    cluster.run_for(10_000);
    (0..4).for_each(|slot| cluster.crash(slot));
    (0..4).for_each(|slot| cluster.boot(slot));
    cluster.meddler = None;
    cut_off(cluster, 0);
    work(cluster, 1);
    recovers(cluster);
}
