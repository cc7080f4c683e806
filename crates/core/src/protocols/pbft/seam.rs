//! What PBFT is to the replica around it.

use std::sync::Arc;

use super::domain::Domain;
use super::words::{Memory, Message, SignedChange, Testimony, Types};
use super::{Fx, Pbft, amnesia};
use crate::base::crypto::{Check, Claim, Share, Statement};
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::{Stable, are_members_in_order};
use crate::protocols::protocol::{
    BlockOf, Capability, Input, Ledger, Malformed, Missing, Protocol, Record, Shown, SnapshotBase,
    Status, Verifier as _,
};

impl Pbft {
    /// Whether a height is between the water marks, or above them as far as a replica may be ahead.
    fn is_near(&self, height: Height) -> Result<(), Malformed> {
        let low = self.checkpoints.low();
        let is_near = height > low && height <= low.plus(2 * self.settings.window);
        if is_near { Ok(()) } else { Err(Malformed::Stale) }
    }

    fn claim_pre_prepare(
        &self,
        from: ReplicaId,
        block: &BlockOf<Types>,
    ) -> Result<Vec<Check>, Malformed> {
        if from != self.domain.primary(block.view()) {
            return Err(Malformed::WrongSender);
        }
        if block.view() < self.view {
            return Err(Malformed::Stale);
        }
        self.is_near(block.height())?;
        self.domain.claim_block(block)
    }

    fn claim_change(&self, signed: &SignedChange) -> Result<Vec<Check>, Malformed> {
        self.domain.change(signed, self.settings.window)
    }

    fn checks(&self, from: ReplicaId, message: &Message) -> Result<Vec<Check>, Malformed> {
        match message {
            Message::PrePrepare { block, signature } => {
                let mut checks = self.claim_pre_prepare(from, block)?;
                let statement = self.domain.pre_prepare(block.view(), block.height(), &block.id());
                checks.extend(self.domain.direct(from, statement, *signature)?);
                Ok(checks)
            }
            Message::Vote { vote, signature } => {
                self.is_near(vote.height)?;
                self.domain.direct(from, self.domain.vote(vote), *signature)
            }
            Message::Checkpoint { checkpoint, signature } => {
                self.is_near(checkpoint.height)?;
                let (signer, signature) = (from, *signature);
                let statement = self.domain.checkpoint(checkpoint);
                Ok(vec![Check::Replica(Share { signer, statement, signature })])
            }
            Message::ViewChange(signed) if signed.from != from => Err(Malformed::WrongSender),
            Message::ViewChange(signed) if signed.change.view < self.view => Err(Malformed::Stale),
            Message::ViewChange(signed) => self.claim_change(signed),
            Message::NewView { new_view, signature } => {
                let is_old =
                    new_view.view < self.view || new_view.view == self.view && !self.is_changing;
                if is_old && !self.may_rule_out(new_view) {
                    return Err(Malformed::Stale);
                }
                let committee = self.domain.committee();
                let senders = || new_view.changes.iter().map(|signed| signed.from);
                are_members_in_order(committee, senders())?;
                let weight: usize = senders().map(|sender| committee.weight(sender)).sum();
                if weight < mutant!("pbft-new-view-of-one", 0, committee.quorum()) {
                    // Without q of them its primary alone could end any view.
                    return Err(Malformed::NoQuorum);
                }
                let signer = self.domain.primary(new_view.view);
                let statement = self.domain.new_view(new_view);
                let signature = *signature;
                let mut checks = vec![Check::Replica(Share { signer, statement, signature })];
                for signed in &new_view.changes {
                    if signed.change.view != new_view.view {
                        return Err(Malformed::Contradiction);
                    }
                    checks.extend(self.claim_change(signed)?);
                }
                Ok(checks)
            }
            Message::Stable(stable) if stable.checkpoint.height <= self.checkpoints.low() => {
                Err(Malformed::Stale)
            }
            Message::Stable(stable) => self.domain.stable(stable),
            Message::Standing(_) => Ok(Vec::new()),
        }
    }
}

impl Protocol for Pbft {
    type Types = Types;
    type Verifier = Domain;

    const PIPELINE: usize = 64;

    const CAPABILITIES: &'static [Capability] =
        &[Capability::VerifiedReads, Capability::Pull, Capability::Rejoin, Capability::ReadIndex];

