//! Every new view that the liar can make: what the real choice does with view changes of q
//! replicas, one of which may lie.
//!
//! **Lies are made height by height.** The choice decides each height by what view changes say of
//! that height, and then asks for the parent. So the lies about one height are tried in a world
//! that has this height alone, and of those with the same result one is kept. One for each height,
//! put together, make a view change of the liar's; the real choice has the last word about it.
//!
//! A lie about a height: it prepared nothing there, or any block in any earlier view, one that
//! nobody ordered among them; and it pre-prepared any of the blocks that somebody prepared. (Of
//! others the choice asks nobody whether he pre-prepared them. It asks for a view that is not too
//! early, so the liar names the last one.) A stable checkpoint needs q signatures: there is no
//! lying about it.
//!
//! Of two blocks of one view that may both be chosen, production takes the one of the greater
//! identity. Each may be that one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::base::crypto::Signature;
use quorate_core::base::types::{Digest, Height, ReplicaId, View};
use quorate_core::protocols::pbft::domain::{Authentication, Domain};
use quorate_core::protocols::pbft::words::{self, SignedChange, ViewChange};
use quorate_sim::keys::committee;

use super::mutant::Rule;
use super::replica::{Column, Entry, HEIGHTS, Name, Place, Replica, at};

/// The name of a block that nobody ordered.
pub const MADE_UP: Name = Name::MAX;
/// The liar.
pub const LIAR: ReplicaId = ReplicaId(3);
/// Whose view changes a new view rests on, and whether the liar's is one.
const QUORUMS: [(u8, bool); 5] =
    [(0b111, false), (0b111, true), (0b011, true), (0b101, true), (0b110, true)];

/// What can become of one height, and the lie that makes it so.
type Fates = Vec<(Fate, Place)>;

/// The same for each of [`QUORUMS`], shared.
type AllFates = Arc<[Fates; 5]>;

/// The view, and what the three correct replicas say of a height in names of its own.
type Question = (u8, [Place; 3]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It cannot be told yet.
    Open,
    /// Nothing is chosen.
    Nothing,
    /// A block is.
    Block(Name),
}

/// What a new view rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// Whose view changes: a bit for each correct replica.
    pub correct: u8,
    /// What the liar says of each height from the first on, if its view change is one of them.
    pub lies: Option<Vec<Place>>,
}

/// All that a view can begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewViews {
    /// Each once.
    pub all: BTreeMap<Column, Basis>,
    /// The view changes of all correct replicas do not suffice, be the liar's among them or not.
    pub is_stuck: bool,
}

/// Chooses, and remembers what was chosen for a height.
#[derive(Debug)]
pub struct Chooser {
    rule: Rule,
    domain: Domain,
    seen: Mutex<HashMap<Question, AllFates>>,
}

