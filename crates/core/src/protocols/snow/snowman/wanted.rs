//! Blocks that peers name and this replica lacks, and which of them to fetch.

use std::collections::BTreeMap;

use super::accepted::Accepted;
use super::words::{Place, Types};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{BlockOf, Missing};

/// So many fetched blocks wait for a reason to be believed, at most.
const MOST: usize = 512;
/// How long one block is wanted before another gets its turn.
const TURN: Duration = Duration::from_secs(1);
/// How long blocks are wanted that do not come and that nobody names anew: they lost, and those who
/// named them have forgotten them.
const HOPE: Duration = Duration::from_secs(60);

/// What a peer sent, and is not believed yet.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Each the parent of the next, the first on a block of the tree or the accepted one.
    blocks: Vec<BlockOf<Types>>,
    /// When it grew last.
    grew: Time,
}

impl Chain {
    /// The blocks up to this one, if it is here.
    fn up_to(&self, id: &BlockId) -> Option<&[BlockOf<Types>]> {
        let at = self.blocks.iter().rposition(|block| block.id() == *id)?;
        self.blocks.get(..=at)
    }
}

/// What peers name, and what was fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    /// By peer: the tip that it named last, if that is above the accepted block.
    named: PerPeer<Option<Place>>,
    /// The block to fetch, and since when.
    wanted: Option<(BlockId, Time)>,
    /// By peer: what it sent. A liar that sends block after block of a chain without end is in the
    /// way of nobody else.
    chains: PerPeer<Chain>,
    /// By peer: whether what it named last is here.
    is_here: PerPeer<bool>,
    /// When a peer last named a block that is not here, or one came.
    news: Time,
    /// A block that is not here and wanted before all others, and who has it.
    demanded: Option<(BlockId, Vec<ReplicaId>)>,
}

impl Fetching {
    /// Nobody has named anything.
    pub fn new(replicas: usize) -> Self {
        let (named, is_here) = (PerPeer::new(replicas), PerPeer::new(replicas));
        let chains = PerPeer::new(replicas);
        Self { named, wanted: None, chains, is_here, news: Time(0), demanded: None }
    }

    /// An epoch is about this block, which is not here; these have it. `None`: about none.
    pub fn demand(&mut self, now: Time, block: Option<(BlockId, Vec<ReplicaId>)>) {
        if block.as_ref().map(|(id, _)| id) != self.demanded.as_ref().map(|(id, _)| id) {
            self.wanted = block.as_ref().map(|(id, _)| (*id, now)).or(self.wanted);
            self.news = if block.is_some() { now } else { self.news };
        }
        self.demanded = block;
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
        if let Some((block, holders)) = &self.demanded {
            let known = lacking.entry(*block).or_default();
            let new = holders.iter().filter(|holder| !known.contains(holder));
            let new: Vec<_> = new.copied().collect();
            known.extend(new);
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

    /// A peer sends a block that is not here. Its parent is in the tree (`is_rooted`), or in what
    /// the peer sent, or in what another one did: nobody sends blocks that are here. What the peer
    /// sent of another chain is replaced once that has stopped growing: answers may have blocks
    /// beside the chain, and a chain may lose before all of it has come.
    pub fn grow(&mut self, now: Time, from: ReplicaId, block: BlockOf<Types>, is_rooted: bool) {
        let parent = block.parent();
        if let Some(own) = self.chains.get_mut(from)
            && own.blocks.last().is_some_and(|last| last.id() == parent)
        {
            own.blocks.push(block);
            own.grew = now;
            return;
        }
        let Some(own) = self.chains.get(from) else { return };
        let mut others = self.chains.iter().filter_map(|chain| chain.up_to(&parent));
        let found = own.up_to(&parent).or_else(|| others.next());
        let Some(below) = found.or(is_rooted.then_some(&[])) else { return };
        let is_kept = own.blocks.last().is_none_or(|last| below.contains(last));
        if !is_kept && now.since(own.grew) < TURN {
            return;
        }
        let blocks = below.iter().cloned().chain([block]).collect();
        if let Some(own) = self.chains.get_mut(from) {
            *own = Chain { blocks, grew: now };
        }
    }

    /// Takes out of the chains what is to go into the tree: what leads to a tip that a peer names,
    /// up to the height `highest`, and what leads to a block that is proven. Where there are too
    /// many, the longest chain's lowest, too; and if none of that is low enough, it is forgotten.
    pub fn believed(&mut self, proven: &[BlockId], highest: Height) -> Vec<BlockOf<Types>> {
        let lacking = self.lacking();
        let longest = self.chains.iter().map(|chain| chain.blocks.len()).max();
        let is_crowded = self.len() > MOST;
        let mut believed = Vec::new();
        for Chain { blocks, .. } in &mut self.chains {
            let is_too_long = is_crowded && Some(blocks.len()) == longest;
            let is_led_to = blocks.iter().any(|block| lacking.contains_key(&block.id()));
            let candidates = match is_led_to || is_too_long {
                true => blocks.iter().take_while(|block| block.height() <= highest).count(),
                false => 0,
            };
            let last_proven = blocks.iter().rposition(|block| proven.contains(&block.id()));
            let count = candidates.max(last_proven.map_or(0, |last| last + 1));
            believed.extend(blocks.drain(..count));
            if is_too_long && count == 0 {
                blocks.clear();
            }
        }
        believed
    }

    /// The checkpoints that fetched blocks carry are of these blocks.
    pub fn said(&self) -> impl Iterator<Item = BlockId> {
        let blocks = self.chains.iter().flat_map(|chain| &chain.blocks);
        blocks.filter_map(|block| block.stable.as_ref().map(|stable| stable.checkpoint.block))
    }

    /// How many fetched blocks wait, counted for each who sent them.
    pub fn len(&self) -> usize {
        self.chains.iter().map(|chain| chain.blocks.len()).sum()
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

    /// A block is here now: peers named it, or it is the first of what they sent.
    pub fn arrived(&mut self, id: &BlockId) {
        for (peer, place) in self.named.of_each() {
            if place.is_some_and(|place| place.block == *id)
                && let Some(is_here) = self.is_here.get_mut(peer)
            {
                *is_here = true;
            }
        }
        for Chain { blocks, .. } in &mut self.chains {
            if blocks.first().is_some_and(|first| first.id() == *id) {
                blocks.remove(0);
            }
        }
    }

    /// More was accepted: what is not above it is not needed.
    pub fn accepted(&mut self, accepted: &Accepted) {
        let head = accepted.head().height();
        for place in &mut self.named {
            place.take_if(|place| place.height <= head);
        }
        for Chain { blocks, .. } in &mut self.chains {
            let is_below = blocks.first().is_some_and(|first| first.height() <= head);
            match blocks.iter().position(|block| block.id() == accepted.head().id()) {
                Some(at) => drop(blocks.drain(..=at)),
                None if is_below => blocks.clear(),
                None => {}
            }
        }
    }

    /// A block that was fetched and is not in the tree.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        let mut blocks = self.chains.iter().flat_map(|chain| &chain.blocks);
        blocks.find(|block| block.id() == *id)
    }
}
