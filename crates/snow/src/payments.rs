//! Nodes of Avalanche, as in production (`core::protocols::snow::avalanche`), under a load of
//! payments.
//!
//! Payments spend outputs of the genesis and are submitted at a few nodes, evenly, in batches. All
//! nodes share one ledger: which of them accepted what. In it the oracle sees at once if two spends
//! of one output are accepted, by whomever.

mod attack;
mod ledger;
mod report;
pub mod view;

use std::collections::{BTreeSet, VecDeque};

pub use ledger::{Coin, Violation};
use ledger::{Ledger, Seen};
use quorate_core::protocols::snow::avalanche::{
    Avalanche, Counters, Input, Message, Output, Settings, Vote,
};
use quorate_core::protocols::snow::parameters::Invalid;
use quorate_core::protocols::snow::random::Random;
use quorate_core::protocols::snow::sampling::Electorate;
use quorate_core::{Duration, ReplicaId, Time};
pub use report::Report;

use crate::heap::Heap;
use crate::setting::{Adversary, Setting};

/// Bytes of a payment with one input and two outputs, and its signature.
const PAYMENT_BYTES: u64 = 250;
/// Bytes of a message without its vertex.
const HEAD_BYTES: u64 = 64;
/// Bytes of a name.
const NAME_BYTES: u64 = 32;

/// What is asked of the network.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Payments a second, in all.
    pub rate: u64,
    /// How many nodes they are submitted at.
    pub issuers: usize,
    /// Of a thousand payments so many are spent twice, at two nodes.
    pub double_permille: u64,
    /// How long payments are submitted.
    pub load_ns: u64,
    /// How long the network runs on after that.
    pub rest_ns: u64,
    /// Payments of a vertex.
    pub batch: usize,
    /// What an unsuccessful poll resets.
    pub counters: Counters,
}

/// How often payments are submitted.
const TICK_NS: u64 = 20_000_000;

enum Event {
    Message { from: u16, to: u16, message: Message<Coin> },
    Tick,
}

/// A network, run as far as is wanted.
pub struct Network {
    setting: Setting,
    load: Load,
    nodes: Vec<Avalanche<Coin>>,
    ledger: Ledger,
    processors: Vec<u64>,
    links: Vec<u64>,
    /// The deadline each node is waked at; the heap of timers may have others of it, which are
    /// stale.
    due: Vec<u64>,
    timers: BTreeSet<(u64, u16)>,
    heap: Heap<Event>,
    random: Random,
    now: u64,
    submitted: u64,
    owed: u64,
    /// Rivals that wait for their turn: when, where, what.
    rivals: VecDeque<(u64, usize, Coin)>,
    attacked: Option<attack::Attack>,
    report: Report,
}

/// Runs the load, and then the rest.
///
/// # Errors
/// [`Invalid`] for numbers that cannot be used.
pub fn run(setting: &Setting, load: Load) -> Result<Report, Invalid> {
    let mut network = Network::new(setting.clone(), load)?;
    network.advance(load.load_ns.saturating_add(load.rest_ns));
    Ok(network.report())
}

impl Network {
    /// A network before its first payment.
    ///
    /// # Errors
    /// [`Invalid`] for numbers that cannot be used.
    pub fn new(setting: Setting, load: Load) -> Result<Self, Invalid> {
        let electorate = Electorate::new(&setting.stakes())?;
        let mut settings = Settings::new(setting.numbers);
        settings.counters = load.counters;
        settings.batch = load.batch;
        settings.polls = 256;
        settings.own_polls = 8;
        settings.poll_timeout = Duration::from_nanos(setting.world.timeout_ns);
        let node = |me: usize| {
            let seed = setting.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ ((me as u64 + 1) << 20);
            Avalanche::of(settings, ReplicaId(me as u16), &electorate, seed)
        };
        let attacked = setting.adversary == Adversary::Liveness && setting.faulty > 0;
        let mut heap = Heap::new();
        heap.add(0, Event::Tick);
        Ok(Self {
            nodes: (0..setting.nodes).map(node).collect::<Result<_, _>>()?,
            ledger: Ledger::new(setting.nodes, setting.correct()),
            processors: vec![0; setting.nodes],
            links: vec![0; setting.nodes],
            due: vec![u64::MAX; setting.nodes],
            timers: BTreeSet::new(),
            heap,
            random: Random::new(setting.seed),
            now: 0,
            submitted: 0,
            owed: 0,
            rivals: VecDeque::new(),
            attacked: attacked.then(attack::Attack::default),
            report: Report::default(),
            setting,
            load,
        })
    }

    /// A count that a node keeps of its graph and that is not what it should be, with the node.
    #[must_use]
    pub fn miscounted(&self) -> Option<(usize, String)> {
        let mut nodes = self.nodes.iter().enumerate();
        nodes.find_map(|(me, node)| node.miscounted().map(|what| (me, what)))
    }

    /// Runs until this time, or until two spends of one output are accepted.
    pub fn advance(&mut self, until_ns: u64) {
        while self.ledger.violation.is_none() {
            let message = self.heap.peek();
            let timer = self.timers.first().map(|(at, _)| *at);
            let Some(next) = message.into_iter().chain(timer).min().filter(|at| *at <= until_ns)
            else {
                break;
            };
            self.now = next;
            if timer == Some(next) {
                if let Some((_, me)) = self.timers.pop_first() {
                    self.due[usize::from(me)] = u64::MAX;
                    self.step(next, usize::from(me), Input::Timeout);
                }
            } else if let Some((_, event)) = self.heap.next() {
                self.happen(next, event);
            }
        }
        if self.ledger.violation.is_none() {
            self.now = self.now.max(until_ns);
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Tick => self.tick(now),
            Event::Message { from, to, message } => {
                self.report.messages += 1;
                let me = usize::from(to);
                let fresh = match &message {
                    Message::Query { vertex, .. } | Message::Have(vertex)
                        if !self.nodes[me].knows(&vertex.id()) =>
                    {
                        vertex.transactions().len() as u64
                    }
                    _ => 0,
                };
                let cost = self.setting.world.message_ns + fresh * self.setting.world.verify_ns;
                self.processors[me] = now.max(self.processors[me]) + cost;
                self.report.busy_ns += cost;
                self.step(now, me, Input::Message { from: ReplicaId(from), message });
            }
        }
    }

