//! What must hold in every scenario, judged from what correct copies sign, propose and commit, by
//! code that shares no predicate with production. What does not hold is a value here, not a panic:
//! scenarios are run by the million.

use std::fmt;

use quorate_core::base::crypto::Statement;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::SharedBlock;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was to hold, in a word.
    pub oracle: String,
    /// What happened instead.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}

/// What was seen of the correct replicas.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Vec<Seen>,
    /// The one chain, from height 1.
    chain: Vec<BlockId>,
    pub(super) violation: Option<Violation>,
}

/// What was seen of one.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The rank and content of its last vote.
    vote: ((u64, u8), [u8; 32]),
    given_up: u64,
    proposal: (u64, BlockId),
    /// The height it committed last.
    committed: u64,
}

impl Watch {
    pub(super) fn new(replicas: usize) -> Self {
        Self { seen: vec![Seen::default(); replicas], chain: Vec::new(), violation: None }
    }

    /// The first thing that went wrong counts.
    pub(super) fn violated(&mut self, oracle: &'static str, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { oracle: oracle.to_owned(), what: what() });
        }
    }

    /// A correct replica signs. Kinds and offsets as `crypto::Statement` documents its bytes.
    pub(super) fn signs(&mut self, replica: usize, statement: &Statement) {
        let bytes = statement.as_bytes();
        let mut view = [0; 8];
        view.copy_from_slice(&bytes[58..66]);
        let view = u64::from_le_bytes(view);
        match bytes[57] {
            1 => {
                let mut content = [0; 32];
                content.copy_from_slice(&bytes[67..]);
                self.votes(replica, (view, bytes[66]), content);
            }
            2 => self.seen[replica].given_up = self.seen[replica].given_up.max(view),
            _ => {}
        }
    }

    /// A correct replica votes, by its signature or, a second time, by its word.
    pub(super) fn votes(&mut self, replica: usize, rank: (u64, u8), content: [u8; 32]) {
        let seen = &mut self.seen[replica];
        let given_up = seen.given_up;
        let before = std::mem::replace(&mut seen.vote, (rank, content));
        if before == (rank, content) {
            return;
        }
        if rank <= before.0 {
            let (last, _) = before;
            self.violated("one vote", || {
                format!("r{replica} voted in {rank:?} after its vote in {last:?}")
            });
        }
        let (view, _) = rank;
        if view <= given_up {
            self.violated("no vote after a time-out", || {
                format!("r{replica} voted in view {view} after giving up {given_up}")
            });
        }
    }

    /// A correct replica proposes.
    pub(super) fn proposes(&mut self, replica: usize, block: &SharedBlock) {
        let (view, id) = (block.view.0, block.id());
        let before = std::mem::replace(&mut self.seen[replica].proposal, (view, id));
        if before.0 >= view && before.1 != id {
            self.violated("one proposal", || {
                format!("r{replica} proposed in view {view} after view {}", before.0)
            });
        }
    }

    /// A correct replica commits.
    pub(super) fn commits(&mut self, replica: usize, block: &SharedBlock) {
        let height = block.height.0;
        let last = std::mem::replace(&mut self.seen[replica].committed, height);
        if height != last + 1 {
            return self.violated("no gap", || {
                format!("r{replica} committed height {height} after {last}")
            });
        }
        let at = height as usize - 1;
        match self.chain.get(at) {
            Some(known) if *known != block.id() => self.violated("agreement", || {
                format!("r{replica} committed another block of view {} at {height}", block.view)
            }),
            Some(_) => {}
            None => {
                let linked = at == 0 || self.chain.get(at - 1) == Some(&block.parent());
                self.chain.push(block.id());
                if !linked {
                    self.violated("one chain", || {
                        format!("r{replica} committed at {height} what has another parent")
                    });
                }
            }
        }
    }
}
