//! What each attack does to the correct replicas, as they note it: that it happened, and that the
//! defence named in the adversary's file is the one that answered.

use std::collections::BTreeMap;

use quorate_adversary::named;
use quorate_core::base::crypto::Form;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;
use quorate_sim::network::Link;
use quorate_sim::{Cluster, Config, status_of};

use crate::matrix::{cluster, must_answer};

const FOUR: (usize, &[usize]) = (4, &[1]);
const SEVEN: (usize, &[usize]) = (7, &[2, 3]);
const BOTH: [Kind; 2] = [Kind::TimeoutCertificates, Kind::Linear];

/// The cluster after this adversary had its way for a while, under every protocol and pacemaker.
fn for_every_protocol(name: &str, place: (usize, &[usize]), look: impl Fn(&Cluster, &str)) {
    for rules in rules::ALL {
        for pacemaker in BOTH {
            let make = named(name).expect("it has a name");
            let what = format!("{name}, {}, {pacemaker:?}, {place:?}", rules.facts().name);
            let mut cluster = cluster(rules, pacemaker, place, make);
            must_answer(&mut cluster, 30, &what);
            look(&cluster, &what);
        }
    }
}

fn noted(cluster: &Cluster, kind: &str) -> u64 {
    cluster.noted.get(kind).copied().unwrap_or(0)
}

fn refused(cluster: &Cluster, reason: Refused) -> u64 {
    cluster.refused.get(&reason).copied().unwrap_or(0)
}

/// Committed blocks by who proposed them.
fn committed_of(cluster: &Cluster, proposer: usize) -> usize {
    let proposed: BTreeMap<_, _> =
        cluster.proposed.iter().map(|(_, slot, block)| (*block, *slot)).collect();
    let of = |(_, slot, block): &&(_, usize, _)| {
        !cluster.slots[*slot].faulty && proposed.get(block) == Some(&proposer)
    };
    cluster.committed.iter().filter(of).count()
}

#[test]
fn the_views_of_a_silent_leader_are_lost_and_only_those() {
    for_every_protocol("silent-leader", FOUR, |cluster, what| {
        assert!(noted(cluster, "gave-up") > 0, "{what}");
        assert_eq!(committed_of(cluster, 1), 0, "{what}");
        for id in [0, 2, 3] {
            // Votes for the block before the silent view go to the silent leader. Time-outs carry
            // them on; but with Fast-HotStuff the block must extend what the time-outs say was
            // certified before, and one collector alone knows better.
            let before_silence = id == 0
                && cluster.config.rules.facts().carries_all_qcs
                && cluster.config.pacemaker == Kind::Linear;
            assert!(before_silence || committed_of(cluster, id) > 0, "{what}: r{id}");
        }
    });
}

#[test]
fn a_slow_leader_takes_time_and_keeps_its_views() {
    for_every_protocol("slow-leader", FOUR, |cluster, what| {
        assert!(cluster.deeds(1).delayed > 0, "{what}");
        assert!(committed_of(cluster, 1) > 0, "{what}");
        let make = named("slow-leader").expect("it has a name");
        let Config { rules, pacemaker, .. } = cluster.config;
        let mut honest = crate::matrix::cluster(rules, pacemaker, (4, &[]), make);
        must_answer(&mut honest, 30, what);
        assert!(cluster.now > honest.now, "{what}: {:?} and {:?}", cluster.now, honest.now);
    });
}

/// Why a proposal that extends an old certificate is refused, where no view was lost before: the
/// view cannot be entered by it. With all phases in one view, what it leaves out is committed by
/// then.
fn not_on_the_newest(cluster: &Cluster) -> Malformed {
    match cluster.config.rules.facts().phases {
        1 => Malformed::Contradiction,
        _ => Malformed::Stale,
    }
}

#[test]
fn forks_are_refused_where_the_view_before_has_its_certificate() {
    for_every_protocol("forking-leader", FOUR, |cluster, what| {
        let reason = Refused::Malformed(not_on_the_newest(cluster));
        assert!(refused(cluster, reason) > 0, "{what}: {:?}", cluster.refused);
        assert!(noted(cluster, "gave-up") > 0, "{what}");
    });
}

