//! A state that an operator restored from a backup.
//!
//! It is written into a folder that has no log, as a snapshot. What the replica signed is in no
//! backup: it starts as one that lost its data ([`OpenOptions::rejoin`](super::OpenOptions)), with
//! this state. A mark beside the snapshot tells such a folder from one that lost its log alone,
//! which is refused.
//!
//! The mark is durable before the snapshot. A restore that was cut short in between leaves a mark
//! without its snapshot: that is not started from, and may be restored into again.
//!
//! A chain may also [begin](Owner::first_state) with a restored state. That one is the snapshot at
//! height 0, and may be put beside a log, which knows nothing below height 1.

use std::sync::Arc;

use quorate_core::Height;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::protocols::protocol::{SharedHandover, Types};
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::Offer;
use quorate_store::atomic_file;
use quorate_store::disk::Disk;

use super::epochs::{Epochs, EpochsError};
use super::open::{Disks, OpenError};
use super::owner::Owner;
use super::states::{Chunks, States, StatesError};

/// The mark's name in the folder of the snapshots. It holds the height.
const MARK_FILE: &str = "restored";
const MARK_BYTES: u64 = 8;

/// A state to restore.
pub struct Restored<'a, T: Types> {
    /// How the epochs before it ended, from the first: what its members are believed by.
    pub handovers: Vec<SharedHandover<T>>,
    /// What is kept beside it.
    pub meta: SnapshotMeta<T>,
    /// The proof of its root, with which it can be passed on to other replicas.
    pub offer: Option<Offer<T>>,
    /// Its chunks, as a snapshot hands them out.
    pub chunks: Chunks<'a>,
}

/// Writes a state into the folders of a replica that has no log, or into those of a replica whose
/// chain begins with that state. All is durable when this returns. It may be cut short at any
/// moment, and done again.
///
/// # Errors
/// [`OpenError::NotLost`] if there is data, which is never written over; others of the disk.
pub fn restore<T: Types>(
    disks: &Disks,
    owner: &Owner<T>,
    restored: Restored<'_, T>,
) -> Result<(), OpenError> {
    let Restored { handovers, meta, offer, chunks } = restored;
    let states = States::open(Arc::clone(&disks.states), owner.identity())?;
    let height = meta.block.height();
    let has_log = !disks.log.list().map_err(OpenError::List)?.is_empty();
    let heights = states.heights()?;
    if has_log {
        let is_first = height == Height(0) && heights.iter().all(|height| *height == 0);
        if !is_first || !states.beside()?.is_empty() {
            return Err(OpenError::NotLost { snapshots: false });
        }
    } else if mark(&*disks.states)?.is_none() && !is_blank(&*disks.states)? {
        return Err(OpenError::NotLost { snapshots: true });
    }
    let mark = height.to_bytes();
    atomic_file::replace(&*disks.states, MARK_FILE, &mark).map_err(StatesError::Offer)?;
    for earlier in heights.into_iter().filter(|earlier| *earlier != height.0) {
        states.remove(earlier)?;
    }
    Epochs::begin(Arc::clone(&disks.states), owner, &handovers).map_err(EpochsError::from)?;
    states.write_whole(&meta, chunks)?;
    if let Some(offer) = &offer {
        states.keep_offer(offer)?;
    }
    Ok(())
}

/// Whether the folder of the snapshots holds nothing but a mark that never counted.
pub(super) fn is_blank(states: &dyn Disk) -> Result<bool, OpenError> {
    let unfinished = format!("{MARK_FILE}.tmp");
    Ok(states.list().map_err(OpenError::List)?.iter().all(|name| *name == unfinished))
}

/// The height of the state that was to be restored here, if one was.
pub(super) fn mark(states: &dyn Disk) -> Result<Option<Height>, OpenError> {
    if !states.list().map_err(OpenError::List)?.iter().any(|name| name == MARK_FILE) {
        return Ok(None);
    }
    let bytes = atomic_file::read_from(states, MARK_FILE, MARK_BYTES).map_err(OpenError::List)?;
    Ok(Height::from_bytes(bytes.into()).ok())
}
