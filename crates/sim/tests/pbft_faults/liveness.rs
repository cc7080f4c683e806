//! Where other implementations of PBFT stop: crashes, cuts and restarts with blocks under way.

use quorate_core::protocols::checkpoint::Stable;
use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Height, View};
use quorate_sim::Cluster;
use quorate_sim::Peer;
use quorate_sim::family::Pbfts;
use quorate_sim::network::Fate;

use super::{BOTH, PATIENCE, answered, cluster, detail, level, settings, work};

fn says(message: &Peer<Pbfts>, is: impl Fn(&Message) -> bool) -> bool {
    matches!(message, PeerMessage::Protocol { message, .. } if is(message))
}

fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Vote { vote, .. } if vote.phase == Phase::Commit)
}

/// Nobody hears a commit, so that blocks are prepared and stay under way.
fn fill_the_window(cluster: &mut Cluster<Pbfts>) {
    cluster.meddler = Some(Box::new(|_, _, message| match says(message, is_commit) {
        true => Fate::Lost,
        false => Fate::Goes,
    }));
    (0..8).for_each(|client| cluster.request(client, 1, 10));
    let is_full = |cluster: &Cluster<Pbfts>| {
        (0..4).all(|slot| {
            let committed = cluster.core(slot).protocol().committed().height().0;
            detail(cluster, slot, "prepared") == committed + 8
        })
    };
    assert!(cluster.run_until(40_000, is_full), "the window is not full");
    cluster.meddler = None;
}

#[test]
fn a_primary_dies_with_a_full_window() {
    for authentication in BOTH {
        let mut cluster = cluster(settings(authentication), 4);
        fill_the_window(&mut cluster);
        let height = cluster.oracles.height();
        cluster.crash(0);
        answered(&mut cluster);
        assert_eq!(cluster.highest_view(), View(2));
        // All eight were prepared, and are what the view began with.
        assert_eq!(cluster.oracles.height(), height + 8);
        cluster.boot(0);
        level(&mut cluster);
    }
}

#[test]
fn two_view_changes_in_a_row() {
    for authentication in BOTH {
        let mut cluster = cluster(settings(authentication), 7);
        work(&mut cluster, 2);
        cluster.crash(0);
        cluster.crash(1);
        work(&mut cluster, 3);
        assert_eq!(cluster.highest_view(), View(3));
        cluster.boot(0);
        cluster.boot(1);
        level(&mut cluster);
    }
}

/// Beyond the window it cannot follow by votes: it needs a checkpoint, and the blocks below it.
#[test]
fn a_replica_that_was_cut_off_comes_back_from_beyond_the_window() {
    for authentication in BOTH {
        for away in [0, 3] {
            let mut cluster = cluster(settings(authentication), 4);
            cluster.network.partition(|slot| usize::from(slot == away));
            work(&mut cluster, 12);
            let own = cluster.core(away).protocol().committed().height();
            assert!(cluster.oracles.height() > own.0 + 3 * 16, "it is not far enough behind");
            cluster.network.heal();
            level(&mut cluster);
            assert!(cluster.core(away).protocol().committed().height() > own.plus(3 * 16));
        }
    }
}

#[test]
fn all_restart_at_once_under_load() {
    for authentication in BOTH {
        let mut cluster = cluster(settings(authentication), 4);
        for moment in 0..12 {
            (0..8).for_each(|client| cluster.request(client, 1, 10));
            cluster.run_for(500 * moment);
            (0..4).for_each(|slot| cluster.crash(slot));
            (0..4).for_each(|slot| cluster.boot(slot));
            answered(&mut cluster);
        }
        level(&mut cluster);
    }
}

/// Two of four hold the newest stable checkpoint when the primary dies: it is one of them, or the
/// next primary is.
#[test]
fn the_newest_stable_checkpoint_is_held_by_one_less_than_a_quorum() {
    for authentication in BOTH {
        for holders in [[0, 3], [1, 2], [0, 1], [2, 3]] {
            let mut cluster = cluster(settings(authentication), 4);
            cluster.run_for(20_000);
            let low = |cluster: &Cluster<Pbfts>, slot| detail(cluster, slot, "stable_checkpoint");
            let before = (0..4).map(|slot| low(&cluster, slot)).max().unwrap_or(0);
            cluster.meddler = Some(Box::new(move |_, to, message| {
                let is_newer = |stable: &Stable| stable.checkpoint.height.0 > before;
                let is_stable = |message: &Message| match message {
                    Message::Checkpoint { .. } => true,
                    Message::Stable(stable) => is_newer(stable),
                    Message::PrePrepare { block, .. } => {
                        block.stable.as_ref().is_some_and(is_newer)
                    }
                    _ => false,
                };
                match says(message, is_stable) && !holders.contains(&to) {
                    true => Fate::Lost,
                    false => Fate::Goes,
                }
            }));
            let is_apart = |cluster: &Cluster<Pbfts>| {
                (0..4).all(|slot| (low(cluster, slot) > before) == holders.contains(&slot))
            };
            for _ in 0..10 {
                (0..8).for_each(|client| cluster.request(client, 1, 10));
                if cluster.run_until(20_000, is_apart) {
                    break;
                }
            }
            assert!(is_apart(&cluster), "{holders:?} are not the only ones that hold it");
            cluster.crash(0);
            cluster.meddler = None;
            answered(&mut cluster);
            cluster.boot(0);
            level(&mut cluster);
            let lows = (0..4).map(|slot| Height(low(&cluster, slot)));
            assert!(lows.clone().all(|low| low > Height(before)), "{:?}", Vec::from_iter(lows));
        }
    }
}

/// Commits are heard by one replica alone, which dies. What it knows to be committed was prepared
/// by others, whichever of them: the new view begins with it.
#[test]
fn what_one_replica_alone_committed_is_kept() {
    for authentication in BOTH {
        for only in 0..4 {
            let mut cluster = cluster(settings(authentication), 4);
            cluster.meddler = Some(Box::new(move |_, to, message| {
                match says(message, is_commit) && to != only {
                    true => Fate::Lost,
                    false => Fate::Goes,
                }
            }));
            (0..8).for_each(|client| cluster.request(client, 1, 10));
            let before = cluster.oracles.height();
            assert!(cluster.run_until(40_000, |cluster| cluster.oracles.height() == before + 8));
            cluster.crash(only);
            cluster.meddler = None;
            // The oracle of agreement compares what is committed from now on.
            let all = cluster.run_until(PATIENCE, |cluster| {
                cluster.correct().all(|core| core.protocol().committed().height().0 >= before + 8)
            });
            assert!(all, "what r{only} committed is not committed by the others");
            cluster.boot(only);
            level(&mut cluster);
        }
    }
}
