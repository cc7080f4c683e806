//! The recent versions that are kept for readers.

use super::store::lock;
use std::collections::VecDeque;
use std::sync::Mutex;

/// The newest version, and the kept ones before it.
pub(super) struct Versions {
    /// The number of versions kept before the newest.
    limit: u64,
    /// Versions and their roots, the oldest first.
    kept: Mutex<VecDeque<(u64, u64)>>,
}

impl Versions {
    pub(super) fn new(limit: u64, version: u64, root: u64) -> Versions {
        Versions { limit, kept: Mutex::new(VecDeque::from([(version, root)])) }
    }

    /// Whether any version except the newest is kept.
    pub(super) fn are_kept(&self) -> bool {
        self.limit > 0
    }

    /// Adds a newer version. Only the holder of the log lock may call it.
    pub(super) fn push(&self, version: u64, root: u64) {
        let mut kept = lock(&self.kept);
        while kept.front().is_some_and(|(oldest, _)| version - oldest > self.limit) {
            kept.pop_front();
        }
        kept.push_back((version, root));
    }

    /// The oldest kept version.
    pub(super) fn oldest(&self) -> u64 {
        lock(&self.kept).front().map_or(u64::MAX, |(version, _)| *version)
    }

    /// Begins to read a version. Returns the result of `enter`, and the root. The version cannot be
    /// dropped meanwhile. If it is not kept, returns the oldest and the newest version.
    pub(super) fn enter<T>(
        &self,
        version: u64,
        enter: impl FnOnce() -> T,
    ) -> Result<(T, u64), (u64, u64)> {
        let kept = lock(&self.kept);
        match kept.binary_search_by_key(&version, |(version, _)| *version) {
            Ok(index) => Ok((enter(), kept.get(index).map_or(0, |(_, root)| *root))),
            Err(_) => {
                let bounds = [kept.front(), kept.back()];
                let [oldest, newest] = bounds.map(|bound| bound.map_or(0, |(version, _)| *version));
                Err((oldest, newest))
            }
        }
    }
}
