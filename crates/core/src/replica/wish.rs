//! The root that somebody waits for.

use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time};

/// How long a wish counts.
const WISHED_FOR: Duration = Duration::from_secs(5);

/// A peer may be so many blocks ahead with what it wishes for. What is above would have to be
/// made for it alone.
const AHEAD: u64 = 64;

/// A peer that has had so many may wish for one block more each time this has passed.
const ONE_MORE_EACH: Duration = Duration::from_millis(250);

/// Up to which height roots are wanted, and until when that counts.
#[derive(Debug)]
pub(super) struct Wish {
    height: Option<Height>,
    until: Time,
    /// What each peer has wished for lately.
    accounts: PerPeer<Account>,
}

/// The blocks that a peer wished for, and when they were counted.
#[derive(Debug, Default)]
struct Account {
    blocks: u64,
    at: Time,
}

impl Account {
    /// Takes `wanted` blocks, or as many as there may be.
    fn take(&mut self, now: Time, wanted: u64) -> u64 {
        let passed = now.since(self.at).as_nanos() / ONE_MORE_EACH.as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        if passed > 0 {
            self.blocks = self.blocks.saturating_sub(passed);
            self.at = now;
        }
        let taken = wanted.min(AHEAD - self.blocks);
        self.blocks += taken;
        taken
    }
}

impl Wish {
    /// None, of `peers` replicas.
    pub fn none(peers: usize) -> Self {
        Self { height: None, until: Time(0), accounts: PerPeer::new(peers) }
    }

    /// Has accounts for so many replicas.
    pub fn grow(&mut self, peers: usize) {
        self.accounts.grow(peers);
    }

    /// A peer wishes for roots up to `height`, where blocks up to `executed` were executed. It gets
    /// a few blocks at once and a few a second, so that it cannot keep an idle cluster busy. Nor
    /// can it keep a wish alive that is not fulfilled.
    pub fn raise_for(&mut self, now: Time, from: ReplicaId, height: Height, executed: Height) {
        let current = self.height(now);
        let height = height.min(executed.plus(AHEAD));
        let Some(account) = self.accounts.get_mut(from) else { return };
        if Some(height) <= current {
            return;
        }
        // What is executed may still have to be shown, which takes a block as well.
        let floor = current.unwrap_or_default().max(executed);
        let granted = account.take(now, height.0.saturating_sub(floor.0).max(1));
        if granted > 0 {
            self.raise(now, height.min(floor.plus(granted)));
        }
    }

    /// Up to which height roots are wanted.
    pub fn height(&self, now: Time) -> Option<Height> {
        self.height.filter(|_| now < self.until)
    }

    /// Roots are wanted up to `height`, or higher where that was said before.
    pub fn raise(&mut self, now: Time, height: Height) {
        self.height = self.height(now).max(Some(height));
        self.until = now.after(WISHED_FOR);
    }

    /// Whether as much was wanted a short time ago. After that it is said again, to those who may
    /// have missed it.
    pub fn was_raised_lately(&self, now: Time, height: Height) -> bool {
        self.height(now) >= Some(height) && self.until > now.after(WISHED_FOR / 2)
    }
}
