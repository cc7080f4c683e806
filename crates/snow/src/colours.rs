//! Nodes that decide between two colours.

use std::collections::VecDeque;

use quorate_core::ReplicaId;
use quorate_core::protocols::snow::parameters::Invalid;
use quorate_core::protocols::snow::poll::{Colour, Outcome, Poll};
use quorate_core::protocols::snow::random::Random;
use quorate_core::protocols::snow::sampling::{Asked, Electorate, Sampler};
use quorate_core::protocols::snow::slush::Slush;
use quorate_core::protocols::snow::snowball::Snowball;
use quorate_core::protocols::snow::snowflake::Snowflake;

use crate::heap::Heap;
use crate::setting::{Adversary, Setting, quantile};

/// Bytes of a question and of an answer, headers included.
const BYTES: u64 = 64;
/// The polls of Slush.
const SLUSH_POLLS: u32 = 60;

/// Which of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Slush.
    Slush,
    /// Snowflake.
    Snowflake,
    /// Snowball.
    Snowball,
}

enum State {
    Slush(Slush),
    Snowflake(Snowflake),
    Snowball(Snowball),
}

impl State {
    fn new(kind: Kind, colour: Colour, decision: u32) -> Self {
        match kind {
            Kind::Slush => Self::Slush(Slush::new(Some(colour), SLUSH_POLLS)),
            Kind::Snowflake => Self::Snowflake(Snowflake::new(Some(colour), decision)),
            Kind::Snowball => Self::Snowball(Snowball::new(Some(colour), decision)),
        }
    }

    fn colour(&self) -> Colour {
        let colour = match self {
            Self::Slush(node) => node.colour(),
            Self::Snowflake(node) => node.colour(),
            Self::Snowball(node) => node.colour(),
        };
        colour.unwrap_or_default()
    }

    fn polled(&mut self, outcome: Option<Outcome>) {
        match self {
            Self::Slush(node) => node.polled(outcome),
            Self::Snowflake(node) => node.polled(outcome),
            Self::Snowball(node) => node.polled(outcome),
        }
    }

    fn decided(&self) -> Option<Colour> {
        match self {
            Self::Slush(node) => node.decided(),
            Self::Snowflake(node) => node.decided(),
            Self::Snowball(node) => node.decided(),
        }
    }

    /// Polls in a row, and Snowball's confidence in either colour.
    fn standing(&self) -> (u32, [u32; 2]) {
        match self {
            Self::Slush(_) => (0, [0; 2]),
            Self::Snowflake(node) => (node.count(), [0; 2]),
            Self::Snowball(node) => {
                (node.count(), [0, 1].map(|colour| node.confidence(Colour(colour))))
            }
        }
    }
}

struct Node {
    state: State,
    sampler: Sampler,
    random: Random,
    poll: Poll,
    /// The seats of each peer of the poll that has not answered.
    asked: Vec<Asked>,
    number: u32,
    polls: u32,
    decided_at: Option<u64>,
}

#[derive(Clone, Copy)]
enum Event {
    Query { from: u16, to: u16, number: u32 },
    Answer { from: u16, to: u16, number: u32, colour: Colour },
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Correct nodes, and how many of them decided.
    pub correct: usize,
    /// How many of these decided.
    pub decided: usize,
    /// Decisions for the colours 0 and 1, without the eclipsed node's.
    pub decisions: [usize; 2],
    /// Whether an eclipsed node decided differently from the others. That breaks no promise: it
    /// talked to nobody correct.
    pub eclipsed_apart: bool,
    /// Polls of a node until it decided, on average.
    pub polls: f64,
    /// When nodes decided, in nanoseconds: the median, the slowest hundredth, the last.
    pub times_ns: [u64; 3],
    /// Messages delivered.
    pub messages: u64,
    /// Simulated time.
    pub simulated_ns: u64,
    /// A hash of all events.
    pub trace: u64,
}

impl Report {
    /// Whether two correct nodes decided differently.
    #[must_use]
    pub fn is_unsafe(&self) -> bool {
        self.decisions[0] > 0 && self.decisions[1] > 0
    }
}

