//! All scenarios of a kind: how many there are, which one a number names, and samples of them.
//!
//! A scenario is a word of one letter a view; a letter is a leader and a partition (three, if it
//! may change within a view; and a blocked pair, if there may be one). Two scenarios are the same
//! but for names if a permutation of the replicas that keeps twins twins, and may exchange the two
//! copies of one, turns *all* views of the one into those of the other. Of such scenarios the first
//! in alphabetical order is kept. Nothing else is left out: pruning view by view would keep the
//! same replicas in the minority always, and miss what needs them to change.
//!
//! With G the group of these permutations, the scenarios of m views are
//! (Σ over g in G of fix(g)^m) / |G|, where fix(g) counts the letters that g leaves as they are
//! (Burnside). The first letter of a word that is kept is the first of its orbit under G; the rest
//! is a word that is kept under the stabiliser of that letter, and so on. So a number is turned
//! into its scenario letter by letter, and back, without any of the others being looked at.

use super::scenario::{Groups, MAX_VIEWS, Scenario, Shape, ViewScript};
use crate::rng::Rng;

/// Most steps in preparing a space: letters times permutations.
const MAX_WORK: u128 = 40_000_000;

/// Subgroups that stabilise letters, at most.
const MAX_SUBGROUPS: usize = 4096;

/// What kind of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Who takes part.
    pub shape: Shape,
    /// Into how many groups the slots are split at most.
    pub partitions: usize,
    /// How many views are scripted.
    pub views: usize,
    /// The groups may change within a view.
    pub by_phase: bool,
    /// In each view one slot may be unheard by one that is together with it.
    pub one_way: bool,
}

/// Why there is no such space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// No partition, or more than there are slots.
    #[error("{partitions} partitions of {slots} slots: use 1 to {slots}")]
    Partitions {
        /// Asked for.
        partitions: usize,
        /// Replicas and second copies.
        slots: usize,
    },
    /// No view, or too many.
    #[error("{0} views: use 1 to {MAX_VIEWS}")]
    Views(usize),
    /// More scenarios than can be numbered.
    #[error("more than 2^126 scenarios: use fewer views, or leave out --by-phase or --one-way")]
    TooMany,
    /// Numbering them would take too long.
    #[error(
        "{letters} choices a view and {permutations} permutations of the replicas take too long to \
         number: use fewer replicas or partitions, or leave out --by-phase or --one-way"
    )]
    TooWide {
        /// Choices a view.
        letters: u128,
        /// Permutations.
        permutations: u128,
    },
}

/// All scenarios of a kind.
#[derive(Clone, Debug)]
pub struct Space {
    kind: Kind,
    partitions: Vec<Groups>,
    /// Slots from and to; none for the first.
    pairs: Vec<Option<(u8, u8)>>,
    letters: u64,
    permutations: Vec<Permutation>,
    subgroups: Vec<Subgroup>,
}

/// What a permutation of the slots does to the parts of a letter.
#[derive(Clone, Debug)]
struct Permutation {
    leaders: Vec<u8>,
    partitions: Vec<u32>,
    pairs: Vec<u16>,
}

#[derive(Clone, Debug)]
struct Subgroup {
    /// By number of views: how many words there are up to this subgroup.
    counts: Vec<u128>,
    /// The first letter of every orbit, and the subgroup that stabilises it. Empty for the trivial
    /// subgroup, under which every letter is an orbit.
    orbits: Vec<(u64, u32)>,
}

impl Space {
    /// All scenarios of `kind`.
    ///
    /// # Errors
    /// [`SpaceError`]: what is impossible about the counts, and what to use instead.
    pub fn new(kind: Kind) -> Result<Self, SpaceError> {
        let slots = kind.shape.slots();
        if !(1..=slots).contains(&kind.partitions) {
            return Err(SpaceError::Partitions { partitions: kind.partitions, slots });
        }
        if !(1..=MAX_VIEWS).contains(&kind.views) {
            return Err(SpaceError::Views(kind.views));
        }
        let count = partition_count(slots, kind.partitions);
        let phases = if kind.by_phase { 3 } else { 1 };
        let pairs = pairs_of(kind);
        let letters = count.pow(phases) * kind.shape.replicas() as u128 * pairs.len() as u128;
        let order = order_of(kind.shape);
        if letters.saturating_mul(order) > MAX_WORK || order * count > MAX_WORK {
            return Err(SpaceError::TooWide { letters, permutations: order });
        }
        let mut space = Self {
            kind,
            partitions: partitions_of(slots, kind.partitions),
            pairs,
            letters: letters as u64,
            permutations: Vec::new(),
            subgroups: Vec::new(),
        };
        space.permutations =
            slot_permutations(kind.shape).iter().map(|slots| space.permutation(slots)).collect();
        space.find_subgroups()?;
        Ok(space)
    }

