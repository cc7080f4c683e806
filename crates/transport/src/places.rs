//! Places for connections: a bounded number, bounded by address too, and shared fairly among
//! addresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// An address as places count it: an IPv4 address, or the /64 of an IPv6 address, within which one
/// machine may take any address it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(v4.into()),
            IpAddr::V6(v6) => {
                Self(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into())
            }
        }
    }
}

/// Who gives way when there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The oldest of the network with the most places, or of the newcomer's own network when that
    /// has all it may have. The newcomer always gets a place: for those who are here for a moment
    /// only.
    OldestGivesWay,
    /// The oldest of a network that has more places than the newcomer's. Without such a network,
    /// the newcomer is refused.
    HeavierGivesWay,
}

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// In all.
    pub all: usize,
    /// Of one network.
    pub of_network: usize,
}

/// Places for connections.
#[derive(Clone)]
pub struct Places {
    caps: Caps,
    rule: Rule,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    all: usize,
    /// By network, and by age within it. Dropping a sender tells the place's holder to go.
    holders: HashMap<Network, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Networks by how many places they have.
    ranks: BTreeSet<(usize, Network)>,
}

/// A place, given back when dropped.
pub struct Place {
    network: Network,
    number: u64,
    taken: Arc<Mutex<Taken>>,
    gives_way: oneshot::Receiver<()>,
}

impl Places {
    /// None taken.
    #[must_use]
    pub fn new(caps: Caps, rule: Rule) -> Self {
        Self { caps, rule, taken: Arc::default() }
    }

    /// How many there are.
    pub fn all(&self) -> usize {
        self.caps.all
    }

    /// A place for somebody from `network`, and whether somebody else gave way.
    pub fn take(&self, network: Network) -> Option<(Place, bool)> {
        let mut taken = locked(&self.taken);
        let here = taken.count(network);
        let mut gave_way = false;
        if here >= self.caps.of_network {
            if self.rule == Rule::HeavierGivesWay {
                return None;
            }
            gave_way = taken.evict(network);
        } else if taken.all >= self.caps.all {
            let &(most, heaviest) = taken.ranks.last()?;
            if self.rule == Rule::HeavierGivesWay && most <= here + 1 {
                return None;
            }
            gave_way = taken.evict(heaviest);
        }
        let number = taken.next;
        taken.next += 1;
        let (sender, gives_way) = oneshot::channel();
        taken.change(network, |holders| {
            holders.insert(number, sender);
        });
        Some((Place { network, number, taken: Arc::clone(&self.taken), gives_way }, gave_way))
    }
}

impl Taken {
    fn count(&self, network: Network) -> usize {
        self.holders.get(&network).map_or(0, BTreeMap::len)
    }

    fn change<T>(
        &mut self,
        network: Network,
        change: impl FnOnce(&mut BTreeMap<u64, oneshot::Sender<()>>) -> T,
    ) -> T {
        let holders = self.holders.entry(network).or_default();
        let before = holders.len();
        let result = change(holders);
        let after = holders.len();
        self.all = self.all + after - before;
        if before > 0 {
            self.ranks.remove(&(before, network));
        }
        if after > 0 {
            self.ranks.insert((after, network));
        } else {
            self.holders.remove(&network);
        }
        result
    }

    /// The oldest of `network` gives way. Whether there was one.
    fn evict(&mut self, network: Network) -> bool {
        self.change(network, |holders| holders.pop_first().is_some())
    }
}

impl Place {
    /// Whose place it is.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Waits until it must be given to somebody else.
    pub async fn lost(&mut self) {
        // The sender says nothing; it goes.
        let _ = (&mut self.gives_way).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.taken).change(self.network, |holders| drop(holders.remove(&self.number)));
    }
}

fn locked(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Caps, Network, Place, Places, Rule};
    use std::net::IpAddr;

    fn network(text: &str) -> Network {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn is_lost(place: &mut Place) -> bool {
        place.gives_way.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_machine_has_one_network_however_it_is_written() {
        assert_eq!(network("10.0.0.1"), network("::ffff:10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }

    /// A flood from one address costs the flood its own places, and nobody else theirs.
    #[test]
    fn the_oldest_of_the_heaviest_network_gives_way() {
        let places = Places::new(Caps { all: 4, of_network: 3 }, Rule::OldestGivesWay);
        let (mut honest, _) = places.take(network("10.0.0.1")).unwrap();
        let mut flood = Vec::new();
        for number in 0..100 {
            let (place, gave_way) = places.take(network("10.0.0.2")).unwrap();
            assert_eq!(gave_way, number >= 3);
            flood.push(place);
        }
        assert!(!is_lost(&mut honest));
        assert_eq!(flood.iter_mut().map(is_lost).filter(|lost| !lost).count(), 3);
        // All are taken: the flood's oldest makes room for a third address.
        let (third, gave_way) = places.take(network("10.0.0.3")).unwrap();
        assert!(gave_way && is_lost(&mut flood[97]) && !is_lost(&mut flood[98]));
        assert!(!is_lost(&mut honest));
        drop((third, flood));
        assert_eq!(super::locked(&places.taken).all, 1);
    }

    #[test]
    fn among_those_who_stay_only_the_heavier_give_way() {
        let places = Places::new(Caps { all: 4, of_network: 3 }, Rule::HeavierGivesWay);
        let mut one: Vec<_> = (0..3).map(|_| places.take(network("10.0.0.1")).unwrap().0).collect();
        assert!(places.take(network("10.0.0.1")).is_none(), "it has all it may have");
        let (mut two, _) = places.take(network("10.0.0.2")).unwrap();
        let (_second, gave_way) = places.take(network("10.0.0.2")).unwrap();
        assert!(gave_way && is_lost(&mut one[0]) && !is_lost(&mut two));
        assert!(places.take(network("10.0.0.2")).is_none(), "they are even");
        drop(one);
        assert!(places.take(network("10.0.0.2")).is_some());
    }
}