/// Behind a silent leader the forking one enters its views by time-out certificates.
fn forks_behind_a_silent_leader(rules: &'static dyn Rules, pacemaker: Kind) -> Cluster {
    let silent = named("silent-leader").expect("it has a name");
    let mut cluster = cluster(rules, pacemaker, (7, &[2]), silent);
    let forking = named("forking-leader").expect("it has a name");
    cluster.make_liar(3, forking(3));
    must_answer(&mut cluster, 40, &format!("{}, {pacemaker:?}", rules.facts().name));
    cluster
}

#[test]
fn forks_behind_a_time_out_certificate_are_for_the_vote_rule_to_judge() {
    for rules in rules::ALL {
        for pacemaker in BOTH {
            let name = rules.facts().name;
            let cluster = forks_behind_a_silent_leader(rules, pacemaker);
            let (pruned, declined) = (noted(&cluster, "pruned"), noted(&cluster, "declined"));
            match name {
                // What is locked on is two certificates old: a fork of the newest block may win.
                "hotstuff-chained" | "hotstuff-simplified" => {
                    assert!(pruned > 0, "{name}, {pacemaker:?}: {:?}", cluster.noted);
                }
                // What would be left out is committed.
                "hotstuff-basic" => {
                    let stale = Refused::Malformed(Malformed::Stale);
                    assert!(refused(&cluster, stale) > 0, "{name}: {:?}", cluster.refused);
                }
                // The newest certificate is the lock, or in the time-out certificate.
                _ => assert!(declined > 0, "{name}, {pacemaker:?}: {:?}", cluster.noted),
            }
        }
    }
}

#[test]
fn equivocation_is_seen_and_one_block_a_view_is_committed() {
    for_every_protocol("equivocating-leader", FOUR, |cluster, what| {
        assert!(noted(cluster, "equivocation") > 0, "{what}: {:?}", cluster.noted);
    });
    for_every_protocol("equivocating-leader", SEVEN, |cluster, what| {
        assert!(noted(cluster, "equivocation") > 0, "{what}: {:?}", cluster.noted);
    });
}

#[test]
fn double_votes_are_noted_and_count_once() {
    for_every_protocol("double-voter", FOUR, |cluster, what| {
        assert!(noted(cluster, "double-vote") > 0, "{what}: {:?}", cluster.noted);
        assert_eq!(noted(cluster, "bad-vote"), 0, "{what}: they are signed");
    });
}

#[test]
fn blocks_that_were_withheld_are_fetched() {
    for place in [FOUR, SEVEN] {
        for_every_protocol("proposal-withholder", place, |cluster, what| {
            let liar = place.1[0];
            assert!(cluster.deeds(liar).withheld > 0, "{what}");
            assert!(committed_of(cluster, liar) > 0, "{what}: its blocks are certified");
        });
    }
}

#[test]
fn withheld_certificates_are_made_by_others() {
    for place in [FOUR, SEVEN] {
        for_every_protocol("certificate-withholder", place, |cluster, what| {
            assert!(cluster.deeds(place.1[0]).withheld > 0, "{what}");
            assert!(noted(cluster, "gave-up") > 0, "{what}: {:?}", cluster.noted);
        });
    }
}

#[test]
fn withheld_votes_are_not_needed() {
    for_every_protocol("vote-withholder", FOUR, |cluster, what| {
        assert!(cluster.deeds(1).withheld > 0, "{what}");
        assert_eq!(noted(cluster, "gave-up"), 0, "{what}: {:?}", cluster.noted);
    });
}

#[test]
fn proposals_on_stale_certificates_are_refused() {
    for_every_protocol("stale-certificates", FOUR, |cluster, what| {
        let reason = Refused::Malformed(not_on_the_newest(cluster));
        assert!(refused(cluster, reason) > 0, "{what}: {:?}", cluster.refused);
        assert!(noted(cluster, "gave-up") > 0, "{what}");
    });
}

