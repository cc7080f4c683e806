//! Blocks in, roots and outcomes out.

use quorate_core::client::message::Outcome;
use quorate_core::ledger::execution::{Execution, ExecutionError, ROOT_WINDOW, command_digest};
use quorate_core::ledger::sessions::{Limits, ReplyCountError};
use quorate_core::ledger::state_machine::{
    MAX_BLOCK_REPLY_BYTES, MAX_COMMAND_REPLY_BYTES, Replies,
};
use quorate_core::{Digest, Height, Sequence, SessionId, View};

use crate::fixtures::*;

#[test]
fn the_root_of_a_known_history_never_changes() {
    let mut state = state(Limits::default());
    assert_eq!(
        state.state_root().to_string(),
        "a6db8b6221f4f01e9ba4a45462525971db701dc3c957cbddc324381980623ff6"
    );
    execute(&mut state, &[open(1, 1), open(2, 3)]);
    execute(&mut state, &[frame(1, 1, 1, &["set a 1", "get a"]), frame(2, 2, 4, &["waits"])]);
    assert_eq!(
        state.state_root().to_string(),
        "67d78552d1b5aacfa380a65bf57605fe0c19ca54ee8208124a2a16fba84aaa74"
    );
}

#[test]
fn the_root_covers_height_block_and_application() {
    let mut plain = state(Limits::default());
    let genesis = Execution::new(Journal::default(), Limits::default(), Digest([2; 32]));
    assert_ne!(plain.state_root(), genesis.expect("limits of use").state_root());
    let before = plain.state_root();
    assert_ne!(execute(&mut plain, &[]).root, before, "a block without frames");

    let mut other = Journal::default();
    other.commands.push(b"x".to_vec());
    let other = Execution::new(other, Limits::default(), GENESIS).expect("limits of use");
    assert_ne!(other.state_root(), before);
}

#[test]
fn a_wrong_number_of_replies_halts_for_good() {
    for miscount in [-1, 1] {
        let journal = Journal { miscount, ..Journal::default() };
        let mut state = Execution::new(journal, Limits::default(), GENESIS).expect("limits of use");
        let frames = [open(1, 1), frame(1, 1, 1, &["a", "b"])];
        let root = state.state_root();
        let source =
            ReplyCountError { commands: 2, replies: 2usize.saturating_add_signed(miscount.into()) };
        let error = ExecutionError::ReplyCount { height: Height(1), source };
        let result = state.execute(Height(1), View(1), Digest([3; 32]), &frames);
        assert_eq!(result, Err(error.clone()));
        let again = state.execute(Height(1), View(1), Digest([3; 32]), &[]);
        assert_eq!(again, Err(error));
        assert_eq!((state.height(), state.state_root()), (Height(0), root));
    }
}

/// The command is named by the session and number that its client gave it, commands that were left
/// out or executed before included; nothing executes after it.
#[test]
fn a_panic_names_its_command_and_is_final() {
    let skip = |commands: &[&[u8]]| commands.iter().map(|one| command_digest(one)).collect();
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1), open(2, 1), frame(1, 1, 1, &["a", "b"])]);
    state.skip(skip(&[b"left out"]));
    let root = state.state_root();
    let frames = [
        frame(1, 1, 2, &["b", "left out", "c"]),
        frame(2, 2, 1, &["left out", "d", "left out", "poison", "left out"]),
    ];
    let result = state.execute(Height(2), View(2), Digest([3; 32]), &frames);
    let Err(ExecutionError::Panicked { height, at: Some(at), message }) = &result else {
        panic!("{result:?}")
    };
    let expected = (SessionId(2), Sequence(4), command_digest(b"poison"));
    assert_eq!(
        (*height, at.session, at.number, at.digest),
        (Height(2), expected.0, expected.1, expected.2)
    );
    assert!(message.contains("not digested"), "{message}");
    let said = result.as_ref().unwrap_err().to_string();
    assert!(said.contains("height 2, on command 4 of session 2, digest "), "{said}");
    assert_eq!(state.execute(Height(2), View(2), Digest([3; 32]), &[]), result);
    assert_eq!((state.height(), state.state_root()), (Height(1), root));
}

