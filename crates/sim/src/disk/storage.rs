//! What replicas want written besides records, written.

use std::io::ErrorKind;

use quorate_core::ledger::execution::SnapshotHandle;
use quorate_core::replica::message::Offer;
use quorate_core::replica::{Input, SnapshotMeta};
use quorate_core::{Height, ReplicaId};
use quorate_journal::StatesError;
use quorate_store::snapshot::SnapshotError;
use quorate_store::wal;

use super::KeepError;
use crate::cluster::Cluster;
use crate::events::Event;
use crate::family::Family;

/// What the system said, if that is why the log failed.
pub(crate) fn cause_of(error: &wal::Error) -> Option<ErrorKind> {
    match error {
        wal::Error::Io { source, .. } => Some(source.kind()),
        _ => None,
    }
}

impl<F: Family> Cluster<F> {
    pub(crate) fn begin_snapshot(
        &mut self,
        slot: usize,
        meta: Box<SnapshotMeta<F::Types>>,
        handle: Box<SnapshotHandle>,
    ) {
        let place = &mut self.slots[slot];
        let (life, height) = (place.life, meta.block.height());
        place.writing = Some((meta, *handle));
        let micros = self.config.snapshot_micros;
        self.schedule(micros, Event::SnapshotWritten { to: slot, life, height });
    }

    pub(crate) fn snapshot_written(&mut self, slot: usize, height: Height) {
        let place = &mut self.slots[slot];
        let written = place.writing.take_if(|(meta, _)| meta.block.height() == height);
        let Some((meta, handle)) = written else { return };
        match place.disk.write_snapshot(&meta, handle) {
            Ok(()) => self.turn(slot, Input::SnapshotWritten(height)),
            Err(error) => {
                self.storage_failed(slot, cause_of_states(&error), &error.to_string());
            }
        }
    }

    pub(crate) fn offered(&mut self, slot: usize, offer: &Offer<F::Types>) {
        let retire = self.config.retire;
        match self.slots[slot].disk.keep_offer(offer, retire) {
            Ok(()) => self.tell_log(slot),
            Err(error) => {
                let (cause, words) = match &error {
                    KeepError::Log(error) => (cause_of(error), error.to_string()),
                    KeepError::States(error) => (cause_of_states(error), error.to_string()),
                };
                self.storage_failed(slot, cause, &words);
            }
        }
    }

    pub(crate) fn serve_chunk(&mut self, slot: usize, to: ReplicaId, height: Height, chunk: u32) {
        use quorate_core::replica::message::PeerMessage;
        if let Some((bytes, last)) = self.slots[slot].disk.chunk(height, chunk) {
            self.send(slot, Some(to), PeerMessage::Chunk { height, chunk, last, bytes });
        }
    }
}

fn cause_of_states(error: &StatesError) -> Option<ErrorKind> {
    match error {
        StatesError::Offer(error) => Some(error.kind()),
        StatesError::Snapshot(SnapshotError::Io { source, .. }) => Some(source.kind()),
        StatesError::Snapshot(_)
        | StatesError::Checkpoint(_)
        | StatesError::Chunk { .. }
        | StatesError::Source(_) => None,
    }
}
