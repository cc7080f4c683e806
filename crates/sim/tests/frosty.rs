//! Snowman that falls back on a quorum: under attack, and where anything may go wrong.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::protocols::snow::snowman::words::Place;
use quorate_core::protocols::snow::snowman::{Fallback, Message, Settings};
use quorate_core::replica::message::PeerMessage;
use quorate_sim::campaign::{Campaign, Progress, Report};
use quorate_sim::family::{Frosties, ODD_EPOCH, Snowmans};
use quorate_sim::network::{Fate, Meddler};
use quorate_sim::swarm::Plan;
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// A minute, in microseconds of the simulated clock.
const MINUTE: u64 = 60_000_000;

/// What liars know: which tip each replica asked with, by asker and poll; and the last of each.
#[derive(Default)]
struct Known {
    asked: BTreeMap<(usize, u64), Place>,
    last: BTreeMap<usize, Place>,
}

/// Liars agree with whoever asks, and say that they have accepted what it prefers: each side of a
/// choice sees itself ahead, or wins the tie, and stays. Where `is_slow`, the network helps them,
/// within a millisecond: a replica hears first of those that prefer what it prefers itself.
fn flatterers(known: &Rc<RefCell<Known>>, first: usize, is_slow: bool) -> Meddler<Snowmans> {
    let known = Rc::clone(known);
    Box::new(move |from, to, message| {
        let PeerMessage::Protocol { message, .. } = message else { return Fate::Goes };
        let mut known = known.borrow_mut();
        match message {
            Message::Query { poll, tip, .. } => {
                known.asked.insert((from, *poll), *tip);
                known.last.insert(from, *tip);
                Fate::Goes
            }
            Message::Answer { poll, tip, .. } => {
                let asked = known.asked.get(&(to, *poll)).copied().unwrap_or(*tip);
                let poll = *poll;
                if from >= first {
                    let accepted = asked.height;
                    let answer = Message::Answer { poll, tip: asked, at: None, accepted };
                    return Fate::Bent(Box::new(PeerMessage::of(answer)));
                }
                if is_slow && asked != *tip { Fate::Late(1_000) } else { Fate::Goes }
            }
            _ => Fate::Goes,
        }
    })
}

/// A cluster in which correct replicas are split between two blocks, and the last `liars` of all
/// flatter.
fn split(
    replicas: usize,
    liars: usize,
    fallback: Option<Fallback>,
    is_slow: bool,
) -> (Cluster<Snowmans>, Rc<RefCell<Known>>) {
    // One block above the accepted one: tips are the sides.
    let snowman = Settings { under_way: 1, fallback, ..Settings::default() };
    let config = Config::default();
    let mut cluster =
        Cluster::<Snowmans>::of(Config { replicas, snowman, ..config }, Trace::default());
    let first = replicas - liars;
    (first..replicas).for_each(|liar| cluster.slots[liar].faulty = true);
    let half = first / 2;
    cluster.network.partition(|slot| if slot < half { 0 } else { 1 + usize::from(slot >= first) });
    cluster.request(0, 1, 10);
    cluster.run_for(2_000_000);
    let known = Rc::default();
    cluster.meddler = Some(flatterers(&known, first, is_slow));
    cluster.network.heal();
    assert_eq!(cluster.oracles.height(), 0, "a half decides alone");
    (cluster, known)
}

/// How many correct replicas asked last with the tip that fewest, and most, asked with.
fn sides(known: &RefCell<Known>, correct: usize) -> Vec<usize> {
    let mut sides = BTreeMap::<Place, usize>::new();
    for (_, tip) in known.borrow().last.iter().filter(|(replica, _)| **replica < correct) {
        *sides.entry(*tip).or_default() += 1;
    }
    let mut counts: Vec<usize> = sides.into_values().collect();
    counts.sort_unstable();
    counts
}

/// Fewer than a fifth keep both sides of a choice even, and nothing is decided for minutes. With
/// the fallback the replicas complain, a quorum decides, and sampling goes on.
#[test]
fn flatterers_stall_sampling_and_not_the_fallback() {
    for (replicas, liars) in [(11, 2), (20, 3)] {
        let correct = replicas - liars;
        let (mut cluster, known) = split(replicas, liars, None, true);
        cluster.run_for(5 * MINUTE);
        assert_eq!(cluster.oracles.height(), 0, "{replicas}: it does not stall");
        assert_eq!(sides(&known, correct), [correct / 2, correct.div_ceil(2)], "{replicas}");

        let fallback = Some(Fallback::default());
        let (mut cluster, _) = split(replicas, liars, fallback, true);
        let began = cluster.now;
        assert!(cluster.run_until_answered(MINUTE), "{replicas}: it stalls with the fallback");
        let took = cluster.now.since(began);
        assert_eq!(cluster.faults.of(ODD_EPOCH), 1, "{replicas}");
        println!("{replicas} replicas, {liars} flatter: decided after {took:?}");
        for _ in 0..10 {
            cluster.request(0, 1, 10);
            assert!(cluster.run_until_answered(MINUTE), "{replicas}: it does not go on");
        }
        assert!(cluster.run_until(MINUTE, Cluster::is_level), "{replicas}: one stays behind");
        let epochs = cluster.correct().map(|core| {
            let details = core.protocol().status().details;
            details.iter().find(|(name, _)| *name == "fallback_epoch").map(|(_, epoch)| epoch % 2)
        });
        assert!(epochs.into_iter().all(|odd| odd == Some(0)), "{replicas}: an epoch is not over");
    }
}

