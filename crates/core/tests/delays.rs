//! Message delays, counted: every link takes exactly δ and nothing else takes any time, so that
//! the clock counts messages that wait for each other.
//!
//! What the table of the variants
//! ([`Facts::message_delays`](quorate_core::protocols::hotstuff::rules::Facts)) means: leaders
//! follow each other at once (steady load, or the empty blocks that follow a command in an idle
//! cluster); counted from the leader's sending of the proposal to the commit at the
//! **last** replica. The replica that makes the last certificate commits one delay earlier.
//! To a client it is two more: its request to the leader, and the answers of f + 1 replicas.

use quorate_sim as cluster;

use std::collections::BTreeMap;

use cluster::network::Link;
use cluster::{Cluster, Config};
use quorate_core::base::crypto::Form;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{ALL, Rules, SECOND_VOTE_DELAYS, TwoChain};
use quorate_core::{Duration, ReplicaId, Time};

/// δ in microseconds.
const DELTA: u64 = 10_000;

/// Clients that send a request each under steady load.
const CLIENTS: usize = 40;

/// A cluster in which the clock counts messages: nobody gives up, sends again or passes on.
fn counting(rules: &'static dyn Rules) -> Config {
    Config {
        rules,
        clients: 1 + CLIENTS,
        link: Link::steady(DELTA),
        batch_commands: 1_000,
        client_patience: 3_600_000_000,
        relay_after: 3_600_000_000,
        base_timeout: 3_600_000_000,
        ..Config::default()
    }
}

/// The protocols of the table with the message delays that it gives them.
fn table() -> Vec<(Config, u64)> {
    let variants = ALL.map(|rules| (counting(rules), rules.facts().message_delays));
    let second = Config { second_vote: true, ..counting(&TwoChain) };
    variants.into_iter().chain([(second, SECOND_VOTE_DELAYS)]).collect()
}

/// All that a variant can be combined with.
fn combinations() -> Vec<(Config, u64)> {
    let forms = [Form::List, Form::Aggregate, Form::Threshold].map(|form| match form {
        Form::Threshold => (form, Form::Aggregate),
        _ => (form, form),
    });
    let elections = [Election::RoundRobin, Election::Fixed(ReplicaId(2)), Election::Carousel];
    let mut all = Vec::new();
    for (config, delays) in table() {
        for (_, pacemaker) in Kind::NAMES {
            for election in elections {
                for forms in forms {
                    // Such certificates do not tell their signers.
                    if !(election.needs_signers() && forms.0 == Form::Threshold) {
                        all.push((Config { pacemaker, election, forms, ..config.clone() }, delays));
                    }
                }
            }
        }
    }
    all
}

fn name(config: &Config) -> String {
    let Config { rules, pacemaker, election, forms, second_vote, replicas, .. } = config;
    let (variant, pacemaker) = (rules.facts().name, pacemaker.name());
    let second = if *second_vote { " with second votes" } else { "" };
    let election = election.name();
    format!("{variant}{second}, {pacemaker}, {election}, {forms:?}, {replicas} replicas")
}

/// A cluster whose clients have their sessions.
fn opened(config: &Config) -> Cluster {
    let mut cluster = Cluster::new(config.clone());
    for client in 0..cluster.clients.len() {
        cluster.request(client, 1, 10);
    }
    assert!(cluster.run_until_answered(1_000 * DELTA), "{}", name(config));
    cluster.run_for(100 * DELTA);
    cluster
}

/// How many delays have passed. Never a part of one.
fn deltas(from: Time, to: Time) -> u64 {
    let micros = to.since(from).as_micros() as u64;
    assert_eq!(micros % DELTA, 0, "something takes time");
    micros / DELTA
}

/// What steady load shows, in delays.
struct Measured {
    /// Of each block the delays to its commit at every replica, in ascending order.
    commits: Vec<Vec<u64>>,
    /// Of each request the delays to f + 1 equal answers.
    answers: Vec<u64>,
}