    /// What kind of scenarios they are.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many there are: what [`scenario`](Self::scenario) has numbers for.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.subgroups[0].counts[self.kind.views]
    }

    /// How many there would be if names counted: choices a view to the power of the views. `None`:
    /// too many for 128 bits.
    #[must_use]
    pub fn unpruned(&self) -> Option<u128> {
        u128::from(self.letters).checked_pow(self.kind.views as u32)
    }

    /// Choices a view.
    #[must_use]
    pub fn letters(&self) -> u64 {
        self.letters
    }

    /// Partitions of the slots.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Permutations under which scenarios are the same.
    #[must_use]
    pub fn permutations(&self) -> usize {
        self.permutations.len()
    }

    /// The scenario of this number; `None` if there are not so many.
    #[must_use]
    pub fn scenario(&self, number: u128) -> Option<Scenario> {
        if number >= self.count() {
            return None;
        }
        let (mut rest, mut subgroup) = (number, &self.subgroups[0]);
        let mut views = Vec::with_capacity(self.kind.views);
        for left in (0..self.kind.views).rev() {
            let mut found = None;
            if subgroup.orbits.is_empty() {
                let each = subgroup.counts[left];
                found = Some(((rest / each) as u64, subgroup));
                rest %= each;
            }
            for (letter, stabiliser) in &subgroup.orbits {
                let stabiliser = &self.subgroups[*stabiliser as usize];
                let size = stabiliser.counts[left];
                if rest < size {
                    found = Some((*letter, stabiliser));
                    break;
                }
                rest -= size;
            }
            let (letter, next) = found?;
            views.push(self.view(letter));
            subgroup = next;
        }
        Some(Scenario { shape: self.kind.shape, views })
    }

    /// The number of the scenario that is this one but for names; `None` if it is not of this kind.
    #[must_use]
    pub fn number(&self, scenario: &Scenario) -> Option<u128> {
        if scenario.shape != self.kind.shape || scenario.views.len() != self.kind.views {
            return None;
        }
        let word: Option<Vec<u64>> = scenario.views.iter().map(|view| self.letter(view)).collect();
        let word = word?;
        let images = self.permutations.iter().map(|permutation| {
            word.iter().map(|letter| self.image(permutation, *letter)).collect::<Vec<u64>>()
        });
        let word = images.min()?;
        let (mut number, mut subgroup) = (0, &self.subgroups[0]);
        for (at, letter) in word.iter().enumerate() {
            let left = self.kind.views - at - 1;
            if subgroup.orbits.is_empty() {
                number += u128::from(*letter) * subgroup.counts[left];
                continue;
            }
            let mut next = None;
            for (first, stabiliser) in &subgroup.orbits {
                let stabiliser = &self.subgroups[*stabiliser as usize];
                if first == letter {
                    next = Some(stabiliser);
                    break;
                }
                number += stabiliser.counts[left];
            }
            subgroup = next?;
        }
        Some(number)
    }

    /// Letters are numbered by leader, partitions, pair.
    fn parts(&self, letter: u64) -> (usize, [usize; 3], usize) {
        let (pairs, partitions) = (self.pairs.len() as u64, self.partitions.len() as u64);
        let (mut rest, pair) = (letter / pairs, (letter % pairs) as usize);
        let mut groups = [0; 3];
        if self.kind.by_phase {
            for group in groups.iter_mut().rev() {
                *group = (rest % partitions) as usize;
                rest /= partitions;
            }
        } else {
            groups = [(rest % partitions) as usize; 3];
            rest /= partitions;
        }
        (rest as usize, groups, pair)
    }

    fn whole(&self, leader: usize, groups: [usize; 3], pair: usize) -> u64 {
        let mut letter = leader as u64;
        for group in &groups[..if self.kind.by_phase { 3 } else { 1 }] {
            letter = letter * self.partitions.len() as u64 + *group as u64;
        }
        letter * self.pairs.len() as u64 + pair as u64
    }

    fn view(&self, letter: u64) -> ViewScript {
        let (leader, groups, pair) = self.parts(letter);
        ViewScript {
            leader: leader as u8,
            groups: groups.map(|group| self.partitions[group]),
            blocked: self.pairs[pair].into_iter().collect(),
        }
    }

    fn letter(&self, view: &ViewScript) -> Option<u64> {
        if usize::from(view.leader) >= self.kind.shape.replicas() || view.blocked.len() > 1 {
            return None;
        }
        let mut groups = [0; 3];
        for (place, wanted) in groups.iter_mut().zip(&view.groups) {
            *place = self.partitions.binary_search(wanted).ok()?;
        }
        let pair = view.blocked.first().copied();
        let pair = self.pairs.iter().position(|known| *known == pair)?;
        let steady = self.kind.by_phase || view.is_steady();
        steady.then(|| self.whole(usize::from(view.leader), groups, pair))
    }

    fn image(&self, permutation: &Permutation, letter: u64) -> u64 {
        let (leader, groups, pair) = self.parts(letter);
        let groups = groups.map(|group| permutation.partitions[group] as usize);
        let leader = usize::from(permutation.leaders[leader]);
        self.whole(leader, groups, usize::from(permutation.pairs[pair]))
    }

    /// What moving slot i to `to[i]` does.
    fn permutation(&self, to: &[usize]) -> Permutation {
        let shape = self.kind.shape;
        let mut from = vec![0; to.len()];
        to.iter().enumerate().for_each(|(slot, image)| from[*image] = slot);
        let partitions = self.partitions.iter().map(|groups| {
            let image = Groups::new(to.len(), |slot| groups.of(from[slot]));
            self.partitions.binary_search(&image).unwrap_or(0) as u32
        });
        let moved = |slot: u8| to[usize::from(slot)] as u8;
        let pairs = self.pairs.iter().map(|pair| {
            let image = pair.map(|(a, b)| (moved(a), moved(b)));
            self.pairs.iter().position(|known| *known == image).unwrap_or(0) as u16
        });
        Permutation {
            leaders: (0..shape.replicas()).map(|id| shape.replica_in(to[id]) as u8).collect(),
            partitions: partitions.collect(),
            pairs: pairs.collect(),
        }
    }

    fn find_subgroups(&mut self) -> Result<(), SpaceError> {
        let all = (0..self.permutations.len() as u32).collect();
        // Places in `permutations`, ascending.
        let mut known: Vec<Vec<u32>> = vec![all];
        let mut at = 0;
        while at < known.len() {
            let members = known[at].clone();
            let mut orbits = Vec::new();
            for letter in (0..self.letters).filter(|_| members.len() > 1) {
                let mut stabiliser = Vec::new();
                let mut is_first = true;
                for member in &members {
                    let image = self.image(&self.permutations[*member as usize], letter);
                    is_first &= image >= letter;
                    if image == letter {
                        stabiliser.push(*member);
                    }
                }
                if is_first {
                    let place = known.iter().position(|other| *other == stabiliser);
                    let place = place.unwrap_or_else(|| {
                        known.push(stabiliser);
                        known.len() - 1
                    });
                    orbits.push((letter, place as u32));
                }
            }
            let counts = self.counts(&members)?;
            self.subgroups.push(Subgroup { counts, orbits });
            at += 1;
            if known.len() > MAX_SUBGROUPS {
                let letters = u128::from(self.letters);
                let permutations = self.permutations.len() as u128;
                return Err(SpaceError::TooWide { letters, permutations });
            }
        }
        Ok(())
    }

    /// By number of views: how many words there are up to these permutations (Burnside).
    fn counts(&self, members: &[u32]) -> Result<Vec<u128>, SpaceError> {
        let fixed: Vec<u128> = members
            .iter()
            .map(|member| {
                let p = &self.permutations[*member as usize];
                let leaders = p.leaders.iter().enumerate().filter(|(a, b)| *a == usize::from(**b));
                let groups = p.partitions.iter().enumerate().filter(|(a, b)| *a == **b as usize);
                let pairs = p.pairs.iter().enumerate().filter(|(a, b)| *a == usize::from(**b));
                let phases = if self.kind.by_phase { 3 } else { 1 };
                leaders.count() as u128
                    * (groups.count() as u128).pow(phases)
                    * pairs.count() as u128
            })
            .collect();
        let count = |views: usize| {
            let mut words = fixed.iter().map(|letters| letters.checked_pow(views as u32));
            let sum = words.try_fold(0u128, |sum, words| sum.checked_add(words?));
            let count = sum? / members.len() as u128;
            (count < 1 << 126).then_some(count)
        };
        (0..=self.kind.views).map(count).collect::<Option<_>>().ok_or(SpaceError::TooMany)
    }
}

