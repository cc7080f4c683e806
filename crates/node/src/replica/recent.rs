//! The last committed blocks, for people: the dashboard and `quorate top` draw them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_core::base::crypto::Signers;
use quorate_core::ledger::block::{Content, SharedBlock, Summary as _};
use quorate_core::{Height, ReplicaId, View};

/// How many are kept.
const KEPT: usize = 120;

/// What is told of a committed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its height.
    pub height: Height,
    /// The view it was proposed in.
    pub view: View,
    /// Who proposed it, where the protocol says so in the block.
    pub proposer: Option<ReplicaId>,
    /// Frames of clients that it carries.
    pub frames: usize,
    /// The replicas whose votes its child shows; empty where there is no child yet, or where the
    /// form of the certificate does not tell.
    pub voters: Signers,
    /// When it was committed here: milliseconds since 1970.
    pub committed_ms: u64,
}

/// The last committed blocks, oldest first.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Told>>);

impl Recent {
    /// These blocks were committed, in this order.
    pub fn committed<C: Content>(&self, blocks: &[SharedBlock<C>]) {
        // More than are kept come while a replica catches up.
        let last = &blocks[blocks.len().saturating_sub(KEPT)..];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let committed_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for block in last {
            let header = block.header();
            if let Some(parent) =
                kept.back_mut().filter(|told| told.height.next() == block.height())
            {
                parent.voters = header.voters_of_parent();
            }
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(Told {
                height: block.height(),
                view: block.view(),
                proposer: header.proposer(),
                frames: block.frames().len(),
                voters: Signers::default(),
                committed_ms,
            });
        }
    }

    /// A copy of them.
    #[must_use]
    pub fn blocks(&self) -> Vec<Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