/// Without liars a split ends by itself, before anybody complains. (After a partition of two
/// seconds the polls of most wait so long for lost answers that two others may complain first.)
#[test]
fn an_honest_split_needs_no_fallback() {
    for seed in 0..8 {
        let fallback = Some(Fallback::default());
        let snowman = Settings { under_way: 1, fallback, ..Settings::default() };
        let config = Config { replicas: 10, snowman, seed, ..Config::default() };
        let mut cluster = Cluster::<Snowmans>::of(config, Trace::default());
        cluster.network.partition(|slot| usize::from(slot < 5));
        cluster.request(0, 1, 10);
        cluster.run_for(1_000_000);
        cluster.network.heal();
        assert_eq!(cluster.oracles.height(), 0, "a half decides alone");
        assert!(cluster.run_until_answered(MINUTE), "{seed}");
        assert_eq!(cluster.faults.of(ODD_EPOCH), 0, "{seed}");
    }
}

/// A replica is killed at any write of the epoch change, and comes back in it.
#[test]
fn an_epoch_survives_restarts_at_any_write() {
    for victim in [0, 5] {
        for writes in 1..=8 {
            let fallback = Fallback { undecided: 10, ..Fallback::default() };
            let (mut cluster, _) = split(11, 2, Some(fallback), true);
            let before = cluster.slots[victim].disk.writes;
            let comes =
                |cluster: &Cluster<Snowmans>| cluster.slots[victim].disk.writes >= before + writes;
            if !cluster.run_until(MINUTE, |it| comes(it) || it.is_answered()) {
                panic!("nothing is written, and nothing answered");
            }
            cluster.crash(victim);
            cluster.run_for(300_000);
            cluster.boot(victim);
            assert!(cluster.run_until_answered(2 * MINUTE), "{victim} {writes}");
            cluster.request(0, 1, 10);
            assert!(cluster.run_until_answered(2 * MINUTE), "{victim} {writes}");
            assert!(cluster.run_until(MINUTE, Cluster::is_level), "{victim} {writes}");
        }
    }
}

/// Replica 0 alone accepts a block: all but two prefer it, one liar says so to replica 0 alone, and
/// the network keeps those two from polls. Then all others complain about the block below. The
/// epoch must decide what replica 0 accepted, though not all reports have it, and its rival may
/// have the lower name: so the world is made from several seeds.
#[test]
fn what_one_replica_alone_accepted_is_what_the_epoch_decides() {
    for seed in 0..8 {
        let snowman =
            Settings { under_way: 1, fallback: Some(Fallback::default()), ..Settings::default() };
        let config = Config { replicas: 10, snowman, seed, ..Config::default() };
        let mut cluster = Cluster::<Snowmans>::of(config, Trace::default());
        cluster.slots[9].faulty = true;
        cluster.network.partition(|slot| usize::from(slot >= 7) + usize::from(slot == 9));
        cluster.request(0, 1, 10 + seed as usize);
        cluster.run_for(2_000_000);
        let asked = RefCell::new(BTreeMap::<u64, Place>::new());
        cluster.meddler = Some(Box::new(move |from, to, message| match message {
            PeerMessage::Protocol { message: Message::Query { poll, tip, .. }, .. } => {
                if (from, to) == (0, 9) {
                    asked.borrow_mut().insert(*poll, *tip);
                }
                Fate::Goes
            }
            PeerMessage::Protocol { message: Message::Answer { poll, accepted, .. }, .. } => {
                let tip = asked.borrow().get(poll).copied();
                match (from, to, tip) {
                    (9, 0, Some(tip)) => {
                        let answer =
                            Message::Answer { poll: *poll, tip, at: None, accepted: *accepted };
                        Fate::Bent(Box::new(PeerMessage::of(answer)))
                    }
                    (9, ..) | (_, 7 | 8, _) => Fate::Lost,
                    _ => Fate::Goes,
                }
            }
            _ => Fate::Goes,
        }));
        cluster.network.heal();
        let height = |cluster: &Cluster<Snowmans>, slot: usize| {
            cluster.slots[slot]
                .core
                .as_ref()
                .map_or(0, |core| core.protocol().committed().height().0)
        };
        assert!(cluster.run_until(MINUTE, |cluster| height(cluster, 0) == 1), "{seed}");
        let others =
            |cluster: &Cluster<Snowmans>| (1..9).filter(|it| height(cluster, *it) > 0).count();
        assert_eq!((others(&cluster), cluster.faults.of(ODD_EPOCH)), (0, 0), "{seed}");
        assert!(cluster.run_until(MINUTE, |cluster| others(cluster) == 8), "{seed}");
        assert_eq!(cluster.faults.of(ODD_EPOCH), 1, "{seed}");
        assert!(cluster.run_until_answered(MINUTE), "{seed}");
    }
}

/// Those of `QUORATE_SEEDS=from..to`, if that is set.
fn storms(seeds: u64) -> Report {
    let range = std::env::var("QUORATE_SEEDS").ok();
    let range = range.as_deref().and_then(|range| range.split_once(".."));
    let (first, end) = range.map_or((0, seeds), |(first, end)| {
        (first.parse().expect("a number"), end.parse().expect("a number"))
    });
    let (plan, time, seeds) = (Plan::default(), None, end - first);
    let campaign = Campaign { first, seeds, time, threads: 2, most_violations: 3, plan };
    campaign.run::<Frosties>(&Progress::default())
}

/// Replicas complain after as little as one poll, so quorum and samples decide in turn, with all
/// that goes wrong in storms.
#[test]
fn storms_pass() {
    let report = storms(200);
    assert_eq!(report.violations, []);
    let epochs = report.tally.faults.of(ODD_EPOCH);
    println!("{} blocks, {epochs} odd epochs", report.tally.commits);
    assert!(report.tally.commits > 2 * report.tally.seeds, "{:?}", report.tally);
    assert!(epochs > report.tally.seeds, "{:?}", report.tally);
}
