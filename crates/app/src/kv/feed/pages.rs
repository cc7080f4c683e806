//! What a replica tells a watcher, and what the watcher makes of it.
//!
//! A watcher asks for the *links* of the lists from a height on: their heights, lengths and
//! digests, and the head before them. It asks for a proof of the head, and holds the links against
//! it ([`Links::up_to`]). Then it asks for the lists themselves, page by page, and holds each
//! against its link. So it needs room for one list at a time, and knows a liar by the first byte
//! too many.
//!
//! Encodings, integers little-endian; either answer begins with a byte:
//!
//! ```text
//! 0 the lists are gone | the lowest height that can be watched from u64
//! 1 links: head before (height u64 ‖ digest [32]) | complete through u64
//!   | count u32 | for each list: height u64 ‖ bytes u32 ‖ digest [32]
//! 1 page:  count u32 | for each piece: height u64 ‖ length u32 ‖ bytes
//! ```

use bytes::Bytes;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use quorate_core::ledger::message::MAX_CONTENT_BYTES;
use quorate_core::{Digest, Height};

use super::window::{Found, MAX_LIST_BYTES};
use super::{Head, list_digest};

/// Most links in an answer.
pub(super) const MAX_LINKS: usize = 1 << 16;
/// Most bytes of lists in a page.
pub const MAX_PAGE_BYTES: usize = 1 << 20;
/// Most pieces in a page: as long as they are gathered, no block can be added to the feed.
const MAX_PIECES: usize = 1024;
const _: () = assert!(64 + Link::BYTES * MAX_LINKS <= MAX_CONTENT_BYTES);
const _: () = assert!(64 + 2 * MAX_PAGE_BYTES <= MAX_CONTENT_BYTES);

/// A list, named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The height of its block.
    pub height: Height,
    /// How long it is.
    pub bytes: u32,
    /// Its digest.
    pub digest: Digest,
}

impl Link {
    const BYTES: usize = 8 + 4 + 32;

    /// Whether `list` is the one that is named.
    #[must_use]
    pub fn is_of(&self, list: &[u8]) -> bool {
        self.bytes as usize == list.len() && list_digest(list) == self.digest
    }
}

/// The lists from a height on, named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The head before the first of them.
    pub before: Head,
    /// They are all up to this height: the highest block that was executed, unless lists went
    /// meanwhile.
    pub through: Height,
    /// The lists, heights ascending.
    pub links: Vec<Link>,
}

/// Why links are not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLinked {
    /// They do not lead to the head that is proven.
    #[error("they do not lead to the head at height {0}, which is proven")]
    Head(Height),
    /// Lists before the first of them may have been left out.
    #[error("they begin behind a list at height {0}, which is missing")]
    Missing(Height),
    /// The state that is proven is of before the first height that is wanted.
    #[error("the state that is proven is of height {0}, before what is wanted")]
    Early(Height),
    /// Their heights do not ascend.
    #[error("the list at height {0} does not belong there")]
    OutOfPlace(Height),
}

impl Links {
    /// Those that the state at `height` vouches for by its `head`: all lists from the height `from`
    /// on up to there, and none else. Later ones are left out, for they are not proven yet.
    ///
    /// # Errors
    /// [`NotLinked`]: whoever sent them is faulty or behind, or has sent a part.
    pub fn up_to(
        &self,
        from: Height,
        (height, head): (Height, Head),
    ) -> Result<Vec<Link>, NotLinked> {
        let mut at = self.before;
        if height < from {
            // Its head says nothing of what is wanted, whatever leads to it.
            return Err(NotLinked::Early(height));
        }
        if at.height >= from {
            return Err(NotLinked::Missing(at.height));
        }
        let mut proven = Vec::new();
        for link in &self.links {
            if link.height > height {
                break;
            }
            if link.height <= at.height || link.height < from {
                return Err(NotLinked::OutOfPlace(link.height));
            }
            at = at.then(link);
            proven.push(*link);
        }
        if at == head { Ok(proven) } else { Err(NotLinked::Head(head.height)) }
    }
}

