//! What clients and replicas say to each other.

use bytes::Bytes;

use super::proven::{MAX_ANSWER_BYTES, MAX_QUESTION_BYTES};
use crate::base::types::{Height, Sequence, SessionId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::frame::{self, Frame, SharedFrame};

/// Most bytes of replies to one frame.
pub const MAX_REPLY_BYTES: usize = 16 << 20;

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
    /// Ask what this replica's state holds, and for the proof: an [answer](super::proven::Answer)
    /// that rests on a certificate, not on the replica's word.
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
}

/// From a replica to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// What became of a frame, by the replicated state: equal at every correct replica, and
    /// believed when f + 1 replicas say the same.
    Outcome(Outcome),
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
    /// An encoded [`Answer`](super::proven::Answer).
    Proven {
        /// The request's id.
        id: u64,
        /// The answer.
        answer: Bytes,
    },
    /// An encoded [`Newest`](super::proven::Newest).
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
}

/// What the replicated state made of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A session was opened (or had been, by the same request).
    Opened {
        /// The request's incarnation.
        incarnation: u64,
        /// The session's number.
        session: SessionId,
    },
    /// Commands were executed (now or earlier: a retry gets the first answer).
    Executed {
        /// The session.
        session: SessionId,
        /// The number of the first command answered here.
        first: Sequence,
        /// How many are answered.
        count: u32,
        /// Their replies, in order, each behind its length (u32).
        replies: Bytes,
    },
    /// The frame was ordered, and will never execute.
    Rejected {
        /// The frame's session (0: it was to open one).
        session: SessionId,
        /// Its first number (or incarnation).
        first: Sequence,
        /// Why.
        reason: Rejection,
    },
}

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $code,)*
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                match reader.u8()? {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(DecodeError::Invalid { field: stringify!($name) }),
                }
            }
        }
    };
}

reasons!(
    /// Why the replicated state turned a frame down. Final: the frame will never execute.
    Rejection {
        /// No such session, or it has expired. What the frame's commands did before that (if the
        /// frame is a retry) is not known.
        UnknownSession = 1,
        /// The session belongs to another key.
        ForeignSession = 2,
        /// The numbers are further ahead of the session than its window.
        BeyondWindow = 3,
        /// The commands were executed so long ago that their answers are gone.
        AnswerForgotten = 4,
        /// There is no room for another session, and none is old enough to expire.
        TooManySessions = 5,
        /// A later incarnation of the same key has opened a session.
        StaleIncarnation = 6,
    }
);

reasons!(
    /// Why one replica did not take a frame in. The same frame may be sent again.
    Refusal {
        /// The replica holds as many frames (of this session, or in all) as it may. Try later.
        Busy = 1,
        /// The signature does not hold.
        BadSignature = 2,
        /// The session belongs to another key.
        ForeignSession = 3,
        /// The frame is larger than the cluster's limits.
        TooLarge = 4,
        /// The replica is stopping or not ready yet.
        Unavailable = 5,
    }
);

reasons!(
    /// Why a replica sends no proof, or no answer to a query.
    Unproven {
        /// As many requests wait as may, of this client or in all. Try later, or another replica.
        Busy = 1,
        /// The application makes no proofs.
        NoProofs = 2,
        /// The application does not understand the question.
        Question = 3,
        /// The state cannot be read.
        Unavailable = 4,
    }
);

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
            _ => Err(DecodeError::Invalid { field: "request kind" }),
        }
    }
}

impl Encode for Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Opened { incarnation, session } => {
                out.push(1);
                incarnation.encode(out);
                session.encode(out);
            }
            Self::Executed { session, first, count, replies } => {
                out.push(2);
                session.encode(out);
                first.encode(out);
                count.encode(out);
                put_bytes(out, replies);
            }
            Self::Rejected { session, first, reason } => {
                out.push(3);
                session.encode(out);
                first.encode(out);
                reason.encode(out);
            }
        }
    }
}

impl Decode for Outcome {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => {
                Ok(Self::Opened { incarnation: reader.u64()?, session: SessionId::decode(reader)? })
            }
            2 => Ok(Self::Executed {
                session: SessionId::decode(reader)?,
                first: Sequence::decode(reader)?,
                count: reader.u32()?,
                replies: reader.byte_string("replies", MAX_REPLY_BYTES)?,
            }),
            3 => Ok(Self::Rejected {
                session: SessionId::decode(reader)?,
                first: Sequence::decode(reader)?,
                reason: Rejection::decode(reader)?,
            }),
            _ => Err(DecodeError::Invalid { field: "outcome kind" }),
        }
    }
}

/// Most blocks in one [`Response::Blocks`].
const MAX_BLOCKS: usize = 4096;

impl Encode for Response {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Outcome(outcome) => {
                out.push(1);
                outcome.encode(out);
            }
            Self::Refused { session, first, reason } => {
                out.push(2);
                session.encode(out);
                first.encode(out);
                reason.encode(out);
            }
            Self::Answer { id, answer } => {
                out.push(3);
                id.encode(out);
                put_bytes(out, answer);
            }
            Self::Blocks { from, blocks } => {
                out.push(4);
                from.encode(out);
                (blocks.len() as u32).encode(out);
                for block in blocks {
                    put_bytes(out, block);
                }
            }
            Self::Proven { id, answer } => {
                out.push(5);
                id.encode(out);
                put_bytes(out, answer);
            }
            Self::Newest { id, newest } => {
                out.push(6);
                id.encode(out);
                put_bytes(out, newest);
            }
            Self::Unproven { id, reason } => {
                out.push(7);
                id.encode(out);
                reason.encode(out);
            }
        }
    }
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
            _ => Err(DecodeError::Invalid { field: "response kind" }),
        }
    }
}
