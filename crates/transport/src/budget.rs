//! The memory budget that all client connections share. It counts frames that have not arrived
//! completely, and answers that have not been sent.
//!
//! Each connection has limits of its own. Thousands of connections at their limits would still need
//! more memory than a machine has, so they share one budget.
//!
//! - A long frame reserves its whole length before the rest of it is read ([`Meter::poll_admit`]).
//!   Without room its connection waits and is not read. The network that holds least is served
//!   first.
//! - While a connection waits, another one ends if it has released nothing for long: within the
//!   network that holds most, the connection that released nothing for the longest time.
//! - Answers and short frames cannot wait, so they may exceed the budget. Then the largest holder
//!   ends, within the network that holds most. A flood pays with its own connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::places::Network;

/// The unit in which the budget counts. A connection that holds less is not counted.
const UNIT_BYTES: usize = 16 << 10;

/// Why a connection holds bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Bytes that were received.
    In,
    /// Bytes that wait to be sent.
    Out,
}

/// The budget that all connections share.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    /// How long a connection may keep what it holds while others wait for room.
    patience: Duration,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    all: usize,
    connections: BTreeMap<u64, Holding>,
    networks: BTreeMap<Network, OfNetwork>,
    /// How many connections wait for room.
    waiting: usize,
    /// When a connection last ended to make room for waiting ones.
    gave_way: Option<Instant>,
}

/// The connections of one network, and the bytes that they hold together.
#[derive(Debug, Default)]
struct OfNetwork {
    all: usize,
    ranks: BTreeSet<(usize, Reverse<u64>)>,
    /// The connections that wait, in the order in which they began to.
    waiting: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Holding {
    network: Network,
    /// Bytes held, by [`Way`].
    bytes: [usize; 2],
    /// The length of the long frame that is being read.
    admitted: usize,
    /// When the connection last released something, or began to hold something.
    since: Instant,
    /// The room that the connection waits for.
    wish: Option<Wish>,
    /// Dropping it tells the connection to end.
    ends: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Wish {
    bytes: usize,
    /// The connection's place in its network's queue.
    place: u64,
    waker: Waker,
}

/// A connection's share of the budget. Dropping it releases the share.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    number: u64,
}

/// Counts what a connection holds in one direction. It updates the budget only when the count
/// changes by a unit.
#[derive(Debug, Default)]
pub(super) struct Meter {
    share: Option<(Arc<Share>, Way)>,
    units: usize,
}

impl Budget {
    /// A budget of `most` bytes. While others wait, a connection may keep what it holds for
    /// `patience`.
    pub(super) fn new(most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { most, patience, held: Mutex::default() })
    }

    /// Registers a connection of `network` that holds nothing yet. The receiver tells it when to
    /// end.
    pub(super) fn share(self: &Arc<Self>, network: Network) -> (Arc<Share>, oneshot::Receiver<()>) {
        let (sender, ends) = oneshot::channel();
        let mut held = self.held();
        let number = held.next();
        let holding = Holding {
            network,
            bytes: [0; 2],
            admitted: 0,
            since: Instant::now(),
            wish: None,
            ends: Some(sender),
        };
        held.connections.insert(number, holding);
        drop(held);
        (Arc::new(Share { budget: Arc::clone(self), number }), ends)
    }

    /// The bytes held now.
    pub(super) fn bytes(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holding {
    fn weight(&self) -> usize {
        let [arrived, leaves] = self.bytes;
        arrived.max(self.admitted) + leaves
    }
}

impl Held {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Changes what connection `number` holds, unless it has been told to end.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Holding)) {
        let Some(holding) = self.connections.get_mut(&number) else { return };
        if holding.ends.is_none() {
            return;
        }
        let before = holding.weight();
        change(holding);
        let (network, after) = (holding.network, holding.weight());
        self.weigh(network, number, before, after);
    }

    /// Sets the bytes that `number` holds in this direction. Tells connections to end if that
    /// exceeds the budget.
    fn set(&mut self, number: u64, way: Way, bytes: usize, most: usize) {
        self.change(number, |holding| {
            let [arrived, leaves] = &mut holding.bytes;
            let held = if way == Way::In { arrived } else { leaves };
            let (gives_back, begins) = (bytes < *held, *held == 0);
            *held = bytes;
            if gives_back || begins {
                holding.since = Instant::now();
            }
        });
        while self.all > most {
            let Some(heaviest) = self.heaviest() else { break };
            self.give_up(heaviest);
        }
        self.admit_waiting(most);
    }

    fn weigh(&mut self, network: Network, number: u64, before: usize, after: usize) {
        self.all = self.all - before + after;
        let of = self.networks.entry(network).or_default();
        of.all = of.all - before + after;
        of.ranks.remove(&(before, Reverse(number)));
        if after > 0 {
            of.ranks.insert((after, Reverse(number)));
        }
        self.forget_if_idle(network);
    }

