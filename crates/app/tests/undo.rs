//! A block that is executed before it is committed, and is not: the state comes back.
#![allow(missing_docs)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::KeyValue;
use quorate_app::kv::command::encode;
use quorate_app::ordering::Ordering;
use quorate_core::ledger::state_machine::StateMachine;
use support::ops::{Op, encode_op, op};
use support::{apply_raw, chunks, encoded};

/// The outside of a state: its snapshot, and its answers to questions about some keys.
fn told(app: &dyn StateMachine) -> Vec<bytes::Bytes> {
    let mut told = chunks(&*app.snapshot());
    for number in 0..8 {
        let question = encoded(|out| encode::get(out, &support::ops::name(number)));
        told.push(app.query(&question));
        if let Some(reader) = app.reader() {
            told.push(reader.answer(&question).expect("the state is in memory"));
        }
    }
    let usage = app.usage().map_or(0, |usage| usage.used_bytes);
    told.push(usage.to_le_bytes().to_vec().into());
    told
}

fn apply(app: &mut dyn StateMachine, ops: &[Op]) -> Vec<bytes::Bytes> {
    let commands: Vec<_> = ops.iter().map(encode_op).collect();
    apply_raw(app, 1, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// While a mark stands the state is told as it was marked. Undone, it is that state; kept, it is
/// as if there had been no mark.
fn is_undone(app: &mut dyn StateMachine, plain: &mut dyn StateMachine, blocks: &[Vec<Op>; 3]) {
    let [before, lost, after] = blocks;
    apply(app, before);
    apply(plain, before);
    assert_eq!(app.root(), plain.root());
    let marked = told(app);
    for _ in 0..2 {
        assert!(app.mark(), "it can undo");
        apply(app, lost);
        assert_eq!(told(app), marked);
        app.undo();
        assert_eq!(told(app), marked);
        assert_eq!(app.root(), plain.root());
    }
    assert!(app.mark());
    let replies = apply(app, after);
    app.keep();
    assert_eq!(replies, apply(plain, after));
    assert_eq!(app.root(), plain.root());
    assert_eq!(told(app), told(plain));
}

proptest! {
    #[test]
    fn blocks_are_undone(before in vec(op(), 0..30), lost in vec(op(), 0..30), after in vec(op(), 0..30)) {
        let blocks = [before, lost, after];
        is_undone(&mut KeyValue::new(), &mut KeyValue::new(), &blocks);
        is_undone(&mut Ordering::new(), &mut Ordering::new(), &blocks);
    }
}
