//! What stable checkpoints of PBFT prove to a client, through the same code as HotStuff's
//! certificates.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::decided::{Decided, Follow, NotDecided};
use quorate_core::client::proven::{Answer, Bound, Newest, NotProven, Proofs};
use quorate_core::ledger::block::{Block, FullBlock};
use quorate_core::ledger::execution::StateSummary;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::pbft::words::Content;
use quorate_core::protocols::pbft::{Authentication, Domain, Types};
use quorate_core::protocols::protocol::{Malformed, Shown};
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::decided::{CHAIN, Hashes, committee, key, sign};

type Full = FullBlock<Content>;

fn verifier() -> Domain {
    // A client cannot tell how replicas authenticate what they say to each other.
    Domain::new(committee(), Authentication::Macs)
}

fn stable(of: &Block<Content>, root: Digest, signers: &[u16]) -> Stable {
    let checkpoint = Checkpoint { height: of.height, block: of.id(), root };
    let statement = verifier().checkpoint(&checkpoint);
    let signed = |signer: &u16| (ReplicaId(*signer), sign(key(*signer), &statement));
    Stable { checkpoint, signatures: signers.iter().map(signed).collect() }
}

/// A chain of so many blocks; those of `carriers` carry the checkpoint of a block below, which
/// these replicas signed: `(height, height of the checkpoint, signers)`.
fn chain(length: u64, carriers: &[(u64, u64, &[u16])]) -> Vec<Full> {
    let mut blocks = vec![Arc::new(Block::new(Content::genesis(&committee())))];
    for height in 1..=length {
        let carried = carriers.iter().find(|(at, ..)| *at == height);
        let stable = carried
            .map(|(_, below, signers)| stable(&blocks[*below as usize], Digest([3; 32]), signers));
        let (parent, height) = (blocks[height as usize - 1].id(), Height(height));
        let (epoch, view, frames) = (Epoch(0), View(2), Vec::new());
        blocks.push(Arc::new(Block::new(Content { epoch, view, height, parent, stable, frames })));
    }
    let full = |block: Arc<Block<Content>>| FullBlock { block, frames: Vec::new() };
    blocks.into_iter().skip(1).map(full).collect()
}

fn encoded(blocks: &[Full]) -> Vec<Bytes> {
    blocks.iter().map(|full| full.to_bytes().into()).collect()
}

#[test]
fn a_carried_checkpoint_decides_the_blocks_up_to_its_own() {
    let blocks = chain(8, &[(5, 3, &[0, 1, 2]), (8, 6, &[1, 2, 3])]);
    let bytes = encoded(&blocks);
    let mut decided = Decided::new(verifier(), Height(1));
    let mut out = Vec::new();
    let mut heights = Vec::new();
    for block in &bytes {
        out.extend(decided.take(std::slice::from_ref(block), &Hashes).unwrap());
        heights.push(out.len());
    }
    assert_eq!(heights, [0, 0, 0, 0, 3, 3, 3, 6]);
    assert_eq!(out, blocks[..6]);
    let mut follow: Box<dyn Follow> = Box::new(Decided::new(verifier(), Height(3)));
    let pulled = follow.take(&bytes[2..], &Hashes).unwrap();
    let seen: Vec<_> = pulled.iter().map(|one| (one.height.0, one.proposer)).collect();
    assert_eq!(seen, [3, 4, 5, 6].map(|height| (height, Some(ReplicaId(1)))));
    assert_eq!(follow.wanted(), Height(9));
}

