//! The disk of a simulated replica: production's log, snapshots and recovery (`quorate_journal`) on
//! a machine that can lose its power, fail to sync, fill up, rot and be set back.
//!
//! What a replica was promised to find again is remembered apart, and compared after each restart
//! (`promises.rs`).

mod corrupt;
mod errors;
mod layout;
mod old_state;
mod power;
mod promises;
mod slow;
mod storage;

pub use corrupt::{Corruption, Damage, Place};
pub use quorate_store::disk::Fate;

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::Decode as _;
use quorate_core::ledger::execution::{Execution, SnapshotHandle};
use quorate_core::protocols::hotstuff;
use quorate_core::protocols::protocol::{BlockOf, FullBlockOf, Types};
use quorate_core::replica::message::Offer;
use quorate_core::replica::{Record, Recovery, SnapshotMeta, drive};
use quorate_core::{Height, ledger::sessions};
use quorate_journal::{Disks, Journal, OpenError, OpenOptions, Owner, States, StatesError};
use quorate_store::disk::{Disk as _, Fired, Machine, PowerDisk};
use quorate_store::wal::{self, Durability};

use super::app::Register;
use promises::Promises;
pub(crate) use storage::cause_of;

/// The disk of one replica, and what a running replica has open on it.
pub struct Disk<T: Types = hotstuff::Types> {
    machine: Machine,
    /// The log's folder and that of the snapshots.
    folders: Option<(PowerDisk, PowerDisk)>,
    open: Option<Open>,
    /// What the next power failure does to what is in flight, if it was asked for ahead.
    fate: Option<Fate>,
    promises: Promises<T>,
    /// What has been done to it since the last recovery, if anything.
    damage: Option<Damage>,
    /// A copy made earlier.
    kept: Option<(PowerDisk, PowerDisk)>,
    /// What of the machine's faults was counted.
    counted: Fired,
    /// Turns that persisted something.
    pub writes: u64,
}

/// What a disk holds.
pub(crate) struct Found<T: Types> {
    /// The state.
    pub execution: Execution<Register>,
    /// What to start with, unless the replica has to rejoin, ...
    pub recovery: Option<Recovery<T>>,
    /// ... and what with then.
    pub restored: Recovery<T>,
}

/// What a running replica has open.
struct Open {
    journal: Journal,
    states: States,
    /// The snapshot being sent to peers.
    served: Option<(Height, Vec<Bytes>)>,
}

/// Whose disk it is, and how it is laid out.
pub(crate) struct Site<T: Types> {
    pub owner: Owner<T>,
    pub log: wal::Options,
}

impl<T: Types> Default for Disk<T> {
    fn default() -> Self {
        Self {
            machine: Machine::default(),
            folders: None,
            open: None,
            fate: None,
            promises: Promises::default(),
            damage: None,
            kept: None,
            counted: Fired::default(),
            writes: 0,
        }
    }
}

impl<T: Types> drive::Journal<T> for Disk<T> {
    type Error = wal::Error;

    fn write(&mut self, records: Vec<Record<T>>) -> Result<(), wal::Error> {
        self.writes += 1;
        let Some(open) = &mut self.open else {
            return Err(wal::Error::Poisoned { reason: "nothing is open".into() });
        };
        let safety = promises::newest(&records);
        let result = open.journal.write(records);
        self.promises.wrote(safety, result.is_ok(), open.journal.log().end());
        result
    }
}

impl<T: Types> Disk<T> {
    /// Opens the disk as production does, and compares what is found with what was promised. A disk
    /// on which nothing was ever promised is begun first, unless the replica rejoins.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// If something that was promised is gone though nothing was done to the disk that may cost it.
    pub(crate) fn open(
        &mut self,
        site: &Site<T>,
        rejoin: bool,
        fresh: &dyn Fn() -> Register,
    ) -> Result<Found<T>, OpenError> {
        let machine = &self.machine;
        let (log, states) = self
            .folders
            .get_or_insert_with(|| (PowerDisk::new(machine), PowerDisk::new(machine)))
            .clone();
        let disks = Disks { log: Arc::new(log), states: Arc::new(states) };
        if !rejoin && self.promises.is_empty() && self.damage.is_none() {
            quorate_journal::create(Arc::clone(&disks.log), site.log.clone(), &site.owner)?;
        }
        let options = OpenOptions {
            log: site.log.clone(),
            durability: Durability::Sync,
            rejoin,
            sessions: sessions::Limits::default(),
        };
        let astray = self.astray();
        let opened = quorate_journal::open(&disks, &site.owner, options, fresh)?;
        let end = opened.journal.log().end();
        let damage = self.damage.filter(|damage| damage.is_done(self.astray()));
        self.promises.compare(opened.recovery.as_ref(), &opened.restored, end, damage);
        // What went astray of this recovery's own writes is for the next one to find.
        self.damage.take_if(|damage| damage.is_done(astray));
        self.open = Some(Open { journal: opened.journal, states: opened.states, served: None });
        Ok(Found {
            execution: opened.execution,
            recovery: opened.recovery,
            restored: opened.restored,
        })
    }

