//! What the tests of the store share: owned replies, and one command at a time.
#![allow(dead_code, missing_docs)]

pub mod folders;
pub mod ops;

use bytes::Bytes;
use quorate_app::kv::{ErrorKind, Reply};
use quorate_core::ledger::state_machine::{Decided, Replies, Snapshot, StateMachine};
use quorate_core::{Height, View};

/// A [`Reply`] that owns what it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owned {
    Empty,
    Ok,
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Owned>),
    Status(String),
    Error(String),
}

pub fn owned(reply: &Reply<'_>) -> Owned {
    match reply {
        Reply::Empty => Owned::Empty,
        Reply::Ok => Owned::Ok,
        Reply::Integer(number) => Owned::Integer(*number),
        Reply::Bulk(bytes) => Owned::Bulk(bytes.to_vec()),
        Reply::Nil => Owned::Nil,
        Reply::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| owned(&item)).collect();
            Owned::Array(items)
        }
        Reply::Status(word) => Owned::Status((*word).to_owned()),
        Reply::Error(kind, message) => error(*kind, message),
    }
}

pub fn error(kind: ErrorKind, message: &str) -> Owned {
    Owned::Error(format!("{} {message}", kind.word()))
}

pub fn wrong_type() -> Owned {
    error(ErrorKind::WrongType, "Operation against a key holding the wrong kind of value")
}

pub fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Applies a block and gives the replies as they are.
pub fn apply_raw(app: &mut dyn StateMachine, height: u64, commands: &[&[u8]]) -> Vec<Bytes> {
    let mut replies = Replies::default();
    let block =
        Decided { height: Height(height), view: View(height), commands, rules: 1, callers: &[] };
    app.apply(&block, &mut replies);
    let list: Vec<Bytes> = replies.iter().map(Bytes::copy_from_slice).collect();
    assert_eq!(list.len(), commands.len(), "one reply for each command");
    list
}

/// Of blocks that a test does not count: above all that it does.
const SOME_HEIGHT: u64 = 1 << 40;

pub fn apply(store: &mut dyn StateMachine, commands: &[&[u8]]) -> Vec<Owned> {
    let replies = apply_raw(store, SOME_HEIGHT, commands);
    replies.iter().map(|reply| owned(&Reply::decode(reply).expect("a reply"))).collect()
}

pub fn one(store: &mut dyn StateMachine, write: impl FnOnce(&mut Vec<u8>)) -> Owned {
    apply(store, &[&encoded(write)]).remove(0)
}

/// The root of the map alone: the same for equal content, however it came about.
pub fn map_root(store: &dyn StateMachine) -> Bytes {
    store.prover().expect("it makes proofs").prove(b"").expect("a proof").slice(..32)
}

pub fn chunks(snapshot: &dyn Snapshot) -> Vec<Bytes> {
    let mut list = Vec::new();
    snapshot.chunks(&mut |chunk| {
        list.push(Bytes::copy_from_slice(chunk));
        true
    });
    list
}
