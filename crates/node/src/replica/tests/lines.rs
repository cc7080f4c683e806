//! Who is served next, and who gives way.

use bytes::Bytes;
use quorate_transport::ConnectionId;

use crate::replica::inbox::Question;
use crate::replica::lines::{Lines, MAX_WAITING, MAX_WAITING_BYTES, MAX_WAITING_OF_ONE};

fn question(connection: u64, id: u64, bytes: usize) -> Question {
    let (connection, bytes) = (ConnectionId(connection), Bytes::from(vec![0; bytes]));
    Question { connection, id, bytes, packed: None }
}

/// Serves up to `count` questions, each of a connection's cost; says of which connections they
/// were.
fn serve(lines: &mut Lines, count: usize, cost: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut served = Vec::new();
    while served.len() < count
        && let Some(Question { connection, .. }) = lines.pop()
    {
        lines.charge(connection, cost(connection.0));
        served.push(connection.0);
    }
    served
}

#[test]
fn nobody_waits_behind_a_client_that_asks_much() {
    let mut lines = Lines::default();
    for id in 0..30 {
        assert!(lines.push(question(1, id, 10)).is_empty());
    }
    assert_eq!(serve(&mut lines, 5, |_| 1000), [1; 5]);
    // Whoever comes now is behind one question of it at most, however many it asks that cost
    // little.
    for id in 0..10 {
        assert!(lines.push(question(2, id, 10)).is_empty());
    }
    let served = serve(&mut lines, 11, |of| if of == 1 { 1000 } else { 1 });
    assert!(served.iter().filter(|of| **of == 1).count() <= 1, "{served:?}");
}

#[test]
fn two_that_always_ask_get_the_same_share() {
    let mut lines = Lines::default();
    let mut shares = [0u64; 2];
    for round in 0..1000 {
        for of in 0..2 {
            lines.push(question(of, round, 1));
        }
        let Some(Question { connection, .. }) = lines.pop() else { panic!("they wait") };
        let cost = if connection.0 == 0 { 100 } else { 7 };
        lines.charge(connection, cost);
        shares[connection.0 as usize] += cost;
    }
    assert!(shares[0].abs_diff(shares[1]) <= 100, "{shares:?}");
}

/// A client that comes back has not saved up what it did not ask.
#[test]
fn who_was_away_gets_no_more_than_its_share_afterwards() {
    let mut lines = Lines::default();
    for id in 0..30 {
        lines.push(question(1, id, 1));
    }
    lines.push(question(2, 0, 1));
    serve(&mut lines, 20, |_| 10);
    for id in 0..10 {
        lines.push(question(2, id, 1));
    }
    let served = serve(&mut lines, 10, |_| 10);
    assert!(served.iter().filter(|of| **of == 1).count() >= 4, "{served:?}");
}

#[test]
fn one_client_has_few_questions_waiting_and_the_longest_line_gives_way() {
    let mut lines = Lines::default();
    for id in 0..MAX_WAITING_OF_ONE as u64 {
        assert!(lines.push(question(0, id, 1)).is_empty());
    }
    let refused = lines.push(question(0, 99, 1));
    assert!(matches!(refused[..], [Question { id: 99, .. }]));
    let full = (MAX_WAITING / MAX_WAITING_OF_ONE) as u64;
    for of in 1..full {
        for id in 0..MAX_WAITING_OF_ONE as u64 {
            assert!(lines.push(question(of, id, 1)).is_empty());
        }
    }
    for newcomer in full..full + 100 {
        let left_out = lines.push(question(newcomer, 0, 1));
        assert!(matches!(left_out[..], [Question { connection, .. }] if connection.0 < full));
    }
    let mut waiting = 0;
    while lines.pop().is_some() {
        waiting += 1;
    }
    assert_eq!(waiting, MAX_WAITING);
}

#[test]
fn the_bytes_that_wait_are_bounded_and_given_back() {
    let mut lines = Lines::default();
    for _ in 0..3 {
        // A quarter each: the fifth has one of the others give way.
        for of in 0..4 {
            assert!(lines.push(question(of, 0, MAX_WAITING_BYTES / 4)).is_empty());
        }
        assert_eq!(lines.push(question(4, 0, 1)).len(), 1);
        assert_eq!(lines.push(question(5, 0, MAX_WAITING_BYTES + 1)).len(), 1);
        for of in 0..6 {
            lines.forget(ConnectionId(of));
        }
        assert!(lines.is_empty() && lines.pop().is_none());
    }
}
