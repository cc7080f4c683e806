//! Whether a replica may speak in the epoch that it is in, and how the protocol of an epoch begins.
//!
//! A replica comes back in the epoch of its state. That epoch may have ended long ago, and what the
//! replica said in it may be forgotten: its data was lost, or only the memory of a later epoch is
//! kept. Two contradictory words of an old epoch could forge a history for whoever knows genesis
//! alone. So it takes up its voice again only in an epoch of which it knows what it said there.
//!
//! | it | when |
//! |---|---|
//! | *speaks* | it remembers what it said here, or was never here before, or q members testified |
//! | *asks* | it does not know what it said, here and later: it wants testimonies ([`rejoin`]) |
//! | is *mute* | the same, or it remembers a later epoch, and it knows that this one has ended |
//!
//! A mute replica signs nothing and sends no word of its protocol. It hears none either: its
//! protocol gets the evidence of the end, and what it fetches for that. So it comes to the end by
//! blocks, or takes over a state of a later epoch, as any replica that is behind.
//!
//! # Why it asks once more
//! The q that testify may be behind: this replica may have been the first in the next epoch, and
//! have spoken there before it lost its data. So if the epoch ends in which it came back, it asks
//! in the next one as well: also when it speaks already, for the certificate that ends the epoch
//! may be on its way still. (PBFT forgets that it abstained once it speaks again. There the others
//! have gone on for two views without having come to the end of the epoch, and it is taken for
//! certain that it had not come there either.)
//!
//! [`rejoin`]: super::rejoin

use std::sync::Arc;

