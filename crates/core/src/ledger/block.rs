//! Blocks: batches of commands in one order, each on its parent.
//!
//! A block is what its protocol writes into it ([`Content`]), sealed under its identity. The
//! replica reads of it what every protocol's blocks have: a height, a parent and frames. The rest
//! (views, certificates, a state root) is the protocol's own.

use std::fmt;
use std::sync::Arc;

use crate::base::crypto::Signers;
use crate::base::types::{Digest, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::frame::{Frame, FrameId, SharedFrame};

/// Identifies a block: the hash of its [`Header`], which has the digest of its frames.
pub type BlockId = Digest;

/// Most frames in one block.
pub const MAX_FRAMES: usize = 4096;
/// The most that the proofs of a block may [weigh](crate::ledger::frame::Frame::proofs) which has
/// several frames, in an epoch whose members have a threshold key: dealings of twenty members of
/// twenty, or of six of a hundred. Each costs a replica a hundredth of a second or less.
pub const MOST_PROOFS: usize = 2048;
/// The most bytes of frames that a configuration may allow a block with several: an answer with
/// two of the largest blocks still has to fit a peer's message.
pub const MAX_BATCH_BYTES: usize = 4 << 20;

/// What a protocol writes into a block.
pub trait Content: Clone + PartialEq + Eq + Encode + Decode + Send + Sync + 'static {
    /// What the block's identity covers, and all that counts of the block once it is committed and
    /// executed.
    type Summary: Summary;

    /// The summary of this content.
    fn summary(&self) -> Self::Summary;

    /// The request frames, in the order of execution. Bodies travel apart.
    fn frames(&self) -> &[FrameId];

    /// About the bytes of its encoding.
    fn size_bytes(&self) -> usize;
}

/// A block without its frames and without signatures.
pub trait Summary: Clone + PartialEq + Eq + Encode + Decode + Send + Sync + 'static {
    /// The block it extends. HotStuff derives it from the certificate that the block carries;
    /// written out beside that, it would be one field more to compare.
    fn parent(&self) -> BlockId;

    /// Its parent's height plus one.
    fn height(&self) -> Height;

    /// The view it was proposed in; 0 where the protocol has none.
    fn view(&self) -> View;

    /// [`payload_of`] the block's frames.
    fn payload(&self) -> Digest;

    /// Who proposed it, where the block says so.
    fn proposer(&self) -> Option<ReplicaId> {
        None
    }

    /// The replicas whose votes for its parent the block shows; empty where it shows none.
    fn voters_of_parent(&self) -> Signers {
        Signers::default()
    }
}

/// The digest of a list of frames.
#[must_use]
pub fn payload_of(frames: &[FrameId]) -> Digest {
    let mut bytes = Vec::with_capacity(4 + 32 * frames.len());
    put_list(&mut bytes, frames);
    Digest::of("quorate block payload", &bytes)
}

/// A block. Immutable; its identity was computed when it was made or decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Block<C: Content> {
    content: C,
    header: Header<C::Summary>,
}

/// A block, shared.
pub type SharedBlock<C> = Arc<Block<C>>;

impl<C: Content> Block<C> {
    /// Seals `content` under its identity.
    #[must_use]
    pub fn new(content: C) -> Self {
        let header = Header::new(content.summary());
        Self { content, header }
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.header.id
    }

    /// What counts of it once it is committed and executed.
    #[must_use]
    pub fn header(&self) -> &Header<C::Summary> {
        &self.header
    }

    /// The block it extends.
    #[must_use]
    pub fn parent(&self) -> BlockId {
        self.header.parent()
    }

    /// Its parent's height plus one.
    #[must_use]
    pub fn height(&self) -> Height {
        self.header.summary.height()
    }

    /// The view it was proposed in; 0 where the protocol has none.
    #[must_use]
    pub fn view(&self) -> View {
        self.header.summary.view()
    }

