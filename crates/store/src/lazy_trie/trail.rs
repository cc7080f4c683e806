//! The trail: what an owner leaves in the log and nowhere else, beside the changes of its batches.
//!
//! Entries are kept from the batch with which the trail begins ([`Batch::begin_trail`]): its segments of the log stay, whatever
//! checkpoints come, with all changes that are in them. They are never copied into the space, so that what is read once, after a restart, costs one write. Another trail is begun
//! while the last one still counts, in as many batches as it takes, and counts itself from the batch that says so ([`Batch::turn_trail`]).
//!
//! Where the trail that counts begins stands in the heads of checkpoints and in the batch that turned to it; entries and turns are changes of
//! the kinds 6 and 7 in [`batch`](super::batch).

use super::batch::{FIRST, LAST, MIDDLE, Stray, WHOLE};
use super::error::Error;
use super::recover::unknown;
use super::store::{Store, lock};
use crate::wal::{self, Position};

/// Positions in the log; none is 0, where no record can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trails {
    /// Of the batch with which the trail that counts begins.
    pub(super) counts: u64,
    /// Of the one with which another begins.
    pub(super) begun: u64,
}

impl Trails {
    /// Those of a log that was read, if there is a trail.
    pub(super) fn recovered(counts: u64) -> Trails {
        Trails { counts, begun: 0 }
    }

    /// The log below is not needed, as far as trails go.
    pub(super) fn from(self) -> u64 {
        [self.counts, self.begun].into_iter().filter(|from| *from > 0).min().unwrap_or(u64::MAX)
    }
}

/// Why reading ends.
enum End {
    Failed(Error),
    Enough,
}

impl From<wal::Error> for End {
    fn from(error: wal::Error) -> End {
        End::Failed(error.into())
    }
}

impl Store {
    /// Whether a trail counts.
    #[must_use]
    pub fn has_trail(&self) -> bool {
        lock(&self.shared.log).trails.counts > 0
    }

    /// The bytes of the log that are kept for the trail that counts: its entries, and the changes of all batches since it began. To begin another
    /// in time is for its owner: no checkpoint makes it shorter.
    #[must_use]
    pub fn trail_bytes(&self) -> u64 {
        let log = lock(&self.shared.log);
        if log.trails.counts == 0 { 0 } else { log.log.end().0.saturating_sub(log.trails.counts) }
    }

    /// Calls `each` with the entries of the trail that counts, oldest first, until it returns `false`.
    ///
    /// # Errors
    /// [`Error::Log`]; [`Error::Damaged`].
    pub fn trail(&self, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), Error> {
        let (reader, from) = {
            let log = lock(&self.shared.log);
            (log.log.reader(), log.trails.counts)
        };
        if from == 0 {
            return Ok(());
        }
        let mut parts: Option<Vec<u8>> = None;
        let ended = reader.replay(Position(from), |position, kind, payload| {
            match (kind, &mut parts) {
                (WHOLE, _) => {
                    parts = None;
                    return entries(position, payload, &mut each);
                }
                (FIRST, _) => parts = Some(payload.to_vec()),
                (MIDDLE, Some(parts)) => parts.extend_from_slice(payload),
                (LAST, Some(_)) => {
                    let mut whole = parts.take().unwrap_or_default();
                    whole.extend_from_slice(payload);
                    return entries(position, &whole, &mut each);
                }
                _ => {}
            }
            Ok(())
        });
        match ended {
            Err(End::Failed(error)) => Err(error),
            Ok(()) | Err(End::Enough) => Ok(()),
        }
    }
}

/// The entries of a batch's record.
fn entries(
    position: Position,
    payload: &[u8],
    each: &mut impl FnMut(&[u8]) -> bool,
) -> Result<(), End> {
    let unknown = || End::Failed(unknown(position));
    let (_, changes) = payload.split_first_chunk::<8>().ok_or_else(unknown)?;
    for stray in Stray::of(changes) {
        if let Stray::Entry(entry) = stray.map_err(|_| unknown())?
            && !each(entry)
        {
            return Err(End::Enough);
        }
    }
    Ok(())
}
