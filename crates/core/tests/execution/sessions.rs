//! The session table: examples of each rule, and random histories against the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quorate_core::client::message::{MAX_REPLY_BYTES, Outcome, Rejection};
use quorate_core::ledger::frame::{MAX_COMMANDS, SharedFrame};
use quorate_core::ledger::sessions::{Limits, Sessions, Standing};
use quorate_core::ledger::state_machine::{Replies, Snapshot};
use quorate_core::{Height, Sequence, SessionId};

use crate::fixtures::*;
use crate::model::Model;

#[test]
fn sessions_are_numbered_and_an_incarnation_counts_once() {
    let mut state = state(Limits::default());
    let told = outcomes(&mut state, &[open(1, 5), open(2, 1), open(1, 5), open(1, 4)]);
    assert_eq!(told, [opened(5, 1), opened(1, 2), opened(5, 1), opened(5, 1)]);
    assert_eq!(state.sessions().answer(&open(1, 5)), Some(opened(5, 1)));
    assert_eq!(state.sessions().answer(&open(1, 4)), Some(opened(5, 1)));
    assert_eq!(state.sessions().answer(&open(1, 6)), None);
}

#[test]
fn a_higher_incarnation_ends_the_session_but_not_what_it_did_in_the_same_block() {
    let mut state = state(Limits::default());
    outcomes(&mut state, &[open(1, 1)]);
    let first = frame(1, 1, 1, &["a", "b"]);
    let waiting = frame(1, 1, 9, &["j"]);
    let blocks = [waiting, first.clone(), first.clone(), open(1, 2), first.clone()];
    let told = outcomes(&mut state, &blocks);
    assert_eq!(
        told,
        [
            executed(1, 1, 0, &["a", "b"]),
            executed(1, 1, 0, &["a", "b"]),
            rejected(1, 9, Rejection::UnknownSession),
            opened(2, 2),
            rejected(1, 1, Rejection::UnknownSession),
        ]
    );
    assert_eq!(
        state.sessions().answer(&first),
        Some(rejected(1, 1, Rejection::UnknownSession)),
        "numbers are not used again"
    );
}

#[test]
fn only_the_session_idle_longest_expires_and_a_replay_keeps_none_alive() {
    let limits = Limits { max_sessions: 2, min_idle_blocks: 3, ..Limits::default() };
    let mut state = state(limits);
    let done = frame(1, 1, 1, &["a"]);
    outcomes(&mut state, &[open(1, 1), open(2, 1), done.clone()]);
    outcomes(&mut state, &[frame(2, 2, 1, &["b"])]);
    let full = rejected(0, 1, Rejection::TooManySessions);
    // Session 1 has been idle for two blocks.
    let told = outcomes(&mut state, &[open(3, 1), done, open(1, 1), frame(2, 2, 2, &["c"])]);
    let busy = executed(2, 2, 2, &["c"]);
    assert_eq!(told, [full.clone(), executed(1, 1, 0, &["a"]), opened(1, 1), busy]);
    assert_eq!(outcomes(&mut state, &[open(3, 1), open(4, 1)]), [opened(1, 3), full]);
    assert_eq!(state.sessions().next_number(SessionId(1)), None);
    assert_eq!(state.sessions().next_number(SessionId(2)), Some(Sequence(3)));
}

/// Of an idle cluster nobody but newcomers makes blocks: a table full of the dead once stayed full.
#[test]
fn who_knocks_long_enough_takes_the_place_of_the_idle_and_not_of_the_active() {
    let limits = Limits { max_sessions: 2, min_idle_blocks: 1_000, ..Limits::default() };
    let mut state = state(limits);
    outcomes(&mut state, &[open(1, 1), open(2, 1)]);
    let full = |incarnation| rejected(0, incarnation, Rejection::TooManySessions);
    for times in 1..=8 {
        // Asking often in one block helps nobody.
        let block = [open(3, times), open(4, times), frame(2, 2, times, &["busy"])];
        let told = outcomes(&mut state, &block);
        assert_eq!(told[..2], [full(times), full(times)]);
    }
    let told = outcomes(&mut state, &[open(3, 9), frame(2, 2, 9, &["busy"]), open(4, 9)]);
    assert_eq!(told[0], opened(9, 3));
    assert_eq!(told[2], full(9), "each newcomer waits in its turn");
    assert_eq!(state.sessions().next_number(SessionId(1)), None);
    assert_eq!(state.sessions().next_number(SessionId(2)), Some(Sequence(10)));
}

