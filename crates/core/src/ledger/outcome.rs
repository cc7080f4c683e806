//! What became of a frame, as its client is told, and why it was turned down.

use bytes::Bytes;

use crate::base::crypto::{Kind, PublicKey, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Sequence, SessionId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};

/// Most bytes of replies to one frame.
pub const MAX_REPLY_BYTES: usize = 16 << 20;

/// What the replicated state made of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A session was opened, or had been, by the same request. Or one is open already under the
    /// same key and a higher incarnation than was asked for, and stays.
    Opened {
        /// The incarnation of the session that is open.
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
    /// Why the replicated state turned a frame down. Final, but for
    /// [`BeyondWindow`](Self::BeyondWindow): the frame will never execute.
    Rejection {
        /// No such session, or it has expired. What the frame's commands did before that (if the
        /// frame is a retry) is not known.
        UnknownSession = 1,
        /// The session belongs to another key.
        ForeignSession = 2,
        /// The numbers are further ahead of the session than its window, where the frame was
        /// ordered. The same frame, ordered again later, may be executed.
        BeyondWindow = 3,
        /// The commands were executed so long ago that their answers are gone.
        AnswerForgotten = 4,
        /// There is no room for another session, and none is old enough to expire.
        TooManySessions = 5,
        /// The key is revoked: its session has ended, and it gets no other. What the frame's
        /// commands did before that (if the frame is a retry) is not known. The same holds of the
        /// next two.
        Revoked = 6,
        /// The cluster takes commands from listed keys alone, and the key is not listed.
        NotListed = 7,
        /// The key is listed, and may not have commands ordered.
        ReadOnly = 8,
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
        /// Its epoch is another one than the client's, or ends: the members may be others by now.
        Epoch = 5,
        /// It cannot say what it helped to commit. It lost its data, or lacks blocks, or its
        /// protocol has no read index.
        Forgotten = 6,
        /// Its state has not come to the height asked for in time.
        Late = 7,
        /// Clients' keys have prefixes: who asks must be known, so the question is to be ordered.
        Restricted = 8,
    }
);

impl Rejection {
    /// Whether the [list of clients](crate::ledger::clients) is the reason.
    #[must_use]
    pub fn is_of_rights(self) -> bool {
        matches!(self, Self::Revoked | Self::NotListed | Self::ReadOnly)
    }
}

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

impl Outcome {
    /// What a replica of `committee` signs of it, where outcomes are signed. Bound to the key of
    /// the client that it is told.
    #[must_use]
    pub fn statement(&self, committee: &Committee, client: &PublicKey) -> Statement {
        let mut bytes = client.0.to_vec();
        self.encode(&mut bytes);
        let content = Digest::of("quorate signed outcome", &bytes);
        let (chain, epoch) = (committee.chain(), committee.epoch());
        Statement::new(&chain, epoch, 0, Kind::Outcome, View(0), 0, &content)
    }

    /// The statement of a tentative outcome: its block is prepared in `view`, and not committed.
    #[must_use]
    pub fn tentative_statement(
        &self,
        committee: &Committee,
        client: &PublicKey,
        view: View,
    ) -> Statement {
        let mut bytes = client.0.to_vec();
        self.encode(&mut bytes);
        let content = Digest::of("quorate tentative outcome", &bytes);
        let (chain, epoch) = (committee.chain(), committee.epoch());
        Statement::new(&chain, epoch, 0, Kind::Outcome, view, 0, &content)
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
