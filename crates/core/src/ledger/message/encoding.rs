//! How requests and responses are encoded: a number for the kind, and the fields in their order.

use bytes::Bytes;

use super::{
    Decoded, Generating, MAX_ANSWER_BYTES, MAX_BLOCKS, MAX_CHANGE_BYTES, MAX_CONTENT_BYTES,
    MAX_HANDOVER_BYTES, MAX_HANDOVERS, MAX_QUESTION_BYTES, MAX_READS, MAX_READS_BYTES,
    MAX_REASON_BYTES, Request, Response, ShareWord,
};
use crate::base::crypto::Signature;
use crate::base::types::{Epoch, Height, ReplicaId, Sequence, SessionId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::clients;
use crate::ledger::frame::{self, Frame};
use crate::ledger::generation::MAX_DEALING_BYTES;
use crate::ledger::outcome::{MAX_REPLY_BYTES, Outcome, Refusal, Unproven};
use crate::ledger::packed::Packed;
use crate::ledger::program::Program;
use crate::ledger::state_machine::MAX_CHUNK_BYTES;

impl Encode for Request {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Submit { relay, frame } => {
                out.push(if *relay { 2 } else { 1 });
                frame.encode(out);
            }
            Self::Query { id, question } => put_bytes_of(out, 3, *id, question),
            Self::Pull { from, budget_bytes } => {
                out.push(4);
                from.encode(out);
                budget_bytes.encode(out);
            }
            Self::Prove { id, question } => put_bytes_of(out, 5, *id, question),
            Self::Newest { id } => {
                out.push(6);
                id.encode(out);
            }
            Self::Handovers { id, from } => put(out, 7, *id, from),
            Self::Ready { id, change } => put_bytes_of(out, 8, *id, change),
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
            Self::Changes { id, from, wait } => {
                out.push(13);
                id.encode(out);
                from.encode(out);
                out.push((*wait).into());
            }
            Self::Lists { id, from, offset, budget_bytes } => {
                out.push(14);
                id.encode(out);
                from.encode(out);
                offset.encode(out);
                budget_bytes.encode(out);
            }
            Self::ReadIndex { id, epoch } => put(out, 15, *id, epoch),
            Self::ReadAt { id, epoch, index, questions } => {
                out.push(16);
                id.encode(out);
                epoch.encode(out);
                index.encode(out);
                questions.encode(out);
            }
            Self::Generation { id, key } => put(out, 17, *id, key),
            Self::Dealing { id, dealer } => put(out, 18, *id, dealer),
        }
    }
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
            13 => {
                let (id, from) = (reader.u64()?, Height::decode(reader)?);
                Ok(Self::Changes { id, from, wait: flag(reader, "whether to wait")? })
            }
            14 => Ok(Self::Lists {
                id: reader.u64()?,
                from: Height::decode(reader)?,
                offset: reader.u32()?,
                budget_bytes: reader.u32()?,
            }),
            15 => Ok(Self::ReadIndex { id: reader.u64()?, epoch: Epoch::decode(reader)? }),
            16 => Ok(Self::ReadAt {
                id: reader.u64()?,
                epoch: Epoch::decode(reader)?,
                index: Height::decode(reader)?,
                questions: Packed::decode(reader, "questions", MAX_READS, MAX_READS_BYTES)?,
            }),
            17 => Ok(Self::Generation {
                id: reader.u64()?,
                key: reader.option("whether an encryption key is asked for")?,
            }),
            18 => Ok(Self::Dealing { id: reader.u64()?, dealer: ReplicaId::decode(reader)? }),
            _ => Err(DecodeError::Invalid { field: "request kind" }),
        }
    }
}

