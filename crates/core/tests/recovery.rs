//! What goes wrong with replicas, one thing at a time: dead leaders, crashes, long absences, lost
//! data, wrong state.

use quorate_sim as cluster;

use std::cell::Cell;
use std::rc::Rc;

use cluster::client::Targets;
use cluster::network::{Fate, Link};
use cluster::trace::Trace;
use cluster::{Cluster, Config, Peer, status_of};
use quorate_core::protocols::hotstuff::certificate::Tc;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::{Message, rules};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::{Halt, Refused};
use quorate_core::{Duration, Height, View};

/// So many requests, one after the other.
fn serve(cluster: &mut Cluster, requests: usize) {
    for request in 0..requests {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(60_000_000), "request {request} is not answered");
    }
}

/// Requests that nobody waits for, one every millisecond.
fn load(cluster: &mut Cluster, millis: u64) {
    for _ in 0..millis {
        cluster.request(0, 1, 10);
        cluster.run_for(1_000);
    }
}

#[test]
fn three_of_four_go_on_with_a_leader_dead_for_good() {
    for dead in 0..4 {
        let mut cluster = Cluster::new(Config::default());
        cluster.crash(dead);
        serve(&mut cluster, 20);
        assert!(cluster.highest_view().0 > 20);
    }
}

#[test]
fn as_many_as_may_fail_do_at_every_size() {
    for (replicas, dead) in [(4, 1), (5, 1), (7, 2), (10, 3)] {
        for shift in 0..3 {
            let mut cluster = Cluster::new(Config { replicas, ..Config::default() });
            for index in 0..dead {
                // Side by side, and evenly placed.
                cluster.crash((index * (shift + 1)) % replicas);
            }
            serve(&mut cluster, 10);
        }
    }
}

#[test]
fn a_frame_sent_to_one_reaches_a_cluster_whose_leader_is_dead() {
    for relay in [false, true] {
        for dead in 0..4 {
            let mut cluster = Cluster::new(Config::default());
            cluster.crash(dead);
            cluster.turn_client_to(0, Targets::One { replica: (dead + 2) % 4, relay });
            serve(&mut cluster, 3);
        }
    }
}

#[test]
fn what_was_passed_on_and_lost_is_passed_on_when_its_client_asks_again() {
    for pacemaker in [Kind::TimeoutCertificates, Kind::Linear] {
        for (relay, dead) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
            let mut cluster = Cluster::new(Config { pacemaker, ..Config::default() });
            cluster.drops = Some(|_, _, message| matches!(message, PeerMessage::Relay(_)));
            cluster.crash(dead);
            cluster.turn_client_to(0, Targets::One { replica: 0, relay });
            cluster.request(0, 1, 10);
            assert!(!cluster.run_until_answered(400_000));
            cluster.drops = None;
            assert!(cluster.run_until_answered(60_000_000), "{pacemaker:?} {relay} {dead}");
        }
    }
}

#[test]
fn a_crowd_that_sends_to_one_is_passed_on_once() {
    let mut cluster = Cluster::new(Config { clients: 20, ..Config::default() });
    cluster.crash(1);
    for client in 0..20 {
        cluster.turn_client_to(client, Targets::One { replica: 2, relay: false });
        cluster.request(client, 1, 10);
    }
    assert!(cluster.run_until_answered(60_000_000));
    cluster.run_for(1_000_000);
    assert_eq!(cluster.in_flight(), 0);
}

