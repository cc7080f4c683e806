//! One node lies, and the payments of the others go on.
//!
//! The liar has money enough, and signs what it likes. It answers no question in favour, and tells
//! vertices to whom it wants.

use std::sync::Arc;

use quorate_core::Duration;
use quorate_core::protocols::snow::avalanche::{Limits, Settings, Vertex};

use crate::alone::vertex;
use crate::network::{Network, Payment, genesis, small};

const NODES: u16 = 20;
const LIAR: usize = NODES as usize - 1;
const SECOND: Duration = Duration::from_secs(1);
/// A node that had no room for a payment, and missed all that stands on it, fetches it from the
/// ledgers of others (`quorate-payments`, `node::behind`); here it does not.
const NEARLY_ALL: usize = LIAR - 2;
/// In how many seconds an honest payment is accepted by all, whatever the liar does.
const SOON: u32 = 60;

/// Few vertices fill a share: a sixteenth of these.
fn network(vertices: usize, seed: u64) -> Network {
    let limits = Limits { vertices, depth: 64, ..Limits::NODE };
    let mut network = Network::new(NODES, Settings { limits, ..small() }, seed);
    network.lies(LIAR);
    network
}

fn rogue(number: u32) -> Payment {
    Payment::new("rogue", &[genesis(1_000_000 + number)])
}

/// Each second a wallet pays; `lie` is called ahead of that. The payments of so many seconds are
/// accepted by nearly all correct nodes, each of them soon.
fn all_are_paid(network: &mut Network, seconds: u32, mut lie: impl FnMut(&mut Network, u32)) {
    let mut payments = Vec::new();
    for second in 0..seconds + SOON {
        lie(network, second);
        let payment = Payment::new("honest", &[genesis(second)]);
        network.submit(second as usize % LIAR, &[&payment]);
        payments.push(payment);
        network.run(SECOND);
        let due = payments.iter().take((second + 1).saturating_sub(SOON) as usize);
        for (number, payment) in due.enumerate() {
            let accepted = network.accepted(payment);
            let held = network.nodes[0].0.held();
            assert!(
                accepted >= NEARLY_ALL,
                "{accepted} accepted payment {number} after {second} s; {held:?}"
            );
        }
    }
}

/// The liar hands each node other payments of its own, which that node passes on. Without a valve,
/// and with vertices that never give way, the shares of all nodes at all others are full of them.
#[test]
fn payments_that_honest_nodes_pass_on_for_a_liar_stop_nobodys() {
    for seed in 0..3 {
        let mut network = network(320, seed);
        for number in 0..40 * LIAR as u32 {
            network.tell(number as usize % LIAR, &vertex(&[], &[&rogue(number)]));
        }
        network.run(SECOND * 5);
        all_are_paid(&mut network, 10, |_, _| {});
    }
}

/// The liar spends an output twice, and rests a payment on the spend that loses, in a vertex that
/// does not stand on it. Then it has the losing spend forgotten. Nobody rejects that payment any
/// more, and it looks virtuous.
#[test]
fn a_payment_that_rests_on_a_forgotten_spend_stops_nobodys() {
    for seed in 0..3 {
        let mut network = network(320, seed);
        let mut number = 0;
        all_are_paid(&mut network, 20, |network, _| {
            number += 1;
            let all = |network: &mut Network, of: Arc<Vertex<Payment>>| {
                (0..LIAR).for_each(|to| network.tell(to, &of));
                network.run(Duration::from_millis(20));
            };
            let output = genesis(2_000_000 + number);
            let [wins, loses] = ["wins", "loses"].map(|name| Payment::new(name, &[output]));
            all(network, vertex(&[], &[&wins]));
            all(network, vertex(&[], &[&loses]));
            let rests = Payment::new("rests", &[loses.output(0)]);
            all(network, vertex(&[], &[&rests]));
            let weak = vertex(&[], &[&Payment::new("weak", &[output])]);
            all(network, Arc::clone(&weak));
            for filler in 0..20 {
                all(network, vertex(&[&weak], &[&rogue(100 * number + filler)]));
            }
        });
    }
}
