//! What correct replicas of PBFT may say: judged from their messages alone, across their crashes,
//! by code that shares the choice of a new view with production, and no other predicate.
//!
//! - In one view and at one height a replica prepares one block (a pre-prepare is the primary's
//!   prepare), and commits that one, or one that is decided.
//! - What it prepared above the stable checkpoint of its view change is in the set Q of that; what
//!   it committed is in P, unless the block is decided (*Practical Byzantine Fault Tolerance and
//!   Proactive Recovery*, section 4.5.1). So it is whether the prepare was said before the view
//!   change or after. It is excused by a later view that began without the block, if a correct
//!   replica shows that, or if a liar shows what does follow from view changes that were said; and
//!   in who has more to remember of Q than a set has room for.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Height;
use quorate_core::base::membership::Committee;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::choice::Chosen;
use quorate_core::protocols::pbft::words::{
    Entry, MAX_PRE_PREPARED, NewView, Phase, SignedChange, ViewChange, Vote,
};

/// What is decided at a height of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// This block, as far as that is known.
    Block(Option<BlockId>),
    /// It is above the epoch's end: what was decided there is void.
    Void,
}

/// What all correct replicas have said.
#[derive(Debug, Default)]
pub struct Said {
    replicas: BTreeMap<usize, Words>,
    /// Who said COMMIT of which block, having prepared another one: it must be decided.
    foreign: Vec<(usize, u64, BlockId)>,
    /// What views began with, as was shown.
    shown: BTreeSet<(u64, Vec<BlockId>)>,
}

/// What one has said, by height and view.
#[derive(Debug, Default)]
struct Words {
    prepared: BTreeMap<(u64, u64), BlockId>,
    committed: BTreeMap<(u64, u64), BlockId>,
    /// Its last view change.
    change: Option<ViewChange>,
    /// All of them, by view.
    changes: BTreeMap<u64, Vec<ViewChange>>,
    /// It lost its data: what it said in views below this one it need not remember.
    remembers_from: u64,
}

impl Said {
    /// A correct replica sends a message. `decided`: what is decided at a height.
    ///
    /// # Panics
    /// If it contradicts what it said before.
    pub fn sends(&mut self, replica: usize, message: &Message, decided: impl Fn(u64) -> Decided) {
        let Self { replicas, shown, foreign } = self;
        let words = replicas.entry(replica).or_default();
        let excused = |(height, view): (u64, u64), block: BlockId| {
            let mut later = shown.iter().filter(|(shown, _)| *shown > view);
            decided(height) == Decided::Block(Some(block))
                || later.any(|(_, chosen)| !chosen.contains(&block))
        };
        match message {
            Message::NewView { new_view, .. } => {
                shown.insert((new_view.view.0, new_view.chosen.clone()));
            }
            Message::PrePrepare { block, .. } => {
                words.prepares(replica, (block.height.0, block.view.0), block.id());
            }
            Message::Vote { vote, .. } => {
                let Vote { phase, view, height, block } = *vote;
                match phase {
                    Phase::Prepare => words.prepares(replica, (height.0, view.0), block),
                    Phase::Commit => {
                        if words.commits(replica, (height.0, view.0), block, excused) {
                            foreign.push((replica, height.0, block));
                        }
                    }
                }
            }
            Message::ViewChange(signed) => words.changes(replica, &signed.change, excused),
            _ => {}
        }
        foreign.retain(|(replica, height, block)| match decided(*height) {
            Decided::Block(None) => true,
            Decided::Void => false,
            Decided::Block(Some(decided)) => {
                assert_eq!(
                    decided, *block,
                    "votes: r{replica} commits at height {height} what it did not prepare"
                );
                false
            }
        });
    }

    /// A correct replica is shown a new view by a liar, which may be as genuine as any other.
    pub fn shows(
        &mut self,
        (committee, genesis): (&Committee, BlockId),
        new_view: &NewView,
        is_faulty: impl Fn(usize) -> bool,
    ) {
        let NewView { view, changes, chosen } = new_view;
        let was_said = |signed: &SignedChange| {
            let words = self.replicas.get(&signed.from.index());
            let said = words.and_then(|words| words.changes.get(&view.0));
            is_faulty(signed.from.index())
                || said.is_some_and(|changes| changes.contains(&signed.change))
        };
        let senders: BTreeSet<_> = changes.iter().map(|signed| signed.from).collect();
        let follows = Chosen::from(committee, genesis, changes).is_some_and(|follows| {
            follows.blocks.iter().map(|entry| entry.block).eq(chosen.iter().copied())
        });
        if senders.len() == changes.len() && changes.iter().all(was_said) && follows {
            self.shown.insert((view.0, chosen.clone()));
        }
    }

