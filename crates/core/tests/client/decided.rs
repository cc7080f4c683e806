//! Decided blocks: what proves them, and that nothing else does.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::{Check, Form, PublicKey, Scheme, Share, Signature, Statement};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::decided::{Decided, NotDecided};
use quorate_core::ledger::change::{Change, SignedChange};
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::rules::{Chained, Rules as _};
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::protocols::protocol::{Ballot, Malformed};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};

pub(crate) const CHAIN: Digest = Digest([9; 32]);

pub(crate) fn key(replica: u16) -> PublicKey {
    PublicKey([replica as u8 + 1; 32])
}

pub(crate) fn sign(key: PublicKey, statement: &Statement) -> Signature {
    let digest = Digest::of("test signature", &[&key.0[..], statement.as_bytes()].concat());
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&digest.0);
    bytes[32..].copy_from_slice(&digest.0);
    Signature::from(bytes)
}

/// A scheme whose signatures are hashes: only those made by [`sign`] hold.
pub(crate) struct Hashes;

impl Scheme for Hashes {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let holds = |check: &Check| match check {
            Check::Replica(share) => sign(key(share.signer.0), &share.statement) == share.signature,
            _ => false,
        };
        checks.iter().map(holds).collect()
    }

    fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
        None
    }
}

fn keys() -> Vec<ReplicaKey> {
    (0..4).map(|id| ReplicaKey::from(key(id).0)).collect()
}

pub(crate) fn committee() -> Committee {
    Committee::new(CHAIN, Epoch(0), keys()).unwrap()
}

pub(crate) fn domain(committee: Committee) -> Domain {
    Domain::new(committee, Chained.facts().number)
}

pub(crate) fn verifier(committee: Committee) -> Verifier {
    Verifier::new(domain(committee), Chained.facts())
}

fn follow(committee: Committee, from: Height) -> Decided<Verifier> {
    Decided::new(verifier(committee), from)
}

pub(crate) fn genesis() -> Block {
    Block::genesis(CHAIN, Epoch(0))
}

pub(crate) fn certificate(of: &Block, signers: &[u16]) -> Qc {
    if of.height == Height(0) {
        return Qc::genesis(of.id());
    }
    let statement = domain(committee()).vote(of.view, 1, &of.id());
    let mut bytes = Ballot { view: of.view, phase: 1, block: of.id() }.to_bytes();
    bytes.push(1);
    (signers.len() as u32).encode(&mut bytes);
    for signer in signers {
        ReplicaId(*signer).encode(&mut bytes);
        sign(key(*signer), &statement).encode(&mut bytes);
    }
    Qc::from_bytes(bytes.into()).unwrap()
}

fn child(of: &Block, view: u64, signers: &[u16]) -> FullBlock {
    holding(&[view as u8; 5], of, view, signers)
}

fn holding(command: &[u8], of: &Block, view: u64, signers: &[u16]) -> FullBlock {
    with_root(Digest::default(), command, of, view, signers)
}

fn with_root(
    state_root: Digest,
    command: &[u8],
    of: &Block,
    view: u64,
    signers: &[u16],
) -> FullBlock {
    let frame = Frame::build(
        PublicKey([77; 32]),
        SessionId(1),
        Sequence(view),
        [command],
        &CHAIN,
        |statement| sign(PublicKey([77; 32]), statement),
    );
    let frame = Arc::new(frame.unwrap());
    let block = Block::new(Content {
        epoch: Epoch(0),
        view: View(view),
        height: of.height.next(),
        proposer: ReplicaId((view % 4) as u16),
        justify: certificate(of, signers),
        state_root,
        frames: vec![frame.id()],
    });
    FullBlock { block: Arc::new(block), frames: vec![frame] }
}

/// A chain of blocks of these views, on the genesis block.
pub(crate) fn chain(views: &[u64]) -> Vec<FullBlock> {
    let mut chain: Vec<FullBlock> = Vec::new();
    for view in views {
        let parent = chain.last().map_or_else(genesis, |full| Block::clone(&full.block));
        chain.push(child(&parent, *view, &[0, 1, 3]));
    }
    chain
}

fn encoded(blocks: &[FullBlock]) -> Vec<Bytes> {
    blocks.iter().map(|full| full.to_bytes().into()).collect()
}

fn from(height: u64) -> Decided<Verifier> {
    follow(committee(), Height(height))
}

#[test]
fn a_block_is_handed_out_once_three_certificates_in_a_row_are_there() {
    let chain = chain(&[1, 2, 3, 4, 5, 6]);
    let blocks = encoded(&chain);
    let mut decided = from(1);
    for known in 0..6 {
        let out = decided.take(&blocks[known..=known], &Hashes).unwrap();
        assert_eq!(out.len(), usize::from(known >= 3));
        assert_eq!(out.as_slice(), &chain[known.saturating_sub(3)..][..out.len()]);
    }
    assert_eq!((decided.proven_below(), decided.wanted()), (Height(4), Height(7)));
    assert_eq!(decided.take(&[], &Hashes), Ok(Vec::new()));
    assert_eq!(from(1).take(&blocks, &Hashes).unwrap(), chain[..3]);
}

