//! Slush (white paper, section 2.2): a node takes the colour that α of its sample have, for m
//! polls. No fault is tolerated: a liar keeps the others in balance for as long as it likes.

use super::poll::{Colour, Outcome};

/// A node.
#[derive(Clone, Debug)]
pub struct Slush {
    colour: Option<Colour>,
    left: u32,
}

impl Slush {
    /// A node with this colour, or none yet, that decides after `polls` of them.
    #[must_use]
    pub const fn new(colour: Option<Colour>, polls: u32) -> Self {
        Self { colour, left: polls }
    }

    /// The colour it answers with. A node without one takes that of the first question.
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
        if let Some(Outcome { colour, .. }) =
            outcome.filter(|_| planted!("slush-never-ends", true, self.left > 0))
        {
            self.colour = Some(colour);
        }
        self.left = self.left.saturating_sub(1);
    }

    /// The decision.
    #[must_use]
    pub fn decided(&self) -> Option<Colour> {
        self.colour.filter(|_| self.left == 0)
    }
}