/// A flood that makes eight blocks turn newcomers away drives out one session, not all idle ones.
#[test]
fn a_flood_of_newcomers_drives_out_one_session_in_eight_blocks() {
    let limits = Limits { max_sessions: 20, min_idle_blocks: 1_000, ..Limits::default() };
    let mut state = state(limits);
    let honest: Vec<_> = (1..=20).map(|key| open(key, 1)).collect();
    outcomes(&mut state, &honest);
    for times in 1..=8 {
        outcomes(&mut state, &[open(99, times)]);
    }
    let flood: Vec<_> = (100..140).map(|key| open(key, 1)).collect();
    let told = outcomes(&mut state, &flood);
    let opened = told.iter().filter(|outcome| matches!(outcome, Outcome::Opened { .. })).count();
    assert_eq!(opened, 1);
}

#[test]
fn a_gap_closes_in_the_block_of_the_frame_that_closes_it() {
    let mut state = state(Limits::default());
    let (third, second) = (frame(1, 1, 4, &["d"]), frame(1, 1, 2, &["b", "c"]));
    let told = outcomes(&mut state, &[open(1, 1), third.clone(), second, third.clone()]);
    assert_eq!(told, [opened(1, 1)]);
    assert_eq!(state.sessions().standing(&third), Standing::Waiting);
    assert_eq!(state.sessions().answer(&third), None);
    let result = execute(&mut state, &[frame(1, 1, 1, &["a"])]);
    let told: Vec<_> = result.outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(
        told,
        [executed(1, 1, 0, &["a"]), executed(1, 2, 1, &["b", "c"]), executed(1, 4, 3, &["d"])]
    );
    assert_eq!(result.commands, 4);
    assert_eq!(state.application().commands, [b"a", b"b", b"c", b"d"]);
}

#[test]
fn other_framings_of_the_same_commands_execute_the_new_ones_alone() {
    let mut state = state(Limits::default());
    outcomes(&mut state, &[open(1, 1), frame(1, 1, 1, &["a", "b"]), frame(1, 1, 3, &["c"])]);
    let told = outcomes(
        &mut state,
        &[
            frame(1, 1, 2, &["b", "c", "d"]),
            frame(1, 1, 1, &["a", "b", "c"]),
            frame(1, 1, 2, &["b"]),
        ],
    );
    assert_eq!(
        told,
        [
            executed(1, 2, 1, &["b", "c", "d"]),
            executed(1, 1, 0, &["a", "b", "c"]),
            executed(1, 2, 1, &["b"])
        ]
    );
    assert_eq!(state.application().commands.len(), 4);
}

#[test]
fn a_key_reaches_no_session_but_its_own() {
    let mut state = state(Limits::default());
    let foreign = frame(2, 1, 1, &["x"]);
    let told = outcomes(&mut state, &[open(1, 1), foreign.clone(), frame(1, 2, 1, &["y"])]);
    let verdict = rejected(1, 1, Rejection::ForeignSession);
    assert_eq!(told, [opened(1, 1), verdict.clone(), rejected(2, 1, Rejection::UnknownSession)]);
    assert_eq!(state.sessions().answer(&foreign), Some(verdict));
    // This replica may only be behind: session 2 could be open elsewhere.
    assert_eq!(state.sessions().standing(&frame(1, 2, 1, &["y"])), Standing::New);
    assert!(state.application().commands.is_empty());
}

