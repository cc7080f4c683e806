//! Tests of a service: many clusters that run it, in which anything may go wrong.
//!
//! A [`Trial`] puts a state machine where the simulator has its register, and runs
//! [swarms](crate::swarm): replicas crash, lose power in the middle of a write, lie, and are cut
//! off; they come back from their logs and from each other's snapshots. After every block of a
//! correct replica two things are judged beside the simulator's own [oracles](crate::oracles): the
//! states of all correct replicas have the same root, and what must always hold of the service does
//! hold. A service that depends on anything but its commands, forgets something in its snapshots,
//! panics, or breaks its invariant is found, with the seed that repeats it.
//!
//! ```no_run
//! # use quorate_core::ledger::state_machine::StateMachine;
//! # fn test<Bank: StateMachine + 'static>(new: fn() -> Bank, money: fn(&Bank) -> u64) {
//! use quorate_sim::service::Trial;
//!
//! Trial::new(new, |rng| format!("transfer {} to {}", rng.below(9), rng.below(9)).into_bytes())
//!     .invariant(move |bank| match money(bank) {
//!         1000 => Ok(()),
//!         other => Err(format!("there is {other} of money, and it was 1000")),
//!     })
//!     .run(0..50);
//! # }
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use quorate_core::ledger::state_machine::{Snapshot, StateMachine};

use crate::campaign::{self, Violation};
use crate::cluster::Cluster;
use crate::family::{Family, HotStuffs};
use crate::rng::Rng;
use crate::swarm::{Plan, Tally, Trouble};
use crate::trace::Trace;

/// Lines of a story's end.
const LINES: usize = 60;

/// A service at a replica, whatever its type.
pub(crate) trait Hosted: Send {
    fn machine(&mut self) -> &mut dyn StateMachine;
    fn snapshot(&self) -> Box<dyn Snapshot>;
    fn check(&self) -> Result<(), String>;
}

type Invariant<S> = Arc<dyn Fn(&S) -> Result<(), String> + Send + Sync>;

struct Host<S> {
    service: S,
    invariant: Invariant<S>,
}

impl<S: StateMachine> Hosted for Host<S> {
    fn machine(&mut self) -> &mut dyn StateMachine {
        &mut self.service
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.service.snapshot()
    }

    fn check(&self) -> Result<(), String> {
        (self.invariant)(&self.service)
    }
}

/// Draws a command of a client.
type Command = Arc<dyn Fn(&mut Rng) -> Vec<u8> + Send + Sync>;

/// How the clusters of a trial get their service, and their clients commands.
#[derive(Clone)]
pub struct Hosting {
    fresh: Arc<dyn Fn() -> Box<dyn Hosted> + Send + Sync>,
    command: Command,
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a service")
    }
}

impl Hosting {
    pub(crate) fn fresh(&self) -> Box<dyn Hosted> {
        (self.fresh)()
    }

    pub(crate) fn command(&self, rng: &mut Rng) -> Vec<u8> {
        (self.command)(rng)
    }
}

/// A service, what its clients ask for, and what must always hold of it.
pub struct Trial<S> {
    fresh: Arc<dyn Fn() -> S + Send + Sync>,
    command: Command,
    invariant: Invariant<S>,
    plan: Plan,
}

impl<S: StateMachine + 'static> Trial<S> {
    /// A trial of the service that `fresh` makes in its first state. `command` draws what a client
    /// asks for next: of at most some thousand bytes, and sometimes wrong, as clients are.
    pub fn new(
        fresh: impl Fn() -> S + Send + Sync + 'static,
        command: impl Fn(&mut Rng) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self {
            fresh: Arc::new(fresh),
            command: Arc::new(command),
            invariant: Arc::new(|_| Ok(())),
            plan: Plan::default(),
        }
    }

    /// What must hold of the service after every block; otherwise, what is wrong.
    #[must_use]
    pub fn invariant(
        mut self,
        holds: impl Fn(&S) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariant = Arc::new(holds);
        self
    }

    /// Only this goes wrong besides the network, crashes and disks. By default the seed says.
    #[must_use]
    pub fn trouble(mut self, trouble: Trouble) -> Self {
        self.plan.trouble = Some(trouble);
        self
    }

    /// So many replicas. By default the seed says.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.plan.replicas = Some(replicas);
        self
    }

    /// Runs these seeds, a cluster each; says what happened in them.
    ///
    /// # Panics
    /// At the first violation: with its seed, and the last lines of what happened.
    pub fn run(&self, seeds: Range<u64>) -> Tally {
        let mut tally = Tally::default();
        for seed in seeds {
            match self.seed::<HotStuffs>(seed, Trace::default()) {
                (Ok(of_seed), _) => tally.add(&of_seed),
                (Err(violation), _) => panic!("{}", self.told(&violation)),
            }
        }
        tally
    }

    /// The first of these seeds in which something is violated.
    #[must_use]
    pub fn find(&self, seeds: Range<u64>) -> Option<Violation> {
        seeds.into_iter().find_map(|seed| self.seed::<HotStuffs>(seed, Trace::default()).0.err())
    }

    /// What happens in a seed: its last lines.
    #[must_use]
    pub fn story(&self, seed: u64) -> Vec<String> {
        let (_, cluster) = self.seed::<HotStuffs>(seed, Trace::on());
        let mut lines = cluster.map(|mut cluster| cluster.trace.take()).unwrap_or_default();
        lines.split_off(lines.len().saturating_sub(LINES))
    }

    fn told(&self, violation: &Violation) -> String {
        let Violation { seed, oracle, what, .. } = violation;
        let story = self.story(*seed).join("\n");
        format!(
            "{story}\n\nseed {seed}: {oracle}: {what}\nrepeat it with `run({seed}..{})`",
            seed + 1
        )
    }

    fn seed<F: Family>(
        &self,
        seed: u64,
        trace: Trace,
    ) -> (Result<Tally, Violation>, Option<Cluster<F>>) {
        let (fresh, invariant) = (Arc::clone(&self.fresh), Arc::clone(&self.invariant));
        let host = move || -> Box<dyn Hosted> {
            Box::new(Host { service: fresh(), invariant: Arc::clone(&invariant) })
        };
        let service = Hosting { fresh: Arc::new(host), command: Arc::clone(&self.command) };
        let plan = Plan { service: Some(service), ..self.plan.clone() };
        campaign::run(seed, &plan, trace)
    }
}
