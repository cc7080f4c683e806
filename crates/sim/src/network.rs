//! The links between replicas: delay, loss, duplicates, cuts, each way by itself.

use quorate_core::Time;

use super::Peer;
use super::family::{Family, HotStuffs};
use super::faults::Faults;
use super::rng::Rng;

/// Whether a message is lost: from, to, message.
pub type Drops<F> = fn(usize, usize, &Peer<F>) -> bool;

/// What becomes of a message: from, to, message.
pub type Meddler<F = HotStuffs> = Box<dyn Fn(usize, usize, &Peer<F>) -> Fate<F>>;

/// What becomes of a message.
#[derive(Clone, Debug)]
pub enum Fate<F: Family = HotStuffs> {
    /// It goes its way.
    Goes,
    /// It does not arrive.
    Lost,
    /// It arrives so many microseconds later than it would.
    Late(u64),
    /// This one goes instead.
    Bent(Box<Peer<F>>),
}

/// One direction of a link. Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The least and the most that a message takes.
    pub delay: (u64, u64),
    /// So many in a hundred messages take `straggle` longer.
    pub straggle_percent: u64,
    /// How much longer stragglers take.
    pub straggle: u64,
    /// So many in a hundred messages are lost.
    pub loss_percent: u64,
    /// So many in a hundred messages arrive twice.
    pub duplicate_percent: u64,
    /// Messages arrive in the order in which they were sent, as on a stream.
    pub in_order: bool,
    /// Bytes a millisecond that pass; 0: any number.
    pub bytes_per_ms: u64,
    /// Nothing passes.
    pub cut: bool,
}

impl Link {
    /// A link that always takes the same time.
    pub fn steady(delay: u64) -> Self {
        Self {
            delay: (delay, delay),
            straggle_percent: 0,
            straggle: 0,
            loss_percent: 0,
            duplicate_percent: 0,
            in_order: false,
            bytes_per_ms: 0,
            cut: false,
        }
    }
}

/// What a sender keeps for a slow link, in nanoseconds of sending: what is more is dropped, as the
/// queues of the transport do.
const LONGEST_QUEUE: u64 = 1_000_000_000;

/// What a direction carries at the moment. In nanoseconds since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// When its last byte has left.
    sent: u64,
    /// When the last message arrives.
    arrives: u64,
}

/// All links.
#[derive(Clone, Debug)]
pub struct Network {
    links: Vec<Vec<Link>>,
    traffic: Vec<Vec<Traffic>>,
}

impl Network {
    /// Links of one kind between all.
    pub fn new(slots: usize, link: Link) -> Self {
        let traffic = vec![vec![Traffic::default(); slots]; slots];
        Self { links: vec![vec![link; slots]; slots], traffic }
    }

    /// Nothing that is sent from now on waits for what was sent before.
    pub fn forget_traffic(&mut self) {
        self.traffic.iter_mut().flatten().for_each(|traffic| *traffic = Traffic::default());
    }

    /// Whether what passes takes longer the larger it is.
    pub fn minds_size(&self, from: usize, to: usize) -> bool {
        self.links[from][to].bytes_per_ms > 0
    }

    /// When the copies of a message of so many bytes arrive.
    pub fn copies(
        &mut self,
        rng: &mut Rng,
        faults: &mut Faults,
        now: Time,
        (from, to): (usize, usize),
        bytes: usize,
    ) -> [Option<Time>; 2] {
        let link = self.links[from][to];
        if link.cut {
            faults.fired("message cut off");
            return [None, None];
        }
        if rng.percent(link.loss_percent) {
            faults.fired("message lost");
            return [None, None];
        }
        if self.traffic[from][to].sent > now.0 + LONGEST_QUEUE {
            faults.fired("message dropped by a full queue");
            return [None, None];
        }
        let first = Some(self.arrival(rng, faults, now, (from, to), bytes));
        if !rng.percent(link.duplicate_percent) {
            return [first, None];
        }
        faults.fired("message duplicated");
        [first, Some(self.arrival(rng, faults, now, (from, to), bytes))]
    }

    fn arrival(
        &mut self,
        rng: &mut Rng,
        faults: &mut Faults,
        now: Time,
        (from, to): (usize, usize),
        bytes: usize,
    ) -> Time {
        let (link, traffic) = (self.links[from][to], &mut self.traffic[from][to]);
        let mut at = now.0;
        if let Some(sending) = (bytes as u64 * 1_000_000).checked_div(link.bytes_per_ms) {
            if traffic.sent > at {
                faults.fired("message queued for bandwidth");
            }
            at = at.max(traffic.sent) + sending;
            traffic.sent = at;
        }
        at += rng.between(link.delay) * 1_000;
        if rng.percent(link.straggle_percent) {
            faults.fired("message straggled");
            at += link.straggle * 1_000;
        }
        if at < traffic.arrives {
            if link.in_order {
                at = traffic.arrives;
            } else {
                faults.fired("messages reordered");
            }
        }
        traffic.arrives = traffic.arrives.max(at);
        Time(at)
    }

    /// The link from one slot to another.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from][to]
    }

    /// Changes all links.
    pub fn set_all(&mut self, change: impl Fn(&mut Link)) {
        self.links.iter_mut().flatten().for_each(change);
    }

    /// Cuts all links between slots of different groups; heals the others.
    pub fn partition(&mut self, group_of: impl Fn(usize) -> usize) {
        for (from, links) in self.links.iter_mut().enumerate() {
            for (to, link) in links.iter_mut().enumerate() {
                link.cut = group_of(from) != group_of(to);
            }
        }
    }

    /// No link is cut any more.
    pub fn heal(&mut self) {
        self.set_all(|link| link.cut = false);
    }
}
