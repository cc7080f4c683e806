//! The cluster: what it is made of, and how its time goes by.

use std::collections::BTreeMap;

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::Rules;
use quorate_core::base::wire::Encode as _;
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::execution::{Execution, SnapshotHandle};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::protocols::protocol::Protocol;
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::reads::Reads;
use quorate_core::replica::{Halt, Input, Refused, Replica, Settings, SnapshotMeta};
use quorate_core::{Duration, Height, ReplicaId, Time, View};

use super::adversary::Around;
use super::app::Register;
use super::client::{Client, Sent, Targets};
use super::clock::Clock;
use super::config::Config;
use super::disk::Disk;
use super::events::{Event, Events, Parcel};
use super::family::{Family, HotStuffs};
use super::faults::Faults;
use super::keys;
use super::network::{Drops, Meddler, Network};
use super::oracles::Oracles;
use super::reads::Reader;
use super::rng::Rng;
use super::service::Hosting;
use super::strict::Strict;
use super::trace::Trace;
use super::turns::Desk;

/// A replica of production, with a protocol of the family and the register.
pub type Core<F = HotStuffs> = Replica<<F as Family>::Protocol, Register>;
/// What replicas say to each other.
pub type Peer<F = HotStuffs> = PeerMessage<<F as Family>::Types>;

/// A running replica, or the place of one that crashed.
pub struct Slot<F: Family = HotStuffs> {
    /// Which replica runs here.
    pub id: usize,
    /// The replica; `None` while it is down.
    pub core: Option<Box<Core<F>>>,
    /// What it takes for the time.
    pub clock: Clock,
    /// It does nothing until then, as a process that was stopped.
    pub paused_until: Time,
    /// It waits for its disk until then.
    pub(crate) syncs_until: Time,
    /// Its deadline, by the time of the world.
    pub(crate) deadline: Option<Time>,
    /// What it has written.
    pub disk: Disk<F::Types>,
    /// Counts its lives: what was under way in an earlier one is lost.
    pub(crate) life: u64,
    /// It may do what it likes; the oracles do not look at it.
    pub faulty: bool,
    /// The height and command up to which the oracles looked.
    pub(crate) checked: (u64, usize),
    /// Time-outs in a row without the clock moving.
    spins: (Time, u32),
    /// Why it stopped for good, if it did.
    pub halted: Option<Halt>,
    /// It lost its disk once: it must not start as if it had never run.
    pub lost_data: bool,
    /// Its application computes another state from this command on.
    pub breaks_at: Option<usize>,
    /// The newest rules that its program supports from its next start on.
    pub newest_rules: u16,
    /// Its edge to clients knows the formats of these rules, and verifies what those rest on.
    pub formats: Rules,
    /// The snapshot on its way to the disk.
    pub(crate) writing: Option<(Box<SnapshotMeta<F::Types>>, SnapshotHandle)>,
    /// Reads that wait for its state.
    pub(crate) reads: Reads<u64>,
    /// Messages sent, for tests of silence and storms.
    pub sent: u64,
    /// What bends what it sends.
    pub(crate) corrupt: Option<Around>,
}

/// Replicas, clients and what is between them, on virtual time.
pub struct Cluster<F: Family = HotStuffs> {
    /// What it was made of.
    pub config: Config,
    /// The time of the world.
    pub now: Time,
    /// The replicas; behind them the second copies of those that run twice.
    pub slots: Vec<Slot<F>>,
    /// The links between slots.
    pub network: Network,
    /// Those who want commands executed.
    pub clients: Vec<Client>,
    pub(crate) by_key: BTreeMap<PublicKey, usize>,
    /// Who reads without ordering, if somebody does.
    pub reader: Option<Reader>,
    /// Who judges.
    pub oracles: Oracles,
    /// Where all that is left to chance comes from.
    pub rng: Rng,
    pub(crate) events: Events<F>,
    pub(crate) desk: Desk<F>,
    /// Faults that happened, by kind.
    pub faults: Faults,
    /// How many things have happened: messages, timers, verdicts, answers.
    pub steps: u64,
    /// Of these: what arrived at a process that was stopped, and arrives once more.
    pub waits: u64,
    /// Of all that happened: the same seed gives the same.
    pub hash: u64,
    /// What happened, in words, if that is wanted.
    pub trace: Trace,
    /// Who proposed which block, and when.
    pub proposed: Vec<(Time, usize, BlockId)>,
    /// Who committed which block, and when.
    pub committed: Vec<(Time, usize, BlockId)>,
    /// Refusals by reason.
    pub refused: BTreeMap<Refused, u64>,
    /// Says which messages are lost: from, to, message.
    pub drops: Option<Drops<F>>,
    /// Does something to the messages that are sent.
    pub meddler: Option<Meddler<F>>,
    /// What correct replicas noted, by kind.
    pub noted: BTreeMap<&'static str, u64>,
    /// Messages of faulty replicas that no decoder takes.
    pub malformed: u64,
    /// Frames of clients whose signatures do not hold.
    pub unsigned: u64,
}