#[test]
fn views_that_do_not_follow_each_other_prove_nothing() {
    let gaps = chain(&[1, 2, 4, 5, 7, 8, 10, 11, 13, 14]);
    assert_eq!(from(1).take(&encoded(&gaps), &Hashes), Ok(Vec::new()));
    // The first three of a row commit all that is below, once the last of them is certified.
    let healed = chain(&[1, 2, 4, 5, 6, 9]);
    assert_eq!(from(1).take(&encoded(&healed[..5]), &Hashes), Ok(Vec::new()));
    assert_eq!(from(1).take(&encoded(&healed), &Hashes).unwrap(), healed[..3]);
}

#[test]
fn one_may_begin_anywhere() {
    let chain = chain(&[1, 2, 3, 4, 5, 6, 7]);
    let mut decided = from(3);
    assert_eq!(decided.wanted(), Height(3));
    assert_eq!(decided.take(&encoded(&chain[2..]), &Hashes).unwrap(), chain[2..4]);
    let wrong = from(3).take(&encoded(&chain[3..]), &Hashes);
    assert_eq!(wrong, Err(NotDecided::OutOfPlace(Height(3))));
    assert_eq!(from(0).wanted(), Height(1));
}

#[test]
fn no_byte_of_a_block_can_be_changed() {
    let chain = chain(&[1, 2, 3, 4, 5, 6]);
    let blocks = encoded(&chain);
    for at in 0..4 {
        for byte in 0..blocks[at].len() {
            let mut changed = blocks[at].to_vec();
            changed[byte] ^= 1 << (byte % 8);
            let mut tampered = blocks.clone();
            tampered[at] = changed.into();
            let mut decided = from(1);
            let refused = decided.take(&tampered, &Hashes);
            // The signature of a client's frame is no part of its identity: the quorum vouched
            // for the frame, and its bytes do not matter any more.
            let only_signature = refused.as_ref().is_ok_and(|out| {
                out.iter().zip(&chain).all(|(out, right)| {
                    out.block == right.block
                        && out.frames[0].id() == right.frames[0].id()
                        && out.frames[0].commands().eq(right.frames[0].commands())
                })
            });
            assert!(refused.is_err() || only_signature, "block {at}, byte {byte}");
            if refused.is_err() {
                assert_eq!(decided.take(&blocks, &Hashes).unwrap(), chain[..3]);
            }
        }
        for length in 0..blocks[at].len() {
            let mut cut = blocks.clone();
            cut[at].truncate(length);
            assert!(from(1).take(&cut, &Hashes).is_err(), "block {at} cut to {length}");
        }
    }
}

#[test]
fn certificates_of_too_few_or_of_others_are_refused() {
    let first = child(&genesis(), 1, &[]);
    let cases: [(&[u16], Malformed); 5] = [
        (&[0, 1], Malformed::NoQuorum),
        (&[], Malformed::NoQuorum),
        (&[0, 1, 1], Malformed::UnorderedSigners),
        (&[0, 2, 1], Malformed::UnorderedSigners),
        (&[0, 1, 4], Malformed::UnknownSigner),
    ];
    for (signers, reason) in cases {
        let second = child(&first.block, 2, signers);
        let refused = from(1).take(&encoded(&[first.clone(), second]), &Hashes);
        assert_eq!(refused, Err(NotDecided::Block { height: Height(2), reason }));
    }
    // The certificates of another chain's committee with the same keys.
    let other = Committee::new(Digest([8; 32]), Epoch(0), keys()).unwrap();
    let blocks = encoded(&chain(&[1, 2, 3, 4]));
    assert!(follow(other.clone(), Height(1)).take(&blocks, &Hashes).is_err());
    let refused = follow(other, Height(2)).take(&blocks[1..], &Hashes);
    assert_eq!(refused, Err(NotDecided::Signature(Height(2))));
}

#[test]
fn blocks_that_were_given_up_make_room_for_those_that_were_not() {
    let abandoned = chain(&[1, 2, 3]);
    let mut right = chain(&[1, 2]);
    for view in [5, 6, 7, 8] {
        let parent = Block::clone(&right[right.len() - 1].block);
        right.push(child(&parent, view, &[1, 2, 3]));
    }
    let mut decided = from(1);
    assert_eq!(decided.take(&encoded(&abandoned), &Hashes), Ok(Vec::new()));
    let unlinked = decided.take(&encoded(&right[3..]), &Hashes);
    assert_eq!(unlinked, Err(NotDecided::NotLinked(Height(4))));
    assert_eq!(decided.wanted(), Height(1));
    assert_eq!(decided.take(&encoded(&right), &Hashes).unwrap(), right[..3]);
    // What was handed out stands: a chain beside it is no chain.
    let beside = decided.take(&encoded(&right[3..]), &Hashes);
    assert_eq!(beside, Err(NotDecided::OutOfPlace(Height(7))));
}