/// A network, run as far as is wanted.
pub struct Network {
    setting: Setting,
    nodes: Vec<Node>,
    processors: Vec<u64>,
    links: Vec<u64>,
    heap: Heap<Event>,
    timers: VecDeque<(u64, u16, u32)>,
    random: Random,
    /// Correct nodes by colour.
    colours: [usize; 2],
    undecided: usize,
    now: u64,
    messages: u64,
    trace: u64,
}

/// A node, looked at from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it answers with, if it is correct.
    pub colour: Colour,
    /// Whether it does what the adversary wants.
    pub is_faulty: bool,
    /// Successful polls in a row.
    pub count: u32,
    /// Snowball: successful polls for the colours 0 and 1.
    pub confidence: [u32; 2],
    /// Polls begun.
    pub polls: u32,
    /// When it decided, in nanoseconds.
    pub decided_at: Option<u64>,
}

/// Runs until all correct nodes have decided, or `limit_ns` of simulated time are over. Of the
/// correct nodes `red_permille` begin with colour 0.
///
/// # Errors
/// [`Invalid`] for numbers that cannot be used.
pub fn run(
    setting: &Setting,
    kind: Kind,
    red_permille: u64,
    limit_ns: u64,
) -> Result<Report, Invalid> {
    let mut network = Network::new(setting.clone(), kind, red_permille)?;
    network.advance(limit_ns);
    Ok(network.report())
}

impl Network {
    /// A network in which each correct node has begun its first poll. Of the correct nodes
    /// `red_permille` begin with colour 0.
    ///
    /// # Errors
    /// [`Invalid`] for numbers that cannot be used.
    pub fn new(setting: Setting, kind: Kind, red_permille: u64) -> Result<Self, Invalid> {
        let numbers = setting.numbers.checked()?;
        let electorate = Electorate::new(&setting.stakes())?;
        let correct = setting.correct();
        let red = (correct as u64 * red_permille).div_ceil(1000) as usize;
        let mut nodes = Vec::with_capacity(setting.nodes);
        for me in 0..setting.nodes {
            let seed = setting.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ ((me as u64 + 1) << 20);
            // Colours alternate, so that every place has both.
            let is_red = (me + 1) * red / correct.max(1) > me * red / correct.max(1);
            nodes.push(Node {
                state: State::new(kind, Colour(u16::from(!is_red)), numbers.decision),
                sampler: electorate.sampler(ReplicaId(me as u16), numbers.sample)?,
                random: Random::new(seed),
                poll: Poll::new(0, 1, 1),
                asked: Vec::new(),
                number: 0,
                polls: 0,
                decided_at: None,
            });
        }
        let mut colours = [0; 2];
        nodes[..correct].iter().for_each(|node| colours[usize::from(node.state.colour().0)] += 1);
        let mut network = Self {
            processors: vec![0; setting.nodes],
            links: vec![0; setting.nodes],
            heap: Heap::new(),
            timers: VecDeque::new(),
            random: Random::new(setting.seed),
            colours,
            undecided: correct,
            now: 0,
            messages: 0,
            trace: 0,
            nodes,
            setting,
        };
        (0..correct).for_each(|node| network.ask(0, node));
        Ok(network)
    }

    /// Runs until all correct nodes have decided, or this time has come.
    pub fn advance(&mut self, until_ns: u64) {
        while self.undecided > 0 {
            let timer = self.timers.front().map_or(u64::MAX, |(at, ..)| *at);
            let next = self.heap.peek().unwrap_or(u64::MAX).min(timer);
            if next > until_ns || next == u64::MAX {
                break;
            }
            self.now = self.now.max(next);
            if timer == next {
                self.expire();
            } else if let Some((_, event)) = self.heap.next() {
                self.happen(self.now, event);
            }
        }
        if self.undecided > 0 && until_ns < u64::MAX {
            self.now = self.now.max(until_ns);
        }
    }

    /// Simulated nanoseconds so far.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// Correct nodes that have not decided.
    #[must_use]
    pub fn undecided(&self) -> usize {
        self.undecided
    }

    /// Correct nodes by their colour.
    #[must_use]
    pub fn colours(&self) -> [usize; 2] {
        self.colours
    }

    /// The nodes by their number, the faulty ones last.
    pub fn nodes(&self) -> impl Iterator<Item = Seen> {
        self.nodes.iter().enumerate().map(|(at, node)| {
            let (count, confidence) = node.state.standing();
            Seen {
                colour: node.state.colour(),
                is_faulty: at >= self.setting.correct(),
                count,
                confidence,
                polls: node.polls,
                decided_at: node.decided_at,
            }
        })
    }