    /// Submits what is due.
    fn tick(&mut self, now: u64) {
        if now < self.load.load_ns {
            self.heap.add(now + TICK_NS, Event::Tick);
            self.owed += self.load.rate * TICK_NS;
            let issuers = self.load.issuers.clamp(1, self.setting.correct().max(1));
            let due = self.owed / 1_000_000_000;
            self.owed %= 1_000_000_000;
            let mut batches = vec![Vec::new(); issuers];
            for _ in 0..due {
                let at = (self.submitted % issuers as u64) as usize;
                self.submitted += 1;
                let coin = self.ledger.mint(now);
                if self.random.below(1000) < self.load.double_permille {
                    let later = now + self.random.below(4) * TICK_NS;
                    let rival = self.ledger.rival(&coin);
                    let other = self.random.below(self.setting.correct() as u64) as usize;
                    self.rivals.push_back((later, other, rival));
                }
                batches[at].push(coin);
            }
            let places = self.setting.correct() / issuers;
            for (at, batch) in batches.into_iter().enumerate() {
                if !batch.is_empty() {
                    self.step(now, at * places, Input::Submit(batch));
                }
            }
            for _ in 0..self.rivals.len() {
                let Some((at, node, coin)) = self.rivals.pop_front() else { break };
                if at <= now {
                    self.step(now, node, Input::Submit(vec![coin]));
                } else {
                    self.rivals.push_back((at, node, coin));
                }
            }
            self.attack(now);
        }
    }

    fn step(&mut self, now: u64, me: usize, input: Input<Coin>) {
        let past = Seen { ledger: &self.ledger, node: me };
        let fx = self.nodes[me].step(Time(now), input, &past);
        let ledger = &mut self.ledger;
        let persisted = fx.persist(|records| {
            records.into_iter().for_each(|record| ledger.write(now, me, record));
            Ok::<(), std::convert::Infallible>(())
        });
        let leaves = now.max(self.processors[me]);
        for output in persisted.unwrap_or_default() {
            match output {
                Output::Send { to, message } => self.send(leaves, me, to, message),
                Output::Serve { to, vertex } => {
                    if let Some(vertex) = self.ledger.vertex(&vertex) {
                        self.send(leaves, me, to, Message::Have(vertex));
                    }
                }
                Output::Accepted { .. } => {}
                Output::Rejected { .. } => self.report.rejections += 1,
                Output::NotTaken { .. } => self.report.not_taken += 1,
            }
        }
        let due = self.nodes[me].deadline().map_or(u64::MAX, |due| due.0.max(now + 1));
        if due != self.due[me] {
            self.timers.remove(&(self.due[me], me as u16));
            self.due[me] = due;
            if due != u64::MAX {
                self.timers.insert((due, me as u16));
            }
        }
    }

    fn send(&mut self, now: u64, from: usize, to: ReplicaId, mut message: Message<Coin>) {
        let mut later = 0;
        if from >= self.setting.correct()
            && let Message::Answer { vote, .. } = &mut message
        {
            match self.setting.adversary {
                Adversary::Withhold => return,
                Adversary::Opposite | Adversary::Balance => {
                    *vote = if *vote == Vote::Yes { Vote::No(Vec::new()) } else { Vote::Yes };
                }
                Adversary::Split => *vote = Vote::Yes,
                Adversary::Slow => {
                    let away = 2 * self.setting.world.delay(from, to.index()) + 1_000_000;
                    later = self.setting.world.timeout_ns.saturating_sub(away);
                }
                Adversary::Eclipse | Adversary::Liveness => {}
            }
        }
        let bytes = HEAD_BYTES
            + match &message {
                Message::Query { vertex, .. } | Message::Have(vertex) => {
                    NAME_BYTES * vertex.parents().len() as u64
                        + PAYMENT_BYTES * vertex.transactions().len() as u64
                }
                Message::Answer { vote: Vote::No(against), .. } => {
                    NAME_BYTES * against.len() as u64
                }
                Message::Answer { .. } => 0,
                Message::Want(_) => NAME_BYTES,
            };
        let world = &self.setting.world;
        let mut leaves = now.max(self.links[from]);
        leaves += (bytes * 1_000_000_000).checked_div(world.bandwidth).unwrap_or(0);
        self.links[from] = leaves;
        self.report.bytes += bytes;
        let lost = world.lost_ppm > 0 && self.random.below(1_000_000) < world.lost_ppm;
        if !lost {
            let at = leaves + world.delay(from, to.index()) + later;
            self.heap.add(at, Event::Message { from: from as u16, to: to.0, message });
        }
    }

    /// What has come of it so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        for node in &self.nodes {
            let counts = node.counts();
            report.no_ops += counts.no_ops;
            report.polls.0 += counts.polls_won;
            report.polls.1 += counts.polls_lost;
        }
        report.submitted = self.submitted;
        report.simulated_ns = self.now;
        report.attacked_ns = self.attacked.as_ref().and_then(|attack| {
            let target = attack.target.as_ref()?;
            Some(self.ledger.latency(target))
        });
        self.ledger.tell(self.load.load_ns, &mut report);
        report
    }
}

#[cfg(test)]
mod tests;