#[test]
fn the_window_is_bounded_by_frames_bytes_and_distance() {
    let limits = Limits { window_frames: 2, window_commands: 10, ..Limits::default() };
    let mut state = self::state(limits);
    let frames = [open(1, 1), frame(1, 1, 11, &["far"]), frame(1, 1, 10, &["near"])];
    let beyond = |first| rejected(1, first, Rejection::BeyondWindow);
    assert_eq!(outcomes(&mut state, &frames), [opened(1, 1), beyond(11)]);
    let frames = [frame(1, 1, 3, &["c"]), frame(1, 1, 4, &["d"])];
    assert_eq!(outcomes(&mut state, &frames), [beyond(4)], "two wait already");

    let bytes = frame(1, 1, 3, &["c"]).encoded_bytes().len() as u32;
    let mut state = self::state(Limits { window_bytes: bytes, ..limits });
    let frames = [open(1, 1), frame(1, 1, 3, &["cc"]), frame(1, 1, 3, &["c"])];
    assert_eq!(outcomes(&mut state, &frames), [opened(1, 1), beyond(3)]);
    assert_eq!(state.sessions().standing(&frame(1, 1, 3, &["c"])), Standing::Waiting);
}

#[test]
fn answers_are_forgotten_by_commands_and_by_bytes() {
    let limits = Limits { answer_commands: MAX_COMMANDS as u32, ..Limits::default() };
    let mut state = self::state(limits);
    let many = signed_frame(1, 1, 2, &vec![b"m".to_vec(); MAX_COMMANDS], 0);
    let told = outcomes(&mut state, &[open(1, 1), frame(1, 1, 1, &["a"]), many.clone()]);
    assert_eq!(told.len(), 3);
    let forgotten = Some(rejected(1, 1, Rejection::AnswerForgotten));
    assert_eq!(state.sessions().answer(&frame(1, 1, 1, &["a"])), forgotten);
    assert_eq!(state.sessions().answer(&many).as_ref(), told.last());
    // What is left of a frame whose first answer is gone.
    let partly = state.sessions().answer(&frame(1, 1, 1, &["a", "m", "m"]));
    assert_eq!(partly, Some(executed(1, 2, 1, &["m", "m"])));

    let mut state = self::state(Limits { answer_bytes: 1000, ..Limits::default() });
    let told = outcomes(&mut state, &[open(1, 1), frame(1, 1, 1, &["big 1000"])]);
    assert_eq!(told[1], executed(1, 1, 0, &["big 1000"]), "answered, if not kept");
    assert_eq!(state.sessions().answer(&frame(1, 1, 1, &["big 1000"])), forgotten);
}

#[test]
fn replies_too_large_for_one_outcome_are_not_sent() {
    let limits = Limits { answer_bytes: u32::MAX, ..Limits::default() };
    let mut state = state(limits);
    let third = format!("big {}", MAX_REPLY_BYTES / 3);
    let third = third.as_str();
    let frames =
        [open(1, 1), frame(1, 1, 1, &[third, third, third]), frame(1, 1, 4, &[third, third])];
    let told = outcomes(&mut state, &frames);
    assert_eq!(told[1], rejected(1, 1, Rejection::AnswerForgotten));
    assert_eq!(told[2], executed(1, 4, 3, &[third, third]));
    let again = state.sessions().answer(&frame(1, 1, 3, &[third, third, third]));
    assert_eq!(again, Some(executed(1, 4, 3, &[third, third])), "the last that fit");
}

#[test]
fn the_limits_name_what_is_wrong_with_them() {
    let limits = Limits { min_idle_blocks: 0, ..Limits::default() };
    let error = Sessions::new(limits).expect_err("sessions would expire at once");
    assert_eq!(error.to_string(), "sessions.min_idle_blocks must be at least 1");
    let limits = Limits { answer_commands: 1, ..Limits::default() };
    assert_eq!(Sessions::new(limits).expect_err("too few").field, "answer_commands");
}

