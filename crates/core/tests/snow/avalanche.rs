//! What a network of Avalanche promises, and what it does not.

use quorate_core::Duration;
use quorate_core::protocols::snow::avalanche::{Reason, Transaction as _};

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

fn why(network: &Network, payment: &Payment) -> Vec<(usize, Reason)> {
    let nodes = network.nodes.iter().enumerate();
    let why = |(at, (avalanche, ledger)): (usize, &(_, _))| {
        let avalanche: &quorate_core::protocols::snow::avalanche::Avalanche<Payment> = avalanche;
        let ledger: &crate::network::Ledger = ledger;
        Some((at, avalanche.why(&payment.id(), ledger)?.reason))
    };
    nodes.filter_map(|(at, (one, other))| why((at, &(one.clone(), other.clone())))).collect()
}
