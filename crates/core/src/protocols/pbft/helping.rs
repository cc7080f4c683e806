//! What replicas do for those who missed something: messages are said again to who tells where it
//! stands, and blocks are fetched (section 5.2 of *Practical Byzantine Fault Tolerance and
//! Proactive Recovery*).

use std::sync::Arc;

use super::behind::Behind;
use super::words::{Message, Phase, Standing, Types, Vote};
use super::{Fx, Pbft, Unsigned};
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::Stable;
use crate::protocols::protocol::{BlockOf, Missing, Output, Record};

/// Votes for so many blocks are said again at once.
const AT_ONCE: u64 = 16;
/// How often a peer is helped at most.
const HELPED_EVERY: Duration = Duration::from_millis(20);

impl Pbft {
    /// Where this replica stands.
    fn standing(&self) -> Message {
        let (view, is_changing) = (self.view, self.is_changing);
        let (stable, committed) = (self.checkpoints.low(), self.chain.head().height());
        let awaits = self.awaits;
        Message::Standing(Standing { view, is_changing, stable, committed, awaits })
    }

    /// A peer that was away is told where this replica stands, and answers with what it missed.
    pub(super) fn on_connected(&mut self, peer: ReplicaId, fx: &mut Fx) {
        fx.output(Output::Send { to: peer, message: self.standing() });
    }

    /// Nothing has come for a while: others are asked.
    pub(super) fn ask(&mut self, fx: &mut Fx) {
        fx.output(Output::Broadcast(self.standing()));
        self.look_behind();
    }

    /// Says again what a peer may have missed.
    pub(super) fn on_standing(
        &mut self,
        now: Time,
        peer: ReplicaId,
        theirs: Standing,
        fx: &mut Fx,
    ) {
        if theirs.is_changing {
            // What began a view is forgotten with a restart: then nobody can be let in, whether it
            // waits for this view or for an earlier one.
            let is_shown = self.changes.began(self.view).is_some();
            let view = match theirs.view <= self.view && !is_shown {
                true => self.view.next(),
                false => theirs.view,
            };
            self.have_mercy(now, view, fx);
        }
        if let Some(awaited) = theirs.awaits {
            self.have_mercy(now, awaited, fx);
        }
        let Some(helped) = self.helped.get_mut(peer) else { return };
        if helped.is_some_and(|helped| now.since(helped) < HELPED_EVERY) {
            return;
        }
        *helped = Some(now);
        let mut send = |message| fx.output(Output::Send { to: peer, message });
        if let Some(stable) = self.checkpoints.stable()
            && theirs.stable < stable.checkpoint.height
        {
            send(Message::Stable(Box::new(stable.clone())));
        }
        // Until q have the same, nobody can go beyond the high water mark.
        let again = self.checkpoints.of(self.me, theirs.stable);
        for (checkpoint, signature) in
            again.take(mutant!("pbft-checkpoint-said-once", 0, usize::MAX))
        {
            send(Message::Checkpoint { checkpoint, signature });
        }
        if theirs.view > self.view {
            return send(self.standing());
        }
        if self.is_changing {
            if let Some(change) = self.changes.of(self.me) {
                send(Message::ViewChange(Box::new(change.clone())));
            }
        } else if let Some((new_view, signature)) = self.changes.began(self.view)
            && (theirs.view < self.view || theirs.is_changing)
        {
            let (new_view, signature) = (Box::new(new_view.clone()), *signature);
            send(Message::NewView { new_view, signature });
        }
        self.vote_again(peer, theirs.committed, fx);
    }

    fn vote_again(&mut self, peer: ReplicaId, committed: Height, fx: &mut Fx) {
        let head = self.chain.head().height();
        for height in (committed.next().0..=committed.plus(AT_ONCE).0).map(Height) {
            let ordered = self.known.pre_prepared_in(self.view, height);
            let is_mine = self.domain.primary(self.view) == self.me && height > head;
            if let Some(block) = ordered.and_then(|id| self.chain.get(&id))
                && block.view() == self.view
                && is_mine
            {
                self.say(Unsigned::PrePrepare(Arc::clone(block)), Some(peer), fx);
            }
            for vote in self.window.voted(self.me, height) {
                let is_implied = is_mine && vote.phase == Phase::Prepare && vote.view == self.view;
                if !is_implied {
                    self.say(Unsigned::Vote(vote), Some(peer), fx);
                }
            }
        }
    }