impl Cluster {
    /// A cluster of HotStuff whose replicas have just started for the first time.
    pub fn new(config: Config) -> Self {
        Self::traced(config, Trace::default())
    }

    /// A cluster of HotStuff that just started, with what it does written down in `trace`.
    pub fn traced(config: Config, trace: Trace) -> Self {
        Self::of(config, trace)
    }

    /// From now on the oracles look at what replicas hold as well, and at what they refuse.
    pub fn watch_strictly(&mut self) {
        let mut strict = Strict::new(&self.config);
        for slot in self.slots.iter().filter(|slot| slot.faulty) {
            strict.is_a_liar(slot.id);
        }
        self.oracles.strict = Some(strict);
    }
}

impl<F: Family> Cluster<F> {
    /// A cluster of a family whose replicas have just started for the first time, with what it does
    /// written down in `trace`.
    pub fn of(config: Config, mut trace: Trace) -> Self {
        let ids: Vec<usize> = (0..config.replicas).chain(config.twins.iter().copied()).collect();
        let slots = ids.iter().map(|id| Slot {
            id: *id,
            core: None,
            clock: Clock::default(),
            paused_until: Time(0),
            syncs_until: Time(0),
            deadline: None,
            disk: Disk::default(),
            life: 0,
            faulty: config.twins.contains(id),
            checked: (0, 0),
            spins: (Time(0), 0),
            halted: None,
            lost_data: false,
            breaks_at: None,
            newest_rules: 1,
            formats: Rules::EVERY_FORMAT,
            writing: None,
            reads: Reads::default(),
            sent: 0,
            corrupt: None,
        });
        F::set_up(&mut trace, &config);
        let mut cluster = Self {
            now: Time(0),
            slots: slots.collect(),
            network: Network::new(ids.len(), config.link),
            clients: (0..config.clients).map(|id| Client::new(id, &config)).collect(),
            by_key: keys::clients_by_key(config.clients),
            reader: None,
            oracles: Oracles::of(config.replicas),
            rng: Rng::new(config.seed),
            events: Events::default(),
            desk: Desk::default(),
            faults: Faults::default(),
            steps: 0,
            waits: 0,
            hash: config.seed,
            trace,
            proposed: Vec::new(),
            committed: Vec::new(),
            refused: BTreeMap::new(),
            drops: None,
            meddler: None,
            noted: BTreeMap::new(),
            malformed: 0,
            unsigned: 0,
            config,
        };
        for slot in 0..cluster.slots.len() {
            cluster.boot(slot);
        }
        cluster
    }

    fn settings(&self, id: usize) -> Settings {
        Settings {
            me: ReplicaId(id as u16),
            batch_commands: self.config.batch_commands,
            batch_bytes: 1 << 20,
            inline_bytes: self.config.inline_bytes,
            relay_after: Duration::from_micros(self.config.relay_after),
            snapshot_blocks: self.config.snapshot_blocks,
            max_snapshot_bytes: 64 << 20,
            mempool: self.config.mempool,
            filtering: self.config.filtering,
            ancestors: self.config.ancestors,
            dissemination: self.config.dissemination,
            certificate_cache: true,
        }
    }

    pub(crate) fn make_core(&self, slot: usize, execution: Execution<Register>) -> Core<F> {
        let id = self.slots[slot].id;
        let protocol = F::protocol(self, slot);
        let committee = self.config.committee();
        Replica::new(self.settings(id), committee, protocol, execution, Box::new(self.fresh(slot)))
    }

    /// What makes the applications of a slot's program.
    pub(crate) fn fresh(&self, slot: usize) -> impl Fn() -> Register + Send + use<F> {
        let (service, newest) = (self.config.service.clone(), self.slots[slot].newest_rules);
        move || Register::of(service.as_ref().map(Hosting::fresh), newest)
    }

    /// A channel between two replicas opens (again): both are told.
    pub fn reconnect(&mut self, one: usize, two: usize) {
        if self.slots[one].id == self.slots[two].id {
            return;
        }
        self.schedule(0, Event::Connected { to: one, peer: two });
        self.schedule(0, Event::Connected { to: two, peer: one });
    }

