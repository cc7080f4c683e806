//! An application that is watched can do all that it could do before.

use quorate_app::kv::command::encode;
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::ledger::state_machine::{Decided, Replies, StateMachine};
use quorate_core::{Height, View};

use crate::replica::watch::Watched;

/// Sets a key, as the only command of the block at this height.
fn apply(application: &mut impl StateMachine, height: u64) {
    let mut command = Vec::new();
    encode::set(&mut command, b"key", &height.to_le_bytes(), Condition::Always, false);
    let (commands, height) = ([&command[..]], Height(height));
    let block = Decided { height, view: View(0), rules: 1, commands: &commands, callers: &[] };
    application.apply(&block, &mut Replies::default());
}

/// A method that is not handed on has the trait's default, and nobody would notice: replicas that
/// are to answer tentatively never did.
#[test]
fn a_block_is_undone_and_kept() {
    let mut watched = Watched::new(KeyValue::new(), Default::default());
    apply(&mut watched, 1);
    let before = watched.root();
    assert!(watched.mark(), "its state can be marked");
    apply(&mut watched, 2);
    watched.undo();
    assert_eq!(watched.root(), before);
    assert!(watched.mark());
    apply(&mut watched, 2);
    watched.keep();
    assert_ne!(watched.root(), before);
}

#[test]
fn it_is_read_proven_and_restored() {
    let mut watched = Watched::new(KeyValue::new(), Default::default());
    apply(&mut watched, 1);
    watched.root();
    assert!(watched.reader().is_some() && watched.prover().is_some());
    assert!(watched.usage().is_some());
    assert_eq!(watched.restorer().is_some(), KeyValue::new().restorer().is_some());
    assert_eq!(watched.newest_rules(), KeyValue::new().newest_rules());
}
