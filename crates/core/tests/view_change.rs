//! What a view change must not lose, and what it may cost.

use quorate_sim as cluster;

use cluster::network::Fate;
use cluster::trace::Trace;
use cluster::{Cluster, Config, Peer};
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Basic, Chained, HotStuff2};
use quorate_core::replica::message::PeerMessage;

const LONG: u64 = 10_000_000;

/// The kind of a protocol's message, and its view.
fn kind(peer: &Peer) -> (&'static str, u64) {
    match peer {
        PeerMessage::Protocol { message, .. } => (message.kind(), message.view().0),
        _ => ("", 0),
    }
}

fn traced(config: Config) -> Cluster {
    Cluster::traced(config, Trace::on())
}

/// Whether a line of the trace says all of this.
fn says(lines: &[String], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

/// Three vote for b1, and the one that is to collect the votes gets none but its own. The time-outs
/// of view 1 carry them; those that reach the next leader first carry too few.
#[test]
fn the_next_leader_learns_of_the_certificate_that_time_outs_make_elsewhere() {
    let mut cluster = traced(Config { rules: &HotStuff2, delta: 20_000, ..Config::default() });
    cluster.meddler = Some(Box::new(|from, to, peer| match (from, to, kind(peer)) {
        (_, 3, ("proposal", 1)) | (_, 2, ("vote", 1)) => Fate::Lost,
        (1, 2, ("time-out", 1)) => Fate::Late(100_000),
        _ => Fate::Goes,
    }));
    cluster.request(0, 1, 10);
    assert!(cluster.run_until(LONG, |cluster| cluster.oracles.height() > 0));
    let lines = cluster.trace.take();
    let text = lines.join("\n");
    assert!(says(&lines, &["r0", "has QC(b1)"]), "not what was to be shown\n{text}");
    assert!(!says(&lines, &["r2 ", "has QC(b1)"]), "not what was to be shown\n{text}");
    assert!(says(&lines, &["proposal b2 (QC(b1)"]), "r2 leaves b1 out\n{text}");
    assert!(!says(&lines, &["does not vote in view 2"]), "{text}");
}

/// The votes of view 1 are lost; the time-outs of view 1 carry them to the leader of view 2.
#[test]
fn a_leader_extends_the_block_that_time_outs_certify() {
    for rules in rules::ALL {
        if rules.facts().phases > 1 {
            continue;
        }
        let mut cluster = traced(Config { rules, ..Config::default() });
        cluster.meddler = Some(Box::new(|_, _, peer| match kind(peer) {
            ("vote", 1) => Fate::Lost,
            _ => Fate::Goes,
        }));
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(LONG));
        let lines = cluster.trace.take();
        let (name, text) = (rules.facts().name, lines.join("\n"));
        assert!(says(&lines, &["gives up view 1"]), "{name}: not what was to be shown\n{text}");
        assert!(says(&lines, &["proposal b2 (QC(b1), "]), "{name}: b1 is left out\n{text}");
    }
}

/// All replicas make a certificate of what time-outs carry: nobody has to be told.
#[test]
fn only_the_leader_tells_of_the_certificates_of_its_view() {
    let mut cluster = traced(Config { rules: &Basic, ..Config::default() });
    cluster.request(0, 1, 10);
    cluster.run_for(4_500);
    cluster.crash(1);
    assert!(cluster.run_until_answered(LONG));
    let lines = cluster.trace.take();
    let text = lines.join("\n");
    assert!(says(&lines, &["r0 ", "has pre-commit-QC(b1)"]), "not what was to be shown\n{text}");
    assert!(!says(&lines, &["r0 → ", "  pre-commit-QC(b1)"]), "{text}");
}

#[test]
fn no_vote_is_cast_where_its_certificate_is_known() {
    let mut cluster = traced(Config { rules: &Basic, ..Config::default() });
    cluster.meddler = Some(Box::new(|_, to, peer| match (to, kind(peer)) {
        (2, ("proposal", 1)) => Fate::Late(4_000),
        _ => Fate::Goes,
    }));
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(LONG));
    let lines = cluster.trace.take();
    assert!(says(&lines, &["r2 ", "votes pre-commit b1"]), "{}", lines.join("\n"));
    assert!(!says(&lines, &[" r2 votes prepare b1"]), "{}", lines.join("\n"));
}

/// Two replicas beside each other are dead, and known not to answer. (From the ninth to the
/// fifteenth rotation none of the two gets another chance.)
#[test]
fn every_collector_that_is_complained_to_in_vain_is_waited_for_less() {
    let config =
        Config { replicas: 7, rules: &Chained, pacemaker: Kind::Linear, ..Config::default() };
    let base = config.base_timeout;
    let mut cluster = Cluster::new(config);
    cluster.crash(2);
    cluster.crash(3);
    while cluster.highest_view().0 < 70 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(LONG));
    }
    let before = cluster.now;
    let from = cluster.highest_view().0;
    while cluster.highest_view().0 < from + 14 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(LONG));
    }
    let rotations = (cluster.highest_view().0 - from) / 7 + 1;
    let took = cluster.now.since(before).as_micros() as u64;
    // Two waits in each rotation, and the ten or so message delays of each of its commits.
    assert!(took < rotations * (2 * base / 5 + base / 2), "{rotations} rotations in {took} µs");
}

/// The leader of view 3, in which Δ has to be waited for, is followed by a dead one: a wait
/// shortened for that would end before it proposes.
#[test]
fn a_leader_that_has_to_wait_is_waited_for_longer() {
    let config = Config { replicas: 7, rules: &HotStuff2, delta: 50_000, ..Config::default() };
    let mut cluster = traced(config);
    cluster.crash(2);
    cluster.crash(4);
    for _ in 0..6 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(LONG));
    }
    let lines = cluster.trace.take();
    let text = lines.join("\n");
    let last = cluster.highest_view().0;
    assert!(last >= 21, "{text}");
    for view in (3..last - 7).step_by(7) {
        assert!(says(&lines, &["r3 ", &format!("proposes in view {view},")]), "{view}\n{text}");
        assert!(
            says(&lines, &[&format!("proposal b{}", view + 2), &format!("QC(b{view})")]),
            "{text}"
        );
    }
}

/// r3 abstains, having lost its data. It collects the votes of every fourth view nevertheless.
#[test]
fn who_may_not_propose_tells_of_the_certificate_that_it_made() {
    let mut cluster = traced(Config::default());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(LONG));
    cluster.run_for(100_000);
    cluster.crash(3);
    cluster.rejoin(3, 1);
    cluster.run_for(100_000);
    cluster.trace.take();
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(LONG));
    let lines = cluster.trace.take();
    let text = lines.join("\n");
    assert!(says(&lines, &["r3 has QC(b10)"]), "not what was to be shown\n{text}");
    assert!(!says(&lines, &["gives up view 10"]), "{text}");
    assert!(says(&lines, &["gives up view 11"]), "r3 leads that and abstains\n{text}");
}
