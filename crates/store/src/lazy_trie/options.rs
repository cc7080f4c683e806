//! How a store is set up.

use super::error::Error;
use crate::merkle::{ValueDigest, value_digests};
pub use crate::wal::Durability;

/// No space is larger: an address has 40 bits, and stands for 16 bytes.
pub(super) const SPACE_LIMIT_BYTES: u64 = 1 << 44;

/// Whether slabs may have so many bytes.
pub(super) fn is_slab(bytes: u64) -> bool {
    bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes)
}

/// Whether regions may have so many bytes, with slabs of `slab` bytes.
pub(super) fn is_region(bytes: u64, slab: u64) -> bool {
    bytes.is_multiple_of(slab) && (4 * slab..=1 << 31).contains(&bytes)
}

/// Who writes pages out and begins log segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOut {
    /// A thread of the store, beside readers and the writer.
    Background,
    /// The writer's thread, when a limit is reached: for tests and simulations, which want one order of operations.
    Inline,
}

/// What to do with a log that is damaged below what a sync had confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Refuse to open.
    Strict,
    /// Take every commit up to the first that cannot be read, set the damaged log aside, and say in
    /// [`Recovered`](super::Recovered) what was done.
    BestEffort,
}

/// Which versions of an authenticated store have proofs. All have a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proofs {
    /// Every one: the blocks of digests that a commit changes are written with it.
    EachCommit,
    /// Those that [`Store::provable_snapshot`](super::Store::provable_snapshot) was asked for. Changed blocks stay in memory
    /// ([`Options::digest_memory_bytes`]) until then, until a checkpoint, or until they are too many, and are written once for many commits.
    /// That the space has no room for them may be found by a checkpoint, which then stops writing.
    WhenAsked,
}

/// How a store is set up. `slab_bytes` and `region_bytes` count when the store is created; later the values it was created with hold.
#[derive(Clone, Debug)]
pub struct Options {
    /// What tells a new store from others; `None`: at random.
    pub identity: Option<[u8; 16]>,
    /// How far a commit goes before it returns.
    pub durability: Durability,
    /// What to do with a damaged log.
    pub recovery: Recovery,
    /// A bucket with more items than this becomes a node (1 to 128).
    pub bucket_items: usize,
    /// Memory for pages not written out yet, in bytes; writers wait when it is used up. Up to half of it is kept for what comes.
    pub write_buffer_bytes: u64,
    /// A checkpoint begins when the log since the last one has this many bytes; at four times as many writers wait for it. See [`Options::log_commits`] for a store
    /// without.
    pub checkpoint_bytes: u64,
    /// A commit is a record of the log. Without, what was committed since the last checkpoint is gone after a crash; a checkpoint is begun by the store's owner alone
    /// ([`Store::begin_checkpoint`](super::Store::begin_checkpoint)), and [due](super::Store::checkpoint_is_due) when changes of `checkpoint_bytes` were committed since the last, or
    /// half of the write buffer is used up: for who has the changes in a log of its own. May be another each time the store is opened.
    pub log_commits: bool,
    /// Length of a log segment in bytes.
    pub segment_bytes: u64,
    /// The log is written through memory where the disk can, so that a commit that is not synced costs no call of the system; its segments are
    /// filled with zeros first, for which everything is written twice. Without: for few commits of many changes each.
    pub log_through_memory: bool,
    /// Space is cut into slots of one size by slabs of this many bytes: a power of two from 4 KiB to 1 MiB.
    pub slab_bytes: u32,
    /// Space grows by files of this many bytes: a multiple of `slab_bytes`, from 4 slabs to 2 GiB.
    pub region_bytes: u64,
    /// The space takes no more than this, in bytes.
    pub limit_bytes: u64,
    /// Who writes out.
    pub write_out: WriteOut,
    /// Whether the store has a Merkle root, and proofs of what it holds: decided when it is created, an error if asked otherwise later.
    pub authenticated: bool,
    /// Which versions of an authenticated store have proofs; may be another each time the store is opened.
    pub proofs: Proofs,
    /// Memory in bytes for blocks of digests, with [`Proofs::WhenAsked`]: those that batches met, changed or not, and those of one batch more; as
    /// much again at the most may be kept for what comes. When it is used up, what changed is written, and all is read again as it is met. 150 bytes for each item keep all of
    /// them there, and commits of few changes among many items are up to half as fast again. May be another each time the store is opened.
    pub digest_memory_bytes: u64,
    /// So many threads share the hashing of an authenticated store's batch, if it has 128 changes or more; the writer is one of them.
    pub hashing_threads: usize,
    /// What stands for values under the root: a collision-resistant hash of each, the same each time the store is opened, as the store keeps
    /// digests and computes those of its log again. For who has values of another shape and needs their roots to be equal. `None`: BLAKE3.
    /// Whether there is one is decided when the store is created: it cannot be opened by who does not know it.
    pub value_digest: Option<ValueDigest>,
    /// So many versions before the newest can be read ([`Store::snapshot_at`](super::Store::snapshot_at)), as far back as the store was
    /// opened. What they hold that the newest does not stays in the space as long.
    pub kept_versions: u64,
}

impl Default for Options {
    /// Sync, strict, buckets of 64 items, 256 MiB of write buffer, a checkpoint every 32 MiB of log, which is written through memory, slabs of 64 KiB, regions of
    /// 64 MiB, at most 1 TiB; not authenticated (the BLAKE3 of a value would stand for it, 256 MiB for blocks of digests, and as many threads hash as
    /// there are processors, up to eight), the newest version alone.
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
    /// Whether a commit returns when it would survive the loss of power.
    pub(super) fn syncs_commits(&self) -> bool {
        self.log_commits && self.durability == Durability::Sync
    }

    /// Whether changed blocks of digests wait in memory.
    pub(super) fn defers_digests(&self) -> bool {
        self.authenticated && self.proofs == Proofs::WhenAsked
    }

    /// How values are hashed, if they are.
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
