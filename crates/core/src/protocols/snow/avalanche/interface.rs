//! What goes into a node of Avalanche, and what comes out.

use std::sync::Arc;

use super::message::Message;
use super::names::{InputId, TransactionId, VertexId};
use super::vertex::{Vertex, Worth};
use crate::base::types::{ReplicaId, Time};
use crate::protocols::protocol;

/// What was accepted: the driver's ledger. The protocol keeps pending vertices and those decided
/// lately; it asks the driver for what lies further back. The records of a step must be in it
/// before the next step.
pub trait Past {
    /// Whether this vertex was accepted: all of its transactions were.
    fn has_vertex(&self, vertex: &VertexId) -> bool;

    /// Whether this transaction was accepted. A genesis allocation is one.
    fn has_transaction(&self, transaction: &TransactionId) -> bool;

    /// Which accepted transaction spent this output.
    fn spender(&self, input: &InputId) -> Option<TransactionId>;

    /// What an output of an accepted transaction is worth, be it spent or not; `None`: there is
    /// none such. By default there is any, for those whose transactions are worth nothing.
    fn output(&self, input: &InputId) -> Option<Worth> {
        let _ = input;
        Some(Worth::default())
    }
}

/// What happens to a node.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// Transactions of this node's clients, each valid and signed. They are issued in vertices of
    /// this node, and again when they are stuck.
    Submit(Vec<T>),
    /// A peer's message. The driver has verified every transaction of the vertex in it, unless the
    /// node [knows](super::Avalanche::knows) the vertex; a message with an invalid one it drops.
    Message {
        /// The peer, as the channel says.
        from: ReplicaId,
        /// What it says.
        message: Message<T>,
    },
    /// The driver cannot reach this peer, or has benched it: what it is asked counts as unanswered
    /// at once, until it is [reachable](Input::Reachable).
    Unreachable(ReplicaId),
    /// The peer can be asked again.
    Reachable(ReplicaId),
    /// The [deadline](super::Avalanche::deadline) has passed.
    Timeout,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Output<T> {
    /// Send a message.
    Send {
        /// To whom.
        to: ReplicaId,
        /// The message.
        message: Message<T>,
    },
    /// Send this vertex, which was accepted long ago, from the ledger, as a [`Message::Have`]; or
    /// nothing if it is not there.
    Serve {
        /// To whom.
        to: ReplicaId,
        /// Which.
        vertex: VertexId,
    },
    /// The transaction is final here. Its record precedes this.
    Accepted {
        /// The transaction.
        transaction: T,
        /// By which of the two rules.
        rule: Rule,
    },
    /// The transaction can never be accepted here.
    Rejected {
        /// The transaction.
        transaction: TransactionId,
        /// Why.
        reason: Conflict,
    },
    /// A transaction of a client was not taken.
    NotTaken {
        /// The transaction.
        transaction: TransactionId,
        /// Why.
        reason: NotTaken,
    },
}

/// What must be durable before the outputs of a step leave.
#[derive(Clone, Debug)]
pub enum Record<T> {
    /// The transaction was accepted: its inputs are spent, its outputs exist.
    Transaction(T),
    /// All transactions of this vertex are accepted.
    Vertex(Arc<Vertex<T>>),
}

/// By which rule a transaction was accepted (white paper, section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No conflict, all parents accepted, and β₁ successful polls in a row.
    Early,
    /// β₂ successful polls in a row in each of its conflict sets.
    Counter,
}

/// Why a transaction is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another transaction that spends one of its inputs was accepted.
    Spent {
        /// The input.
        input: InputId,
        /// The accepted transaction.
        by: TransactionId,
    },
    /// A transaction whose output it spends was rejected.
    Unfounded(TransactionId),
}

/// Why a client's transaction is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Accepted before, or under way.
    #[error("the transaction is known already")]
    Known,
    /// One of its inputs was spent by an accepted transaction.
    #[error("the output {input} was spent by {by}")]
    Spent {
        /// The input.
        input: InputId,
        /// The accepted transaction.
        by: TransactionId,
    },
    /// It spends an output of a transaction that is not known here, or was rejected.
    #[error("the output {0} does not exist here: wait until its transaction has arrived")]
    Unknown(InputId),
    /// Too many transactions of clients wait.
    #[error("too many transactions of clients wait here: try again later")]
    Busy,
    /// Its shape is refused: an input twice, or too many.
    #[error("it spends too much, or an output twice")]
    Malformed,
}

/// The effects of a step. The outputs are had by persisting the records.
pub type Effects<T> = protocol::Effects<Output<T>, Record<T>>;

/// A vertex in memory, as its node sees it now.
#[derive(Clone, Copy, Debug)]
pub struct SeenVertex<'a, T> {
    /// The vertex.
    pub vertex: &'a Vertex<T>,
    /// All of its transactions are accepted.
    pub accepted: bool,
    /// It or an ancestor has a rejected transaction.
    pub rejected: bool,
    /// The node prefers it and all its ancestors.
    pub strongly_preferred: bool,
    /// Successful polls of it and its descendants.
    pub confidence: u32,
    /// Successful polls in a row.
    pub count: u32,
    /// When it came.
    pub added: Time,
}