    /// Kills a replica as `kill -9` does: what the system was given is kept.
    pub fn crash(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        place.core = None;
        place.deadline = None;
        (place.paused_until, place.syncs_until) = (Time(0), Time(0));
        place.life += 1;
        place.checked = (0, 0);
        place.writing = None;
        place.reads = Reads::default();
        place.disk.close();
        self.count_disk_faults(slot);
        if let Some(strict) = &mut self.oracles.strict {
            strict.stopped(self.slots[slot].id);
        }
        self.note(slot, || "crashes".into());
    }

    /// Gives each slot a clock of its own. To be called before time goes by: the clocks are those
    /// of machines that run all the time.
    pub fn set_clocks(&mut self, clocks: &[Clock]) {
        for (slot, clock) in clocks.iter().enumerate() {
            self.crash(slot);
            self.slots[slot].clock = *clock;
            self.slots[slot].disk = Disk::default();
            self.boot(slot);
        }
    }

    /// A slot does nothing for so many microseconds, as a process that is stopped and goes on.
    pub fn pause(&mut self, slot: usize, micros: u64) {
        self.faults.fired("pause");
        self.note(slot, || "is stopped for a while".into());
        let until = self.now.after(Duration::from_micros(micros));
        let place = &mut self.slots[slot];
        place.paused_until = place.paused_until.max(until);
    }

    pub(crate) fn schedule(&mut self, delay: u64, event: Event<F>) {
        self.events.push(self.now.after(micros(delay)), event);
    }

    pub(crate) fn note(&mut self, slot: usize, line: impl FnOnce() -> String) {
        self.trace.note(self.now, slot, line);
    }

    /// A client turns to these replicas alone.
    pub fn turn_client_to(&mut self, client: usize, targets: Targets) {
        let sent = self.clients[client].turn_to(self.now, targets);
        self.submit(client, sent);
    }

    /// A client wants `count` commands of `bytes` bytes executed; where a service is tested,
    /// commands of its own.
    pub fn request(&mut self, client: usize, count: u64, bytes: usize) {
        *self.oracles.asked.entry(format!("c{client}")).or_default() += count;
        let sent = match &self.config.service {
            None => self.clients[client].request(self.now, count, bytes),
            Some(service) => {
                let bodies = (0..count).map(|_| service.command(&mut self.rng));
                let bodies: Vec<Vec<u8>> = bodies.collect();
                self.clients[client].request_these(self.now, &bodies)
            }
        };
        self.submit(client, sent);
        self.read();
    }

    /// A client that is none of the cluster's sends a frame to one replica.
    pub fn intrude(&mut self, to: usize, frame: SharedFrame) {
        let delay = self.rng.between(self.config.link.delay);
        self.schedule(delay, Event::Frame { to, frame, relay: false });
    }

    /// Sends what a client wants sent, and sees to it that it is woken.
    pub(crate) fn submit(&mut self, client: usize, sent: Vec<Sent>) {
        for Sent { to, relay, frame } in sent {
            for slot in 0..self.slots.len() {
                let id = self.slots[slot].id;
                let meant = to.is_none_or(|to| to == id) && self.clients[client].reaches(id);
                if meant && self.slots[slot].core.is_some() {
                    let delay = self.rng.between(self.config.link.delay);
                    self.schedule(delay, Event::Frame { to: slot, frame: frame.clone(), relay });
                }
            }
        }
        let client = &mut self.clients[client];
        if let Some(deadline) = client.deadline()
            && client.wakes.is_none_or(|wakes| wakes > deadline)
        {
            client.wakes = Some(deadline);
            self.events.push(deadline, Event::Wake { client: client.id });
        }
    }