    /// When a message that is sent now arrives; none if it is lost.
    fn arrival(&mut self, now: u64, from: usize, to: usize) -> Option<u64> {
        let world = &self.setting.world;
        let mut leaves = now.max(self.links[from]);
        if let Some(wire) = (BYTES * 1_000_000_000).checked_div(world.bandwidth) {
            leaves += wire;
        }
        self.links[from] = leaves;
        let lost = world.lost_ppm > 0 && self.random.below(1_000_000) < world.lost_ppm;
        (!lost).then(|| leaves + world.delay(from, to))
    }

    fn ask(&mut self, now: u64, me: usize) {
        let numbers = &self.setting.numbers;
        let node = &mut self.nodes[me];
        node.number += 1;
        node.polls += 1;
        node.poll = Poll::new(numbers.sample, numbers.quorum, numbers.quorum);
        let mut asked = std::mem::take(&mut node.asked);
        node.sampler.draw(&mut node.random, numbers.sample, &mut asked);
        if self.setting.adversary == Adversary::Eclipse && me == 0 && self.setting.faulty > 0 {
            let (first, faulty) = (self.setting.correct(), self.setting.faulty);
            for (at, asked) in asked.iter_mut().enumerate() {
                asked.peer = ReplicaId((first + at % faulty) as u16);
            }
        }
        let number = node.number;
        for Asked { peer: to, .. } in &asked {
            if let Some(at) = self.arrival(now, me, to.index()) {
                self.heap.add(at, Event::Query { from: me as u16, to: to.0, number });
            }
        }
        self.nodes[me].asked = asked;
        self.timers.push_back((now + self.setting.world.timeout_ns, me as u16, number));
    }

