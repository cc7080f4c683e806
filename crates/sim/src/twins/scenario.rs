//! What a scenario is: for each scripted view a leader, and who may hear whom.

use std::fmt;

use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::Schedule;

/// The most slots a scenario may have: replicas, and the second copies of twins.
pub const MAX_SLOTS: usize = 16;

/// The most scripted views.
pub const MAX_VIEWS: usize = 24;

/// The most views before the script.
pub const MAX_PREFIX: usize = Schedule::VIEWS - MAX_VIEWS;

/// How many replicas there are, and how many of them run twice.
///
/// Slots `0 .. replicas` are the replicas; the slots after them are the second copies of replicas
/// `0 .. twins`, in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    replicas: u8,
    twins: u8,
}

/// Counts that make no scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// No replicas, or more slots than there may be.
    #[error("{replicas} replicas and {twins} twins are not 1 to {MAX_SLOTS} slots: use fewer")]
    Slots {
        /// Replicas asked for.
        replicas: usize,
        /// Twins asked for.
        twins: usize,
    },
    /// More twins than replicas that may lie.
    #[error(
        "of {replicas} replicas at most f = {faults} may lie, so that {twins} twins prove nothing: use at \
         most {faults} twins, or at least {} replicas", 3 * twins + 1
    )]
    Faults {
        /// Replicas asked for.
        replicas: usize,
        /// Twins asked for.
        twins: usize,
        /// How many may lie.
        faults: usize,
    },
}

impl Shape {
    /// `replicas` replicas, the first `twins` of which run twice.
    ///
    /// # Errors
    /// [`ShapeError`] if the counts are impossible.
    pub fn new(replicas: usize, twins: usize) -> Result<Self, ShapeError> {
        if replicas == 0 || replicas > MAX_SLOTS || twins > MAX_SLOTS - replicas {
            return Err(ShapeError::Slots { replicas, twins });
        }
        let faults = membership::faults(replicas);
        if twins > faults {
            return Err(ShapeError::Faults { replicas, twins, faults });
        }
        Ok(Self { replicas: replicas as u8, twins: twins as u8 })
    }

    /// How many replicas there are.
    #[must_use]
    pub fn replicas(&self) -> usize {
        usize::from(self.replicas)
    }

    /// How many of them run twice.
    #[must_use]
    pub fn twins(&self) -> usize {
        usize::from(self.twins)
    }

    /// How many run: replicas and second copies.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.replicas() + self.twins()
    }

    /// Which replica runs in a slot.
    #[must_use]
    pub fn replica_in(&self, slot: usize) -> usize {
        if slot < self.replicas() { slot } else { slot - self.replicas() }
    }

    /// Whether a slot belongs to a replica that runs twice.
    #[must_use]
    pub fn is_twin(&self, slot: usize) -> bool {
        self.replica_in(slot) < self.twins()
    }

    /// What a slot is called: the replica's id, with a prime for the second copy.
    #[must_use]
    pub fn name(&self, slot: usize) -> String {
        let prime = if slot < self.replicas() { "" } else { "'" };
        format!("{}{prime}", self.replica_in(slot))
    }

    /// The slot of this name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<usize> {
        (0..self.slots()).find(|slot| self.name(*slot) == name)
    }
}

/// A partition of the slots: for each the number of its group, numbered in the order in which they
/// first appear, so that equal partitions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Groups([u8; MAX_SLOTS]);

impl Groups {
    /// All in one group.
    pub const TOGETHER: Self = Self([0; MAX_SLOTS]);

    /// The partition in which slot i is in a group called `group_of(i)`.
    #[must_use]
    pub fn new(slots: usize, group_of: impl Fn(usize) -> u8) -> Self {
        let mut names: Vec<u8> = Vec::with_capacity(slots);
        let mut groups = [0; MAX_SLOTS];
        for (slot, place) in groups.iter_mut().enumerate().take(slots) {
            let name = group_of(slot);
            *place = match names.iter().position(|known| *known == name) {
                Some(group) => group as u8,
                None => {
                    names.push(name);
                    names.len() as u8 - 1
                }
            };
        }
        Self(groups)
    }

    /// The group of a slot.
    #[must_use]
    pub fn of(&self, slot: usize) -> u8 {
        self.0.get(slot).copied().unwrap_or(0)
    }

    /// How many groups there are.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.0.iter().max().copied().unwrap_or(0)) + 1
    }

    /// The groups, each the slots in it, ascending.
    #[must_use]
    pub fn lists(&self, slots: usize) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.count()];
        for slot in 0..slots {
            lists[usize::from(self.of(slot))].push(slot);
        }
        lists
    }
}

/// What part of a view a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The leader's proposal.
    Proposal,
    /// Votes, and the certificates that protocols of several phases are told of.
    Vote,
    /// Everything else: time-outs, new-views, certificates for those who lack them, and blocks.
    ViewChange,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Proposal, Self::Vote, Self::ViewChange];

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proposal => "proposal",
            Self::Vote => "vote",
            Self::ViewChange => "view_change",
        }
    }
}

/// What is scripted of one view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewScript {
    /// The replica that leads; if it runs twice, both copies do.
    pub leader: u8,
    /// By [`Phase`]: who is together.
    pub groups: [Groups; 3],
    /// Slots and those that do not hear them, in this order, though they are together.
    pub blocked: Vec<(u8, u8)>,
}

impl ViewScript {
    /// A view in which the groups are the same throughout.
    #[must_use]
    pub fn steady(leader: u8, groups: Groups) -> Self {
        Self { leader, groups: [groups; 3], blocked: Vec::new() }
    }

    /// Whether the groups are the same throughout.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.groups.iter().all(|groups| *groups == self.groups[0])
    }

    /// Whether `to` hears `from` in `phase`.
    #[must_use]
    pub fn hears(&self, phase: Phase, from: usize, to: usize) -> bool {
        let groups = &self.groups[phase as usize];
        groups.of(from) == groups.of(to) && !self.blocked.contains(&(from as u8, to as u8))
    }
}

/// A scenario: the scripted views, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Who takes part.
    pub shape: Shape,
    /// The views.
    pub views: Vec<ViewScript>,
}

/// For people: `leader 0 | 0 1 2 / 3 0'`, a line a view.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |slots: &Vec<usize>| {
            let names: Vec<String> = slots.iter().map(|slot| self.shape.name(*slot)).collect();
            names.join(" ")
        };
        let together = |groups: &Groups| {
            let lists: Vec<String> = groups.lists(self.shape.slots()).iter().map(names).collect();
            lists.join(" / ")
        };
        for (at, view) in self.views.iter().enumerate() {
            write!(f, "{:>3}: leader {} | ", at + 1, view.leader)?;
            if view.is_steady() {
                f.write_str(&together(&view.groups[0]))?;
            } else {
                let phases = Phase::ALL.map(|phase| {
                    format!("{} {}", phase.name(), together(&view.groups[phase as usize]))
                });
                f.write_str(&phases.join("; "))?;
            }
            for (from, to) in &view.blocked {
                let (from, to) = (usize::from(*from), usize::from(*to));
                write!(f, "; {} not to {}", self.shape.name(from), self.shape.name(to))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
