use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{Epoch, Height, ReplicaId};
use crate::base::wire::DecodeError;
use crate::ledger::approvals::TooFew;
use crate::ledger::change::MIN_VOTERS;

/// Why a step of a generation was refused, or a change that names one. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("the step of a key generation cannot be read: {0}")]
    Unreadable(DecodeError),
    /// It came with other commands, so its signatures were not verified.
    #[error("a step of a key generation must be the only command of its frame")]
    NotAlone,
    /// It came in a frame of somebody else.
    #[error("a member deals, and complains, in a session of its own key of the plan")]
    Stranger,
    /// The members of this cluster do not sign with a threshold key.
    #[error("the members of this cluster have no threshold key: a change needs no key generation")]
    NoThresholdKey,
    /// The epoch is sealed.
    #[error("a change is under way: wait until epoch {0} has begun")]
    UnderWay(Epoch),
    /// It is for the end of another epoch.
    #[error("the key generation is for the end of epoch {found}, and this is epoch {current}")]
    Epoch {
        /// The epoch that it is for the end of.
        found: Epoch,
        /// The current one.
        current: Epoch,
    },
    /// It was begun, or another one came first.
    #[error("the key generation has the serial {found}, and the next one is {next}: begin it anew")]
    Serial {
        /// The serial that it has.
        found: u64,
        /// The serial that it must have.
        next: u64,
    },
    /// Too few administrators signed it.
    #[error("{found} administrators signed, {needed} must")]
    NotApproved {
        /// How many signed.
        found: usize,
        /// How many must.
        needed: usize,
    },
    /// So few or many dealers make no key.
    #[error("{0} members cannot generate a key: they are {MIN_VOTERS} to {MAX_REPLICAS}")]
    Dealers(usize),
    /// A dealer is no member of the epoch.
    #[error("replica {0} is no member yet, and cannot deal: add it as a learner first")]
    NotMember(ReplicaId),
    /// Two dealers have one key.
    #[error("two of the members that are to deal have the same key, or the same encryption key")]
    SharedKey,
    /// A dealer has an encryption key of the plan before.
    #[error(
        "replica {0} has the encryption key that it had in the generation before: it makes a fresh one"
    )]
    FormerKey(ReplicaId),
    /// It would be open for no time, or for too long.
    #[error("a key generation is open for 1 to {most} blocks, not for {found}")]
    OpenBlocks {
        /// For how many it would be.
        found: u32,
        /// For how many it may be.
        most: u32,
    },
    /// None is under way.
    #[error("no key generation is under way: administrators begin one")]
    None,
    /// Another one is under way.
    #[error("this is a step of another key generation than the one under way, of serial {0}")]
    Other(u64),
    /// Its time is up.
    #[error("the key generation was open up to height {0}: begin another one")]
    Expired(Height),
    /// The dealer has dealt.
    #[error("replica {0} has dealt already, and its first dealing counts")]
    Dealt(ReplicaId),
    /// The dealer has not dealt this.
    #[error("replica {0} has not dealt what the complaint is about")]
    NotDealt(ReplicaId),
    /// The dealer is disqualified.
    #[error("replica {0} is disqualified already")]
    Disqualified(ReplicaId),
    /// A change names a generation as it does not stand.
    #[error(
        "the change names another key generation, or this one as it stood before a dealing or a \
         complaint: have the members look again"
    )]
    Stale,
    /// A change is not the one that the key was generated for.
    #[error("the key was generated for another change, or for other members or keys of members")]
    OtherChange,
    /// Too few dealers qualify.
    #[error("{qualified} dealers qualify, and a key needs {needed}")]
    TooFew {
        /// How many qualify.
        qualified: usize,
        /// How many must.
        needed: usize,
    },
}

impl From<TooFew> for Refusal {
    fn from(TooFew { found, needed }: TooFew) -> Self {
        Self::NotApproved { found, needed }
    }
}