#[test]
fn all_crash_again_and_again_and_go_on() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(Config { seed, ..Config::default() });
        for round in 0..10 {
            cluster.request(0, 1, 10);
            cluster.request(0, 2, 10);
            let micros = cluster.rng.below(20_000);
            cluster.run_for(micros);
            for slot in 0..4 {
                cluster.crash(slot);
            }
            cluster.run_for(5_000);
            for slot in 0..4 {
                cluster.boot(slot);
            }
            assert!(cluster.run_until_answered(60_000_000), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn a_cluster_that_crashed_with_a_proposal_in_the_air_falls_silent() {
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 1);
    cluster.run_for(1_000_000);
    // The proposal reaches all, its votes nobody.
    cluster.drops =
        Some(|_, _, peer| matches!(peer, PeerMessage::Protocol { message: Message::Vote(_), .. }));
    cluster.request(0, 1, 10);
    cluster.run_for(5_000);
    for slot in 0..4 {
        cluster.crash(slot);
        cluster.boot(slot);
    }
    cluster.drops = None;
    let now = cluster.now;
    cluster.clients[0].give_up(now);
    cluster.run_for(20_000_000);
    assert!(!cluster.has_timer(), "nobody has work to do");
    serve(&mut cluster, 0);
}

#[test]
fn a_replica_restarted_in_an_idle_cluster_learns_the_newest_commit() {
    for slot in 0..4 {
        let mut cluster = Cluster::new(Config::default());
        serve(&mut cluster, 3);
        cluster.run_for(1_000_000);
        cluster.crash(slot);
        serve(&mut cluster, 30);
        cluster.run_for(1_000_000);
        cluster.boot(slot);
        cluster.run_for(3_000_000);
        assert!(cluster.is_level(), "slot {slot}");
        assert!(!cluster.has_timer());
    }
}

#[test]
fn a_channel_that_opens_brings_a_replica_up_to_date() {
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 1);
    cluster.network.partition(|slot| usize::from(slot == 3));
    serve(&mut cluster, 10);
    cluster.run_for(5_000_000);
    cluster.network.heal();
    cluster.run_for(5_000_000);
    cluster.reconnect(3, 0);
    cluster.run_for(3_000_000);
    assert!(cluster.is_level());
}

#[test]
fn a_replica_far_behind_catches_up_under_load_with_a_dead_peer() {
    let config = Config { link: Link::steady(3_000), base_timeout: 20_000, ..Config::default() };
    let mut cluster = Cluster::new(Config { replicas: 7, ..config });
    serve(&mut cluster, 1);
    cluster.crash(6);
    load(&mut cluster, 3_000);
    cluster.crash(0);
    cluster.boot(6);
    let missing = cluster.core(1).execution().height().0;
    assert!(missing > 100);
    load(&mut cluster, 4_000);
    let (late, head) = (cluster.core(6).execution().height(), cluster.core(1).execution().height());
    assert!(late.0 + 20 > head.0, "{late:?} of {head:?}");
}

#[test]
fn one_missing_block_is_fetched_although_each_view_brings_another_tip() {
    let mut cluster = Cluster::traced(Config::default(), Trace::on());
    serve(&mut cluster, 1);
    cluster.drops = Some(|_, to, peer| {
        to == 3
            && matches!(peer, PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. }
                if block.view.0 == 12)
    });
    cluster.trace.take();
    load(&mut cluster, 100);
    let lines = cluster.trace.take();
    let asks = lines.iter().filter(|line| line.contains("r3 asks") || line.contains("r3 → "));
    let asks = asks.filter(|line| line.contains("asks for blocks")).count();
    assert!((1..=2).contains(&asks), "{asks} requests for one block\n{}", lines.join("\n"));
}

#[test]
fn blocks_larger_than_half_the_budget_of_an_answer_are_fetched_too() {
    let mut cluster = Cluster::traced(
        Config { inline_bytes: 8 << 20, log_room_bytes: 4 << 20, ..Config::default() },
        Trace::on(),
    );
    serve(&mut cluster, 1);
    cluster.crash(3);
    for _ in 0..4 {
        cluster.request(0, 1, 3 << 20);
        assert!(cluster.run_until_answered(60_000_000));
    }
    cluster.boot(3);
    cluster.run_for(30_000_000);
    assert!(cluster.is_level());
}

fn with_snapshots() -> Config {
    Config { snapshot_blocks: 10, retire: true, log_room_bytes: 0, ..Config::default() }
}

#[test]
fn a_replica_behind_a_cut_log_takes_over_a_snapshot_and_votes_again() {
    for slot in 0..4 {
        let mut cluster = Cluster::new(with_snapshots());
        serve(&mut cluster, 1);
        cluster.crash(slot);
        serve(&mut cluster, 60);
        cluster.run_for(2_000_000);
        cluster.boot(slot);
        cluster.run_for(5_000_000);
        assert!(cluster.is_level(), "slot {slot} in silence");
        // Now it is needed: another one dies.
        cluster.crash((slot + 1) % 4);
        serve(&mut cluster, 10);
        // Its own disk serves it, and it serves others.
        cluster.crash(slot);
        cluster.boot(slot);
        serve(&mut cluster, 30);
        cluster.boot((slot + 1) % 4);
        cluster.run_for(5_000_000);
        assert!(cluster.is_level());
    }
}

