//! What Snowman is to the replica around it.

use std::sync::Arc;

use super::domain::Domain;
use super::vouching::{ABOVE, BELOW};
use super::words::{Memory, Message, Testimony, Types};
use super::{Fx, MAX_DEPTH, Snowman};
use crate::base::crypto::{Check, Claim, Statement};
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::Checkpoint;
use crate::protocols::protocol::{
    BlockOf, Capability, Input, Ledger, MAX_LOOK_BACK, Malformed, Missing, Protocol, SnapshotBase,
    Status,
};

impl Snowman {
    fn checks(&self, from: ReplicaId, message: &Message) -> Result<Vec<Check>, Malformed> {
        let (low, head) = (self.checkpoints.low(), self.accepted.head().height());
        match message {
            Message::Push(block) if block.proposer != from => Err(Malformed::WrongSender),
            Message::Push(block) => {
                let height = block.height();
                if height <= head || height > head.plus(MAX_DEPTH) {
                    return Err(Malformed::Stale);
                }
                self.domain.block(block)
            }
            Message::Answer { poll, .. } if !self.polls.is_asked(from, *poll) => {
                Err(Malformed::Unasked)
            }
            Message::Checkpoint { checkpoint, signature } => {
                let Checkpoint { height, .. } = *checkpoint;
                let is_near =
                    height <= head.plus(ABOVE) && height.0 >= head.0.saturating_sub(BELOW);
                if height <= low || !is_near {
                    return Err(Malformed::Stale);
                }
                Ok(self.domain.signed(from, checkpoint, *signature))
            }
            Message::Stable(stable) if stable.checkpoint.height <= low => Err(Malformed::Stale),
            Message::Stable(stable) => self.domain.stable(stable),
            Message::Query { .. } | Message::Answer { .. } | Message::Accepted { .. } => {
                Ok(Vec::new())
            }
            Message::Frosty(word) => self.word_checks(from, word),
        }
    }

    fn on_message(&mut self, now: Time, from: ReplicaId, message: Message, fx: &mut Fx) {
        match message {
            Message::Push(block) => self.on_push(now, from, &block, fx),
            Message::Query { poll, tip, accepted } => {
                self.peers.hears(from, accepted);
                self.hear(now, from, tip);
                self.on_query(from, poll, tip, fx);
            }
            Message::Answer { poll, tip, at, accepted } => {
                self.peers.hears(from, accepted);
                self.hear(now, from, tip);
                self.on_answer(now, from, poll, (tip, at, accepted));
            }
            Message::Checkpoint { checkpoint, signature } => {
                self.on_checkpoint(from, checkpoint, signature);
            }
            Message::Stable(stable) => drop(self.checkpoints.raise(*stable)),
            Message::Accepted { tip, stable } => {
                self.peers.hears(from, tip.height);
                self.hear(now, from, tip);
                self.on_standing(now, from, (tip.height, stable), fx);
            }
            Message::Frosty(word) => self.on_word(now, from, *word, fx),
        }
    }
}

impl Protocol for Snowman {
    type Types = Types;
    type Verifier = Domain;

    const PIPELINE: usize = 16;

    const CAPABILITIES: &'static [Capability] = &[];

    const VOUCHES_FOR_PARENTS: bool = false;

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        let checks = self.checks(from, &message)?;
        Ok(Claim::new(message, checks))
    }

    fn carried_block(message: &Message) -> Option<&BlockOf<Types>> {
        match message {
            Message::Push(block) => Some(block),
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
            Input::Fetched { from, block } => self.on_fetched(now, from, block.into_inner()),
            Input::Signed { statement, signature } => {
                if !self.on_signed_word(now, &statement, signature, &mut fx) {
                    self.on_signed(&statement, signature, &mut fx);
                }
            }
            Input::Installed { root, recent, evidence } => {
                self.fetching.progressed(now);
                self.install(root, &recent, evidence);
            }
            Input::Connected(peer) => {
                self.on_connected(peer, &mut fx);
                self.on_connected_to(now, peer, &mut fx);
            }
            Input::Wake => self.turn.open(),
            Input::Announced { .. }
            | Input::Timeout
            | Input::Checked { .. }
            | Input::Combined { .. } => {}
        }
        self.follow_up(now, ledger, &mut fx);
        fx
    }

    fn deadline(&self) -> Option<Time> {
        let round = self.frosty.as_ref().and_then(|frosty| frosty.deadline());
        let (poll, fetch) = (self.poll_deadline(), self.fetching.deadline());
        [poll, self.turn.due, self.peers.repeat, fetch, round].into_iter().flatten().min()
    }

    fn status(&self) -> Status {
        Status {
            view: View(0),
            leader: None,
            committed: self.accepted.head().height(),
            uncommitted: self.uncommitted(),
            abstain_until: View(0),
            details: [
                ("stable_checkpoint", self.checkpoints.low().0),
                ("polls", self.polls.ended),
                ("polls_in_a_row", u64::from(self.tree.counter())),
            ]
            .into_iter()
            .chain(self.frosty.iter().flat_map(|frosty| frosty.details()))
            .collect(),
        }
    }

    fn committed(&self) -> &BlockOf<Types> {
        self.accepted.head()
    }

    fn uncommitted(&self) -> usize {
        self.tree.len() + self.fetching.len()
    }

    fn holds(&self, block: &BlockId) -> bool {
        self.tree.get(block).is_some() || self.fetching.get(block).is_some()
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        self.place_of(block)
    }

    fn path(&self, tip: &BlockId) -> Vec<BlockOf<Types>> {
        self.way_to(tip)
    }

    fn missing(&self) -> Option<Missing> {
        self.fetching.missing()
    }

    fn claim_block(&self, block: BlockOf<Types>) -> Result<Claim<BlockOf<Types>>, Malformed> {
        let checks = self.domain.block(&block)?;
        Ok(Claim::new(block, checks))
    }

    fn look_back(&self) -> usize {
        0
    }

    fn roots_every(&self) -> u64 {
        self.settings.checkpoint_every.max(1)
    }

    fn snapshot_base(&self, id: &BlockId) -> Option<SnapshotBase<Types>> {
        let block = Arc::clone(self.accepted.get(id)?);
        let committed = block.height();
        let recent = self.accepted.below(committed, MAX_LOOK_BACK);
        Some(SnapshotBase { block, committed, recent })
    }

    fn verifier(&self) -> Domain {
        self.domain.clone()
    }

    fn testimony(&self) -> Testimony {
        Testimony { accepted: self.accepted.head().height() }
    }

    fn testimony_statement(&self, _: &Testimony, content: &Digest) -> Statement {
        self.domain.testimony(content)
    }

    fn claim_testimony(&self, _: &Testimony) -> Result<Vec<Check>, Malformed> {
        Ok(Vec::new())
    }

    fn recollect(&self, _: &[Testimony]) -> Option<Memory> {
        None
    }
}
