//! The largest things there can be, made and measured.

use std::sync::Arc;

use super::*;
use crate::base::crypto::Signature;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode as _, Encode as _};
use crate::ledger::block::MAX_FRAMES;
use crate::ledger::frame::Frame;
use crate::protocols::hotstuff::block::{Block, Content, FullBlock, Header, SharedBlock};
use crate::protocols::hotstuff::certificate::{Proof, Qc, Tc, TimeOut, Vote};
use crate::protocols::hotstuff::safety::Safety;
use crate::protocols::hotstuff::{Message, Types};
use crate::protocols::protocol::{Ballot, Shown};
use crate::replica::SnapshotMeta;
use crate::replica::message::{Offer, PeerMessage, within};

const SIZES: [usize; 5] = [1, 4, 63, 100, MAX_REPLICAS];

fn signature() -> Signature {
    Signature::from([9; 64])
}

/// A certificate with everybody's signature.
fn qc(replicas: usize, view: u64) -> Qc {
    let ballot = Ballot { view: View(view), phase: 1, block: Digest([view as u8; 32]) };
    let list = (0..replicas as u16).map(|id| (ReplicaId(id), signature())).collect();
    let mut bytes = ballot.to_bytes();
    Proof::List(list).encode(&mut bytes);
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn tc(replicas: usize, carries_all_qcs: bool) -> Tc {
    let entries: Vec<_> = (0..replicas as u16).map(|id| (ReplicaId(id), View(8))).collect();
    let qcs = if carries_all_qcs { replicas } else { 1 };
    let mut bytes = View(9).to_bytes();
    crate::base::wire::put_list(&mut bytes, &entries);
    crate::base::wire::put_list(&mut bytes, &vec![signature(); replicas]);
    crate::base::wire::put_list(&mut bytes, &vec![qc(replicas, 8); qcs]);
    Tc::from_bytes(bytes.into()).expect("well formed")
}

fn block(replicas: usize, height: u64, frames: usize) -> SharedBlock {
    Arc::new(Block::new(Content {
        epoch: Epoch(1),
        view: View(height),
        height: Height(height),
        proposer: ReplicaId(0),
        justify: qc(replicas, height - 1),
        state_root: Digest([7; 32]),
        frames: (0..frames).map(|frame| Digest([frame as u8; 32])).collect(),
    }))
}

/// A frame with so many bytes of commands.
fn frame(bytes: usize) -> Arc<Frame> {
    let command = vec![1; bytes - 4];
    let frame = Frame::build(
        crate::base::crypto::PublicKey([1; 32]),
        crate::SessionId(1),
        crate::Sequence(1),
        [&command[..]],
        &Digest::default(),
        |_| signature(),
    );
    Arc::new(frame.expect("it fits"))
}

fn full(replicas: usize) -> FullBlock {
    let frame = frame(MAX_BODY_BYTES);
    let content = Content { frames: vec![frame.id()], ..Content::clone(&block(replicas, 5, 0)) };
    FullBlock { block: Arc::new(Block::new(content)), frames: vec![frame] }
}

fn recent(replicas: usize) -> Vec<Header> {
    vec![block(replicas, 4, MAX_FRAMES).header().clone(); MAX_WINDOW]
}

#[test]
fn certificates_headers_and_blocks_are_as_long_as_said() {
    for n in SIZES {
        assert_eq!(qc(n, 3).to_bytes().len(), qc_bytes(n));
        for all in [false, true] {
            assert_eq!(tc(n, all).to_bytes().len(), tc_bytes(n, all));
        }
        let block = block(n, 3, MAX_FRAMES);
        assert_eq!(block.header().to_bytes().len(), header_bytes(n));
        assert_eq!(block.to_bytes().len(), block_bytes(n));
    }
}

/// Fast-HotStuff with lists of signatures: 134,987 bytes among 63 replicas, and 4 MiB among 256.
#[test]
fn safety_records_are_as_long_as_said() {
    for n in SIZES {
        for all in [false, true] {
            let ballot = Ballot { view: View(9), phase: 1, block: Digest([9; 32]) };
            let safety = Safety {
                voted: Some(ballot),
                lock: qc(n, 7),
                high_qc: qc(n, 8),
                high_tc: Some(tc(n, all)),
                ..Safety::new(Digest::default())
            };
            assert_eq!(safety.to_bytes().len(), safety_bytes_of(n, all), "{n}");
        }
    }
}

/// Elections look back on blocks, not on what they carry: the same metadata with the blocks as a
/// whole would have 17 MiB.
#[test]
fn what_is_kept_beside_a_snapshot_does_not_grow_with_its_blocks_frames() {
    for n in SIZES {
        let meta = SnapshotMeta::<Types> {
            block: block(n, 5, MAX_FRAMES),
            committed: Height(3),
            recent: recent(n),
            roots: vec![Digest::default(); MAX_ROOTS],
        };
        assert_eq!(meta.to_bytes().len(), snapshot_meta_bytes(n));
        assert_eq!(SnapshotMeta::<Types>::from_bytes(meta.to_bytes().into()).as_ref(), Ok(&meta));
        let offer = Offer::<Types> {
            epoch: Epoch(0),
            block: block(n, 5, MAX_FRAMES),
            recent: recent(n),
            shown: Shown { block: block(n, 6, MAX_FRAMES), evidence: qc(n, 6) },
        };
        assert_eq!(offer.to_bytes().len(), offer_bytes(n));
    }
}

/// The header of a block that came from a peer has the block's identity, or another one.
#[test]
fn a_header_hashes_to_its_block() {
    let block = block(7, 5, 3);
    let header = Header::from_bytes(block.header().to_bytes().into()).expect("well formed");
    assert_eq!((&header, header.id()), (block.header(), block.id()));
    assert!(!header.is_empty() && self::block(7, 5, 0).header().is_empty());
    let bytes = block.header().to_bytes();
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        if let Ok(other) = Header::from_bytes(other.into()) {
            assert_ne!(other.id(), block.id(), "byte {at}");
        }
    }
}

