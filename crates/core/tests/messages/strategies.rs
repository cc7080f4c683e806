//! Values of every kind of message and record, without any sense: what an encoding must hold.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quorate_core::base::crypto::{PublicKey, Signature, Signers};
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc, TimeOut, Vote};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::hotstuff::{Message, Types};
use quorate_core::protocols::protocol::{Ballot, Shown};
use quorate_core::replica::message::{Offer, PeerMessage, ShortId};
use quorate_core::{Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};

use crate::cluster::keys::CHAIN;

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn signature() -> impl Strategy<Value = Signature> {
    any::<u8>().prop_map(|byte| Signature::from([byte; 64]))
}

fn signers() -> impl Strategy<Value = Signers> {
    vec(0..300u16, 0..6).prop_map(|ids| ids.into_iter().map(ReplicaId).collect())
}

/// What a certificate rests on: no sense is needed to be encoded.
fn proof() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec((any::<u16>(), signature()), 0..5).prop_map(|list| raw_list(&list)),
        (signers(), signature()).prop_map(|(set, signature)| [
            vec![2],
            set.to_bytes(),
            signature.to_bytes()
        ]
        .concat()),
        signature().prop_map(|signature| [vec![3], signature.to_bytes()].concat()),
    ]
}

fn raw_list(signatures: &[(u16, Signature)]) -> Vec<u8> {
    let mut bytes = vec![1];
    (signatures.len() as u32).encode(&mut bytes);
    for (signer, signature) in signatures {
        signer.encode(&mut bytes);
        signature.encode(&mut bytes);
    }
    bytes
}

fn ballot() -> impl Strategy<Value = Ballot> {
    (any::<u64>(), any::<u8>(), digest()).prop_map(|(view, phase, block)| Ballot {
        view: View(view),
        phase,
        block,
    })
}

fn qc() -> impl Strategy<Value = Qc> {
    (ballot(), proof()).prop_map(|(ballot, proof)| certified(ballot, &proof))
}

fn certified(ballot: Ballot, proof: &[u8]) -> Qc {
    Qc::from_bytes([&ballot.to_bytes(), proof].concat().into()).expect("a certificate")
}

fn raw_tc(view: u64, time_outs: &[(u16, u64, Signature)], qcs: &[Qc]) -> Tc {
    let entries = time_outs.iter().map(|(signer, view, _)| (ReplicaId(*signer), View(*view)));
    let signatures: Vec<Signature> = time_outs.iter().map(|(.., signature)| *signature).collect();
    let mut bytes = view.to_le_bytes().to_vec();
    put_list(&mut bytes, &entries.collect::<Vec<_>>());
    put_list(&mut bytes, &signatures);
    put_list(&mut bytes, qcs);
    Tc::from_bytes(bytes.into()).expect("a certificate")
}

fn tc() -> impl Strategy<Value = Tc> {
    let time_outs = vec((any::<u16>(), any::<u64>(), signature()), 0..5);
    (any::<u64>(), time_outs, vec(qc(), 1..4))
        .prop_map(|(view, time_outs, qcs)| raw_tc(view, &time_outs, &qcs))
}

fn vote() -> impl Strategy<Value = Vote> {
    (ballot(), any::<u16>(), signature()).prop_map(|(ballot, voter, signature)| Vote {
        ballot,
        voter: ReplicaId(voter),
        signature,
    })
}

fn time_out() -> impl Strategy<Value = TimeOut> {
    (any::<u64>(), any::<u64>(), any::<u16>(), signature()).prop_map(
        |(view, high_qc_view, replica, signature)| TimeOut {
            view: View(view),
            high_qc_view: View(high_qc_view),
            replica: ReplicaId(replica),
            signature,
        },
    )
}

fn frame() -> impl Strategy<Value = SharedFrame> {
    (any::<[u8; 32]>(), 1..u64::MAX, 1..1_000_000u64, vec(vec(any::<u8>(), 0..20), 1..4)).prop_map(
        |(key, session, first, commands)| {
            let commands = commands.iter().map(Vec::as_slice);
            let (session, first) = (SessionId(session), Sequence(first));
            let sign = |_: &_| Signature::from([1; 64]);
            let frame = Frame::build(PublicKey(key), session, first, commands, &CHAIN, sign);
            Arc::new(frame.expect("a small frame"))
        },
    )
}

