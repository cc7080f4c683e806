//! What is newest, and the messages around proven answers. (Answers themselves:
//! crates/app/tests/kv_proofs.rs.)

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_core::base::crypto::{PublicKey, SHARE_KEY_BYTES, ShareKeys, Signature};
use quorate_core::base::membership::Rules;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::MAX_QUESTION_BYTES;
use quorate_core::client::message::{
    Generating, OfferedKey, Program, Request, Response, ShareWord, Unproven,
};
use quorate_core::client::proven::{Answer, Newest, NotProven, newest};
use quorate_core::ledger::execution::StateSummary;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::protocol::{Malformed, Shown};
use quorate_core::{Digest, Epoch, Height, ReplicaId};

use crate::decided::{CHAIN, Hashes, certificate, chain, committee, genesis, verifier};

fn shown(block: &Block, signers: &[u16]) -> Newest<Types> {
    let certificate = certificate(block, signers);
    Newest { chain: CHAIN, newest: Shown { block: Arc::new(block.clone()), evidence: certificate } }
}

fn verify(shown: &Newest<Types>) -> Result<Height, NotProven> {
    let decoded = Newest::<Types>::from_bytes(shown.to_bytes().into()).unwrap();
    assert_eq!(decoded, *shown);
    decoded.verify(&verifier(committee()), &Hashes)
}

#[test]
fn a_height_counts_with_its_certificate_alone() {
    let blocks = chain(&[1, 2, 5]);
    let [.., below, last] = &blocks[..] else { unreachable!("three blocks") };
    let good = shown(&last.block, &[0, 1, 3]);
    assert_eq!(verify(&good), Ok(Height(3)));
    assert_eq!(verify(&shown(&genesis(), &[])), Ok(Height(0)));
    let few = NotProven::Certificate(Malformed::NoQuorum);
    assert_eq!(verify(&shown(&last.block, &[0, 1])), Err(few));
    // The certificate of a lower block does not lend itself to a higher one.
    let mut lent = good.clone();
    lent.newest.evidence = certificate(&below.block, &[0, 1, 2]);
    assert_eq!(verify(&lent), Err(NotProven::OtherBlock));
    let mut raised = (**last.block).clone();
    raised.height = Height(1000);
    let mut forged = good.clone();
    forged.newest.block = Arc::new(Block::new(raised));
    assert_eq!(verify(&forged), Err(NotProven::OtherBlock));
    let mut other = good.clone();
    other.chain = Digest([1; 32]);
    let foreign = NotProven::OtherChain { expected: CHAIN, found: Digest([1; 32]) };
    assert_eq!(verify(&other), Err(foreign));
    let mut bytes = good.to_bytes();
    *bytes.last_mut().unwrap() ^= 1;
    let bad = Newest::<Types>::from_bytes(bytes.into()).unwrap();
    assert_eq!(bad.verify(&verifier(committee()), &Hashes), Err(NotProven::Signature));
}

#[test]
fn the_highest_of_a_quorum_is_newest_and_strangers_do_not_count() {
    let of = |heights: &[(u16, u64)]| {
        let shown: BTreeMap<_, _> = heights
            .iter()
            .map(|(replica, height)| (ReplicaId(*replica), Height(*height)))
            .collect();
        newest(&committee(), &shown)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[(0, 9), (3, 9)]), None);
    assert_eq!(of(&[(0, 9), (3, 9), (4, 11)]), None);
    assert_eq!(of(&[(0, 0), (1, 9), (3, 0)]), Some(Height(9)));
    assert_eq!(of(&[(0, 0), (1, 9), (3, 0), (4, 11)]), Some(Height(9)));
}