#[test]
fn answers_and_proposals_fit_a_peers_message() {
    let fits = |message: PeerMessage<Types>, said: usize| {
        let length = message.to_bytes().len();
        assert!(length <= said && said <= MAX_PEER_MESSAGE_BYTES, "{length} {said}");
    };
    let n = MAX_REPLICAS;
    let recorded = full(n).to_bytes().len();
    assert!(recorded <= full_block_bytes(n, MAX_BATCH_BYTES), "{recorded}");
    let answer = within(vec![full(n); 4], BUDGET_BYTES);
    assert_eq!(answer.len(), 2);
    fits(PeerMessage::Chain(answer), chain_bytes(n, MAX_BATCH_BYTES));
    let (high_qc, high_tc) = (qc(n, 8), Some(tc(n, true)));
    let ballot = Ballot { view: View(9), phase: 1, block: Digest([9; 32]) };
    let last_vote = Vote { ballot, voter: ReplicaId(0), signature: signature() };
    let (view, replica, signature) = (View(9), ReplicaId(0), signature());
    let time_out = TimeOut { view, high_qc_view: View(8), replica, signature };
    let last_vote = Some(Box::new(last_vote));
    let (block, tc) = (block(n, 9, MAX_FRAMES), high_tc.clone());
    let frames = vec![frame(1 << 20)];
    let proposal =
        PeerMessage::Protocol { epoch: Epoch(0), message: Message::Proposal { block, tc }, frames };
    fits(proposal, protocol_message_bytes(n, (1 << 20) + OVERHEAD_BYTES));
    let message = Message::TimeOut { time_out, high_qc, high_tc, last_vote };
    fits(PeerMessage::of(message), protocol_message_bytes(n, 0));
    let frames = PeerMessage::Frames(vec![frame(MAX_BODY_BYTES); 2]);
    fits(frames, largest_peer_message_bytes(0));
}
