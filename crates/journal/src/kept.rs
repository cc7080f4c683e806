//! Going on from a state that was kept (`quorate_core::state_machine::Keeper`).
//!
//! It is believed if it is one of this replica's chain: not below the newest snapshot, above which the protocol begins, and behind a
//! block of the log from which parents lead to that snapshot's block. The store of the state is not synced with each block, and
//! the log may be lost or set back; what does not fit is made again from snapshot and log, and that is noted.

use std::collections::BTreeMap;

use quorate_core::block::{BlockId, SharedBlock};
use quorate_core::execution::{Execution, KeptHead, ResumeError};
use quorate_core::replica::message::FullBlock;
use quorate_core::sessions;
use quorate_core::state_machine::{KeepError, StateMachine};

use super::open::OpenError;

/// The chain that the log has.
pub(super) struct Chain<'a> {
    /// The block of the newest snapshot, or the one before the first.
    pub(super) head: &'a SharedBlock,
    /// Recorded above it.
    pub(super) above: &'a [FullBlock],
    /// Recorded not above it.
    pub(super) below: &'a BTreeMap<BlockId, FullBlock>,
}

/// The kept states that are not below the snapshot, each with an application that has turned to it, the newest first.
pub(super) fn left<S: StateMachine>(
    fresh: &dyn Fn() -> S,
    head: &SharedBlock,
    notes: &mut Vec<String>,
) -> Result<Vec<(S, KeptHead)>, OpenError> {
    let mut left = Vec::new();
    let mut keeps = false;
    loop {
        let mut application = fresh();
        let Some(keeper) = application.keeper() else { return Ok(left) };
        if !keeper.turn_back()? {
            break;
        }
        keeps = true;
        match KeptHead::read(keeper) {
            // A snapshot that was being taken over.
            Ok(None) => {}
            Ok(Some(kept)) if kept.height < head.height => {
                let (behind, snapshot) = (kept.height, head.height);
                notes.push(format!(
                    "the kept state is of height {behind}, below the snapshot at {snapshot}: it is made again"
                ));
            }
            Ok(Some(kept)) => left.push((application, kept)),
            Err(ResumeError::Kept(error)) => return Err(error.into()),
            Err(error) => notes.push(format!("the kept state is of no use: {error}")),
        }
    }
    if !keeps && head.height.0 > 0 {
        notes.push("there is no kept state: it is made from the snapshot".into());
    }
    Ok(left)
}

/// Goes on from the first of the kept states that the chain leads to.
pub(super) fn resume<S: StateMachine>(
    kept: Vec<(S, KeptHead)>,
    limits: sessions::Limits,
    chain: &Chain<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Execution<S>>, KeepError> {
    for (application, head) in kept {
        let Some(blocks) = chain.leading_to(&head) else {
            notes.push(format!(
                "the kept state is of height {}, and the log does not lead there: it is made again from snapshot and log",
                head.height
            ));
            continue;
        };
        let blocks: Vec<_> =
            blocks.iter().map(|full| (full.block.id(), full.frames.as_slice())).collect();
        match Execution::resume(application, limits, &head, &blocks) {
            Ok(execution) => return Ok(Some(execution)),
            Err(ResumeError::Kept(error)) => return Err(error),
            Err(error) => notes.push(format!(
                "the kept state at height {} is of no use, and made again: {error}",
                head.height
            )),
        }
    }
    Ok(None)
}

impl Chain<'_> {
    /// The blocks above the base of a kept state up to its own, in order; nothing if they are not all there, or not on one chain with the
    /// snapshot.
    fn leading_to(&self, kept: &KeptHead) -> Option<Vec<&FullBlock>> {
        let above: BTreeMap<BlockId, &FullBlock> =
            self.above.iter().map(|full| (full.block.id(), full)).collect();
        let mut blocks = Vec::new();
        let (mut id, mut height) = (kept.block_id, kept.height);
        while height > kept.base || height > self.head.height {
            if height == self.head.height && id != self.head.id() {
                return None;
            }
            let full = above.get(&id).copied().or_else(|| self.below.get(&id))?;
            if full.block.height != height {
                return None;
            }
            if height > kept.base {
                blocks.push(full);
            }
            id = full.block.parent();
            height.0 -= 1;
        }
        if height == self.head.height && id != self.head.id() {
            return None;
        }
        blocks.reverse();
        Some(blocks)
    }
}
