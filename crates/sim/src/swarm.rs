//! Swarm testing: what a cluster is, what happens to it and when, all drawn from one seed.
//!
//! Each run has two phases, as TigerBeetle's simulator has. In the *storm* anything may go wrong,
//! and safety must hold: the [oracles](crate::oracles) look on at every step. Then the network
//! heals, who is down comes back, and *liveness* must hold: the next commit comes within so many
//! [views](crate::liveness), every command is answered, all replicas come to one state, and, where
//! nobody lies, the cluster falls silent.

mod changes;
pub(crate) mod draw;
mod storm;

use quorate_adversary::Schedule;
use quorate_core::Duration;
use quorate_core::protocols::hotstuff::rules::Rules;
use quorate_core::protocols::protocol::{Capability, Protocol as _};

use crate::cluster::Cluster;
use crate::family::Family;
use crate::faults::Faults;
use crate::network::Link;
use crate::rng::Rng;
use crate::service::Hosting;
use crate::trace::Trace;

/// How long anything may take that must come at last, in microseconds of the world.
const PATIENCE: u64 = 600_000_000;

/// The rounds of a storm, and what comes after it.
const ROUNDS: u64 = 100;

/// What goes wrong besides the network, crashes and disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: all are correct.
    Faults,
    /// Up to f replicas lie: they run twice with one key, forget what they signed, and do to what
    /// they send what their adversaries do.
    Liars,
    /// Up to f replicas lose their data; or one lies, as above, and f − 1 do.
    LostData,
    /// Members change, of eight replicas that are all correct; one may lose its data. Only where it
    /// is asked for.
    Changes,
    /// The same, and one of them may lie, as above.
    LyingChanges,
}

impl Trouble {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::Faults, Self::Liars, Self::LostData, Self::Changes, Self::LyingChanges];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Liars => "liars",
            Self::LostData => "lost-data",
            Self::Changes => "changes",
            Self::LyingChanges => "lying-changes",
        }
    }

    /// Whether members change.
    #[must_use]
    pub fn changes(self) -> bool {
        matches!(self, Self::Changes | Self::LyingChanges)
    }

    /// The one called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trouble| trouble.name() == name)
    }
}

/// What a run is to be; what is `None` is drawn from the seed.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What goes wrong.
    pub trouble: Option<Trouble>,
    /// The protocol.
    pub rules: Option<&'static dyn Rules>,
    /// How many replicas.
    pub replicas: Option<usize>,
    /// How long the storm lasts, in seconds of the world.
    pub storm_seconds: Option<u64>,
    /// What liars do; the trouble is liars then.
    pub adversary: Option<Schedule>,
    /// The service that is tested, instead of the register alone.
    pub service: Option<Hosting>,
    /// A client reads besides, without ordering.
    pub reads: bool,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many runs.
    pub seeds: u64,
    /// Time of the worlds, in nanoseconds.
    pub simulated: u64,
    /// Messages, timers, verdicts, answers.
    pub events: u64,
    /// Blocks committed: the height reached.
    pub commits: u64,
    /// The highest view reached.
    pub views: u64,
    /// Commands acknowledged.
    pub acknowledged: u64,
    /// Faults that happened, by kind.
    pub faults: Faults,
    /// Of all that happened in the last run.
    pub hash: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.simulated += other.simulated;
        self.events += other.events;
        self.commits += other.commits;
        self.views += other.views;
        self.acknowledged += other.acknowledged;
        self.faults.add(&other.faults);
        self.hash = other.hash;
    }

    fn of<F: Family>(cluster: &Cluster<F>) -> Self {
        Self {
            seeds: 1,
            simulated: cluster.now.0,
            events: cluster.steps,
            commits: cluster.oracles.height(),
            views: cluster.highest_view().0,
            acknowledged: cluster.clients.iter().map(|client| client.acknowledged).sum(),
            faults: cluster.faults.clone(),
            hash: cluster.hash,
        }
    }
}

/// Runs one seed. `place` holds the cluster while it runs, so that whoever catches a violation can
/// look at it.
///
/// # Panics
/// At a violation: the text begins with the oracle's name.
pub fn run<F: Family>(
    seed: u64,
    plan: &Plan,
    trace: Trace,
    place: &mut Option<Cluster<F>>,
) -> Tally {
    let mut rng = Rng::new(seed);
    let liars = plan.adversary.as_ref().map(|_| Trouble::Liars);
    let trouble = liars.or(plan.trouble).unwrap_or_else(|| {
        rng.pick(&[
            Trouble::Faults,
            Trouble::Faults,
            Trouble::Liars,
            Trouble::Liars,
            Trouble::LostData,
        ])
    });
    let trouble = match trouble {
        Trouble::LostData if !F::Protocol::CAPABILITIES.contains(&Capability::Rejoin) => {
            Trouble::Faults
        }
        trouble if trouble.changes() && !F::CHANGES_MEMBERS => Trouble::Faults,
        trouble => trouble,
    };
    let mut config = draw::config(&mut rng, seed, plan, trouble);
    config.service.clone_from(&plan.service);
    F::draw(&mut config);
    // A family may promise less than others: among few then nobody may lie.
    let trouble = match trouble {
        Trouble::Liars if config.twins.is_empty() => Trouble::Faults,
        trouble => trouble,
    };
    let cluster = place.insert(Cluster::of(config, trace));
    draw::clocks(cluster, &mut rng);
    let lies = match trouble {
        Trouble::Liars => plan.adversary.is_some() || rng.percent(70),
        _ => !cluster.config.twins.is_empty(),
    };
    if lies {
        F::lies(cluster, &mut rng, plan.adversary.as_ref());
    }
    // What is looked at besides knows one committee.
    if seed.is_multiple_of(4) && !trouble.changes() {
        F::watch_strictly(cluster);
    }
    // A protocol without a read index has such reads ordered.
    if plan.reads && F::Protocol::CAPABILITIES.contains(&Capability::ReadIndex) {
        cluster.watch_reads();
    }
    storm::rage(cluster, &mut rng, plan, trouble);
    let down = match trouble {
        // In the end the liars lie on, or are silent.
        Trouble::Liars if rng.percent(33) => {
            (0..cluster.slots.len()).filter(|slot| cluster.slots[*slot].faulty).collect()
        }
        _ => Vec::new(),
    };
    heal(cluster, &down);
    if trouble.changes() {
        changes::must_recover(cluster);
        return Tally::of(cluster);
    }
    must_recover(cluster);
    if trouble == Trouble::LostData {
        must_speak_again(cluster);
    }
    if cluster.config.twins.is_empty() {
        must_fall_silent(cluster);
    }
    must_have_said_little(cluster);
    Tally::of(cluster)
}