#[test]
fn the_root_tells_states_apart_and_the_digest_covers_the_replies() {
    let settled = |reply: &[u8], frames: &[SharedFrame]| {
        let mut sessions = Sessions::new(Limits::default()).expect("limits of use");
        let plan = sessions.plan(Height(1), frames);
        let mut replies = Replies::default();
        (0..plan.command_count()).for_each(|_| replies.push(reply));
        sessions.settle(plan, &replies).expect("as many replies");
        sessions.root()
    };
    let base = [open(1, 1), frame(1, 1, 1, &["a"])];
    let waiting = [open(1, 1), frame(1, 1, 1, &["a"]), frame(1, 1, 5, &["e"])];
    let others = [
        settled(b"yes", &base),
        settled(b"no", &base),
        settled(b"yes", &waiting),
        settled(b"yes", &[open(1, 2), frame(1, 1, 1, &["a"])]),
        settled(b"yes", &[open(1, 1), open(1, 2)]),
        settled(b"yes", &[open(1, 2)]),
        settled(b"yes", &[]),
    ];
    for (i, one) in others.iter().enumerate() {
        assert!(others[..i].iter().all(|other| other != one), "root {i}");
    }
    assert_eq!(settled(b"yes", &base), settled(b"yes", &base));
}

/// One frame of a random history, relative to what its client believes.
#[derive(Clone, Debug)]
enum Move {
    Open {
        newer: u8,
    },
    Next {
        count: u64,
        salt: u8,
    },
    Overlap {
        back: u64,
        count: u64,
    },
    Gap {
        ahead: u64,
        count: u64,
        salt: u8,
    },
    Again {
        which: prop::sample::Index,
    },
    Foreign,
    /// Goes on from where the session stands.
    Resume,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => (0..3u8).prop_map(|newer| Move::Open { newer }),
        6 => (1..5u64, 0..2u8).prop_map(|(count, salt)| Move::Next { count, salt }),
        2 => (1..6u64, 1..8u64).prop_map(|(back, count)| Move::Overlap { back, count }),
        4 => (1..6u64, 1..5u64, 0..2u8)
            .prop_map(|(ahead, count, salt)| Move::Gap { ahead, count, salt }),
        4 => any::<prop::sample::Index>().prop_map(|which| Move::Again { which }),
        1 => Just(Move::Foreign),
        2 => Just(Move::Resume),
    ]
}

#[derive(Default)]
struct Client {
    session: u64,
    incarnation: u64,
    next: u64,
    sent: Vec<[SharedFrame; 2]>,
}

impl Client {
    /// The frame of a move, under two signatures.
    fn frames(
        &mut self,
        id: u8,
        step: &Move,
        stands_at: Option<Sequence>,
    ) -> Option<[SharedFrame; 2]> {
        let (first, count, salt) = match *step {
            Move::Open { newer } => {
                let incarnation = (self.incarnation + u64::from(newer)).saturating_sub(1).max(1);
                return Some([open(id, incarnation), open(id, incarnation)]);
            }
            Move::Next { count, salt } => (self.next, count, salt),
            Move::Overlap { back, count } => (self.next.saturating_sub(back), count, 0),
            Move::Gap { ahead, count, salt } => (self.next + ahead, count, salt),
            Move::Again { ref which } => {
                return (!self.sent.is_empty()).then(|| which.get(&self.sent).clone());
            }
            Move::Foreign => (1, 1, 9),
            Move::Resume => {
                self.next = stands_at?.0;
                return None;
            }
        };
        let session = if matches!(step, Move::Foreign) { self.session + 1 } else { self.session };
        let first = first.max(1);
        if session == 0 {
            return None;
        }
        if matches!(step, Move::Next { .. } | Move::Overlap { .. }) {
            self.next = self.next.max(first + count);
        }
        let commands: Vec<_> = (first..first + count)
            .map(|number| format!("{session}:{number}:{salt}").into_bytes())
            .collect();
        let frames = [0, 1].map(|signature| signed_frame(id, session, first, &commands, signature));
        self.sent.push(frames.clone());
        Some(frames)
    }
}

fn tight() -> Limits {
    Limits {
        max_sessions: 3,
        min_idle_blocks: 4,
        answer_commands: MAX_COMMANDS as u32,
        answer_bytes: 800,
        window_frames: 3,
        window_commands: 9,
        window_bytes: 500,
    }
}

/// Every (session, number) executed once and in order; and no reply but the first was ever told.
#[derive(Default)]
struct Witness {
    told: BTreeMap<(u64, u64), Vec<u8>>,
}

