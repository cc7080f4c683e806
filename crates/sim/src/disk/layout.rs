//! How the logs of a cluster are laid out: small, so that little is copied and segments come and
//! go.

use quorate_journal::Owner;
use quorate_store::wal;

use super::Site;
use crate::config::Config;
use crate::family::Family;
use crate::keys;

/// A page of the log's format: the header and each mark have one.
pub(super) const PAGE_BYTES: u64 = 4096;

impl Config {
    /// Whose disk that of replica `id` is, and how it is laid out.
    pub(crate) fn site<F: Family>(&self, id: usize) -> Site<F::Types> {
        let origin = F::origin(self);
        let owner = Owner::new(origin, keys::member(id, 1).key);
        let log = wal::Options {
            segment_bytes: 0,
            slot_bytes: 0,
            preparation: wal::Preparation::Inline,
            ..wal::Options::new(owner.identity())
        };
        let log = owner.log_options(log, 0);
        let room = self.log_room_bytes.next_multiple_of(PAGE_BYTES);
        let log = wal::Options { segment_bytes: log.segment_bytes + room, ..log };
        Site { owner, log }
    }
}
