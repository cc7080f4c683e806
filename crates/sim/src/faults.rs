//! How often each kind of fault really happened: a campaign in which nothing went wrong proves
//! nothing.

use std::collections::BTreeMap;

/// Counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(BTreeMap<&'static str, u64>);

impl Faults {
    /// One of this kind happened.
    pub fn fired(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// All kinds that happened, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }

    /// How often a kind happened.
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}