impl Chooser {
    /// By this rule.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        // View changes are signed in either way of authentication, and checked alike.
        let domain = Domain::new(committee(4), Authentication::Signatures);
        Self { rule, domain, seen: Mutex::default() }
    }

    /// Every choice that some quorum of view changes to `view` leads to. `parents` has the parent
    /// of each block by its name.
    ///
    /// # Panics
    /// If the independence of heights, on which this rests, is not as above.
    #[must_use]
    pub fn new_views(
        &self,
        view: u8,
        heights: u8,
        replicas: &[Replica; 3],
        parents: &[Name],
    ) -> NewViews {
        let fates: Vec<(AllFates, Vec<Name>)> =
            (1..=heights).map(|height| self.fates(view, replicas, height)).collect();
        let mut found = NewViews::default();
        for (quorum, set) in QUORUMS.into_iter().enumerate() {
            let mut open = vec![(Vec::<Place>::new(), Vec::<Name>::new())];
            while let Some((lies, chosen)) = open.pop() {
                let conclude = |lies: &[Place], chosen: &[Name], found: &mut NewViews| {
                    let ids = |name| identity(u8::from(chosen.contains(&name)), name);
                    let parent = |name| ids(parent_of(parents, name));
                    let words = Words { views: 1, id: &ids, parent: &parent };
                    self.conclude(view, set, replicas, &words, lies, found);
                };
                let Some((fates, names)) = fates.get(lies.len()) else {
                    conclude(&lies, &chosen, &mut found);
                    continue;
                };
                for (fate, lie) in &fates[quorum] {
                    let lie = renamed(*lie, |name| real(names, name));
                    let lies: Vec<Place> = lies.iter().copied().chain([lie]).collect();
                    let parent = chosen.last().copied().unwrap_or_default();
                    let mut chosen = chosen.clone();
                    match fate {
                        Fate::Open => found.is_stuck |= set.0 == 0b111,
                        Fate::Nothing => conclude(&lies, &chosen, &mut found),
                        Fate::Block(name) => {
                            let name = real(names, *name);
                            chosen.push(name);
                            match parent_of(parents, name) == parent {
                                true => open.push((lies, chosen)),
                                false => conclude(&lies, &chosen, &mut found),
                            }
                        }
                    }
                }
            }
        }
        found
    }

    /// Asks the real choice, with lies about the lowest heights.
    fn conclude(
        &self,
        view: u8,
        (correct, lies_too): (u8, bool),
        replicas: &[Replica; 3],
        words: &Words<'_>,
        lies: &[Place],
        found: &mut NewViews,
    ) {
        let mut changes: Vec<SignedChange> = (0..3)
            .filter(|id| correct & 1 << id != 0)
            .map(|id| words.change(ReplicaId(id), view, &replicas[usize::from(id)].places))
            .collect();
        if lies_too {
            changes.push(words.change(LIAR, view, lies));
        }
        // The real rule of what is well formed; signatures are another matter.
        assert!(changes.iter().all(|signed| self.domain.change(signed, HEIGHTS as u64).is_ok()));
        let Some(blocks) = self.rule.choose(self.domain.committee(), identity(0, 0), &changes)
        else {
            assert_ne!(self.rule, Rule::Right, "heights depend on each other");
            return;
        };
        let mut column = Column::default();
        for (place, entry) in column.iter_mut().zip(&blocks) {
            *place = name_of(&entry.block);
        }
        let lies = lies_too.then(|| lies.to_vec());
        found.all.entry(column).or_insert(Basis { correct, lies });
    }

    /// What can become of a height: in names of its own, and what they stand for.
    fn fates(&self, view: u8, replicas: &[Replica; 3], height: u8) -> (AllFates, Vec<Name>) {
        let mut names: Vec<Name> = Vec::new();
        let places = replicas.map(|replica| {
            renamed(replica.places[at(height)], |name| {
                let known = names.iter().position(|known| *known == name);
                let place = known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                place as Name + 1
            })
        });
        let key = (view, places);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let fates = seen.unwrap_or_else(|| {
            let fates = Arc::new(QUORUMS.map(|set| self.try_lies(view, &places, names.len(), set)));
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(key, Arc::clone(&fates));
            fates
        });
        (fates, names)
    }

    fn try_lies(&self, view: u8, places: &[Place; 3], blocks: usize, set: (u8, bool)) -> Fates {
        let (correct, lies_too) = set;
        let lies =
            if lies_too { lies(view, places, blocks as Name) } else { vec![Place::default()] };
        let mut fates = BTreeMap::new();
        let up = |name| identity(name, name);
        let down = |name: Name| identity(name.wrapping_neg(), name);
        for id in [&up as &dyn Fn(Name) -> Digest, &down] {
            let words = Words { views: 1, id, parent: &|_| identity(0, 0) };
            let honest: Vec<SignedChange> = (0..3)
                .filter(|id| correct & 1 << id != 0)
                .map(|id| words.change(ReplicaId(id), view, &[places[usize::from(id)]]))
                .collect();
            for lie in &lies {
                let mut changes = honest.clone();
                if lies_too {
                    changes.push(words.change(LIAR, view, &[*lie]));
                }
                let chosen = self.rule.choose(self.domain.committee(), identity(0, 0), &changes);
                let fate = match chosen.as_deref() {
                    None => Fate::Open,
                    Some([]) => Fate::Nothing,
                    Some([entry, ..]) => Fate::Block(name_of(&entry.block)),
                };
                fates.entry(fate).or_insert(*lie);
            }
        }
        fates.into_iter().collect()
    }
}

