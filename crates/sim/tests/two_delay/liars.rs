//! Replicas that sign two blocks of a view, and say one thing to one and another thing to another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::ledger::block::{Block, BlockId};
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::protocols::two_delay::words::{Content, Vote};
use quorate_core::protocols::two_delay::{Domain, Message, Types};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};
use quorate_sim::family::TwoDelays;
use quorate_sim::keys::{committee, replica_seal};
use quorate_sim::network::{Fate, Link};
use quorate_sim::rng::Rng;
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config, Peer};

/// Longer than anything here takes, in microseconds of the simulated clock.
const PATIENCE: u64 = 600_000_000;

/// What the liars of a cluster do to their own messages.
struct Liar {
    domain: Domain,
    /// The second block that a liar signed as the leader of a view, and its signature.
    others: BTreeMap<View, (BlockId, Signature)>,
}

impl Liar {
    fn new(replicas: usize) -> Self {
        Self { domain: Domain::new(committee(replicas)), others: BTreeMap::new() }
    }

    fn vote(&self, from: usize, vote: Vote) -> Message {
        let Vote { phase, view, block, .. } = vote;
        let block_id = block.as_ref().map(|(id, _)| id);
        let statement = self.domain.vote(phase, view, block_id);
        let signature = replica_seal(ReplicaId(from as u16), statement.as_bytes());
        Message::Vote(Vote { signature, ..vote })
    }

    /// Another block of the view, without commands.
    fn other(&mut self, from: usize, message: &Message) -> Option<Message> {
        let Message::Proposal { block, decided, .. } = message else { return None };
        let content = Content { frames: Vec::new(), ..(***block).clone() };
        let other = Arc::new(Block::new(content));
        if other.id() == block.id() {
            return None;
        }
        let statement = self.domain.vote(Phase::First, other.view, Some(&other.id()));
        let signature = replica_seal(ReplicaId(from as u16), statement.as_bytes());
        self.others.insert(other.view, (other.id(), signature));
        Some(Message::Proposal { block: other, signature, decided: decided.clone() })
    }

    /// Another first vote than this one: for the second block of the view, if the leader signed
    /// one, or blank.
    fn other_vote(&self, from: usize, message: &Message, blank: bool) -> Option<Message> {
        let Message::Vote(vote) = message else { return None };
        let other = self.others.get(&vote.view).copied().filter(|_| !blank);
        let is_first = vote.phase == Phase::First;
        is_first.then(|| self.vote(from, Vote { block: other, ..*vote }))
    }
}

fn bent(peer: &Peer<TwoDelays>, message: Option<Message>) -> Fate<TwoDelays> {
    let (Some(message), PeerMessage::Protocol { epoch, .. }) = (message, peer) else {
        return Fate::Goes;
    };
    let frames = Vec::new();
    Fate::Bent(Box::new(PeerMessage::<Types>::Protocol { epoch: *epoch, message, frames }))
}

/// A cluster in which replica 2 leads the next view, the third, and signs another block for these.
fn with_two_blocks(replicas: usize, second: &'static [usize]) -> Cluster<TwoDelays> {
    let config = Config {
        replicas,
        link: Link::steady(1_000),
        client_patience: 3_600_000_000,
        ..Config::default()
    };
    let mut cluster = Cluster::<TwoDelays>::of(config, Trace::on());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(PATIENCE), "no session");
    cluster.run_for(50_000);
    let leaders = cluster.correct().map(|core| core.protocol().status().leader);
    assert_eq!(leaders.collect::<Vec<_>>(), vec![Some(ReplicaId(2)); replicas]);
    cluster.slots[2].faulty = true;
    let liar = RefCell::new(Liar::new(replicas));
    cluster.meddler = Some(Box::new(move |from, to, peer| {
        let PeerMessage::Protocol { message, .. } = peer else { return Fate::Goes };
        match from == 2 && second.contains(&to) {
            true => bent(peer, liar.borrow_mut().other(from, message)),
            false => Fate::Goes,
        }
    }));
    let _ = cluster.trace.take_lines();
    cluster
}

/// What happened, as lines with these words.
fn lines(cluster: &mut Cluster<TwoDelays>, words: &str) -> Vec<String> {
    let all = cluster.trace.take_together();
    all.into_iter().filter(|line| line.contains(words)).collect()
}