impl Witness {
    fn hear(&mut self, outcome: &Outcome) {
        let Outcome::Executed { session, first, count, replies } = outcome else { return };
        let mut rest = &replies[..];
        for number in first.0..first.0 + u64::from(*count) {
            let (length, after) = rest.split_first_chunk::<4>().expect("a length");
            let (reply, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            let before = self.told.entry((session.0, number)).or_insert_with(|| reply.to_vec());
            assert_eq!(before, reply, "number {number} of session {session}");
            rest = after;
        }
        assert!(rest.is_empty());
    }

    fn check_journal(&self, commands: &[Vec<u8>]) {
        let mut stands_at: BTreeMap<u64, u64> = BTreeMap::new();
        for command in commands {
            let text = std::str::from_utf8(command).expect("text");
            let mut parts = text.split(':').map(|part| part.parse::<u64>().expect("a number"));
            let (session, number) = (parts.next().expect("session"), parts.next().expect("number"));
            let before = stands_at.insert(session, number).unwrap_or(0);
            assert_eq!(number, before + 1, "session {session}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_histories_match_the_model(
        blocks in prop::collection::vec(
            prop::collection::vec((1..6u8, moves()), 0..9), 1..40),
        restore_at in 0..40usize,
    ) {
        let (mut one, mut two) = (state(tight()), state(tight()));
        let mut model = Model::new(tight());
        let mut witness = Witness::default();
        let mut clients: BTreeMap<u8, Client> = BTreeMap::new();
        for (at, block) in blocks.iter().enumerate() {
            let mut frames = Vec::new();
            for (id, step) in block {
                let client = clients.entry(*id).or_default();
                let stands_at = one.sessions().next_number(SessionId(client.session));
                frames.extend(client.frames(*id, step, stands_at));
            }
            let (ones, twos): (Vec<_>, Vec<_>) =
                frames.into_iter().map(|[one, two]| (one, two)).unzip();
            let standings: Vec<_> = ones.iter().map(|frame| one.standing(frame)).collect();
            let height = one.height().next();
            let result = execute(&mut one, &ones);
            prop_assert_eq!(&result, &execute(&mut two, &twos));
            prop_assert_eq!(&result.outcomes, &model.execute(height.0, &ones));
            prop_assert_eq!(&one.application().commands, &model.journal);
            // What was said without ordering is what ordering says, if it comes first.
            if let (Some(Standing::Settled(said)), Some((_, ordered))) =
                (standings.first(), result.outcomes.first())
            {
                prop_assert_eq!(said, ordered);
            }
            for (key, outcome) in &result.outcomes {
                witness.hear(outcome);
                if let Outcome::Opened { incarnation, session } = *outcome {
                    let client = clients.get_mut(&key.0[0]).expect("it asked");
                    if client.session != session.0 {
                        let sent = std::mem::take(&mut client.sent);
                        *client = Client { session: session.0, incarnation, next: 1, sent };
                    }
                }
            }
            let chunks = chunks_of(&one.snapshot());
            prop_assert_eq!(&chunks, &chunks_of(&two.snapshot()));
            if at == restore_at {
                let chunks = &mut chunks.into_iter();
                let restored = quorate_core::ledger::execution::Execution::restore(
                    Journal::default(), tight(), chunks, result.root);
                two = restored.expect("a snapshot of an honest replica");
            }
        }
        witness.check_journal(&one.application().commands);
    }

    /// A snapshot is what it was when it was taken.
    #[test]
    fn later_blocks_do_not_reach_a_snapshot(count in 1..20u64) {
        let mut state = state(tight());
        outcomes(&mut state, &[open(1, 1), frame(1, 1, 1, &["1:1:0"])]);
        let snapshot = state.sessions().snapshot();
        let before = chunks_of(&snapshot as &dyn Snapshot);
        for number in 2..2 + count {
            outcomes(&mut state, &[frame(1, 1, number, &["x"]), open(2, number)]);
        }
        prop_assert_eq!(before, chunks_of(&snapshot as &dyn Snapshot));
    }
}
