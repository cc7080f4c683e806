//! What a node knows of a vertex, a transaction, and a conflict set.

use std::sync::Arc;

use super::names::{TransactionId, VertexId};
use super::vertex::Vertex;
use super::why::LastPoll;
use crate::base::types::{ReplicaId, Time};

/// What became of a vertex or a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pending,
    Accepted,
    /// Of a transaction: a rival was accepted. Of a vertex: it or an ancestor has a rejected
    /// transaction, so that nobody will ever strongly prefer it.
    Rejected,
}

/// A vertex in the graph.
#[derive(Clone, Debug)]
pub(super) struct Slot<T> {
    pub(super) vertex: Arc<Vertex<T>>,
    /// The peer that brought it first; none: it is this node's own.
    pub(super) from: Option<ReplicaId>,
    /// Its parents in memory; the others were accepted long ago.
    pub(super) parents: Vec<u32>,
    pub(super) children: Vec<u32>,
    /// Its transactions by their place in the vertex; none: accepted long ago.
    pub(super) transactions: Vec<Option<u32>>,
    /// Those of them with counters of their own.
    pub(super) tracked: Vec<u32>,
    pub(super) fate: Fate,
    /// How many of its transactions are not preferred, and parents not strongly preferred. The
    /// vertex is strongly preferred at zero.
    pub(super) weak: u32,
    /// How many of its transactions have a pending rival, and parents have such an ancestor. Others
    /// may prefer the rival, so payments do not vouch for the vertex.
    pub(super) risky: u32,
    /// Parents that are not accepted.
    pub(super) open_parents: u32,
    /// Parents in memory that are not settled.
    pub(super) unsettled_parents: u32,
    /// It and all its ancestors are decided: polls of descendants need not look at it.
    pub(super) settled: bool,
    /// It stands no deeper than this on ancestors that are not settled.
    pub(super) depth: u32,
    /// The [count](super::dag::Dag) of settlements at which the depth was exact.
    pub(super) measured: u64,
    /// Its transactions that are pending.
    pub(super) undecided: u32,
    /// Of these, the ones that are in no other vertex: they would be lost with it.
    pub(super) sole: u32,
    /// How easily it gives way where memory is short; none: it does not.
    pub(super) leaf: Option<Leaf>,
    /// Successful polls of it and its descendants: d of each transaction without its own counters.
    pub(super) chits: u32,
    /// Successful polls in a row: the counter of these.
    pub(super) count: u32,
    /// Whether it may be a parent, and how many of its children may.
    pub(super) eligible: bool,
    pub(super) eligible_children: u32,
    pub(super) last_poll: Option<LastPoll>,
    pub(super) added: Time,
    /// The last walk that saw it.
    pub(super) stamp: u32,
    /// The last negative answer that was counted against it in that walk, and the seats of all.
    pub(super) against: (u32, u32),
}

/// A pending vertex without children that may give way, by how soon it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaf {
    /// It is not strongly preferred.
    Weak,
    /// It is, and nothing is lost with it: no pending transaction is in it alone.
    Spare,
}

/// What the pending vertices of a peer take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bill {
    pub(super) vertices: usize,
    pub(super) weight: usize,
}

/// A transaction in the graph.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub(super) id: TransactionId,
    /// A vertex that has it, and where in it.
    pub(super) home: u32,
    pub(super) place: u32,
    pub(super) fate: Fate,
    /// Conflict sets that prefer another one, and one more if it is rejected.
    pub(super) disliked: u32,
    /// Whether it has or had a rival, and has not had β₁ successful polls in a row.
    pub(super) rival: bool,
    /// Counters of its own: as soon as it has a rival, or is in a second vertex. Before, those of
    /// its vertex are its own.
    pub(super) tracked: Option<Box<Tracked>>,
}

/// What a transaction alone has.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    /// d.
    pub(super) confidence: u64,
    /// All vertices that have it.
    pub(super) vertices: Vec<u32>,
    /// The last walk that counted it.
    pub(super) stamp: u32,
}

/// Who spends an output.
#[derive(Clone, Debug)]
pub(super) enum Spent {
    /// One transaction without counters of its own.
    One(u32),
    Set(Box<ConflictSet>),
}

/// All pending spenders of an output, and at most one decided one.
#[derive(Clone, Debug)]
pub(super) struct ConflictSet {
    pub(super) spenders: Vec<u32>,
    pub(super) preferred: u32,
    /// The last one with a successful poll.
    pub(super) last: Option<u32>,
    pub(super) count: u32,
    /// There was a second one at some time. It stays so when that one is forgotten: β₁ is for what
    /// never had a rival.
    pub(super) contested: bool,
}

/// What left memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped {
    /// Vertices that nobody will strongly prefer again.
    pub(super) rejected: Vec<VertexId>,
    /// Pending transactions that are in no vertex any more.
    pub(super) homeless: Vec<TransactionId>,
}
