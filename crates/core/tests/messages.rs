//! The encodings of what replicas say and keep, and which certificates are refused unread.

mod cluster;

use std::sync::Arc;

use cluster::keys::{CHAIN, Key, Mock, committee};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quorate_core::block::{Block, Content};
use quorate_core::certificate::{Ballot, Domain, Malformed, Qc, Tc, TimeOut, Vote};
use quorate_core::committee::ReplicaKey;
use quorate_core::crypto::{ClientSigner as _, PublicKey, Scheme, Signature, Signer as _, Signers};
use quorate_core::frame::{Frame, SharedFrame};
use quorate_core::hotstuff::Message;
use quorate_core::protocol::Safety;
use quorate_core::replica::message::{FullBlock, Offer, PeerMessage};
use quorate_core::wire::{Decode, Encode, put_list};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};

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

fn raw_qc((view, block, signatures): (u64, Digest, Vec<(u16, Signature)>)) -> Qc {
    let phase = u8::from(view > 0);
    certified(Ballot { view: View(view), phase, block }, &raw_list(&signatures))
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

fn full_block() -> impl Strategy<Value = FullBlock> {
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

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (full_block(), option::of(tc()))
            .prop_map(|(full, tc)| Message::Proposal { block: full.block, tc }),
        vote().prop_map(Message::Vote),
        (time_out(), qc(), option::of(tc()), option::of(vote())).prop_map(
            |(time_out, high_qc, high_tc, last_vote)| Message::TimeOut {
                time_out,
                high_qc,
                high_tc,
                last_vote
            }
        ),
        (qc(), option::of(tc()), option::of(qc())).prop_map(|(high_qc, high_tc, decided)| {
            Message::Advance { high_qc, high_tc, decided }
        }),
        qc().prop_map(Message::Certificate),
        (any::<u64>(), qc())
            .prop_map(|(view, high_qc)| Message::NewView { view: View(view), high_qc }),
    ]
}

fn offer() -> impl Strategy<Value = Offer> {
    (full_block(), vec(full_block(), 0..4), full_block(), qc()).prop_map(
        |(block, recent, attesting, certificate)| Offer {
            block: block.block,
            recent: recent.into_iter().map(|full| full.block).collect(),
            attesting: attesting.block,
            certificate,
        },
    )
}

fn peer_message() -> impl Strategy<Value = PeerMessage<Message>> {
    prop_oneof![
        (message(), vec(frame(), 0..3))
            .prop_map(|(message, frames)| PeerMessage::Protocol { message, frames }),
        vec(frame(), 0..3).prop_map(PeerMessage::Relay),
        vec(digest(), 0..5).prop_map(PeerMessage::NeedFrames),
        vec(frame(), 0..3).prop_map(PeerMessage::Frames),
        (digest(), any::<u64>(), any::<u32>()).prop_map(|(tip, above, budget_bytes)| {
            PeerMessage::FetchChain { tip, above: Height(above), budget_bytes }
        }),
        vec(full_block(), 0..3).prop_map(PeerMessage::Chain),
        (vec(full_block(), 0..3), qc())
            .prop_map(|(blocks, certificate)| PeerMessage::Ancestors { blocks, certificate }),
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
        digest().prop_map(|nonce| PeerMessage::AskTestimony { nonce }),
        (digest(), any::<u64>(), qc(), signature()).prop_map(
            |(nonce, view, high_qc, signature)| {
                PeerMessage::Testimony { nonce, view: View(view), high_qc, signature }
            }
        ),
    ]
}