    const VOUCHES_FOR_PARENTS: bool = false;

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        let checks = self.checks(from, &message)?;
        Ok(Claim::new(message, checks))
    }

    fn carried_block(message: &Message) -> Option<&BlockOf<Types>> {
        match message {
            Message::PrePrepare { block, .. } => Some(block),
            _ => None,
        }
    }

    fn step(&mut self, now: Time, input: Input<Types>, ledger: &mut dyn Ledger) -> Fx {
        let mut fx = Fx::default();
        match input {
            Input::Start(recovered) => self.start(*recovered, &mut fx),
            Input::Message { from, message } => {
                self.on_message(now, from, message.into_inner(), &mut fx);
            }
            Input::Fetched { block, .. } => self.on_fetched(block.into_inner()),
            Input::Signed { statement, signature } => {
                self.on_signed(now, &statement, signature, &mut fx);
            }
            Input::Installed { root, evidence, .. } => self.install(root, evidence),
            Input::Connected(peer) => self.on_connected(peer, &mut fx),
            Input::Timeout if self.clock.repeats(now) => self.ask(&mut fx),
            Input::Timeout
            | Input::Wake
            | Input::Announced { .. }
            | Input::Checked { .. }
            | Input::Combined { .. } => {}
        }
        self.advance(now, ledger, &mut fx);
        self.change_view(now, ledger, &mut fx);
        if std::mem::take(&mut self.must_write) {
            fx.record(Record::Memory(Arc::new(self.memory())));
        }
        fx
    }

    fn deadline(&self) -> Option<Time> {
        self.clock.deadline().into_iter().chain(self.rate.deadline()).min()
    }

    fn status(&self) -> Status {
        Status {
            view: self.view,
            leader: Some(self.domain.primary(self.view)),
            committed: self.chain.head().height(),
            uncommitted: self.uncommitted(),
            abstain_until: self.awaits.map_or(View(0), |view| View(view.0.saturating_sub(1))),
            details: vec![
                ("stable_checkpoint", self.checkpoints.low().0),
                ("prepared", self.order.prepared.0),
                ("view_change", u64::from(self.is_changing)),
            ],
        }
    }

    fn view(&self) -> View {
        self.view
    }

    fn committed(&self) -> &BlockOf<Types> {
        self.chain.head()
    }

    fn uncommitted(&self) -> usize {
        self.chain.uncommitted() + self.order.held.len()
    }

    fn holds(&self, block: &BlockId) -> bool {
        self.chain.holds(block) || self.order.held.values().any(|held| held.id() == *block)
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        let found = self.chain.get(block).or_else(|| self.chain.unbelieved(block));
        found.map(|block| block.height())
    }

    fn path(&self, tip: &BlockId) -> Vec<BlockOf<Types>> {
        self.chain.path(tip).unwrap_or_default()
    }

    fn missing(&self) -> Option<Missing> {
        self.lacking()
    }

    fn claim_block(&self, block: BlockOf<Types>) -> Result<Claim<BlockOf<Types>>, Malformed> {
        let checks = self.domain.claim_block(&block)?;
        Ok(Claim::new(block, checks))
    }

    fn look_back(&self) -> usize {
        0
    }

    fn roots_every(&self) -> u64 {
        self.settings.checkpoint_every
    }

    fn snapshot_base(&self, id: &BlockId) -> Option<SnapshotBase<Types>> {
        let block =
            self.chain.get(id).filter(|block| block.height() <= self.committed().height())?;
        let (block, committed) = (Arc::clone(block), block.height());
        Some(SnapshotBase { block, committed, recent: Vec::new() })
    }

    fn verifier(&self) -> Domain {
        self.domain.clone()
    }

    fn certified(&self, root: &Digest, height: Height) -> Option<Shown<Types>> {
        let shown = self.newest_certified()?;
        let checkpoint = &shown.evidence.checkpoint;
        (checkpoint.root == *root && checkpoint.height == height).then_some(shown)
    }

    fn newest_certified(&self) -> Option<Shown<Types>> {
        let evidence = self.checkpoints.stable()?.clone();
        let block = self.chain.at(evidence.checkpoint.height).cloned()?;
        Some(Shown { block, evidence })
    }

    fn certified_state(&self) -> Option<Height> {
        let low = self.checkpoints.low();
        self.chain.at(low).map(|_| low)
    }

    /// What it prepared, or its view began with. A committed block is prepared by f + 1 correct
    /// replicas. It stays in their sets P until a stable checkpoint covers it; one of them that
    /// lost its sets comes back by a view that begins with the block, as later ones do. What is
    /// only pre-prepared does not count: a primary that lies names it alone, and reads would wait
    /// for it. Blocks here always have commands.
    fn read_index(&self) -> Option<Height> {
        if planted!("reads-ask-the-mute", false, self.awaits.is_some()) {
            return None;
        }
        let prepared = self.known.highest_prepared().unwrap_or_default();
        Some(prepared.max(self.order.began_with).max(self.checkpoints.low()))
    }

    fn showing(evidence: Stable) -> Option<Message> {
        Some(Message::Stable(Box::new(evidence)))
    }

    fn testimony(&self) -> Testimony {
        Testimony { view: self.view, stable: self.checkpoints.stable().cloned() }
    }

    fn testimony_statement(&self, testimony: &Testimony, content: &Digest) -> Statement {
        self.domain.testimony(testimony.view, content)
    }

    fn claim_testimony(&self, testimony: &Testimony) -> Result<Vec<Check>, Malformed> {
        testimony.stable.as_ref().map_or(Ok(Vec::new()), |stable| self.domain.stable(stable))
    }

    fn recollect(&self, testimonies: &[Testimony]) -> Option<Memory> {
        amnesia::recollect(testimonies)
    }
}
