//! Roots that somebody waits for: an idle cluster certifies the last state's root when it is asked
//! to, and is silent again.

use quorate_core::protocols::hotstuff::rules::ALL;
use quorate_core::replica::Input;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Height};
use quorate_sim as cluster;

use cluster::{Cluster, Config, Core};

/// How long a wish counts, and more, in microseconds.
const FORGOTTEN: u64 = 6_000_000;

/// Whether a block that this replica knows to be certified carries this root.
fn knows_certified(core: &Core, root: Digest) -> bool {
    let tree = core.protocol().tree();
    let head = core.protocol().high_qc().block();
    std::iter::successors(tree.find(&head), |block| tree.find(&block.parent()))
        .any(|block| block.state_root == root)
}

/// An idle cluster in which commands were executed.
fn idle(config: Config) -> Cluster {
    let mut cluster = Cluster::new(config);
    cluster.request(0, 3, 10);
    assert!(cluster.run_until_answered(5_000_000));
    cluster.run_for(1_000_000);
    cluster
}

fn is_silent(cluster: &Cluster) -> bool {
    cluster.in_flight() == 0 && !cluster.has_timer()
}

fn last_root(cluster: &Cluster, slot: usize) -> Digest {
    cluster.core(slot).execution().state_root()
}

#[test]
fn the_root_of_an_idle_clusters_last_state_is_certified_for_who_waits() {
    for rules in ALL {
        for asked in 0..4 {
            let mut cluster = idle(Config { rules, ..Config::default() });
            let name = rules.facts().name;
            assert!(is_silent(&cluster), "{name}");
            let root = last_root(&cluster, asked);
            assert!(!knows_certified(cluster.core(asked), root), "{name}: nobody had to ask");
            cluster.turn(asked, Input::Show);
            cluster.run_for(2_000_000);
            for slot in 0..4 {
                assert!(knows_certified(cluster.core(slot), root), "{name}: replica {slot}");
            }
            assert!(is_silent(&cluster), "{name} goes on");
            // Once more: there is another last state, of a block without commands.
            let root = last_root(&cluster, asked);
            cluster.turn(asked, Input::Show);
            cluster.run_for(2_000_000);
            assert!(knows_certified(cluster.core(asked), root), "{name}");
            assert!(is_silent(&cluster), "{name} goes on");
        }
    }
}

#[test]
fn before_the_first_command_as_well() {
    let mut cluster = Cluster::new(Config { clients: 0, ..Config::default() });
    cluster.run_for(100_000);
    let root = last_root(&cluster, 2);
    cluster.turn(2, Input::Show);
    cluster.run_for(2_000_000);
    assert!(knows_certified(cluster.core(2), root));
    assert!(is_silent(&cluster));
}

#[test]
fn a_dead_leader_is_passed_by() {
    for rules in ALL {
        for dead in 0..4 {
            let mut cluster = idle(Config { rules, ..Config::default() });
            let asked = (dead + 1) % 4;
            cluster.crash(dead);
            let root = last_root(&cluster, asked);
            cluster.turn(asked, Input::Show);
            // A state may be passed over; who waits then asks for the one that is the last by then.
            let name = rules.facts().name;
            let certified = |cluster: &Cluster| knows_certified(cluster.core(asked), root);
            assert!(cluster.run_until(10_000_000, certified), "{name}: {dead} is dead");
            cluster.run_for(FORGOTTEN);
            assert!(is_silent(&cluster), "{name} goes on");
        }
    }
}

#[test]
fn a_wish_that_cannot_be_fulfilled_is_forgotten() {
    let mut cluster = idle(Config::default());
    cluster.crash(0);
    cluster.crash(1);
    cluster.turn(2, Input::Show);
    cluster.run_for(1_000_000);
    assert!(cluster.has_timer());
    cluster.run_for(4 * FORGOTTEN);
    assert!(is_silent(&cluster));
}

#[test]
fn a_peer_that_wishes_for_what_is_far_off_gets_a_few_blocks() {
    let mut cluster = idle(Config::default());
    let before = cluster.core(0).execution().height();
    cluster.inject(3, 0, &PeerMessage::Show(Height(u64::MAX)));
    cluster.run_for(FORGOTTEN);
    assert!(is_silent(&cluster));
    let after = cluster.core(0).execution().height();
    assert!(after.0 - before.0 < 100, "{before} to {after}");
}

/// One peer that wishes for more all the time keeps an idle cluster from rest, and makes it commit
/// no more than a few blocks a second.
#[test]
fn a_peer_that_wishes_without_end_gets_a_few_blocks_a_second() {
    let mut cluster = idle(Config::default());
    let before = cluster.core(0).execution().height();
    for _ in 0..200 {
        for to in 0..3 {
            cluster.inject(3, to, &PeerMessage::Show(Height(u64::MAX)));
        }
        cluster.run_for(50_000);
    }
    let after = cluster.core(0).execution().height();
    assert!((64..240).contains(&(after.0 - before.0)), "{before} to {after} in ten seconds");
    // What others wish for is made meanwhile.
    let root = last_root(&cluster, 1);
    cluster.turn(1, Input::Show);
    cluster.run_for(1_000_000);
    assert!(knows_certified(cluster.core(1), root));
    cluster.run_for(2 * FORGOTTEN);
    assert!(is_silent(&cluster));
}
