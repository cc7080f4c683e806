//! What clients and replicas say to each other.

use bytes::Bytes;

use super::block::MAX_FRAMES;
use super::frame::{self, Frame, SharedFrame};
pub use super::outcome::{MAX_REPLY_BYTES, Outcome, Refusal, Rejection, Unproven};
use super::packed::Packed;
pub use super::program::Program;
use crate::base::crypto::Signature;
use crate::base::membership::{Governance, MAX_REPLICAS, Member};
use crate::base::types::{Epoch, Height, Sequence, SessionId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::state_machine::MAX_CHUNK_BYTES;

/// Longest question to the application, bytes.
pub const MAX_QUESTION_BYTES: usize = 64 << 10;
/// Most questions in one [`Request::ReadAt`], and most bytes of them, packed.
pub const MAX_READS: usize = 1024;
/// See [`MAX_READS`].
pub const MAX_READS_BYTES: usize = 1 << 20;
/// Most bytes of what an application proves, with its proof.
pub const MAX_CONTENT_BYTES: usize = MAX_REPLY_BYTES / 4;
/// Most bytes of an answer: a block of frames' names, two certificates, and the content.
pub const MAX_ANSWER_BYTES: usize =
    MAX_CONTENT_BYTES + 32 * MAX_FRAMES + 2 * 128 * MAX_REPLICAS + 1024;

/// From a client to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Order and execute this frame (or open a session, if it is such a frame).
    Submit {
        /// The client sent the frame to this replica alone: pass it on to the others now. Only a
        /// hint, and not signed.
        relay: bool,
        /// The frame.
        frame: SharedFrame,
    },
    /// Ask the application without ordering the question. The answer is this replica's alone.
    /// Refused with [`Response::Unproven`] where too many questions wait, or the state cannot be
    /// read.
    Query {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// What the application is asked.
        question: Bytes,
    },
    /// Send decided blocks from this height on, with the certificates that prove them.
    Pull {
        /// The first height wanted.
        from: Height,
        /// Send no more than about this many bytes.
        budget_bytes: u32,
    },
    /// Ask what this replica's state holds, and for the proof: an
    /// [answer](crate::client::proven::Answer) that rests on a certificate, not on the replica's
    /// word.
    Prove {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// What the application is asked.
        question: Bytes,
    },
    /// Send the newest certified block: what the age of a proven state is measured by.
    Newest {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send how this epoch and those after it ended.
    Handovers {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client knows.
        from: Epoch,
    },
    /// Give your word that you are ready for a change of the members: sign it with your key of the
    /// next epoch.
    Ready {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The encoded [`SignedChange`](super::change::SignedChange), with its approvals.
        change: Bytes,
    },
    /// Send the list of clients.
    Clients {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Say what your program is, and which rules are in force.
    Program {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send the newest snapshot's description, with the evidence that proves its root.
    Offer {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send a chunk of that snapshot.
    Chunk {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The height of the snapshot.
        height: Height,
        /// Which chunk, from 0.
        chunk: u32,
    },
    /// Say up to which height there may be something that a client was answered for: this replica's
    /// part of a [read index](crate::client::read_index).
    ReadIndex {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client counts by.
        epoch: Epoch,
    },
    /// Ask the application, once this replica's state covers a height. All questions are answered
    /// from one state.
    ReadAt {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client counts by.
        epoch: Epoch,
        /// The lowest height of a state that may answer.
        index: Height,
        /// What the application is asked.
        questions: Packed,
    },
}

/// From a replica to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// What became of a frame, by the replicated state: equal at every correct replica, and
    /// believed when f + 1 replicas say the same.
    Outcome(Outcome),
    /// An outcome with the signature of the replica that says it
    /// ([what it signs](Outcome::statement)): where the cluster agreed on signed outcomes. f + 1
    /// equal ones of different replicas convince anybody.
    Signed {
        /// The outcome.
        outcome: Outcome,
        /// The replica's signature.
        signature: Signature,
    },
    /// What becomes of a frame if the block that holds it is committed: its sender has prepared the
    /// block, and executed it on the state of committed blocks. Believed when n - f replicas say
    /// the same of one view: then the block is committed.
    Tentative {
        /// The view in which the block is prepared.
        view: View,
        /// The outcome.
        outcome: Outcome,
        /// The replica's signature ([what it signs](Outcome::tentative_statement)), where the
        /// cluster agreed on signed outcomes; [`Signature::NONE`] elsewhere.
        signature: Signature,
    },
    /// This replica did not take the frame in. Its own word only: a hint, never an outcome.
    Refused {
        /// The frame's session (0: it was to open one).
        session: SessionId,
        /// Its first number (or incarnation).
        first: Sequence,
        /// Why.
        reason: Refusal,
    },
    /// The application's answer to a query.
    Answer {
        /// The query's id.
        id: u64,
        /// The answer.
        answer: Bytes,
    },
    /// Decided blocks, as [`Request::Pull`] asked: each is an encoded block with its frames.
    Blocks {
        /// The first block's height.
        from: Height,
        /// The blocks, encoded one after the other.
        blocks: Vec<Bytes>,
    },
    /// An encoded [`Answer`](crate::client::proven::Answer).
    Proven {
        /// The request's id.
        id: u64,
        /// The answer.
        answer: Bytes,
    },
    /// An encoded [`Newest`](crate::client::proven::Newest).
    Newest {
        /// The request's id.
        id: u64,
        /// The block and its certificate.
        newest: Bytes,
    },
    /// This replica proves nothing, or does not answer a query, by its own word.
    Unproven {
        /// The request's id.
        id: u64,
        /// Why.
        reason: Unproven,
    },
    /// How epochs ended, one after the other from the one asked for: each an encoded
    /// [`Handover`](crate::protocols::protocol::Handover) without its void blocks. None where that
    /// one has not ended here. There may be more; then it is asked for.
    Handovers {
        /// The request's id.
        id: u64,
        /// The ends of epochs.
        handovers: Vec<Bytes>,
    },
    /// The list of clients in this replica's latest state.
    Clients {
        /// The request's id.
        id: u64,
        /// The encoded [`Clients`](super::clients::Clients).
        clients: Bytes,
    },
    /// This replica's word that it is ready for the next epoch.
    Ready {
        /// The request's id.
        id: u64,
        /// Its signature ([what it signs](super::change::Change::readiness)).
        signature: Signature,
    },
    /// This replica is not ready, or would not accept the change.
    NotReady {
        /// The request's id.
        id: u64,
        /// Why, in words.
        reason: Bytes,
    },
    /// What this replica's program is.
    Program {
        /// The request's id.
        id: u64,
        /// What it says.
        program: Program,
    },
    /// An encoded [`Offer`](crate::replica::message::Offer); empty: there is no snapshot that a
    /// quorum stands for.
    Offer {
        /// The request's id.
        id: u64,
        /// The offer.
        offer: Bytes,
    },
    /// A chunk of a snapshot.
    Chunk {
        /// The request's id.
        id: u64,
        /// Whether it is the last.
        last: bool,
        /// The chunk.
        bytes: Bytes,
    },
    /// This replica's part of a read index.
    ReadIndex {
        /// The request's id.
        id: u64,
        /// The height.
        index: Height,
    },
    /// The application's answers to [`Request::ReadAt`], from one state.
    Reads {
        /// The request's id.
        id: u64,
        /// The answers to the first questions: to as many as fit a message and the time that a
        /// replica gives.
        answers: Packed,
    },
}

impl Encode for Request {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Submit { relay, frame } => {
                out.push(if *relay { 2 } else { 1 });
                frame.encode(out);
            }
            Self::Query { id, question } => {
                out.push(3);
                id.encode(out);
                put_bytes(out, question);
            }
            Self::Pull { from, budget_bytes } => {
                out.push(4);
                from.encode(out);
                budget_bytes.encode(out);
            }
            Self::Prove { id, question } => {
                out.push(5);
                id.encode(out);
                put_bytes(out, question);
            }
            Self::Newest { id } => {
                out.push(6);
                id.encode(out);
            }
            Self::Handovers { id, from } => {
                out.push(7);
                id.encode(out);
                from.encode(out);
            }
            Self::Ready { id, change } => {
                out.push(8);
                id.encode(out);
                put_bytes(out, change);
            }
            Self::Offer { id } => {
                out.push(9);
                id.encode(out);
            }
            Self::Chunk { id, height, chunk } => {
                out.push(10);
                id.encode(out);
                height.encode(out);
                chunk.encode(out);
            }
            Self::Clients { id } => {
                out.push(11);
                id.encode(out);
            }
            Self::Program { id } => {
                out.push(12);
                id.encode(out);
            }
            Self::ReadIndex { id, epoch } => {
                out.push(15);
                id.encode(out);
                epoch.encode(out);
            }
            Self::ReadAt { id, epoch, index, questions } => {
                out.push(16);
                id.encode(out);
                epoch.encode(out);
                index.encode(out);
                questions.encode(out);
            }
        }
    }
}

/// A [`Request`] before anything of it was hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// [`Request::Submit`]; see [`name_all`](frame::name_all).
    Submit {
        /// As there.
        relay: bool,
        /// The frame, without its identity.
        frame: frame::Unnamed,
    },
    /// Any other.
    Other(Request),
}

