//! Blocks that peers name and this replica lacks, and which of them to fetch.

use std::collections::BTreeMap;

use super::accepted::Accepted;
use super::words::{Place, Types};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{BlockOf, Missing};

/// So many fetched blocks wait for a reason to be believed, at most.
pub(super) const MOST: usize = 512;
/// How long one block is wanted before another gets its turn.
const TURN: Duration = Duration::from_secs(1);
/// How long blocks are wanted that do not come and that nobody names anew: they lost, and those who
/// named them have forgotten them.
const HOPE: Duration = Duration::from_secs(60);

/// What peers name, and what was fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    /// By peer: the tip that it named last, if that is above the accepted block.
    named: PerPeer<Option<Place>>,
    /// The block to fetch, and since when.
    wanted: Option<(BlockId, Time)>,
    /// Fetched: each the parent of the next, the first on a block of the tree or the accepted one.
    pub fetched: Vec<BlockOf<Types>>,
    /// When it grew last.
    grew: Time,
    /// By peer: whether what it named last is here.
    is_here: PerPeer<bool>,
    /// When a peer last named a block that is not here, or one came.
    news: Time,
}

impl Fetching {
    /// Nobody has named anything.
    pub fn new(replicas: usize) -> Self {
        let (named, is_here) = (PerPeer::new(replicas), PerPeer::new(replicas));
        Self { named, wanted: None, fetched: Vec::new(), grew: Time(0), is_here, news: Time(0) }
    }

    /// A peer names a tip, which is here or not.
    pub fn names(&mut self, now: Time, peer: ReplicaId, place: Option<Place>, is_here: bool) {
        if place.is_some() && !is_here {
            self.news = now;
        }
        if let (Some(named), Some(here)) = (self.named.get_mut(peer), self.is_here.get_mut(peer)) {
            (*named, *here) = (place, is_here);
        }
    }

    /// The tips that peers named last.
    pub fn named(&self) -> Vec<BlockId> {
        self.named.iter().flatten().map(|place| place.block).collect()
    }

    /// What is named and not here, and by whom.
    pub fn lacking(&self) -> BTreeMap<BlockId, Vec<ReplicaId>> {
        let mut lacking = BTreeMap::<_, Vec<_>>::new();
        for (peer, place) in self.named.of_each() {
            let is_here = self.is_here.get(peer).copied().unwrap_or(true);
            if let Some(place) = place.filter(|_| !is_here) {
                lacking.entry(place.block).or_default().push(peer);
            }
        }
        lacking
    }

    /// Chooses what to fetch: what most name, and when that does not come in time another one, in
    /// turn.
    pub fn choose(&mut self, now: Time) {
        if now.since(self.news) >= HOPE {
            self.wanted = None;
            return;
        }
        let lacking = self.lacking();
        let mut others = lacking.keys().copied().collect::<Vec<_>>();
        if let Some((block, since)) = self.wanted
            && lacking.contains_key(&block)
        {
            if now.since(since) < TURN || others.len() == 1 {
                return;
            }
            let next = others.iter().position(|other| *other > block).unwrap_or(0);
            self.wanted = others.get(next).map(|block| (*block, now));
            return;
        }
        others.sort_by_key(|block| lacking.get(block).map_or(0, Vec::len));
        self.wanted = others.last().map(|block| (*block, now));
    }

    /// The next block of the fetched chain.
    pub fn grow(&mut self, now: Time, block: BlockOf<Types>) {
        self.fetched.push(block);
        self.grew = now;
    }

    /// Whether more of the fetched chain may be on its way.
    pub fn is_growing(&self, now: Time) -> bool {
        !self.fetched.is_empty() && now.since(self.grew) < TURN
    }

    /// A block came, or a state that has it.
    pub fn progressed(&mut self, now: Time) {
        self.news = now;
    }

    /// When to give up.
    pub fn deadline(&self) -> Option<Time> {
        self.wanted.map(|_| self.news.after(HOPE))
    }

    /// What to fetch, and from whom.
    pub fn missing(&self) -> Option<Missing> {
        let (block, _) = self.wanted?;
        let holders = self.lacking().remove(&block)?;
        Some(Missing { block, holders })
    }

    /// What is here now that peers named.
    pub fn arrived(&mut self, id: &BlockId) {
        for (peer, place) in self.named.of_each() {
            if place.is_some_and(|place| place.block == *id)
                && let Some(is_here) = self.is_here.get_mut(peer)
            {
                *is_here = true;
            }
        }
    }

    /// More was accepted: what is not above it is not needed.
    pub fn accepted(&mut self, accepted: &Accepted) {
        let head = accepted.head().height();
        for place in &mut self.named {
            place.take_if(|place| place.height <= head);
        }
        let head = accepted.head().id();
        match self.fetched.iter().position(|block| block.id() == head) {
            Some(at) => drop(self.fetched.drain(..=at)),
            None if self
                .fetched
                .first()
                .is_some_and(|b| b.height() <= accepted.head().height()) =>
            {
                self.fetched.clear();
            }
            None => {}
        }
    }

    /// A block that was fetched and is not in the tree.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        self.fetched.iter().find(|block| block.id() == *id)
    }
}
