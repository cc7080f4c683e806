//! Room for the bytes that all connections of clients hold together: frames that have not arrived
//! whole, and answers that have not left.
//!
//! Each connection has limits of its own. Thousands of connections at their limits would still be
//! more than a machine has, so they share one budget. When it is exceeded, the connection that
//! holds most ends, of the network that holds most: a flood pays with its own connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::places::Network;

/// What room is counted in. A connection that holds less is free.
const UNIT_BYTES: usize = 16 << 10;

/// Why a connection holds bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They arrived.
    In,
    /// They are to leave.
    Out,
}

/// The room.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    all: usize,
    connections: BTreeMap<u64, Holding>,
    networks: BTreeMap<Network, ByWeight>,
}

/// The connections of one network, and what they hold together.
#[derive(Debug, Default)]
struct ByWeight {
    all: usize,
    ranks: BTreeSet<(usize, Reverse<u64>)>,
}

#[derive(Debug)]
struct Holding {
    network: Network,
    /// By [`Way`].
    bytes: [usize; 2],
    /// Dropping it tells the connection to end.
    ends: Option<oneshot::Sender<()>>,
}

/// A connection's part of the room, given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    number: u64,
}

/// What a connection holds one way. It asks the budget only when that changes by a unit.
#[derive(Debug, Default)]
pub(super) struct Meter {
    share: Option<(Arc<Share>, Way)>,
    units: usize,
}

impl Budget {
    /// Room for so many bytes.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// A connection of `network` that holds nothing yet, and how it learns that it has to end.
    pub(super) fn share(self: &Arc<Self>, network: Network) -> (Arc<Share>, oneshot::Receiver<()>) {
        let (sender, ends) = oneshot::channel();
        let mut held = self.held();
        let number = held.next;
        held.next += 1;
        held.connections.insert(number, Holding { network, bytes: [0; 2], ends: Some(sender) });
        drop(held);
        (Arc::new(Share { budget: Arc::clone(self), number }), ends)
    }

    /// What is held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// `number` holds so many bytes this way. Whoever has to end for it is told.
    fn set(&mut self, number: u64, way: Way, bytes: usize, most: usize) {
        let Some(holding) = self.connections.get_mut(&number) else { return };
        if holding.ends.is_none() {
            return;
        }
        let before: usize = holding.bytes.iter().sum();
        match (way, &mut holding.bytes) {
            (Way::In, [held, _]) | (Way::Out, [_, held]) => *held = bytes,
        }
        let (network, after) = (holding.network, holding.bytes.iter().sum());
        self.weigh(network, number, before, after);
        while self.all > most {
            let Some(heaviest) = self.heaviest() else { return };
            self.give_up(heaviest);
        }
    }

    fn weigh(&mut self, network: Network, number: u64, before: usize, after: usize) {
        self.all = self.all - before + after;
        let of = self.networks.entry(network).or_default();
        of.all = of.all - before + after;
        of.ranks.remove(&(before, Reverse(number)));
        if after > 0 {
            of.ranks.insert((after, Reverse(number)));
        } else if of.ranks.is_empty() {
            self.networks.remove(&network);
        }
    }

    /// Few networks hold anything that counts, so a look at each is cheap.
    fn heaviest(&self) -> Option<u64> {
        let of = self.networks.values().max_by_key(|of| of.all)?;
        of.ranks.last().map(|(_, Reverse(number))| *number)
    }

    /// Counts `number` as ended: its memory is free in a moment.
    fn give_up(&mut self, number: u64) {
        let Some(holding) = self.connections.get_mut(&number) else { return };
        holding.ends = None;
        let (network, before) = (holding.network, holding.bytes.iter().sum());
        holding.bytes = [0; 2];
        self.weigh(network, number, before, 0);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.give_up(self.number);
        held.connections.remove(&self.number);
    }
}

impl Meter {
    /// Counts what `share` holds this way.
    pub(super) fn new(share: Arc<Share>, way: Way) -> Self {
        Self { share: Some((share, way)), units: 0 }
    }

    /// So many bytes are held now.
    pub(super) fn set(&mut self, bytes: usize) {
        let Some((share, way)) = &self.share else { return };
        let units = bytes / UNIT_BYTES;
        if units != self.units {
            self.units = units;
            let budget = &share.budget;
            budget.held().set(share.number, *way, units * UNIT_BYTES, budget.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const KIB: usize = 1 << 10;

    fn network(last: u8) -> Network {
        IpAddr::from([10, 0, 0, last]).into()
    }

    fn is_told(ends: &mut oneshot::Receiver<()>) -> bool {
        ends.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_heaviest_connection_of_the_heaviest_network_ends() {
        let budget = Budget::new(1024 * KIB);
        let (honest, mut honest_ends) = budget.share(network(1));
        let mut honest = Meter::new(honest, Way::In);
        honest.set(400 * KIB);
        let mut flood: Vec<_> = (0..4)
            .map(|_| {
                let (share, ends) = budget.share(network(2));
                (Meter::new(share, Way::Out), ends)
            })
            .collect();
        for (number, (meter, _)) in flood.iter_mut().enumerate() {
            meter.set((128 + 16 * number) * KIB);
        }
        // 400 and 128 + 144 + 160 + 176 KiB are within it; 48 KiB more are not.
        assert_eq!(budget.bytes(), 1008 * KIB);
        flood[0].0.set(176 * KIB);
        let ended: Vec<bool> = flood.iter_mut().map(|(_, ends)| is_told(ends)).collect();
        // Of two that hold as much the older ends: it has had more time.
        assert_eq!(ended, [true, false, false, false]);
        assert!(!is_told(&mut honest_ends));
        assert_eq!(budget.bytes(), 880 * KIB);
        // One that has to end counts no more, whatever it still does.
        flood[0].0.set(1024 * KIB);
        assert_eq!(budget.bytes(), 880 * KIB);
        drop(flood);
        honest.set(1024 * KIB);
        assert!(!is_told(&mut honest_ends));
        honest.set(1040 * KIB);
        assert!(is_told(&mut honest_ends));
        drop(honest);
        assert_eq!(budget.bytes(), 0);
        let held = budget.held();
        assert!(held.networks.is_empty() && held.connections.is_empty());
    }

    #[test]
    fn both_ways_count_together_and_little_counts_nothing() {
        let budget = Budget::new(64 * KIB);
        let (share, mut ends) = budget.share(network(1));
        let (mut arrived, mut leaves) =
            (Meter::new(Arc::clone(&share), Way::In), Meter::new(share, Way::Out));
        arrived.set(15 * KIB);
        leaves.set(15 * KIB);
        assert_eq!(budget.bytes(), 0);
        arrived.set(33 * KIB);
        leaves.set(32 * KIB);
        assert_eq!(budget.bytes(), 64 * KIB);
        assert!(!is_told(&mut ends));
        leaves.set(0);
        assert_eq!(budget.bytes(), 32 * KIB);
        arrived.set(80 * KIB);
        assert!(is_told(&mut ends));
        assert_eq!(budget.bytes(), 0);
    }
}