/// r2 leads and signs two blocks. r0 and r1 vote for the first, as r2 does: it is committed. r3
/// voted for the second. It learns that r2 lies, and that the second one is out; the first is not.
/// So it votes for the first as a fallback.
#[test]
fn a_replica_that_was_shown_another_block_falls_back_on_the_committed_one() {
    let mut cluster = with_two_blocks(4, &[3]);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(PATIENCE), "no answer");
    cluster.meddler = None;
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(PATIENCE), "no answer");
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "r3 stays behind");
    let said = lines(&mut cluster, " vote for ");
    let of = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!(of("fallback vote for b3 (view 3)"), 1, "{said:#?}");
    assert_eq!(of("fallback vote for b3' (view 3)"), 0, "{said:#?}");
}

/// r2 leads and signs two blocks, the second one for one, two or three others.
#[test]
fn no_two_blocks_of_one_view_are_committed() {
    for replicas in [4, 7] {
        for second in [&[0][..], &[3], &[1, 3], &[0, 1], &[0, 1, 3]] {
            let mut cluster = with_two_blocks(replicas, second);
            for request in 0..5 {
                cluster.request(0, 1, 10);
                let answered = cluster.run_until_answered(PATIENCE);
                assert!(answered, "{replicas} replicas, {second:?}: request {request}");
            }
            assert!(cluster.run_until(PATIENCE, |cluster| cluster.is_level()), "replicas differ");
        }
    }
}

/// Every liar shows each replica one of two blocks when it leads, and one of two votes when it does
/// not, on links that lose, repeat and reorder; correct replicas crash and come back.
#[test]
fn liars_that_say_two_things_part_nobody() {
    let mut fallbacks = 0;
    for seed in 0..liars() {
        let mut rng = Rng::new(seed);
        let replicas = rng.pick(&[4, 4, 5, 6, 7, 10]);
        let link = Link {
            loss_percent: rng.pick(&[0, 5, 20]),
            duplicate_percent: 5,
            delay: (200, rng.pick(&[500, 5_000, 60_000])),
            ..Link::steady(1_000)
        };
        let config = Config { replicas, link, seed, clients: 2, ..Config::default() };
        let mut cluster = Cluster::<TwoDelays>::of(config, Trace::on());
        let faults = (replicas - 1) / 3;
        let first = rng.below(replicas as u64) as usize;
        let liars: Vec<usize> = (0..faults).map(|it| (first + 2 * it) % replicas).collect();
        liars.iter().for_each(|liar| cluster.slots[*liar].faulty = true);
        let state = RefCell::new((Liar::new(replicas), Rng::new(seed ^ 0x11A5)));
        let honest = rng.pick(&[20, 50, 80]);
        let all = liars.clone();
        cluster.meddler = Some(Box::new(move |from, _, peer| {
            let PeerMessage::Protocol { message, .. } = peer else { return Fate::Goes };
            let (liar, draw) = &mut *state.borrow_mut();
            if !all.contains(&from) || draw.percent(honest) {
                return Fate::Goes;
            }
            let blank = draw.percent(50);
            let other = liar.other(from, message);
            bent(peer, other.or_else(|| liar.other_vote(from, message, blank)))
        }));
        let correct: Vec<usize> = (0..replicas).filter(|id| !liars.contains(id)).collect();
        for request in 0..6 {
            (0..2).for_each(|client| cluster.request(client, 1, 10));
            if rng.percent(30) {
                let victim = rng.pick(&correct);
                cluster.crash(victim);
                cluster.run_for(rng.below(300_000));
                cluster.boot(victim);
            }
            assert!(cluster.run_until_answered(PATIENCE), "seed {seed}: request {request}");
        }
        fallbacks += lines(&mut cluster, "fallback vote for ").len();
    }
    assert!(fallbacks > 20, "{fallbacks} fallback votes");
}

/// How many seeds; more where the environment asks for them.
fn liars() -> u64 {
    let asked = std::env::var("QUORATE_TEST_LIARS").ok();
    asked.map_or(150, |number| number.parse().expect("QUORATE_TEST_LIARS is a number"))
}