#[test]
fn each_flaw_of_a_certificate_is_refused_by_its_name() {
    let forms = [
        (Form::List, Form::List),
        (Form::Aggregate, Form::Aggregate),
        (Form::Threshold, Form::Aggregate),
    ];
    for (rules, forms) in rules::ALL.into_iter().flat_map(|rules| forms.map(|f| (rules, f))) {
        let what = format!("{}, {forms:?}", rules.facts().name);
        let mut cluster = Cluster::new(Config { rules, forms, ..Config::default() });
        cluster.make_liar(1, named("forged-certificates").expect("it has a name")(7));
        for _ in 0..30 {
            must_answer(&mut cluster, 1, &what);
            cluster.run_for(50_000);
        }
        let mut flaws = vec![
            Refused::BadSignature,
            Refused::Malformed(Malformed::NotGenesis),
            Refused::Malformed(Malformed::WrongForm),
            Refused::Malformed(Malformed::WrongPhase),
            Refused::Malformed(Malformed::WrongEpoch),
        ];
        if forms.0 != Form::Threshold {
            let of_signers = [Malformed::UnknownSigner, Malformed::NoQuorum];
            flaws.extend(of_signers.map(Refused::Malformed));
        }
        if forms.0 == Form::List {
            flaws.push(Refused::Malformed(Malformed::UnorderedSigners));
        }
        for flaw in flaws {
            assert!(refused(&cluster, flaw) > 0, "{what}: {flaw:?} of {:?}", cluster.refused);
        }
    }
}

#[test]
fn a_flood_of_future_views_moves_nobody_and_fills_nothing() {
    for place in [FOUR, SEVEN] {
        for_every_protocol("future-views", place, |cluster, what| {
            assert!(cluster.deeds(place.1[0]).unasked > 500, "{what}: {:?}", cluster.deeds(1));
            for core in cluster.correct() {
                assert!(status_of(core).uncommitted < 20, "{what}");
                assert!(status_of(core).view.0 < 500, "{what}: {:?}", status_of(core).view);
            }
        });
    }
}

#[test]
fn time_outs_of_f_replicas_end_no_view() {
    for place in [FOUR, SEVEN] {
        for_every_protocol("time-out-spammer", place, |cluster, what| {
            assert!(cluster.deeds(place.1[0]).unasked > 100, "{what}");
            assert_eq!(noted(cluster, "gave-up"), 0, "{what}: {:?}", cluster.noted);
        });
    }
}

#[test]
fn what_is_replayed_is_refused() {
    for_every_protocol("replayer", FOUR, |cluster, what| {
        for reason in [Malformed::WrongSender, Malformed::Stale] {
            let count = refused(cluster, Refused::Malformed(reason));
            assert!(count > 0, "{what}: {reason:?} of {:?}", cluster.refused);
        }
        let unsigned = refused(cluster, Refused::BadSignature) + noted(cluster, "bad-vote");
        assert!(unsigned > 0, "{what}: {:?}, {:?}", cluster.refused, cluster.noted);
    });
}

#[test]
fn small_changes_are_noticed() {
    for_every_protocol("small-scope", FOUR, |cluster, what| {
        assert!(cluster.deeds(1).bent > 0, "{what}");
        assert!(!cluster.refused.is_empty(), "{what}");
    });
}

/// Views that silent leaders cost, and that are lost under an election, in the same work.
fn lost_to_silent_leaders(election: Election) -> u64 {
    let link = Link { delay: (500, 3_000), ..Link::steady(0) };
    let config = Config { replicas: 7, election, link, ..Config::default() };
    let mut cluster = Cluster::new(config);
    for liar in [2, 4] {
        cluster.make_liar(liar, named("silent-leader").expect("it has a name")(0));
    }
    must_answer(&mut cluster, 150, &format!("{election:?}"));
    noted(&cluster, "gave-up")
}

/// Who votes and does not lead is found out by what it led. (Carousel looks at who signs alone, and
/// leaves out only replicas that do nothing at all.)
#[test]
fn reputation_leaves_silent_leaders_out() {
    let [turns, merit] = [Election::RoundRobin, Election::Reputation].map(lost_to_silent_leaders);
    assert!(4 * merit < turns, "by merit {merit} views were lost, taking turns {turns}");
}
