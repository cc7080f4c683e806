//! How the words of this protocol are encoded.

use std::sync::Arc;

use super::{Content, MAX_FALLBACKS, Memory, Message, Nothing, Said, Standing, Summary, Vote};
use crate::base::crypto::Signature;
use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{Block, BlockId, MAX_FRAMES};
use crate::protocols::two_delay::certificate::{Commit, GaveUp, Phase, Qc, Tc};

/// Encodes the fields of a structure in their order.
macro_rules! fields {
    ($type:ty: $($field:ident),*) => {
        impl Encode for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
            }
        }
    };
}

impl Encode for Phase {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

impl Decode for Phase {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::First),
            2 => Ok(Self::Fallback),
            3 => Ok(Self::Second),
            _ => Err(DecodeError::Invalid { field: "phase of a vote" }),
        }
    }
}

impl Encode for Qc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.block.encode(out);
        put_list(out, &self.firsts);
        put_list(out, &self.fallbacks);
    }
}

impl Decode for Qc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            block: Digest::decode(reader)?,
            firsts: reader.list("first votes of a QC", MAX_REPLICAS)?,
            fallbacks: reader.list("fallback votes of a QC", MAX_REPLICAS)?,
        })
    }
}

impl Encode for Commit {
    fn encode(&self, out: &mut Vec<u8>) {
        self.phase.encode(out);
        self.view.encode(out);
        self.block.encode(out);
        put_list(out, &self.votes);
    }
}

impl Decode for Commit {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            phase: Phase::decode(reader)?,
            view: View::decode(reader)?,
            block: Digest::decode(reader)?,
            votes: reader.list("votes of a commit", MAX_REPLICAS)?,
        })
    }
}

fields!(GaveUp: replica, high, signature);

impl Decode for GaveUp {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            replica: ReplicaId::decode(reader)?,
            high: View::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Tc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        put_list(out, &self.entries);
    }
}

impl Decode for Tc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        Ok(Self { view, entries: reader.list("time-outs of a TC", MAX_REPLICAS)? })
    }
}

impl Encode for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.view.encode(out);
        self.height.encode(out);
        self.justify.encode(out);
        self.tc.encode(out);
        self.root_of.encode(out);
        self.state_root.encode(out);
        put_list(out, &self.frames);
    }
}

impl Decode for Content {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            justify: Qc::decode(reader)?,
            tc: reader.option("TC of a block")?,
            root_of: Height::decode(reader)?,
            state_root: Digest::decode(reader)?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        })
    }
}

fields!(Summary: epoch, view, height, parent, parent_view, root_of, state_root, payload);

impl Decode for Summary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            parent: Digest::decode(reader)?,
            parent_view: View::decode(reader)?,
            root_of: Height::decode(reader)?,
            state_root: Digest::decode(reader)?,
            payload: Digest::decode(reader)?,
        })
    }
}

/// A block, and the leader's signature under its first vote for it.
impl Encode for (BlockId, Signature) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl Decode for (BlockId, Signature) {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok((Digest::decode(reader)?, Signature::decode(reader)?))
    }
}

fields!(Vote: phase, view, block, signature);

impl Decode for Vote {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (phase, view) = (Phase::decode(reader)?, View::decode(reader)?);
        let block = reader.option("block of a vote")?;
        if block.is_none() && phase != Phase::First {
            return Err(DecodeError::Invalid { field: "blank vote of a later phase" });
        }
        Ok(Self { phase, view, block, signature: Signature::decode(reader)? })
    }
}

fn flag(reader: &mut Reader, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { field }),
    }
}

impl Encode for Standing {
    fn encode(&self, out: &mut Vec<u8>) {
        self.high_qc.encode(out);
        self.tc.encode(out);
        self.decided.encode(out);
        out.push(u8::from(self.asks));
    }
}

impl Decode for Standing {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            high_qc: Qc::decode(reader)?,
            tc: reader.option("TC of a standing")?,
            decided: reader.option("commit of a standing")?,
            asks: flag(reader, "whether a standing asks")?,
        })
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Proposal { block, signature, decided } => {
                out.push(1);
                block.encode(out);
                signature.encode(out);
                decided.encode(out);
            }
            Self::Vote(vote) => {
                out.push(2);
                vote.encode(out);
            }
            Self::TimeOut { view, high_qc, signature } => {
                out.push(3);
                view.encode(out);
                high_qc.encode(out);
                signature.encode(out);
            }
            Self::Standing(standing) => {
                out.push(4);
                standing.encode(out);
            }
        }
    }
}

impl Decode for Message {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Proposal {
                block: Arc::new(Block::decode(reader)?),
                signature: Signature::decode(reader)?,
                decided: reader.option("commit of a proposal")?,
            }),
            2 => Ok(Self::Vote(Vote::decode(reader)?)),
            3 => Ok(Self::TimeOut {
                view: View::decode(reader)?,
                high_qc: Qc::decode(reader)?,
                signature: Signature::decode(reader)?,
            }),
            4 => Ok(Self::Standing(Box::new(Standing::decode(reader)?))),
            _ => Err(DecodeError::Invalid { field: "message kind" }),
        }
    }
}

impl Encode for Said {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        out.push(u8::from(self.first.is_some()));
        if let Some(first) = &self.first {
            first.encode(out);
        }
        put_list(out, &self.fallbacks);
        self.second.encode(out);
        self.gave_up.encode(out);
    }
}

impl Decode for Said {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        let first = match flag(reader, "whether there is a first vote")? {
            true => Some(reader.option("first vote")?),
            false => None,
        };
        Ok(Self {
            view,
            first,
            fallbacks: reader.list("fallback votes", MAX_FALLBACKS)?,
            second: reader.option("second vote")?,
            gave_up: reader.option("time-out")?,
        })
    }
}

/// Of the memory.
const VERSION: u8 = 1;

impl Encode for Memory {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.said.encode(out);
        self.high_qc.encode(out);
        self.tc.encode(out);
        self.decided.encode(out);
    }
}

impl Decode for Memory {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.version("memory of two delays", VERSION)?;
        Ok(Self {
            said: Said::decode(reader)?,
            high_qc: Qc::decode(reader)?,
            tc: reader.option("TC of a memory")?,
            decided: reader.option("commit of a memory")?,
        })
    }
}

impl Encode for Nothing {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }
}

impl Decode for Nothing {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self),
            _ => Err(DecodeError::Invalid { field: "nothing" }),
        }
    }
}
