//! How a node of Avalanche behaves, besides the numbers of the protocol.

use super::super::parameters::{Invalid, Parameters};
use super::vertex::{MAX_PARENTS, MAX_TRANSACTIONS};
use crate::base::types::Duration;

/// What an unsuccessful poll does to the ancestors of what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// The counters of all ancestors are reset (white paper, algorithm 4, line 4.20). An adversary
    /// delays a chosen transaction for as long as it likes: it issues rogue children of it
    /// (Amores-Sesar, Cachin, Tedeschi, *When is Spring coming?*, OPODIS 2022, section 5).
    WhitePaper,
    /// Only the counters of ancestors that the negative answers name are reset: Glacier, section 6
    /// of the same paper.
    Glacier,
}

/// Bounds on what others can make a node hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Vertices in memory, decided ones included. The pending ones that one peer brought are a
    /// sixteenth of them at most, and the last sixteenth is for the node's own.
    pub vertices: usize,
    /// Their weight in sum ([`Vertex::weight`](super::Vertex::weight)), shared out in the same way:
    /// without this bound the same few payments, repeated in each vertex, take whatever there is.
    pub weight: usize,
    /// How deep a vertex may stand on ancestors that are not settled. A poll walks down all of
    /// them, and those on a payment that is not preferred never settle. Honest ones settle after
    /// β₁ further polls, so the honest depth is some tens of vertices.
    pub depth: u32,
    /// Vertices that wait for a parent. They weigh a quarter of `weight` at most.
    pub orphans: usize,
    /// Of these, the most that one peer sent. All but the first weigh a sixty-fourth of `weight` at
    /// most.
    pub orphans_of_peer: usize,
    /// Pending spenders of one output.
    pub spenders: usize,
    /// Transactions of this node's clients that wait for a vertex or for acceptance. They weigh a
    /// quarter of `weight` at most.
    pub own: usize,
    /// Names of rejected vertices that are remembered.
    pub rejected: usize,
    /// Strongly preferred vertices without children that are kept as parents, besides pending ones.
    pub frontier: usize,
}

impl Limits {
    /// For a node on a machine of its own.
    pub const NODE: Self = Self {
        vertices: 65_536,
        weight: 1 << 21,
        depth: 1024,
        orphans: 1024,
        orphans_of_peer: 64,
        spenders: 32,
        own: 65_536,
        rejected: 16_384,
        frontier: 256,
    };
}

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// k, α, β₁ and β₂.
    pub parameters: Parameters,
    /// What an unsuccessful poll resets.
    pub counters: Counters,
    /// Polls under way at a time; further vertices wait for their turn.
    pub polls: usize,
    /// When a poll ends whose answers do not come. It is repeated with another sample.
    pub poll_timeout: Duration,
    /// How often an unanswered poll is repeated before it counts as unsuccessful.
    pub repeats: u32,
    /// Parents of a vertex, at most [`MAX_PARENTS`].
    pub parents: usize,
    /// Transactions of a vertex, at most [`MAX_TRANSACTIONS`].
    pub batch: usize,
    /// Own vertices whose polls may be under way before further transactions of clients wait: they
    /// make the next batch.
    pub own_polls: usize,
    /// How long a node with pending transactions of its own waits for somebody else's vertex before
    /// it issues a no-op. Nodes with other pending transactions wait longer, for a time that each
    /// draws.
    pub no_op_after: Duration,
    /// When a pending transaction without conflict is issued again with other parents; each time
    /// after twice as long, up to 32 times as long.
    pub stuck_after: Duration,
    /// Bounds on memory.
    pub limits: Limits,
}

impl Settings {
    /// With these numbers, Glacier's counters, and times for the Internet.
    #[must_use]
    pub const fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            counters: Counters::Glacier,
            polls: 64,
            poll_timeout: Duration::from_millis(2_000),
            repeats: 8,
            parents: 4,
            batch: 40,
            own_polls: 2,
            no_op_after: Duration::from_millis(50),
            stuck_after: Duration::from_millis(2_000),
            limits: Limits::NODE,
        }
    }

    /// These, if they make sense; what must be at least one is made so, and what has a cap is
    /// capped.
    ///
    /// # Errors
    /// [`Invalid`] for the numbers of the protocol.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        self.parameters = self.parameters.checked()?;
        self.polls = self.polls.max(1);
        self.own_polls = self.own_polls.max(1);
        self.parents = self.parents.clamp(1, MAX_PARENTS);
        self.batch = self.batch.clamp(1, MAX_TRANSACTIONS);
        self.limits.spenders = self.limits.spenders.max(2);
        self.limits.vertices = self.limits.vertices.max(64);
        self.limits.depth = self.limits.depth.max(8);
        Ok(self)
    }
}
