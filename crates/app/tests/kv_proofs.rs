//! What one replica says is under a key: believed when it is proven, and refused by name when it is
//! not.
#![allow(missing_docs)]

mod support;

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use quorate_app::kv::command::encode;
use quorate_app::kv::feed::Head;
use quorate_app::kv::proof::{Refusal, Shown, Verified, verify};
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::base::crypto::{Check, Form, PublicKey, Scheme, Share, Signature, Statement};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::proven::{Answer, Bound, NotProven};
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::execution::StateSummary;
use quorate_core::ledger::state_machine::{Caller, Decided, Replies, StateMachine};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::rules::{Chained, Rules as _};
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::protocols::protocol::{self, Ballot, Malformed};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, View};
use quorate_merkle::ProofError;
use support::folders::InMemory;
use support::ops::{self, encode_op, op};
use support::{Owned, apply_raw, encoded, one};

const CHAIN: Digest = Digest([9; 32]);
const HEIGHT: Height = Height(7);
const BOUND: Bound = Bound { newest: Height(12), max_lag_blocks: 5 };

fn sign(key: u8, statement: &Statement) -> Signature {
    let digest = Digest::of("test signature", &[&[key], statement.as_bytes()].concat());
    Signature::from([digest.0, digest.0].concat().as_slice().try_into().unwrap_or([0; 64]))
}

/// A scheme whose signatures are hashes: only those made by [`sign`] hold.
struct Hashes;

impl Scheme for Hashes {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let holds = |check: &Check| match check {
            Check::Replica(Share { signer, statement, signature }) => {
                sign(signer.0 as u8, statement) == *signature
            }
            _ => false,
        };
        checks.iter().map(holds).collect()
    }

    fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
        None
    }
}

fn domain_of(chain: Digest, size: u8) -> Domain {
    let keys = (0..size).map(|id| ReplicaKey::from([id; 32])).collect();
    Domain::new(Committee::new(chain, Epoch(0), keys).unwrap(), Chained.facts().number)
}

fn domain() -> Domain {
    domain_of(CHAIN, 4)
}

fn verifier() -> Verifier {
    Verifier::new(domain(), Chained.facts())
}

fn certificate(domain: &Domain, of: &Block, signers: &[u16]) -> Qc {
    let statement = domain.vote(of.view, 1, &of.id());
    let mut bytes = Ballot { view: of.view, phase: 1, block: of.id() }.to_bytes();
    bytes.push(1);
    (signers.len() as u32).encode(&mut bytes);
    for signer in signers {
        ReplicaId(*signer).encode(&mut bytes);
        sign(*signer as u8, &statement).encode(&mut bytes);
    }
    Qc::from_bytes(bytes.into()).unwrap()
}

fn block(domain: &Domain, state_root: Digest) -> Block {
    let parent = Block::genesis(CHAIN, Epoch(0));
    let below = Block::new(Content { view: View(10), height: Height(10), ..(*parent).clone() });
    Block::new(Content {
        epoch: Epoch(0),
        view: View(11),
        height: Height(11),
        proposer: ReplicaId(3),
        justify: certificate(domain, &below, &[0, 1, 2]),
        state_root,
        frames: vec![Digest([5; 32])],
    })
}

/// A true answer of a replica with this store.
fn answer(store: &mut dyn StateMachine, key: &[u8]) -> Answer<Types> {
    let (application, sessions) = (store.root(), Digest([3; 32]));
    let (block_id, members, clients) = (Digest([4; 32]), Digest::default(), Digest::default());
    let state = StateSummary { height: HEIGHT, block_id, application, sessions, members, clients };
    let domain = domain();
    let block = Arc::new(block(&domain, state.root()));
    let certificate = certificate(&domain, &block, &[0, 2, 3]);
    let content = store.prover().expect("it makes proofs").prove(key).unwrap();
    Answer { chain: CHAIN, state, shown: protocol::Shown { block, evidence: certificate }, content }
}

/// The head of the change feed, as the store proves it.
fn head_of(store: &dyn StateMachine) -> Head {
    let content = store.prover().expect("it makes proofs").prove(b"").unwrap();
    Head::from_bytes(content.slice(32..SAID)).unwrap()
}

fn check(key: &[u8], answer: &Answer<Types>) -> Result<Verified, Refusal> {
    verify(&verifier(), &Hashes, key, answer.to_bytes().into(), BOUND)
}

fn filled(store: &mut dyn StateMachine) {
    for number in 0..50 {
        let key = format!("key {number}");
        one(store, |out| encode::set(out, key.as_bytes(), b"value", Condition::Always, false));
    }
    one(store, |out| encode::h_set(out, b"hash", [&b"b"[..], b"2", b"a", b"1"]));
    if let Some(keeper) = store.keeper() {
        keeper.check().unwrap();
    }
    store.root();
}

