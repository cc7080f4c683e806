//! Who leads a view.
//!
//! Four elections, a file each: [`fixed`], [`round_robin`], [`carousel`], [`reputation`]. A fifth,
//! [`Schedule`], is for tests: no configuration names it.
//!
//! An election is a pure function of the view, the committee, and the chain that the view's
//! proposal extends ([`History`]): never of what else a replica has seen, nor of how far its own
//! commits have come. Two replicas that extend the same certified block name the same leader,
//! though one of them committed its ancestors one by one and the other two at once.
//!
//! Whom a proposal of `view` may come from is asked with the proposal's parent as the head; whom
//! a vote of `view` goes to is asked for the next view, with the block voted for as the head
//! (its certificate is what the collector makes of the votes); who leads after a time-out
//! certificate, with the block of that certificate's high QC.
//!
//! While replicas hold different high QCs they may name different leaders. That costs time, never
//! safety; and it ends with the first certificate, of votes or of time-outs, that reaches all.

mod blacklist;
pub mod carousel;
mod draw;
pub mod fixed;
pub mod history;
mod order;
pub mod reputation;
pub mod round_robin;

pub use history::{Committed, History, MAX_WINDOW};

use crate::base::membership::Committee;
use crate::base::types::{ReplicaId, View};

/// How leaders are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// Always the same replica, for as long as it is a member ([`fixed`]): **no liveness after its
    /// death**.
    Fixed(ReplicaId),
    /// Each replica in turn, as often as it weighs: `view mod n` ([`round_robin`]).
    RoundRobin,
    /// Those who signed lately but did not propose lately, without those who failed last
    /// ([`carousel`]).
    Carousel,
    /// By weight: those who propose and vote before those who fail ([`reputation`]).
    Reputation,
    /// Whoever the test says ([`Schedule`]). Not to be chosen by configuration.
    Scheduled(Schedule),
}

/// The leaders of the first views, one after another; behind them each replica in turn. What Twins
/// testing scripts: see `docs/twins.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Replica ids by view: the first is that of view 1.
    leaders: [u8; Self::VIEWS],
    views: u8,
}

impl Schedule {
    /// The most views whose leaders can be listed.
    pub const VIEWS: usize = 40;

    /// A schedule of these leaders, the first that of view 1; `None` if they are more than
    /// [`VIEWS`](Self::VIEWS). An id outside the committee leads nothing.
    #[must_use]
    pub fn new(first: &[u8]) -> Option<Self> {
        let mut leaders = [0; Self::VIEWS];
        leaders.get_mut(..first.len())?.copy_from_slice(first);
        Some(Self { leaders, views: first.len() as u8 })
    }

    /// The leader of `view`, if it is listed.
    #[must_use]
    pub fn leader(&self, view: View) -> Option<ReplicaId> {
        let place = usize::try_from(view.0.checked_sub(1)?).ok()?;
        let listed = self.leaders.get(..usize::from(self.views))?;
        listed.get(place).map(|leader| ReplicaId(u16::from(*leader)))
    }
}

impl Election {
    /// The names in configuration.
    #[must_use]
    pub const fn names() -> [&'static str; 4] {
        ["fixed", "round-robin", "carousel", "reputation"]
    }

    /// The election called `name`, if there is one. "fixed" is replica 0: who means another one
    /// says so with [`Election::Fixed`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Fixed(ReplicaId(0)), Self::RoundRobin, Self::Carousel, Self::Reputation]
            .into_iter()
            .find(|election| election.name() == name)
    }

    /// Its name in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed",
            Self::RoundRobin => "round-robin",
            Self::Carousel => "carousel",
            Self::Reputation => "reputation",
            Self::Scheduled(_) => "scheduled",
        }
    }

    /// Whether certificates have to say who signed them: such an election cannot go with
    /// threshold certificates, which name no signer.
    #[must_use]
    pub const fn needs_signers(self) -> bool {
        matches!(self, Self::Carousel | Self::Reputation)
    }

    /// How many blocks the election looks back on among `replicas` replicas, counted from the
    /// block that a proposal extends; at most [`MAX_WINDOW`]. As many committed blocks below its
    /// root does a replica have to keep at hand, after a restart and after a snapshot as well.
    #[must_use]
    pub const fn window(self, replicas: usize) -> usize {
        match self {
            Self::Fixed(_) | Self::RoundRobin | Self::Scheduled(_) => 0,
            Self::Carousel => carousel::window(replicas),
            Self::Reputation => reputation::window(replicas),
        }
    }

    /// The leader of `view`. A commit takes `chain_length` consecutive certified views: three for
    /// the three-chain rule, two for a two-chain rule, one for the basic protocol.
    #[must_use]
    pub fn leader(
        self,
        view: View,
        committee: &Committee,
        chain_length: u64,
        history: &History,
    ) -> ReplicaId {
        match self {
            Self::Fixed(_) | Self::RoundRobin | Self::Scheduled(_) => {
                self.without_history(view, committee)
            }
            Self::Carousel => carousel::leader(view, committee, chain_length, history),
            Self::Reputation => reputation::leader(view, committee, history),
        }
    }

    /// The leader of `view` where no history counts: the fixed one while it is a member that
    /// counts, the scheduled one, or the one whose turn it is.
    #[must_use]
    pub fn without_history(self, view: View, committee: &Committee) -> ReplicaId {
        match self {
            Self::Fixed(replica) if committee.weight(replica) > 0 => fixed::leader(replica),
            Self::Scheduled(schedule) => {
                schedule.leader(view).unwrap_or_else(|| round_robin::leader(view, committee))
            }
            _ => round_robin::leader(view, committee),
        }
    }
}
