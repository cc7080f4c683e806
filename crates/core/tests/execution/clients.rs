//! Who may send commands: directives, and what they do to sessions.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::base::crypto::{PublicKey, Signature};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Outcome, Rejection};
use quorate_core::ledger::change::{Change, SignedChange};
use quorate_core::ledger::clients::{Admission, Clients, Entry, Grant, MAX_BYTES};
use quorate_core::ledger::directive::{Directive, Order, Refusal, SignedDirective};
use quorate_core::ledger::execution::{Execution, Header, SnapshotError};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::sessions::{Limits, Standing};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, SessionId};

use crate::fixtures::*;

/// The first of three administrators, of whom two must sign.
pub const ADMINISTRATOR: u8 = 200;

pub fn committee() -> Committee {
    let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from([id; 32])))).collect();
    let administrators = (0..3).map(|at| key(ADMINISTRATOR + at)).collect();
    let governance = Governance { administrators, approvals: 2 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    Committee::with_members(CHAIN, Epoch(0), opening, members, governance).expect("a committee")
}

/// A state with administrators, and a list of clients.
fn serving(clients: Clients) -> Execution<Journal> {
    state(Limits::default()).governed_by(&committee()).serving(Arc::new(clients))
}

/// The same, where nobody has made a list. The administrator has session 1.
fn governed() -> Execution<Journal> {
    let mut state = serving(Clients::default());
    assert_eq!(outcomes(&mut state, &[open(ADMINISTRATOR, 1)]), [opened(1, 1)]);
    state
}

pub fn signed_by(signers: &[u8], serial: u64, order: Order) -> Vec<u8> {
    let approvals = signers.iter().map(|at| (key(*at), Signature::from([0; 64]))).collect();
    SignedDirective { directive: Directive { serial, order }, approvals }.to_command()
}

/// A directive by two administrators, as the command with this number in session 1.
pub fn directive(number: u64, serial: u64, order: Order) -> SharedFrame {
    let command = signed_by(&[ADMINISTRATOR, ADMINISTRATOR + 1], serial, order);
    signed_frame(ADMINISTRATOR, 1, number, &[command], 0)
}