    fn forget_if_idle(&mut self, network: Network) {
        let is_idle = |of: &OfNetwork| of.ranks.is_empty() && of.waiting.is_empty();
        if self.networks.get(&network).is_some_and(is_idle) {
            self.networks.remove(&network);
        }
    }

    /// The network that holds most. Few networks hold anything that counts, so a scan is cheap.
    fn heaviest(&self) -> Option<u64> {
        let of = self.networks.values().max_by_key(|of| of.all)?;
        of.ranks.last().map(|(_, Reverse(number))| *number)
    }

    /// Whether `number` may read the rest of a frame of `bytes` bytes. If not, it is put in the
    /// queue.
    fn admit(&mut self, number: u64, bytes: usize, most: usize, waker: &Waker) -> bool {
        let Some(holding) = self.connections.get_mut(&number) else { return false };
        if holding.ends.is_none() {
            return false;
        }
        if holding.admitted > 0 {
            return true;
        }
        match &mut holding.wish {
            Some(wish) => wish.waker.clone_from(waker),
            None => {
                let network = holding.network;
                let place = self.next();
                self.networks.entry(network).or_default().waiting.insert(place, number);
                self.waiting += 1;
                if let Some(holding) = self.connections.get_mut(&number) {
                    holding.wish = Some(Wish { bytes, place, waker: waker.clone() });
                }
                self.admit_waiting(most);
            }
        }
        self.connections.get(&number).is_some_and(|holding| holding.admitted > 0)
    }

    /// Lets waiting connections read on, as far as there is room, starting with the network that
    /// holds least.
    fn admit_waiting(&mut self, most: usize) {
        while self.waiting > 0 {
            let waits = self.networks.values().filter(|of| !of.waiting.is_empty());
            let next = waits.min_by_key(|of| of.all).and_then(|of| of.waiting.first_key_value());
            let Some((_, &number)) = next else { return };
            let Some(holding) = self.connections.get(&number) else { return };
            let Some(Wish { bytes, .. }) = holding.wish else { return };
            let others = self.all - holding.weight();
            let [arrived, leaves] = holding.bytes;
            // A frame longer than the whole budget is read alone.
            if others > 0 && others + leaves + bytes.max(arrived) > most {
                return;
            }
            if let Some(wish) = self.end_wait(number) {
                wish.waker.wake();
            }
            self.change(number, |holding| {
                holding.admitted = bytes;
                holding.since = Instant::now();
            });
        }
    }

    fn end_wait(&mut self, number: u64) -> Option<Wish> {
        let holding = self.connections.get_mut(&number)?;
        let (wish, network) = (holding.wish.take()?, holding.network);
        self.waiting -= 1;
        if let Some(of) = self.networks.get_mut(&network) {
            of.waiting.remove(&wish.place);
        }
        self.forget_if_idle(network);
        Some(wish)
    }

    /// Ends the connection that has kept what it holds for the longest time, within the network
    /// that holds most. Connections that wait themselves come last.
    fn press(&mut self, patience: Duration, most: usize) {
        let now = Instant::now();
        // One connection at a time: a scan of a whole network is not cheap.
        let pause = patience / 32;
        if self.waiting == 0 || self.gave_way.is_some_and(|last| now < last + pause) {
            return;
        }
        let Some(of) = self.networks.values().max_by_key(|of| of.all) else { return };
        let holdings = of.ranks.iter().filter_map(|(_, Reverse(number))| {
            self.connections.get(number).map(|holding| (*number, holding))
        });
        let last = holdings.min_by_key(|(_, holding)| (holding.wish.is_some(), holding.since));
        let late = last.filter(|(_, one)| now.saturating_duration_since(one.since) >= patience);
        let Some((number, _)) = late else { return };
        self.gave_way = Some(now);
        self.give_up(number);
        self.admit_waiting(most);
    }

    /// Counts `number` as ended: it will release its memory in a moment.
    fn give_up(&mut self, number: u64) {
        self.end_wait(number);
        self.change(number, |holding| (holding.bytes, holding.admitted) = ([0; 2], 0));
        if let Some(holding) = self.connections.get_mut(&number) {
            holding.ends = None;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.give_up(self.number);
        held.connections.remove(&self.number);
        held.admit_waiting(self.budget.most);
    }
}

impl Meter {
    /// Counts what `share` holds in this direction.
    pub(super) fn new(share: Arc<Share>, way: Way) -> Self {
        Self { share: Some((share, way)), units: 0 }
    }

    /// Sets the bytes held now.
    pub(super) fn set(&mut self, bytes: usize) {
        let Some((share, way)) = &self.share else { return };
        let units = bytes / UNIT_BYTES;
        if units != self.units {
            self.units = units;
            let budget = &share.budget;
            budget.held().set(share.number, *way, units * UNIT_BYTES, budget.most);
        }
    }