fn safety() -> impl Strategy<Value = Safety> {
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

/// Decodes what was encoded, nothing of what was cut off, and survives every change of a byte.
fn holds_up<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T, at: usize, byte: u8) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(bytes.clone().into()).as_ref(), Ok(value));
    let cut = at % bytes.len();
    assert!(T::from_bytes(bytes[..cut].to_vec().into()).is_err(), "cut off at {cut}");
    let mut changed = bytes.clone();
    changed[cut] = byte;
    if let Ok(other) = T::from_bytes(changed.clone().into()) {
        assert_eq!(other.to_bytes(), changed, "one encoding a value");
    }
    let mut longer = bytes;
    longer.push(byte);
    assert!(T::from_bytes(longer.into()).is_err());
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(1024)
    })]

    #[test]
    fn peer_messages_are_read_back(value in peer_message(), at: usize, byte: u8) {
        holds_up(&value, at, byte);
    }

    #[test]
    fn records_are_read_back(safety in safety(), full in full_block(), at: usize, byte: u8) {
        holds_up(&safety, at, byte);
        holds_up(&full, at, byte);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(kind in 0u8..13, bytes in vec(any::<u8>(), 0..400)) {
        let mut input = vec![kind];
        input.extend(&bytes);
        let _ = PeerMessage::<Message>::from_bytes(input.into());
        let _ = Safety::from_bytes(bytes.clone().into());
        let _ = FullBlock::from_bytes(bytes.clone().into());
        let _ = Offer::from_bytes(bytes.into());
    }

    #[test]
    fn lengths_that_lie_allocate_nothing(kind in 1u8..12, claims in vec(any::<u32>(), 0..40)) {
        let mut input = vec![kind];
        claims.iter().for_each(|claim| claim.encode(&mut input));
        let _ = PeerMessage::<Message>::from_bytes(input.into());
    }
}

const N: usize = 4;

fn domain() -> Domain {
    Domain::new(committee(N), 1)
}

fn genesis() -> Digest {
    Block::genesis(CHAIN, Epoch(0)).id()
}

/// A certificate as `signers` would make it under `domain`.
fn certificate(domain: &Domain, view: u64, block: Digest, signers: &[u16]) -> Qc {
    let statement = domain.vote(View(view), 1, &block);
    let sign = |signer: &u16| (*signer, Key::of_replica(*signer as usize).sign(&statement));
    raw_qc((view, block, signers.iter().map(sign).collect()))
}

fn time_out_certificate(view: u64, views: &[(u16, u64, u64)], high_qc: &Qc) -> Tc {
    let entries = views.iter().map(|(signer, signed, high_qc_view)| {
        let statement = domain().time_out(View(*signed), View(*high_qc_view), &high_qc.block());
        (*signer, *high_qc_view, Key::of_replica(*signer as usize).sign(&statement))
    });
    raw_tc(view, &entries.collect::<Vec<_>>(), std::slice::from_ref(high_qc))
}

/// What is wrong with a certificate: found unread, or by its signatures.
#[derive(Debug, PartialEq)]
enum Verdict {
    Good,
    Unread(Malformed),
    BadSignature,
}

fn verdict(checks: Result<Vec<quorate_core::crypto::Check>, Malformed>) -> Verdict {
    match checks {
        Err(reason) => Verdict::Unread(reason),
        Ok(checks) if Mock.verify(&checks).iter().all(|holds| *holds) => Verdict::Good,
        Ok(_) => Verdict::BadSignature,
    }
}

fn judge(qc: &Qc) -> Verdict {
    verdict(qc.checks(&domain(), &genesis()))
}

#[test]
fn certificates_are_refused_for_each_reason() {
    let block = Digest([3; 32]);
    let good = |signers: &[u16]| certificate(&domain(), 5, block, signers);
    assert_eq!(judge(&good(&[0, 1, 3])), Verdict::Good);
    assert_eq!(judge(&good(&[0, 1, 2, 3])), Verdict::Good);
    assert_eq!(judge(&good(&[0, 1])), Verdict::Unread(Malformed::NoQuorum));
    assert_eq!(judge(&good(&[])), Verdict::Unread(Malformed::NoQuorum));
    assert_eq!(judge(&good(&[0, 1, 1])), Verdict::Unread(Malformed::UnorderedSigners));
    assert_eq!(judge(&good(&[1, 0, 2])), Verdict::Unread(Malformed::UnorderedSigners));
    assert_eq!(judge(&good(&[0, 1, 4])), Verdict::Unread(Malformed::UnknownSigner));
    assert_eq!(judge(&good(&[0, 1, u16::MAX])), Verdict::Unread(Malformed::UnknownSigner));
    let zero = |block, signers: &[u16]| judge(&certificate(&domain(), 0, block, signers));
    assert_eq!(zero(genesis(), &[]), Verdict::Good);
    assert_eq!(zero(block, &[]), Verdict::Unread(Malformed::NotGenesis));
    assert_eq!(zero(genesis(), &[0, 1, 2]), Verdict::Unread(Malformed::NotGenesis));
}

