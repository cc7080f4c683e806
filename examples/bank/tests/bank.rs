//! The bank by itself.

use bank::{Bank, MAX_NAME_BYTES};
use quorate_service::{Bytes, Decided, Replies, StateMachine};

fn apply(bank: &mut Bank, commands: &[&str]) -> Vec<String> {
    let commands: Vec<&[u8]> = commands.iter().map(|line| line.as_bytes()).collect();
    let mut replies = Replies::default();
    let block = Decided {
        height: Default::default(),
        view: Default::default(),
        commands: &commands,
        rules: 1,
        callers: &[],
    };
    bank.apply(&block, &mut replies);
    replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect()
}

#[test]
fn money_moves_or_stays() {
    let mut bank = Bank::new(100);
    let replies = apply(
        &mut bank,
        &["open ann", "open bob", "open ann", "transfer ann bob 30", "transfer ann bob 71"],
    );
    let taken = "error: there is such an account already";
    assert_eq!(replies, ["ok 100", "ok 100", taken, "ok 70", "error: too little is left"]);
    let replies = apply(
        &mut bank,
        &["transfer ann eve 1", "transfer bob bob 130", "balance ann", "balance bob", "total", "?"],
    );
    let none = "error: there is no such account";
    let unknown = "error: expected open, transfer, balance or total";
    assert_eq!(replies, [none, "ok 130", "ok 70", "ok 130", "ok 200", unknown]);
    assert_eq!(bank.query(b"balance bob"), "ok 130");
    assert_eq!(bank.query(b"open eve"), unknown, "a question changes nothing");
}

#[test]
fn names_are_bounded() {
    let mut bank = Bank::new(1);
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for name in ["", "a b", "a\nb", "\u{e4}", &long] {
        assert!(bank.open(name).is_err(), "{name:?}");
    }
    assert!(bank.open(&long[1..]).is_ok());
}

#[test]
fn a_snapshot_is_the_whole_state() {
    let mut bank = Bank::new(7);
    for account in 0..5000 {
        bank.open(&format!("account-{account}")).unwrap();
    }
    bank.transfer("account-1", "account-2", 7).unwrap();
    let mut chunks = Vec::new();
    let frozen = bank.snapshot();
    let root = bank.root();
    bank.transfer("account-2", "account-3", 14).unwrap();
    frozen.chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    assert!(chunks.len() > 1);
    let mut restored = Bank::new(7);
    restored.restore(&mut chunks.clone().into_iter()).unwrap();
    assert_eq!(restored.root(), root);
    assert_ne!(bank.root(), root, "what came later is not in it");
    chunks[1] = Bytes::from_static(b"account-1 none\n");
    assert_eq!(restored.restore(&mut chunks.into_iter()).unwrap_err().chunk, 1);
}
