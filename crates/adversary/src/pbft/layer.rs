//! What a driver puts around a replica that is to be Byzantine.

use quorate_core::base::crypto::Signer;
use quorate_core::base::per_peer::PerPeer;
use quorate_core::protocols::checkpoint::Stable;
use quorate_core::protocols::pbft::words::SignedChange;
use quorate_core::protocols::pbft::{Domain, Message, Types};
use quorate_core::protocols::protocol::BlockOf;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, Time, View};

use super::{Adversary, Context, Peer, Sent};
use crate::Deeds;

/// What has gone by.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Of each replica the view change to the highest view.
    pub changes: PerPeer<Option<SignedChange>>,
    /// The highest stable checkpoint that was shown.
    pub stable: Option<Stable>,
    /// The block that was pre-prepared last.
    pub block: Option<BlockOf<Types>>,
    /// The highest view.
    pub view: View,
}

impl Seen {
    fn note(&mut self, message: &Peer) {
        let PeerMessage::Protocol { message, .. } = message else { return };
        match message {
            Message::PrePrepare { block, .. } => {
                self.block = Some(block.clone());
                self.view = self.view.max(block.view);
            }
            Message::Vote { vote, .. } => self.view = self.view.max(vote.view),
            Message::ViewChange(signed) => {
                if let Some(place) = self.changes.get_mut(signed.from) {
                    *place = Some((**signed).clone());
                }
                self.view = self.view.max(signed.change.view);
            }
            Message::NewView { new_view, .. } => self.view = self.view.max(new_view.view),
            Message::Stable(stable) => self.stable = Some((**stable).clone()),
            Message::Checkpoint { .. } | Message::Standing(_) => {}
        }
    }
}

/// An adversary with what it has seen, around one replica.
#[derive(Debug)]
pub struct Layer {
    adversary: Box<dyn Adversary>,
    me: ReplicaId,
    domain: Domain,
    seen: Seen,
    deeds: Deeds,
    next_tick: Option<Time>,
}

impl Layer {
    /// `adversary` around replica `me`.
    #[must_use]
    pub fn new(adversary: Box<dyn Adversary>, me: ReplicaId, domain: Domain) -> Self {
        let next_tick = adversary.wants_tick().map(|span| Time(0).after(span));
        let changes = PerPeer::new(domain.committee().size());
        let seen = Seen { changes, stable: None, block: None, view: View(0) };
        Self { adversary, me, domain, seen, deeds: Deeds::default(), next_tick }
    }

    /// What it has done so far.
    #[must_use]
    pub fn deeds(&self) -> Deeds {
        self.deeds
    }

    /// The replica sends `message` to `to`: what leaves instead.
    pub fn sends(
        &mut self,
        now: Time,
        signer: &dyn Signer,
        to: ReplicaId,
        message: Peer,
    ) -> Vec<Sent> {
        self.seen.note(&message);
        let (mut out, sent) = (Vec::new(), message.clone());
        let Self { adversary, me, domain, seen, .. } = self;
        adversary.sends(&Context { now, me: *me, domain, seen, signer }, to, message, &mut out);
        self.keep_to_others(&mut out);
        match out.as_slice() {
            [] => self.deeds.withheld += 1,
            [same] if same.to == to && same.message == sent => {
                self.deeds.delayed += u64::from(same.delay > Duration::ZERO);
            }
            _ => self.deeds.bent += 1,
        }
        out
    }

    /// A message arrives.
    pub fn receives(&mut self, message: &Peer) {
        self.seen.note(message);
    }

    /// When [`tick`](Self::tick) is due; `None`: never.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.next_tick
    }

    /// What is sent unasked, if that is due.
    pub fn tick(&mut self, now: Time, signer: &dyn Signer) -> Vec<Sent> {
        let mut out = Vec::new();
        if self.next_tick.is_none_or(|due| now < due) {
            return out;
        }
        let Self { adversary, me, domain, seen, .. } = self;
        adversary.tick(&Context { now, me: *me, domain, seen, signer }, &mut out);
        self.next_tick = self.adversary.wants_tick().map(|span| now.after(span));
        self.keep_to_others(&mut out);
        self.deeds.unasked += out.len() as u64;
        out
    }

    /// There is no way to itself, nor to whom there is not.
    fn keep_to_others(&self, out: &mut Vec<Sent>) {
        out.retain(|sent| sent.to != self.me && self.domain.committee().contains(sent.to));
    }
}
