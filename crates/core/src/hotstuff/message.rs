//! What replicas of a chained HotStuff say to each other.

use std::sync::Arc;

use crate::block::{Block, SharedBlock};
use crate::certificate::{Qc, Tc, TimeOut, Vote};
use crate::types::View;
use crate::wire::{Decode, DecodeError, Encode, Reader};

/// A message of chained HotStuff. Its sender is known by the channel it came through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "moved a few times; a time-out is no rare message")]
pub enum Message {
    /// The leader's block for its view. Not signed by itself: the channel authenticates it, and
    /// what counts are the votes.
    Proposal {
        /// The block.
        block: SharedBlock,
        /// Why its view may be entered, where the block's justify is not of the view before.
        tc: Option<Tc>,
    },
    /// A vote, to the leader of the next view.
    Vote(Vote),
    /// The sender gives up on a view.
    TimeOut {
        /// Its signed word.
        time_out: TimeOut,
        /// Its high QC: `time_out.high_qc_view` is this one's view.
        high_qc: Qc,
        /// Its high TC, if that is above the high QC.
        high_tc: Option<Tc>,
        /// Its last vote, so that whoever leads next can complete the certificate that a dead
        /// leader was to make (protocols.md, "Liveness of the three-chain").
        last_vote: Option<Vote>,
    },
    /// The sender's certificates, for a peer that seems to lack them.
    Advance {
        /// Its high QC.
        high_qc: Qc,
        /// Its high TC, if that is above the high QC.
        high_tc: Option<Tc>,
    },
}

impl Message {
    /// A word for counters and transcripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Proposal { .. } => "proposal",
            Self::Vote(_) => "vote",
            Self::TimeOut { .. } => "time-out",
            Self::Advance { .. } => "advance",
        }
    }

    /// The view it is about.
    #[must_use]
    pub fn view(&self) -> View {
        match self {
            Self::Proposal { block, .. } => block.view,
            Self::Vote(vote) => vote.view,
            Self::TimeOut { time_out, .. } => time_out.view,
            Self::Advance { high_qc, high_tc } => {
                high_tc.as_ref().map_or(high_qc.view(), |tc| tc.view().max(high_qc.view()))
            }
        }
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Proposal { block, tc } => {
                out.push(1);
                block.encode(out);
                tc.encode(out);
            }
            Self::Vote(vote) => {
                out.push(2);
                vote.encode(out);
            }
            Self::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                out.push(3);
                time_out.encode(out);
                high_qc.encode(out);
                high_tc.encode(out);
                last_vote.encode(out);
            }
            Self::Advance { high_qc, high_tc } => {
                out.push(4);
                high_qc.encode(out);
                high_tc.encode(out);
            }
        }
    }
}

impl Decode for Message {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Proposal {
                block: Arc::new(Block::decode(reader)?),
                tc: reader.option("TC of a proposal")?,
            }),
            2 => Ok(Self::Vote(Vote::decode(reader)?)),
            3 => Ok(Self::TimeOut {
                time_out: TimeOut::decode(reader)?,
                high_qc: Qc::decode(reader)?,
                high_tc: reader.option("TC of a time-out")?,
                last_vote: reader.option("vote of a time-out")?,
            }),
            4 => Ok(Self::Advance {
                high_qc: Qc::decode(reader)?,
                high_tc: reader.option("TC of an advance")?,
            }),
            _ => Err(DecodeError::Invalid { field: "message kind" }),
        }
    }
}
