//! The laboratory's switches of what travels with a proposal: ancestors, and filtering.

use quorate_sim as cluster;

use std::cell::Cell;

use cluster::{Cluster, Config, Peer};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::Ancestors;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Height, View};

thread_local! {
    static ASKED: Cell<u32> = const { Cell::new(0) };
    static SENT: Cell<u32> = const { Cell::new(0) };
}

/// Replica 3 does not get the proposal of view 5. Counts requests for blocks, and blocks sent
/// ahead.
fn lose_one_proposal(_: usize, to: usize, peer: &Peer) -> bool {
    match peer {
        PeerMessage::FetchChain { .. } => ASKED.set(ASKED.get() + 1),
        PeerMessage::Ancestors { blocks, .. } => SENT.set(SENT.get() + blocks.len() as u32),
        PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. } => {
            return to == 3 && block.view == View(5);
        }
        _ => {}
    }
    false
}

/// How often blocks were asked for, and how many were sent ahead of proposals.
fn with(ancestors: Ancestors, drops: fn(usize, usize, &Peer) -> bool) -> (u32, u32) {
    ASKED.set(0);
    SENT.set(0);
    let mut cluster = Cluster::new(Config { ancestors, batch_commands: 1, ..Config::default() });
    cluster.drops = Some(drops);
    for _ in 0..8 {
        cluster.request(0, 1, 10);
    }
    assert!(cluster.run_until_answered(10_000_000));
    assert!(cluster.run_until(10_000_000, Cluster::is_level));
    (ASKED.get(), SENT.get())
}

#[test]
fn a_lost_block_is_asked_for_or_comes_with_the_next_proposal() {
    let (asked, sent) = with(Ancestors::None, lose_one_proposal);
    assert!(asked > 0 && sent == 0, "asked for {asked}, sent {sent}");
    for ancestors in [Ancestors::Missing, Ancestors::All] {
        let (asked, sent) = with(ancestors, lose_one_proposal);
        assert!(asked == 0 && sent > 0, "{ancestors:?}: asked for {asked}, sent {sent}");
    }
}

#[test]
fn what_the_slowest_replica_holds_is_not_sent_again() {
    let count = |_: usize, _: usize, peer: &Peer| {
        lose_one_proposal(0, 0, peer);
        false
    };
    let (_, all) = with(Ancestors::All, count);
    let (_, missing) = with(Ancestors::Missing, count);
    assert!(missing < all, "missing {missing}, all {all}");
}

#[test]
fn without_filtering_commands_are_ordered_twice_and_executed_once() {
    let filtered = |filtering| {
        let mut cluster = Cluster::new(Config { filtering, ..Config::default() });
        for _ in 0..8 {
            cluster.request(0, 1, 10);
        }
        assert!(cluster.run_until_answered(10_000_000));
        // The oracles have seen that nothing was executed twice.
        assert_eq!(cluster.oracles.executed_of(0), 8);
        let tree = cluster.core(0).protocol().tree();
        tree.blocks_above(Height(0), &tree.root().id())
            .map(|block| block.frames.len())
            .sum::<usize>()
    };
    assert!(filtered(false) > filtered(true));
}