    /// Whether there is room to read the rest of a frame of `bytes` bytes. If not, `waker` is woken
    /// once there is.
    pub(super) fn poll_admit(&self, bytes: usize, waker: &Waker) -> bool {
        let Some((share, _)) = &self.share else { return true };
        let budget = &share.budget;
        budget.held().admit(share.number, bytes, budget.most, waker)
    }

    /// Releases the reservation of the admitted frame, which has arrived.
    pub(super) fn release(&self) {
        let Some((share, _)) = &self.share else { return };
        let mut held = share.budget.held();
        held.change(share.number, |holding| holding.admitted = 0);
        held.admit_waiting(share.budget.most);
    }

    /// The connection has waited long: another one that releases nothing has to end.
    pub(super) fn press(&self) {
        let Some((share, _)) = &self.share else { return };
        let budget = &share.budget;
        budget.held().press(budget.patience, budget.most);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const KIB: usize = 1 << 10;
    const PATIENCE: Duration = Duration::from_secs(3600);

    fn network(last: u8) -> Network {
        IpAddr::from([10, 0, 0, last]).into()
    }

    fn is_told(ends: &mut oneshot::Receiver<()>) -> bool {
        ends.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_heaviest_connection_of_the_heaviest_network_ends() {
        let budget = Budget::new(1024 * KIB, PATIENCE);
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
        // Both hold the same. The older one ends: it has had more time.
        assert_eq!(ended, [true, false, false, false]);
        assert!(!is_told(&mut honest_ends));
        assert_eq!(budget.bytes(), 880 * KIB);
        // A connection that was told to end no longer counts, whatever it still does.
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
        let budget = Budget::new(64 * KIB, PATIENCE);
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

    /// Two admitted connections of `network` that hold half of 64 KiB each.
    fn halves(budget: &Arc<Budget>, network: Network) -> [(Meter, oneshot::Receiver<()>); 2] {
        [(); 2].map(|()| {
            let (share, ends) = budget.share(network);
            let meter = Meter::new(share, Way::In);
            assert!(meter.poll_admit(32 * KIB, Waker::noop()));
            (meter, ends)
        })
    }

    #[test]
    fn long_frames_wait_until_there_is_room() {
        let budget = Budget::new(64 * KIB, PATIENCE);
        let [(first, _first_ends), (second, mut second_ends)] = halves(&budget, network(1));
        let waits = [(1, 40), (1, 16), (2, 32)].map(|(of, kib)| {
            let (share, _) = budget.share(network(of));
            let meter = Meter::new(share, Way::In);
            assert!(!meter.poll_admit(kib * KIB, Waker::noop()));
            (meter, kib * KIB)
        });
        let is_admitted = |which: usize| {
            let (meter, bytes) = &waits[which];
            meter.poll_admit(*bytes, Waker::noop())
        };
        // Holders are given time first.
        waits[0].0.press();
        assert_eq!([0, 1, 2].map(is_admitted), [false; 3]);
        // The network that holds least is first; within one network the order of arrival is kept.
        first.release();
        assert_eq!([0, 1, 2].map(is_admitted), [false, false, true]);
        assert_eq!(budget.bytes(), 64 * KIB);
        waits[2].0.release();
        assert_eq!([0, 1].map(is_admitted), [false; 2], "the shorter one does not overtake");
        assert!(!is_told(&mut second_ends));
        drop((first, second));
        assert_eq!([0, 1].map(is_admitted), [true; 2]);
        assert_eq!(budget.bytes(), 40 * KIB + 16 * KIB);
        drop(waits);
        let held = budget.held();
        assert!(held.networks.is_empty() && held.waiting == 0 && held.all == 0);
    }

    #[test]
    fn the_one_that_keeps_what_it_holds_gives_way_to_those_who_wait() {
        let budget = Budget::new(64 * KIB, Duration::ZERO);
        let [(first, mut first_ends), (second, mut second_ends)] = halves(&budget, network(1));
        let (share, _ends) = budget.share(network(2));
        let meter = Meter::new(share, Way::In);
        meter.press();
        assert!(!is_told(&mut first_ends), "nobody waits");
        assert!(!meter.poll_admit(32 * KIB, Waker::noop()));
        meter.press();
        assert!(is_told(&mut first_ends) && !is_told(&mut second_ends));
        assert!(meter.poll_admit(32 * KIB, Waker::noop()));
        assert!(!first.poll_admit(32 * KIB, Waker::noop()), "it has to end");
        drop(second);
        assert_eq!(budget.bytes(), 32 * KIB);
    }

    #[test]
    fn a_frame_longer_than_the_room_is_read_alone() {
        let budget = Budget::new(16 * KIB, PATIENCE);
        let (share, mut ends) = budget.share(network(1));
        let meter = Meter::new(share, Way::In);
        assert!(meter.poll_admit(17 * KIB, Waker::noop()));
        assert!(!is_told(&mut ends));
    }
}
