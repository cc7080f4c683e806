//! One poll about colours: the answers of a sample, counted until they decide.

/// What nodes choose between. A binary decision has the colours 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Colour(pub u16);

/// What a poll came to: the colour with most seats, and how many. At most one colour has more than
/// half of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The colour.
    pub colour: Colour,
    /// Its seats.
    pub seats: u32,
}

/// A poll under way. It holds one count for each colour that was answered, so at most k.
#[derive(Clone, Debug)]
pub struct Poll {
    left: u32,
    /// Where more seats change nothing.
    enough: u32,
    /// Below which a colour does not count.
    quorum: u32,
    counts: Vec<Outcome>,
}

impl Poll {
    /// A poll of `sample` seats. It ends early when a colour has `enough` seats, or no colour can
    /// reach `quorum` any more. Protocols with one threshold have `enough` = `quorum` = α.
    #[must_use]
    pub fn new(sample: u32, quorum: u32, enough: u32) -> Self {
        Self { left: sample, enough, quorum, counts: Vec::new() }
    }

    /// Counts an answer for so many seats.
    pub fn answer(&mut self, colour: Colour, seats: u32) {
        let seats = seats.min(self.left);
        self.left -= seats;
        match self.counts.iter_mut().find(|count| count.colour == colour) {
            Some(count) => count.seats += seats,
            None => self.counts.push(Outcome { colour, seats }),
        }
    }

    /// So many seats will not answer, or have no colour.
    pub fn silent(&mut self, seats: u32) {
        self.left -= seats.min(self.left);
    }

    /// The outcome, as soon as no further answer can change it: `Some(None)` is a failed poll.
    #[must_use]
    pub fn outcome(&self) -> Option<Option<Outcome>> {
        let best = self.counts.iter().copied().max_by_key(|count| (count.seats, count.colour));
        let seats = best.map_or(0, |best| best.seats);
        if self.left == 0 || seats >= self.enough {
            let needed = planted!("poll-won-below-alpha", self.quorum - 1, self.quorum);
            return Some(best.filter(|best| best.seats >= needed));
        }
        (seats + self.left < self.quorum).then_some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_ends_as_soon_as_its_outcome_is_certain() {
        let (red, blue) = (Colour(0), Colour(1));
        let mut poll = Poll::new(10, 8, 8);
        (0..7).for_each(|_| poll.answer(red, 1));
        assert_eq!(poll.outcome(), None);
        poll.answer(red, 1);
        assert_eq!(poll.outcome(), Some(Some(Outcome { colour: red, seats: 8 })));
        let mut poll = Poll::new(10, 8, 8);
        poll.answer(red, 2);
        poll.silent(1);
        assert_eq!(poll.outcome(), None);
        poll.answer(blue, 2);
        assert_eq!(poll.outcome(), Some(None), "8 of blue cannot be reached any more");
        // With a second threshold above, eight are not the end.
        let mut poll = Poll::new(10, 8, 10);
        poll.answer(red, 8);
        assert_eq!(poll.outcome(), None);
        poll.answer(blue, 2);
        assert_eq!(poll.outcome(), Some(Some(Outcome { colour: red, seats: 8 })));
        // All have answered, and nobody has enough.
        let mut poll = Poll::new(10, 8, 10);
        poll.answer(red, 7);
        poll.answer(blue, 3);
        assert_eq!(poll.outcome(), Some(None));
    }
}