    /// Its frames, in the order of execution.
    #[must_use]
    pub fn frames(&self) -> &[FrameId] {
        self.content.frames()
    }

    /// Whether it carries no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames().is_empty()
    }
}

/// The part of a block that is kept once it is committed and executed. Elections look back on it,
/// and a replica that was away is sent the headers of its past.
///
/// It hashes to the block's identity, so a header is believed as far as the block above it is: the
/// parent that a certified block names has this header and no other.
#[derive(Clone, PartialEq, Eq)]
pub struct Header<S> {
    summary: S,
    id: BlockId,
}

impl<S: Summary> Header<S> {
    /// Seals `summary` under its identity.
    #[must_use]
    pub fn new(summary: S) -> Self {
        let id = Digest::of("quorate block header", &summary.to_bytes());
        Self { summary, id }
    }

    /// The block's identity.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The block it extends.
    #[must_use]
    pub fn parent(&self) -> BlockId {
        self.summary.parent()
    }

    /// Whether the block carries no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.summary.payload() == payload_of(&[])
    }

    fn write(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, parent) = (self.id, self.parent());
        write!(
            f,
            "{what} {id:?} {:?} {:?} on {parent:?}",
            self.summary.view(),
            self.summary.height()
        )
    }
}

impl<S> std::ops::Deref for Header<S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.summary
    }
}

impl<S: Summary> fmt::Debug for Header<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write("header", f)
    }
}

impl<C: Content> std::ops::Deref for Block<C> {
    type Target = C;
    fn deref(&self) -> &C {
        &self.content
    }
}

impl<C: Content> fmt::Debug for Block<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.write("block", f)
    }
}

impl<C: Content> Encode for Block<C> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.content.encode(out);
    }
}

impl<C: Content> Decode for Block<C> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        C::decode(reader).map(Self::new)
    }
}

impl<S: Summary> Encode for Header<S> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.summary.encode(out);
    }
}

impl<S: Summary> Decode for Header<S> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        S::decode(reader).map(Self::new)
    }
}

/// A block with the bodies of its frames.
#[derive(Clone, PartialEq, Eq)]
pub struct FullBlock<C: Content> {
    /// The block.
    pub block: SharedBlock<C>,
    /// Its frames, in the block's order.
    pub frames: Vec<SharedFrame>,
}

impl<C: Content> FullBlock<C> {
    /// About the bytes of its encoding.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let frames: usize = self.frames.iter().map(|frame| frame.encoded_bytes().len()).sum();
        self.block.size_bytes() + frames
    }
}

impl<C: Content> fmt::Debug for FullBlock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, frames } = self;
        f.debug_struct("FullBlock").field("block", block).field("frames", frames).finish()
    }
}

impl<C: Content> Encode for FullBlock<C> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.block.encode(out);
        put_frames(out, &self.frames);
    }
}

impl<C: Content> Decode for FullBlock<C> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let block = Arc::new(Block::<C>::decode(reader)?);
        let frames = frames(reader)?;
        let complete = block.frames().len() == frames.len()
            && block.frames().iter().zip(&frames).all(|(id, frame)| *id == frame.id());
        if !complete {
            return Err(DecodeError::Invalid { field: "frames of a block: not those it names" });
        }
        Ok(Self { block, frames })
    }
}

/// Writes a list of frames.
pub fn put_frames(out: &mut Vec<u8>, frames: &[SharedFrame]) {
    (frames.len() as u32).encode(out);
    for frame in frames {
        frame.encode(out);
    }
}

/// Reads a list of at most [`MAX_FRAMES`] frames.
///
/// # Errors
/// [`DecodeError`] if there are more, or one of them cannot be read.
pub fn frames(reader: &mut Reader) -> Result<Vec<SharedFrame>, DecodeError> {
    Ok(reader.list::<Frame>("frames", MAX_FRAMES)?.into_iter().map(Arc::new).collect())
}