#[test]
fn checkpoints_that_prove_nothing_are_refused() {
    let block = |height, reason| Err(NotDecided::Block { height: Height(height), reason });
    let take = |blocks: &[Full]| {
        Decided::new(verifier(), Height(1)).take(&encoded(blocks), &Hashes).map(|out| out.len())
    };
    assert_eq!(take(&chain(5, &[(5, 3, &[0, 1])])), block(5, Malformed::NoQuorum));
    assert_eq!(take(&chain(5, &[(5, 3, &[0, 1, 1])])), block(5, Malformed::UnorderedSigners));
    assert_eq!(take(&chain(5, &[(5, 3, &[0, 1, 4])])), block(5, Malformed::UnknownSigner));
    // Of this height, or of a later one.
    let good = chain(5, &[(5, 3, &[0, 1, 2])]);
    let with = |change: fn(&mut Content)| {
        let mut content = (**good[4].block).clone();
        change(&mut content);
        let last = FullBlock { block: Arc::new(Block::new(content)), frames: Vec::new() };
        [&good[..4], &[last]].concat()
    };
    let late = |content: &mut Content| {
        if let Some(stable) = &mut content.stable {
            stable.checkpoint.height = Height(5);
        }
    };
    assert_eq!(take(&with(late)), block(5, Malformed::Contradiction));
    let other_root = |content: &mut Content| {
        if let Some(stable) = &mut content.stable {
            stable.checkpoint.root = Digest([4; 32]);
        }
    };
    assert_eq!(take(&with(other_root)), Err(NotDecided::Signature(Height(5))));
    assert_eq!(take(&with(|content| content.epoch = Epoch(1))), block(5, Malformed::WrongEpoch));
    let unlinked = with(|content| content.parent = Digest([1; 32]));
    assert_eq!(take(&unlinked), Err(NotDecided::NotLinked(Height(5))));
    // A checkpoint of another fork decides nothing here.
    let fork = chain(4, &[(4, 2, &[0, 1, 2])]);
    let elsewhere = stable(&fork[3].block, Digest([3; 32]), &[0, 1, 2]);
    let mut content = (**good[4].block).clone();
    content.stable = Some(elsewhere);
    let last = FullBlock { block: Arc::new(Block::new(content)), frames: Vec::new() };
    assert_eq!(take(&[&good[..4], &[last]].concat()), Ok(0));
    assert_eq!(take(&good), Ok(3));
}

#[test]
fn a_checkpoint_proves_the_state_behind_its_block() {
    let state = StateSummary {
        height: Height(4),
        block_id: Digest([4; 32]),
        application: Digest([5; 32]),
        sessions: Digest([6; 32]),
        members: Digest::default(),
        clients: Digest::default(),
    };
    let blocks = chain(5, &[]);
    let shown = |signers: &[u16]| Shown::<Types> {
        block: Arc::clone(&blocks[3].block),
        evidence: stable(&blocks[3].block, state.root(), signers),
    };
    let proofs: &dyn Proofs = &verifier();
    let content = Bytes::from_static(b"content");
    let answer = |shown| Answer { chain: CHAIN, state, shown, content: content.clone() };
    let ask = |answer: Answer<Types>| {
        let bound = Bound { newest: Height(9), max_lag_blocks: 5 };
        proofs.state(answer.to_bytes().into(), &Hashes, bound)
    };
    let proven = ask(answer(shown(&[0, 2, 3]))).unwrap();
    assert_eq!((proven.height, proven.lag_blocks), (Height(4), 5));
    assert_eq!((proven.application, proven.content), (state.application, content.clone()));
    let few = NotProven::Certificate(Malformed::NoQuorum);
    assert_eq!(ask(answer(shown(&[0, 2]))), Err(few));
    let lent = Shown { block: Arc::clone(&blocks[4].block), ..shown(&[0, 2, 3]) };
    assert_eq!(ask(answer(lent.clone())), Err(NotProven::OtherBlock));
    let other = StateSummary { height: Height(3), ..state };
    let other = Answer { state: other, ..answer(shown(&[0, 2, 3])) };
    assert_eq!(ask(other), Err(NotProven::Root(Height(3))));

    let newest =
        |shown| proofs.newest(Newest { chain: CHAIN, newest: shown }.to_bytes().into(), &Hashes);
    assert_eq!(newest(shown(&[0, 1, 2, 3])), Ok(Height(4)));
    assert_eq!(newest(lent), Err(NotProven::OtherBlock));
    let mut forged = shown(&[0, 1, 2]);
    forged.evidence.signatures[1].1 =
        sign(key(0), &verifier().checkpoint(&forged.evidence.checkpoint));
    assert_eq!(newest(forged), Err(NotProven::Signature));
}
