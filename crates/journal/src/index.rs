//! The block index: the positions of recorded blocks in the log.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::ledger::block::{Block, BlockId, Content, FullBlock, SharedBlock};
use quorate_core::replica::message::MAX_BLOCKS_SENT;
use quorate_core::{Height, View, planted};
use quorate_store::wal::{LogReader, Position};

/// The most blocks above the committed head that are searched for its proof.
const MAX_TAIL: usize = 16;

/// The index, shared between the deciding thread and the archive.
pub struct BlockIndex {
    reader: LogReader,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// Recorded blocks that are not known to be committed.
    open: BTreeMap<BlockId, (Height, Position)>,
    /// The positions of committed blocks by height; the first one has height `first`. Blocks
    /// fetched as part of a snapshot have no position, nor has the genesis of an epoch.
    committed: VecDeque<Option<Position>>,
    first: Height,
    /// The last committed block.
    head: Option<BlockId>,
}

impl BlockIndex {
    /// An empty index of the log that `reader` reads.
    #[must_use]
    pub fn new(reader: LogReader) -> Self {
        Self { reader, places: Mutex::default() }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the position of a block.
    pub fn recorded(&self, id: BlockId, height: Height, position: Position) {
        self.places().open.insert(id, (height, position));
    }

    /// Sets the committed blocks that recovery found: without a gap up to `head`, the height of the
    /// recovered state.
    pub fn recovered(&self, head: Height, committed: VecDeque<Position>) {
        let mut places = self.places();
        places.first = Height(head.0.saturating_sub(committed.len() as u64)).next();
        places.committed = committed.into_iter().map(Some).collect();
    }

    /// Records that blocks were committed, in order. Those that were so before stay as they are.
    pub fn committed<C: Content>(&self, blocks: &[SharedBlock<C>]) {
        let mut places = self.places();
        let Some(last) = blocks.last() else { return };
        for block in blocks {
            let position = places.open.remove(&block.id()).map(|(_, position)| position);
            let next = Height(places.first.0 + places.committed.len() as u64);
            let is_first = places.committed.is_empty();
            if !is_first && (places.first..next).contains(&block.height()) {
                continue;
            }
            if !is_first && block.height() == next.next() {
                // The genesis of an epoch is in no log.
                places.committed.push_back(None);
            } else if is_first || block.height() != next {
                places.committed.clear();
                places.first = block.height();
            }
            places.committed.push_back(position);
        }
        places.head = Some(last.id());
        places.open.retain(|_, (height, _)| *height > last.height());
    }

    /// Removes blocks that are not in the log any more.
    pub fn forget_before(&self, position: Position) {
        let mut places = self.places();
        while let Some(first) = places.committed.front() {
            if first.is_some_and(|first| first >= position) {
                break;
            }
            places.committed.pop_front();
            places.first = places.first.next();
        }
    }

    /// The lowest height whose committed block, and all above it, can be read.
    #[must_use]
    pub fn first(&self) -> Height {
        self.places().first
    }

    /// The lowest position of a block that recovery from a snapshot at `height` needs.
    #[must_use]
    pub fn needed_above(&self, height: Height) -> Option<Position> {
        let places = self.places();
        let next = planted!("log-cut-one-block-too-high", height.0 + 2, height.0 + 1);
        let skip = next.saturating_sub(places.first.0) as usize;
        let committed = places.committed.iter().skip(skip).flatten();
        committed.chain(places.open.values().map(|(_, position)| position)).min().copied()
    }

    /// The encoded committed block at `height` with its frames, if it can be read.
    #[must_use]
    pub fn read(&self, height: Height) -> Option<Bytes> {
        self.look_up(height).ok().flatten()
    }

    /// The same; `None` if the block is not in the log.
    ///
    /// # Errors
    /// It is there, and cannot be read.
    pub fn look_up(&self, height: Height) -> io::Result<Option<Bytes>> {
        let position = {
            let places = self.places();
            let at = height.0.checked_sub(places.first.0);
            let at = at.and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| *places.committed.get(at)?)
        };
        let Some(position) = position else { return Ok(None) };
        let (_, payload) = self.reader.read(position).map_err(io::Error::other)?;
        Ok(Some(Bytes::from(payload)))
    }

    /// Recorded blocks above the committed head, each the parent of the next, encoded with their
    /// frames. If a block has two children, the one of the higher view is taken. They carry the
    /// certificates that prove that the head is committed.
    #[must_use]
    pub fn tail<C: Content>(&self) -> Vec<(Height, Bytes)> {
        let (mut open, mut parent) = {
            let places = self.places();
            let Some(head) = places.head else { return Vec::new() };
            let open: Vec<_> = places.open.values().copied().collect();
            (open, head)
        };
        open.sort_unstable();
        let mut found: Vec<(Height, View, BlockId, BlockId, Bytes)> = Vec::new();
        for (height, position) in open.into_iter().take(MAX_TAIL) {
            let Ok((_, payload)) = self.reader.read(position) else { continue };
            let bytes = Bytes::from(payload);
            let Ok(block) = Block::<C>::decode(&mut Reader::new(bytes.clone())) else { continue };
            found.push((height, block.view(), block.id(), block.parent(), bytes));
        }
        let mut tail = Vec::new();
        let children = |parent| found.iter().filter(move |(_, _, _, of, _)| *of == parent);
        while let Some((height, _, id, _, bytes)) =
            children(parent).max_by_key(|(_, view, ..)| *view)
        {
            tail.push((*height, bytes.clone()));
            parent = *id;
        }
        tail
    }

    /// The committed block at `height` with its frames, if it can be read.
    #[must_use]
    pub fn block<C: Content>(&self, height: Height) -> Option<FullBlock<C>> {
        FullBlock::from_bytes(self.read(height)?).ok()
    }

    /// Encoded committed blocks above one height and up to another, without a gap: as many as fit
    /// the budget, but at least two. If all of them fit, `tail` follows as far as it fits.
    #[must_use]
    pub fn chain<C: Content>(
        &self,
        above: Height,
        through: Height,
        budget_bytes: u32,
        tail: &[FullBlock<C>],
    ) -> Vec<Bytes> {
        let mut blocks = Vec::new();
        let mut bytes = 0;
        let mut height = above.next();
        while height <= through && blocks.len() < MAX_BLOCKS_SENT {
            let Some(block) = self.read(height) else { break };
            bytes += block.len();
            // At least two: no block of an answer certifies its last block.
            let is_over =
                planted!("chain-answers-without-budget", false, bytes > budget_bytes as usize,);
            if blocks.len() >= 2 && is_over {
                break;
            }
            blocks.push(block);
            height = height.next();
        }
        if height > through {
            for full in tail.iter().take(MAX_BLOCKS_SENT - blocks.len()) {
                let block = Bytes::from(full.to_bytes());
                bytes += planted!("chain-answers-with-a-free-tail", 0, block.len());
                if blocks.len() >= 2 && bytes > budget_bytes as usize {
                    break;
                }
                blocks.push(block);
            }
        }
        blocks
    }
}
