//! A replica that shows old certificates as if they were its newest: in proposals, time-outs,
//! new-views, news and phase certificates.
//!
//! What a replica restored from an old backup would do, and the attack on
//! leaders that believe the first q new-views to hold the highest certificate, or on time-out
//! certificates that take the view for the word of one signer.
//!
//! Answered by the entry rule (a proposal on an old certificate needs a time-out certificate:
//! `contradiction`), by the vote rules (justify not below the lock, or the time-out certificate's
//! highest), by the maximum over q (an old certificate in a time-out lowers nobody else's), and by
//! `stale` for phase certificates.

use std::collections::BTreeMap;

use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};

use crate::{Adversary, Context, Peer, Rng, Sent, forge};

#[derive(Debug)]
struct StaleCertificates {
    rng: Rng,
    /// By receiver: the newest certificate it was told no news of.
    told: BTreeMap<ReplicaId, (View, u8)>,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(StaleCertificates { rng: Rng::new(seed), told: BTreeMap::new() })
}

impl StaleCertificates {
    /// A certificate below `below`; that of genesis if there is none.
    fn old(&mut self, cx: &Context<'_>, below: View) -> Qc {
        let older: Vec<&Qc> = cx.seen.qcs().filter(|qc| qc.view() < below).collect();
        let picked = self.rng.pick(&older).map(|qc| Qc::clone(qc));
        picked.unwrap_or_else(|| Qc::genesis(cx.genesis()))
    }

    fn bend(&mut self, cx: &Context<'_>, to: ReplicaId, message: &Message) -> Option<Message> {
        match message {
            Message::Proposal { block, tc } => {
                let justify = self.old(cx, block.justify.view());
                let model = cx.seen.child_of(&justify.block())?;
                let (height, state_root) = (model.height, model.state_root);
                let block = forge::changed(block, |content| {
                    (content.justify, content.height) = (justify, height);
                    content.state_root = state_root;
                });
                Some(Message::Proposal { block, tc: tc.clone() })
            }
            Message::TimeOut { time_out, high_qc, .. } => {
                let old = self.old(cx, high_qc.view());
                let time_out = cx.time_out(time_out.view, &old);
                Some(Message::TimeOut { time_out, high_qc: old, high_tc: None, last_vote: None })
            }
            Message::NewView { view, high_qc } => {
                Some(Message::NewView { view: *view, high_qc: self.old(cx, high_qc.view()) })
            }
            Message::Advance { high_qc, is_answer, .. } => {
                // Once: whoever seems to be behind is answered, and two such would answer each
                // other without end.
                if self.told.insert(to, high_qc.rank()) == Some(high_qc.rank()) {
                    return None;
                }
                let high_qc = self.old(cx, high_qc.view());
                Some(Message::Advance {
                    high_qc,
                    high_tc: None,
                    decided: None,
                    is_answer: *is_answer,
                })
            }
            Message::Certificate(qc) => Some(Message::Certificate(self.old(cx, qc.view()))),
            Message::Vote(_) => None,
        }
    }
}

impl Adversary for StaleCertificates {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let bent = match &message {
            PeerMessage::Protocol { epoch, message, frames } => {
                self.bend(cx, to, message).map(|message| PeerMessage::Protocol {
                    epoch: *epoch,
                    message,
                    frames: frames.clone(),
                })
            }
            _ => None,
        };
        out.push(Sent::now(to, bent.unwrap_or(message)));
    }
}
