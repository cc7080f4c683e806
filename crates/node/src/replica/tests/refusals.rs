//! What refusals cost those who go on sending.

use std::time::{Duration, Instant};

use quorate_core::base::crypto::PublicKey;
use quorate_transport::ConnectionId;

use crate::replica::refusals::{A_SECOND, AT_ONCE, LONGEST, Payer, Refusals};

const CLIENT: Payer = Payer::Key(PublicKey([1; 32]));

#[test]
fn an_allowance_comes_back_and_a_debt_is_the_length_of_the_pause() {
    let mut refusals = Refusals::default();
    let begin = Instant::now();
    let at = |millis| begin + Duration::from_millis(millis);
    for _ in 0..AT_ONCE {
        assert_eq!(refusals.bill(CLIENT, at(0)), None);
    }
    // One is owed, then two.
    let one = Duration::from_secs(1) / A_SECOND;
    assert_eq!(refusals.bill(CLIENT, at(0)), Some(one));
    assert_eq!(refusals.bill(CLIENT, at(0)), Some(2 * one));
    // What others send is not its business.
    assert_eq!(refusals.bill(Payer::Key(PublicKey([2; 32])), at(0)), None);
    assert_eq!(refusals.bill(Payer::Connection(ConnectionId(1)), at(0)), None);
    // The debt is paid after a sixteenth of a second; in a second more it earns as many.
    let paid = begin + 2 * one + Duration::from_secs(1);
    for _ in 0..A_SECOND {
        assert_eq!(refusals.bill(CLIENT, paid), None);
    }
    assert_eq!(refusals.bill(CLIENT, paid), Some(one));
    // However much it sends, it is heard again.
    for _ in 0..100_000 {
        assert!(refusals.bill(CLIENT, paid).is_some_and(|pause| pause <= LONGEST));
    }
    assert_eq!(refusals.bill(CLIENT, paid), Some(LONGEST));
    let over = paid + LONGEST + one;
    assert_eq!(refusals.bill(CLIENT, over), None);
}

#[test]
fn only_those_have_an_account_who_were_refused_lately() {
    let mut refusals = Refusals::default();
    let begin = Instant::now();
    let connections = |from: u64| (from..from + 5000).map(ConnectionId);
    for connection in connections(0) {
        assert_eq!(refusals.bill(Payer::Connection(connection), begin), None);
    }
    assert_eq!(refusals.len(), 5000, "each owes one");
    connections(0).for_each(|connection| refusals.forget(connection));
    assert_eq!(refusals.len(), 0);
    let key = |number: u64| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        Payer::Key(PublicKey(key))
    };
    for number in 0..50_000 {
        let now = begin + Duration::from_secs(number / 100);
        assert_eq!(refusals.bill(key(number), now), None);
    }
    assert!(refusals.len() <= 1024, "{} owe nothing", refusals.len());
}