#[test]
fn certificates_of_elsewhere_do_not_hold() {
    let block = Digest([3; 32]);
    let key = |id| ReplicaKey::from(Key::of_replica(id).public_key().0);
    let keys = || (0..N).map(key).collect();
    let other_chain = Committee::new(Digest([1; 32]), Epoch(0), keys()).expect("a committee");
    let other_epoch = Committee::new(CHAIN, Epoch(1), keys()).expect("a committee");
    let elsewhere =
        [Domain::new(other_chain, 1), Domain::new(other_epoch, 1), Domain::new(committee(N), 2)];
    for domain in elsewhere {
        let qc = certificate(&domain, 5, block, &[0, 1, 2]);
        assert_eq!(judge(&qc), Verdict::BadSignature);
    }
    // Votes of view 5 passed off as of view 6, and for another block.
    let votes = |view: u64| {
        let statement = domain().vote(View(view), 1, &block);
        [0u16, 1, 2].map(|id| (id, Key::of_replica(id as usize).sign(&statement))).to_vec()
    };
    assert_eq!(judge(&raw_qc((6, block, votes(5)))), Verdict::BadSignature);
    assert_eq!(judge(&raw_qc((5, Digest([4; 32]), votes(5)))), Verdict::BadSignature);
    let mixed = [votes(5)[0], votes(5)[1], votes(6)[2]].to_vec();
    assert_eq!(judge(&raw_qc((5, block, mixed))), Verdict::BadSignature);
}

#[test]
fn time_out_certificates_are_refused_for_each_reason() {
    let judge = |tc: &Tc| verdict(tc.checks(&domain(), &genesis()));
    let high_qc = certificate(&domain(), 5, Digest([3; 32]), &[0, 1, 2]);
    let tc = |views: &[(u16, u64, u64)]| time_out_certificate(7, views, &high_qc);
    assert_eq!(judge(&tc(&[(0, 7, 5), (1, 7, 3), (2, 7, 0)])), Verdict::Good);
    // Collected from different views.
    assert_eq!(judge(&tc(&[(0, 7, 5), (1, 6, 3), (2, 7, 0)])), Verdict::BadSignature);
    let unread = |views: &[(u16, u64, u64)]| judge(&tc(views));
    assert_eq!(unread(&[(0, 7, 5), (1, 7, 3)]), Verdict::Unread(Malformed::NoQuorum));
    assert_eq!(
        unread(&[(0, 7, 5), (1, 7, 3), (1, 7, 3)]),
        Verdict::Unread(Malformed::UnorderedSigners)
    );
    assert_eq!(
        unread(&[(0, 7, 5), (1, 7, 3), (9, 7, 3)]),
        Verdict::Unread(Malformed::UnknownSigner)
    );
    // The QC is not the highest of those who gave up, or is of a later view than was given up.
    assert_eq!(
        unread(&[(0, 7, 4), (1, 7, 3), (2, 7, 0)]),
        Verdict::Unread(Malformed::Contradiction)
    );
    assert_eq!(
        unread(&[(0, 7, 6), (1, 7, 5), (2, 7, 0)]),
        Verdict::Unread(Malformed::Contradiction)
    );
    let early = time_out_certificate(4, &[(0, 4, 5), (1, 4, 3), (2, 4, 0)], &high_qc);
    assert_eq!(judge(&early), Verdict::Unread(Malformed::Contradiction));
    // The QC inside is checked as well.
    let forged = raw_qc((5, Digest([9; 32]), vec![(0, Signature::from([0; 64])); 1]));
    let inside = time_out_certificate(7, &[(0, 7, 5), (1, 7, 3), (2, 7, 0)], &forged);
    assert_eq!(judge(&inside), Verdict::Unread(Malformed::NoQuorum));
}