/// Client 0 sends a request every half δ; the others send one each, at different times.
fn under_load(config: &Config) -> Measured {
    let mut cluster = opened(config);
    cluster.proposed.clear();
    cluster.committed.clear();
    let (mut asked, mut answers) = (BTreeMap::new(), Vec::new());
    // The first request sets the rhythm; all others arrive just before messages do.
    cluster.request(0, 1, 10);
    cluster.run_for(2 * DELTA - 1);
    for step in 0..4 * CLIENTS {
        cluster.request(0, 1, 10);
        if step % 4 == 0 {
            let client = 1 + step / 4;
            asked.insert(client, cluster.now.after(Duration::from_micros(1)));
            cluster.request(client, 1, 10);
        }
        let until = cluster.now.after(Duration::from_micros(DELTA / 2));
        while cluster.step(until) {
            asked.retain(|client, asked| {
                let done = cluster.clients[*client].is_done();
                if done {
                    answers.push(deltas(*asked, cluster.now));
                }
                !done
            });
        }
        cluster.now = until;
    }
    let sent: BTreeMap<BlockId, Time> =
        cluster.proposed.iter().map(|(at, _, block)| (*block, *at)).collect();
    let mut commits: BTreeMap<BlockId, Vec<u64>> = BTreeMap::new();
    for (at, _, block) in &cluster.committed {
        if let Some(sent) = sent.get(block) {
            commits.entry(*block).or_default().push(deltas(*sent, *at));
        }
    }
    commits.retain(|_, at| at.len() == config.replicas);
    let mut commits: Vec<Vec<u64>> = commits.into_values().collect();
    commits.iter_mut().for_each(|delays| delays.sort_unstable());
    Measured { commits, answers }
}

/// How many delays pass between two proposals: a vote's round for each phase, and where there are
/// several the way of the last certificate to the next leader.
fn view_delays(config: &Config) -> u64 {
    let phases = u64::from(config.rules.facts().phases);
    let to_the_next = u64::from(phases > 1 && !matches!(config.election, Election::Fixed(_)));
    2 * phases + to_the_next
}

#[test]
fn the_table_says_7_7_7_5_5_5_and_3() {
    let delays: Vec<u64> = table().into_iter().map(|(_, delays)| delays).collect();
    assert_eq!(delays, [7, 7, 7, 5, 5, 5, 3]);
}

#[test]
fn every_block_is_committed_everywhere_after_the_delays_of_the_table() {
    for (config, delays) in combinations() {
        let Measured { commits, .. } = under_load(&config);
        assert!(commits.len() >= 8, "{}: {commits:?}", name(&config));
        // With second votes everyone makes the last certificate; otherwise one does, and tells.
        let first = if config.second_vote { delays } else { delays - 1 };
        let mut expected = vec![delays; config.replicas];
        expected[0] = first;
        for block in commits {
            assert_eq!(block, expected, "{}", name(&config));
        }
    }
}

#[test]
fn a_client_of_a_busy_cluster_waits_for_two_more_and_for_its_leader() {
    for (config, delays) in table() {
        let Measured { answers, .. } = under_load(&config);
        assert!(answers.len() >= CLIENTS / 2, "{}: {answers:?}", name(&config));
        let (fastest, slowest) = (answers.iter().min(), answers.iter().max());
        assert_eq!(fastest, Some(&(delays + 2)), "{}: {answers:?}", name(&config));
        // A request that has just missed a proposal is in the next.
        let missed = delays + 2 + view_delays(&config);
        assert!(slowest < Some(&missed), "{}: {answers:?}", name(&config));
    }
}

#[test]
fn a_client_of_an_idle_cluster_waits_for_two_more() {
    for (config, delays) in combinations() {
        let mut cluster = opened(&config);
        for _ in 0..6 {
            let asked = cluster.now;
            cluster.request(0, 1, 10);
            assert!(cluster.run_until_answered(100 * DELTA), "{}", name(&config));
            assert_eq!(deltas(asked, cluster.now), delays + 2, "{}", name(&config));
            cluster.run_for(100 * DELTA);
        }
    }
}

#[test]
fn the_number_of_replicas_does_not_matter() {
    for (config, delays) in table() {
        for replicas in [5, 7, 10] {
            let config = Config { replicas, ..config.clone() };
            let Measured { commits, .. } = under_load(&config);
            assert!(commits.len() >= 8, "{}: {commits:?}", name(&config));
            assert!(commits.iter().all(|block| block.last() == Some(&delays)), "{commits:?}");
        }
    }
}

/// Not in the table: everyone makes each certificate itself, so that no certificate is on its way
/// to those who vote next.
#[test]
fn votes_to_all_save_the_way_back_of_each_certificate() {
    for rules in ALL {
        let config = Config { broadcast_votes: true, ..counting(rules) };
        let Measured { commits, .. } = under_load(&config);
        let facts = rules.facts();
        // Three rounds of votes in one view; or a proposal and a round of votes for each
        // certificate.
        let delays = if facts.phases > 1 { 4 } else { 2 * u64::from(facts.certificates) };
        assert!(commits.len() >= 8, "{}: {commits:?}", name(&config));
        for block in commits {
            assert_eq!(block, vec![delays; config.replicas], "{}", name(&config));
        }
    }
}