pub fn full_block() -> impl Strategy<Value = FullBlock> {
    (any::<(u64, u64, u64, u16)>(), qc(), digest(), vec(frame(), 0..4)).prop_map(
        |((epoch, view, height, proposer), justify, state_root, frames)| {
            let block = Arc::new(Block::new(Content {
                epoch: Epoch(epoch),
                view: View(view),
                height: Height(height),
                proposer: ReplicaId(proposer),
                justify,
                state_root,
                frames: frames.iter().map(|frame| frame.id()).collect(),
            }));
            FullBlock { block, frames }
        },
    )
}

pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (full_block(), option::of(tc()))
            .prop_map(|(full, tc)| Message::Proposal { block: full.block, tc }),
        vote().prop_map(Message::Vote),
        (time_out(), qc(), option::of(tc()), option::of(vote())).prop_map(
            |(time_out, high_qc, high_tc, last_vote)| Message::TimeOut {
                time_out,
                high_qc,
                high_tc,
                last_vote: last_vote.map(Box::new),
            }
        ),
        (qc(), option::of(tc()), option::of(qc())).prop_map(|(high_qc, high_tc, decided)| {
            Message::Advance { high_qc, high_tc, decided, is_answer: false }
        }),
        qc().prop_map(Message::Certificate),
        (any::<u64>(), qc())
            .prop_map(|(view, high_qc)| Message::NewView { view: View(view), high_qc }),
    ]
}

pub fn offer() -> impl Strategy<Value = Offer<Types>> {
    (full_block(), vec(full_block(), 0..4), full_block(), qc()).prop_map(
        |(block, recent, attesting, certificate)| Offer {
            epoch: Epoch(0),
            block: block.block,
            recent: recent.into_iter().map(|full| full.block.header().clone()).collect(),
            shown: Shown { block: attesting.block, evidence: certificate },
        },
    )
}

pub fn peer_message() -> impl Strategy<Value = PeerMessage<Types>> {
    prop_oneof![
        (any::<u64>().prop_map(Epoch), message(), vec(frame(), 0..3))
            .prop_map(|(epoch, message, frames)| PeerMessage::Protocol { epoch, message, frames }),
        vec(frame(), 0..3).prop_map(PeerMessage::Relay),
        vec(digest(), 0..5).prop_map(PeerMessage::NeedFrames),
        vec(frame(), 0..3).prop_map(PeerMessage::Frames),
        (digest(), any::<u64>(), any::<u32>()).prop_map(|(tip, above, budget_bytes)| {
            PeerMessage::FetchChain { tip, above: Height(above), budget_bytes }
        }),
        vec(full_block(), 0..3).prop_map(PeerMessage::Chain),
        (vec(full_block(), 0..3), qc())
            .prop_map(|(blocks, evidence)| PeerMessage::Ancestors { blocks, evidence }),
        offer().prop_map(|offer| PeerMessage::Behind(Box::new(offer))),
        any::<(u64, u32)>()
            .prop_map(|(height, chunk)| PeerMessage::FetchChunk { height: Height(height), chunk }),
        (any::<(u64, u32, bool)>(), vec(any::<u8>(), 0..50)).prop_map(
            |((height, chunk, last), bytes)| PeerMessage::Chunk {
                height: Height(height),
                chunk,
                last,
                bytes: bytes.into()
            }
        ),
        any::<u64>().prop_map(|height| PeerMessage::Show(Height(height))),
        vec(digest().prop_map(|id| ShortId::of(&id)), 0..5).prop_map(PeerMessage::Held),
        digest().prop_map(|nonce| PeerMessage::AskTestimony { nonce }),
        (digest(), any::<u64>(), qc(), option::of(tc()), signature()).prop_map(
            |(nonce, view, high_qc, high_tc, signature)| {
                let testimony = Testimony { view: View(view), high_qc, high_tc };
                PeerMessage::Testimony { nonce, testimony, signature }
            }
        ),
    ]
}

pub fn safety() -> impl Strategy<Value = Safety> {
    (option::of(ballot()), qc(), qc(), option::of(tc()), any::<u64>(), any::<(u64, u64)>())
        .prop_map(|(voted, lock, high_qc, high_tc, reserved, (timed_out, abstain_until))| Safety {
            voted,
            lock,
            high_qc,
            high_tc,
            timed_out: View(timed_out),
            reserved: View(reserved),
            abstain_until: View(abstain_until),
        })
}
