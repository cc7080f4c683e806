//! The newest snapshot, on its way from the state to being offered to peers: it is *begun*, it is
//! *written* when it is on disk, and it is *attested* when a quorum stands for its root. Only then
//! may it be offered, and older ones go. The log may go up to it, and a peer that lacks more is
//! served the snapshot.

use std::sync::Arc;

use super::snapshot::{Offer, SnapshotMeta};
use crate::base::types::{Digest, Epoch, Height};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{Shown, Types};

/// Where snapshots stand.
#[derive(Debug)]
pub(super) struct Snapshots<T: Types> {
    /// The newest one, which may still be on its way to the disk.
    newest: Option<SnapshotMeta<T>>,
    /// The height of the last one begun.
    begun: Height,
    /// One was asked for, and not begun.
    is_wanted: bool,
    /// The height of the newest one on disk.
    written: Height,
    /// The newest one, attested before it is on disk.
    attested: Option<Offer<T>>,
    /// The one that is offered to peers.
    offer: Option<Offer<T>>,
    /// The height of the latest state whose root was attested and found among those computed here.
    shown: Height,
    /// The height of the first block in the log.
    log_begins: Height,
}

impl<T: Types> Default for Snapshots<T> {
    fn default() -> Self {
        let (begun, written, shown) = (Height(0), Height(0), Height(0));
        let (newest, attested, offer, log_begins) = (None, None, None, Height(0));
        Self { newest, begun, is_wanted: false, written, attested, offer, shown, log_begins }
    }
}

impl<T: Types> Snapshots<T> {
    /// What the disk holds after a restart.
    pub fn recovered(&mut self, newest: Option<SnapshotMeta<T>>, offer: Option<Offer<T>>) {
        if let Some(meta) = &newest {
            (self.begun, self.written) = (meta.block.height(), meta.block.height());
        }
        (self.newest, self.offer) = (newest, offer);
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&SnapshotMeta<T>> {
        self.newest.as_ref()
    }

    /// The one that is offered to peers.
    pub fn offer(&self) -> Option<&Offer<T>> {
        self.offer.as_ref()
    }

    /// Whether another is due at the height `head`, `every` blocks behind the last.
    pub fn is_due(&self, head: Height, every: u64) -> bool {
        self.is_wanted || head.0 >= self.begun.0.saturating_add(every)
    }

    /// One is asked for. Says whether it can be begun at once: the last one is on disk.
    pub fn want(&mut self) -> bool {
        self.is_wanted = true;
        self.newest.as_ref().is_none_or(|meta| self.is_written(meta))
    }

    /// Whether the newest one is on disk, and was attested or never will be: later states are shown
    /// already. Were each replaced before blocks could show it, none would ever be offered, and no
    /// log cut.
    pub fn may_be_replaced(&self) -> bool {
        self.newest.as_ref().is_none_or(|meta| {
            let is_passed_over = self.shown > meta.block.height();
            self.is_written(meta) && (is_passed_over || self.is_attested(meta.block.id()))
        })
    }

    fn is_written(&self, snapshot: &SnapshotMeta<T>) -> bool {
        self.written >= snapshot.block.height()
    }

    fn is_attested(&self, snapshot: BlockId) -> bool {
        let mut offers = self.attested.iter().chain(&self.offer);
        offers.any(|offer| offer.block.id() == snapshot)
    }

    /// A snapshot is being written.
    pub fn begin(&mut self, meta: SnapshotMeta<T>) {
        (self.begun, self.is_wanted) = (meta.block.height(), false);
        self.newest = Some(meta);
    }

    /// The snapshot at a height is on disk. Returns the offer that this makes possible.
    pub fn wrote(&mut self, height: Height) -> Option<Offer<T>> {
        self.written = self.written.max(height);
        self.offered()
    }

    /// A block shows that a quorum stands for a root. Returns the offer that this makes possible:
    /// of the newest snapshot, if the root is that one's.
    pub fn attest(&mut self, epoch: Epoch, root: Digest, shown: Shown<T>) -> Option<Offer<T>> {
        let meta = self.newest.as_ref()?;
        if self.is_attested(meta.block.id())
            || self.begun > shown.block.height()
            || meta.roots.last() != Some(&root)
        {
            return None;
        }
        let (block, recent) = (Arc::clone(&meta.block), meta.recent.clone());
        self.attested = Some(Offer { epoch, block, recent, shown });
        self.offered()
    }

    /// The newest attested one, once it is on disk.
    fn offered(&mut self) -> Option<Offer<T>> {
        let offer = self.attested.take_if(|offer| offer.block.height() <= self.written)?;
        self.offer = Some(offer.clone());
        Some(offer)
    }

    /// The height of the latest state whose root was attested.
    pub fn shown(&self) -> Height {
        self.shown
    }

    /// The root of the state at a height was attested.
    pub fn show(&mut self, height: Height) {
        self.shown = height;
    }

    /// The log begins at a height from now on.
    pub fn cut_log(&mut self, begins: Height) {
        self.log_begins = begins;
    }

    /// Whether the log holds all that is committed above a height.
    pub fn log_reaches(&self, above: Height) -> bool {
        above.next() >= self.log_begins
    }

    /// This replica took over the state at a height. What is between its own log and that never was
    /// here, and none of its states was attested yet.
    pub fn took_over(&mut self, height: Height) {
        self.log_begins = self.log_begins.max(height.next());
        self.shown = Height(0);
    }
}
