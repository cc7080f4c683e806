//! Grants with a quota of stored bytes: from which rules on there are any, and where they stand.

use std::num::NonZeroU64;
use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::base::membership::Rules;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::change::{Change, SignedChange};
use quorate_core::ledger::clients::{Admission, Clients, Grant};
use quorate_core::ledger::directive::{Directive, Order, Refusal, SignedDirective};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::sessions::Limits;
use quorate_core::{Digest, Epoch, ReplicaId, SessionId};

use crate::clients::{ADMINISTRATOR, committee, directive, signed_by, told};
use crate::fixtures::*;

const OLD: Rules = Rules { core: 1, application: 1 };
const NEW: Rules = Rules { core: Rules::QUOTAS, application: 1 };

fn quota(bytes: u64) -> Grant {
    Grant { stored_bytes: NonZeroU64::new(bytes), ..Grant::default() }
}

/// A state under these rules, in which the administrator has session 1.
fn under(rules: Rules) -> Execution<Journal> {
    let mut state = state(Limits::default()).governed_by(&committee().under(rules));
    assert_eq!(outcomes(&mut state, &[open(ADMINISTRATOR, 1)]), [opened(1, 1)]);
    state
}

/// What release 0.1.0 answers to a directive of a format that it does not know. Replies are a part
/// of the state, so that not one letter may differ before the rules are switched on.
const UNKNOWN: &str = "the directive cannot be read: invalid format tag: this program reads \
                       directives of format 1";

#[test]
fn before_their_rules_quotas_are_answered_as_by_a_program_without_them() {
    let mut state = under(OLD);
    let good = directive(1, 1, Order::Allow(key(1), quota(5000)));
    let mut cut = signed_by(&[ADMINISTRATOR], 1, Order::Allow(key(1), quota(5000)));
    cut.truncate(25);
    let cut = signed_frame(ADMINISTRATOR, 1, 2, &[cut], 0);
    for frame in [good, cut] {
        let told = told(&outcomes(&mut state, &[frame])[0]);
        assert_eq!(told, Err(UNKNOWN.to_owned()));
    }
    assert_eq!(state.sessions().clients().next_serial(), 1);
    assert_eq!(state.summary().clients, Digest::default());
}

#[test]
fn under_their_rules_the_application_is_told_of_the_quota() {
    let mut state = under(NEW);
    let allow = directive(1, 1, Order::Allow(key(1), quota(5000)));
    assert_eq!(told(&outcomes(&mut state, &[allow])[0]), Ok(1));
    outcomes(&mut state, &[open(1, 1), frame(1, 2, 1, &["a"])]);
    assert_eq!(state.application().callers, [(key(1), Some(quota(5000)))]);
    // Snapshots carry it, and it is a part of the root.
    let chunks = chunks_of(&state.snapshot());
    let restored = Execution::restore(
        Journal::default(),
        Limits::default(),
        &mut chunks.into_iter(),
        state.state_root(),
    );
    let restored = restored.expect("an honest snapshot");
    assert_eq!(restored.sessions().clients().grant(&key(1)), Some(&Arc::new(quota(5000))));
    let mut other = under(NEW);
    outcomes(&mut other, &[directive(1, 1, Order::Allow(key(1), quota(5001)))]);
    assert_ne!(other.summary().clients, state.summary().clients);
}

#[test]
fn a_list_with_quotas_has_one_encoding_and_one_without_has_the_former() {
    let list = |grant: Grant| {
        let order = Order::Allow(key(1), grant);
        let approvals = (0..2).map(|at| (key(ADMINISTRATOR + at), Signature::NONE)).collect();
        let signed = SignedDirective { directive: Directive { serial: 1, order }, approvals };
        signed.judge(&committee().under(NEW), &Clients::default()).expect("it is approved")
    };
    let (with, without) = (list(quota(7)), list(Grant::default()));
    assert_eq!(with.to_bytes().len(), without.to_bytes().len() + 8);
    for clients in [&with, &without] {
        assert_eq!(Clients::from_bytes(clients.to_bytes().into()).as_ref(), Ok(clients));
    }
    let zero: Vec<u8> =
        with.to_bytes().iter().map(|byte| if *byte == 7 { 0 } else { *byte }).collect();
    assert!(Clients::from_bytes(zero.into()).is_err(), "no quota is none, and not zero");
}

