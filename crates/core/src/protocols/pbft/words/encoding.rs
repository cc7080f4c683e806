//! How the words of PBFT are encoded.

use std::sync::Arc;

use super::{
    Content, Entry, Forgotten, MAX_PRE_PREPARED, MAX_WINDOW, Memory, Message, NewView, Phase,
    SignedChange, Standing, Summary, Testimony, ViewChange, Vote,
};
use crate::base::crypto::Signature;
use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{Block, MAX_FRAMES};
use crate::protocols::checkpoint::{Checkpoint, Stable};

impl Encode for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.view.encode(out);
        self.height.encode(out);
        self.parent.encode(out);
        self.stable.encode(out);
        put_list(out, &self.frames);
    }
}

impl Decode for Content {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            parent: Digest::decode(reader)?,
            stable: reader.option("stable checkpoint of a block")?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        })
    }
}

impl Encode for Summary {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.view.encode(out);
        self.height.encode(out);
        self.parent.encode(out);
        self.stable.encode(out);
        self.payload.encode(out);
    }
}

impl Decode for Summary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            parent: Digest::decode(reader)?,
            stable: reader.option("checkpoint of a header")?,
            payload: Digest::decode(reader)?,
        })
    }
}

impl Encode for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        self.view.encode(out);
        self.block.encode(out);
        self.parent.encode(out);
    }
}

impl Decode for Entry {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            view: View::decode(reader)?,
            block: Digest::decode(reader)?,
            parent: Digest::decode(reader)?,
        })
    }
}

impl Encode for Vote {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.phase as u8);
        self.view.encode(out);
        self.height.encode(out);
        self.block.encode(out);
    }
}

impl Decode for Vote {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let phase = match reader.u8()? {
            1 => Phase::Prepare,
            2 => Phase::Commit,
            _ => return Err(DecodeError::Invalid { field: "phase" }),
        };
        Ok(Self {
            phase,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            block: Digest::decode(reader)?,
        })
    }
}

/// Reads the sets P and Q, which are encoded alike in a view change and in a memory.
fn entries(reader: &mut Reader) -> Result<(Vec<Entry>, Vec<Entry>), DecodeError> {
    let window = MAX_WINDOW as usize;
    let prepared = reader.list("prepared blocks", window)?;
    let pre_prepared = reader.list("pre-prepared blocks", window * MAX_PRE_PREPARED)?;
    Ok((prepared, pre_prepared))
}

impl Encode for ViewChange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.stable.encode(out);
        put_list(out, &self.prepared);
        put_list(out, &self.pre_prepared);
    }
}

impl Decode for ViewChange {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        let stable = reader.option("stable checkpoint of a view change")?;
        let (prepared, pre_prepared) = entries(reader)?;
        Ok(Self { view, stable, prepared, pre_prepared })
    }
}

impl Encode for SignedChange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.from.encode(out);
        self.change.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for SignedChange {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            from: ReplicaId::decode(reader)?,
            change: ViewChange::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for NewView {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        put_list(out, &self.changes);
        put_list(out, &self.chosen);
    }
}

impl Decode for NewView {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            changes: reader.list("view changes", MAX_REPLICAS)?,
            chosen: reader.list("chosen blocks", MAX_WINDOW as usize)?,
        })
    }
}

impl Encode for Forgotten {
    fn encode(&self, out: &mut Vec<u8>) {
        self.up_to.encode(out);
        self.new_view.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for Forgotten {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            up_to: Height::decode(reader)?,
            new_view: NewView::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Standing {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        out.push(u8::from(self.is_changing));
        self.stable.encode(out);
        self.committed.encode(out);
        self.awaits.encode(out);
    }
}

fn flag(reader: &mut Reader) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { field: "whether a view is awaited" }),
    }
}

impl Decode for Standing {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            is_changing: flag(reader)?,
            stable: Height::decode(reader)?,
            committed: Height::decode(reader)?,
            awaits: reader.option("view that is awaited")?,
        })
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::PrePrepare { block, signature } => {
                out.push(1);
                block.encode(out);
                signature.encode(out);
            }
            Self::Vote { vote, signature } => {
                out.push(2);
                vote.encode(out);
                signature.encode(out);
            }
            Self::Checkpoint { checkpoint, signature } => {
                out.push(3);
                checkpoint.encode(out);
                signature.encode(out);
            }
            Self::ViewChange(change) => {
                out.push(4);
                change.encode(out);
            }
            Self::NewView { new_view, signature } => {
                out.push(5);
                new_view.encode(out);
                signature.encode(out);
            }
            Self::Stable(stable) => {
                out.push(6);
                stable.encode(out);
            }
            Self::Standing(standing) => {
                out.push(7);
                standing.encode(out);
            }
        }
    }
}

impl Decode for Message {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::PrePrepare {
                block: Arc::new(Block::decode(reader)?),
                signature: Signature::decode(reader)?,
            },
            2 => Self::Vote { vote: Vote::decode(reader)?, signature: Signature::decode(reader)? },
            3 => Self::Checkpoint {
                checkpoint: Checkpoint::decode(reader)?,
                signature: Signature::decode(reader)?,
            },
            4 => Self::ViewChange(Box::new(SignedChange::decode(reader)?)),
            5 => Self::NewView {
                new_view: Box::new(NewView::decode(reader)?),
                signature: Signature::decode(reader)?,
            },
            6 => Self::Stable(Box::new(Stable::decode(reader)?)),
            7 => Self::Standing(Standing::decode(reader)?),
            _ => return Err(DecodeError::Invalid { field: "message kind" }),
        })
    }
}

impl Encode for Memory {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        out.push(u8::from(self.is_changing));
        self.stable.encode(out);
        match &self.committed {
            None => out.push(0),
            Some((height, block)) => {
                out.push(1);
                height.encode(out);
                block.encode(out);
            }
        }
        put_list(out, &self.prepared);
        put_list(out, &self.pre_prepared);
        self.forgotten.encode(out);
        self.awaits.encode(out);
    }
}

impl Decode for Memory {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (view, is_changing) = (View::decode(reader)?, flag(reader)?);
        let stable = reader.option("stable checkpoint of a memory")?;
        let committed = match reader.u8()? {
            0 => None,
            1 => Some((Height::decode(reader)?, Digest::decode(reader)?)),
            _ => return Err(DecodeError::Invalid { field: "committed block of a memory" }),
        };
        let (prepared, pre_prepared) = entries(reader)?;
        let forgotten = reader.option("proof of what a memory need not hold")?;
        let awaits = reader.option("view that a memory awaits")?;
        Ok(Self { view, is_changing, stable, committed, prepared, pre_prepared, forgotten, awaits })
    }
}

impl Encode for Testimony {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.stable.encode(out);
    }
}

impl Decode for Testimony {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        Ok(Self { view, stable: reader.option("stable checkpoint of a testimony")? })
    }
}
