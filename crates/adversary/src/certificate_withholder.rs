//! A collector that keeps the certificates it makes to itself, or tells one replica alone.
//!
//! What the flawed Fast-HotStuff and every protocol that commits on direct parents die of: a
//! certificate that reaches one replica. Its proposals, phase
//! certificates and news go to one replica, in turn; its new-views and time-outs say no more than
//! that it has an old certificate.
//!
//! Answered by time-outs that carry votes (every replica that gets them makes the certificate), by
//! passing certificates on, and by vote rules that hold whoever knows which certificate.

use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};

use crate::{Adversary, Context, Peer, Sent};

#[derive(Debug)]
struct CertificateWithholder;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(CertificateWithholder)
}

/// The one replica that is told in this view.
fn confidant(cx: &Context<'_>, view: View) -> ReplicaId {
    let others: Vec<ReplicaId> = cx.others().collect();
    let at = (view.0 / cx.size() as u64) as usize % others.len().max(1);
    others.get(at).copied().unwrap_or(cx.me)
}

/// The highest certificate well below `view`: what it pretends to have.
fn older(cx: &Context<'_>, view: View) -> Qc {
    let n = cx.size() as u64;
    let known = cx.seen.qcs().rev().find(|qc| qc.view().plus(n) < view && qc.phase() <= 1);
    known.cloned().unwrap_or_else(|| Qc::genesis(cx.genesis()))
}

impl Adversary for CertificateWithholder {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let PeerMessage::Protocol { message: inner, .. } = &message else {
            return out.push(Sent::now(to, message));
        };
        match inner {
            Message::Proposal { .. } | Message::Certificate(_) | Message::Advance { .. } => {
                if to == confidant(cx, inner.view()) {
                    out.push(Sent::now(to, message));
                }
            }
            Message::TimeOut { time_out, .. } => {
                let high_qc = older(cx, time_out.view);
                let time_out = cx.time_out(time_out.view, &high_qc);
                let message =
                    Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None };
                out.push(Sent::of(to, message));
            }
            Message::NewView { view, .. } => {
                let message = Message::NewView { view: *view, high_qc: older(cx, *view) };
                out.push(Sent::of(to, message));
            }
            Message::Vote(_) => out.push(Sent::now(to, message)),
        }
    }
}