#[test]
fn administrators_sign_the_quota_and_a_client_is_told_that_it_is_too_early() {
    let order = |bytes| Order::Allow(key(1), quota(bytes));
    let of = |order| Directive { serial: 1, order };
    let statements = [of(order(5)), of(order(6)), of(Order::Allow(key(1), Grant::default()))];
    let [five, six, none] = statements.map(|directive| directive.approval(&CHAIN));
    assert!(five != six && five != none && six != none);
    let signed = SignedDirective { directive: of(order(5)), approvals: Vec::new() };
    let refused = signed.judge(&committee(), &Clients::default());
    let too_few = Err(Refusal::NotApproved { found: 0, needed: 2 });
    assert_eq!(refused, too_few);
    let approvals = (0..2).map(|at| (key(ADMINISTRATOR + at), Signature::NONE)).collect();
    let signed = SignedDirective { approvals, ..signed };
    let refused = signed.judge(&committee(), &Clients::default()).unwrap_err();
    assert_eq!(refused, Refusal::NoQuotasYet { current: OLD });
    assert!(refused.to_string().contains("quorate upgrade switch"), "{refused}");
    assert_eq!(SignedDirective::of_command(&signed.to_command()), Ok(signed));
}

#[test]
fn a_quota_in_front_of_another_order_is_no_directive() {
    let other = SignedDirective {
        directive: Directive { serial: 1, order: Order::Admit(Admission::Open) },
        approvals: Vec::new(),
    };
    let with = signed_by(&[ADMINISTRATOR], 1, Order::Allow(key(1), quota(9)));
    let forged = [&with[..19 + 8], &other.to_bytes()].concat();
    assert!(SignedDirective::of_command(&forged).is_err());
    let zero = [&with[..19], &[0; 8], &with[19 + 8..]].concat();
    assert!(SignedDirective::of_command(&zero).is_err());
    let longer = [&with[..], b"x"].concat();
    assert!(SignedDirective::of_command(&longer).is_err());
}

/// Signatures are verified before a block is voted for, so that programs must agree on which.
#[test]
fn the_signatures_that_a_frame_rests_on_are_those_that_its_rules_know() {
    let frame = directive(1, 1, Order::Allow(key(1), quota(5000)));
    let checks =
        |rules| Arc::<Frame>::clone(&frame).claim_with_approvals(&CHAIN, rules).checks().len();
    assert_eq!((checks(OLD), checks(NEW)), (1, 3), "the client's, and those of two administrators");
}

/// The rules are switched on, by the first frame of the administrator's session.
fn switch(state: &mut Execution<Journal>) {
    let (members, governance) = (committee().members().to_vec(), committee().governance().clone());
    let change = Change { ends: Epoch(0), members, governance, rules: NEW };
    let approvals = (0..2).map(|at| (key(ADMINISTRATOR + at), Signature::NONE)).collect();
    let ready = (0..4).map(|id| (ReplicaId(id), Signature::NONE)).collect();
    let command = SignedChange { change, approvals, ready, shares: None }.to_command();
    assert!(execute(state, &[signed_frame(ADMINISTRATOR, 1, 1, &[command], 0)]).sealed);
    state.open_epoch(Digest([8; 32])).expect("the next epoch");
}

fn restored(state: &Execution<Journal>) -> Execution<Journal> {
    let mut chunks = chunks_of(&state.snapshot()).into_iter();
    let (journal, root) = (Journal::default(), state.state_root());
    Execution::restore(journal, Limits::default(), &mut chunks, root).expect("an honest snapshot")
}

/// Nobody verifies its approvals before the switch: programs see no directive in it. By the rules
/// behind the switch it would be one with a good serial and enough approvals.
#[test]
fn a_directive_that_waits_for_the_switch_is_never_carried_out() {
    let mut state = under(OLD);
    let lift =
        signed_by(&[ADMINISTRATOR, ADMINISTRATOR + 1], 1, Order::Allow(key(1), quota(u64::MAX)));
    let forged = signed_frame(1, 2, 2, &[lift], 0);
    let others = [frame(1, 2, 3, &["c"]), frame(1, 2, 5, &["e"])];
    let waiting = [vec![forged], others.to_vec()].concat();
    outcomes(&mut state, &[open(1, 1)]);
    assert_eq!(outcomes(&mut state, &waiting), [], "they wait for the first number");
    let mut other = restored(&state);
    for state in [&mut state, &mut other] {
        switch(state);
        let first = outcomes(state, &[frame(1, 2, 1, &["a"])]);
        assert_eq!(first, [executed(2, 1, 0, &["a"])]);
        assert_eq!(state.sessions().clients().next_serial(), 1);
        assert_eq!(state.sessions().clients().grant(&key(1)), None);
    }
    assert_eq!(state.state_root(), other.state_root());
    assert_eq!(restored(&state).state_root(), state.state_root());
    // Nothing else that waited is lost.
    let (second, third) = (executed(2, 2, 1, &["b"]), executed(2, 3, 2, &["c"]));
    assert_eq!(outcomes(&mut state, &[frame(1, 2, 2, &["b"])]), [second, third]);
    assert_eq!(state.sessions().next_number(SessionId(2)).map(|next| next.0), Some(4));
}
