//! What refusals cost those who go on sending.

use std::time::{Duration, Instant};

use quorate_transport::ConnectionId;

use crate::replica::refusals::{LONGEST, PROVEN, Payer, Refusals, UNPROVEN};

#[test]
fn an_allowance_comes_back_and_a_debt_is_the_length_of_the_pause() {
    let connection = ConnectionId(1);
    for (payer, allowance) in
        [(Payer::Proven(connection), PROVEN), (Payer::Unproven(connection), UNPROVEN)]
    {
        let mut refusals = Refusals::default();
        let begin = Instant::now();
        for _ in 0..allowance.at_once {
            assert_eq!(refusals.bill(payer, begin), None);
        }
        // One is owed, then two.
        let debt = |refusals: u64| {
            Duration::from_nanos(refusals * 1_000_000_000 / u64::from(allowance.a_second))
        };
        assert_eq!(refusals.bill(payer, begin), Some(debt(1)));
        assert_eq!(refusals.bill(payer, begin), Some(debt(2)));
        // What others send is not its business.
        assert_eq!(refusals.bill(Payer::Proven(ConnectionId(2)), begin), None);
        assert_eq!(refusals.bill(Payer::Unproven(ConnectionId(2)), begin), None);
        // When the debt is paid, it earns as many a second as before.
        let paid = begin + debt(2) + Duration::from_secs(1);
        for _ in 0..allowance.a_second {
            assert_eq!(refusals.bill(payer, paid), None);
        }
        assert_eq!(refusals.bill(payer, paid), Some(debt(1)));
        // However much it sends, it is heard again.
        for _ in 0..100_000 {
            assert!(refusals.bill(payer, paid).is_some_and(|pause| pause <= LONGEST));
        }
        assert_eq!(refusals.bill(payer, paid), Some(LONGEST));
        assert_eq!(refusals.bill(payer, paid + LONGEST + debt(2)), None);
    }
}

#[test]
fn only_those_have_an_account_who_were_refused_lately() {
    let mut refusals = Refusals::default();
    let begin = Instant::now();
    let connections = |from: u64| (from..from + 5000).map(ConnectionId);
    for connection in connections(0) {
        assert_eq!(refusals.bill(Payer::Unproven(connection), begin), None);
    }
    assert_eq!(refusals.len(), 5000, "each owes one");
    connections(0).for_each(|connection| refusals.forget(connection));
    assert_eq!(refusals.len(), 0);
    for number in 0..50_000 {
        let now = begin + Duration::from_secs(number / 100);
        assert_eq!(refusals.bill(Payer::Proven(ConnectionId(number)), now), None);
    }
    assert!(refusals.len() <= 1024, "{} owe nothing", refusals.len());
}
