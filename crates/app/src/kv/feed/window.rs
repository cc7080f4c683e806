//! The lists that a replica keeps: those of the last blocks, within bounds.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::ledger::block::MAX_BATCH_BYTES;

use super::pages::{Link, Links, MAX_LINKS, MAX_PAGE_BYTES, Page, Piece};
use super::{Head, list_digest};

/// Longest list that is kept, bytes. A command of few bytes adds at most about four times as many,
/// and commands that waited for earlier ones may come on top of a block's own. A longer list counts
/// in the chain, and those who watch have to begin behind it.
pub const MAX_LIST_BYTES: usize = 64 << 20;
const _: () = assert!(4 * MAX_BATCH_BYTES <= MAX_LIST_BYTES);

/// Links that are copied at once, while no block can be added.
const LINKS_AT_ONCE: usize = 1024;

/// What the lists of a replica may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all lists.
    pub bytes: usize,
    /// How many lists: what a watcher is told of at once names them all.
    pub lists: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: MAX_LIST_BYTES, lists: MAX_LINKS }
    }
}

/// What there is from a height on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// This.
    Here(T),
    /// The lists of that height are not kept any more, or never were: they are from this one on.
    Gone(Height),
}

/// The lists of the last blocks. The application adds to it as blocks are committed; threads that
/// serve watchers read it.
pub struct Feed {
    window: Mutex<Window>,
    told: RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let window = self.window();
        write!(f, "{} lists above height {}", window.lists.len(), window.before.height.0)
    }
}

struct Window {
    bounds: Bounds,
    /// The head before the first list. Above its height none is missing.
    before: Head,
    /// The last block that is known of; `None`: none is yet.
    through: Option<Height>,
    lists: VecDeque<Kept>,
    bytes: usize,
}

/// A block, as the feed sees it.
pub(in super::super) struct Block {
    height: Height,
    /// The head before it.
    before: Head,
    /// What it changed, and the name of that.
    list: Option<(Vec<u8>, Link)>,
}

impl Block {
    pub(in super::super) fn new(height: Height, before: Head, list: Option<Vec<u8>>) -> Self {
        let list = list.map(|list| {
            let link = Link { height, bytes: list.len() as u32, digest: list_digest(&list) };
            (list, link)
        });
        Self { height, before, list }
    }

    /// The head behind it.
    pub(in super::super) fn head(&self) -> Head {
        let list = self.list.as_ref();
        list.map_or(self.before, |(_, link)| self.before.then(link))
    }
}

/// A list that is kept.
struct Kept {
    link: Link,
    list: Bytes,
    /// The head behind it.
    head: Head,
}

