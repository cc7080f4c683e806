//! Transactions that are not taken, and the name of each reason.

mod fixtures;

use bytes::Bytes;
use fixtures::{CHAIN, address, genesis, in_memory, key, signed, transaction, verified};
use proptest::prelude::*;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::{Encode as _, Reader};
use quorate_crypto::Ed25519;
use quorate_payments::ledger::Outcome;
use quorate_payments::transaction::{Body, MAX_INPUTS, MAX_OUTPUTS, MAX_TRANSACTION_BYTES};
use quorate_payments::wallet::{PayError, pay};
use quorate_payments::{Output, OutputId, Refusal, Transaction, TransactionId};

fn output(index: u32) -> OutputId {
    OutputId { transaction: TransactionId::default(), index }
}

fn body(inputs: &[(OutputId, u8)], outputs: Vec<Output>) -> Result<Body, Refusal> {
    let owned: Vec<_> = inputs.iter().map(|(id, owner)| (*id, key(*owner).public_key())).collect();
    Body::new(&owned, outputs)
}

#[test]
fn a_transaction_is_read_back_and_its_longest_form_is_as_long_as_the_cap() {
    let inputs: Vec<_> = (0..MAX_INPUTS).map(|n| (output(n as u32), n as u8)).collect();
    let outputs: Vec<_> = (0..MAX_OUTPUTS).map(|n| (n as u8, n as u64 + 1)).collect();
    let longest = transaction(&inputs, &outputs);
    let bytes = longest.to_bytes();
    assert_eq!(bytes.len(), MAX_TRANSACTION_BYTES);
    assert_eq!(Transaction::read(Bytes::from(bytes)), Ok(longest));
}

#[test]
fn what_has_the_wrong_shape_is_refused_by_name() {
    let to = |amount| Output { to: address(1), amount };
    let twice = [(output(1), 1), (output(1), 1)];
    assert_eq!(body(&twice, vec![to(1)]), Err(Refusal::DuplicatedInput));
    assert_eq!(body(&[(output(1), 1), (output(1), 2)], vec![to(1)]), Err(Refusal::DuplicatedInput));
    let name = |refused: Result<Body, Refusal>| refused.unwrap_err().name();
    assert_eq!(name(body(&[], vec![to(1)])), "malformed");
    assert_eq!(name(body(&[(output(1), 1)], vec![])), "malformed");
    assert_eq!(name(body(&[(output(1), 1)], vec![to(0)])), "malformed");
    assert_eq!(name(body(&[(output(1), 1)], vec![to(u64::MAX), to(1)])), "malformed");
    let many: Vec<_> = (0..=MAX_INPUTS as u32).map(|n| (output(n), 1)).collect();
    assert_eq!(name(body(&many, vec![to(1)])), "too_large");
    assert_eq!(name(body(&[(output(1), 1)], vec![to(1); MAX_OUTPUTS + 1])), "too_large");
    // A count above the cap is refused before anything is read behind it.
    let read = Transaction::read(Bytes::from_static(&[255]));
    assert_eq!(read, Err(Refusal::TooLarge { what: "signers", count: 255, cap: MAX_INPUTS }));
    let long = Transaction::read(Bytes::from(vec![0; MAX_TRANSACTION_BYTES + 1]));
    assert_eq!(long.unwrap_err().name(), "too_large");
}

