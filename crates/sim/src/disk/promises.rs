//! What a replica was told is durable must be there after every restart: judged by values that no
//! disk ever held.

use std::sync::Arc;

use quorate_core::Height;
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::{Record, Recovery};
use quorate_store::wal::Position;

use super::corrupt::Damage;

/// What was promised.
pub(super) struct Promises<T: Types> {
    /// The safety record that was acknowledged last.
    acknowledged: Option<Arc<T::Memory>>,
    /// It is of an epoch that has ended, or may have: then none is found.
    ended: bool,
    /// It was lost, or may have been: the replica rejoins.
    lost: Lost,
    /// One that was given to the log and not acknowledged: it may be found or not.
    attempted: Option<Arc<T::Memory>>,
    /// Where the log ended then.
    end: Position,
    /// The height of the newest snapshot.
    snapshot: Height,
}

/// What was written down of a lost memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    No,
    /// That it is lost was given to the log and not acknowledged.
    Maybe,
    Yes,
}

/// What records say of the memory.
pub(super) struct Newest<T: Types> {
    /// The newest memory behind the end of an epoch, if there is one.
    memory: Option<Arc<T::Memory>>,
    /// An epoch has ended. That is written down first, so that it may be found without a memory.
    hands_over: bool,
    /// The memory is lost: the replica rejoins.
    forgets: bool,
}

/// The newest safety record among records.
pub(super) fn newest<T: Types>(records: &[Record<T>]) -> Newest<T> {
    let mut newest = Newest { memory: None, hands_over: false, forgets: false };
    for record in records {
        match record {
            Record::Memory(safety) => {
                (newest.memory, newest.forgets) = (Some(Arc::clone(safety)), false);
            }
            Record::Handover(_) => (newest.memory, newest.hands_over) = (None, true),
            Record::Amnesia => (newest.memory, newest.forgets) = (None, true),
            Record::Block(_) => {}
        }
    }
    newest
}

impl<T: Types> Default for Promises<T> {
    fn default() -> Self {
        let (end, snapshot) = (Position::default(), Height(0));
        let lost = Lost::No;
        Self { acknowledged: None, ended: false, lost, attempted: None, end, snapshot }
    }
}

impl<T: Types> Promises<T> {
    /// Nothing was promised yet.
    pub(super) fn is_empty(&self) -> bool {
        self.acknowledged.is_none() && self.lost != Lost::Yes
    }

    pub(super) fn wrote(&mut self, newest: Newest<T>, done: bool, end: Position) {
        let Newest { memory: safety, hands_over, forgets } = newest;
        self.ended |= hands_over;
        if !done {
            self.attempted = safety.or(self.attempted.take());
            if forgets && self.lost == Lost::No {
                self.lost = Lost::Maybe;
            }
            return;
        }
        if safety.is_some() || forgets {
            self.lost = if forgets { Lost::Yes } else { Lost::No };
            (self.acknowledged, self.attempted, self.ended) = (safety, None, false);
        }
        self.end = end;
    }

    pub(super) fn has_snapshot(&mut self, height: Height) {
        self.snapshot = self.snapshot.max(height);
    }

    /// Nothing is promised any more: the disk was changed for another.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Looks at what was found; `restored` is what is there if the replica rejoins. One damage
    /// never costs the safety record, of which there are two copies; it may cost blocks, or a
    /// snapshot.
    pub(super) fn compare(
        &mut self,
        found: Option<&Recovery<T>>,
        restored: &Recovery<T>,
        end: Position,
        damage: Option<Damage>,
    ) {
        let safety = found.and_then(|found| found.memory.as_ref());
        let rejoins = !self.is_empty() && found.is_none();
        let may_rejoin = match self.lost {
            Lost::No => !rejoins,
            Lost::Maybe => true,
            Lost::Yes => rejoins || self.attempted.as_deref() == safety,
        };
        assert!(may_rejoin, "durability: whether it rejoins was lost, found was {safety:?}");
        if let Some(acknowledged) = &self.acknowledged {
            let known = (self.ended || rejoins) && safety.is_none()
                || safety == Some(&**acknowledged)
                || self.attempted.as_deref().is_some_and(|attempted| safety == Some(attempted));
            assert!(
                known,
                "durability: the safety record found is {safety:?}, promised was {acknowledged:?}, \
                 damage: {damage:?}"
            );
        }
        let snapshot = found.unwrap_or(restored).snapshot.as_ref();
        let snapshot = snapshot.map_or(Height(0), |meta| meta.block.height());
        if damage.is_none() {
            assert!(
                end >= self.end,
                "durability: the log ends at {end}, promised was {}",
                self.end
            );
            assert!(
                snapshot >= self.snapshot,
                "durability: the newest snapshot is at {snapshot}, promised was {}",
                self.snapshot
            );
        }
        self.acknowledged = safety.cloned().map(Arc::new);
        (self.attempted, self.lost) = (None, if rejoins { Lost::Yes } else { Lost::No });
        (self.end, self.snapshot) = (end, snapshot);
    }
}