/// How many partitions of `slots` slots into at most `most` groups there are: the Stirling numbers
/// of the second kind up to `most`.
#[must_use]
pub fn partition_count(slots: usize, most: usize) -> u128 {
    let mut row = vec![0u128; slots + 1];
    row[0] = 1;
    for _ in 0..slots {
        for groups in (1..=slots).rev() {
            row[groups] = row[groups] * groups as u128 + row[groups - 1];
        }
        row[0] = 0;
    }
    row.iter().take(most + 1).sum()
}

/// All partitions into at most `most` groups, ascending.
fn partitions_of(slots: usize, most: usize) -> Vec<Groups> {
    let mut strings: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..slots {
        let mut longer = Vec::new();
        for string in strings {
            let used = string.iter().max().map_or(0, |last| last + 1);
            for group in 0..=used.min(most as u8 - 1) {
                longer.push(string.iter().copied().chain([group]).collect());
            }
        }
        strings = longer;
    }
    strings.iter().map(|string| Groups::new(slots, |slot| string[slot])).collect()
}

/// Nobody, and with `one_way` every slot and every slot of another replica.
fn pairs_of(kind: Kind) -> Vec<Option<(u8, u8)>> {
    let (shape, mut pairs) = (kind.shape, vec![None]);
    for from in (0..shape.slots()).filter(|_| kind.one_way) {
        let others =
            (0..shape.slots()).filter(|to| shape.replica_in(*to) != shape.replica_in(from));
        pairs.extend(others.map(|to| Some((from as u8, to as u8))));
    }
    pairs
}

