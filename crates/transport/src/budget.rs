//! Room for the bytes that all connections of clients hold together: frames that have not arrived
//! whole, and answers that have not left.
//!
//! Each connection has limits of its own. Thousands of connections at their limits would still be
//! more than a machine has, so they share one budget.
//!
//! - A long frame takes its whole length before it is read on ([`Meter::poll_admit`]). Without room
//!   its connection waits, and is not read. The network that holds least is next.
//! - While somebody waits, a connection ends if it has given nothing back for long: of the network
//!   that holds most, the one that has not for the longest time.
//! - What cannot wait (answers, short frames) may exceed the budget. Then the connection that holds
//!   most ends, of the network that holds most. A flood pays with its own connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

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
    /// When one last gave way to those who wait.
    gave_way: Option<Instant>,
}

/// The connections of one network, and what they hold together.
#[derive(Debug, Default)]
struct OfNetwork {
    all: usize,
    ranks: BTreeSet<(usize, Reverse<u64>)>,
    /// Those that wait, in the order in which they began to.
    waiting: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Holding {
    network: Network,
    /// By [`Way`].
    bytes: [usize; 2],
    /// The length of the long frame that is being read.
    admitted: usize,
    /// When it last gave something back, or began to hold something.
    since: Instant,
    /// The room it waits for.
    wish: Option<Wish>,
    /// Dropping it tells the connection to end.
    ends: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Wish {
    bytes: usize,
    /// Its place among those of its network.
    place: u64,
    waker: Waker,
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
    /// Room for so many bytes. While others wait, a connection may keep what it holds for so long.
    pub(super) fn new(most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { most, patience, held: Mutex::default() })
    }

    /// A connection of `network` that holds nothing yet, and how it learns that it has to end.
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

    /// What is held.
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

    /// Changes what `number` holds, unless it has to end.
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

    /// `number` holds so many bytes this way. Connections that have to end for it are told.
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

    /// Few networks hold anything that counts, so a look at each is cheap.
    fn heaviest(&self) -> Option<u64> {
        let of = self.networks.values().max_by_key(|of| of.all)?;
        of.ranks.last().map(|(_, Reverse(number))| *number)
    }

    /// Whether `number` may read a frame of so many bytes on. If not, it waits.
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

    /// Lets those who wait read on, as far as there is room. The network that holds least is first.
    fn admit_waiting(&mut self, most: usize) {
        while self.waiting > 0 {
            let waits = self.networks.values().filter(|of| !of.waiting.is_empty());
            let next = waits.min_by_key(|of| of.all).and_then(|of| of.waiting.first_key_value());
            let Some((_, &number)) = next else { return };
            let Some(holding) = self.connections.get(&number) else { return };
            let Some(Wish { bytes, .. }) = holding.wish else { return };
            let others = self.all - holding.weight();
            let [arrived, leaves] = holding.bytes;
            // A frame longer than all of the room is read alone.
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

    /// The connection that has kept what it holds for the longest time ends, of the network that
    /// holds most. Those that wait themselves come last.
    fn press(&mut self, patience: Duration, most: usize) {
        let now = Instant::now();
        // One at a time, and a look at all of a network is not cheap.
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

    /// Counts `number` as ended: its memory is free in a moment.
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

    /// Whether there is room to read a frame of so many bytes on. If not, `waker` is woken when
    /// there is.
    pub(super) fn poll_admit(&self, bytes: usize, waker: &Waker) -> bool {
        let Some((share, _)) = &self.share else { return true };
        let budget = &share.budget;
        budget.held().admit(share.number, bytes, budget.most, waker)
    }

    /// Gives back the room of the frame that was admitted: it arrived.
    pub(super) fn release(&self) {
        let Some((share, _)) = &self.share else { return };
        let mut held = share.budget.held();
        held.change(share.number, |holding| holding.admitted = 0);
        held.admit_waiting(share.budget.most);
    }

    /// It has waited: somebody who only keeps what it holds gives way.
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

    /// Two of `network` that hold half of 64 KiB each, having been admitted to.
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
        // There is patience with those who hold.
        waits[0].0.press();
        assert_eq!([0, 1, 2].map(is_admitted), [false; 3]);
        // The network that holds least is first; within one, the order is kept.
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