    /// A replica lost its data.
    pub fn forgot(&mut self, replica: usize) {
        let words = self.replicas.entry(replica).or_default();
        let views = words.prepared.keys().chain(words.committed.keys()).map(|(_, view)| *view);
        let change = words.change.take().map(|change| change.view.0);
        words.remembers_from = views.map(|view| view + 1).chain(change).max().unwrap_or(0);
    }
}

impl Words {
    fn prepares(&mut self, replica: usize, place: (u64, u64), block: BlockId) {
        let before = *self.prepared.entry(place).or_insert(block);
        assert_eq!(
            before, block,
            "votes: r{replica} prepared two blocks at (height, view) {place:?}"
        );
        if let Some(change) = &self.change {
            assert!(
                self.is_in_q(change, place, block),
                "votes: r{replica} prepares at {place:?} what its view change to {} leaves out",
                change.view
            );
        }
    }

    /// It says COMMIT. Whether it prepared another block.
    fn commits(
        &mut self,
        replica: usize,
        place: (u64, u64),
        block: BlockId,
        excused: impl Fn((u64, u64), BlockId) -> bool,
    ) -> bool {
        let before = *self.committed.entry(place).or_insert(block);
        assert_eq!(
            before, block,
            "votes: r{replica} committed two blocks at (height, view) {place:?}"
        );
        if let Some(change) = &self.change {
            assert!(
                self.is_in_p(change, place) || excused(place, block),
                "votes: r{replica} commits at {place:?} what its view change to {} leaves out",
                change.view
            );
        }
        self.prepared.get(&place).is_some_and(|prepared| *prepared != block)
    }

    fn changes(
        &mut self,
        replica: usize,
        change: &ViewChange,
        excused: impl Fn((u64, u64), BlockId) -> bool,
    ) {
        for (place, block) in &self.prepared {
            assert!(
                self.is_in_q(change, *place, *block),
                "votes: the view change of r{replica} to {} leaves out what it prepared at {place:?}",
                change.view
            );
        }
        for (place, block) in &self.committed {
            assert!(
                self.is_in_p(change, *place) || excused(*place, *block),
                "votes: the view change of r{replica} to {} leaves out what it committed at {place:?}",
                change.view
            );
        }
        self.change = Some(change.clone());
        let said = self.changes.entry(change.view.0).or_default();
        if !said.contains(change) {
            said.push(change.clone());
        }
        // Below its checkpoint nothing is asked for any more.
        let low = stable(change).0;
        self.prepared = self.prepared.split_off(&(low + 1, 0));
        self.committed = self.committed.split_off(&(low + 1, 0));
    }

    /// Whether a view change has to show what was said there.
    fn concerns(&self, change: &ViewChange, (height, view): (u64, u64)) -> bool {
        height > stable(change).0 && view < change.view.0 && view >= self.remembers_from
    }

    fn is_in_q(&self, change: &ViewChange, place: (u64, u64), block: BlockId) -> bool {
        let at = |entry: &&Entry| entry.height.0 == place.0;
        let mut all = change.pre_prepared.iter().filter(at);
        !self.concerns(change, place)
            || all.clone().count() >= MAX_PRE_PREPARED
            || all.any(|entry| entry.block == block && entry.view.0 >= place.1)
    }

    fn is_in_p(&self, change: &ViewChange, place: (u64, u64)) -> bool {
        let later = |entry: &Entry| entry.height.0 == place.0 && entry.view.0 >= place.1;
        let is_full = change.pre_prepared.chunk_by(|one, other| one.height == other.height);
        let is_full = is_full.map(<[Entry]>::len).any(|blocks| blocks >= MAX_PRE_PREPARED);
        !self.concerns(change, place) || is_full || change.prepared.iter().any(later)
    }
}

fn stable(change: &ViewChange) -> Height {
    change.stable.as_ref().map_or(Height(0), |stable| stable.checkpoint.height)
}