#[test]
fn a_skipped_command_has_the_empty_reply_and_does_nothing() {
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1)]);
    state.skip([command_digest(b"poison")].into());
    let frames = [frame(1, 1, 1, &["poison", "a", "poison", "b", "poison"])];
    let [Outcome::Executed { replies, count: 5, .. }] = &outcomes(&mut state, &frames)[..] else {
        panic!("five commands")
    };
    let (a, b) = (journal_reply(0, b"a"), journal_reply(1, b"b"));
    let mut expected = Replies::default();
    [&b""[..], &a, b"", &b, b""].iter().for_each(|reply| expected.push(reply));
    assert_eq!(replies, expected.body());
    assert_eq!(state.application().commands, [b"a", b"b"]);
}

#[test]
fn blocks_execute_once_and_without_gaps() {
    let mut state = state(Limits::default());
    execute(&mut state, &[]);
    for found in [Height(0), Height(1), Height(3)] {
        let result = state.execute(found, View(9), Digest([3; 32]), &[]);
        assert_eq!(result, Err(ExecutionError::Height { expected: Height(2), found }));
    }
    assert_eq!(execute(&mut state, &[]).height, Height(2));
}

#[test]
fn the_latest_roots_are_kept() {
    let mut state = state(Limits::default());
    let mut roots = vec![state.state_root()];
    for _ in 0..ROOT_WINDOW + 10 {
        roots.push(execute(&mut state, &[]).root);
    }
    let oldest = state.height().0 - ROOT_WINDOW as u64 + 1;
    for (height, root) in (0..).zip(roots) {
        let expected = (height >= oldest).then_some(root);
        assert_eq!(state.root_at(Height(height)), expected, "height {height}");
    }
    assert_eq!(state.root_at(state.height().next()), None);
    assert_eq!(state.root_at(Height(u64::MAX)), None);
}

#[test]
fn a_query_reads_the_latest_state() {
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1), frame(1, 1, 1, &["a", "b"])]);
    assert_eq!(&state.query(b"count")[..], b"count of 2");
}

/// As a panic is: the command is named, nothing executes after it, and it can be left out.
#[test]
fn a_reply_that_is_too_long_names_its_command_and_is_final() {
    let longest = format!("big {}", MAX_COMMAND_REPLY_BYTES - 8 - 11);
    let longer = format!("big {}", MAX_COMMAND_REPLY_BYTES - 8 - 10);
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1), frame(1, 1, 1, &["a", &longest])]);
    let frames = [frame(1, 1, 3, &["b", &longer, "c", &longer])];
    let result = state.execute(Height(2), View(2), Digest([3; 32]), &frames);
    let Err(ExecutionError::ReplyTooLong { height: Height(2), at: Some(at), bytes }) = &result
    else {
        panic!("{result:?}")
    };
    assert_eq!((at.session, at.number), (SessionId(1), Sequence(4)));
    assert_eq!(at.digest, command_digest(longer.as_bytes()));
    assert_eq!(*bytes, MAX_COMMAND_REPLY_BYTES + 1);
    let said = result.as_ref().unwrap_err().to_string();
    assert!(said.contains("height 2, to command 4 of session 1, digest "), "{said}");
    assert_eq!(state.execute(Height(2), View(2), Digest([3; 32]), &[]), result);

    let mut other = crate::fixtures::state(Limits::default());
    other.skip([command_digest(longer.as_bytes())].into());
    execute(&mut other, &[open(1, 1), frame(1, 1, 1, &["a", &longest])]);
    let [Outcome::Executed { count: 4, .. }] = &outcomes(&mut other, &frames)[..] else {
        panic!("four commands")
    };
}

/// Many replies may not come to more than a block may have, however short each is.
#[test]
fn the_replies_to_a_block_are_bounded() {
    let mut replies = Replies::default();
    assert_eq!(replies.room(), MAX_COMMAND_REPLY_BYTES);
    let most = MAX_BLOCK_REPLY_BYTES / MAX_COMMAND_REPLY_BYTES;
    let long = vec![0; MAX_COMMAND_REPLY_BYTES];
    (1..most).for_each(|_| replies.push(&long));
    // Of the last one, each reply's length is left away.
    assert_eq!(replies.room(), MAX_COMMAND_REPLY_BYTES - 4 * most);
    replies.push(&long);
    assert_eq!(replies.iter().last(), Some(&b""[..]), "it is not kept");
    replies.push(&long[..replies.room()]);
    assert_eq!((replies.body().len() + 4, replies.room()), (MAX_BLOCK_REPLY_BYTES + 4, 0));
}
