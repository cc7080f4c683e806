//! A network of payments, looked at from outside: its graph as one node sees it, payments that a
//! visitor spends twice, and how the nodes lean.

use std::collections::BTreeMap;

use quorate_core::protocols::snow::avalanche::{Past as _, Vertex, VertexId, Why};

use super::ledger::{self, Coin, Seen};
use super::{Input, Network, TICK_NS};

/// What became of a vertex, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The node has not heard of it.
    Unknown,
    /// Pending, and preferred with all its ancestors.
    Preferred,
    /// Pending; it, or an ancestor, has a rival that the node prefers.
    Disliked,
    /// Accepted.
    Accepted,
    /// It, or an ancestor, has a payment whose rival was accepted.
    Rejected,
}

/// A vertex of the picture.
#[derive(Clone, Debug)]
pub struct Place {
    /// The places of its parents.
    pub parents: Vec<usize>,
    /// The number of its payment; none for a no-op.
    pub payment: Option<u32>,
    /// When the first node had it, in nanoseconds.
    pub added_ns: u64,
    /// What became of it.
    pub state: State,
    /// Successful polls of it and its descendants.
    pub confidence: u32,
    /// Successful polls in a row.
    pub count: u32,
    id: VertexId,
}

/// All vertices that any node ever had, in the order of their coming.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    places: Vec<Place>,
    by_name: BTreeMap<VertexId, usize>,
}

impl Picture {
    /// The vertices.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Brings it up to date, as node `me` sees it.
    pub fn update(&mut self, network: &Network, me: usize) {
        let mut fresh: BTreeMap<VertexId, (u64, &Vertex<Coin>)> = BTreeMap::new();
        for node in &network.nodes {
            for seen in node.vertices() {
                let id = seen.vertex.id();
                if !self.by_name.contains_key(&id) {
                    let earliest = fresh.entry(id).or_insert((u64::MAX, seen.vertex));
                    earliest.0 = earliest.0.min(seen.added.0);
                }
            }
        }
        let mut fresh: Vec<_> = fresh.into_values().collect();
        fresh.sort_unstable_by_key(|(added, vertex)| (*added, vertex.id()));
        for (added_ns, vertex) in fresh {
            let known = |parent: &VertexId| self.by_name.get(parent).copied();
            self.places.push(Place {
                parents: vertex.parents().iter().filter_map(known).collect(),
                payment: vertex.transactions().first().map(Coin::number),
                added_ns,
                state: State::Unknown,
                confidence: 0,
                count: 0,
                id: vertex.id(),
            });
            self.by_name.insert(vertex.id(), self.places.len() - 1);
        }
        self.look(network, me);
    }

    fn look(&mut self, network: &Network, me: usize) {
        let past = Seen { ledger: &network.ledger, node: me };
        for place in &mut self.places {
            // What has left memory was decided.
            let gone = if place.state == State::Unknown { State::Unknown } else { State::Rejected };
            place.state = if past.has_vertex(&place.id) { State::Accepted } else { gone };
        }
        for seen in network.nodes[me].vertices() {
            let Some(at) = self.by_name.get(&seen.vertex.id()) else { continue };
            let place = &mut self.places[*at];
            (place.confidence, place.count) = (seen.confidence, seen.count);
            place.state = match (seen.accepted, seen.rejected, seen.strongly_preferred) {
                (true, ..) => State::Accepted,
                (_, true, _) => State::Rejected,
                (.., true) => State::Preferred,
                (.., false) => State::Disliked,
            };
        }
    }

    /// Forgets what a node thought: another one is looked at from now on.
    pub fn look_elsewhere(&mut self) {
        self.places.iter_mut().for_each(|place| place.state = State::Unknown);
    }
}

/// Where a node stands on one payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaning {
    /// It has not heard of it.
    Unknown,
    /// It prefers a rival, or accepted one.
    Against,
    /// It prefers it.
    For,
    /// It accepted it.
    Accepted,
}

impl Network {
    /// Simulated nanoseconds so far.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// How many nodes there are, the faulty ones last.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Changes how many payments a second are submitted.
    pub fn set_rate(&mut self, rate: u64) {
        self.load.rate = rate;
    }