#[test]
fn a_signature_counts_for_its_chain_its_content_and_its_owner_alone() {
    let good = transaction(&[(output(1), 1), (output(2), 2)], &[(3, 5)]);
    assert!(verified(good.clone()).is_ok());
    let scheme = Ed25519::default();
    let elsewhere = quorate_core::Digest([4; 32]);
    let verdict = quorate_payments::verify(&scheme, &elsewhere, vec![good.clone()]);
    assert_eq!(verdict, [Err(Refusal::Unsigned)]);
    let bytes = good.to_bytes();
    for place in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[place] ^= 1;
        let read = Transaction::read(Bytes::from(wrong));
        assert!(read.and_then(verified).is_err(), "byte {place}");
    }
    // A false one takes no other of its batch with it.
    let mut wrong = bytes.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let wrong = Transaction::read(Bytes::from(wrong)).unwrap();
    assert_eq!(wrong.id(), good.id(), "the id covers no signature");
    let verdicts = quorate_payments::verify(&scheme, &CHAIN, vec![good.clone(), wrong, good]);
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let unsigned = body(&[(output(1), 1)], vec![Output { to: address(1), amount: 1 }]).unwrap();
    assert_eq!(unsigned.sign(&CHAIN, &[&key(2)]), Err(Refusal::Unsigned));
}

#[test]
fn the_ledger_refuses_by_name_and_is_left_as_it_was() {
    let genesis = genesis(2, 1, 100);
    let made: Vec<_> = genesis.outputs().map(|(id, _)| id).collect();
    let mut ledger = in_memory(&genesis);
    let first = signed(&[(made[0], 0)], &[(1, 60), (0, 40)]);
    let refused = |spends: &[(OutputId, u8)], pays: &[(u8, u64)]| signed(spends, pays);
    let unknown = OutputId { index: 9, ..made[0] };
    let cases = [
        (refused(&[(made[0], 0)], &[(1, 101)]), "overspending"),
        (refused(&[(made[0], 0)], &[(1, 99)]), "unbalanced"),
        (refused(&[(made[0], 1)], &[(1, 100)]), "foreign_input"),
        (refused(&[(unknown, 0)], &[(1, 100)]), "unknown_input"),
    ];
    let before = ledger.meta();
    for (transaction, name) in cases {
        let outcome = ledger.accept(&[transaction], &[]).unwrap();
        assert!(matches!(outcome[..], [Outcome::Refused(refusal)] if refusal.name() == name));
    }
    assert_eq!(ledger.meta(), before);
    let second = signed(&[(made[0], 0)], &[(0, 100)]);
    let outcomes = ledger.accept(&[first.clone(), second, first.clone()], &[]).unwrap();
    let spent = Refusal::Spent { output: made[0], by: first.id() };
    assert_eq!(outcomes, [Outcome::Accepted(0), Outcome::Refused(spent), Outcome::Known]);
    let view = ledger.view();
    assert_eq!([0, 1].map(|owner| view.balance(&address(owner)).unwrap()), [40, 160]);
    let history = view.history(&address(0), 0, 10).unwrap();
    assert_eq!(
        history.iter().map(|e| (e.spent, e.received)).collect::<Vec<_>>(),
        [(100, 40), (0, 100)]
    );
    assert_eq!(view.history(&address(0), 1, 10).unwrap(), history[1..]);
    assert_eq!(view.audit().unwrap().value, 200);
}

#[test]
fn a_wallet_spends_few_outputs_and_says_what_it_lacks() {
    let owner = key(1).public_key();
    let unspent: Vec<_> = (0..100).map(|n| (output(n), u64::from(n) + 1)).collect();
    let paid = pay(&owner, &unspent, address(2), 150).unwrap().sign(&CHAIN, &[&key(1)]).unwrap();
    assert_eq!(paid.inputs(), [output(98), output(99)]);
    assert_eq!(paid.total(), 199);
    let error = pay(&owner, &unspent, address(2), 5051).unwrap_err();
    assert_eq!(error, PayError::TooLittle { has: 5050, needs: 5051 });
    let error = pay(&owner, &unspent, address(2), 5050).unwrap_err();
    assert!(matches!(error, PayError::TooScattered { needs: 5050, .. }));
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same_and_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(read) = Transaction::read(Bytes::from(bytes.clone())) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
        let mut reader = Reader::new(Bytes::new());
        prop_assert!(<Transaction as quorate_core::base::wire::Decode>::decode(&mut reader).is_err());
    }
}
