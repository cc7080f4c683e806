//! What a block is filled with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::{LaneId, Mempool, Place, lane_id, place};
use crate::base::membership::Rules;
use crate::base::types::ReplicaId;
use crate::ledger::block::MOST_PROOFS;
use crate::ledger::frame::{Frame, FrameId, SharedFrame};

/// Of frames that one replica passed on, or its clients, no more are looked at for a block once
/// those of so many sessions were put off. So a replica whose frames nobody
/// else holds delays nobody else's, and making a block stays cheap.
const MOST_PUT_OFF: usize = 1024;

/// So many frames whose proofs do not fit are weighed for a block. Then all that may rest on some
/// wait for the next one.
const MOST_TOO_HEAVY: usize = 16;

impl Mempool {
    /// What the next block may hold: frames that `in_ancestors` says are in none of the blocks
    /// between it and the last one committed, as many as fit, and at least one if there is any.
    ///
    /// Costs what it returns and what is in the ancestors, not what the mempool holds.
    #[must_use]
    pub fn batch(
        &self,
        in_ancestors: &dyn Fn(&FrameId) -> bool,
        max_commands: usize,
        max_bytes: usize,
    ) -> Vec<SharedFrame> {
        self.ready_batch(in_ancestors, &|_| Some(0), max_commands, max_bytes)
    }

    /// The same, without frames of which `proofs_of` says nothing, and those behind them in their
    /// session: they are to wait. Of the others it says what their proofs weigh: those of several
    /// frames come to [`MOST_PROOFS`] at most. It looks at each frame that waits, where many are
    /// not ready.
    #[must_use]
    pub fn ready_batch(
        &self,
        in_ancestors: &dyn Fn(&FrameId) -> bool,
        proofs_of: &dyn Fn(&Frame) -> Option<usize>,
        max_commands: usize,
        max_bytes: usize,
    ) -> Vec<SharedFrame> {
        let mut batch = Vec::new();
        let (mut commands, mut bytes, mut proofs) = (0, 0, 0_usize);
        // How far each lane was looked through.
        let mut seen: BTreeMap<LaneId, Place> = BTreeMap::new();
        let (mut put_off, mut too_heavy) = (BTreeSet::new(), 0);
        let mut put_off_of: BTreeMap<Option<ReplicaId>, usize> = BTreeMap::new();
        for entry in self.by_arrival.values() {
            let source = entry.brought_by();
            let has_many = put_off_of.get(&source).is_some_and(|lanes| *lanes >= MOST_PUT_OFF);
            if has_many && entry.is_passed_on_at_once() {
                continue;
            }
            let (lane_id, until) = (lane_id(&entry.frame), place(&entry.frame));
            let from = match seen.get(&lane_id) {
                _ if put_off.contains(&lane_id) => continue,
                Some(last) if *last >= until => continue,
                Some(last) => Bound::Excluded(*last),
                None => Bound::Unbounded,
            };
            let Some(lane) = self.lanes.get(&lane_id) else { continue };
            for frame in lane.frames.range((from, Bound::Included(until))).map(|(_, frame)| frame) {
                if in_ancestors(&frame.id()) {
                    continue;
                }
                if too_heavy >= MOST_TOO_HEAVY && frame.is_administrative(Rules::EVERY_FORMAT) {
                    put_off.insert(lane_id);
                    break;
                }
                let Some(more) = proofs_of(frame) else {
                    put_off.insert(lane_id);
                    *put_off_of.entry(source).or_default() += 1;
                    break;
                };
                if !batch.is_empty() && more > MOST_PROOFS.saturating_sub(proofs) {
                    // It waits for a block that has room. Whatever rests on less goes on.
                    put_off.insert(lane_id);
                    too_heavy += 1;
                    break;
                }
                commands += frame.count() as usize;
                bytes += frame.encoded_bytes().len();
                if !batch.is_empty() && (commands > max_commands || bytes > max_bytes) {
                    return batch;
                }
                proofs = proofs.saturating_add(more);
                batch.push(Arc::clone(frame));
                if proofs > MOST_PROOFS {
                    return batch;
                }
            }
            seen.insert(lane_id, until);
        }
        batch
    }
}