    /// Submits two spends of one output: the first at node `here` now, the second at node `there`
    /// later. Returns their numbers.
    pub fn spend_twice(&mut self, here: usize, there: usize, later_ns: u64) -> [u32; 2] {
        let (now, last) = (self.now, self.setting.correct().saturating_sub(1));
        let first = self.ledger.mint(now);
        let second = self.ledger.rival(&first);
        let numbers = [first.number(), second.number()];
        self.step(now, here.min(last), Input::Submit(vec![first]));
        if later_ns < TICK_NS {
            self.step(now, there.min(last), Input::Submit(vec![second]));
        } else {
            self.rivals.push_back((now.saturating_add(later_ns), there.min(last), second));
        }
        numbers
    }

    /// The output that a payment spends.
    #[must_use]
    pub fn output_of(&self, payment: u32) -> Option<u32> {
        self.ledger.output_of(payment)
    }

    /// Whether an output was spent twice.
    #[must_use]
    pub fn is_contested(&self, payment: u32) -> bool {
        self.ledger.is_contested(payment)
    }

    /// Where a node stands on a payment.
    #[must_use]
    pub fn leaning(&self, node: usize, payment: u32) -> Leaning {
        let id = ledger::name(payment);
        if (Seen { ledger: &self.ledger, node }).has_transaction(&id) {
            return Leaning::Accepted;
        }
        match self.nodes[node].prefers(&id) {
            Some(true) => Leaning::For,
            Some(false) => Leaning::Against,
            None => Leaning::Unknown,
        }
    }

    /// Why a payment is pending at a node; none if it is not.
    #[must_use]
    pub fn why(&self, node: usize, payment: u32) -> Option<Why> {
        let past = Seen { ledger: &self.ledger, node };
        self.nodes[node].why(&ledger::name(payment), &past)
    }

    /// Whether any node accepted two spends of one output, or two nodes one each.
    #[must_use]
    pub fn is_unsafe(&self) -> bool {
        self.ledger.violation.is_some()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::protocols::snow::avalanche::Counters;
    use quorate_core::protocols::snow::parameters::Parameters;

    use super::super::Load;
    use super::*;
    use crate::setting::{Adversary, Setting, Stake, World};

    fn network() -> Network {
        let numbers = Parameters { sample: 5, quorum: 4, early: 4, decision: 12 };
        let (world, stake) = (World::uniform(50_000_000), Stake::Equal);
        let adversary = Adversary::Opposite;
        let setting = Setting { nodes: 16, faulty: 0, adversary, numbers, stake, world, seed: 5 };
        let load = Load {
            rate: 4,
            issuers: 16,
            double_permille: 0,
            load_ns: u64::MAX,
            rest_ns: 0,
            batch: 1,
            counters: Counters::Glacier,
        };
        Network::new(setting, load).unwrap()
    }

    #[test]
    fn of_a_visitors_two_spends_all_nodes_accept_the_same_one() {
        let (mut network, mut picture) = (network(), Picture::default());
        network.advance(2_000_000_000);
        let spends = network.spend_twice(0, 9, 200_000_000);
        assert_eq!(network.output_of(spends[0]), network.output_of(spends[1]));
        assert!(network.is_contested(spends[0]) && !network.is_contested(1));
        let mut seen_pending = false;
        for tenth in 21..400 {
            network.advance(tenth * 100_000_000);
            picture.update(&network, 0);
            seen_pending |= network.why(0, spends[1]).is_some();
        }
        assert!(seen_pending && !network.is_unsafe());
        let accepted = |payment| {
            (0..16).filter(|node| network.leaning(*node, payment) == Leaning::Accepted).count()
        };
        let both = spends.map(accepted);
        assert!(both == [16, 0] || both == [0, 16], "{both:?}");
        let of = |payment| picture.places().iter().find(|place| place.payment == Some(payment));
        let states = spends.map(|payment| of(payment).map(|place| place.state));
        assert!(states.contains(&Some(State::Accepted)), "{states:?}");
        let old = picture.places().iter().filter(|place| place.added_ns < 37_000_000_000);
        assert!(old.clone().count() > 100);
        old.for_each(|place| assert_ne!(place.state, State::Unknown, "{place:?}"));
    }

    #[test]
    fn a_picture_of_another_node_is_that_nodes() {
        let (mut network, mut picture) = (network(), Picture::default());
        network.advance(3_000_000_000);
        picture.update(&network, 3);
        let of_three = picture.places().len();
        picture.look_elsewhere();
        picture.update(&network, 4);
        assert_eq!(picture.places().len(), of_three);
        for place in picture.places() {
            let known = network.nodes[4].knows(&place.id)
                || (Seen { ledger: &network.ledger, node: 4 }).has_vertex(&place.id);
            assert_eq!(place.state != State::Unknown, known);
        }
    }
}
