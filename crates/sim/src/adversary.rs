//! A liar: it runs the protocol (twice over, where it is twinned) and bends what it sends.

use std::sync::Arc;

use quorate_core::block::{Block, Content};
use quorate_core::certificate::{Ballot, Domain, Qc, TimeOut, Vote};
use quorate_core::crypto::{Signature, Signer};
use quorate_core::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, ReplicaId, View};

use super::keys::Key;
use super::rng::Rng;
use super::{Outgoing, Peer};

/// Who lies, and to whom it is sending.
#[derive(Clone, Debug)]
pub struct Liar {
    pub id: usize,
    pub domain: Domain,
    pub to: usize,
}

impl Liar {
    /// What goes out instead of `message`.
    pub fn bend(&self, rng: &mut Rng, message: &Peer) -> Outgoing {
        if rng.percent(60) {
            return vec![(self.to, message.clone())];
        }
        let PeerMessage::Protocol { message: inner, frames } = message else {
            return if rng.percent(50) { Vec::new() } else { vec![(self.to, message.clone())] };
        };
        let frames = frames.clone();
        let wrap = |message| PeerMessage::Protocol { message, frames: frames.clone() };
        match inner {
            Message::Proposal { block, tc } => {
                let other = self.other_block(rng, block);
                let bent = Message::Proposal { block: Arc::clone(&other), tc: tc.clone() };
                let vote = Message::Vote(self.vote(other.view, 1, other.id()));
                match rng.below(5) {
                    0 => Vec::new(),
                    1 => vec![(self.to, wrap(inner.clone())), (self.to, wrap(bent))],
                    2 => vec![(self.to, wrap(bent)), (self.to, PeerMessage::of(vote))],
                    3 => vec![(self.to, wrap(Message::Proposal { block: other, tc: None }))],
                    _ => vec![(self.to, wrap(bent))],
                }
            }
            Message::Vote(vote) => self.bend_vote(rng, *vote),
            Message::TimeOut { time_out, high_qc, high_tc, .. } => {
                let view = View(time_out.view.0 + rng.below(3));
                let bent = Message::TimeOut {
                    time_out: self.time_out(view, high_qc),
                    high_qc: high_qc.clone(),
                    high_tc: high_tc.clone(),
                    last_vote: None,
                };
                match rng.below(3) {
                    0 => Vec::new(),
                    _ => vec![(self.to, wrap(bent))],
                }
            }
            Message::NewView { view, high_qc } => {
                let ahead = Message::NewView { view: View(view.0 + 1), high_qc: high_qc.clone() };
                match rng.below(2) {
                    0 => Vec::new(),
                    _ => vec![(self.to, wrap(ahead))],
                }
            }
            Message::Certificate(_) | Message::Advance { .. } => Vec::new(),
        }
    }

    fn bend_vote(&self, rng: &mut Rng, vote: Vote) -> Outgoing {
        let good = PeerMessage::of(Message::Vote(vote));
        let replicas = self.domain.committee().size();
        let send = |vote| PeerMessage::of(Message::Vote(vote));
        match rng.below(5) {
            0 => Vec::new(),
            1 => (0..replicas).filter(|to| *to != self.id).map(|to| (to, good.clone())).collect(),
            2 => vec![(self.to, send(Vote { signature: Signature::from([9; 64]), ..vote }))],
            3 => {
                let ahead = View(vote.view.0 + 1 + rng.below(1000));
                vec![(self.to, send(self.vote(ahead, vote.phase, vote.block))), (self.to, good)]
            }
            _ => vec![
                (self.to, send(self.vote(vote.view, vote.phase, Digest([7; 32])))),
                (self.to, good),
            ],
        }
    }

    fn other_block(&self, rng: &mut Rng, block: &Block) -> Arc<Block> {
        let mut content: Content = (**block).clone();
        match rng.below(6) {
            0 => content.state_root = Digest([1; 32]),
            1 => content.view = View(content.view.0 + self.domain.committee().size() as u64),
            2 => content.height = content.height.next(),
            3 => content.frames.push(Digest([5; 32])),
            4 => content.frames.extend(content.frames.clone()),
            _ => content.frames.clear(),
        }
        content.frames.truncate(100);
        Arc::new(Block::new(content))
    }

    pub fn vote(&self, view: View, phase: u8, block: Digest) -> Vote {
        let signature = Key::of_replica(self.id).sign(&self.domain.vote(view, phase, &block));
        Vote { ballot: Ballot { view, phase, block }, voter: ReplicaId(self.id as u16), signature }
    }

    pub fn time_out(&self, view: View, high_qc: &Qc) -> TimeOut {
        let high_qc_view = high_qc.view();
        let statement = self.domain.time_out(view, high_qc_view, &high_qc.block());
        let signature = Key::of_replica(self.id).sign(&statement);
        TimeOut { view, high_qc_view, replica: ReplicaId(self.id as u16), signature }
    }
}
