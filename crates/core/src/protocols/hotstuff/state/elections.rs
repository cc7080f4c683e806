//! The last elections held.

use std::collections::VecDeque;

use crate::base::types::{ReplicaId, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::certificate::Qc;

/// How many elections are kept: those of this view and the next, behind the last certificates.
const ELECTIONS: usize = 8;

/// The last elections held, where that takes long. An election is a pure function of the chain up
/// to its block, so it would come to the same again.
#[derive(Clone, Debug, Default)]
pub struct Elections {
    held: VecDeque<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    block: BlockId,
    phase: u8,
    view: View,
    leader: ReplicaId,
}

impl Elections {
    /// Who was elected for `view` behind `qc`, if that is known.
    pub fn leader(&self, qc: &Qc, view: View) -> Option<ReplicaId> {
        let is_of =
            |held: &&Held| (held.view, held.phase, held.block) == (view, qc.phase(), qc.block());
        self.held.iter().find(is_of).map(|held| held.leader)
    }

    /// Keeps what came of an election.
    pub fn keep(&mut self, qc: &Qc, view: View, leader: ReplicaId) {
        if self.held.len() == ELECTIONS {
            self.held.pop_front();
        }
        self.held.push_back(Held { block: qc.block(), phase: qc.phase(), view, leader });
    }

    /// Forgets all: another chain is at hand.
    pub fn forget(&mut self) {
        self.held.clear();
    }
}
