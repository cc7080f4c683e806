//! What a node missed while it was away, before it takes part again.
//!
//! It asks every peer which vertices it accepted, the newest first, until a page holds nothing new.
//! A vertex that peers with more than half of all stake accepted is believed, fetched from any of
//! them, and put into the ledger, which refuses whatever does not fit. Of a long absence the oldest
//! vertices come first, for the later ones rest on them; further rounds bring those. No certificate
//! proves an acceptance: the promise rests on less than half of the stake being faulty, as all of
//! Avalanche rests on less than that. What the peers decide meanwhile comes through the protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::protocols::snow::avalanche::{Vertex, VertexId};
use quorate_core::{ReplicaId, Time, planted};

use super::frames::{FETCH, Frame};
use crate::verify::Signed;

/// When a question is put again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long peers beyond half of the stake are waited for.
const GRACE: Duration = Duration::from_millis(500);
/// Most vertices of one round, of those that one peer names.
const MAX_MISSED: usize = 1 << 16;
/// How often a vertex is asked for before this round goes on without it.
const ATTEMPTS: usize = 24;
/// Vertices of a request.
const PORTION: usize = FETCH / 2;

/// One round of catching up.
pub(super) struct CatchUp {
    stakes: Vec<u64>,
    me: ReplicaId,
    peers: Vec<Peer>,
    /// Most vertices that are kept of those a peer names: the oldest.
    most: usize,
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
    /// Missed vertices that it named, and the numbers it gave them; the newest first.
    named: VecDeque<(VertexId, u64)>,
    /// What it was asked to send, and when.
    fetching: Option<(Vec<VertexId>, Time)>,
}

struct Fetching {
    /// Each with the peers that were asked for it, one after the other.
    open: BTreeMap<VertexId, Vec<ReplicaId>>,
    fetched: BTreeMap<VertexId, Arc<Vertex<Signed>>>,
}

impl CatchUp {
    pub(super) fn new(stakes: Vec<u64>, me: ReplicaId) -> Self {
        let peers = vec![Peer::default(); stakes.len()];
        let missed = BTreeMap::new();
        Self { stakes, me, peers, most: MAX_MISSED, missed, heard: None, fetch: None }
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
        for (place, vertex) in vertices.iter().enumerate().rev() {
            if is_known(vertex) {
                continue;
            }
            news = true;
            peer.named.push_back((*vertex, first + place as u64));
            if peer.named.len() > self.most {
                peer.named.pop_front();
            }
        }
        peer.done = !news || first == 0;
    }

    /// What the peers have named, each once a vertex.
    fn count(&mut self) {
        for (peer, own) in self.peers.iter_mut().zip(&self.stakes) {
            let mut counted = BTreeSet::new();
            for (vertex, number) in std::mem::take(&mut peer.named) {
                if planted!("payments-peer-counts-twice", true, counted.insert(vertex)) {
                    let (stake, _) = self.missed.entry(vertex).or_insert((0, number));
                    *stake = stake.saturating_add(*own);
                }
            }
        }
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
        let is_done = |id: &ReplicaId| self.peers.get(id.index()).is_some_and(|peer| peer.done);
        let asked: Vec<_> = connected.iter().copied().filter(|id| is_done(id)).collect();
        for id in &asked {
            let Some(peer) = self.peers.get_mut(id.index()) else { continue };
            if peer.fetching.is_some() {
                continue;
            }
            // What the others were asked for as often: who answers with nothing waits for its turn.
            // Who never ends its pages is asked for nothing, and nobody waits for it.
            let is_its_turn = |before: &[ReplicaId]| {
                let times = |peer: &ReplicaId| before.iter().filter(|one| *one == peer).count();
                before.is_empty() || asked.iter().all(|other| times(other) >= times(id))
            };
            let open = fetch.open.iter().filter(|(vertex, _)| !under_way.contains(*vertex));
            let open = open.filter(|(_, before)| is_its_turn(before));
            let wanted: Vec<_> = open.take(PORTION).map(|(vertex, _)| *vertex).collect();
            if wanted.is_empty() {
                continue;
            }
            for vertex in &wanted {
                let before = fetch.open.entry(*vertex).or_default();
                before.push(*id);
                if before.len() > ATTEMPTS {
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
        self.count();
        let believed = self.missed.iter().filter(|(_, (stake, _))| self.is_more_than_half(*stake));
        let open = believed.map(|(vertex, _)| (*vertex, Vec::new())).collect();
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

    /// A liar names a vertex in each of its pages: it counts once.
    #[test]
    fn nobody_is_counted_twice_for_a_vertex() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        asked(&mut catch_up, 0);
        let lie = vertex(3).id();
        for page in (0..4).rev() {
            catch_up.page(PEERS[0], page, &[lie], |_| false);
            catch_up.ask(Time(0).after(2 * AGAIN * (4 - page as u32)), &PEERS[..1]);
        }
        PEERS[1..].iter().for_each(|peer| catch_up.page(*peer, 0, &[], |_| false));
        catch_up.ask(Time(0).after(100 * AGAIN), &PEERS);
        assert_eq!(catch_up.finish().map(|all| all.len()), Some(0));
    }

    /// More was missed than a round takes: the oldest come first, for the others rest on them.
    #[test]
    fn the_oldest_come_first() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        catch_up.most = 4;
        let ids: Vec<_> = (0..8).map(|number| vertex(number).id()).collect();
        asked(&mut catch_up, 0);
        PEERS.iter().for_each(|peer| catch_up.page(*peer, 4, &ids[4..], |_| false));
        asked(&mut catch_up, 1);
        PEERS.iter().for_each(|peer| catch_up.page(*peer, 0, &ids[..4], |_| false));
        let asks = asked(&mut catch_up, 2);
        let mut oldest = ids[..4].to_vec();
        oldest.sort_unstable();
        assert_eq!(asks, [(PEERS[0], Frame::Fetch(oldest))]);
    }

    /// A liar answers every question at once, with nothing. The others are asked as well.
    #[test]
    fn who_sends_nothing_is_not_asked_for_the_same_before_the_others_are() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        asked(&mut catch_up, 0);
        let missed = vertex(2);
        PEERS.iter().for_each(|peer| catch_up.page(*peer, 0, &[missed.id()], |_| false));
        for peer in PEERS.into_iter().chain(PEERS) {
            assert_eq!(asked(&mut catch_up, 1), [(peer, Frame::Fetch(vec![missed.id()]))]);
            catch_up.fetched(peer, Vec::new());
        }
    }

    /// A liar is connected, and never ends its pages: the others are asked again without it.
    #[test]
    fn who_never_ends_its_pages_is_not_waited_for() {
        let mut catch_up = CatchUp::new(vec![1; 4], ReplicaId(0));
        asked(&mut catch_up, 0);
        let missed = vertex(2);
        catch_up.page(PEERS[0], 5, &[missed.id()], |_| false);
        PEERS[1..].iter().for_each(|peer| catch_up.page(*peer, 0, &[missed.id()], |_| false));
        let mut now = Time(0);
        catch_up.ask(now, &PEERS);
        for peer in [PEERS[1], PEERS[2], PEERS[1], PEERS[2]] {
            now = now.after(2 * AGAIN);
            catch_up.ask(now, &PEERS);
            let fetching = |id: ReplicaId| catch_up.peers[id.index()].fetching.is_some();
            assert!(fetching(peer), "{peer} is not asked");
            catch_up.fetched(peer, Vec::new());
        }
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