#[test]
fn snapshots_that_are_due_before_blocks_show_them_are_offered_all_the_same() {
    for snapshot_blocks in 1..4 {
        let config = Config { snapshot_blocks, ..with_snapshots() };
        let mut cluster = Cluster::traced(config, Trace::on());
        serve(&mut cluster, 1);
        cluster.crash(3);
        serve(&mut cluster, 60);
        cluster.run_for(2_000_000);
        cluster.trace.take();
        cluster.boot(3);
        cluster.run_for(5_000_000);
        assert!(cluster.is_level(), "{snapshot_blocks}");
        let offered = |line: &String| line.contains("→ r3  offers a snapshot");
        assert!(cluster.trace.take().iter().any(offered), "{snapshot_blocks}");
    }
}

/// Who waited in vain for blocks, asking less and less often, asks at once when a channel opens.
#[test]
fn what_is_missing_is_asked_for_when_a_channel_opens() {
    for waited in 0..8 {
        let mut cluster = Cluster::new(Config::default());
        serve(&mut cluster, 1);
        cluster.crash(3);
        serve(&mut cluster, 10);
        cluster.run_for(2_000_000);
        cluster.drops = Some(|_, _, message| matches!(message, PeerMessage::FetchChain { .. }));
        cluster.boot(3);
        cluster.run_for(20_000_000 + waited * 400_000);
        assert!(!cluster.is_level());
        cluster.drops = None;
        cluster.crash(0);
        cluster.boot(0);
        cluster.run_for(100_000);
        assert!(cluster.is_level(), "{waited}");
    }
}

/// In a view of several phases that was entered by time-outs, the first phase's certificate
/// replaces the TC in the safety record. A proposal repeated without it would be refused by all.
#[test]
fn a_leader_repeats_no_proposal_that_all_must_refuse() {
    for rules in rules::ALL {
        // The first leader is dead, and its view given up after 100 ms.
        for micros in (100_000..130_000).step_by(500) {
            let mut cluster = Cluster::new(Config { rules, ..Config::default() });
            cluster.crash(1);
            cluster.request(0, 1, 10);
            cluster.run_for(micros);
            for slot in [0, 2, 3] {
                cluster.crash(slot);
                cluster.boot(slot);
            }
            assert!(cluster.run_until_answered(60_000_000));
            let malformed = |refused: &&Refused| matches!(refused, Refused::Malformed(reason) if *reason != Malformed::Stale);
            let refused: Vec<_> = cluster.refused.keys().filter(malformed).collect();
            assert!(refused.is_empty(), "{rules:?}, {micros}: {refused:?}");
        }
    }
}

#[test]
fn a_snapshot_is_offered_after_everybody_restarted_in_silence() {
    let mut cluster = Cluster::new(with_snapshots());
    serve(&mut cluster, 1);
    cluster.crash(2);
    serve(&mut cluster, 40);
    cluster.run_for(2_000_000);
    for slot in [0, 1, 3] {
        cluster.crash(slot);
        cluster.boot(slot);
    }
    cluster.boot(2);
    cluster.run_for(10_000_000);
    assert!(cluster.is_level());
}

#[test]
fn a_snapshot_comes_from_another_peer_when_the_first_dies_in_between() {
    let mut cluster = Cluster::new(with_snapshots());
    serve(&mut cluster, 1);
    cluster.crash(3);
    for _ in 0..30 {
        cluster.request(0, 20, 10);
        assert!(cluster.run_until_answered(60_000_000));
    }
    cluster.run_for(2_000_000);
    for first in 0..3 {
        let mut asked = None;
        cluster.drops = None;
        cluster.boot(3);
        while asked.is_none() && !cluster.is_level() {
            cluster.run_for(500);
            asked = Some(first).filter(|_| cluster.core(3).execution().height().0 < 10);
        }
        cluster.crash(first);
        cluster.run_for(10_000_000);
        assert!(cluster.is_level(), "without r{first}");
        cluster.boot(first);
        cluster.run_for(1_000_000);
        cluster.crash(3);
        cluster.slots[3].disk = cluster::disk::Disk::default();
        // A test of transfer alone: nobody relies on what r3 forgot, for it never voted since.
        cluster.slots[3].faulty = true;
    }
}

