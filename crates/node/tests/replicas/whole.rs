//! Messages of peers, whole, to be bent.

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner as _, Signature, Signer as _};
use quorate_core::base::wire::Encode as _;
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::certificate::{Qc, TimeOut, Vote};
use quorate_core::protocols::hotstuff::message::Message;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Height, ReplicaId, View};
use quorate_crypto::SecretKey;

/// One message of each kind.
pub fn whole_messages() -> Vec<Vec<u8>> {
    let (block, signature) = (Digest::of("no block", b""), Signature::from([7; 64]));
    let ballot = Ballot { view: View(9), phase: 1, block };
    let vote = Message::Vote(Vote { ballot, voter: ReplicaId(3), signature });
    let time_out =
        TimeOut { view: View(9), high_qc_view: View(0), replica: ReplicaId(3), signature };
    let high_qc = Qc::genesis(block);
    let time_out = Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None };
    let of = PeerMessage::of;
    let key = SecretKey::generate().unwrap();
    let frame = Frame::open(key.public_key(), 1, &block, |statement| key.sign(statement));
    let messages: Vec<PeerMessage<Types>> = vec![
        of(vote),
        of(time_out),
        PeerMessage::Relay(vec![frame.clone().into()]),
        PeerMessage::Frames(vec![frame.into()]),
        PeerMessage::NeedFrames(vec![block; 3]),
        PeerMessage::Chain(Vec::new()),
        PeerMessage::FetchChain { tip: block, above: Height(0), budget_bytes: u32::MAX },
        PeerMessage::FetchChunk { height: Height(1), chunk: 0 },
        PeerMessage::Chunk {
            height: Height(1),
            chunk: 0,
            last: true,
            bytes: Bytes::from_static(b"chunk"),
        },
        PeerMessage::AskTestimony { nonce: block },
        PeerMessage::Show(Height(1)),
    ];
    messages.iter().map(PeerMessage::to_bytes).collect()
}