/// Every lie about a height where so many blocks are known.
fn lies(view: u8, places: &[Place; 3], blocks: Name) -> Vec<Place> {
    let claims = (1..=blocks)
        .chain([MADE_UP])
        .flat_map(|block| (1..view).map(move |view| Entry { view, block }));
    let mut lies = Vec::new();
    for prepared in std::iter::once(Entry::default()).chain(claims) {
        let mut asked: Vec<Name> = places.iter().map(|place| place.prepared.block).collect();
        asked.push(prepared.block);
        asked.retain(|block| *block != 0);
        asked.sort_unstable();
        asked.dedup();
        for vouched in 0..1_u8 << asked.len() {
            let vouched = asked.iter().enumerate().filter(|(at, _)| vouched & 1 << at != 0);
            let mut lie = Place { prepared, ..Place::default() };
            for (place, (_, block)) in lie.pre_prepared.iter_mut().zip(vouched) {
                *place = Entry { view: view - 1, block: *block };
            }
            lies.push(lie);
        }
    }
    lies
}

fn renamed(mut place: Place, mut name: impl FnMut(Name) -> Name) -> Place {
    let entries = std::iter::once(&mut place.prepared).chain(&mut place.pre_prepared);
    for entry in entries.filter(|entry| entry.block != 0) {
        entry.block = name(entry.block);
    }
    place
}

/// What a name of one height stands for.
fn real(names: &[Name], name: Name) -> Name {
    names.get(usize::from(name).wrapping_sub(1)).copied().unwrap_or(MADE_UP)
}

fn parent_of(parents: &[Name], block: Name) -> Name {
    parents.get(usize::from(block)).copied().unwrap_or_default()
}

/// The identity of a block, by rank; genesis is of rank and name 0.
pub fn identity(rank: u8, name: Name) -> Digest {
    let mut bytes = [name; 32];
    bytes[0] = rank;
    Digest(bytes)
}

fn name_of(id: &Digest) -> Name {
    id.0[31]
}

/// What names and views are in production's words.
pub struct Words<'a> {
    /// So many of production's views are one of the model.
    pub views: u64,
    /// The identity of a block.
    pub id: &'a dyn Fn(Name) -> Digest,
    /// The identity of its parent.
    pub parent: &'a dyn Fn(Name) -> Digest,
}

impl Words<'_> {
    /// The view change of a replica that says this of the heights from the first on.
    pub fn change(&self, from: ReplicaId, view: u8, said: &[Place]) -> SignedChange {
        let (prepared, pre_prepared) = self.sets(said);
        let change = ViewChange { view: self.view(view), stable: None, prepared, pre_prepared };
        SignedChange { from, change, signature: Signature::NONE }
    }

    /// The sets P and Q of a replica.
    pub fn sets(&self, said: &[Place]) -> (Vec<words::Entry>, Vec<words::Entry>) {
        let heights = || (1..).map(Height).zip(said);
        let entry = |height, Entry { view, block }| words::Entry {
            height,
            view: self.view(view),
            block: (self.id)(block),
            parent: (self.parent)(block),
        };
        let prepared = heights().filter(|(_, place)| place.prepared.block != 0);
        let prepared = prepared.map(|(height, place)| entry(height, place.prepared)).collect();
        let pre_prepared =
            heights().flat_map(|(height, place)| place.known().map(move |it| entry(height, it)));
        let mut pre_prepared: Vec<words::Entry> = pre_prepared.collect();
        pre_prepared.sort();
        (prepared, pre_prepared)
    }

    /// A view of the model.
    pub fn view(&self, view: u8) -> View {
        View(self.views * u64::from(view))
    }
}