    /// The process that had it open is gone.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Whether nothing was ever promised to be kept on it.
    pub fn is_blank(&self) -> bool {
        self.promises.is_empty()
    }

    /// How many writes have gone astray.
    fn astray(&self) -> u64 {
        let fired = self.machine.fired();
        fired.writes_lost + fired.writes_misdirected
    }

    /// Whether it was damaged since the last recovery.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// How many operations it was asked for: writes, syncs, changes of names.
    pub fn operations(&self) -> u64 {
        self.machine.operations()
    }

    /// The names of its files.
    pub fn files(&self) -> Vec<String> {
        let folders = self.folders.iter().flat_map(|(log, states)| [log, states]);
        folders.filter_map(|folder| folder.list().ok()).flatten().collect()
    }

    /// Bytes that the segments of the log take.
    pub fn log_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.journal.log().bytes())
    }

    /// Takes back the faults asked for that have not fired.
    pub fn heal(&mut self) {
        self.machine.heal();
        self.fate = None;
    }

    pub(crate) fn committed(&mut self, blocks: &[BlockOf<T>]) {
        if let Some(open) = &self.open {
            open.journal.index().committed(blocks);
        }
    }

    /// Committed blocks above one height, up to another, for a peer.
    pub(crate) fn chain(
        &self,
        above: Height,
        through: Height,
        budget_bytes: u32,
        tail: &[FullBlockOf<T>],
    ) -> Vec<FullBlockOf<T>> {
        let Some(open) = &self.open else { return Vec::new() };
        let blocks = open.journal.index().chain(above, through, budget_bytes, tail);
        blocks.into_iter().map_while(|bytes| FullBlockOf::<T>::from_bytes(bytes).ok()).collect()
    }

    /// From which height on committed blocks can be read, while a replica runs.
    pub fn begins(&self) -> Option<Height> {
        Some(self.open.as_ref()?.journal.index().first())
    }

    /// A chunk of a snapshot for a peer, and whether it is the last.
    pub(crate) fn chunk(&mut self, height: Height, chunk: u32) -> Option<(Bytes, bool)> {
        let open = self.open.as_mut()?;
        if open.served.as_ref().is_none_or(|(served, _)| *served != height) {
            open.served = Some((height, whole(&open.states, height)?));
        }
        let (_, chunks) = open.served.as_ref()?;
        let last = chunk as usize + 1 == chunks.len();
        let bytes = chunks.get(chunk as usize)?.clone();
        if last {
            open.served = None;
        }
        Some((bytes, last))
    }

    /// The chunks of a snapshot, if there is one at this height.
    pub fn snapshot(&self, height: Height) -> Option<Vec<Bytes>> {
        whole(&self.open.as_ref()?.states, height)
    }

    /// Writes a snapshot out.
    pub(crate) fn write_snapshot(
        &mut self,
        meta: &SnapshotMeta<T>,
        handle: SnapshotHandle,
    ) -> Result<(), StatesError> {
        let Some(open) = &self.open else { return Ok(()) };
        open.states.write(meta, handle)?;
        self.promises.has_snapshot(meta.block.height());
        Ok(())
    }

    /// Keeps an offer; with `retire` the log goes as far as its snapshot makes that possible.
    pub(crate) fn keep_offer(&mut self, offer: &Offer<T>, retire: bool) -> Result<(), KeepError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.states.keep_offer(offer)?;
        if retire {
            open.journal.retire(0, offer.block.height())?;
        }
        Ok(())
    }
}

/// Why an offer was not kept, or the log not cut.
#[derive(Debug)]
pub(crate) enum KeepError {
    States(StatesError),
    Log(wal::Error),
}

impl From<StatesError> for KeepError {
    fn from(error: StatesError) -> Self {
        Self::States(error)
    }
}

impl From<wal::Error> for KeepError {
    fn from(error: wal::Error) -> Self {
        Self::Log(error)
    }
}

/// The chunks of the snapshot at a height, if there is one.
fn whole(states: &States, height: Height) -> Option<Vec<Bytes>> {
    let mut chunks = Vec::new();
    let streamed = states.whole(height).ok()?.stream(&mut |chunk| {
        chunks.push(chunk);
        true
    });
    streamed.ok().map(|()| chunks)
}
