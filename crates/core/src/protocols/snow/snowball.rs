//! Snowball (white paper, section 2.4): Snowflake with a memory. Each successful poll adds to the
//! confidence of its colour; the node prefers the colour with most confidence; β polls in a row for
//! the *last successful* colour decide the preferred one.

use super::poll::{Colour, Outcome};

/// A node. It remembers a confidence for each colour that won a poll, at most
/// [`MAX_COLOURS`](Snowball::MAX_COLOURS): a poll for a further one counts as failed.
#[derive(Clone, Debug)]
pub struct Snowball {
    colour: Option<Colour>,
    last: Option<Colour>,
    count: u32,
    decision: u32,
    confidence: Vec<(Colour, u32)>,
}

impl Snowball {
    /// The most colours that are remembered.
    pub const MAX_COLOURS: usize = 64;

    /// A node with this colour, or none yet; `decision` is β.
    #[must_use]
    pub const fn new(colour: Option<Colour>, decision: u32) -> Self {
        Self { colour, last: colour, count: 0, decision, confidence: Vec::new() }
    }

    /// The colour it answers with.
    #[must_use]
    pub const fn colour(&self) -> Option<Colour> {
        self.colour
    }

    /// Polls in a row for the last successful colour.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Successful polls for this colour.
    #[must_use]
    pub fn confidence(&self, colour: Colour) -> u32 {
        self.confidence.iter().find(|(known, _)| *known == colour).map_or(0, |(_, polls)| *polls)
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
        let Some(colour) = outcome.map(|outcome| outcome.colour).filter(|of| self.gain(*of)) else {
            self.count = 0;
            return;
        };
        let preferred = self.colour.map_or(0, |preferred| self.confidence(preferred));
        let has_more = self.confidence(colour) > preferred;
        let turns = planted!("snowball-turns-without-confidence", true, has_more);
        if self.colour != Some(colour) && turns {
            self.colour = Some(colour);
        }
        let counted = planted!("snowball-counts-the-preferred", self.colour, self.last);
        self.count = if counted == Some(colour) { self.count + 1 } else { 1 };
        self.last = Some(colour);
    }

    fn gain(&mut self, colour: Colour) -> bool {
        if let Some((_, polls)) = self.confidence.iter_mut().find(|(known, _)| *known == colour) {
            *polls = polls.saturating_add(1);
            return true;
        }
        let room = self.confidence.len() < Self::MAX_COLOURS;
        if room {
            self.confidence.push((colour, 1));
        }
        room
    }

    /// The decision.
    #[must_use]
    pub fn decided(&self) -> Option<Colour> {
        self.colour.filter(|_| self.count >= self.decision)
    }
}
