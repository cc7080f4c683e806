//! The power fails while something is written that was, or was not, said already.

use std::cell::RefCell;
use std::rc::Rc;

use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_sim::disk::Fate;
use quorate_sim::network;
use quorate_sim::{Cluster, Config, Peer};

use super::{recover, start, work};
use crate::schedules::variants;

/// Whose power fails.
const VICTIM: usize = 0;

/// The power fails in the write.
pub fn power(place: &mut Option<Cluster>) {
    time_out(place, |cluster| cluster.power_failure_in(VICTIM, 1, Fate::Lost));
}

/// There is no room for the write.
pub fn full(place: &mut Option<Cluster>) {
    time_out(place, |cluster| cluster.fill_disk(VICTIM, 0));
}

/// A replica gives up on a view, and the write of that fails. When it is back the view's proposal
/// arrives.
fn time_out(place: &mut Option<Cluster>, fail: fn(&mut Cluster)) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, None);
        work(cluster, 3);
        let kept: Rc<RefCell<Option<(usize, Peer)>>> = Rc::default();
        let first = Rc::clone(&kept);
        cluster.meddler = Some(Box::new(move |from, to, message| {
            let mut first = first.borrow_mut();
            let proposes =
                matches!(message, PeerMessage::Protocol { message: Message::Proposal { .. }, .. });
            match (to, proposes) {
                (VICTIM, true) if first.is_none() => *first = Some((from, message.clone())),
                (VICTIM, _) if first.is_some() => {}
                _ => return network::Fate::Goes,
            }
            network::Fate::Lost
        }));
        cluster.request(0, 1, 10);
        let caught = Rc::clone(&kept);
        cluster.run_until(50_000, |_| caught.borrow().is_some());
        // It has got whatever was on its way, and is left alone with its timer.
        cluster.run_for(5_000);
        cluster.request(0, 1, 10);
        cluster.run_for(5_000);
        fail(cluster);
        cluster.run_until(300_000, |cluster| cluster.slots[VICTIM].core.is_none());
        if cluster.slots[VICTIM].core.is_some() {
            cluster.crash(VICTIM);
        }
        cluster.slots[VICTIM].disk.heal();
        cluster.free_disk(VICTIM);
        cluster.boot(VICTIM);
        cluster.run_for(500);
        if let Some((from, proposal)) = kept.take() {
            cluster.inject(from, VICTIM, &proposal);
        }
        cluster.run_for(2_000);
        recover(cluster);
    }
}
