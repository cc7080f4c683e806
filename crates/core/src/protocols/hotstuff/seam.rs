//! The answers of HotStuff to what the replica asks of its protocol.

use std::sync::Arc;

use super::block::SharedBlock;
use super::certificate::Qc;
use super::safety::Safety;
use super::testimony::{self, Testimony};
use super::verifier::Verifier;
use super::{Fx, HotStuff, Message, Types};
use crate::base::crypto::{Check, Claim, Statement};
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{
    Ancestry, Capability, Input, Ledger, Malformed, Missing, Output, Protocol, Record, Shown,
    SnapshotBase, Status, Verifier as _,
};

/// How many blocks below the newest certified one a state root is looked for.
const SHOWN_WITHIN: usize = 64;

impl Protocol for HotStuff {
    type Types = Types;
    type Verifier = Verifier;

    const TAKES_LATE_PROPOSALS: bool = true;

    const CAPABILITIES: &'static [Capability] =
        &[Capability::VerifiedReads, Capability::Pull, Capability::Rejoin, Capability::ReadIndex];

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        self.claim_message(from, message)
    }

    fn carried_block(message: &Message) -> Option<&SharedBlock> {
        match message {
            Message::Proposal { block, .. } => Some(block),
            _ => None,
        }
    }

    fn step(&mut self, now: Time, input: Input<Types>, ledger: &mut dyn Ledger) -> Fx {
        let mut fx = Fx::default();
        let reserved = self.safety.reserved;
        match input {
            Input::Start(recovered) => self.start(now, *recovered, &mut fx),
            Input::Timeout => self.on_timer(now, &mut fx),
            Input::Message { from, message } => {
                self.on_message(now, from, message.into_inner(), ledger, &mut fx);
            }
            Input::Announced { from, message } => {
                if let Message::Proposal { block, tc } = message.into_inner() {
                    self.on_certificates(now, from, block.justify.clone(), tc, &mut fx);
                }
            }
            Input::Fetched { block, .. } => {
                self.on_fetched(now, &block.into_inner(), ledger, &mut fx);
            }
            Input::Checked { ask, verdicts } => self.on_checked(now, ask, &verdicts, &mut fx),
            Input::Combined { ask, signature } => self.on_combined(now, ask, signature, &mut fx),
            Input::Signed { statement, signature } => {
                self.on_signed(now, &statement, signature, &mut fx);
            }
            Input::Installed { root, recent, evidence: certificate } => {
                self.install(now, root, recent, certificate, &mut fx);
            }
            Input::Wake => {}
            Input::Connected(peer) => {
                fx.output(Output::Send { to: peer, message: self.advance() });
                self.repeat_new_view(peer, &mut fx);
                self.repeat_time_out(peer, &mut fx);
                self.repeat_second_vote(peer, &mut fx);
            }
        }
        let root_certified = self.tree.root_carried(&self.safety.high_qc.block());
        let waits = ledger.has_pending() || root_certified < ledger.root_wanted();
        self.pacemaker.set_busy(now, waits || self.has_uncommitted_commands());
        self.vote_if_it_waited(ledger, &mut fx);
        self.vote_in_next_phase(&mut fx);
        self.tell_of_tc(&mut fx);
        self.propose_if_due(now, reserved, ledger, &mut fx);
        if self.said.take_must_write() {
            fx.record(Record::Memory(Arc::new(self.safety.clone())));
        }
        fx
    }

    fn deadline(&self) -> Option<Time> {
        let put_off = self.proposals.put_off_until(self.pacemaker.view());
        let waits = [self.pacemaker.deadline(), self.new_views.deadline(), put_off];
        waits.into_iter().flatten().min()
    }

    fn status(&self) -> Status {
        let view = self.pacemaker.view();
        let details =
            vec![("high_qc", self.safety.high_qc.view().0), ("lock", self.safety.lock.view().0)];
        Status {
            view,
            leader: Some(self.leader(view)),
            committed: self.tree.root().height,
            uncommitted: self.tree.uncommitted(),
            abstain_until: self.safety.abstain_until,
            details,
        }
    }

    fn view(&self) -> View {
        self.pacemaker.view()
    }

    fn committed(&self) -> &SharedBlock {
        self.tree.root()
    }

    fn uncommitted(&self) -> usize {
        self.tree.uncommitted()
    }

    fn holds(&self, block: &BlockId) -> bool {
        let is_above = self.tree.get(block).is_some() && self.tree.root().id() != *block;
        is_above || self.proposals.orphans().any(|orphan| orphan.id() == *block)
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        self.tree.find(block).map(|header| header.height)
    }

    fn path(&self, tip: &BlockId) -> Vec<SharedBlock> {
        let root = self.tree.root().height;
        let down = self.tree.path_down(tip).take_while(|block| block.height > root);
        let mut path: Vec<_> = down.cloned().collect();
        path.reverse();
        path
    }

    fn missing(&self) -> Option<Missing> {
        let qc = self.missing_of()?;
        Some(Missing { block: qc.block(), holders: qc.signers().collect() })
    }

    fn claim_block(&self, block: SharedBlock) -> Result<Claim<SharedBlock>, Malformed> {
        let checks = self.verifier().claim_block(&block)?;
        Ok(Claim::new(block, mutant!("fetched-block-unchecked", Vec::new(), checks)))
    }

    fn look_back(&self) -> usize {
        // A rule looks back three blocks from one above the root.
        self.settings.election.window(self.domain.committee().size()).max(4)
    }

    fn snapshot_base(&self, id: &BlockId) -> Option<SnapshotBase<Types>> {
        let block = Arc::clone(self.tree.get(id)?);
        let committed = self.tree.committed_by(id)?;
        let below = std::iter::successors(self.tree.find(&block.parent()), |header| {
            self.tree.find(&header.parent())
        });
        let mut recent: Vec<_> = below.take(self.look_back()).cloned().collect();
        recent.reverse();
        Some(SnapshotBase { block, committed, recent })
    }

    fn verifier(&self) -> Verifier {
        Verifier::new(self.domain.clone(), self.facts())
    }

    fn testimony(&self) -> Testimony {
        Testimony {
            view: self.pacemaker.view(),
            high_qc: self.safety.high_qc.clone(),
            high_tc: self.safety.high_tc.clone(),
        }
    }

    fn testimony_statement(&self, testimony: &Testimony, content: &Digest) -> Statement {
        self.domain.testimony(testimony.view, content)
    }

    fn claim_testimony(&self, testimony: &Testimony) -> Result<Vec<Check>, Malformed> {
        if testimony.view > testimony.proven() {
            return Err(Malformed::Contradiction);
        }
        let mut checks = testimony.high_qc.checks(&self.domain, &self.genesis)?;
        if let Some(high_tc) = &testimony.high_tc {
            checks.extend(high_tc.checks(&self.domain, &self.genesis)?);
        }
        Ok(checks)
    }

    fn recollect(&self, testimonies: &[Testimony]) -> Option<Safety> {
        testimony::recollect(testimonies, Safety::new(self.genesis))
    }

    fn certified(&self, root: &Digest, height: Height) -> Option<Shown<Types>> {
        let mut evidence = self.safety.high_qc.clone();
        for _ in 0..SHOWN_WITHIN {
            let block = self.tree.block(&evidence.block())?;
            if block.state_root == *root {
                return Some(Shown { block: Arc::clone(block), evidence });
            }
            if block.height <= height {
                break;
            }
            evidence = block.justify.clone();
        }
        None
    }

    fn newest_certified(&self) -> Option<Shown<Types>> {
        let evidence = self.safety.high_qc.clone();
        let block = Arc::clone(self.tree.block(&evidence.block())?);
        Some(Shown { block, evidence })
    }

    fn certified_state(&self) -> Option<Height> {
        self.tree.root_carried(&self.safety.high_qc.block())
    }

    /// The high QC. Every rule commits a block by q votes of replicas that hold its certificate or
    /// that of a block above it, and a later high QC is of a block that extends it.
    fn read_index(&self) -> Option<Height> {
        let Safety { high_qc, abstain_until, .. } = &self.safety;
        // A replica without memory helped to commit nothing that a certificate of so late a view
        // leaves out.
        let remembers = high_qc.view() >= *abstain_until;
        if !planted!("reads-ask-the-mute", true, remembers) {
            return None;
        }
        let root = self.tree.root();
        if high_qc.view() <= root.view {
            return Some(Height(0));
        }
        let path = self.path(&high_qc.block());
        path.first().filter(|lowest| lowest.parent() == root.id())?;
        let commands = path.iter().rev().find(|block| !block.is_empty());
        Some(commands.map_or(Height(0), |block| block.height))
    }

    fn showing(evidence: Qc) -> Option<Message> {
        let (high_tc, decided) = (None, None);
        Some(Message::Advance { high_qc: evidence, high_tc, decided, is_answer: true })
    }

    fn held_block(message: &Message) -> Option<&BlockId> {
        match message {
            Message::Vote(vote) => Some(&vote.ballot.block),
            Message::TimeOut { last_vote: Some(vote), .. } => Some(&vote.ballot.block),
            _ => None,
        }
    }

    fn ancestors(&self, proposal: &SharedBlock, floor: Height) -> Option<Ancestry<Types>> {
        let mut below: Vec<_> =
            self.tree.blocks_above(floor, &proposal.parent()).cloned().collect();
        below.reverse();
        Some(Ancestry { blocks: below, evidence: proposal.justify.clone() })
    }
}