/// How many permutations there are: t! · (n − t)! · 2^t.
fn order_of(shape: Shape) -> u128 {
    let factorial = |n: usize| (1..=n as u128).product::<u128>();
    (factorial(shape.twins()) * factorial(shape.replicas() - shape.twins())) << shape.twins()
}

/// Every permutation of the slots that keeps twins twins, the identity first.
fn slot_permutations(shape: Shape) -> Vec<Vec<usize>> {
    let (n, t) = (shape.replicas(), shape.twins());
    let of_twins = orders(&(0..t).collect::<Vec<_>>());
    let of_others = orders(&(t..n).collect::<Vec<_>>());
    let mut all = Vec::new();
    for twins in &of_twins {
        for others in &of_others {
            for swaps in 0..1usize << t {
                let mut to = vec![0; shape.slots()];
                for (id, image) in twins.iter().enumerate() {
                    let copies = [*image, n + *image];
                    let swapped = swaps >> id & 1;
                    (to[id], to[n + id]) = (copies[swapped], copies[1 - swapped]);
                }
                to[t..n].copy_from_slice(others);
                all.push(to);
            }
        }
    }
    all
}

/// Every order of `items`, the given one first.
fn orders(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for order in orders(&rest) {
            all.push(std::iter::once(first).chain(order).collect());
        }
    }
    all
}

/// The numbers of a campaign, one after another: all of them, or a sample without replacement.
///
/// A sample is the first so many of a permutation of all numbers that the seed chooses: a Feistel
/// network over the next power of four, walked until it comes back among the numbers. So the k-th
/// is known without the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    count: u128,
    sample: Option<(u128, u64)>,
}

impl Numbers {
    /// All numbers below `count`.
    #[must_use]
    pub fn all(count: u128) -> Self {
        Self { count, sample: None }
    }

    /// `sample` of the numbers below `count` (all, if there are no more), in an order that `seed`
    /// decides.
    #[must_use]
    pub fn sample(count: u128, sample: u128, seed: u64) -> Self {
        Self { count, sample: Some((sample.min(count), seed)) }
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> u128 {
        self.sample.map_or(self.count, |(sample, _)| sample)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The k-th of them, from 0.
    #[must_use]
    pub fn get(&self, k: u128) -> Option<u128> {
        if k >= self.len() {
            return None;
        }
        let Some((_, seed)) = self.sample else { return Some(k) };
        let half = (128 - (self.count - 1).leading_zeros()).div_ceil(2).max(1);
        let mut number = k;
        loop {
            number = feistel(number, half, seed);
            if number < self.count {
                return Some(number);
            }
        }
    }
}

/// Six rounds over two halves of `half` bits, at most 64.
fn feistel(number: u128, half: u32, seed: u64) -> u128 {
    let mask = u64::MAX >> (64 - half);
    let (mut left, mut right) = ((number >> half) as u64 & mask, number as u64 & mask);
    for round in 0..6u64 {
        let mut mix = Rng::new(seed ^ round << 56);
        let key = mix.number();
        let next = left ^ (Rng::new(right ^ key).number() & mask);
        (left, right) = (right, next);
    }
    u128::from(left) << half | u128::from(right)
}