use super::beginning::{Beginning, Installed};
use super::epochs::{Kept, Voice};
use super::{Fx, Halt, Record, Recovery, Replica, SnapshotMeta};
use crate::base::crypto::Claim;
use crate::base::types::{Digest, Epoch, ReplicaId, Time, View};
use crate::base::wire::Encode as _;
use crate::ledger::block::FullBlock;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, FullBlockOf, Protocol, Recovered, SharedHandover};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    pub(super) fn start(&mut self, now: Time, recovery: Recovery<P::Types>, fx: &mut Fx<P::Types>) {
        let Recovery { handovers, memory, snapshot, offer, blocks } = recovery;
        if let Some(meta) = &snapshot {
            let earlier = meta.roots.split_last().map_or(&[][..], |(_, earlier)| earlier);
            if self.execution.height() == meta.block.height() {
                self.execution.recall_roots(earlier);
            }
        }
        if let Err(unknown) = self.execution.check_rules() {
            return self.halt(Halt::Execution(unknown), fx);
        }
        let last = Epoch(handovers.len() as u64);
        if let Err(reason) = self.recover_epochs(handovers, &blocks) {
            return self.halt(reason, fx);
        }
        let genesis = self.protocol.committed().height();
        let in_epoch = |meta: &&SnapshotMeta<P::Types>| meta.block.height() >= genesis;
        let root = snapshot.as_ref().filter(in_epoch);
        let root = root.map(|meta| (Arc::clone(&meta.block), meta.committed, meta.recent.clone()));
        self.snapshots.recovered(snapshot, offer);
        let (memory, blocks) = match self.epochs.believed.first() {
            None => (memory, blocks),
            Some(end) => {
                let end = end.state.height;
                let is_later = |full: &FullBlockOf<P::Types>| full.block.height() > end;
                let (blocks, earlier) = blocks.into_iter().partition(is_later);
                self.epochs.kept = Some(Kept { epoch: last, memory, blocks });
                (None, earlier)
            }
        };
        self.begin(now, Beginning { memory, root, blocks, installed: None }, fx);
    }

    /// Begins the protocol of the current epoch, or asks for testimonies first.
    pub(super) fn begin(
        &mut self,
        now: Time,
        mut beginning: Beginning<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let epoch = self.membership.latest().epoch();
        if let Some(kept) = self.epochs.kept.take_if(|kept| kept.epoch <= epoch)
            && kept.epoch == epoch
        {
            (beginning.memory, beginning.blocks) = (kept.memory, kept.blocks);
        }
        let has_ended = !self.epochs.believed.is_empty();
        self.epochs.voice = match (self.epochs.kept.is_some(), self.amnesia.is_own()) {
            (true, _) => Voice::Mute,
            (false, false) => Voice::Speaks,
            (false, true) if has_ended => Voice::Mute,
            (false, true) => Voice::Asks,
        };
        if self.epochs.asks() {
            self.amnesia.wait(self.membership.latest(), beginning);
            return self.ask_testimonies(now, fx);
        }
        self.take_up(now, beginning, fx);
    }

    /// Starts the protocol of the current epoch.
    pub(super) fn take_up(
        &mut self,
        now: Time,
        beginning: Beginning<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let genesis = Arc::clone(self.protocol.committed());
        let Beginning { memory, root, mut blocks, installed } = beginning;
        let (root, root_committed, recent) =
            root.unwrap_or_else(|| (Arc::clone(&genesis), genesis.height(), Vec::new()));
        let above = installed.as_ref().map_or(root.height(), |state| state.root.height());
        blocks.retain(|full| full.block.height() > above);
        for FullBlock { block, frames } in &blocks {
            self.payload.recover(block.id(), frames.clone());
        }
        let recorded = blocks.iter().map(|full| Arc::clone(&full.block)).collect();
        let recovered = Recovered { memory, root, root_committed, recent, blocks: recorded };
        self.consult(now, protocol::Input::Start(Box::new(recovered)), fx);
        if let Some(Installed { root, recent, evidence }) = installed {
            self.consult(now, protocol::Input::Installed { root, recent, evidence }, fx);
            self.give_recorded(now, blocks, fx);
        }
        self.drop_unheld_bodies();
        self.show_known_end(now, fx);
    }

    /// Gives the protocol the recorded blocks that stand above a state which was taken over. What
    /// they rest on was checked when they were recorded.
    fn give_recorded(
        &mut self,
        now: Time,
        blocks: Vec<FullBlockOf<P::Types>>,
        fx: &mut Fx<P::Types>,
    ) {
        for FullBlock { block, frames } in blocks {
            let id = block.id();
            if let Some(block) = Claim::new(block, Vec::new()).settle(&[])
                && !self.protocol.knows(&id)
            {
                self.hold(&block, frames);
                let from = self.settings.me;
                self.consult(now, protocol::Input::Fetched { from, block }, fx);
                self.let_go(&id);
            }
        }
    }

    /// Leads a mute replica to the end of its epoch, which it believes by its signatures.
    fn show_known_end(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if self.epochs.voice != Voice::Mute {
            return;
        }
        let (first, last) = (self.epochs.believed.first(), self.epochs.believed.last());
        let (Some(first), Some(last)) = (first.cloned(), last.cloned()) else { return };
        let me = self.settings.me;
        for peer in last.next.replicas().filter(|peer| *peer != me) {
            self.note_ahead(now, peer, last.next.epoch());
        }
        let message = P::showing(first.shown.evidence.clone());
        let message = message.and_then(|message| Claim::new(message, Vec::new()).settle(&[]));
        if let Some(message) = message {
            self.consult(now, protocol::Input::Message { from: me, message }, fx);
        }
    }

    /// The epoch whose testimonies are waited for has ended, as its members have signed.
    pub(super) fn has_ended(
        &mut self,
        now: Time,
        from: ReplicaId,
        handover: SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        if handover.ended() != self.membership.latest().epoch() {
            return;
        }
        let Some(beginning) = self.amnesia.stop_asking() else { return };
        let next = handover.next.epoch();
        self.epochs.believed = vec![handover];
        self.epochs.voice = Voice::Mute;
        self.take_up(now, beginning, fx);
        self.note_ahead(now, from, next);
    }

    /// Writes down how this epoch ended. Where this replica came back in it without its data, it
    /// does not know what it said in the next epoch either.
    pub(super) fn record_end(
        &mut self,
        now: Time,
        handover: &SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let status = self.protocol.status();
        let came_back = status.abstain_until > View(0);
        if came_back && !self.amnesia.is_own() {
            let mut bytes = now.0.to_le_bytes().to_vec();
            self.settings.me.encode(&mut bytes);
            bytes.extend_from_slice(&handover.state.block_id.0);
            self.amnesia.begin(Digest::of("quorate nonce", &bytes));
            fx.record(Record::Amnesia);
        }
        let end = Arc::clone(handover);
        mutant!("handover-not-persisted", (), fx.record(Record::Handover(end)));
    }
}
