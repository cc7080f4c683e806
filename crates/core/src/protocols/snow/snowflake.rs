//! Snowflake (white paper, section 2.3): Slush with a counter. β polls in a row for one colour
//! decide; a poll for another colour, or for none, begins anew.

use super::poll::{Colour, Outcome};

/// A node.
#[derive(Clone, Debug)]
pub struct Snowflake {
    colour: Option<Colour>,
    count: u32,
    decision: u32,
}

impl Snowflake {
    /// A node with this colour, or none yet; `decision` is β.
    #[must_use]
    pub const fn new(colour: Option<Colour>, decision: u32) -> Self {
        Self { colour, count: 0, decision }
    }

    /// The colour it answers with.
    #[must_use]
    pub const fn colour(&self) -> Option<Colour> {
        self.colour
    }

    /// Polls in a row for this colour.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// A question tells a node without a colour which one to take.
    pub fn asked(&mut self, colour: Colour) {
        self.colour.get_or_insert(colour);
    }

    /// A poll has ended. A decided node does not change any more.
    ///
    /// The first poll for a new colour counts as one, as in Snowball and Avalanche; in the white
    /// paper's figure 2 it counts as none.
    pub fn polled(&mut self, outcome: Option<Outcome>) {
        if self.decided().is_some() {
            return;
        }
        match outcome {
            None => self.count = planted!("snowflake-failure-keeps-counter", self.count, 0),
            Some(Outcome { colour, .. }) if self.colour == Some(colour) => self.count += 1,
            Some(Outcome { colour, .. }) => {
                self.count = planted!("snowflake-change-keeps-counter", self.count + 1, 1);
                self.colour = Some(colour);
            }
        }
    }

    /// The decision.
    #[must_use]
    pub fn decided(&self) -> Option<Colour> {
        self.colour.filter(|_| self.count >= self.decision)
    }
}