fn flag(reader: &mut Reader, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { field }),
    }
}

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
            Self::Answer { id, answer } => put_bytes_of(out, 3, *id, answer),
            Self::Blocks { from, blocks } => {
                out.push(4);
                from.encode(out);
                (blocks.len() as u32).encode(out);
                for block in blocks {
                    put_bytes(out, block);
                }
            }
            Self::Proven { id, answer } => put_bytes_of(out, 5, *id, answer),
            Self::Newest { id, newest } => put_bytes_of(out, 6, *id, newest),
            Self::Unproven { id, reason } => put(out, 7, *id, reason),
            Self::Handovers { id, handovers } => {
                out.push(10);
                id.encode(out);
                (handovers.len() as u32).encode(out);
                handovers.iter().for_each(|handover| put_bytes(out, handover));
            }
            Self::Ready { id, signature } => put(out, 11, *id, signature),
            Self::NotReady { id, reason } => put_bytes_of(out, 12, *id, reason),
            Self::Clients { id, clients } => put_bytes_of(out, 15, *id, clients),
            Self::Offer { id, offer } => put_bytes_of(out, 13, *id, offer),
            Self::Changes { id, links } => put_bytes_of(out, 17, *id, links),
            Self::Lists { id, page } => put_bytes_of(out, 18, *id, page),
            Self::Program { id, program } => put(out, 16, *id, program),
            Self::Chunk { id, last, bytes } => {
                out.push(14);
                id.encode(out);
                out.push((*last).into());
                put_bytes(out, bytes);
            }
            Self::ReadIndex { id, index } => put(out, 19, *id, index),
            Self::Reads { id, answers } => put(out, 20, *id, answers),
            Self::Generation { id, generating } => put(out, 21, *id, &**generating),
            Self::Dealing { id, dealing } => put_bytes_of(out, 22, *id, dealing),
            Self::ReadyWithShares { id, word } => put(out, 23, *id, &**word),
        }
    }
}

/// Writes a message with a number of its own.
fn put(out: &mut Vec<u8>, kind: u8, id: u64, content: &impl Encode) {
    out.push(kind);
    id.encode(out);
    content.encode(out);
}

/// Writes one that is bytes.
fn put_bytes_of(out: &mut Vec<u8>, kind: u8, id: u64, bytes: &[u8]) {
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
            3 => numbered(reader, "answer", MAX_REPLY_BYTES)
                .map(|(id, answer)| Self::Answer { id, answer }),
            4 => {
                let from = Height::decode(reader)?;
                let count = reader.length("blocks", MAX_BLOCKS)?;
                let mut blocks = Vec::with_capacity(count.min(reader.remaining() / 4));
                for _ in 0..count {
                    blocks.push(reader.byte_string("block", MAX_REPLY_BYTES)?);
                }
                Ok(Self::Blocks { from, blocks })
            }
            5 => numbered(reader, "proven answer", MAX_ANSWER_BYTES)
                .map(|(id, answer)| Self::Proven { id, answer }),
            6 => numbered(reader, "newest block", MAX_ANSWER_BYTES)
                .map(|(id, newest)| Self::Newest { id, newest }),
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
                let (id, last) = (reader.u64()?, flag(reader, "whether a chunk is the last")?);
                let bytes = reader.byte_string("chunk", MAX_CHUNK_BYTES)?;
                Ok(Self::Chunk { id, last, bytes })
            }
            15 => numbered(reader, "clients", clients::MAX_BYTES)
                .map(|(id, clients)| Self::Clients { id, clients }),
            16 => Ok(Self::Program { id: reader.u64()?, program: Program::decode(reader)? }),
            17 => numbered(reader, "names of changes", MAX_CONTENT_BYTES)
                .map(|(id, links)| Self::Changes { id, links }),
            18 => numbered(reader, "page of changes", MAX_CONTENT_BYTES)
                .map(|(id, page)| Self::Lists { id, page }),
            19 => Ok(Self::ReadIndex { id: reader.u64()?, index: Height::decode(reader)? }),
            20 => Ok(Self::Reads {
                id: reader.u64()?,
                answers: Packed::decode(reader, "answers", MAX_READS, MAX_REPLY_BYTES)?,
            }),
            21 => {
                let id = reader.u64()?;
                let generating = Box::new(Generating::decode(reader)?);
                Ok(Self::Generation { id, generating })
            }
            22 => numbered(reader, "dealing", MAX_DEALING_BYTES)
                .map(|(id, dealing)| Self::Dealing { id, dealing }),
            23 => {
                let (id, word) = (reader.u64()?, Box::new(ShareWord::decode(reader)?));
                Ok(Self::ReadyWithShares { id, word })
            }
            _ => Err(DecodeError::Invalid { field: "response kind" }),
        }
    }
}

/// Bytes behind the number of the request that they answer.
fn numbered(
    reader: &mut Reader,
    field: &'static str,
    most: usize,
) -> Result<(u64, Bytes), DecodeError> {
    Ok((reader.u64()?, reader.byte_string(field, most)?))
}