impl Feed {
    /// Without lists.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let window = Window {
            bounds,
            before: Head::default(),
            through: None,
            lists: VecDeque::new(),
            bytes: 0,
        };
        Self { window: Mutex::new(window), told: RwLock::default() }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `ring` is called when a block has changed something. By the thread that executes
    /// blocks, which it must not hold up.
    pub fn subscribe(&self, ring: impl Fn() + Send + Sync + 'static) {
        self.told.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(ring));
    }

    /// All that was changed up to here is behind this head, unless a block is known of.
    pub(in super::super) fn begin(&self, head: Head) {
        let mut window = self.window();
        if window.through.is_none() {
            window.before = head;
        }
    }

    /// The state that a replica starts from is of this height. So those who watch know what is gone
    /// before the first block.
    pub fn stands_at(&self, height: Height) {
        let mut window = self.window();
        if window.through.is_none() {
            window.before = window.before.before(height.next());
            window.through = Some(height);
        }
    }

    /// This block is committed.
    pub(in super::super) fn committed(&self, block: Block) {
        let is_news = block.list.is_some();
        self.window().committed(block);
        if is_news {
            let told = self.told.read().unwrap_or_else(PoisonError::into_inner);
            told.iter().for_each(|ring| ring());
        }
    }

    /// The highest block that is known of.
    #[must_use]
    pub fn through(&self) -> Height {
        self.window().through()
    }

    /// The lowest height that can be watched from.
    #[must_use]
    pub fn oldest(&self) -> Height {
        self.window().oldest()
    }

    /// Whether there is a list from a height on, or it is known to be gone.
    #[must_use]
    pub fn has(&self, from: Height) -> bool {
        let window = self.window();
        window.is_gone(from) || window.at(from) < window.lists.len()
    }

    /// The links of the lists from a height on.
    #[must_use]
    pub fn links(&self, from: Height) -> Found<Links> {
        let mut before = None;
        let (mut links, mut next) = (Vec::new(), from);
        // In parts: the thread that executes blocks waits for one of them at most.
        loop {
            let window = self.window();
            if window.is_gone(next) {
                let Some(before) = before else { return Found::Gone(window.oldest()) };
                // The others have gone since the first part was read.
                let through = Height(next.0.saturating_sub(1));
                return Found::Here(Links { before, through, links });
            }
            let at = window.at(next);
            let before = *before.get_or_insert_with(|| window.head_before(at));
            let part = window.lists.range(at..).take(LINKS_AT_ONCE);
            links.extend(part.map(|kept| kept.link));
            if window.lists.len() - at <= LINKS_AT_ONCE {
                return Found::Here(Links { before, through: window.through(), links });
            }
            next = links.last().map_or(next, |link| link.height.next());
        }
    }

    /// Pieces of the lists from a height on, about `budget_bytes` of them and [`MAX_PAGE_BYTES`] at
    /// most. The first begins `offset` bytes behind the beginning of its list.
    #[must_use]
    pub fn page(&self, from: Height, offset: u32, budget_bytes: u32) -> Found<Page> {
        let window = self.window();
        if window.is_gone(from) {
            return Found::Gone(window.oldest());
        }
        let budget = (budget_bytes as usize).clamp(1, MAX_PAGE_BYTES);
        let mut offset = offset as usize;
        let kept = window.lists.range(window.at(from)..);
        let due = Page::pieces_of(kept.clone().map(|kept| &kept.link), offset, budget);
        let pieces = kept.zip(due).map(|(kept, (height, bytes))| {
            let begins = std::mem::take(&mut offset);
            Piece { height, bytes: kept.list.slice(begins..begins + bytes) }
        });
        let pieces = pieces.collect();
        Found::Here(Page { pieces })
    }

    /// The next list from a height on, whole, for who believes this replica; and the highest block
    /// that was executed.
    #[must_use]
    pub fn next(&self, from: Height) -> Found<(Height, Option<(Height, Bytes)>)> {
        let window = self.window();
        if window.is_gone(from) {
            return Found::Gone(window.oldest());
        }
        let kept = window.lists.get(window.at(from));
        let list = kept.map(|kept| (kept.link.height, kept.list.clone()));
        Found::Here((window.through(), list))
    }
}

impl Window {
    fn committed(&mut self, block: Block) {
        let head = block.head();
        let Block { height, before, list } = block;
        if self.lists.is_empty() || self.through.map(Height::next) != Some(height) {
            // After a start, or a state that was taken over from others.
            self.begin(before);
        }
        self.through = Some(height);
        let Some((list, link)) = list else { return };
        if list.len() > MAX_LIST_BYTES.min(self.bounds.bytes) {
            self.lists.clear();
            (self.before, self.bytes) = (head, 0);
            return;
        }
        self.bytes += list.len();
        self.lists.push_back(Kept { link, list: list.into(), head });
        while self.bytes > self.bounds.bytes || self.lists.len() > self.bounds.lists {
            let Some(oldest) = self.lists.pop_front() else { break };
            self.bytes -= oldest.list.len();
            self.before = oldest.head;
        }
    }

    fn begin(&mut self, before: Head) {
        self.lists.clear();
        self.bytes = 0;
        self.before = before;
    }

    fn is_gone(&self, from: Height) -> bool {
        from <= self.before.height
    }

    fn oldest(&self) -> Height {
        self.before.height.next()
    }

    /// The highest block that is known of.
    fn through(&self) -> Height {
        self.through.unwrap_or(self.before.height)
    }

    /// The head before the list at a place.
    fn head_before(&self, at: usize) -> Head {
        let last = at.checked_sub(1).and_then(|last| self.lists.get(last));
        last.map_or(self.before, |kept| kept.head)
    }

    /// The place of the first list that is not below a height.
    fn at(&self, from: Height) -> usize {
        self.lists.partition_point(|kept| kept.link.height < from)
    }
}
