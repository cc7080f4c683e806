//! What nodes send each other.

use std::sync::Arc;

use super::names::VertexId;
use super::vertex::{Transaction, Vertex};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};

/// The most vertices that a negative answer names.
pub const MAX_AGAINST: usize = 16;

/// A message from node to node. The channel says who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<T> {
    /// Is this vertex strongly preferred? The question carries it, and so spreads it.
    Query {
        /// The sender's number of the poll, which the answer repeats.
        poll: u64,
        /// The vertex.
        vertex: Arc<Vertex<T>>,
    },
    /// What the sender thinks of the vertex of a poll.
    Answer {
        /// The number in the question.
        poll: u64,
        /// The answer.
        vote: Vote,
    },
    /// A request for a vertex that the sender needs: a parent of one that it was asked about.
    Want(VertexId),
    /// The answer to a [`Message::Want`].
    Have(Arc<Vertex<T>>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The vertex is strongly preferred: its transactions and those of all its ancestors are.
    Yes,
    /// It is not. These of it and its ancestors have a transaction that is not preferred; some of
    /// them, if they are many. Only Glacier's counters look at them.
    No(Vec<VertexId>),
}

impl<T: Encode> Encode for Message<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Query { poll, vertex } => {
                out.push(0);
                poll.encode(out);
                vertex.encode(out);
            }
            Self::Answer { poll, vote: Vote::Yes } => {
                out.push(1);
                poll.encode(out);
            }
            Self::Answer { poll, vote: Vote::No(against) } => {
                out.push(2);
                poll.encode(out);
                put_list(out, against);
            }
            Self::Want(vertex) => {
                out.push(3);
                vertex.encode(out);
            }
            Self::Have(vertex) => {
                out.push(4);
                vertex.encode(out);
            }
        }
    }
}

impl<T: Transaction + Decode> Decode for Message<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let kind = reader.u8()?;
        Ok(match kind {
            0 => {
                let poll = reader.u64()?;
                Self::Query { poll, vertex: Arc::new(Vertex::decode(reader)?) }
            }
            1 => Self::Answer { poll: reader.u64()?, vote: Vote::Yes },
            2 => {
                let poll = reader.u64()?;
                Self::Answer { poll, vote: Vote::No(reader.list("against", MAX_AGAINST)?) }
            }
            3 => Self::Want(VertexId::decode(reader)?),
            4 => Self::Have(Arc::new(Vertex::decode(reader)?)),
            _ => return Err(DecodeError::Invalid { field: "Avalanche message" }),
        })
    }
}