/// Both kinds of store, filled with the same.
fn stores() -> [Box<dyn StateMachine>; 2] {
    let mut stores: [Box<dyn StateMachine>; 2] =
        [Box::new(KeyValue::new()), Box::new(KeyValue::on_disk(&InMemory::default().shelf()))];
    stores.iter_mut().for_each(|store| filled(&mut **store));
    stores
}

fn text(value: &[u8]) -> Option<Shown> {
    Some(Shown::Text(value.to_vec()))
}

#[test]
fn what_is_there_and_what_is_not_is_believed_with_its_height() {
    for mut store in stores() {
        let value = |store: &mut dyn StateMachine, key: &[u8]| check(key, &answer(store, key));
        let head = head_of(&*store);
        let expected = |value| Ok(Verified { value, height: HEIGHT, lag_blocks: 5, head });
        assert_eq!(value(&mut *store, b"key 31"), expected(text(b"value")));
        assert_eq!(value(&mut *store, b"key 50"), expected(None));
        assert_eq!(value(&mut *store, b""), expected(None));
        let fields = [("a", "1"), ("b", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(value(&mut *store, b"hash"), expected(Some(Shown::Hash(fields.to_vec()))));
    }
    let empty: [Box<dyn StateMachine>; 2] =
        [Box::new(KeyValue::new()), Box::new(KeyValue::on_disk(&InMemory::default().shelf()))];
    for mut store in empty {
        assert_eq!(check(b"key", &answer(&mut *store, b"key")).unwrap().value, None);
    }
}

/// What a client with a quota wrote is proven as anything else, and who owns it as well.
#[test]
fn an_owned_value_is_believed_and_its_owner_cannot_be_forged() {
    let grant = Grant { stored_bytes: NonZeroU64::new(1000), ..Grant::default() };
    for mut store in stores() {
        let key = PublicKey([7; 32]);
        let caller = Caller { key: &key, grant: Some(&grant) };
        let set = encoded(|out| encode::set(out, b"mine", b"value", Condition::Always, false));
        let h_set = encoded(|out| encode::h_set(out, b"owned", [&b"a"[..], b"1"]));
        let (commands, callers) = ([&set[..], &h_set], [caller, caller]);
        let (height, view) = (Height(9), View(9));
        let block = Decided { height, view, rules: 1, commands: &commands, callers: &callers };
        store.apply(&block, &mut Replies::default());
        if let Some(keeper) = store.keeper() {
            keeper.check().unwrap();
        }
        let mine = answer(&mut *store, b"mine");
        assert_eq!(check(b"mine", &mine).unwrap().value, text(b"value"));
        let owned = answer(&mut *store, b"owned");
        let fields = vec![(b"a".to_vec(), b"1".to_vec())];
        assert_eq!(check(b"owned", &owned).unwrap().value, Some(Shown::Hash(fields)));
        for (name, there) in [(&b"mine"[..], &mine), (b"owned", &owned)] {
            let others = with(there, |content| content[VALUE + 1] ^= 1);
            assert_eq!(check(name, &others), Err(Refusal::ForgedValue(ProofError::Value)));
            let nobodys = with(there, |content| {
                content[VALUE] -= 2;
                content.drain(VALUE + 1..VALUE + 33);
                content[SAID + 1] -= 32;
            });
            assert_eq!(check(name, &nobodys), Err(Refusal::ForgedValue(ProofError::Value)));
        }
    }
}

#[test]
fn a_view_stays_what_it_was() {
    for mut store in stores() {
        let old = answer(&mut *store, b"key 1");
        let mut prover = store.prover().unwrap();
        for value in [&b"other"[..], b"another"] {
            one(&mut *store, |out| encode::set(out, b"key 1", value, Condition::Always, false));
            if let Some(keeper) = store.keeper() {
                keeper.check().unwrap();
            }
            store.root();
        }
        assert_eq!(prover.prove(b"key 1").unwrap(), old.content);
        assert_eq!(
            check(b"key 1", &answer(&mut *store, b"key 1")).unwrap().value,
            text(b"another")
        );
    }
}

/// The root of the map and the head of the change feed stand before all that is said of the key.
const SAID: usize = 32 + Head::BYTES;
/// Whether there is a value and its length stand before the value.
const VALUE: usize = SAID + 1 + 4;

fn with(answer: &Answer<Types>, change: impl FnOnce(&mut Vec<u8>)) -> Answer<Types> {
    let mut content = answer.content.to_vec();
    change(&mut content);
    Answer { content: content.into(), ..answer.clone() }
}

#[test]
fn forgeries_are_refused_by_name() {
    for mut store in stores() {
        let there = answer(&mut *store, b"key 1");
        let not_there = answer(&mut *store, b"no key");
        let forged_value = with(&there, |content| content[VALUE + 3] ^= 1);
        assert_eq!(check(b"key 1", &forged_value), Err(Refusal::ForgedValue(ProofError::Value)));
        // Another kind of value with the same bytes, and a kind that there is not.
        for kind in [2, 3, 4, 5] {
            let other_kind = with(&there, |content| content[VALUE] = kind);
            assert_eq!(check(b"key 1", &other_kind), Err(Refusal::ForgedValue(ProofError::Value)));
        }
        let hash = answer(&mut *store, b"hash");
        let no_kind = with(&hash, |content| content[VALUE] = 5);
        assert_eq!(check(b"hash", &no_kind), Err(Refusal::ForgedValue(ProofError::Value)));
        // A value where there is none, with the proof that there is none.
        let made_up = with(&not_there, |content| {
            content.splice(SAID..SAID + 1, [1, 2, 0, 0, 0, 1, b'x']);
        });
        assert_eq!(check(b"no key", &made_up), Err(Refusal::ForgedValue(ProofError::Value)));
        // Nothing where there is a value: with the proof of the value, and with that of another
        // absence.
        let hidden = with(&there, |content| {
            content.splice(SAID..VALUE + 6, [0]);
        });
        assert_eq!(check(b"key 1", &hidden), Err(Refusal::ForgedAbsence(ProofError::Value)));
        let elsewhere = check(b"key 1", &not_there);
        assert!(matches!(elsewhere, Err(Refusal::ForgedAbsence(_))), "{elsewhere:?}");
        // The true answer to another question.
        let another = check(b"key 2", &there);
        assert!(matches!(another, Err(Refusal::ForgedValue(_))), "{another:?}");
        // Another head of the change feed.
        for at in [32, SAID - 1] {
            let other_head = with(&there, |content| content[at] ^= 1);
            assert_eq!(check(b"key 1", &other_head), Err(Refusal::ForgedValue(ProofError::Root)));
        }
        // A map of its own, in which the value is what it says.
        let mut own = KeyValue::new();
        one(&mut own, |out| encode::set(out, b"key 1", b"mine", Condition::Always, false));
        let own = answer(&mut own, b"key 1").content;
        let foreign = Answer { content: own, ..there.clone() };
        assert_eq!(check(b"key 1", &foreign), Err(Refusal::ForgedValue(ProofError::Root)));
    }
}

#[test]
fn what_no_quorum_of_this_committee_signed_is_refused() {
    let mut store = KeyValue::new();
    filled(&mut store);
    let good = answer(&mut store, b"key 1");
    let refused = |answer: &Answer<Types>| match check(b"key 1", answer) {
        Err(Refusal::State(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let signed = |domain: &Domain, signers: &[u16]| {
        let certificate = certificate(domain, &good.shown.block, signers);
        Answer {
            shown: protocol::Shown { evidence: certificate, ..good.shown.clone() },
            ..good.clone()
        }
    };
    let chain = Digest([8; 32]);
    let certificate_of = |reason| NotProven::Certificate(reason);
    assert_eq!(refused(&signed(&domain(), &[0, 2])), certificate_of(Malformed::NoQuorum));
    assert_eq!(refused(&signed(&domain(), &[])), certificate_of(Malformed::NoQuorum));
    assert_eq!(
        refused(&signed(&domain(), &[0, 2, 2])),
        certificate_of(Malformed::UnorderedSigners)
    );
    assert_eq!(refused(&signed(&domain(), &[0, 2, 4])), certificate_of(Malformed::UnknownSigner));
    // The same replicas on another chain, in another epoch, in another protocol.
    assert_eq!(refused(&signed(&domain_of(chain, 4), &[0, 1, 2])), NotProven::Signature);
    let committee = |epoch| {
        let keys = (0..4).map(|id| ReplicaKey::from([id; 32])).collect();
        Committee::new(CHAIN, Epoch(epoch), keys).unwrap()
    };
    for domain in [Domain::new(committee(1), 2), Domain::new(committee(0), 5)] {
        assert_eq!(refused(&signed(&domain, &[0, 1, 2])), NotProven::Signature);
    }
    let other_chain = Answer { chain, ..good.clone() };
    assert_eq!(refused(&other_chain), NotProven::OtherChain { expected: CHAIN, found: chain });
    // Of the block below, and of no block.
    let below = good.shown.block.justify.clone();
    let shown = protocol::Shown { evidence: below, ..good.shown.clone() };
    assert_eq!(refused(&Answer { shown, ..good.clone() }), NotProven::OtherBlock);
    let genesis = Qc::genesis(good.shown.block.id());
    let shown = protocol::Shown { evidence: genesis, ..good.shown.clone() };
    assert_eq!(refused(&Answer { shown, ..good.clone() }), certificate_of(Malformed::NotGenesis));
    // A state that the block does not show.
    let state = StateSummary { height: Height(8), ..good.state };
    assert_eq!(refused(&Answer { state, ..good.clone() }), NotProven::Root(Height(8)));
}

#[test]
fn a_state_beyond_the_lag_is_stale_and_one_within_it_is_not() {
    let mut store = KeyValue::new();
    filled(&mut store);
    let bytes = Bytes::from(answer(&mut store, b"key 1").to_bytes());
    for newest in 0..20 {
        for allowed in 0..20 {
            let bound = Bound { newest: Height(newest), max_lag_blocks: allowed };
            let lag = newest.saturating_sub(HEIGHT.0);
            let found = verify(&verifier(), &Hashes, b"key 1", bytes.clone(), bound);
            if lag <= allowed {
                assert_eq!(found.unwrap().lag_blocks, lag);
            } else {
                let (height, newest) = (HEIGHT, Height(newest));
                let stale = NotProven::Stale { height, newest, lag, allowed };
                assert_eq!(found, Err(Refusal::State(stale)));
            }
        }
    }
}

/// No byte can be changed: what is said of the key, the proof, the state, the block, the
/// signatures.
#[test]
fn every_single_changed_bit_is_refused() {
    let mut store = KeyValue::new();
    filled(&mut store);
    for key in [&b"key 1"[..], b"no key", b"hash"] {
        let good = answer(&mut store, key);
        assert!(check(key, &good).is_ok());
        let bytes = good.to_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let found = verify(&verifier(), &Hashes, key, bytes.into(), BOUND);
                // Who signed the certificate *in* the block counts, and the bytes of its signatures
                // do not.
                let is_identical =
                    found.as_ref().is_ok_and(|found| *found == check(key, &good).unwrap());
                let in_justify =
                    at >= 33 + 104 && at < 33 + 104 + good.shown.block.to_bytes().len();
                assert!(found.is_err() || is_identical && in_justify, "byte {at}, bit {bit}");
            }
        }
        for length in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..length]);
            assert!(verify(&verifier(), &Hashes, key, cut, BOUND).is_err(), "{length} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever was done to a store, both kinds prove the same, and it is what they answer.
    #[test]
    fn proofs_are_of_what_is_there(blocks in vec(vec(op(), 0..12), 1..6), other in any::<Index>()) {
        let mut memory = KeyValue::new();
        let mut disk = KeyValue::on_disk(&InMemory::default().shelf());
        for (height, ops) in blocks.iter().enumerate() {
            let commands: Vec<_> = ops.iter().map(encode_op).collect();
            let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
            apply_raw(&mut memory, height as u64, &commands);
            apply_raw(&mut disk, height as u64, &commands);
            disk.keeper().unwrap().check().unwrap();
            prop_assert_eq!(memory.root(), disk.root());
        }
        // All keys there are in operations, and more.
        let keys: Vec<Vec<u8>> = (0..14).map(ops::name).collect();
        for key in &keys {
            let answer = answer(&mut memory, key);
            prop_assert_eq!(&answer.content, &disk.prover().unwrap().prove(key).unwrap());
            let verified = check(key, &answer).unwrap().value;
            let read = one(&mut memory, |out| encode::get(out, key));
            match (read, verified) {
                (Owned::Bulk(value), Some(Shown::Text(shown))) => prop_assert_eq!(value, shown),
                (Owned::Nil, None) => {}
                (Owned::Error(_), Some(Shown::Hash(fields))) => {
                    let count = one(&mut memory, |out| encode::h_len(out, key));
                    prop_assert_eq!(count, Owned::Integer(fields.len() as i64));
                }
                other => prop_assert!(false, "{:?}", other),
            }
            // It proves nothing of another key, unless one absence is that of both.
            let another = &keys[other.index(keys.len())];
            let own = memory.prover().unwrap().prove(another).unwrap();
            prop_assert_eq!(check(another, &answer).is_ok(), own == answer.content, "{:?}", another);
        }
    }

    /// Any bytes at all are refused, and nothing panics.
    #[test]
    fn anything_is_refused(bytes in vec(any::<u8>(), 0..600), content in vec(any::<u8>(), 0..200)) {
        let found = verify(&verifier(), &Hashes, b"key", bytes.into(), BOUND);
        prop_assert!(found.is_err());
        let mut store = KeyValue::new();
        filled(&mut store);
        let answer = Answer { content: content.into(), ..answer(&mut store, b"key") };
        prop_assert!(check(b"key", &answer).is_err());
    }
}
