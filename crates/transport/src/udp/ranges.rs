//! Sets of numbers as ranges: the received packets, the acknowledged bytes.

use std::ops::Range;

/// Ranges that neither overlap nor touch, ascending.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The ranges, the highest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter().rev()
    }

    /// The index of the first range that is not completely below `number`.
    fn place(&self, number: u64) -> usize {
        self.0.partition_point(|range| range.end <= number)
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.0.get(self.place(number)).is_some_and(|range| range.start <= number)
    }

    /// Whether some of these numbers are in the set.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let first = self.0.get(self.place(range.start));
        !range.is_empty() && first.is_some_and(|first| first.start < range.end)
    }

    /// The end of the range that begins at 0.
    pub(super) fn prefix(&self) -> u64 {
        self.0.first().filter(|range| range.start == 0).map_or(0, |range| range.end)
    }

    /// The parts of `wanted` that are not in the set, ascending.
    pub(super) fn missing(&self, wanted: &Range<u64>) -> Vec<Range<u64>> {
        let (mut from, mut missing) = (wanted.start, Vec::new());
        let there = self.0.get(self.place(wanted.start)..).unwrap_or_default();
        for range in there.iter().take_while(|range| range.start < wanted.end) {
            if from < range.start {
                missing.push(from..range.start);
            }
            from = range.end;
        }
        if from < wanted.end {
            missing.push(from..wanted.end);
        }
        missing
    }

    pub(super) fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        // Ranges that overlap or touch the new one are merged with it.
        let first = self.0.partition_point(|range| range.end < new.start);
        let last = self.0.partition_point(|range| range.start <= new.end);
        match self.0.get(first..last) {
            Some([low, .., high]) => {
                let joined = low.start.min(new.start)..high.end.max(new.end);
                self.0.splice(first..last, [joined]);
            }
            Some([only]) => {
                let joined = only.start.min(new.start)..only.end.max(new.end);
                self.0.splice(first..last, [joined]);
            }
            _ => self.0.insert(first, new),
        }
    }

    /// Removes the lowest ranges and keeps `count`.
    pub(super) fn keep_newest(&mut self, count: usize) {
        self.0.drain(..self.0.len().saturating_sub(count));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a set of single numbers.
        #[test]
        fn ranges_are_the_set_of_their_numbers(
            inserted in proptest::collection::vec((0u64..60, 0u64..8), 0..40),
            wanted in (0u64..60, 0u64..20),
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (start, length) in inserted {
                ranges.insert(start..start + length);
                model.extend(start..start + length);
            }
            for number in 0..70 {
                prop_assert_eq!(ranges.contains(number), model.contains(&number));
            }
            for pair in ranges.0.windows(2) {
                prop_assert!(pair[0].end < pair[1].start, "{:?}", pair);
            }
            prop_assert_eq!(ranges.prefix(), (0..).find(|n| !model.contains(n)).unwrap_or(0));
            let wanted = wanted.0..wanted.0 + wanted.1;
            let missing: Vec<u64> = ranges.missing(&wanted).into_iter().flatten().collect();
            let expected: Vec<u64> = wanted.clone().filter(|n| !model.contains(n)).collect();
            prop_assert_eq!(ranges.overlaps(&wanted), expected.len() < wanted.clone().count());
            prop_assert_eq!(missing, expected);
        }
    }

    #[test]
    fn the_lowest_are_forgotten_first() {
        let mut ranges = Ranges::default();
        for start in [0, 10, 20] {
            ranges.insert(start..start + 5);
        }
        ranges.keep_newest(2);
        assert_eq!(ranges.newest().collect::<Vec<_>>(), [&(20..25), &(10..15)]);
    }
}
