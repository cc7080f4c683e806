//! What a node missed while it was away, before it takes part again.
//!
//! It asks every peer which vertices it accepted, the newest first, until a page holds nothing new.
//! A vertex that peers with more than half of all stake accepted is believed, fetched from any of
//! them, and put into the ledger, which refuses whatever does not fit. No certificate proves an
//! acceptance: the promise rests on less than half of the stake being faulty, as all of Avalanche
//! rests on less than that. What the peers decide meanwhile comes through the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::protocols::snow::avalanche::{Vertex, VertexId};
use quorate_core::{ReplicaId, Time};

use super::frames::{FETCH, Frame};
use crate::verify::Signed;

/// When a question is put again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long peers beyond half of the stake are waited for.
const GRACE: Duration = Duration::from_millis(500);
/// Most vertices of one round.
const MAX_MISSED: usize = 1 << 18;
/// How often a vertex is asked for before this round goes on without it.
const ATTEMPTS: u32 = 24;
/// Vertices of a request.
const PORTION: usize = FETCH / 2;

/// One round of catching up.
pub(super) struct CatchUp {
    stakes: Vec<u64>,
    me: ReplicaId,
    peers: Vec<Peer>,
    /// Missed vertices: stake that accepted them, and the number that the first to say so gave
    /// them.
    missed: BTreeMap<VertexId, (u64, u64)>,
    /// When half of the stake had answered.
    heard: Option<Time>,
    fetch: Option<Fetching>,
}

#[derive(Clone, Default)]
struct Peer {
    /// The pages before this are asked for; `None`: from the end.
    before: Option<u64>,
    asked: Option<Time>,
    done: bool,
    /// What it was asked to send, and when.
    fetching: Option<(Vec<VertexId>, Time)>,
}

struct Fetching {
    open: BTreeMap<VertexId, u32>,
    fetched: BTreeMap<VertexId, Arc<Vertex<Signed>>>,
}

impl CatchUp {
    pub(super) fn new(stakes: Vec<u64>, me: ReplicaId) -> Self {
        let peers = vec![Peer::default(); stakes.len()];
        Self { stakes, me, peers, missed: BTreeMap::new(), heard: None, fetch: None }
    }

    fn is_more_than_half(&self, stake: u64) -> bool {
        let total: u128 = self.stakes.iter().map(|stake| u128::from(*stake)).sum();
        2 * u128::from(stake) > total
    }

    /// A peer names vertices that it accepted.
    pub(super) fn page(
        &mut self,
        from: ReplicaId,
        first: u64,
        vertices: &[VertexId],
        is_known: impl Fn(&VertexId) -> bool,
    ) {
        let Some(peer) = self.peers.get_mut(from.index()) else { return };
        let end = first.saturating_add(vertices.len() as u64);
        // What was not asked for is not counted, or one peer could count twice.
        if peer.done || peer.asked.is_none() || peer.before.is_some_and(|before| before != end) {
            return;
        }
        peer.asked = None;
        peer.before = Some(first);
        let mut news = false;
        let mut counted = BTreeSet::new();
        for (place, vertex) in vertices.iter().enumerate() {
            if !counted.insert(*vertex)
                || is_known(vertex)
                || (self.missed.len() >= MAX_MISSED && !self.missed.contains_key(vertex))
            {
                continue;
            }
            news = true;
            let number = first + place as u64;
            let (stake, _) = self.missed.entry(*vertex).or_insert((0, number));
            *stake = stake.saturating_add(self.stakes[from.index()]);
        }
        self.peers[from.index()].done = !news || first == 0;
    }

    /// Vertices that a peer was asked for.
    pub(super) fn fetched(&mut self, from: ReplicaId, vertices: Vec<Arc<Vertex<Signed>>>) {
        let Some(peer) = self.peers.get_mut(from.index()) else { return };
        let Some(fetch) = &mut self.fetch else { return };
        peer.fetching = None;
        for vertex in vertices {
            if fetch.open.remove(&vertex.id()).is_some() {
                fetch.fetched.insert(vertex.id(), vertex);
            }
        }
    }