/// Bytes of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The height of its block.
    pub height: Height,
    /// The bytes.
    pub bytes: Bytes,
}

impl Piece {
    pub(super) const OVERHEAD_BYTES: usize = 8 + 4;
}

/// Bytes of lists, in order: as many as fit. So all but the last reach to the end of their list,
/// and the last ends there or fills the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The bytes, list by list.
    pub pieces: Vec<Piece>,
}

impl Page {
    /// The pieces of the lists that a page of this budget has to hold: the height of each, and its
    /// bytes. `offset` bytes of the first list are known. A page that holds less is of somebody who
    /// plays for time.
    pub(super) fn pieces_of<'a>(
        links: impl Iterator<Item = &'a Link>,
        offset: usize,
        budget: usize,
    ) -> impl Iterator<Item = (Height, usize)> {
        let (mut left, mut offset) = (budget, offset);
        links.take(MAX_PIECES).map_while(move |link| {
            let rest = (link.bytes as usize).checked_sub(offset).filter(|rest| *rest > 0)?;
            let taken = rest.min(left);
            left = left.saturating_sub(taken + Piece::OVERHEAD_BYTES);
            offset = 0;
            (taken > 0).then_some((link.height, taken))
        })
    }

    /// Whether a page of [`MAX_PAGE_BYTES`] holds as much of these lists, `offset` bytes of the
    /// first of them being known, as a correct replica sends at once. Behind them there may be
    /// pieces of later lists.
    #[must_use]
    pub fn is_full<'a>(&self, links: impl Iterator<Item = &'a Link>, offset: usize) -> bool {
        let mut pieces = self.pieces.iter().map(|piece| (piece.height, piece.bytes.len()));
        Self::pieces_of(links, offset, MAX_PAGE_BYTES).all(|due| pieces.next() == Some(due))
    }
}

impl<T: Encode> Encode for Found<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Gone(oldest) => {
                out.push(0);
                oldest.encode(out);
            }
            Self::Here(answer) => {
                out.push(1);
                answer.encode(out);
            }
        }
    }
}

impl<T: Decode> Decode for Found<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Gone(Height::decode(reader)?)),
            1 => Ok(Self::Here(T::decode(reader)?)),
            _ => Err(DecodeError::Invalid { field: "whether lists are there" }),
        }
    }
}

impl Encode for Links {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(64 + Link::BYTES * self.links.len());
        self.before.encode(out);
        self.through.encode(out);
        (self.links.len() as u32).encode(out);
        for link in &self.links {
            link.height.encode(out);
            link.bytes.encode(out);
            link.digest.encode(out);
        }
    }
}

impl Decode for Links {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (before, through) = (Head::decode(reader)?, Height::decode(reader)?);
        let count = reader.length("lists of changes", MAX_LINKS)?;
        let mut links = Vec::with_capacity(count.min(reader.remaining() / Link::BYTES));
        for _ in 0..count {
            let height = Height::decode(reader)?;
            let bytes = reader.u32()?;
            if bytes == 0 || bytes as usize > MAX_LIST_BYTES {
                return Err(DecodeError::Invalid { field: "length of a list of changes" });
            }
            links.push(Link { height, bytes, digest: Digest::decode(reader)? });
        }
        Ok(Self { before, through, links })
    }
}

impl Encode for Page {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.pieces.len() as u32).encode(out);
        for piece in &self.pieces {
            piece.height.encode(out);
            put_bytes(out, &piece.bytes);
        }
    }
}

impl Decode for Page {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let count = reader.length("pieces of lists", MAX_PIECES)?;
        let mut pieces = Vec::with_capacity(count.min(reader.remaining() / Piece::OVERHEAD_BYTES));
        for _ in 0..count {
            let height = Height::decode(reader)?;
            let bytes = reader.byte_string("piece of a list", MAX_PAGE_BYTES)?;
            pieces.push(Piece { height, bytes });
        }
        Ok(Self { pieces })
    }
}