/// Blocks that were asked of one peer come, late, while another one's snapshot of an earlier height
/// is still on its way.
#[test]
fn a_snapshot_that_blocks_have_overtaken_is_not_installed() {
    let mut cluster = Cluster::new(Config { replicas: 10, ..with_snapshots() });
    cluster.network.partition(|slot| usize::from(slot == 9));
    // They fill a segment of the log: it goes with the first snapshot.
    for _ in 0..2 {
        cluster.request(0, 1, 10_000);
        assert!(cluster.run_until_answered(60_000_000));
    }
    while cluster.core(0).execution().height() < Height(12) {
        serve(&mut cluster, 1);
    }
    let holds_all =
        |cluster: &Cluster| (0..9).all(|slot| cluster.slots[slot].disk.begins() == Some(Height(1)));
    assert!(holds_all(&cluster), "r9 can still get all the blocks");

    let offered = Rc::new(Cell::new(None));
    let complete = Rc::new(Cell::new(false));
    let (sees_offer, sees_end) = (Rc::clone(&offered), Rc::clone(&complete));
    cluster.meddler = Some(Box::new(move |_, to, peer| match peer {
        _ if to != 9 => Fate::Goes,
        // They would bring r9 up to date.
        PeerMessage::Protocol { message: Message::Proposal { .. }, .. } => Fate::Lost,
        PeerMessage::Chain(_) => Fate::Late(600_000),
        PeerMessage::Behind(offer) => {
            sees_offer.set(Some(offer.block.height));
            Fate::Goes
        }
        PeerMessage::Chunk { last, .. } => {
            sees_end.set(*last);
            Fate::Late(500_000)
        }
        _ => Fate::Goes,
    }));
    cluster.network.heal();
    cluster.reconnect(9, 0);
    cluster.run_for(10_000);
    // r9 has asked. Meanwhile the others order blocks that it does not get, and cut their logs.
    while holds_all(&cluster) {
        serve(&mut cluster, 1);
    }

    let mut height = Height(0);
    let until = cluster.now.after(Duration::from_secs(10));
    while !complete.get() {
        assert!(cluster.step(until), "no snapshot was sent");
        height = cluster.core(9).execution().height();
    }
    let snapshot = offered.get().expect("a snapshot was offered");
    assert!(height > snapshot, "blocks came before the end of the snapshot of {snapshot:?}");
    // The last chunk arrives.
    let until = cluster.now.after(Duration::from_secs(1));
    while cluster.step(until) {
        let now = cluster.core(9).execution().height();
        assert!(now >= height, "the state of r9 went back from {height:?} to {now:?}");
        height = now;
    }
    cluster.meddler = None;
    serve(&mut cluster, 3);
    assert!(cluster.run_until(60_000_000, Cluster::is_level));
}

#[test]
fn a_replica_without_its_data_abstains_and_then_takes_part_again() {
    for slot in 0..4 {
        let mut cluster = Cluster::new(Config::default());
        serve(&mut cluster, 10);
        cluster.crash(slot);
        serve(&mut cluster, 3);
        cluster.rejoin(slot, 1);
        serve(&mut cluster, 1);
        cluster.run_for(2_000_000);
        assert!(!cluster.core(slot).is_rejoining());
        let until = status_of(cluster.core(slot)).abstain_until;
        assert!(until > cluster.highest_view(), "it abstains for a while");
        serve(&mut cluster, 40);
        assert!(cluster.highest_view() > until);
        cluster.run_for(1_000_000);
        assert!(cluster.is_level());
        // Its vote counts again.
        cluster.crash((slot + 2) % 4);
        serve(&mut cluster, 10);
    }
}

#[test]
fn a_replica_that_waits_for_testimonies_runs_no_other_timer() {
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 3);
    for slot in 0..4 {
        cluster.crash(slot);
    }
    cluster.rejoin(1, 1);
    cluster.request(0, 1, 10);
    cluster.run_for(10_000_000);
    assert!(cluster.core(1).is_rejoining(), "nobody answered");
}

#[test]
fn testimonies_cover_views_that_were_given_up_before_they_were_entered() {
    // r3 hears no certificates and no proposals, but two that have given up on later views: it
    // joins them. What it signs then may help others into a view it never enters.
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 5);
    cluster.run_for(1_000_000);
    cluster.network.partition(|slot| usize::from(slot == 3));
    cluster.crash(2);
    cluster.request(0, 1, 10);
    cluster.run_for(30_000_000);
    cluster.network.heal();
    assert!(cluster.run_until_answered(60_000_000));
    // It is told by their certificates how far they are.
    for core in cluster.correct() {
        let safety = core.protocol().safety();
        let tc = safety.high_tc.as_ref().map_or(View(0), Tc::view);
        assert!(safety.timed_out <= tc.max(safety.high_qc.view()).next());
    }
}

