//! The state machine that `quorate new` writes keeps the contract.

#[path = "../../cli/templates/service/lib.rs.in"]
#[allow(dead_code, reason = "a whole crate, of which this test uses what it needs")]
mod counters;

use counters::Counters;
use quorate_service::{Bytes, Decided, Replies, StateMachine};

fn apply(counters: &mut Counters, commands: &[&[u8]]) -> Vec<String> {
    let mut replies = Replies::default();
    let block = Decided {
        height: Default::default(),
        view: Default::default(),
        commands,
        rules: 1,
        callers: &[],
    };
    counters.apply(&block, &mut replies);
    replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect()
}

#[test]
fn it_counts_and_comes_back_from_its_snapshot() {
    let mut one = Counters::default();
    let commands: [&[u8]; 6] =
        [b"add a 2", b"add a 3", b"read a", b"add a 18446744073709551615", b"\xff", b"add  1"];
    let replies = apply(&mut one, &commands);
    assert_eq!(replies[..3], ["ok 2", "ok 5", "ok 5"]);
    assert!(replies[3..].iter().all(|reply| reply.starts_with("error: ")), "{replies:?}");
    assert_eq!(one.query(b"read a"), "ok 5");
    let mut chunks = Vec::new();
    one.snapshot().chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    let mut other = Counters::default();
    other.restore(&mut chunks.into_iter()).unwrap();
    assert_eq!(other.root(), one.root());
    assert!(other.restore(&mut [Bytes::from_static(b"nonsense")].into_iter()).is_err());
}
