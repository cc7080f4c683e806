//! Messages that a liar makes up.

use quorate_core::base::crypto::Signature;
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::{Qc, Vote};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Epoch, ReplicaId, View};

use crate::cluster::Cluster;
use crate::cluster::adversary::Liar;

/// A message of this name arrives now. The liar knows what its own replica knows.
pub fn send(cluster: &mut Cluster, what: &str, from: usize, to: usize) {
    let safety = cluster.core(from).protocol().safety().clone();
    let tree = cluster.core(from).protocol().tree();
    let parent = tree.find(&safety.high_qc.block()).cloned().expect("it holds its high QC's block");
    let view = safety.high_qc.view().next();
    let committed = tree.committed_by(&parent.id()).expect("the parent is in its tree");
    let execution = cluster.core(from).execution();
    let state_root = execution.root_at(committed).expect("executed");
    let liar = Liar { id: from, domain: cluster.config.domain(), to };
    let block = |justify: Qc, view: View, frames: Vec<Digest>| Message::Proposal {
        block: std::sync::Arc::new(Block::new(Content {
            epoch: Epoch(0),
            view,
            height: parent.height.next(),
            proposer: ReplicaId(from as u16),
            justify,
            state_root,
            frames,
        })),
        tc: None,
    };
    let high_qc = safety.high_qc.clone();
    let advance =
        |high_qc| Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false };
    let message = match what {
        "empty-proposal" => block(high_qc, view, Vec::new()),
        "proposal-without-bodies" => block(high_qc, view, vec![Digest([3; 32])]),
        "proposal-out-of-turn" => block(high_qc, View(view.0 + 1), Vec::new()),
        "proposal-for-a-later-view" => {
            let replicas = cluster.config.replicas as u64;
            block(high_qc, View(view.0 + replicas), Vec::new())
        }
        "vote-of-another" => {
            Message::Vote(Vote { voter: ReplicaId(to as u16), ..liar.vote(view, 1, parent.id()) })
        }
        "bad-vote" => {
            let Ballot { view, phase, block } = safety.voted.expect("it has voted");
            let signature = Signature::from([9; 64]);
            Message::Vote(Vote { signature, ..liar.vote(view, phase, block) })
        }
        "certificate-with-a-bad-signature" => {
            advance(edited(&high_qc, |_, _, signature| *signature ^= 1))
        }
        "certificate-of-another-view" => advance(raised(&high_qc)),
        "certificate-with-a-signer-twice" => advance(edited(&high_qc, |_, signer, _| *signer = 1)),
        "certificate-out-of-order" => {
            advance(edited(&high_qc, |at, signer, _| *signer = 3 - at as u8))
        }
        "certificate-with-a-stranger" => {
            advance(edited(&high_qc, |at, signer, _| *signer = 200 + at as u8))
        }
        "certificate-of-too-few" => advance(cut_short(&high_qc)),
        other => panic!("no such message: {other}"),
    };
    cluster.inject(from, to, &PeerMessage::of(message));
}

/// The certificate with each signer and signature edited: place, signer, signature.
fn edited(qc: &Qc, edit: impl Fn(usize, &mut u8, &mut u8)) -> Qc {
    let mut bytes = qc.to_bytes();
    for (at, entry) in bytes[46..].chunks_mut(67).enumerate() {
        let (signer, signature) = entry.split_at_mut(2);
        edit(at, &mut signer[0], &mut signature[1]);
    }
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn raised(qc: &Qc) -> Qc {
    let mut bytes = qc.to_bytes();
    bytes[..8].copy_from_slice(&(qc.view().0 + 5).to_le_bytes());
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn cut_short(qc: &Qc) -> Qc {
    let mut bytes = qc.to_bytes();
    bytes[42] -= 1;
    bytes.truncate(bytes.len() - 67);
    Qc::from_bytes(bytes.into()).expect("well formed")
}