/// The network heals, and everybody but `down` comes back.
fn heal<F: Family>(cluster: &mut Cluster<F>, down: &[usize]) {
    let healed = Link { loss_percent: 0, straggle_percent: 0, ..cluster.config.link };
    cluster.network.set_all(|link| *link = healed);
    cluster.network.forget_traffic();
    for slot in 0..cluster.slots.len() {
        // Who was stopped goes on; who waits for its disk does not go on without it.
        cluster.slots[slot].paused_until = cluster.slots[slot].syncs_until;
        cluster.notice_power_failure(slot);
        cluster.slots[slot].disk.heal();
        if down.contains(&slot) {
            if cluster.slots[slot].core.is_some() {
                cluster.crash(slot);
            }
        } else if cluster.slots[slot].core.is_none() {
            cluster.boot(slot);
        }
    }
}

fn request_all<F: Family>(cluster: &mut Cluster<F>) {
    for client in 0..cluster.clients.len() {
        cluster.request(client, 1, 10);
    }
}

/// Every command must be answered, and the next commit come in time.
fn must_recover<F: Family>(cluster: &mut Cluster<F>) {
    request_all(cluster);
    assert!(
        cluster
            .run_until(PATIENCE, |cluster| { F::found_together(cluster) || cluster.is_answered() }),
        "liveness: a replica does not get the blocks it lacks"
    );
    request_all(cluster);
    // Views count from when nobody lacks a block: certificates that come up late may be for one,
    // and liars who are asked for it do not answer.
    let (mut found, height) = (cluster.highest_view(), cluster.oracles.height());
    assert!(
        cluster.run_until(PATIENCE, |cluster| {
            if !F::found_together(cluster) {
                found = cluster.highest_view();
            }
            cluster.oracles.height() > height
        }),
        "liveness: nothing is committed after the network healed"
    );
    let (views, allowed) = (cluster.highest_view().0 - found.0, F::views(cluster, found));
    assert!(views <= allowed, "liveness: it took {views} views to commit, {allowed} are allowed");
    assert!(
        cluster.run_until_answered(PATIENCE),
        "liveness: not everything is answered after the network healed"
    );
    assert!(
        cluster.run_until(PATIENCE, Cluster::is_level),
        "liveness: a replica does not catch up: {:?}",
        cluster.correct().map(|core| core.execution().height()).collect::<Vec<_>>()
    );
    must_read(cluster);
    for client in &cluster.clients {
        let executed = cluster.oracles.executed_of(client.id);
        assert_eq!(
            executed, client.acknowledged,
            "acknowledged: c{} was told of more or fewer than were executed",
            client.id
        );
    }
}

/// Where all are correct, have all data and are idle, a read is answered.
fn must_read<F: Family>(cluster: &mut Cluster<F>) {
    let all_say = cluster.config.twins.is_empty() && !cluster.slots.iter().any(|it| it.lost_data);
    if cluster.reader.is_some() && all_say {
        let answered = (0..3).any(|_| cluster.read_now(PATIENCE));
        assert!(answered, "liveness: a read of an idle cluster is not answered");
    }
}

/// After enough views, who lost its data votes again.
fn must_speak_again<F: Family>(cluster: &mut Cluster<F>) {
    for _ in 0..30 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
    assert!(
        cluster.correct().all(|core| !core.is_rejoining()),
        "liveness: a replica that lost its data is not taken in again"
    );
}

/// After all was answered nothing moves any more.
fn must_fall_silent<F: Family>(cluster: &mut Cluster<F>) {
    let silent = |cluster: &Cluster<F>| cluster.in_flight() == 0 && !cluster.has_timer();
    assert!(cluster.run_until(PATIENCE, silent), "liveness: messages or timers without work");
}

/// What replicas say is in proportion to what there is to say: to all, in each view; and some more
/// in each of the storm's rounds, when channels open and blocks are fetched. What a liar says
/// unasked may be heard (by two twins), verified and answered, and no more. A message that leads to
/// another for ever shows here, though all it does is to burn processors.
fn must_have_said_little<F: Family>(cluster: &Cluster<F>) {
    let slots = cluster.slots.len() as u64;
    let lies: u64 = (0..cluster.slots.len()).map(|slot| cluster.deeds(slot).unasked).sum();
    let said = cluster.highest_view().0.max(cluster.oracles.height());
    let most = F::events_a_round(&cluster.config) * slots * slots * (said + ROUNDS) + 8 * lies;
    let events = cluster.steps - cluster.waits;
    assert!(events <= most, "traffic: {events} events, {most} are allowed");
}

/// A duration of the world in words.
#[must_use]
pub fn simulated(nanos: u64) -> String {
    let seconds = Duration::from_nanos(nanos).as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
