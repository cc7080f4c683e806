//! A correct replica as the [model](super) sees it: its sets P and Q, and how far it has come in
//! the present view.

/// The most heights that a model has.
pub const HEIGHTS: usize = 3;

/// Production remembers so many pre-prepared blocks of a height.
const REMEMBERED: usize = quorate_core::protocols::pbft::words::MAX_PRE_PREPARED;

/// The name of a block: 0 is genesis', or no block's.
pub type Name = u8;

/// A block at each height, from the first on; 0 where there is none.
pub type Column = [Name; HEIGHTS];

/// The block of a set P or Q at some height: 0 and 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// In which view.
    pub view: u8,
    /// Which one.
    pub block: Name,
}

/// What a replica says of one height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Of P.
    pub prepared: Entry,
    /// Of Q, the latest last.
    pub pre_prepared: [Entry; REMEMBERED],
}

impl Place {
    /// What it pre-prepared, the latest last.
    pub fn known(&self) -> impl Iterator<Item = Entry> {
        self.pre_prepared.into_iter().filter(|entry| entry.block != 0)
    }

    /// As production's `Known` does it. Whether the earliest block gave way.
    fn pre_prepare(&mut self, entry: Entry) -> bool {
        let mut kept: Vec<Entry> =
            self.known().filter(|other| other.block != entry.block).collect();
        kept.push(entry);
        let excess = kept.len().saturating_sub(REMEMBERED);
        self.pre_prepared = Default::default();
        self.pre_prepared.iter_mut().zip(&kept[excess..]).for_each(|(place, held)| *place = *held);
        excess > 0
    }
}

/// A correct replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// P and Q.
    pub places: [Place; HEIGHTS],
    /// The view in which a block of Q gave way last, and what that view began with; 0 for none.
    pub forgot: (u8, Column),
    /// Up to here it knows what is committed, and made use of that.
    pub head: u8,
    /// It is in the present view.
    pub entered: bool,
    /// What the view began with for it.
    pub chosen: Column,
    /// What it accepted in this view.
    pub accepted: Column,
    /// Up to here blocks are prepared in this view, or known to be committed.
    pub prepared: u8,
}

impl Replica {
    /// Enters a view.
    pub fn enter(&mut self, chosen: Column) {
        (self.entered, self.chosen) = (true, chosen);
    }

    /// Gives up on the view.
    pub fn leave(&mut self, view: u8) {
        self.remember_chosen(view, 0);
        let Self { places, forgot, head, .. } = *self;
        *self = Self { places, forgot, head, ..Self::default() };
    }

    /// What the view began with its primary ordered, whether or not it was accepted.
    fn remember_chosen(&mut self, view: u8, from: usize) {
        for place in from..HEIGHTS {
            if self.chosen[place] != 0 && self.accepted[place] == 0 {
                self.pre_prepare(view, place, self.chosen[place]);
            }
        }
    }

    fn pre_prepare(&mut self, view: u8, place: usize, block: Name) {
        if self.places[place].pre_prepare(Entry { view, block }) {
            self.forgot = (view, self.chosen);
            self.hear_of(self.forgot);
        }
    }

    /// It is shown what a view began with, and drops what that rules out. Whether it had any.
    pub fn hear_of(&mut self, (view, chosen): (u8, Column)) -> bool {
        let mut is_less = false;
        for (place, chosen) in self.places.iter_mut().zip(chosen) {
            let Entry { view: then, block } = place.prepared;
            if block != 0 && then < view && block != chosen {
                (place.prepared, is_less) = (Entry::default(), true);
            }
        }
        is_less
    }

    /// Whether it holds a block that may still be committed.
    pub fn holds(&self, height: u8, block: Name) -> bool {
        let place = &self.places[at(height)];
        place.prepared.block == block || place.known().any(|entry| entry.block == block)
    }

    /// The block that the view began with and that it has to accept next, if that is at this
    /// height.
    pub fn must_take(&self, height: u8) -> Option<Name> {
        let below = height == 1 || self.accepted[at(height) - 1] != 0;
        let block = self.chosen[at(height)];
        (self.entered && below && block != 0).then_some(block)
    }

    /// The block that a new block at this height has to extend, if it can accept one there.
    pub fn parent(&self, height: u8, committed: &Column) -> Option<Name> {
        let is_exhausted = self.chosen.iter().zip(&self.accepted).all(|(c, a)| *c == 0 || *a != 0);
        if !self.entered || !is_exhausted || self.chosen[at(height)] != 0 {
            return None;
        }
        let accepted = (1..=HEIGHTS as u8).rev().find(|height| self.accepted[at(*height)] != 0);
        let accepted = accepted.unwrap_or_default();
        if self.head > 0 && self.head >= accepted {
            return (self.head + 1 == height).then(|| committed[at(self.head)]);
        }
        match accepted {
            0 => (height == 1).then_some(0),
            _ => (accepted + 1 == height).then(|| self.accepted[at(accepted)]),
        }
    }

    /// Accepts a block in this view.
    pub fn accept(&mut self, view: u8, height: u8, block: Name) {
        self.accepted[at(height)] = block;
        self.pre_prepare(view, at(height), block);
        if height <= self.head {
            self.prepared = self.prepared.max(height);
        }
    }

    /// Whether a block is prepared as soon as q replicas accepted it.
    pub fn may_prepare(&self, height: u8) -> bool {
        self.accepted[at(height)] != 0 && self.prepared + 1 == height && height > self.head
    }

    /// Its block is prepared.
    pub fn prepare(&mut self, view: u8, height: u8) {
        let block = self.accepted[at(height)];
        self.places[at(height)].prepared = Entry { view, block };
        self.prepared = height;
    }

    /// It learns what is committed up to this height. What the view began with it takes then,
    /// whether or not it has the block; but from the first block on that was not committed at its
    /// height, what the view began with here is dead. What it held of that it took at once.
    pub fn know(&mut self, view: u8, height: u8, committed: &Column) {
        self.head = self.head.max(height);
        let is_rival = |low: &u8| {
            let (chosen, committed) = (self.chosen[at(*low)], committed[at(*low)]);
            chosen != 0 && chosen != committed
        };
        if let Some(dead) = (1..=height).find(is_rival) {
            let is_taken = |high: &u8| {
                self.accepted[at(*high)] != 0 || self.holds(*high, self.chosen[at(*high)])
            };
            let taken = (dead..=HEIGHTS as u8).take_while(is_taken).count();
            self.remember_chosen(view, at(dead) + taken);
            self.chosen[at(dead) + taken..].fill(0);
        }
        for low in 1..=height {
            if let Some(block) = self.must_take(low).filter(|_| self.accepted[at(low)] == 0) {
                self.accept(view, low, block);
            }
        }
        self.prepared = self.prepared.max(height);
    }

    /// Every name it uses.
    pub fn names(&mut self) -> impl Iterator<Item = &mut Name> {
        let places = self.places.iter_mut().flat_map(|place| {
            std::iter::once(&mut place.prepared)
                .chain(&mut place.pre_prepared)
                .map(|entry| &mut entry.block)
        });
        let columns = self.accepted.iter_mut().chain(&mut self.chosen);
        columns.chain(&mut self.forgot.1).chain(places)
    }
}

/// Where a height's block is in a column.
pub fn at(height: u8) -> usize {
    usize::from(height) - 1
}