    fn expire(&mut self) {
        let Some((at, me, number)) = self.timers.pop_front() else { return };
        let node = &mut self.nodes[usize::from(me)];
        if node.number == number && node.decided_at.is_none() {
            let silent = node.asked.iter().map(|asked| asked.seats).sum();
            node.poll.silent(silent);
            node.asked.clear();
            self.end_if_decided(at, usize::from(me));
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        self.messages += 1;
        let world = &self.setting.world;
        let (Event::Query { to, from, number } | Event::Answer { to, from, number, .. }) = event;
        let trace = self.trace ^ now ^ u64::from(to) << 48 ^ u64::from(number);
        self.trace = trace.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let me = usize::from(to);
        let done = now.max(self.processors[me]) + world.message_ns;
        self.processors[me] = done;
        match event {
            Event::Query { .. } => {
                let asker = usize::from(from);
                let Some((colour, later)) = self.opinion(me, asker) else { return };
                if let Some(at) = self.arrival(done, me, asker) {
                    let answer = Event::Answer { from: to, to: from, number, colour };
                    self.heap.add(at + later, answer);
                }
            }
            Event::Answer { colour, .. } => {
                let node = &mut self.nodes[me];
                if node.number != number || node.decided_at.is_some() {
                    return;
                }
                let answers = |asked: &Asked| asked.peer.0 == from;
                let Some(at) = node.asked.iter().position(answers) else { return };
                let seats = node.asked.swap_remove(at).seats;
                node.poll.answer(colour, seats);
                self.end_if_decided(done, me);
            }
        }
    }

    /// What a node answers, and how much later than it could.
    fn opinion(&self, me: usize, asker: usize) -> Option<(Colour, u64)> {
        let honest = self.nodes[me].state.colour();
        if me < self.setting.correct() {
            return Some((honest, 0));
        }
        let (asked, minority) = (self.nodes[asker].state.colour(), self.minority());
        let other = |colour: Colour| Colour(1 - colour.0);
        match self.setting.adversary {
            Adversary::Opposite => Some((other(asked), 0)),
            Adversary::Balance => Some((minority, 0)),
            Adversary::Split => Some((asked, 0)),
            Adversary::Eclipse if asker == 0 => Some((minority, 0)),
            Adversary::Eclipse | Adversary::Liveness => Some((other(minority), 0)),
            Adversary::Withhold => None,
            Adversary::Slow => {
                let away = 2 * self.setting.world.delay(me, asker) + 1_000_000;
                Some((other(minority), self.setting.world.timeout_ns.saturating_sub(away)))
            }
        }
    }

    fn minority(&self) -> Colour {
        Colour(u16::from(self.colours[1] < self.colours[0]))
    }

    fn end_if_decided(&mut self, now: u64, me: usize) {
        let node = &mut self.nodes[me];
        let Some(outcome) = node.poll.outcome() else { return };
        let before = node.state.colour();
        node.state.polled(outcome);
        let after = node.state.colour();
        self.colours[usize::from(before.0)] -= 1;
        self.colours[usize::from(after.0)] += 1;
        if node.state.decided().is_some() {
            node.decided_at = Some(now);
            self.undecided -= 1;
        } else {
            self.ask(now, me);
        }
    }

    /// What has come of it so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report { correct: self.setting.correct(), ..Report::default() };
        let eclipsed = self.setting.adversary == Adversary::Eclipse && self.setting.faulty > 0;
        let (mut times, mut polls) = (Vec::new(), 0);
        let mut victim = None;
        for (at, node) in self.nodes[..self.setting.correct()].iter().enumerate() {
            let (Some(colour), Some(time)) = (node.state.decided(), node.decided_at) else {
                continue;
            };
            times.push(time);
            polls += u64::from(node.polls);
            if eclipsed && at == 0 {
                victim = Some(colour);
            } else {
                report.decisions[usize::from(colour.0)] += 1;
            }
        }
        times.sort_unstable();
        let others = &report.decisions;
        report.eclipsed_apart = victim.is_some_and(|of| others[usize::from(1 - of.0)] > 0);
        report.decided = times.len();
        report.polls = polls as f64 / times.len().max(1) as f64;
        report.times_ns = [0.5, 0.99, 1.0].map(|share| quantile(&times, share));
        report.simulated_ns = self.now;
        report.messages = self.messages;
        report.trace = self.trace;
        report
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::protocols::snow::parameters::Parameters;

    use super::*;
    use crate::setting::{Stake, World};

    fn setting(adversary: Adversary, faulty: usize) -> Setting {
        let numbers = Parameters { decision: 30, ..Parameters::PAPER };
        let (world, stake) = (World::uniform(50_000_000), Stake::Equal);
        Setting { nodes: 200, faulty, adversary, numbers, stake, world, seed: 7 }
    }

    #[test]
    fn all_decide_the_same_and_a_seed_does_the_same_again() {
        for kind in [Kind::Snowflake, Kind::Snowball] {
            let of = |setting: &Setting| run(setting, kind, 500, 60_000_000_000).unwrap();
            let setting = setting(Adversary::Opposite, 0);
            let (one, again) = (of(&setting), of(&setting));
            assert_eq!((one.decided, one.is_unsafe()), (200, false), "{kind:?} {one:?}");
            assert_eq!((one.trace, one.messages), (again.trace, again.messages));
            assert_ne!(of(&Setting { seed: 8, ..setting }).trace, one.trace);
        }
    }

    #[test]
    fn no_adversary_below_the_promised_share_makes_two_nodes_decide_differently() {
        for (_, adversary) in Adversary::ALL {
            let report =
                run(&setting(adversary, 30), Kind::Snowball, 500, 100_000_000_000).unwrap();
            assert!(!report.is_unsafe(), "{adversary:?} {report:?}");
            assert_eq!(report.eclipsed_apart, adversary == Adversary::Eclipse, "{report:?}");
        }
    }

    #[test]
    fn a_share_beyond_alpha_breaks_safety_and_the_oracle_sees_it() {
        let report = run(&setting(Adversary::Split, 150), Kind::Snowflake, 500, 1 << 40).unwrap();
        assert!(report.is_unsafe(), "{report:?}");
    }

    #[test]
    fn loss_and_unequal_stakes_cost_time_alone() {
        let mut setting = setting(Adversary::Opposite, 0);
        setting.world.lost_ppm = 20_000;
        setting.world.timeout_ns = 400_000_000;
        setting.stake = Stake::Zipf;
        let report = run(&setting, Kind::Snowball, 500, 1 << 42).unwrap();
        assert_eq!((report.decided, report.is_unsafe()), (200, false), "{report:?}");
    }
}