impl Decode for Decoded {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.clone().u8()? {
            kind @ (1 | 2) => {
                reader.u8()?;
                Ok(Self::Submit { relay: kind == 2, frame: frame::Unnamed::decode(reader)? })
            }
            _ => Ok(Self::Other(Request::decode(reader)?)),
        }
    }
}

impl Decode for Request {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            kind @ (1 | 2) => {
                Ok(Self::Submit { relay: kind == 2, frame: Frame::decode(reader)?.into() })
            }
            3 => Ok(Self::Query {
                id: reader.u64()?,
                question: reader.byte_string("question", frame::MAX_BODY_BYTES)?,
            }),
            4 => Ok(Self::Pull { from: Height::decode(reader)?, budget_bytes: reader.u32()? }),
            5 => Ok(Self::Prove {
                id: reader.u64()?,
                question: reader.byte_string("question", MAX_QUESTION_BYTES)?,
            }),
            6 => Ok(Self::Newest { id: reader.u64()? }),
            7 => Ok(Self::Handovers { id: reader.u64()?, from: Epoch::decode(reader)? }),
            8 => Ok(Self::Ready {
                id: reader.u64()?,
                change: reader.byte_string("change", MAX_CHANGE_BYTES)?,
            }),
            9 => Ok(Self::Offer { id: reader.u64()? }),
            10 => Ok(Self::Chunk {
                id: reader.u64()?,
                height: Height::decode(reader)?,
                chunk: reader.u32()?,
            }),
            11 => Ok(Self::Clients { id: reader.u64()? }),
            12 => Ok(Self::Program { id: reader.u64()? }),
            15 => Ok(Self::ReadIndex { id: reader.u64()?, epoch: Epoch::decode(reader)? }),
            16 => Ok(Self::ReadAt {
                id: reader.u64()?,
                epoch: Epoch::decode(reader)?,
                index: Height::decode(reader)?,
                questions: Packed::decode(reader, "questions", MAX_READS, MAX_READS_BYTES)?,
            }),
            _ => Err(DecodeError::Invalid { field: "request kind" }),
        }
    }
}