    /// The next thing that happens, if anything is scheduled at or before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let timer = self.timers().min();
        let event = self.events.next();
        let (at, slot) = match (timer, event) {
            (Some((at, slot)), event) if event.is_none_or(|event| at < event) => (at, Some(slot)),
            (_, Some(at)) => (at, None),
            _ => return false,
        };
        if at > until {
            return false;
        }
        self.now = self.now.max(at);
        self.steps += 1;
        if let Some(slot) = slot {
            self.mix(slot as u64);
            self.fire(slot);
        } else if let Some(event) = self.events.pop() {
            self.mix(event.code());
            self.happen(event);
        }
        true
    }

    /// Makes what happens now a part of the hash.
    pub(crate) fn mix(&mut self, what: u64) {
        let mixed =
            (self.hash ^ self.now.0.rotate_left(32) ^ what).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.hash = mixed ^ (mixed >> 29);
    }

    /// Of the run so far: what happened and when, and what it came to.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        let acknowledged: u64 = self.clients.iter().map(|client| client.acknowledged).sum();
        let parts = [self.config.seed, self.steps, self.oracles.height(), acknowledged];
        parts.iter().fold(self.hash, |hash, part| {
            let mixed = (hash ^ part).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed ^ (mixed >> 31)
        })
    }

    pub(crate) fn timers(&self) -> impl Iterator<Item = (Time, usize)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, place)| Some((place.deadline?.max(place.paused_until), slot)))
    }

    /// Whether any timer runs.
    pub fn has_timer(&self) -> bool {
        self.timers().next().is_some()
    }

    /// Messages and verdicts under way (clients' patience does not count).
    pub fn in_flight(&self) -> usize {
        let waits = |event: &&Event<F>| {
            !matches!(event, Event::Wake { .. } | Event::WakeReader | Event::Tick { .. })
        };
        self.events.iter().filter(waits).count()
    }

    fn fire(&mut self, slot: usize) {
        let now = self.now;
        let spins = &mut self.slots[slot].spins;
        *spins = if spins.0 == now { (now, spins.1 + 1) } else { (now, 0) };
        assert!(spins.1 < 20, "liveness: the timer of slot {slot} is always due");
        self.turn(slot, Input::Timeout);
    }

    /// Goes on for so many microseconds.
    pub fn run_for(&mut self, micros: u64) {
        let until = self.now.after(Duration::from_micros(micros));
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until `done`, at most so long; says whether it came to that.
    pub fn run_until(&mut self, micros: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now.after(Duration::from_micros(micros));
        while !done(self) {
            if !self.step(until) {
                return false;
            }
        }
        true
    }

    /// Runs until every client has all its answers.
    pub fn run_until_answered(&mut self, micros: u64) -> bool {
        self.run_until(micros, Self::is_answered)
    }

    /// Whether every client has all its answers.
    pub fn is_answered(&self) -> bool {
        self.clients.iter().all(Client::is_done)
    }

    /// A frame of a client that is none of the cluster's own arrives now.
    pub fn submit_to(&mut self, to: usize, frame: SharedFrame) {
        self.schedule(0, Event::Frame { to, frame, relay: false });
    }

    /// A message that somebody made up arrives now.
    pub fn inject(&mut self, from: usize, to: usize, message: &Peer<F>) {
        let parcel = Parcel::Bytes(message.to_bytes().into());
        let sent = self.now;
        self.schedule(0, Event::Deliver { to, from, sent, parcel });
    }

    /// The highest view any correct replica is in.
    pub fn highest_view(&self) -> View {
        let views = self.correct().map(|core| core.protocol().view());
        views.max().unwrap_or_default()
    }

    /// The correct replicas that run.
    pub fn correct(&self) -> impl Iterator<Item = &Core<F>> {
        self.slots.iter().filter(|slot| !slot.faulty).filter_map(|slot| slot.core.as_deref())
    }

    /// The replica in a slot.
    ///
    /// # Panics
    /// If it is down.
    pub fn core(&self, slot: usize) -> &Core<F> {
        self.slots[slot].core.as_deref().expect("the replica runs")
    }

    /// Whether all correct replicas that run have executed the same commands, and all that clients
    /// believe to be executed. (Their heights may differ: who made the last certificate knows more
    /// blocks without commands to be committed.)
    pub fn is_level(&self) -> bool {
        let all = self.oracles.commands.len();
        self.oracles.awaited.is_empty()
            && self.correct().all(|core| core.execution().application().committed().len() == all)
    }
}

/// Where a replica stands in HotStuff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The current view.
    pub view: View,
    /// Its leader.
    pub leader: ReplicaId,
    /// The view of the high QC.
    pub high_qc: View,
    /// The view of the lock.
    pub lock: View,
    /// The committed height.
    pub committed: Height,
    /// Blocks above it.
    pub uncommitted: usize,
    /// The view up to which it abstains, if it does.
    pub abstain_until: View,
}

/// Where a replica stands.
pub fn status_of(core: &Core) -> Standing {
    let protocol = core.protocol();
    let status = protocol.status();
    Standing {
        view: status.view,
        leader: status.leader.unwrap_or_default(),
        high_qc: protocol.high_qc().view(),
        lock: protocol.safety().lock.view(),
        committed: status.committed,
        uncommitted: status.uncommitted,
        abstain_until: status.abstain_until,
    }
}

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}
