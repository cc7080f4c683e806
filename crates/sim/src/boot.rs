//! How a replica starts: with what its disk holds, or without.

use quorate_core::Digest;
use quorate_core::ledger::execution::SnapshotError;
use quorate_core::replica::{Halt, Input, Recovery};
use quorate_journal::OpenError;

use super::app::Register;
use super::cluster::Cluster;
use super::disk::{Disk, Found};
use super::family::Family;

impl<F: Family> Cluster<F> {
    /// Opens a slot's disk.
    fn open_disk(&mut self, slot: usize, rejoin: bool) -> Result<Found<F::Types>, OpenError> {
        let (site, fresh) = (self.config.site::<F>(self.slots[slot].id), self.fresh(slot));
        let breaks_at = self.slots[slot].breaks_at;
        self.slots[slot].disk.open(&site, rejoin, &|| Register { breaks_at, ..fresh() })
    }

    /// Starts a replica with what its disk holds. Where that can be read and is not what production
    /// starts with, the replica has lost its data, and rejoins without; where it cannot be read or
    /// written, it stays down.
    ///
    /// # Panics
    /// If the disk is refused though nothing was done to it that may lead to that.
    pub fn boot(&mut self, slot: usize) {
        if self.slots[slot].lost_data && self.slots[slot].disk.is_blank() {
            let nonce = self.rng.number() as u8;
            return self.rejoin(slot, nonce);
        }
        let Found { execution, recovery, restored } = match self.open_disk(slot, false) {
            Ok(found) => found,
            Err(error) => return self.refused(slot, &error),
        };
        self.slots[slot].core = Some(Box::new(self.make_core(slot, execution)));
        self.note(slot, || "starts".into());
        let first = match recovery {
            Some(recovery) => Input::Start(Box::new(recovery)),
            None => {
                // It was stopped while it rejoined.
                let nonce = Digest([self.rng.number() as u8; 32]);
                Input::Rejoin { nonce, restored: Box::new(restored) }
            }
        };
        self.turn(slot, first);
        self.tell_log(slot);
        self.connect(slot);
    }

    /// What is on its disk was refused.
    fn refused(&mut self, slot: usize, error: &OpenError) {
        if self.slots[slot].disk.is_off() || error.io().is_some() {
            let cause = error.io().map(std::io::Error::kind);
            return self.storage_failed(slot, cause, &error.to_string());
        }
        if let OpenError::State(SnapshotError::Rules(unknown)) = error {
            return self.slots[slot].halted = Some(Halt::Execution((*unknown).into()));
        }
        let id = self.slots[slot].id;
        assert!(
            self.slots[slot].disk.is_damaged(),
            "durability: r{id} cannot use what it wrote: {error}"
        );
        self.count_disk_faults(slot);
        self.faults.fired("data refused");
        self.note(slot, || format!("refuses its data: {error}"));
        let nonce = self.rng.number() as u8;
        self.rejoin(slot, nonce);
    }

    /// Tells a replica where its log begins.
    pub(crate) fn tell_log(&mut self, slot: usize) {
        if let Some(begins) = self.slots[slot].disk.begins() {
            self.turn(slot, Input::LogBegins(begins));
        }
    }

    /// Starts a replica whose disk was lost.
    pub fn rejoin(&mut self, slot: usize, nonce: u8) {
        self.slots[slot].disk = Disk::default();
        self.slots[slot].lost_data = true;
        self.oracles.forgot(self.slots[slot].id);
        let Found { execution, .. } = match self.open_disk(slot, true) {
            Ok(found) => found,
            Err(error) => return self.refused(slot, &error),
        };
        self.slots[slot].core = Some(Box::new(self.make_core(slot, execution)));
        self.note(slot, || "starts without its data, and asks the others".into());
        let (nonce, restored) = (Digest([nonce; 32]), Box::new(Recovery::nothing()));
        self.turn(slot, Input::Rejoin { nonce, restored });
        self.connect(slot);
    }

    /// Channels open between a replica that has just started and all that run.
    fn connect(&mut self, slot: usize) {
        for peer in 0..self.slots.len() {
            if peer != slot && self.slots[peer].core.is_some() {
                self.reconnect(slot, peer);
            }
        }
        for client in 0..self.clients.len() {
            let id = self.slots[slot].id;
            let sent = self.clients[client].reconnected(self.now, id);
            self.submit(client, sent);
        }
    }
}