/// Most handovers in one [`Response::Handovers`], and most bytes of one.
pub const MAX_HANDOVERS: usize = 256;
/// A committee, a summary of the state, a block of frames' names and a certificate.
const MAX_HANDOVER_BYTES: usize = MAX_CHANGE_BYTES + 32 * MAX_FRAMES + 128 * MAX_REPLICAS + 1024;
/// Longest change of the members: a committee, and the signatures under it.
pub const MAX_CHANGE_BYTES: usize =
    (Member::MAX_CONTACT_BYTES + 256) * MAX_REPLICAS + 160 * Governance::MAX_ADMINISTRATORS;
/// Longest reason of a replica that is not ready.
const MAX_REASON_BYTES: usize = 16 << 10;
/// Most blocks in one [`Response::Blocks`].
const MAX_BLOCKS: usize = 4096;

impl Encode for Response {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Outcome(outcome) => {
                out.push(1);
                outcome.encode(out);
            }
            Self::Signed { outcome, signature } => {
                out.push(8);
                outcome.encode(out);
                signature.encode(out);
            }
            Self::Tentative { view, outcome, signature } => {
                out.push(9);
                view.encode(out);
                outcome.encode(out);
                signature.encode(out);
            }
            Self::Refused { session, first, reason } => {
                out.push(2);
                session.encode(out);
                first.encode(out);
                reason.encode(out);
            }
            Self::Answer { id, answer } => put_answer(out, 3, *id, answer),
            Self::Blocks { from, blocks } => {
                out.push(4);
                from.encode(out);
                (blocks.len() as u32).encode(out);
                for block in blocks {
                    put_bytes(out, block);
                }
            }
            Self::Proven { id, answer } => put_answer(out, 5, *id, answer),
            Self::Newest { id, newest } => put_answer(out, 6, *id, newest),
            Self::Unproven { id, reason } => put(out, 7, *id, reason),
            Self::Handovers { id, handovers } => {
                out.push(10);
                id.encode(out);
                (handovers.len() as u32).encode(out);
                handovers.iter().for_each(|handover| put_bytes(out, handover));
            }
            Self::Ready { id, signature } => put(out, 11, *id, signature),
            Self::NotReady { id, reason } => put_answer(out, 12, *id, reason),
            Self::Clients { id, clients } => put_answer(out, 15, *id, clients),
            Self::Offer { id, offer } => put_answer(out, 13, *id, offer),
            Self::Program { id, program } => put(out, 16, *id, program),
            Self::Chunk { id, last, bytes } => {
                out.push(14);
                id.encode(out);
                out.push((*last).into());
                put_bytes(out, bytes);
            }
            Self::ReadIndex { id, index } => put(out, 19, *id, index),
            Self::Reads { id, answers } => put(out, 20, *id, answers),
        }
    }
}