    /// What is to be asked now of those who are connected.
    pub(super) fn ask(&mut self, now: Time, connected: &[ReplicaId]) -> Vec<(ReplicaId, Frame)> {
        let mut asks = Vec::new();
        let late = |asked: Time| now.since(asked) > AGAIN;
        for id in connected {
            let Some(peer) = self.peers.get_mut(id.index()) else { continue };
            if !peer.done && peer.asked.is_none_or(late) {
                peer.asked = Some(now);
                asks.push((*id, Frame::AskPage(peer.before.unwrap_or(u64::MAX))));
            }
        }
        self.hear(now, connected);
        let Some(fetch) = &mut self.fetch else { return asks };
        for peer in &mut self.peers {
            if peer.fetching.as_ref().is_some_and(|(_, asked)| late(*asked)) {
                peer.fetching = None;
            }
        }
        let asked = self.peers.iter().filter_map(|peer| peer.fetching.as_ref());
        let mut under_way: BTreeSet<VertexId> = asked.flat_map(|(ids, _)| ids.clone()).collect();
        for id in connected {
            let Some(peer) = self.peers.get_mut(id.index()) else { continue };
            if !peer.done || peer.fetching.is_some() {
                continue;
            }
            let open = fetch.open.keys().filter(|vertex| !under_way.contains(vertex));
            let wanted: Vec<_> = open.take(PORTION).copied().collect();
            if wanted.is_empty() {
                break;
            }
            for vertex in &wanted {
                let attempts = fetch.open.entry(*vertex).or_default();
                *attempts += 1;
                if *attempts > ATTEMPTS {
                    fetch.open.remove(vertex);
                }
            }
            under_way.extend(wanted.iter().copied());
            peer.fetching = Some((wanted.clone(), now));
            asks.push((*id, Frame::Fetch(wanted)));
        }
        asks
    }

    /// Looks whether enough peers have said what they accepted.
    fn hear(&mut self, now: Time, connected: &[ReplicaId]) {
        if self.fetch.is_some() {
            return;
        }
        let done = self.peers.iter().zip(&self.stakes).filter(|(peer, _)| peer.done);
        let stake: u64 = done.map(|(_, stake)| stake).sum();
        let own = self.stakes.get(self.me.index()).copied().unwrap_or(0);
        if !self.is_more_than_half(stake.saturating_add(own)) {
            return;
        }
        let heard = *self.heard.get_or_insert(now);
        let all =
            connected.iter().all(|id| self.peers.get(id.index()).is_some_and(|peer| peer.done));
        if !all && now.since(heard) < GRACE {
            return;
        }
        let believed = self.missed.iter().filter(|(_, (stake, _))| self.is_more_than_half(*stake));
        let open = believed.map(|(vertex, _)| (*vertex, 0)).collect();
        self.fetch = Some(Fetching { open, fetched: BTreeMap::new() });
    }

    /// What was missed, in the order in which peers accepted it, once all of it is here.
    pub(super) fn finish(&mut self) -> Option<Vec<Arc<Vertex<Signed>>>> {
        if !self.fetch.as_ref()?.open.is_empty() {
            return None;
        }
        let fetched = self.fetch.take()?.fetched;
        let mut vertices: Vec<_> = fetched.into_values().collect();
        vertices.sort_by_key(|vertex| self.missed.get(&vertex.id()).map(|(_, number)| *number));
        Some(vertices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::Digest;

    const PEERS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

    fn vertex(number: u8) -> Arc<Vertex<Signed>> {
        Arc::new(Vertex::new(vec![VertexId(Digest([number; 32]))], Vec::new()))
    }

    fn asked(catch_up: &mut CatchUp, now: u64) -> Vec<(ReplicaId, Frame)> {
        catch_up.ask(Time(now), &PEERS)
    }

    #[test]
    fn what_more_than_half_of_the_stake_accepted_is_fetched_and_nothing_else() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        assert_eq!(asked(&mut catch_up, 0).len(), 3);
        let (mine, common, lie) = (vertex(1), vertex(2), vertex(3));
        let known = |id: &VertexId| *id == mine.id();
        for peer in PEERS {
            let mut page = vec![mine.id(), common.id(), common.id()];
            page.extend((peer == PEERS[0]).then(|| lie.id()));
            catch_up.page(peer, 0, &page, known);
            // A second page that was not asked for counts nothing.
            catch_up.page(peer, 0, &[lie.id()], known);
        }
        let asks = asked(&mut catch_up, 1);
        assert_eq!(asks, [(PEERS[0], Frame::Fetch(vec![common.id()]))]);
        assert!(catch_up.finish().is_none());
        catch_up.fetched(PEERS[0], vec![Arc::clone(&lie), Arc::clone(&common)]);
        let ids = catch_up.finish().map(|all| all.iter().map(|of| of.id()).collect::<Vec<_>>());
        assert_eq!(ids, Some(vec![common.id()]));
    }

    #[test]
    fn a_peer_that_does_not_send_is_not_waited_for() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        asked(&mut catch_up, 0);
        let missed = vertex(2);
        PEERS.iter().for_each(|peer| catch_up.page(*peer, 0, &[missed.id()], |_| false));
        assert_eq!(asked(&mut catch_up, 1).len(), 1);
        let later = Time(1).after(2 * AGAIN);
        catch_up.peers[1].done = false;
        assert!(
            catch_up.ask(later, &PEERS[2..]).contains(&(PEERS[2], Frame::Fetch(vec![missed.id()])))
        );
    }

    #[test]
    fn alone_it_does_not_take_part() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        asked(&mut catch_up, 0);
        catch_up.page(PEERS[0], 0, &[], |_| true);
        assert!(catch_up.ask(Time(u64::MAX), &PEERS[..1]).is_empty());
        assert!(catch_up.finish().is_none());
    }
}
