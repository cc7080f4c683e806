//! What replicas say to each other in every variant of HotStuff.

use std::sync::Arc;

use crate::base::types::View;
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::protocols::hotstuff::block::{Block, SharedBlock};
use crate::protocols::hotstuff::certificate::{Qc, Tc, TimeOut, Vote};

/// A message. Its sender is known by the channel it came through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The leader's block for its view. Not signed by itself: the channel authenticates it, and
    /// what counts are the votes.
    Proposal {
        /// The block.
        block: SharedBlock,
        /// Why its view may be entered, where the block's justify is not of the view before.
        tc: Option<Tc>,
    },
    /// A vote, to whoever collects those of its view and phase, or to all. Second votes bear no
    /// signature, and none is looked at.
    Vote(Vote),
    /// The certificate of a phase, from the leader of a view with several: vote in the next phase,
    /// or, if it is of the last, commit.
    Certificate(Qc),
    /// The sender gives up on a view: to all, or (the dissertation's COMPLAIN) to one replica that
    /// collects them.
    TimeOut {
        /// Its signed word.
        time_out: TimeOut,
        /// Its high QC: `time_out.high_qc_view` is this one's view.
        high_qc: Qc,
        /// Its high TC, if that is above the high QC.
        high_tc: Option<Tc>,
        /// Its last vote, so that whoever leads next can complete the certificate that a dead
        /// leader was to make.
        last_vote: Option<Box<Vote>>,
    },
    /// The sender has entered a view by a time-out certificate, and tells its leader what it may
    /// have to extend.
    NewView {
        /// The view.
        view: View,
        /// The sender's high QC.
        high_qc: Qc,
    },
    /// The sender's certificates: for a peer that seems to lack them, and (the dissertation's
    /// NEXT-VIEW) for all from the replica that made a time-out certificate.
    Advance {
        /// Its high QC.
        high_qc: Qc,
        /// Its high TC, if that is above the high QC.
        high_tc: Option<Tc>,
        /// A certificate that commits its block by itself, above what the high QC shows to be
        /// committed.
        decided: Option<Qc>,
        /// It answers another message, and is not answered itself: where messages take longer than
        /// views, each answer is old when it comes, and answers to answers would never end.
        is_answer: bool,
    },
}

impl Message {
    /// A word for counters and transcripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Proposal { .. } => "proposal",
            Self::Vote(_) => "vote",
            Self::Certificate(_) => "certificate",
            Self::TimeOut { .. } => "time-out",
            Self::NewView { .. } => "new-view",
            Self::Advance { .. } => "advance",
        }
    }

    /// The view it is about.
    #[must_use]
    pub fn view(&self) -> View {
        match self {
            Self::Proposal { block, .. } => block.view,
            Self::Vote(vote) => vote.view,
            Self::Certificate(qc) => qc.view(),
            Self::NewView { view, .. } => *view,
            Self::TimeOut { time_out, .. } => time_out.view,
            Self::Advance { high_qc, high_tc, .. } => {
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
            Self::Advance { high_qc, high_tc, decided, is_answer } => {
                out.push(4);
                high_qc.encode(out);
                high_tc.encode(out);
                decided.encode(out);
                out.push(u8::from(*is_answer));
            }
            Self::Certificate(qc) => {
                out.push(5);
                qc.encode(out);
            }
            Self::NewView { view, high_qc } => {
                out.push(6);
                view.encode(out);
                high_qc.encode(out);
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
                last_vote: reader.option("vote of a time-out")?.map(Box::new),
            }),
            4 => Ok(Self::Advance {
                high_qc: Qc::decode(reader)?,
                high_tc: reader.option("TC of an advance")?,
                decided: reader.option("decision of an advance")?,
                is_answer: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::Invalid { field: "whether an advance answers" }),
                },
            }),
            5 => Ok(Self::Certificate(Qc::decode(reader)?)),
            6 => Ok(Self::NewView { view: View::decode(reader)?, high_qc: Qc::decode(reader)? }),
            _ => Err(DecodeError::Invalid { field: "message kind" }),
        }
    }
}
