//! The options of a store.

use super::error::Error;
use crate::merkle::{ValueDigest, value_digests};
pub use crate::wal::Durability;

/// The largest space: an address has 40 bits and counts units of 16 bytes.
pub(super) const SPACE_LIMIT_BYTES: u64 = 1 << 44;

/// Whether slabs may have this length.
pub(super) fn is_slab(bytes: u64) -> bool {
    bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes)
}

/// Whether regions may have this length, with slabs of `slab` bytes.
pub(super) fn is_region(bytes: u64, slab: u64) -> bool {
    bytes.is_multiple_of(slab) && (4 * slab..=1 << 31).contains(&bytes)
}

/// The thread that writes pages out and creates log segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOut {
    /// A thread of the store, in parallel with readers and the writer.
    Background,
    /// The writer's thread, when a limit is reached. For tests and simulations, which need one
    /// order of operations.
    Inline,
}

/// The treatment of a log that is damaged below the point that a sync has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Refuse to open.
    Strict,
    /// Recover every commit up to the first unreadable one, set the damaged log aside, and report
    /// that in [`Recovered`](super::Recovered).
    BestEffort,
}

/// The versions of an authenticated store that have proofs. All have a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proofs {
    /// Every version: a commit writes the digest blocks that it changes.
    EachCommit,
    /// Versions requested by [`Store::provable_snapshot`](super::Store::provable_snapshot). Changed
    /// blocks stay in memory ([`Options::digest_memory_bytes`]) until such a request, until a
    /// checkpoint, or until there are too many. They are written once for many commits. A
    /// checkpoint may find that the space has no room for them; then it stops writing.
    WhenAsked,
}

/// The options of a store. `slab_bytes` and `region_bytes` are fixed when the store is created.
#[derive(Clone, Debug)]
pub struct Options {
    /// The identity of a new store; `None`: random.
    pub identity: Option<[u8; 16]>,
    /// The durability of a commit when it returns.
    pub durability: Durability,
    /// The treatment of a damaged log.
    pub recovery: Recovery,
    /// A bucket with more items than this becomes a node (1 to 128).
    pub bucket_items: usize,
    /// Memory for pages that are not written out yet, in bytes. Writers wait when it is used up. Up
    /// to half of it is kept for reuse.
    pub write_buffer_bytes: u64,
    /// A checkpoint begins when the log since the last one has this many bytes. At four times as
    /// many, writers wait for it. See [`Options::log_commits`] for a store without a log.
    pub checkpoint_bytes: u64,
    /// Whether a commit is a record of the log. If not, a crash loses all commits since the last
    /// checkpoint. This is for owners that have the changes in a log of their own. Only the owner
    /// then begins checkpoints ([`Store::begin_checkpoint`](super::Store::begin_checkpoint)). One
    /// is [due](super::Store::checkpoint_is_due) when changes of `checkpoint_bytes` were committed
    /// since the last one, or half of the write buffer is used. May differ at each opening.
    pub log_commits: bool,
    /// Length of a log segment in bytes.
    pub segment_bytes: u64,
    /// Whether the log is written through memory if the disk allows it. Then a commit without a
    /// sync costs no system call; but segments are first filled with zeros, so everything is
    /// written twice. Turn it off for few commits of many changes each.
    pub log_through_memory: bool,
    /// The length of a slab, which is divided into slots of one size: a power of two from 4 KiB to
    /// 1 MiB.
    pub slab_bytes: u32,
    /// The length of the space's files: a multiple of `slab_bytes`, from 4 slabs to 2 GiB.
    pub region_bytes: u64,
    /// The limit of the space, in bytes.
    pub limit_bytes: u64,
    /// The thread that writes out.
    pub write_out: WriteOut,
    /// Whether the store has a Merkle root and proofs. Decided when it is created; another value
    /// later is an error.
    pub authenticated: bool,
    /// The versions of an authenticated store that have proofs. May differ at each opening.
    pub proofs: Proofs,
    /// Memory for digest blocks with [`Proofs::WhenAsked`], in bytes: those that batches visited,
    /// changed or not, and those of one more batch. At most as much again may be kept for reuse.
    /// When it is used up, changed blocks are written, and all blocks are read again on demand. 150
    /// bytes for each item keep all of them in memory. That makes commits of few changes among many
    /// items up to one and a half times as fast. May differ at each opening.
    pub digest_memory_bytes: u64,
    /// The threads that share the hashing of a batch of 128 changes or more in an authenticated
    /// store. The writer is one of them.
    pub hashing_threads: usize,
    /// The digest of values under the root: a collision-resistant hash. It must be the same at each
    /// opening, because the store keeps digests and computes those of its log again. For values of
    /// another shape whose roots must be equal. `None`: BLAKE3. Whether there is one is decided
    /// when the store is created; such a store cannot be opened without it.
    pub value_digest: Option<ValueDigest>,
    /// The number of versions before the newest that can be read
    /// ([`Store::snapshot_at`](super::Store::snapshot_at)), back to the opening of the store at
    /// most. Their data stays in the space meanwhile.
    pub kept_versions: u64,
}

