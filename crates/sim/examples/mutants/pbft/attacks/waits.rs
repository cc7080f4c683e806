//! How long replicas wait, and for whom.

use quorate_core::View;
use quorate_core::protocols::pbft::Authentication;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_sim::client::Targets;
use quorate_sim::network::Link;

use super::super::{BASE, Place, recovers};
use super::{came_to, cut_off, detail, settings, start, work};

/// f + 1 replicas know of work and give up on a primary that died; the last one knows of nothing,
/// and joins them at once (section 4.5.2 of the paper). It would leave a view that has lasted long
/// for a single one, so this view has begun lately.
pub fn known_to_two(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    cut_off(cluster, 0);
    work(cluster, 1);
    cluster.network.heal();
    came_to(cluster, 8 * BASE, "one does not come back", |cluster| {
        let protocol = cluster.core(0).protocol();
        let is_in = protocol.view() == View(2) && detail(cluster, 0, "view_change") == 0;
        is_in && cluster.is_level()
    });
    // Commands reach r0 and r2 only; r3 gets what replicas say, but no frames.
    cluster.drops = Some(|_, to, message| to == 3 && matches!(message, PeerMessage::Relay(_)));
    cluster.crash(1);
    cluster.turn_client_to(0, Targets::One { replica: 0, relay: true });
    let height = cluster.oracles.height();
    cluster.request(0, 1, 10);
    let in_time = cluster.run_until(8 * BASE, |cluster| cluster.oracles.height() > height);
    assert!(in_time, "patience: f + 1 gave up on a view, and are not joined");
    cluster.drops = None;
    cluster.turn_client_to(0, Targets::All);
    recovers(cluster);
}

/// Messages take longer than anybody waits at first.
pub fn slow(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    cluster.network.set_all(|link| *link = Link::steady(3 * BASE / 2));
    work(cluster, 2);
    recovers(cluster);
}
