//! Which leaders are not worth the full wait, each replica for itself; only liveness rests on it.
//!
//! The failure detector that the dissertation leaves undone. Two ways lead to suspicion:
//!
//! - **A leader that failed** in two of its views in a row is suspected, until a block of its own
//!   is certified. Its fourth, eighth, ... failure is followed by a view in which it is not, so
//!   that a slow one gets its chance (after the 64th, every 64th is).
//! - **A leader that is late**: its views succeed, but take much longer than those of the others. A
//!   slow primary that stays below the time-out is the attack of Clement, Wong, Alvisi, Dahlin,
//!   Marchetti, *Making Byzantine Fault Tolerant Systems Tolerate Byzantine Faults* (Aardvark),
//!   NSDI 2009, section 4. A view is [allowed](allowed) twice what views typically take. The time
//!   beyond that goes onto its leader's account, and what a view takes less is taken off. Who
//!   owes [`LATE`] typical views is late, until nothing is owed. So a leader that is slow now and
//!   then has to make up for it, and a view in which a body was fetched is soon forgotten.
//!
//! Where more than f leaders would be suspected, it was not the leaders: nobody is.

use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId};

/// So many failures in a row make a suspect.
const ENOUGH: u32 = 2;
/// At least each so many failures in a row a leader gets its chance.
const LONGEST_GAP: u32 = 64;
/// A view may take so many times what views typically take, ...
const ALLOWED: u32 = 2;
/// ... or this: machines pause for milliseconds, and nobody is to blame.
const ALLOWED_AT_LEAST: Duration = Duration::from_millis(5);
/// So many typical views on its account make a leader late.
const LATE: u32 = 8;
/// No account holds more than so many.
const MOST_OWED: u32 = 64;

/// Why a leader is suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// It failed.
    Failed,
    /// It is late.
    Late,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// How many of its views in a row failed.
    failures: u32,
    /// What its views took beyond what they were allowed.
    owed: Duration,
    is_late: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Suspects {
    faults: usize,
    /// By leader.
    records: PerPeer<Record>,
}

/// How long a view may take before it counts as late, where views typically take so long.
pub(super) fn allowed(typical: Duration) -> Duration {
    typical.saturating_mul(ALLOWED).max(ALLOWED_AT_LEAST)
}

impl Suspects {
    pub(super) fn new(replicas: usize, faults: usize) -> Self {
        Self { faults, records: PerPeer::new(replicas) }
    }

    pub(super) fn blame(&mut self, leader: ReplicaId) {
        if let Some(record) = self.records.get_mut(leader) {
            record.failures = record.failures.saturating_add(1);
        }
    }

    pub(super) fn praise(&mut self, leader: ReplicaId) {
        if let Some(record) = self.records.get_mut(leader) {
            record.failures = 0;
        }
    }

    /// A view for which nobody but `leader` was waited took so long, where views typically take
    /// `typical`.
    pub(super) fn note(&mut self, leader: ReplicaId, took: Duration, typical: Duration) {
        let Some(record) = self.records.get_mut(leader) else { return };
        let allowed = allowed(typical);
        let unit = allowed / ALLOWED;
        let owed = record.owed.saturating_add(took).saturating_sub(allowed);
        record.owed = owed.min(unit.saturating_mul(MOST_OWED));
        record.is_late = match record.is_late {
            true => record.owed > Duration::ZERO,
            false => planted!("nobody-is-late", false, record.owed >= unit.saturating_mul(LATE)),
        };
    }

    /// Whether `leader` failed in its last view.
    pub(super) fn has_failed(&self, leader: ReplicaId) -> bool {
        self.records.get(leader).is_some_and(|record| record.failures > 0)
    }

    /// Whether `leader` is not worth the full wait this time, and why.
    pub(super) fn suspects(&self, leader: ReplicaId) -> Option<Suspicion> {
        let record = self.records.get(leader)?;
        let failures = record.failures;
        let has_chance =
            failures.is_power_of_two() && failures > ENOUGH || failures.is_multiple_of(LONGEST_GAP);
        let suspicion = match record {
            Record { is_late: true, .. } => Suspicion::Late,
            _ if failures >= ENOUGH => Suspicion::Failed,
            _ => return None,
        };
        let is_suspect = |record: &&Record| record.failures >= ENOUGH || record.is_late;
        let all = self.records.iter().filter(is_suspect).count();
        (all <= self.faults && !(has_chance && failures > 0)).then_some(suspicion)
    }
}