impl Default for Options {
    /// Sync, strict, buckets of 64 items, 256 MiB of write buffer, a checkpoint every 32 MiB of
    /// log, a log written through memory, slabs of 64 KiB, regions of 64 MiB, at most 1 TiB. Not
    /// authenticated; if it were: BLAKE3 of values, 256 MiB for digest blocks, and one hashing
    /// thread for each processor, up to eight. The newest version alone.
    fn default() -> Options {
        Options {
            identity: None,
            durability: Durability::Sync,
            recovery: Recovery::Strict,
            bucket_items: 64,
            write_buffer_bytes: 256 << 20,
            checkpoint_bytes: 32 << 20,
            log_commits: true,
            segment_bytes: 64 << 20,
            log_through_memory: true,
            slab_bytes: 64 << 10,
            region_bytes: 64 << 20,
            limit_bytes: 1 << 40,
            write_out: WriteOut::Background,
            authenticated: false,
            proofs: Proofs::EachCommit,
            digest_memory_bytes: 256 << 20,
            hashing_threads: std::thread::available_parallelism().map_or(1, usize::from).min(8),
            value_digest: None,
            kept_versions: 0,
        }
    }
}

impl Options {
    /// Whether a commit must survive a power failure before it returns.
    pub(super) fn syncs_commits(&self) -> bool {
        self.log_commits && self.durability == Durability::Sync
    }

    /// Whether commits of one item may be made side by side. If a commit is synced, it shares the
    /// sync with others, which is worth more.
    pub(super) fn writes_side_by_side(&self) -> bool {
        self.log_commits
            && self.durability == Durability::Os
            && !self.authenticated
            && self.kept_versions == 0
    }

    /// Whether changed digest blocks wait in memory.
    pub(super) fn defers_digests(&self) -> bool {
        self.authenticated && self.proofs == Proofs::WhenAsked
    }

    /// The digest of values, if the store is authenticated.
    pub(super) fn hashing(&self) -> Option<ValueDigest> {
        self.authenticated.then_some(self.digest_of_values())
    }

    pub(super) fn digest_of_values(&self) -> ValueDigest {
        self.value_digest.unwrap_or(value_digests)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |field, reason: &str| Err(Error::Options { field, reason: reason.to_string() });
        if self.hashing_threads == 0 {
            return wrong("hashing_threads", "0, and somebody has to hash");
        }
        if !(1..=128).contains(&self.bucket_items) {
            return wrong("bucket_items", "not within 1 ..= 128");
        }
        let slab = u64::from(self.slab_bytes);
        if !is_slab(slab) {
            return wrong("slab_bytes", "not a power of two within 4096 ..= 1048576");
        }
        if !is_region(self.region_bytes, slab) {
            return wrong("region_bytes", "not a multiple of slab_bytes within 4 slabs ..= 2 GiB");
        }
        if !(self.region_bytes..=SPACE_LIMIT_BYTES).contains(&self.limit_bytes) {
            return wrong("limit_bytes", "not within region_bytes ..= 16 TiB");
        }
        if self.write_buffer_bytes < 8 * slab || self.checkpoint_bytes == 0 {
            return wrong("write_buffer_bytes", "less than 8 slabs, or checkpoint_bytes is 0");
        }
        if self.defers_digests() && self.kept_versions > 0 {
            return wrong("proofs", "versions are kept, and each is to have its proofs");
        }
        Ok(())
    }
}
