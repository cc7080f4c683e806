//! Why a transaction is still pending.

use std::fmt;

use super::names::{InputId, TransactionId, VertexId};
use crate::base::types::Time;

/// All that a node knows of a pending transaction.
#[derive(Clone, Debug)]
pub struct Why {
    /// The transaction.
    pub transaction: TransactionId,
    /// d: successful polls of its vertices and of all their descendants.
    pub confidence: u64,
    /// Whether it is preferred in each of its conflict sets.
    pub preferred: bool,
    /// Successful polls in a row so far: the fewest of its conflict sets.
    pub count: u32,
    /// How many suffice: β₁ without a conflict, β₂ with one.
    pub needed: u32,
    /// Its conflict sets, one an input.
    pub sets: Vec<SetWhy>,
    /// The vertices it is in.
    pub vertices: Vec<VertexWhy>,
    /// What it waits for.
    pub reason: Reason,
}

/// A conflict set: all that would spend one output.
#[derive(Clone, Debug)]
pub struct SetWhy {
    /// The output.
    pub input: InputId,
    /// Its pending spenders with their confidence, by name.
    pub spenders: Vec<(TransactionId, u64)>,
    /// The preferred one.
    pub preferred: TransactionId,
    /// Successful polls in a row for the last spender that had one.
    pub count: u32,
    /// Whether there ever was a second spender: then β₂ applies.
    pub contested: bool,
}

/// A vertex with the transaction.
#[derive(Clone, Debug)]
pub struct VertexWhy {
    /// The vertex.
    pub vertex: VertexId,
    /// Whether this node prefers it and all its ancestors.
    pub strongly_preferred: bool,
    /// Its parents that are not accepted yet.
    pub pending_parents: Vec<VertexId>,
    /// The last poll of it.
    pub last_poll: Option<LastPoll>,
}

/// What a poll came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPoll {
    /// When it ended.
    pub at: Time,
    /// Seats in favour.
    pub yes: u32,
    /// Seats against.
    pub no: u32,
    /// Seats that had not answered when it ended.
    pub missing: u32,
}

/// What a pending transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not in a vertex yet, or is about to be issued again.
    Unissued,
    /// No poll of a vertex with it has ended yet.
    Unpolled,
    /// Another spender of this output is preferred.
    Rival {
        /// The output.
        input: InputId,
        /// The preferred spender.
        rival: TransactionId,
    },
    /// An ancestor of each of its vertices is not preferred: it will be issued again.
    Ancestors,
    /// It spends an output of this transaction, which is pending.
    Dependency(TransactionId),
    /// It has no conflict and enough successful polls, but a parent is not accepted.
    Parents,
    /// It needs so many more successful polls in a row.
    Polls(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unissued => write!(f, "it waits to be issued"),
            Self::Unpolled => write!(f, "no poll of it has ended yet"),
            Self::Rival { input, rival } => {
                write!(f, "the transaction {rival}, which spends {input} too, is preferred")
            }
            Self::Ancestors => write!(f, "an ancestor is not preferred; it will be issued again"),
            Self::Dependency(of) => write!(f, "it spends an output of {of}, which is pending"),
            Self::Parents => write!(f, "its polls suffice, but a parent is not accepted yet"),
            Self::Polls(1) => write!(f, "it needs one more successful poll"),
            Self::Polls(more) => write!(f, "it needs {more} more successful polls in a row"),
        }
    }
}
