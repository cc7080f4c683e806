//! Rules: who may raise them, and that nobody executes by rules that its program does not know.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::base::crypto::Signature;
use quorate_core::base::membership::{Committee, Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::change::{Change, Refusal, SignedChange};
use quorate_core::ledger::execution::{Execution, ExecutionError, SnapshotError};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::sessions::Limits;
use quorate_core::ledger::state_machine::{Decided, Replies, RestoreError, Snapshot, StateMachine};
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::fixtures::{CHAIN, Journal, chunks_of, frame, key, open, signed_frame};

/// Of the application's rules.
fn rules(application: u16) -> Rules {
    Rules { core: 1, application }
}

/// Four members with weight 1 and a learner, who have one administrator.
fn committee() -> Committee {
    let member = |id: u8| Some(Member { weight: u16::from(id < 4), ..of(id) });
    let governance = Governance { administrators: vec![key(50)], approvals: 1 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    let members = (0..5).map(member).collect();
    Committee::with_members(CHAIN, Epoch(0), opening, members, governance).unwrap()
}

fn of(id: u8) -> Member {
    Member::new(ReplicaKey::from([id + 100; 32]))
}

/// A change of the rules of `current` alone; these members are ready for it.
fn change(current: &Committee, rules: Rules, ready: &[u16]) -> SignedChange {
    let (members, governance) = (current.members().to_vec(), current.governance().clone());
    let change = Change { ends: current.epoch(), members, governance, rules };
    let approvals = vec![(key(50), Signature::NONE)];
    let ready = ready.iter().map(|id| (ReplicaId(*id), Signature::NONE)).collect();
    SignedChange { change, approvals, ready, shares: None }
}

#[test]
fn raising_the_rules_needs_the_word_of_every_member_that_counts() {
    let current = committee();
    let judge =
        |ready: &[u16]| change(&current, rules(2), ready).judge(&current, current.opening());
    let next = judge(&[0, 1, 2, 3]).unwrap();
    assert_eq!((next.rules(), next.epoch()), (rules(2), Epoch(1)));
    assert_eq!(next.members(), current.members());
    // A quorum is enough for other members, and not for other rules. Learners are not asked.
    for (missing, ready) in [(3, [0, 1, 2]), (0, [1, 2, 3])] {
        let refused = judge(&ready).unwrap_err();
        let missing = vec![ReplicaId(missing)];
        assert_eq!(refused, Refusal::NotReadyForRules { rules: rules(2), missing });
    }
    let refused = judge(&[0, 1, 2, 4]).unwrap_err().to_string();
    assert_eq!(refused, "all members that count must be ready for rules 1.2; not ready: 3");
    assert!(matches!(judge(&[0, 1]), Err(Refusal::NotReady { .. })));
}

#[test]
fn a_member_that_does_not_come_back_is_removed_in_the_same_change() {
    let current = committee();
    let mut change = change(&current, rules(2), &[0, 1, 2, 4]);
    change.change.members[3] = None;
    change.change.members[4].as_mut().unwrap().weight = 1;
    assert_eq!(change.judge(&current, current.opening()).unwrap().rules(), rules(2));
}

/// A quorum that is ready without it must not give a member's place to the keys of a stranger.
#[test]
fn another_key_or_contact_needs_the_word_of_the_member_that_gets_it() {
    let current = committee();
    let judge = |id: usize, alter: fn(&mut Member), ready: &[u16]| {
        let mut change = change(&current, current.rules(), ready);
        alter(change.change.members[id].as_mut().unwrap());
        change.judge(&current, current.opening()).map(|next| next.epoch())
    };
    let key: fn(&mut Member) = |member| member.key = ReplicaKey::from([200; 32]);
    let contact: fn(&mut Member) = |member| member.contact = b"elsewhere".as_slice().into();
    for alter in [key, contact] {
        let missing = vec![ReplicaId(3)];
        assert_eq!(judge(3, alter, &[0, 1, 2]), Err(Refusal::NotTheirs { missing }));
        assert_eq!(judge(3, alter, &[0, 1, 3]), Ok(Epoch(1)), "that others are ready is enough");
        // One that learns counts for no quorum, and gives its word all the same.
        let missing = vec![ReplicaId(4)];
        assert_eq!(judge(4, alter, &[0, 1, 2, 3]), Err(Refusal::NotTheirs { missing }));
        assert_eq!(judge(4, alter, &[0, 1, 2, 4]), Ok(Epoch(1)));
    }
    // Who is another machine under that id is refused; who leaves is not asked.
    let mut leaves = change(&current, current.rules(), &[0, 1, 2, 4]);
    leaves.change.members[3] = None;
    leaves.change.members[4].as_mut().unwrap().weight = 1;
    assert!(leaves.judge(&current, current.opening()).is_ok());
}

#[test]
fn rules_never_go_down_and_stay_by_default() {
    let current = committee().under(Rules { core: 2, application: 3 });
    let all = [0, 1, 2, 3];
    for (core, application) in [(1, 3), (2, 2), (1, 9), (9, 2)] {
        let found = Rules { core, application };
        let refused = change(&current, found, &all).judge(&current, current.opening());
        assert_eq!(refused, Err(Refusal::RulesDown { found, current: current.rules() }));
    }
    let same = change(&current, current.rules(), &all).judge(&current, current.opening());
    assert_eq!(same, Err(Refusal::Same));
    let mut heavier = change(&current, current.rules(), &[0, 1, 2]);
    heavier.change.members[0].as_mut().unwrap().weight = 2;
    let next = heavier.judge(&current, current.opening()).unwrap();
    assert_eq!(next.rules(), current.rules());
    assert_ne!(next.digest(), next.under(rules(9)).digest());
}

#[test]
fn a_change_of_another_format_is_refused_and_never_given_to_the_application() {
    let command = change(&committee(), rules(2), &[0, 1, 2, 3]).to_command();
    for number in [b'1', b'3', b'X'] {
        let mut other = command.clone();
        other[15] = number;
        assert!(SignedChange::is_one(&other));
        let refused = SignedChange::of_command_under(&other, rules(1)).unwrap_err().to_string();
        assert!(refused.contains("format 2"), "{refused}");
        assert!(SignedChange::of_command(&other).is_err());
    }
    assert!(SignedChange::of_command(&command).is_ok());
    assert!(!SignedChange::is_one(b"quorate chance 2"));
}

fn some_rules() -> impl Strategy<Value = Rules> {
    (1u16..4, 1u16..4).prop_map(|(core, application)| Rules { core, application })
}

proptest! {
    /// Whatever changes are judged one after the other: rules go up only, and never without all.
    #[test]
    fn rules_go_up_only(
        wanted in prop::collection::vec((some_rules(), prop::collection::vec(any::<bool>(), 4)), 1..12)
    ) {
        let mut current = committee();
        for (rules, are_ready) in wanted {
            let ready: Vec<u16> = (0..4).filter(|id| are_ready[usize::from(*id)]).collect();
            let signed = change(&current, rules, &ready);
            let read = SignedChange::of_command(&signed.to_command());
            prop_assert_eq!(read.as_ref(), Ok(&signed));
            match signed.judge(&current, current.opening()) {
                Ok(next) => {
                    prop_assert!(rules.cover(current.rules()) && rules != current.rules());
                    prop_assert!(are_ready.iter().all(|ready| *ready));
                    let read = Committee::from_bytes(next.to_bytes().into());
                    prop_assert_eq!(read.as_ref(), Ok(&next));
                    current = next;
                }
                Err(_) => prop_assert!(
                    !rules.cover(current.rules())
                        || rules == current.rules()
                        || !are_ready.iter().all(|ready| *ready)
                ),
            }
        }
    }

    #[test]
    fn what_covers_what_is_as_spelled(one in some_rules(), other in some_rules()) {
        prop_assert_eq!(one.to_string().parse(), Ok(one));
        let common = one.common(other);
        prop_assert!(one.cover(common) && other.cover(common));
        prop_assert_eq!(one.cover(other) && other.cover(one), one == other);
    }
}

#[test]
fn what_names_no_rules_is_refused() {
    for text in ["", "1", "1.", ".1", "0.1", "1.0", "1.1.1", "1.65536", "-1.1", "1,1"] {
        text.parse::<Rules>().unwrap_err();
    }
    assert!(Rules::from_bytes(Bytes::from_static(&[0, 0, 1, 0])).is_err());
    assert!(Rules::from_bytes(Bytes::from_static(&[1, 0, 0, 0])).is_err());
}

/// Of a program that supports rules up to some; each reply names those in force.
#[derive(Debug)]
struct Ruled {
    journal: Journal,
    newest: u16,
}

impl StateMachine for Ruled {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        for command in block.commands {
            replies.push(format!("by rules {}", block.rules).as_bytes());
            self.journal.commands.push(command.to_vec());
        }
    }

    fn newest_rules(&self) -> u16 {
        self.newest
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.journal.query(question)
    }

    fn root(&mut self) -> Digest {
        self.journal.root()
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.journal.snapshot()
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        assert!(self.newest > 1, "the application was given a state that it does not know");
        self.journal.restore(chunks)
    }
}

fn supporting(newest: u16) -> Execution<Ruled> {
    let application = Ruled { journal: Journal::default(), newest };
    Execution::new(application, Limits::default(), CHAIN).unwrap().governed_by(&committee())
}

/// Executes a block of these frames.
fn run(
    state: &mut Execution<Ruled>,
    frames: &[SharedFrame],
) -> Result<Vec<String>, ExecutionError> {
    let height = state.height().next();
    let executed = state.execute(height, View(height.0), block(height), frames)?;
    let said = |outcome: &dyn std::fmt::Debug| format!("{outcome:?}");
    Ok(executed.outcomes.iter().map(|(_, outcome)| said(outcome)).collect())
}

fn block(height: Height) -> Digest {
    Digest::of("test block", &height.0.to_le_bytes())
}

/// A state at the end of its epoch: the next one has rules 1.2.
fn sealed(newest: u16) -> Execution<Ruled> {
    let mut state = supporting(newest);
    let raise = change(&committee(), rules(2), &[0, 1, 2, 3]).to_command();
    run(&mut state, &[open(1, 1), frame(1, 1, 1, &["before"])]).unwrap();
    run(&mut state, &[signed_frame(1, 1, 2, &[raise], 0)]).unwrap();
    assert_eq!(state.members().sealed().map(Committee::rules), Some(rules(2)));
    assert_eq!(state.members().rules(), rules(1));
    state
}

#[test]
fn the_application_is_told_the_rules_in_force() {
    let mut state = sealed(2);
    let genesis = block(state.height().next());
    state.open_epoch(genesis).unwrap();
    assert_eq!(state.members().rules(), rules(2));
    let said = run(&mut state, &[frame(1, 1, 3, &["after"])]).unwrap();
    assert_eq!(said.len(), 1);
    let sessions = state.sessions();
    let reply = |first, command| {
        let answer = sessions.answer(&frame(1, 1, first, &[command])).expect("it was executed");
        format!("{answer:?}")
    };
    assert_ne!(reply(1, "before"), reply(3, "after"));
    assert!(reply(1, "before").contains("by rules 1"), "{}", reply(1, "before"));
    assert!(reply(3, "after").contains("by rules 2"), "{}", reply(3, "after"));
}

/// The one who is asked to stop says why, for good, and has executed nothing.
fn assert_stopped(state: &mut Execution<Ruled>, error: &ExecutionError) {
    let said = error.to_string();
    assert!(said.contains("epoch 1 executes by rules 1.2"), "{said}");
    assert!(said.contains("supports none newer than 3.1"), "{said}");
    assert!(said.contains("start this replica with a release that has them"), "{said}");
    let before = state.application().journal.commands.clone();
    assert_eq!(run(state, &[frame(1, 1, 3, &["after"])]).as_ref(), Err(error));
    assert_eq!(state.application().journal.commands, before);
}

#[test]
fn a_program_that_does_not_know_the_rules_stops_where_the_epoch_begins() {
    let mut state = sealed(1);
    let height = state.height();
    let genesis = block(height.next());
    let error = state.open_epoch(genesis).unwrap_err();
    assert_eq!(state.height(), height);
    assert_stopped(&mut state, &error);
}

#[test]
fn it_does_not_start_in_such_an_epoch() {
    let application = Ruled { journal: Journal::default(), newest: 1 };
    let state = Execution::new(application, Limits::default(), CHAIN).unwrap();
    let next = committee().next(
        committee().opening(),
        committee().members().to_vec(),
        committee().governance().clone(),
    );
    let mut state = state.governed_by(&next.unwrap().under(rules(2)));
    let error = state.check_rules().unwrap_err();
    assert_stopped(&mut state, &error);
    assert_eq!(supporting(1).check_rules(), Ok(()));
}

#[test]
fn it_takes_over_no_state_of_such_an_epoch() {
    let mut state = sealed(2);
    let genesis = block(state.height().next());
    state.open_epoch(genesis).unwrap();
    let (chunks, root) = (chunks_of(&state.snapshot()), state.state_root());
    let restore = |newest| {
        let application = Ruled { journal: Journal::default(), newest };
        let mut chunks = chunks.clone().into_iter();
        Execution::restore(application, Limits::default(), &mut chunks, root)
    };
    assert_eq!(restore(2).unwrap().members().rules(), rules(2));
    let refused = restore(1).unwrap_err();
    assert!(matches!(refused, SnapshotError::Rules(_)), "{refused}");
    // A header that names other rules is of another state.
    let mut forged = chunks.clone();
    let mut header = forged[0].to_vec();
    let end = header.len();
    header[end - 2..].copy_from_slice(&1u16.to_le_bytes());
    forged[0] = header.into();
    let application = Ruled { journal: Journal::default(), newest: 1 };
    let forged = Execution::restore(application, Limits::default(), &mut forged.into_iter(), root);
    assert!(matches!(forged, Err(SnapshotError::Header(_))), "{:?}", forged.err());
}

#[test]
fn members_that_are_fixed_have_the_first_rules() {
    let application = Ruled { journal: Journal::default(), newest: 9 };
    let state = Execution::new(application, Limits::default(), CHAIN).unwrap();
    assert_eq!(state.members().rules(), Rules::FIRST);
    assert_eq!(state.supported_rules(), Rules { core: Rules::NEWEST_OF_CORE, application: 9 });
}
