//! Places for connections: a bounded number, bounded for each address too, and shared fairly among
//! addresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The unit by which places count addresses: an IPv4 address, or the /64 of an IPv6 address. One
/// machine may take any address of its /64.
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

/// Decides which connection gives way when there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The oldest connection gives way: of the network with the most places, or of the newcomer's
    /// own network if that is at its limit. The newcomer always gets a place. This is for
    /// connections that stay for a moment only.
    OldestGivesWay,
    /// The oldest connection of a network that has more places than the newcomer's gives way.
    /// Without such a network the newcomer is refused.
    HeavierGivesWay,
}

/// The number of places.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// In all.
    pub all: usize,
    /// For one network.
    pub of_network: usize,
}

/// A set of places for connections.
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
    /// The holders by network, and by age within it. Dropping a sender tells the holder to go.
    holders: HashMap<Network, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Networks ordered by the number of their places.
    ranks: BTreeSet<(usize, Network)>,
}

/// A place. Dropping it gives it back.
pub struct Place {
    network: Network,
    number: u64,
    taken: Arc<Mutex<Taken>>,
    gives_way: oneshot::Receiver<()>,
}

impl Places {
    /// A set with all places free.
    #[must_use]
    pub fn new(caps: Caps, rule: Rule) -> Self {
        Self { caps, rule, taken: Arc::default() }
    }

    /// The number of places in all.
    pub fn all(&self) -> usize {
        self.caps.all
    }

    /// Takes a place for a connection from `network`. Also says whether another one gave way.
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

    /// Makes the oldest connection of `network` give way. Returns whether there was one.
    fn evict(&mut self, network: Network) -> bool {
        self.change(network, |holders| holders.pop_first().is_some())
    }
}

impl Place {
    /// The network of the place's holder.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Waits until the place must be given to another connection.
    pub async fn lost(&mut self) {
        // The sender sends nothing: it is dropped.
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

    /// A flood from one address takes its own places only.
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
        // All places are taken: the flood's oldest connection makes room for a third address.
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