    /// The blocks that f + 1 replicas prepare in this view: its primary ordered them. Those that
    /// earlier views alone ordered may have been dropped.
    pub(super) fn ordered(&self) -> Vec<Vote> {
        let (head, witness) =
            (self.chain.head().height(), self.domain.committee().honest_witness());
        let mut votes = self.window.agreed(Phase::Prepare, head, witness);
        votes.retain(|vote| vote.view == self.view && !self.is_changing);
        votes
    }

    /// Whether a correct replica has committed a block above the head: it must be asked for, or an
    /// idle replica that missed it would never learn of it.
    pub(super) fn others_committed_more(&self) -> bool {
        let (head, committee) = (self.chain.head().height(), self.domain.committee());
        !self.window.agreed(Phase::Commit, head, committee.honest_witness()).is_empty()
    }

    /// Whether others have what this replica lacks: the latest block that is known to be committed,
    /// or ordered.
    fn look_behind(&mut self) {
        let head = self.chain.head().height();
        let committee = self.domain.committee();
        if let Some(Stable { checkpoint, signatures }) = self.checkpoints.stable()
            && checkpoint.height > head
            && self.chain.path(&checkpoint.block).is_none()
        {
            let holders = signatures.iter().map(|(signer, _)| *signer).collect();
            return self.fetch(checkpoint.height, checkpoint.block, holders);
        }
        let committed = self.window.agreed(Phase::Commit, head, committee.quorum());
        let ordered = self.ordered();
        let votes = committed.iter().chain(&ordered);
        let lacking = votes.filter(|vote| self.chain.path(&vote.block).is_none());
        if let Some(vote) = lacking.max_by_key(|vote| vote.height).copied() {
            let holders = self.window.voters(vote.phase, vote.height, &vote.block);
            self.fetch(vote.height, vote.block, holders);
        }
    }

    /// Wants a block, unless a later one is wanted.
    pub(super) fn fetch(&mut self, height: Height, block: BlockId, holders: Vec<ReplicaId>) {
        if self.behind.as_ref().is_none_or(|behind| behind.height < height) {
            self.behind = Some(Behind { height, block, holders });
        }
    }

    /// A block was fetched. It is believed when one above it is.
    pub(super) fn on_fetched(&mut self, block: BlockOf<Types>) {
        let most = 3 * self.settings.window as usize;
        self.chain.fetch(block, most);
    }

    /// Believes fetched blocks, as far as there is reason to. Returns the last one that a stable
    /// checkpoint proves to be committed.
    pub(super) fn believe(&mut self, fx: &mut Fx) -> Option<BlockId> {
        let proven = self.chain.proven();
        let head = self.chain.head().height();
        let committee = self.domain.committee();
        let committed = self.window.agreed(Phase::Commit, head, committee.quorum());
        let ordered = self.ordered();
        let vouched = |id: &BlockId| {
            let stable = self.checkpoints.stable();
            committed.iter().chain(&ordered).any(|vote| vote.block == *id)
                || stable.is_some_and(|stable| stable.checkpoint.block == *id)
                || self.order.chosen.iter().any(|entry| entry.block == *id)
                || self.behind.as_ref().is_some_and(|behind| behind.block == *id)
                || proven == Some(*id)
        };
        for block in self.chain.believe(vouched) {
            fx.record(Record::Block(block));
        }
        let head = self.chain.head().height();
        let is_here =
            |behind: &mut Behind| behind.height <= head || self.chain.path(&behind.block).is_some();
        self.behind.take_if(is_here);
        proven
    }

    /// Whether a block is needed that is not here. What is committed here needs no block any more.
    pub(super) fn lacks(&self, entry: &super::words::Entry) -> bool {
        entry.height > self.chain.head().height() && self.chain.get(&entry.block).is_none()
    }

    /// What is to be fetched.
    pub(super) fn lacking(&self) -> Option<Missing> {
        let lacks = |entry: &&super::words::Entry| self.lacks(entry);
        if let Some(last) = self.order.chosen.iter().rev().find(lacks) {
            return Some(Missing { block: last.block, holders: Vec::new() });
        }
        let Behind { block, holders, .. } = self.behind.as_ref()?;
        Some(Missing { block: *block, holders: holders.clone() })
    }
}
