//! Nobody lies, and all must go on.

use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_sim::client::Targets;
use quorate_sim::network::Link;
use quorate_sim::{Cluster, Config};

use super::{PATIENCE_MICROS, recover, start, work};
use crate::schedules::variants;

/// Where nothing goes wrong no view is given up.
pub fn calm(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, None);
        work(cluster, 10);
        let given_up = cluster.oracles.highest_given_up();
        assert_eq!(given_up, 0, "calm: a view is given up though nothing went wrong");
        recover(cluster);
    }
}

/// One of four is dead from the beginning.
pub fn one_dead(place: &mut Option<Cluster>) {
    for rules in variants() {
        for pacemaker in [Kind::TimeoutCertificates, Kind::Linear] {
            let cluster = start(place, Config { rules, pacemaker, ..Config::default() }, None);
            cluster.crash(2);
            work(cluster, 3);
            recover(cluster);
        }
    }
}

/// Messages take longer than anybody waits at first.
pub fn slow(place: &mut Option<Cluster>) {
    for rules in variants() {
        let link = Link::steady(150_000);
        let cluster = start(place, Config { rules, link, ..Config::default() }, None);
        work(cluster, 2);
        recover(cluster);
    }
}

/// A client speaks to one replica only, which does not lead.
pub fn sent_to_one(place: &mut Option<Cluster>) {
    for rules in variants() {
        for replica in 0..4 {
            // Nor does it ask again: then it would be passed on at once.
            let client_patience = 10 * PATIENCE_MICROS;
            let cluster =
                start(place, Config { rules, client_patience, ..Config::default() }, None);
            cluster.turn_client_to(0, Targets::One { replica, relay: false });
            cluster.request(0, 1, 10);
            // The answers of others must not be needed for what is looked at here.
            let executed = cluster.run_until(PATIENCE_MICROS, |c| c.oracles.height() > 0);
            assert!(executed, "liveness: what one replica has been sent is not ordered");
        }
    }
}

/// f + 1 replicas know of work, the leader is dead, and the last one knows of nothing.
pub fn known_to_two(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, None);
        // Commands reach r0 and r3 only; r2 gets what replicas say, but no frames.
        cluster.drops = Some(|_, to, message| {
            to == 2 && matches!(message, quorate_core::replica::message::PeerMessage::Relay(_))
        });
        cluster.crash(1);
        cluster.turn_client_to(0, Targets::One { replica: 0, relay: true });
        cluster.request(0, 1, 10);
        let executed = cluster.run_until(PATIENCE_MICROS, |c| c.oracles.height() > 0);
        assert!(executed, "liveness: what f + 1 replicas know of is not ordered");
    }
}
