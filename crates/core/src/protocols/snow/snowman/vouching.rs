//! Checkpoints: f + 1 replicas that came to the same state. One of them is correct.

use std::sync::Arc;

use super::words::Message;
use super::{Fx, Snowman};
use crate::base::crypto::{Signature, Statement};
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::protocols::checkpoint::Checkpoint;
use crate::protocols::protocol::{Attested, Decision, Ledger, Output};

/// Checkpoints so far above the accepted block are looked at, in blocks ...
pub(super) const ABOVE: u64 = 256;
/// ... and so far below.
pub(super) const BELOW: u64 = 64;
/// How often the own checkpoint is said again while somebody waits for it.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Snowman {
    /// Signs the checkpoints that are due: every so many blocks, and where somebody waits for a
    /// proof and nothing is under way, the last state.
    pub(super) fn sign_checkpoints(&mut self, now: Time, ledger: &dyn Ledger, fx: &mut Fx) {
        let every = self.settings.checkpoint_every.max(1);
        let (executed, head) = (ledger.executed(), self.accepted.head().height());
        let is_idle = self.tree.is_empty() && executed == head && !ledger.has_pending();
        let is_asked = ledger.root_wanted() > Some(self.checkpoints.low());
        let first = self.checkpoints.signed().max(self.checkpoints.low()).0 / every * every + every;
        let regular = (first..=executed.0).step_by(every as usize).map(Height);
        let asked = Some(head).filter(|_| is_idle && is_asked);
        for height in regular.chain(asked) {
            let signed = self.checkpoints.signed().max(self.checkpoints.low());
            let is_again = asked == Some(height)
                && signed == height
                && height > self.checkpoints.low()
                && self.said_again.is_none_or(|said| now.since(said) >= AGAIN_AFTER);
            if height <= signed && !is_again {
                continue;
            }
            let Some(root) = ledger.state_root(height) else { continue };
            let Some(block) = self.accepted.name_at(height) else { continue };
            if is_again {
                self.said_again = Some(now);
            }
            self.checkpoints.sign(height);
            let checkpoint = Checkpoint { height, block, root };
            let statement = self.domain.checkpoint(&checkpoint);
            self.unsigned.insert(statement, checkpoint);
            fx.output(Output::Sign(statement));
        }
    }

    pub(super) fn on_signed(&mut self, statement: &Statement, signature: Signature, fx: &mut Fx) {
        let Some(checkpoint) = self.unsigned.remove(statement) else { return };
        self.on_checkpoint(self.me, checkpoint, signature);
        fx.output(Output::Broadcast(Message::Checkpoint { checkpoint, signature }));
    }

    pub(super) fn on_checkpoint(
        &mut self,
        from: ReplicaId,
        checkpoint: Checkpoint,
        signature: Signature,
    ) {
        let below = self.accepted.head().height().0.saturating_sub(BELOW);
        self.checkpoints.forget_below(Height(below));
        if let Some(stable) = self.checkpoints.add(from, checkpoint, signature) {
            self.checkpoints.raise(stable);
        }
    }

    /// Tells the ledger of the stable checkpoint, once its block is accepted here.
    pub(super) fn attest(&mut self, fx: &mut Fx) {
        let Some(stable) = self.checkpoints.reach(self.accepted.head().height()) else { return };
        let Some(block) = self.accepted.at(stable.checkpoint.height).cloned() else { return };
        let (root, state) = (stable.checkpoint.root, Some(stable.checkpoint.height));
        let attested = |evidence| {
            let block = Arc::clone(&block);
            Decision::Root(Attested { root, state, block, evidence })
        };
        fx.output(Output::Commit(vec![attested(None), attested(Some(stable.clone()))]));
    }
}
