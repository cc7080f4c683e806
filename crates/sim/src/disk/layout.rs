//! How the logs of a cluster are laid out: small, so that little is copied and segments come and go.

use quorate_core::ReplicaId;
use quorate_journal::Owner;
use quorate_store::wal;

use super::Site;
use crate::config::Config;

/// A page of the log's format: the header and each mark have one.
pub(super) const PAGE_BYTES: u64 = 4096;

impl Config {
    /// Whose disk that of replica `id` is, and how it is laid out.
    pub(crate) fn site(&self, id: usize) -> Site {
        let domain = self.domain();
        let key = domain.committee().key(ReplicaId(id as u16)).cloned();
        let owner = Owner::new(domain, key.expect("a replica of the committee"));
        let slot_bytes = self.slot_bytes();
        let room = self.log_room_bytes.next_multiple_of(PAGE_BYTES);
        let segment_bytes = 5 * PAGE_BYTES + 4 * slot_bytes + room;
        let log = wal::Options {
            segment_bytes,
            slot_bytes: u32::try_from(slot_bytes).unwrap_or(u32::MAX) & !0xFFF,
            preparation: wal::Preparation::Inline,
            ..wal::Options::new(owner.identity())
        };
        Site { owner, log }
    }

    /// Room for the largest safety record: three certificates, and a time-out certificate whose q
    /// signers each show one.
    fn slot_bytes(&self) -> u64 {
        let quorum = (self.replicas - (self.replicas - 1) / 3) as u64;
        let certificate = 128 + 72 * quorum;
        (256 + 3 * certificate + quorum * (96 + certificate)).next_multiple_of(PAGE_BYTES)
    }
}
