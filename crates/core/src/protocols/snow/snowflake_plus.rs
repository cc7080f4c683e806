//! Snowflake+: Snowflake with a threshold for changing the colour and several for deciding, as in
//! AvalancheGo and in Frosty (arXiv 2404.14250, section 5).
//!
//! Each condition has a threshold and a β of its own: many seats in a few polls decide as well as
//! fewer seats in many. A poll drives every counter whose threshold it reached, and begins the
//! others anew: what errs in a sample costs only the conditions that it missed.

use super::poll::{Colour, Outcome};

/// So many polls in a row with at least so many seats decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The seats, at least those that change the colour.
    pub seats: u32,
    /// The polls.
    pub polls: u32,
}

/// Why conditions cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// There are none, or too many.
    #[error("{0} conditions: give 1 to {max}", max = SnowflakePlus::MAX_CONDITIONS)]
    Number(usize),
    /// A condition below the one before it, or one that never counts.
    #[error(
        "{seats} seats in {polls} polls: list conditions by rising seats, from {least} on, and falling polls from 1 on"
    )]
    Order {
        /// Of the condition.
        seats: u32,
        /// Of the condition.
        polls: u32,
        /// The threshold that changes the colour.
        least: u32,
    },
}

/// A node.
#[derive(Clone, Debug)]
pub struct SnowflakePlus {
    colour: Option<Colour>,
    quorum: u32,
    counts: Vec<(Condition, u32)>,
}

impl SnowflakePlus {
    /// The most conditions.
    pub const MAX_CONDITIONS: usize = 16;

    /// A node that takes a colour with `quorum` seats, and decides by the first condition that is
    /// met.
    ///
    /// # Errors
    /// [`Invalid`] says what to change.
    pub fn new(
        colour: Option<Colour>,
        quorum: u32,
        conditions: &[Condition],
    ) -> Result<Self, Invalid> {
        if conditions.is_empty() || conditions.len() > Self::MAX_CONDITIONS {
            return Err(Invalid::Number(conditions.len()));
        }
        let (mut least, mut most) = (quorum, u32::MAX);
        for Condition { seats, polls } in conditions.iter().copied() {
            if seats < least || polls == 0 || polls > most {
                return Err(Invalid::Order { seats, polls, least });
            }
            (least, most) = (seats + 1, polls);
        }
        let counts = conditions.iter().map(|condition| (*condition, 0)).collect();
        Ok(Self { colour, quorum, counts })
    }

    /// The colour it answers with.
    #[must_use]
    pub const fn colour(&self) -> Option<Colour> {
        self.colour
    }

    /// A question tells a node without a colour which one to take.
    pub fn asked(&mut self, colour: Colour) {
        self.colour.get_or_insert(colour);
    }

    /// A poll has ended.
    pub fn polled(&mut self, outcome: Option<Outcome>) {
        if self.decided().is_some() {
            return;
        }
        let outcome = outcome.filter(|outcome| outcome.seats >= self.quorum);
        let seats = outcome.map_or(0, |outcome| outcome.seats);
        if let Some(Outcome { colour, .. }) = outcome
            && self.colour != Some(colour)
        {
            self.colour = Some(colour);
            self.counts.iter_mut().for_each(|(_, count)| *count = 0);
        }
        for (condition, count) in &mut self.counts {
            let needed = planted!("snowflake-plus-one-threshold", self.quorum, condition.seats);
            let failed = planted!("snowflake-plus-failure-keeps-counter", *count, 0);
            *count = if seats >= needed { *count + 1 } else { failed };
        }
    }

    /// Polls in a row for this colour, of the condition that counted most.
    #[must_use]
    pub fn most_counted(&self) -> u32 {
        self.counts.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// The decision.
    #[must_use]
    pub fn decided(&self) -> Option<Colour> {
        let met = self.counts.iter().any(|(condition, count)| *count >= condition.polls);
        self.colour.filter(|_| met)
    }
}
