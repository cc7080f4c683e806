//! Whom to ask: k seats of all but the own ones, without replacement.
//!
//! A node has a seat for each unit of its stake. A sample is k different seats, each set of k as
//! likely as any other, so the number of faulty seats in it is hypergeometric, as
//! the analysis assumes. With one unit each, that is k different nodes. A node drawn with several
//! seats is asked once, and its answer counts for all of them; AvalancheGo does the same.

use super::parameters::Invalid;
use super::random::Random;
use crate::base::types::ReplicaId;

/// A peer of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whom.
    pub peer: ReplicaId,
    /// For how many seats.
    pub seats: u32,
}

/// Draws samples for one node.
#[derive(Clone, Debug)]
pub struct Sampler {
    stakes: Stakes,
    /// The seats of all others.
    seats: u64,
    /// Where the own seats begin, and how many they are.
    own: (u64, u64),
    drawn: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Stakes {
    /// One unit each.
    Equal,
    /// Where the seats of each node end.
    Ends(std::sync::Arc<[u64]>),
}

/// The stakes of all nodes, in the order of their ids. Cheap to share.
#[derive(Clone, Debug)]
pub struct Electorate {
    stakes: Stakes,
    nodes: usize,
    total: u64,
}

impl Electorate {
    /// Nodes with these stakes.
    ///
    /// # Errors
    /// [`Invalid::TooMuch`]
    pub fn new(stakes: &[u64]) -> Result<Self, Invalid> {
        if stakes.len() > usize::from(u16::MAX) + 1 {
            return Err(Invalid::TooMuch);
        }
        let mut ends = Vec::with_capacity(stakes.len());
        let mut total = 0_u64;
        for stake in stakes {
            let sum = total.checked_add(*stake).filter(|sum| *sum <= 1 << 63);
            total = sum.ok_or(Invalid::TooMuch)?;
            ends.push(total);
        }
        let equal = stakes.iter().all(|stake| *stake == 1);
        let stakes = if equal { Stakes::Equal } else { Stakes::Ends(ends.as_slice().into()) };
        Ok(Self { stakes, nodes: ends.len(), total })
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// All units of stake.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The stake of a node; zero if it is not listed.
    #[must_use]
    pub fn stake(&self, node: ReplicaId) -> u64 {
        match &self.stakes {
            Stakes::Equal => u64::from(node.index() < self.nodes),
            Stakes::Ends(ends) => {
                let begin = node.index().checked_sub(1).and_then(|at| ends.get(at)).unwrap_or(&0);
                ends.get(node.index()).map_or(0, |end| end - begin)
            }
        }
    }

    /// A sampler for `me` that draws `sample` seats.
    ///
    /// # Errors
    /// [`Invalid`] if there are too few.
    pub fn sampler(&self, me: ReplicaId, sample: u32) -> Result<Sampler, Invalid> {
        if me.index() >= self.nodes {
            return Err(Invalid::NotListed { me: me.0, nodes: self.nodes });
        }
        let (begin, end) = match &self.stakes {
            Stakes::Equal => (u64::from(me.0), u64::from(me.0) + 1),
            Stakes::Ends(ends) => {
                let begin = me.index().checked_sub(1).and_then(|before| ends.get(before));
                (begin.copied().unwrap_or(0), ends[me.index()])
            }
        };
        let seats = self.total - (end - begin);
        if seats < u64::from(sample) {
            return Err(Invalid::TooFew { sample, seats });
        }
        let (stakes, drawn) = (self.stakes.clone(), Vec::with_capacity(sample as usize));
        Ok(Sampler { stakes, seats, own: (begin, end - begin), drawn })
    }
}

impl Sampler {
    /// Draws `sample` seats into `asked`, by peer. Floyd's algorithm: one number for each seat.
    pub fn draw(&mut self, random: &mut Random, sample: u32, asked: &mut Vec<Asked>) {
        asked.clear();
        self.drawn.clear();
        let sample = u64::from(sample).min(self.seats);
        for last in self.seats - sample..self.seats {
            let seat = random.below(last + 1);
            let is_drawn = planted!("sampling-with-replacement", false, self.drawn.contains(&seat));
            let seat = if is_drawn { last } else { seat };
            self.drawn.push(seat);
            let peer = self.holder(seat);
            match asked.iter_mut().find(|asked| asked.peer == peer) {
                Some(known) => known.seats += 1,
                None => asked.push(Asked { peer, seats: 1 }),
            }
        }
    }

    fn holder(&self, seat: u64) -> ReplicaId {
        let own = planted!("sampling-asks-itself", 0, self.own.1);
        let seat = if seat < self.own.0 { seat } else { seat + own };
        let place = match &self.stakes {
            Stakes::Equal => seat as usize,
            Stakes::Ends(ends) => ends.partition_point(|end| *end <= seat),
        };
        ReplicaId(place as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_is_drawn_by_its_stake_and_never_oneself() {
        let electorate = Electorate::new(&[5, 0, 10, 20, 40]).unwrap();
        let mut sampler = electorate.sampler(ReplicaId(2), 3).unwrap();
        let (mut random, mut asked, mut seats) = (Random::new(1), Vec::new(), [0_u32; 5]);
        for _ in 0..26_000 {
            sampler.draw(&mut random, 3, &mut asked);
            assert_eq!(asked.iter().map(|asked| asked.seats).sum::<u32>(), 3);
            asked.iter().for_each(|asked| seats[asked.peer.index()] += asked.seats);
        }
        // 78,000 seats by 5 : 20 : 40.
        assert_eq!((seats[1], seats[2]), (0, 0));
        for (node, expected) in [(0, 6_000_f64), (3, 24_000.), (4, 48_000.)] {
            assert!((f64::from(seats[node]) / expected - 1.0).abs() < 0.05, "{seats:?}");
        }
    }

    #[test]
    fn equal_stakes_give_different_nodes_from_a_seed() {
        let electorate = Electorate::new(&[1; 12]).unwrap();
        let mut sampler = electorate.sampler(ReplicaId(11), 11).unwrap();
        let (mut random, mut asked) = (Random::new(7), Vec::new());
        sampler.draw(&mut random, 11, &mut asked);
        let mut peers: Vec<_> = asked.iter().map(|asked| asked.peer.0).collect();
        peers.sort_unstable();
        assert_eq!(peers, Vec::from_iter(0..11));
        let again = |seed| {
            let mut asked = Vec::new();
            electorate.sampler(ReplicaId(0), 5).unwrap().draw(
                &mut Random::new(seed),
                5,
                &mut asked,
            );
            asked
        };
        assert_eq!(again(3), again(3));
        assert_ne!(again(3), again(4));
    }

    #[test]
    fn what_cannot_be_sampled_is_refused_with_a_remedy() {
        let electorate = Electorate::new(&[1; 4]).unwrap();
        let refused = electorate.sampler(ReplicaId(0), 10).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "k is 10, but the others hold 3 units of stake: lower k or add peers"
        );
        assert!(electorate.sampler(ReplicaId(4), 1).is_err());
        assert_eq!(Electorate::new(&[u64::MAX, 1]).unwrap_err(), Invalid::TooMuch);
    }
}