/// The first committee of the same members, which an administrator may change.
fn governed() -> Committee {
    let members = keys().into_iter().map(|key| Some(Member::new(key))).collect();
    let opening = Opening { after: CHAIN, height: Height(0) };
    let governance = Governance { administrators: vec![key(50)], approvals: 1 };
    Committee::with_members(CHAIN, Epoch(0), opening, members, governance).unwrap()
}

/// A change that is signed by these administrators.
fn change_by(administrators: &[PublicKey]) -> Vec<u8> {
    let committee = governed();
    let mut members = committee.members().to_vec();
    members[0].as_mut().unwrap().weight = 2;
    let (governance, rules) = (committee.governance().clone(), committee.rules());
    let change = Change { ends: Epoch(0), members, governance, rules };
    let approvals = administrators.iter().map(|key| (*key, Signature::NONE)).collect();
    let ready = (0..3).map(|id| (ReplicaId(id), Signature::NONE)).collect();
    SignedChange { change, approvals, ready, shares: None }.to_command()
}

/// Eight blocks, the third of which holds such a change.
fn with_a_change(administrators: &[PublicKey]) -> Vec<FullBlock> {
    let command = change_by(administrators);
    let mut chain = chain(&[1, 2]);
    for view in 3..=8 {
        let parent = Block::clone(&chain[view as usize - 2].block);
        chain.push(match view {
            3 => holding(&command, &parent, view, &[0, 1, 3]),
            _ => child(&parent, view, &[0, 1, 3]),
        });
    }
    chain
}

fn heights(blocks: &[FullBlock]) -> Vec<u64> {
    blocks.iter().map(|full| full.block.height.0).collect()
}

/// The old committee goes on above the block that sealed its epoch, with certificates that hold.
#[test]
fn nothing_above_the_end_of_an_epoch_is_handed_out() {
    let blocks = with_a_change(&[key(50)]);
    let (all, end) = (encoded(&blocks), blocks[2].block.id());
    let mut decided = follow(governed(), Height(1));
    assert_eq!(heights(&decided.take(&all, &Hashes).unwrap()), [1, 2]);
    let mut deceived = decided.clone();
    // What is proven to have ended the epoch is decided, whatever follows.
    assert_eq!(heights(&decided.ends_at(Height(3), end)), [3]);
    assert!(decided.is_over() && decided.wanted() == Height(4));
    assert_eq!(decided.take(&all[3..], &Hashes).unwrap(), []);
    // Another block stands in its place: it is forgotten, and not taken again.
    assert_eq!(deceived.ends_at(Height(3), Digest([3; 32])), []);
    assert_eq!(deceived.take(&all[2..], &Hashes), Err(NotDecided::NotLinked(Height(3))));

    // The end is known before the blocks, and a few of them alone prove themselves by it.
    let mut decided = follow(governed(), Height(1));
    assert_eq!(decided.ends_at(Height(3), end), []);
    assert_eq!(heights(&decided.take(&all[..3], &Hashes).unwrap()), [1, 2, 3]);
    assert!(decided.is_over());
}

#[test]
fn a_change_that_is_refused_holds_nothing_back() {
    let all = encoded(&with_a_change(&[]));
    let mut decided = follow(governed(), Height(1));
    assert_eq!(heights(&decided.take(&all, &Hashes).unwrap()), [1, 2, 3, 4, 5]);
}

/// Twelve blocks, the third of which holds a change that may be made. Each carries the root of the
/// state of this height.
fn with_roots(state: impl Fn(u64) -> u64) -> Vec<FullBlock> {
    let change = change_by(&[key(50)]);
    let mut chain: Vec<FullBlock> = Vec::new();
    for view in 1..=12 {
        let parent = chain.last().map_or_else(genesis, |full| Block::clone(&full.block));
        let root = Digest::of("test root", &state(view).to_le_bytes());
        let command = if view == 3 { change.clone() } else { vec![view as u8; 5] };
        chain.push(with_root(root, &command, &parent, view, &[0, 1, 3]));
    }
    chain
}

/// A change may be refused for what no block tells: its session takes no more, or members generated
/// another key meanwhile. The state goes on then, and blocks tell that.
#[test]
fn a_change_that_was_not_made_holds_back_nothing_once_the_state_goes_on() {
    // A block carries the root of what its ancestors decide: four below it.
    let committed = |height: u64| height.saturating_sub(4);
    let all = encoded(&with_roots(committed));
    let mut decided = follow(governed(), Height(1));
    assert_eq!(heights(&decided.take(&all[..10], &Hashes).unwrap()), [1, 2]);
    assert_eq!(heights(&decided.take(&all[10..], &Hashes).unwrap()), [3, 4, 5, 6, 7, 8, 9]);
    // A sealed state stays what it is, however long the old committee goes on.
    let sealed = encoded(&with_roots(|height| committed(height).min(3)));
    let mut decided = follow(governed(), Height(1));
    assert_eq!(heights(&decided.take(&sealed, &Hashes).unwrap()), [1, 2]);
    // States below the change tell nothing of it.
    let late = encoded(&with_roots(|height| committed(height.min(7))));
    let mut decided = follow(governed(), Height(1));
    assert_eq!(heights(&decided.take(&late, &Hashes).unwrap()), [1, 2]);
}