#[test]
fn messages_are_read_as_they_were_written() {
    let bytes = || Bytes::from_static(b"some bytes");
    let requests = [
        Request::Prove { id: 7, question: bytes() },
        Request::Newest { id: u64::MAX },
        Request::Offer { id: 9 },
        Request::Chunk { id: 10, height: Height(11), chunk: 12 },
        Request::Program { id: 13 },
        Request::Clients { id: 14 },
        Request::Changes { id: 15, from: Height(16), wait: true },
        Request::Lists { id: 17, from: Height(18), offset: 19, budget_bytes: 20 },
        Request::Generation { id: 21, key: None },
        Request::Generation { id: 21, key: Some(PublicKey([22; 32])) },
        Request::Dealing { id: 23, dealer: ReplicaId(24) },
    ];
    for request in requests {
        assert_eq!(Request::from_bytes(request.to_bytes().into()), Ok(request));
    }
    let reasons = [Unproven::Busy, Unproven::NoProofs, Unproven::Question, Unproven::Unavailable];
    let unproven = reasons.map(|reason| Response::Unproven { id: 7, reason });
    let proven =
        [Response::Proven { id: 7, answer: bytes() }, Response::Newest { id: 8, newest: bytes() }];
    let states = [
        Response::Offer { id: 9, offer: Bytes::new() },
        Response::Changes { id: 15, links: bytes() },
        Response::Lists { id: 17, page: bytes() },
        Response::Chunk { id: 10, last: true, bytes: bytes() },
        Response::Program {
            id: 13,
            program: Program {
                release: bytes(),
                versions: (3, 4),
                supports: Rules { core: 1, application: 2 },
                epoch: Epoch(5),
                rules: Rules::FIRST,
                not_ready: bytes(),
            },
        },
    ];
    let keys = (0..4).map(|id| (ReplicaId(id), [id as u8; SHARE_KEY_BYTES])).collect();
    let word = ShareWord {
        generation: Digest([25; 32]),
        keys: ShareKeys::new(3, keys).unwrap(),
        ready: Signature::from([26; 64]),
        possession: Signature::NONE,
    };
    let generating = |encryption| Generating {
        epoch: Epoch(27),
        height: Height(28),
        next_serial: 29,
        current: None,
        encryption,
        waits_for: bytes(),
    };
    let offered = OfferedKey { key: [30; 32], proof: [31; 64] };
    let generations = [
        Response::ReadyWithShares { id: 21, word: Box::new(word) },
        Response::Generation { id: 21, generating: Box::new(generating(None)) },
        Response::Generation { id: 21, generating: Box::new(generating(Some(offered))) },
        Response::Dealing { id: 23, dealing: bytes() },
    ];
    for response in unproven.into_iter().chain(proven).chain(states).chain(generations) {
        assert_eq!(Response::from_bytes(response.to_bytes().into()), Ok(response));
    }
    let question = Bytes::from(vec![0; MAX_QUESTION_BYTES + 1]);
    assert!(Request::from_bytes(Request::Prove { id: 7, question }.to_bytes().into()).is_err());
}

proptest! {
    /// Of whatever kind and version: refused or read, and nothing panics.
    #[test]
    fn any_bytes_are_read_or_refused(kind in any::<u8>(), bytes in vec(any::<u8>(), 0..400)) {
        let input = Bytes::from([&[kind % 25][..], &bytes].concat());
        let _ = Request::from_bytes(input.clone());
        let _ = Response::from_bytes(input.clone());
        let _ = Answer::<Types>::from_bytes(input.clone());
        let _ = Newest::<Types>::from_bytes(input);
    }

    /// One byte of what is well formed exchanged, or its end cut off.
    #[test]
    fn a_changed_answer_is_read_or_refused(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let block = &chain(&[1, 2])[1].block;
        let shown: Shown<Types> = Shown { block: block.clone(), evidence: certificate(block, &[0, 1, 2]) };
        let (state, content) = (StateSummary::default(), Bytes::from_static(b"content"));
        let mut bytes = Answer { chain: CHAIN, state, shown, content }.to_bytes();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
            prop_assert!(Answer::<Types>::from_bytes(bytes.into()).is_err());
        } else {
            bytes[at] = byte;
            if let Ok(answer) = Answer::<Types>::from_bytes(bytes.clone().into()) {
                prop_assert_eq!(answer.to_bytes(), bytes);
            }
        }
    }
}
