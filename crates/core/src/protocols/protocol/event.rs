//! What happened in a protocol, for people and checkers.

use super::ballot::Ballot;
use crate::base::types::{Digest, Height, ReplicaId, View};
use crate::ledger::block::BlockId;

/// What happened. One typed event feeds logs, metrics and transcripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A view was entered.
    Entered(View),
    /// This replica proposed a block.
    Proposed {
        /// Its view.
        view: View,
        /// It.
        block: BlockId,
        /// How many frames it carries.
        frames: usize,
    },
    /// This replica voted.
    Voted(Ballot),
    /// A proposal was not voted for.
    Declined {
        /// Its view.
        view: View,
        /// The reason.
        reason: Declined,
    },
    /// A proposal carries another state root than this replica computed: one of the two states is
    /// wrong.
    RootDiffers {
        /// The proposal's view.
        view: View,
        /// Who proposed it.
        proposer: ReplicaId,
        /// The height of the state.
        height: Height,
        /// The root computed here.
        ours: Digest,
        /// The proposal's.
        theirs: Digest,
    },
    /// q votes made a certificate here.
    Certified(Ballot),
    /// This replica gave up on a view.
    TimedOut(View),
    /// The leader of a view orders more slowly than it must, and the view is given up for that.
    TooSlow {
        /// The view.
        view: View,
        /// Its leader.
        leader: ReplicaId,
    },
    /// q time-outs made a certificate here, or one arrived.
    GaveUp(View),
    /// Blocks up to here are committed.
    Committed {
        /// The height.
        height: Height,
        /// The view of the head.
        view: View,
        /// The head.
        block: BlockId,
    },
    /// Blocks of abandoned forks were pruned.
    Pruned(usize),
    /// Two different blocks of one view by one proposer were seen.
    Equivocation {
        /// By whom.
        proposer: ReplicaId,
        /// In which view.
        view: View,
    },
    /// Votes for two blocks in one view and phase came from one replica.
    DoubleVote {
        /// Whose.
        voter: ReplicaId,
        /// Of which view.
        view: View,
    },
    /// A vote's signature did not hold.
    BadVote {
        /// Whose.
        voter: ReplicaId,
        /// Of which view.
        view: View,
    },
}

/// Why a proposal got no vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// It is not of the current view.
    NotCurrent,
    /// Its view has a certificate, of the phase that the vote would be for or a later one.
    Certified,
    /// This replica voted in its view or a later one.
    AlreadyVoted,
    /// This replica gave up on its view.
    TimedOut,
    /// The vote rule says no: it conflicts with the lock.
    Unsafe,
    /// Its state root is not this replica's.
    StateRoot,
    /// Its proposer does not lead its view in the chain that it extends.
    NotLeader,
    /// This replica lost its data and abstains still.
    Abstaining,
}
