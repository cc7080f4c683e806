//! The queue of applied batches that wait for the log. The writer of the first one takes them all.

/// A batch that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) version: u64,
    /// The root for its readers.
    pub(super) root: u64,
    /// The end of its changes in the bytes.
    end: usize,
}

/// Waiting batches, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Their changes one behind the other, if commits are logged, ...
    bytes: Vec<u8>,
    /// ... and the end of each.
    batches: Vec<Waiting>,
}

impl Queue {
    /// Adds the batch of `version`; `put` appends its changes.
    pub(super) fn add(&mut self, version: u64, root: u64, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        self.batches.push(Waiting { version, root, end: self.bytes.len() });
    }

    /// Moves all batches to `other`, in exchange for its memory. Batches in `other` are dropped.
    pub(super) fn move_to(&mut self, other: &mut Queue) {
        other.bytes.clear();
        other.batches.clear();
        std::mem::swap(self, other);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn last(&self) -> Option<Waiting> {
        self.batches.last().copied()
    }

    /// The batches, each with its changes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Waiting, &[u8])> {
        let mut rest = self.bytes.as_slice();
        let mut from = 0;
        self.batches.iter().map(move |batch| {
            let (changes, behind) = rest.split_at_checked(batch.end - from).unwrap_or((rest, &[]));
            (rest, from) = (behind, batch.end);
            (*batch, changes)
        })
    }
}
