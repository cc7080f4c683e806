//! Every adversary in every place, with both kinds of authentication: nothing parts, everything is
//! answered, and what is refused is refused by its name.

use std::collections::BTreeMap;

use quorate_adversary::pbft::{ALL, Adversary, Context, FLAWS, Flaw, Peer, Sent, WRONGS, Wrong};
use quorate_core::protocols::pbft::words::ViewChange;
use quorate_core::protocols::pbft::{Authentication, Message};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, View};
use quorate_sim::Cluster;
use quorate_sim::family::Pbfts;

use super::{BOTH, cluster, level, settings, work};

/// The primaries of two views are unheard for a while, so that liars become primaries and take part
/// in view changes.
fn change_views(cluster: &mut Cluster<Pbfts>) {
    for _ in 0..2 {
        let primary = (cluster.highest_view().0 - 1) as usize % cluster.config.replicas;
        for other in 0..cluster.config.replicas {
            cluster.network.link(primary, other).cut = true;
        }
        (0..8).for_each(|client| cluster.request(client, 1, 10));
        cluster.run_for(400_000);
        cluster.network.heal();
        super::answered(cluster);
    }
}

#[test]
fn every_adversary_in_every_place() {
    let mut deeds = BTreeMap::new();
    for authentication in BOTH {
        for (name, make) in ALL {
            for liar in 0..4 {
                let mut cluster = cluster(settings(authentication), 4);
                cluster.make_liar(liar, make(liar as u64));
                work(&mut cluster, 4);
                change_views(&mut cluster);
                level(&mut cluster);
                *deeds.entry(name).or_insert(0) += cluster.deeds(liar).total();
            }
        }
    }
    for (name, _) in ALL {
        assert!(deeds[name] > 10, "{name} did little: {deeds:?}");
    }
}

/// Two of seven, alike.
#[test]
fn two_liars_of_seven() {
    for (at, (_, make)) in ALL.into_iter().enumerate() {
        let mut cluster = cluster(settings(BOTH[at % 2]), 7);
        cluster.make_liar(0, make(1));
        cluster.make_liar(1, make(2));
        work(&mut cluster, 2);
        change_views(&mut cluster);
        level(&mut cluster);
    }
}

/// Sends a view change with one flaw, time and again.
#[derive(Debug)]
struct Flawed(Flaw);

impl Adversary for Flawed {
    fn sends(&mut self, _: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        out.push(Sent::now(to, message));
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let (prepared, pre_prepared) = (Vec::new(), Vec::new());
        let change = ViewChange { view: View(2), stable: None, prepared, pre_prepared };
        for to in cx.others() {
            out.push(Sent::of(to, self.0.make(cx, change.clone())));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(Duration::from_millis(5))
    }
}

#[test]
fn a_view_change_with_a_flaw_is_refused_by_name_and_changes_nothing() {
    for flaw in FLAWS {
        let mut cluster = cluster(settings(Authentication::Macs), 4);
        cluster.make_liar(3, Box::new(Flawed(flaw)));
        work(&mut cluster, 10);
        level(&mut cluster);
        assert_eq!(cluster.highest_view(), View(1), "{flaw:?}");
        let told = cluster.deeds(3).unasked;
        assert!(told > 10, "{flaw:?}: {told}");
        match flaw.refused {
            Some(name) => assert!(
                cluster.refused.get(&name).is_some_and(|count| *count > 10),
                "{flaw:?}: {:?}",
                cluster.refused
            ),
            // Besides what comes too late, as always.
            None => assert!(
                cluster.refused.keys().eq([&Refused::Malformed(Malformed::Stale)]),
                "{flaw:?}: {:?}",
                cluster.refused
            ),
        }
    }
}

/// Begins its views wrongly, always in the same way.
#[derive(Debug)]
struct Wrongly(Wrong);

impl Adversary for Wrongly {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::NewView { mut new_view, .. }, .. } => {
                (self.0.1)(&mut new_view);
                let signature = cx.sign(&cx.domain.new_view(&new_view));
                out.push(Sent::of(to, Message::NewView { new_view, signature }));
            }
            message => out.push(Sent::now(to, message)),
        }
    }
}

/// What was prepared when the first primary dies is what the next view must begin with.
#[test]
fn a_new_view_that_does_not_follow_is_not_entered() {
    for wrong in WRONGS {
        let mut cluster = cluster(settings(Authentication::Macs), 4);
        cluster.make_liar(1, Box::new(Wrongly(wrong)));
        let is_commit = |_: usize, _: usize, message: &Peer| {
            matches!(message, PeerMessage::Protocol { message: Message::Vote { vote, .. }, .. }
                if vote.phase as u8 == 2)
        };
        cluster.drops = Some(is_commit);
        (0..8).for_each(|client| cluster.request(client, 1, 10));
        cluster.run_for(10_000);
        cluster.drops = None;
        cluster.network.partition(|slot| usize::from(slot == 0));
        super::answered(&mut cluster);
        work(&mut cluster, 1);
        assert!(cluster.highest_view() > View(2), "{}: {}", wrong.0, cluster.highest_view());
        cluster.network.heal();
        level(&mut cluster);
    }
}

/// A new view says what q replicas said. Of its primary alone it would end any view at any time.
#[test]
fn a_primary_to_be_cannot_end_the_view_of_another() {
    let (_, make) = ALL.into_iter().find(|(name, _)| *name == "wrong-new-views").expect("there is");
    let mut cluster = cluster(settings(Authentication::Macs), 4);
    cluster.make_liar(2, make(1));
    for _ in 0..10 {
        work(&mut cluster, 5);
        cluster.run_for(50_000);
    }
    assert_eq!(cluster.highest_view(), View(1));
    let refused = cluster.refused.get(&Refused::Malformed(Malformed::NoQuorum));
    assert!(refused.is_some_and(|count| *count > 20), "{:?}", cluster.refused);
}

#[test]
fn votes_that_are_none_are_noted_or_refused() {
    let (_, make) = ALL.into_iter().find(|(name, _)| *name == "double-voter").expect("there is");
    for authentication in BOTH {
        let mut cluster = cluster(settings(authentication), 4);
        cluster.make_liar(3, make(5));
        work(&mut cluster, 20);
        level(&mut cluster);
        let form = match authentication {
            Authentication::Signatures => Refused::BadSignature,
            Authentication::Macs => Refused::Malformed(Malformed::WrongForm),
        };
        for reason in [form, Refused::Malformed(Malformed::Stale)] {
            assert!(cluster.refused.contains_key(&reason), "{reason:?}: {:?}", cluster.refused);
        }
        assert!(cluster.noted.contains_key("double-vote"), "{:?}", cluster.noted);
    }
}
