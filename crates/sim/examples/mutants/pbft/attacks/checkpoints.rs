//! The water marks, and the checkpoints that move them.

use quorate_adversary::pbft::named;
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, Message, Settings};

use super::super::{Place, recovers};
use super::{came_to, committed, cut_off, detail, lose, request_all, settings, start, vote, work};

/// Nobody hears of a checkpoint until the window is full, and the primary dies in some worlds: then
/// checkpoints are said again.
pub fn unheard(authentication: Authentication, place: &mut Place) {
    for dies in [false, true] {
        let cluster = start(place, settings(authentication));
        let low = detail(cluster, 0, "stable_checkpoint");
        lose(cluster, |_, _, message| {
            matches!(message, Message::Checkpoint { .. } | Message::Stable(_))
        });
        let Settings { window, .. } = cluster.config.pbft;
        for _ in 0..4 {
            request_all(cluster);
            cluster.run_for(20_000);
        }
        came_to(cluster, 40_000, "the window is not full", |cluster| {
            (0..4).all(|slot| committed(cluster, slot).0 >= low + window)
        });
        if dies {
            cluster.crash(0);
            cluster.run_for(300_000);
        }
        cluster.meddler = None;
        recovers(cluster);
    }
}

/// One replica shows stable checkpoints that others did not sign.
pub fn of_nobody(authentication: Authentication, place: &mut Place) {
    for seed in 0..4 {
        let cluster = start(place, settings(authentication));
        let make = named("lying-checkpoints").expect("it is one of all");
        cluster.make_liar(3, make(seed));
        for _ in 0..4 {
            work(cluster, 2);
            cluster.run_for(60_000);
        }
        cut_off(cluster, 0);
        work(cluster, 1);
        recovers(cluster);
    }
}

/// The primary dies when the blocks of the whole pipeline are prepared, with a checkpoint among
/// them that has just become stable.
pub fn full_window(authentication: Authentication, place: &mut Place) {
    let pbft = Settings { checkpoint_every: 4, window: 12, ..settings(authentication) };
    let cluster = start(place, pbft);
    let height = committed(cluster, 1);
    lose(cluster, move |_, _, message| {
        vote(message, Phase::Commit).is_some_and(|vote| vote.height.0 > height.0 + 4)
    });
    request_all(cluster);
    came_to(cluster, 60_000, "the window is not full", |cluster| {
        (1..4).all(|slot| detail(cluster, slot, "prepared") >= height.0 + 8)
            && (1..4).all(|slot| detail(cluster, slot, "stable_checkpoint") > height.0)
    });
    cluster.crash(0);
    cluster.meddler = None;
    work(cluster, 1);
    recovers(cluster);
}