#[test]
fn a_wrong_state_stops_its_replica_and_no_other() {
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 2);
    cluster.slots[2].faulty = true;
    cluster.slots[2].breaks_at = Some(2);
    cluster.crash(2);
    cluster.boot(2);
    serve(&mut cluster, 10);
    cluster.run_for(1_000_000);
    assert!(matches!(cluster.slots[2].halted, Some(Halt::StateRoot { .. })));
    assert_eq!(cluster.core(2).deadline(), None, "who has halted waits for nothing");
    serve(&mut cluster, 10);
}

#[test]
fn a_chain_that_grew_very_long_without_a_commit_is_committed_at_last() {
    fn every_third(_: usize, _: usize, peer: &Peer) -> bool {
        matches!(peer, PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. }
            if block.view.0 % 3 == 0)
    }
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 1);
    cluster.run_for(1_000_000);
    cluster.drops = Some(every_third);
    cluster.request(0, 1, 10);
    let long = |cluster: &Cluster| status_of(cluster.core(0)).uncommitted > 1_200;
    assert!(cluster.run_until(20_000_000_000, long));
    cluster.drops = None;
    assert!(cluster.run_until_answered(60_000_000));
    serve(&mut cluster, 3);
    cluster.crash(2);
    cluster.boot(2);
    serve(&mut cluster, 3);
}

#[test]
fn memory_stays_flat() {
    let mut cluster = Cluster::new(Config { clients: 2, ..Config::default() });
    for _ in 0..3_000 {
        cluster.request(0, 1, 10);
        cluster.request(1, 1, 10);
        cluster.run_for(2_000);
    }
    assert!(cluster.run_until_answered(60_000_000));
    cluster.run_for(1_000_000);
    for core in cluster.correct() {
        let status = status_of(core);
        assert!(status.committed.0 > 2_000, "{status:?}");
        assert!(core.held_blocks() <= 4, "{}", core.held_blocks());
        assert!(core.mempool().is_empty());
        assert!(status.uncommitted <= 4);
    }
}

#[test]
fn a_replica_that_cannot_keep_up_holds_no_more_than_one_orphan_a_proposer() {
    // r3 hears proposals, and nobody answers its requests for what it missed.
    let mut cluster = Cluster::new(Config { base_timeout: 5_000, ..Config::default() });
    serve(&mut cluster, 1);
    cluster.drops = Some(|_, to, peer| {
        to == 3
            && match peer {
                PeerMessage::Chain(_) => true,
                PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. } => {
                    block.view.0 < 20
                }
                _ => false,
            }
    });
    load(&mut cluster, 2_000);
    assert!(cluster.core(0).execution().height().0 > 100);
    assert!(cluster.core(3).held_blocks() < 12, "{}", cluster.core(3).held_blocks());
    cluster.drops = None;
    cluster.run_for(5_000_000);
    assert!(cluster.is_level());
}

#[test]
fn a_chain_that_commits_nothing_for_more_than_an_answer_is_fetched_in_parts() {
    fn every_third(_: usize, to: usize, peer: &Peer) -> bool {
        matches!(peer, PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. }
            if block.view.0 % 3 == 0 || to == 3)
    }
    let mut cluster = Cluster::new(Config::default());
    serve(&mut cluster, 1);
    cluster.run_for(1_000_000);
    // r3 holds a part of it itself, and restarts with that.
    cluster.drops = Some(|from, to, peer| every_third(from, to.min(2), peer));
    cluster.request(0, 1, 10);
    let long = |cluster: &Cluster| status_of(cluster.core(0)).uncommitted > 1_100;
    assert!(cluster.run_until(20_000_000_000, long));
    cluster.crash(3);
    let longer = |cluster: &Cluster| status_of(cluster.core(0)).uncommitted > 2_300;
    cluster.drops = Some(every_third);
    cluster.boot(3);
    cluster.network.partition(|slot| usize::from(slot == 3));
    assert!(cluster.run_until(20_000_000_000, longer));
    cluster.network.heal();
    cluster.drops = None;
    assert!(cluster.run_until_answered(60_000_000));
    assert!(cluster.run_until(60_000_000, Cluster::is_level));
}
