//! What replicas of PBFT say, sign and keep.

use std::sync::Arc;

use crate::base::crypto::Signature;
use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{self, Block, BlockId, MAX_FRAMES, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::protocol::{self, BlockOf};

/// The most blocks between a stable checkpoint and the high water mark.
pub const MAX_WINDOW: u64 = 256;
/// For one height a replica remembers so many blocks that it pre-prepared, the latest ones.
pub const MAX_PRE_PREPARED: usize = 4;

/// The words of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {}

impl protocol::Types for Types {
    type Content = Content;
    type Message = Message;
    type Memory = Memory;
    type Evidence = Stable;
    type Testimony = Testimony;
}

/// What a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The committee in force.
    pub epoch: Epoch,
    /// The view whose primary made it. A later view may order it again.
    pub view: View,
    /// Its sequence number: its parent's plus one.
    pub height: Height,
    /// The block it extends.
    pub parent: BlockId,
    /// A stable checkpoint below it that no block said before: who fetches blocks believes those
    /// below a checkpoint.
    pub stable: Option<Stable>,
    /// The request frames, in the order of execution.
    pub frames: Vec<FrameId>,
}

/// What a block's identity covers: of the checkpoint what it says, not who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    epoch: Epoch,
    view: View,
    height: Height,
    parent: BlockId,
    stable: Option<Checkpoint>,
    payload: Digest,
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        let Self { epoch, view, height, parent, .. } = *self;
        let stable = self.stable.as_ref().map(|stable| stable.checkpoint);
        Summary { epoch, view, height, parent, stable, payload: payload_of(&self.frames) }
    }

    fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    fn size_bytes(&self) -> usize {
        let signatures =
            self.stable.as_ref().map_or(0, |stable| 72 * (1 + stable.signatures.len()));
        80 + signatures + 32 * self.frames.len()
    }
}

impl block::Summary for Summary {
    fn parent(&self) -> BlockId {
        self.parent
    }

    fn height(&self) -> Height {
        self.height
    }

    fn view(&self) -> View {
        self.view
    }

    fn payload(&self) -> Digest {
        self.payload
    }
}

/// The state behind a block (CHECKPOINT of the paper, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    /// The block's height.
    pub height: Height,
    /// The block.
    pub block: BlockId,
    /// The root of the state behind it.
    pub root: Digest,
}

/// A checkpoint that q replicas signed. Signed even where all else is authenticated by MACs: it
/// convinces those who were not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stable {
    /// What they signed.
    pub checkpoint: Checkpoint,
    /// Their signatures, ascending by their ids.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

/// A block at a place in the order, as a replica pre-prepared or prepared it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The place.
    pub height: Height,
    /// The latest view in which it did so.
    pub view: View,
    /// The block.
    pub block: BlockId,
    /// The block's parent.
    pub parent: BlockId,
}

/// The two all-to-all phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The sender accepted the primary's pre-prepare.
    Prepare = 1,
    /// The block is prepared at the sender.
    Commit = 2,
}

/// PREPARE and COMMIT of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Which of the two.
    pub phase: Phase,
    /// The view.
    pub view: View,
    /// The block's height.
    pub height: Height,
    /// The block.
    pub block: BlockId,
}

/// VIEW-CHANGE of the paper: what its sender knows of the views before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The view it wants.
    pub view: View,
    /// Its stable checkpoint; none where that is the genesis block.
    pub stable: Option<Stable>,
    /// The set P: for each height above the checkpoint the block it prepared last, ascending.
    pub prepared: Vec<Entry>,
    /// The set Q: what it pre-prepared above the checkpoint, ascending.
    pub pre_prepared: Vec<Entry>,
}

/// A view change with its sender and the sender's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedChange {
    /// Who.
    pub from: ReplicaId,
    /// What.
    pub change: ViewChange,
    /// Its signature.
    pub signature: Signature,
}

/// NEW-VIEW of the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewView {
    /// The view that begins.
    pub view: View,
    /// The view changes it follows from, ascending by their senders.
    pub changes: Vec<SignedChange>,
    /// What the view begins with: the blocks right above the highest stable checkpoint of the view
    /// changes, each the parent of the next.
    pub chosen: Vec<BlockId>,
}

/// Where a replica stands: asks for what it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its view.
    pub view: View,
    /// It waits for that view to begin.
    pub is_changing: bool,
    /// The height of its stable checkpoint.
    pub stable: Height,
    /// Its committed height.
    pub committed: Height,
}

/// What replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the primary: this block is next.
    PrePrepare {
        /// It.
        block: BlockOf<Types>,
        /// The primary's signature, where messages are signed.
        signature: Signature,
    },
    /// PREPARE or COMMIT.
    Vote {
        /// It.
        vote: Vote,
        /// The sender's signature, where messages are signed.
        signature: Signature,
    },
    /// The sender came to this state.
    Checkpoint {
        /// It.
        checkpoint: Checkpoint,
        /// The sender's signature.
        signature: Signature,
    },
    /// The sender gave up on a view.
    ViewChange(Box<SignedChange>),
    /// A view begins.
    NewView {
        /// It.
        new_view: Box<NewView>,
        /// The signature of the view's primary.
        signature: Signature,
    },
    /// A stable checkpoint, for who may not know it.
    Stable(Box<Stable>),
    /// Where the sender stands.
    Standing(Standing),
}

/// All that a replica must never forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its view.
    pub view: View,
    /// It waits for that view to begin.
    pub is_changing: bool,
    /// Its stable checkpoint, if that is not the genesis block.
    pub stable: Option<Stable>,
    /// A block that it knows to be committed.
    pub committed: Option<(Height, BlockId)>,
    /// The set P.
    pub prepared: Vec<Entry>,
    /// The set Q.
    pub pre_prepared: Vec<Entry>,
}

/// What a replica says to one that lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// The view it is in.
    pub view: View,
}

fn put_opt_checkpoint(out: &mut Vec<u8>, checkpoint: Option<&Checkpoint>) {
    match checkpoint {
        None => out.push(0),
        Some(checkpoint) => {
            out.push(1);
            checkpoint.encode(out);
        }
    }
}

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
        put_opt_checkpoint(out, self.stable.as_ref());
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

impl Encode for Checkpoint {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        self.block.encode(out);
        self.root.encode(out);
    }
}

impl Decode for Checkpoint {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            block: Digest::decode(reader)?,
            root: Digest::decode(reader)?,
        })
    }
}

/// A replica with its signature.
struct Signed(ReplicaId, Signature);

impl Decode for Signed {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(ReplicaId::decode(reader)?, Signature::decode(reader)?))
    }
}

impl Encode for Stable {
    fn encode(&self, out: &mut Vec<u8>) {
        self.checkpoint.encode(out);
        (self.signatures.len() as u32).encode(out);
        for (signer, signature) in &self.signatures {
            signer.encode(out);
            signature.encode(out);
        }
    }
}

impl Decode for Stable {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let checkpoint = Checkpoint::decode(reader)?;
        let signed: Vec<Signed> = reader.list("signatures of a checkpoint", MAX_REPLICAS)?;
        let signatures = signed.into_iter().map(|Signed(signer, one)| (signer, one)).collect();
        Ok(Self { checkpoint, signatures })
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

impl Encode for Standing {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        out.push(u8::from(self.is_changing));
        self.stable.encode(out);
        self.committed.encode(out);
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
        Ok(Self { view, is_changing, stable, committed, prepared, pre_prepared })
    }
}

impl Encode for Testimony {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
    }
}

impl Decode for Testimony {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { view: View::decode(reader)? })
    }
}