/// Writes an answer.
fn put(out: &mut Vec<u8>, kind: u8, id: u64, answer: &impl Encode) {
    out.push(kind);
    id.encode(out);
    answer.encode(out);
}

/// Writes an answer that is bytes.
fn put_answer(out: &mut Vec<u8>, kind: u8, id: u64, bytes: &[u8]) {
    out.push(kind);
    id.encode(out);
    put_bytes(out, bytes);
}

impl Decode for Response {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Outcome(Outcome::decode(reader)?)),
            2 => Ok(Self::Refused {
                session: SessionId::decode(reader)?,
                first: Sequence::decode(reader)?,
                reason: Refusal::decode(reader)?,
            }),
            3 => Ok(Self::Answer {
                id: reader.u64()?,
                answer: reader.byte_string("answer", MAX_REPLY_BYTES)?,
            }),
            4 => {
                let from = Height::decode(reader)?;
                let count = reader.length("blocks", MAX_BLOCKS)?;
                let mut blocks = Vec::with_capacity(count.min(reader.remaining() / 4));
                for _ in 0..count {
                    blocks.push(reader.byte_string("block", MAX_REPLY_BYTES)?);
                }
                Ok(Self::Blocks { from, blocks })
            }
            5 => Ok(Self::Proven {
                id: reader.u64()?,
                answer: reader.byte_string("proven answer", MAX_ANSWER_BYTES)?,
            }),
            6 => Ok(Self::Newest {
                id: reader.u64()?,
                newest: reader.byte_string("newest block", MAX_ANSWER_BYTES)?,
            }),
            7 => Ok(Self::Unproven { id: reader.u64()?, reason: Unproven::decode(reader)? }),
            8 => Ok(Self::Signed {
                outcome: Outcome::decode(reader)?,
                signature: Signature::decode(reader)?,
            }),
            9 => Ok(Self::Tentative {
                view: View::decode(reader)?,
                outcome: Outcome::decode(reader)?,
                signature: Signature::decode(reader)?,
            }),
            10 => {
                let id = reader.u64()?;
                let count = reader.length("handovers", MAX_HANDOVERS)?;
                let each = |_| reader.byte_string("handover", MAX_HANDOVER_BYTES);
                let handovers = (0..count).map(each).collect::<Result<_, _>>()?;
                Ok(Self::Handovers { id, handovers })
            }
            11 => Ok(Self::Ready { id: reader.u64()?, signature: Signature::decode(reader)? }),
            12 => Ok(Self::NotReady {
                id: reader.u64()?,
                reason: reader.byte_string("reason", MAX_REASON_BYTES)?,
            }),
            kind => Self::decode_later(kind, reader),
        }
    }
}

impl Response {
    /// Reads what is behind one of the later kinds.
    fn decode_later(kind: u8, reader: &mut Reader) -> Result<Self, DecodeError> {
        match kind {
            13 => Ok(Self::Offer {
                id: reader.u64()?,
                offer: reader.byte_string("offer", MAX_REPLY_BYTES)?,
            }),
            14 => {
                let (id, last) = (reader.u64()?, reader.u8()?);
                if last > 1 {
                    return Err(DecodeError::Invalid { field: "whether a chunk is the last" });
                }
                let bytes = reader.byte_string("chunk", MAX_CHUNK_BYTES)?;
                Ok(Self::Chunk { id, last: last == 1, bytes })
            }
            15 => Ok(Self::Clients {
                id: reader.u64()?,
                clients: reader.byte_string("clients", super::clients::MAX_BYTES)?,
            }),
            16 => Ok(Self::Program { id: reader.u64()?, program: Program::decode(reader)? }),
            19 => Ok(Self::ReadIndex { id: reader.u64()?, index: Height::decode(reader)? }),
            20 => Ok(Self::Reads {
                id: reader.u64()?,
                answers: Packed::decode(reader, "answers", MAX_READS, MAX_REPLY_BYTES)?,
            }),
            _ => Err(DecodeError::Invalid { field: "response kind" }),
        }
    }
}
