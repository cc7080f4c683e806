//! What a network of Avalanche promises, and what it does not.

use quorate_core::Duration;
use quorate_core::protocols::snow::avalanche::{Limits, Reason, Settings, Transaction as _};
use quorate_core::protocols::snow::parameters::Parameters;

use crate::network::{Network, Payment, genesis, small};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_honest_payment_is_accepted_by_all_and_then_all_are_silent() {
    let mut network = Network::new(20, small(), 1);
    let payment = Payment::new("a", &[genesis(0)]);
    network.submit(3, &[&payment]);
    network.run(SECOND * 60);
    assert_eq!(network.accepted(&payment), 20);
    let sent = network.sent();
    network.run(SECOND * 600);
    assert_eq!(network.sent(), sent, "an idle network is silent");
}

#[test]
fn a_chain_of_payments_is_accepted_in_order_under_loss() {
    let mut network = Network::new(20, small(), 2);
    network.lost_permille = 20;
    let mut chain = vec![Payment::new("0", &[genesis(0)])];
    for at in 1..30 {
        let before = chain[at - 1].output(0);
        chain.push(Payment::new(&at.to_string(), &[before]));
    }
    // The ledger asserts that nothing is accepted before what it spends.
    network.submit(0, &chain.iter().collect::<Vec<_>>());
    network.run(SECOND * 120);
    for payment in &chain {
        assert_eq!(network.accepted(payment), 20, "{:?}", why(&network, payment));
    }
}

#[test]
fn of_two_spends_never_both_are_accepted_and_a_pending_one_says_why() {
    for seed in 0..20 {
        let mut network = Network::new(20, small(), seed);
        let one = Payment::new("one", &[genesis(0)]);
        let other = Payment::new("other", &[genesis(0), genesis(1)]);
        let honest = Payment::new("honest", &[genesis(2)]);
        network.submit(0, &[&one]);
        network.submit(10, &[&other, &honest]);
        network.run(SECOND * 120);
        // Every ledger asserted that it has at most one; all ledgers together have, too.
        let (ones, others) = (network.accepted(&one), network.accepted(&other));
        assert!(ones == 0 || others == 0, "seed {seed}: {ones} and {others}");
        assert_eq!(network.accepted(&honest), 20, "seed {seed}: {:?}", why(&network, &honest));
        for (node, (avalanche, ledger)) in network.nodes.iter().enumerate() {
            for payment in [&one, &other] {
                let known = ledger.transactions.contains(&payment.id())
                    || network.rejected[node].contains(&payment.id());
                if let Some(why) = avalanche.why(&payment.id(), ledger) {
                    assert!(!known, "pending and decided");
                    assert!(why.sets[0].contested && why.sets[0].spenders.len() == 2);
                    assert!(why.preferred || matches!(why.reason, Reason::Rival { .. }));
                }
            }
        }
    }
}

/// Nodes that have less room than the others, or take no deep vertices, refuse some that the others
/// accept. What comes later rests on these, so they are asked for again. The bounds are above β₁: a
/// vertex needs so many on top of it.
#[test]
fn what_a_node_refused_for_want_of_room_it_accepts_later() {
    let settings = |node: u16| {
        let depth = if node == 7 { 14 } else { Limits::NODE.depth };
        let vertices = if node == 3 { 160 } else { Limits::NODE.vertices };
        let parameters = Parameters { early: 12, ..small().parameters };
        Settings { parameters, limits: Limits { depth, vertices, ..Limits::NODE }, ..small() }
    };
    for seed in 0..3 {
        let mut network = Network::of(20, settings, seed);
        // Deep: each spends an output of the one before. And then much at a time.
        let mut payments = vec![Payment::new("chain", &[genesis(200_000)])];
        for at in 0..200 {
            let before = payments[at].output(0);
            payments.push(Payment::new("chain", &[before]));
        }
        network.submit(0, &payments.iter().collect::<Vec<_>>());
        network.run(SECOND * 20);
        for round in 0..100 {
            for node in 0..20 {
                let payment = Payment::new("load", &[genesis(20 * round + node)]);
                network.submit(node as usize, &[&payment]);
                payments.push(payment);
            }
            network.run(Duration::from_millis(5));
        }
        let refused = |network: &Network, node: usize| network.nodes[node].0.counts().refused;
        let both = [3, 7].map(|node| refused(&network, node));
        assert!(!both.contains(&0), "they have room for all: {both:?}");
        // The others go on paying, a little.
        for node in 0..20 {
            network.run(SECOND * 10);
            let payment = Payment::new("later", &[genesis(100_000 + node)]);
            network.submit(node as usize, &[&payment]);
            payments.push(payment);
        }
        network.run(SECOND * 60);
        let lacks = |node: usize| {
            let has = |of: &&Payment| network.nodes[node].1.transactions.contains(&of.id());
            payments.iter().filter(|of| !has(of)).count()
        };
        let lacking: Vec<_> = (0..20).map(lacks).collect();
        assert_eq!(lacking, [0; 20], "seed {seed}: {both:?} were refused");
    }
}

fn why(network: &Network, payment: &Payment) -> Vec<(usize, Reason)> {
    let nodes = network.nodes.iter().enumerate();
    let why = |(at, (avalanche, ledger)): (usize, &(_, _))| {
        let avalanche: &quorate_core::protocols::snow::avalanche::Avalanche<Payment> = avalanche;
        let ledger: &crate::network::Ledger = ledger;
        Some((at, avalanche.why(&payment.id(), ledger)?.reason))
    };
    nodes.filter_map(|(at, (one, other))| why((at, &(one.clone(), other.clone())))).collect()
}