/// What became of a directive: the serial, or why it was refused.
pub fn told(outcome: &Outcome) -> Result<u64, String> {
    let Outcome::Executed { replies, .. } = outcome else { panic!("{outcome:?}") };
    match replies[4..].split_first() {
        Some((0, serial)) => Ok(u64::from_le_bytes(serial.try_into().expect("a serial"))),
        Some((_, reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
        None => panic!("no reply"),
    }
}

/// Has a directive executed by itself.
fn direct(state: &mut Execution<Journal>, number: u64, serial: u64, order: Order) {
    let told = told(&outcomes(state, &[directive(number, serial, order)])[0]);
    assert_eq!(told, Ok(serial));
}

/// Reads that are not ordered are refused as long as this is so.
#[test]
fn a_list_tells_whether_a_key_may_touch_a_part_of_the_keys_only() {
    let mut state = governed();
    let has_prefixes = |state: &Execution<Journal>| state.sessions().clients().has_prefixes();
    direct(&mut state, 1, 1, Order::Allow(key(1), Grant::default()));
    assert!(!has_prefixes(&state));
    let grant = Grant { prefixes: vec![Bytes::from_static(b"app:")], ..Grant::default() };
    direct(&mut state, 2, 2, Order::Allow(key(2), grant));
    assert!(has_prefixes(&state));
    let listed = state.sessions().clients().to_bytes().into();
    assert!(Clients::from_bytes(listed).is_ok_and(|clients| clients.has_prefixes()));
    direct(&mut state, 3, 3, Order::Admit(Admission::Listed));
    assert!(has_prefixes(&state));
    direct(&mut state, 4, 4, Order::Revoke(key(2)));
    assert!(!has_prefixes(&state));
}

fn read_only() -> Grant {
    Grant { write: false, ..Grant::default() }
}

#[test]
fn where_nobody_made_a_list_anybody_sends_commands_and_the_state_says_nothing_of_it() {
    let mut state = governed();
    let sent = [open(1, 1), frame(1, 2, 1, &["a"])];
    assert_eq!(outcomes(&mut state, &sent), [opened(1, 2), executed(2, 1, 0, &["a"])]);
    assert_eq!(state.summary().clients, Digest::default());
    assert_eq!(state.application().callers, [(key(1), None)]);
}

/// A client has commands under way when its key is revoked: one block holds some before the
/// directive, the directive, and some behind it.
#[test]
fn a_revoked_key_loses_its_session_where_the_directive_stands() {
    let mut state = governed();
    outcomes(&mut state, &[open(1, 1), open(2, 1), frame(1, 2, 4, &["waits"])]);
    let block = [
        frame(1, 2, 1, &["a"]),
        frame(2, 3, 1, &["b"]),
        directive(1, 1, Order::Revoke(key(1))),
        frame(1, 2, 2, &["never", "never"]),
        frame(2, 3, 2, &["c"]),
        open(1, 2),
    ];
    let outcomes = outcomes(&mut state, &block);
    assert_eq!(told(&outcomes[2]), Ok(1));
    let revoked = |first| rejected(2, first, Rejection::Revoked);
    assert_eq!(outcomes[..2], [executed(2, 1, 0, &["a"]), executed(3, 1, 1, &["b"])]);
    assert_eq!(outcomes[3], revoked(4), "the frame that waited");
    assert_eq!(outcomes[4..6], [revoked(2), executed(3, 2, 2, &["c"])]);
    assert_eq!(outcomes[6], rejected(0, 2, Rejection::Revoked), "no other session");
    assert_eq!(state.sessions().next_number(SessionId(2)), None);
    // Before they are ordered, later frames are turned down by the same name.
    let settled = |frame: &Frame| match state.standing(frame) {
        Standing::Settled(outcome) => Some(outcome),
        _ => None,
    };
    assert_eq!(settled(&frame(1, 2, 1, &["a"])), Some(revoked(1)));
    assert_eq!(settled(&frame(1, 2, 9, &["z"])), Some(revoked(9)));
    assert_eq!(settled(&open(1, 3)), Some(rejected(0, 3, Rejection::Revoked)));
    // A replica that is behind does not say so of a session that it has not seen opened: the key
    // may have been allowed since.
    assert_eq!(settled(&frame(1, 7, 1, &["a"])), None);
}

#[test]
fn a_key_that_is_allowed_again_gets_a_new_session() {
    let mut state = governed();
    outcomes(&mut state, &[open(1, 1)]);
    direct(&mut state, 1, 1, Order::Revoke(key(1)));
    direct(&mut state, 2, 2, Order::Allow(key(1), Grant::default()));
    let again =
        outcomes(&mut state, &[open(1, 1), frame(1, 2, 1, &["old"]), frame(1, 3, 1, &["a"])]);
    let old = rejected(2, 1, Rejection::UnknownSession);
    assert_eq!(again, [opened(1, 3), old, executed(3, 1, 0, &["a"])]);
    // In an open cluster a key that is forgotten may do everything, as one that never was listed.
    direct(&mut state, 3, 3, Order::Revoke(key(1)));
    direct(&mut state, 4, 4, Order::Forget(key(1)));
    assert_eq!(outcomes(&mut state, &[open(1, 1)]), [opened(1, 4)]);
}

#[test]
fn a_listed_cluster_takes_commands_from_listed_keys_alone() {
    let mut state = governed();
    outcomes(&mut state, &[open(1, 1), open(2, 1)]);
    direct(&mut state, 1, 1, Order::Allow(key(1), Grant::default()));
    let order = Order::Admit(Admission::Listed);
    let block =
        [directive(2, 2, order), frame(1, 2, 1, &["a"]), frame(2, 3, 1, &["b"]), open(3, 1)];
    let outcomes_of_block = outcomes(&mut state, &block);
    assert_eq!(outcomes_of_block[1], executed(2, 1, 0, &["a"]));
    assert_eq!(outcomes_of_block[2], rejected(3, 1, Rejection::NotListed));
    assert_eq!(outcomes_of_block[3], rejected(0, 1, Rejection::NotListed));
    assert_eq!(state.sessions().len(), 2, "that of the administrator, and that of the listed key");
    direct(&mut state, 3, 3, Order::Allow(key(3), read_only()));
    assert_eq!(outcomes(&mut state, &[open(3, 1)]), [rejected(0, 1, Rejection::ReadOnly)]);
    direct(&mut state, 4, 4, Order::Allow(key(1), read_only()));
    let late = frame(1, 2, 2, &["c"]);
    assert_eq!(outcomes(&mut state, &[late]), [rejected(2, 2, Rejection::ReadOnly)]);
    direct(&mut state, 5, 5, Order::Admit(Admission::Open));
    assert_eq!(outcomes(&mut state, &[open(2, 2)]), [opened(2, 4)]);
}

/// Or a list that does not name the administrators could never be changed.
#[test]
fn administrators_always_have_sessions_for_what_administrators_sign() {
    let mut state = serving(Clients::first(Admission::Listed, []).expect("it is short"));
    let [mine, data] = [open(ADMINISTRATOR, 1), frame(ADMINISTRATOR, 1, 1, &["a"])];
    let order = Order::Allow(key(ADMINISTRATOR), Grant::default());
    let outcomes_of_block = outcomes(&mut state, &[mine, data, directive(1, 1, order)]);
    assert_eq!(outcomes_of_block[0], opened(1, 1));
    assert_eq!(outcomes_of_block[1], rejected(1, 1, Rejection::NotListed));
    assert_eq!(told(&outcomes_of_block[2]), Ok(1));
    let data = frame(ADMINISTRATOR, 1, 2, &["a"]);
    assert_eq!(outcomes(&mut state, &[data]), [executed(1, 2, 0, &["a"])]);
    direct(&mut state, 3, 2, Order::Revoke(key(ADMINISTRATOR)));
    direct(&mut state, 4, 3, Order::Forget(key(ADMINISTRATOR)));
}

/// A directive that revokes the key that sent it executes; frames behind it wait in vain.
#[test]
fn the_sender_of_a_directive_may_lose_its_own_session() {
    let mut state = governed();
    let order = Order::Revoke(key(1));
    let command = signed_by(&[ADMINISTRATOR, ADMINISTRATOR + 1], 1, order);
    outcomes(&mut state, &[open(1, 1), frame(1, 2, 2, &["waits"])]);
    let outcomes = outcomes(&mut state, &[signed_frame(1, 2, 1, &[command], 0)]);
    assert_eq!(told(&outcomes[0]), Ok(1));
    assert_eq!(outcomes[1..], [rejected(2, 2, Rejection::Revoked)]);
    assert!(state.application().commands.is_empty());
}

/// A frame that waited executes by the rights that its client has then. An administrator whom the
/// list bars keeps its session for what administrators sign, and for nothing else.
#[test]
fn what_waited_has_the_rights_of_the_moment() {
    let mut state = governed();
    let second = ADMINISTRATOR + 1;
    outcomes(&mut state, &[open(second, 1), frame(second, 2, 2, &["waits"])]);
    direct(&mut state, 1, 1, Order::Revoke(key(second)));
    let junk = signed_frame(second, 2, 1, &[b"quorate directive 1".to_vec()], 0);
    let outcomes = outcomes(&mut state, &[junk]);
    assert!(told(&outcomes[0]).is_err());
    assert_eq!(outcomes[1..], [rejected(2, 2, Rejection::Revoked)]);
    assert!(state.application().commands.is_empty());
}

/// Of two directives that waited with one number, one at most is carried out.
#[test]
fn a_number_is_good_for_one_directive() {
    for (first, second) in [(7, 8), (8, 7)] {
        let mut state = governed();
        let [first, second] = [first, second].map(|it| Order::Revoke(key(it)));
        outcomes(&mut state, &[directive(2, 1, first), directive(2, 2, second)]);
        outcomes(&mut state, &[directive(1, 9, Order::Revoke(key(9)))]);
        assert!(state.sessions().clients().next_serial() <= 2);
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut state = governed();
    direct(&mut state, 1, 1, Order::Revoke(key(7)));
    let before = state.sessions().clients().digest();
    let [one, two] = [ADMINISTRATOR, ADMINISTRATOR + 1];
    let order = || Order::Revoke(key(1));
    let alone = |command| vec![command];
    let cases = [
        (
            alone(signed_by(&[one, two], 1, Order::Revoke(key(7)))),
            "serial 1, and the next one is 2",
        ),
        (alone(signed_by(&[one, two], 3, order())), "serial 3, and the next one is 2"),
        (alone(signed_by(&[one], 2, order())), "1 administrators signed, 2 must"),
        (alone(signed_by(&[one, one], 2, order())), "1 administrators signed, 2 must"),
        (alone(signed_by(&[one, 9], 2, order())), "1 administrators signed, 2 must"),
        (alone(signed_by(&[one, two], 2, Order::Forget(key(8)))), "does not name this key"),
        (alone(b"quorate directive 1".to_vec()), "cannot be read"),
        (vec![signed_by(&[one, two], 2, order()), b"x".to_vec()], "the only command of its frame"),
    ];
    let mut number = 2;
    for (commands, expected) in cases {
        let frame = signed_frame(ADMINISTRATOR, 1, number, &commands, 0);
        number += commands.len() as u64;
        let said = told(&outcomes(&mut state, &[frame])[0]).expect_err(expected);
        assert!(said.contains(expected), "{said}");
        assert_eq!(state.sessions().clients().digest(), before, "{expected}");
    }
    // Nobody governs: the members, and the clients, are who they are.
    let mut fixed = crate::fixtures::state(Limits::default());
    outcomes(&mut fixed, &[open(ADMINISTRATOR, 1)]);
    let said = told(&outcomes(&mut fixed, &[directive(1, 1, order())])[0]).expect_err("fixed");
    assert!(said.contains("no administrators"), "{said}");
}

/// A directive that was executed is answered again, and not carried out again: a client that got
/// no answer asks again.
#[test]
fn a_retry_of_a_directive_is_answered_from_the_answers_kept() {
    let mut state = governed();
    let frame = directive(1, 1, Order::Revoke(key(1)));
    let first = outcomes(&mut state, &[Arc::clone(&frame)]);
    direct(&mut state, 2, 2, Order::Allow(key(1), Grant::default()));
    assert_eq!(outcomes(&mut state, &[frame]), first);
    assert_eq!(state.sessions().clients().admits(&key(1)), Ok(()));
}

#[test]
fn the_application_is_told_what_the_sender_was_granted_by_then() {
    let mut state = governed();
    let granted = |prefix: &'static [u8]| Grant {
        prefixes: vec![Bytes::from_static(prefix)],
        ..Grant::default()
    };
    direct(&mut state, 1, 1, Order::Allow(key(1), granted(b"a/")));
    outcomes(&mut state, &[open(1, 1), open(2, 1)]);
    let block = [
        frame(1, 2, 1, &["one", "two"]),
        directive(2, 2, Order::Allow(key(1), granted(b"b/"))),
        frame(2, 3, 1, &["other"]),
        frame(1, 2, 3, &["three"]),
    ];
    outcomes(&mut state, &block);
    let [a, b] = [granted(b"a/"), granted(b"b/")].map(Some);
    let expected = [(key(1), a.clone()), (key(1), a), (key(2), None), (key(1), b)];
    assert_eq!(state.application().callers, expected);
}

#[test]
fn the_list_is_part_of_the_state_and_of_its_snapshots() {
    let mut state = governed();
    let before = state.clone_by_snapshot();
    direct(&mut state, 1, 1, Order::Revoke(key(1)));
    let (mut other, mut same) = (before.clone_by_snapshot(), before);
    direct(&mut same, 1, 1, Order::Revoke(key(1)));
    direct(&mut other, 1, 1, Order::Revoke(key(2)));
    assert_eq!(state.state_root(), same.state_root());
    assert_ne!(state.summary().clients, other.summary().clients);
    assert_ne!(state.state_root(), other.state_root());
    // Who takes the state over keeps to the list.
    let mut restored = state.clone_by_snapshot();
    assert_eq!(restored.sessions().clients(), state.sessions().clients());
    assert_eq!(outcomes(&mut restored, &[open(1, 1)]), [rejected(0, 1, Rejection::Revoked)]);
    direct(&mut restored, 2, 2, Order::Allow(key(1), Grant::default()));
    // Another list under the same summary is found out by the header.
    let chunks = chunks_of(&state.snapshot());
    let header = Header::from_bytes(chunks[0].clone()).expect("a header");
    let forged = Header { clients: Arc::default(), ..header }.to_bytes();
    let forged = std::iter::once(forged).chain(chunks.into_iter().skip(1));
    let error = restored_from(forged, state.state_root()).expect_err("another list");
    assert!(error.to_string().contains("clients: not those of this state"), "{error}");
}

fn restored_from(
    chunks: impl Iterator<Item = Bytes>,
    root: Digest,
) -> Result<Execution<Journal>, SnapshotError> {
    Execution::restore(Journal::default(), Limits::default(), &mut { chunks }, root)
}

trait CloneBySnapshot {
    fn clone_by_snapshot(&self) -> Self;
}

impl CloneBySnapshot for Execution<Journal> {
    fn clone_by_snapshot(&self) -> Self {
        let chunks = chunks_of(&self.snapshot()).into_iter();
        restored_from(chunks, self.state_root()).expect("an honest snapshot")
    }
}

/// An administrator that is none any more in the next epoch is a client like any other there.
#[test]
fn sessions_of_administrators_end_with_their_epoch() {
    let mut state = serving(Clients::first(Admission::Listed, []).expect("it is short"));
    outcomes(&mut state, &[open(ADMINISTRATOR, 1), open(ADMINISTRATOR + 1, 1)]);
    let mut governance = committee().governance().clone();
    governance.administrators.remove(0);
    let members = committee().members().to_vec();
    let change = Change { ends: Epoch(0), members, governance, rules: Rules::FIRST };
    let none = Signature::from([0; 64]);
    let approvals = (0..2).map(|at| (key(ADMINISTRATOR + at), none)).collect();
    let ready = (0..4).map(|id| (ReplicaId(id), none)).collect();
    let command = SignedChange { change, approvals, ready, shares: None }.to_command();
    let executed = execute(&mut state, &[signed_frame(ADMINISTRATOR, 1, 1, &[command], 0)]);
    assert!(executed.sealed, "{executed:?}");
    state.open_epoch(Digest([8; 32])).expect("the next epoch");
    let old = directive(2, 1, Order::Admit(Admission::Open));
    assert_eq!(outcomes(&mut state, &[old]), [rejected(1, 2, Rejection::NotListed)]);
    assert_eq!(state.sessions().len(), 1, "the other administrator's");
}

#[test]
fn the_list_is_bounded_and_a_granted_key_can_always_be_revoked() {
    let grant = Grant { prefixes: vec![Bytes::from(vec![7; 256]); 16], ..Grant::default() };
    let mut clients = Clients::default();
    let judged = |clients: &Clients, order| {
        let (serial, committee) = (clients.next_serial(), committee());
        let approvals = (0..2).map(|at| (key(ADMINISTRATOR + at), Signature::NONE)).collect();
        SignedDirective { directive: Directive { serial, order }, approvals }
            .judge(&committee, clients)
    };
    let nth = |at: u64| PublicKey(Digest::of("test client", &at.to_le_bytes()).0);
    let full = (0..).find_map(|at| match judged(&clients, Order::Allow(nth(at), grant.clone())) {
        Ok(next) => {
            clients = next;
            None
        }
        Err(refusal) => Some((at, refusal)),
    });
    let Some((at, Refusal::Full(_))) = full else { panic!("{full:?}") };
    let length = clients.to_bytes().len();
    assert!(length <= MAX_BYTES && length + grant.to_bytes().len() + 33 > MAX_BYTES, "{length}");
    assert_eq!(Clients::from_bytes(clients.to_bytes().into()), Ok(clients.clone()));
    assert!(judged(&clients, Order::Revoke(nth(at - 1))).is_ok());
    assert!(judged(&clients, Order::Forget(nth(0))).is_ok());
}

#[test]
fn encodings_that_are_not_canonical_are_refused() {
    let clients = Clients::first(Admission::Listed, [key(1), key(2)]).expect("it is short");
    let good = clients.to_bytes();
    let entry = 32 + 1 + 1 + 4 + 4;
    assert_eq!(good.len(), 13 + 2 * entry);
    let mut swapped = good[..13].to_vec();
    swapped.extend_from_slice(&good[13 + entry..]);
    swapped.extend_from_slice(&good[13..13 + entry]);
    let mut twice = good[..13].to_vec();
    twice.extend_from_slice(&good[13..13 + entry].repeat(2));
    for bad in [swapped, twice] {
        assert!(Clients::from_bytes(bad.into()).is_err());
    }
    let with_prefix = |prefix: &[u8]| {
        let prefixes = vec![Bytes::copy_from_slice(prefix)];
        Grant::from_bytes(Grant { prefixes, ..Grant::default() }.to_bytes().into())
    };
    assert!(with_prefix(b"a").is_ok());
    assert!(with_prefix(b"").is_err(), "it would cover everything");
    assert!(with_prefix(&[0; 257]).is_err());
}

/// The session of a client, and the number that it goes on with.
fn session_of(state: &Execution<Journal>, client: u8) -> Option<(u64, u64)> {
    match state.standing(&open(client, 1)) {
        Standing::Settled(Outcome::Opened { session, .. }) => {
            Some((session.0, state.sessions().next_number(session)?.0))
        }
        _ => None,
    }
}

/// What a client or an administrator does next.
#[derive(Clone, Debug)]
enum Step {
    Open(u8),
    Send(u8),
    /// A frame that waits for one before it.
    SendAhead(u8),
    Direct(Order),
}

fn steps() -> impl Strategy<Value = Step> {
    let client = || 1..5u8;
    let grant = prop_oneof![
        Just(Grant::default()),
        Just(read_only()),
        Just(Grant { prefixes: vec![Bytes::from_static(b"a")], ..Grant::default() }),
    ];
    let order = prop_oneof![
        (client(), grant).prop_map(|(client, grant)| Order::Allow(key(client), grant)),
        client().prop_map(|client| Order::Revoke(key(client))),
        client().prop_map(|client| Order::Forget(key(client))),
        prop_oneof![Just(Admission::Open), Just(Admission::Listed)].prop_map(Order::Admit),
    ];
    prop_oneof![
        3 => client().prop_map(Step::Open),
        5 => client().prop_map(Step::Send),
        2 => client().prop_map(Step::SendAhead),
        3 => order.prop_map(Step::Direct),
    ]
}

/// The list, spelled out.
#[derive(Default)]
struct Model {
    serial: u64,
    listed: bool,
    entries: std::collections::BTreeMap<PublicKey, Option<Grant>>,
}

impl Model {
    /// Carries an order out; says whether it may be.
    fn carry_out(&mut self, order: &Order) -> bool {
        match order {
            Order::Allow(key, grant) => drop(self.entries.insert(*key, Some(grant.clone()))),
            Order::Revoke(key) => drop(self.entries.insert(*key, None)),
            Order::Forget(key) => {
                if self.entries.remove(key).is_none() {
                    return false;
                }
            }
            Order::Admit(admission) => self.listed = *admission == Admission::Listed,
        }
        self.serial += 1;
        true
    }

    fn may_write(&self, key: &PublicKey) -> bool {
        match self.entries.get(key) {
            Some(Some(grant)) => grant.write,
            Some(None) => false,
            None => !self.listed,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whatever is ordered, and wherever a replica takes over a snapshot: commands execute if and
    /// only if the list admitted their sender when they came, with what it was granted then;
    /// nobody has a session who may have none; and replicas agree.
    #[test]
    fn rights_are_those_of_the_moment(
        blocks in prop::collection::vec(prop::collection::vec(steps(), 0..8), 1..24),
        restore_at in 0..24usize,
    ) {
        let (mut one, mut model) = (governed(), Model::default());
        let mut two = one.clone_by_snapshot();
        let (mut number, mut incarnation) = (0, 1);
        let mut expected = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            for step in block {
                let session = |client| session_of(&one, client);
                let frame = match step {
                    Step::Open(client) => {
                        incarnation += 1;
                        open(*client, incarnation)
                    }
                    Step::Send(client) => {
                        let (id, next) = session(*client).unwrap_or((99, 1));
                        if id != 99 {
                            prop_assert!(model.may_write(&key(*client)));
                            let grant = model.entries.get(&key(*client)).cloned().flatten();
                            expected.push((key(*client), grant));
                        }
                        frame(*client, id, next, &["x"])
                    }
                    Step::SendAhead(client) => {
                        let (id, next) = session(*client).unwrap_or((99, 1));
                        frame(*client, id, next + 1000, &["waits for ever"])
                    }
                    Step::Direct(order) => {
                        number += 1;
                        let serial = model.serial + 1;
                        model.carry_out(order);
                        directive(number, serial, order.clone())
                    }
                };
                // One a block, so that the sessions above are those of the moment.
                let frames = [frame];
                let result = execute(&mut one, &frames);
                prop_assert_eq!(&result, &execute(&mut two, &frames));
                for client in 1..5 {
                    let lives = session_of(&one, client).is_some();
                    prop_assert!(!lives || model.may_write(&key(client)), "{client} has a session");
                }
            }
            prop_assert_eq!(chunks_of(&one.snapshot()), chunks_of(&two.snapshot()));
            if at == restore_at {
                two = one.clone_by_snapshot();
            }
        }
        prop_assert_eq!(&one.application().callers, &expected);
        let clients = one.sessions().clients();
        let listed = clients.entries().map(|(key, entry)| (*key, match entry {
            Entry::Granted(grant) => Some(Grant::clone(grant)),
            Entry::Revoked => None,
        }));
        prop_assert!(listed.eq(model.entries));
        prop_assert_eq!(clients.next_serial(), model.serial + 1);
    }
}
