//! What has happened in a run up to a step, as far as mutations ask.

use std::collections::{BTreeMap, BTreeSet};

use quorate_sim::steps::Step;

use crate::spec::file::GENESIS;

/// A block.
#[derive(Clone, Debug)]
pub struct Made {
    pub view: u64,
    pub parent: String,
}

/// What a correct replica has.
#[derive(Clone, Debug)]
pub struct Own {
    pub high: String,
    pub high_tc: u64,
    pub lock: String,
    pub voted: String,
    /// Whether it has signed its last vote.
    pub signed: bool,
}

impl Default for Own {
    fn default() -> Self {
        let genesis = || GENESIS.to_owned();
        let (high, lock, voted) = (genesis(), genesis(), genesis());
        Self { high, high_tc: 0, lock, voted, signed: false }
    }
}

impl Own {
    /// The view that it is in.
    pub fn view(&self, history: &History) -> u64 {
        history.view(&self.high).max(self.high_tc) + 1
    }
}

/// All of that.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub blocks: BTreeMap<String, Made>,
    own: BTreeMap<usize, Own>,
    /// Blocks whose certificates somebody has learnt or built upon.
    pub certified: BTreeSet<String>,
    /// Views of which a time-out certificate was learnt.
    pub skipped: BTreeSet<u64>,
    /// Who signed that it gave up which view, with a certificate of which view.
    pub time_outs: BTreeMap<(usize, u64, u64), ()>,
    /// The blocks made since anybody was last restarted.
    recent: BTreeSet<String>,
}

impl History {
    pub fn replica(&self, replica: usize) -> Own {
        self.own.get(&replica).cloned().unwrap_or_default()
    }

    pub fn view(&self, block: &str) -> u64 {
        self.blocks.get(block).map_or(0, |made| made.view)
    }

    pub fn parent(&self, block: &str) -> Option<String> {
        self.blocks.get(block).map(|made| made.parent.clone())
    }

    /// Whether nobody was restarted since the block was made.
    pub fn quiet_since(&self, block: &str) -> bool {
        self.recent.contains(block)
    }

    /// The next step.
    pub fn take(&mut self, step: &Step) {
        let own = self.own.entry(step.replica()).or_default();
        match step {
            Step::Start { voted, high_qc, lock, high_tc, .. } => {
                own.high.clone_from(high_qc);
                own.lock.clone_from(lock);
                own.high_tc = high_tc.unwrap_or(0);
                let voted = voted.clone().unwrap_or_else(|| GENESIS.into());
                own.signed &= voted == own.voted;
                own.voted = voted;
                self.recent.clear();
            }
            Step::Propose { block, view, parent, .. } => {
                self.certified.insert(parent.clone());
                self.recent.insert(block.clone());
                self.blocks.insert(block.clone(), Made { view: *view, parent: parent.clone() });
            }
            Step::Qc { block, .. } => {
                self.certified.insert(block.clone());
                let view = |block: &String| self.blocks.get(block).map_or(0, |made| made.view);
                if view(block) > view(&own.high) {
                    own.high.clone_from(block);
                }
            }
            Step::Tc { view, .. } => {
                self.skipped.insert(*view);
                own.high_tc = *view;
            }
            Step::Lock { block, .. } => own.lock.clone_from(block),
            Step::Vote { block, .. } => {
                own.voted.clone_from(block);
                own.signed = false;
            }
            Step::SignVote { block, .. } => own.signed |= own.voted == *block,
            Step::SignTimeOut { replica, view, high_qc } => {
                let high = self.blocks.get(high_qc).map_or(0, |made| made.view);
                self.time_outs.insert((*replica, *view, high), ());
            }
            Step::Commit { .. } | Step::Install { .. } | Step::TimeOut { .. } => {}
        }
    }
}
