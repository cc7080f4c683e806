//! A whole cluster in one thread: replicas, disks, links, clients and a clock, all from one seed.
//!
//! It drives each replica by `replica::drive::turn`, as production does; messages and records
//! cross it in their encodings. After every step the [oracles] look at what was signed, sent,
//! committed, executed and answered.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod adversary;
pub mod app;
pub mod client;
pub mod config;
pub mod disk;
pub mod keys;
mod lines;
pub mod mutant;
pub mod network;
pub mod oracles;
pub mod rng;
mod serve;
mod tally;
pub mod trace;
mod world;

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_core::block::{Block, BlockId};
use quorate_core::client::message::{Outcome, Response};
use quorate_core::crypto::{PublicKey, Signature};
use quorate_core::execution::Execution;
use quorate_core::frame::SharedFrame;
use quorate_core::hotstuff::{HotStuff, Message};
use quorate_core::replica::drive::turn;
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::{Halt, Input, Refused, Replica, Settings, SnapshotMeta, Submitted};
use quorate_core::sessions::Limits;
use quorate_core::wire::{Decode, Encode};
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time, View, mempool};

use app::Register;
use client::{Client, Targets};
pub use config::Config;
use disk::Disk;
use keys::CHAIN;
use mutant::Driver;
use network::{Meddler, Network};
use oracles::Oracles;
use quorate_adversary::Layer;
use rng::Rng;
use tally::Tally;
use trace::Trace;
use world::Outside;

pub type Core = Replica<Driver, Register>;
pub type Peer = PeerMessage<Message>;

/// A running replica, or the place of one that crashed.
pub struct Slot {
    /// Which replica runs here.
    pub id: usize,
    pub core: Option<Core>,
    pub disk: Disk,
    /// Counts its lives: what was under way in an earlier one is lost.
    life: u64,
    /// It may do what it likes; the oracles do not look at it.
    pub faulty: bool,
    /// The height and command up to which the oracles looked.
    checked: (u64, usize),
    /// Time-outs in a row without the clock moving.
    spins: (Time, u32),
    pub halted: Option<Halt>,
    /// It lost its disk once: it must not start as if it had never run.
    pub lost_data: bool,
    /// Its application computes another state from this command on.
    pub breaks_at: Option<usize>,
    /// The snapshot on its way to the disk.
    writing: Option<(SnapshotMeta, Vec<Bytes>)>,
    /// Messages sent, for tests of silence and storms.
    pub sent: u64,
    /// What bends what it sends.
    pub corrupt: Option<Layer>,
}

enum Event {
    Deliver { to: usize, from: usize, bytes: Bytes },
    Connected { to: usize, peer: usize },
    Frames { to: usize, frames: Vec<SharedFrame>, relay: bool },
    Verified { to: usize, life: u64, ask: u64, verdicts: Vec<bool> },
    Combined { to: usize, life: u64, ask: u64, signature: Option<Signature> },
    SnapshotWritten { to: usize, life: u64, height: Height },
    LogCut { to: usize },
    Answer { from: usize, client: PublicKey, outcome: Outcome },
    Retry { client: usize },
    Tick { slot: usize },
}

pub struct Cluster {
    pub config: Config,
    pub now: Time,
    pub slots: Vec<Slot>,
    pub network: Network,
    pub clients: Vec<Client>,
    by_key: BTreeMap<PublicKey, usize>,
    pub oracles: Oracles,
    pub rng: Rng,
    queue: BTreeMap<(Time, u64), Event>,
    queued: u64,
    pub trace: Trace,
    /// Who proposed which block, and when.
    pub proposed: Vec<(Time, usize, BlockId)>,
    /// Who committed which block, and when.
    pub committed: Vec<(Time, usize, BlockId)>,
    /// Refusals by reason.
    pub refused: BTreeMap<Refused, u64>,
    /// Says which messages are lost: from, to, message.
    pub drops: Option<fn(usize, usize, &Peer) -> bool>,
    /// Does something to the messages that are sent.
    pub meddler: Option<Meddler>,
    /// What correct replicas noted, by kind.
    pub noted: BTreeMap<&'static str, u64>,
    /// Messages of faulty replicas that no decoder takes.
    pub malformed: u64,
    /// Frames of clients whose signatures do not hold.
    pub unsigned: u64,
    /// What replicas, liars among them, told clients.
    tally: Tally,
}

impl Cluster {
    /// A cluster whose replicas have just started for the first time.
    pub fn new(config: Config) -> Self {
        Self::traced(config, Trace::default())
    }

    pub fn traced(config: Config, mut trace: Trace) -> Self {
        let ids: Vec<usize> = (0..config.replicas).chain(config.twins.iter().copied()).collect();
        let slots = ids.iter().map(|id| Slot {
            id: *id,
            core: None,
            disk: Disk::default(),
            life: 0,
            faulty: config.twins.contains(id),
            checked: (0, 0),
            spins: (Time(0), 0),
            halted: None,
            lost_data: false,
            breaks_at: None,
            writing: None,
            sent: 0,
            corrupt: None,
        });
        let facts = config.rules.facts();
        (trace.phases, trace.carries_all_qcs) = (facts.phases, facts.carries_all_qcs);
        trace.tells_signers = config.election.needs_signers();
        let mut cluster = Self {
            now: Time(0),
            slots: slots.collect(),
            network: Network::new(ids.len(), config.link),
            clients: (0..config.clients).map(Client::new).collect(),
            by_key: keys::clients_by_key(config.clients),
            oracles: Oracles::default(),
            rng: Rng::new(config.seed),
            queue: BTreeMap::new(),
            queued: 0,
            trace,
            proposed: Vec::new(),
            committed: Vec::new(),
            refused: BTreeMap::new(),
            drops: None,
            meddler: None,
            noted: BTreeMap::new(),
            malformed: 0,
            unsigned: 0,
            tally: Tally::default(),
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
            mempool: mempool::Limits::default(),
            filtering: self.config.filtering,
            ancestors: self.config.ancestors,
            certificate_cache: true,
        }
    }

    fn make_core(&self, slot: usize) -> Core {
        let id = self.slots[slot].id;
        let committee = keys::committee(self.config.replicas);
        let me = ReplicaId(id as u16);
        let driver = HotStuff::new(committee, me, self.config.protocol());
        let protocol = Driver::new(driver, (self.config.mutation)(id));
        let genesis = Block::genesis(CHAIN, Epoch(0)).id();
        let breaks_at = self.slots[slot].breaks_at;
        let application = Register { breaks_at, ..Register::default() };
        let execution = match self.slots[slot].disk.snapshots.last_key_value() {
            None => Execution::new(application, Limits::default(), genesis).expect("limits of use"),
            Some((_, (meta, chunks))) => {
                let root = *meta.roots.last().expect("a snapshot has its own root");
                let mut chunks = chunks.iter().cloned();
                Execution::restore(application, Limits::default(), &mut chunks, root)
                    .expect("its own snapshot")
            }
        };
        let domain = self.config.domain();
        let fresh = Box::new(Register::default);
        Replica::new(self.settings(id), domain, protocol, execution, fresh)
    }

    /// Starts a replica with what its disk holds.
    pub fn boot(&mut self, slot: usize) {
        if self.slots[slot].lost_data && !self.slots[slot].disk.has_safety() {
            let nonce = self.rng.next() as u8;
            return self.rejoin(slot, nonce);
        }
        let recovery = Box::new(self.slots[slot].disk.recovery());
        self.slots[slot].core = Some(self.make_core(slot));
        self.note(slot, || "starts".into());
        self.turn(slot, vec![Input::Start(recovery)]);
        self.tell_log(slot);
        self.connect(slot);
    }

    /// Tells a replica where its log begins.
    fn tell_log(&mut self, slot: usize) {
        if let Some(core) = &self.slots[slot].core {
            let begins = self.slots[slot].disk.begins(status_of(core).committed);
            self.turn(slot, vec![Input::LogBegins(begins)]);
        }
    }

    /// Starts a replica whose disk was lost.
    pub fn rejoin(&mut self, slot: usize, nonce: u8) {
        self.slots[slot].disk = Disk::default();
        self.slots[slot].lost_data = true;
        self.slots[slot].core = Some(self.make_core(slot));
        self.note(slot, || "starts without its data, and asks the others".into());
        self.turn(slot, vec![Input::Rejoin(Digest([nonce; 32]))]);
        self.connect(slot);
    }

    /// Channels open between a replica that has just started and all that run.
    fn connect(&mut self, slot: usize) {
        for peer in 0..self.slots.len() {
            if peer != slot && self.slots[peer].core.is_some() {
                self.reconnect(slot, peer);
            }
        }
    }

    /// A channel between two replicas opens (again): both are told.
    pub fn reconnect(&mut self, one: usize, two: usize) {
        if self.slots[one].id == self.slots[two].id {
            return;
        }
        self.schedule(0, Event::Connected { to: one, peer: two });
        self.schedule(0, Event::Connected { to: two, peer: one });
    }

    pub fn crash(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        place.core = None;
        place.life += 1;
        place.checked = (0, 0);
        place.writing = None;
        self.note(slot, || "crashes".into());
    }

    fn schedule(&mut self, micros: u64, event: Event) {
        let at = self.now.after(Duration::from_micros(micros));
        self.queued += 1;
        self.queue.insert((at, self.queued), event);
    }

    fn note(&mut self, slot: usize, line: impl FnOnce() -> String) {
        self.trace.note(self.now, slot, line);
    }

    /// A client wants `count` commands of `bytes` bytes executed.
    pub fn request(&mut self, client: usize, count: u64, bytes: usize) {
        let frames = self.clients[client].request(count, bytes);
        self.submit(client, frames);
        if !std::mem::replace(&mut self.clients[client].is_patient, true) {
            self.schedule(self.config.client_patience, Event::Retry { client });
        }
    }

    fn submit(&mut self, client: usize, frames: Vec<SharedFrame>) {
        if frames.is_empty() {
            return;
        }
        let (to, relay) = match self.clients[client].targets {
            Targets::All => ((0..self.slots.len()).collect::<Vec<_>>(), false),
            Targets::One { replica, relay } => (vec![replica], relay),
        };
        for to in to {
            let delay = self.rng.between(self.config.link.delay);
            let frames = frames.clone();
            self.schedule(delay, Event::Frames { to, frames, relay });
        }
    }

    /// The next thing that happens, if anything is scheduled at or before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let timer = self.timers().min();
        let message = self.queue.first_key_value().map(|((at, _), _)| *at);
        let next = match (timer, message) {
            (Some((at, slot)), message) if message.is_none_or(|m| at < m) => Err((at, slot)),
            (_, Some(at)) => Ok(at),
            _ => return false,
        };
        match next {
            Err((at, _)) | Ok(at) if at > until => false,
            Err((at, slot)) => {
                self.now = self.now.max(at);
                self.fire(slot);
                true
            }
            Ok(at) => {
                self.now = self.now.max(at);
                if let Some((_, event)) = self.queue.pop_first() {
                    self.happen(event);
                }
                true
            }
        }
    }

    fn timers(&self) -> impl Iterator<Item = (Time, usize)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, place)| Some((place.core.as_ref()?.deadline()?, slot)))
    }

    /// Whether any timer runs.
    pub fn has_timer(&self) -> bool {
        self.timers().next().is_some()
    }

    /// Messages and verdicts under way (clients' patience does not count).
    pub fn in_flight(&self) -> usize {
        let counts = |event: &&Event| !matches!(event, Event::Retry { .. } | Event::Tick { .. });
        self.queue.values().filter(counts).count()
    }

    fn fire(&mut self, slot: usize) {
        let now = self.now;
        let spins = &mut self.slots[slot].spins;
        *spins = if spins.0 == now { (now, spins.1 + 1) } else { (now, 0) };
        assert!(spins.1 < 20, "the timer of slot {slot} is always due");
        self.turn(slot, vec![Input::Timeout]);
    }

    pub fn run_for(&mut self, micros: u64) {
        let until = self.now.after(Duration::from_micros(micros));
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until `done`, at most so long; says whether it came to that.
    pub fn run_until(&mut self, micros: u64, done: impl Fn(&Self) -> bool) -> bool {
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
        self.run_until(micros, |cluster| cluster.clients.iter().all(Client::is_done))
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, bytes } => {
                let message = match Peer::from_bytes(bytes) {
                    Ok(message) => message,
                    Err(_) if self.slots[from].faulty => return self.malformed += 1,
                    Err(error) => panic!("correct replicas encode what can be decoded: {error}"),
                };
                self.trace.delivered(self.now, from, to, &message);
                self.overhear(to, from, &message);
                let from = ReplicaId(self.slots[from].id as u16);
                self.turn(to, vec![Input::Peer { from, message }]);
            }
            Event::Connected { to, peer } => {
                let peer = ReplicaId(self.slots[peer].id as u16);
                self.turn(to, vec![Input::Connected(peer)]);
            }
            Event::Frames { to, frames, relay } => {
                let signed = frames.iter().filter_map(client::verified);
                let submitted: Vec<_> = signed.map(|frame| Submitted { frame, relay }).collect();
                self.unsigned += (frames.len() - submitted.len()) as u64;
                self.turn(to, vec![Input::Frames(submitted)]);
            }
            Event::Verified { to, life, ask, verdicts } if self.slots[to].life == life => {
                self.turn(to, vec![Input::Checked { ask, verdicts }]);
            }
            Event::Combined { to, life, ask, signature } if self.slots[to].life == life => {
                self.turn(to, vec![Input::Combined { ask, signature }]);
            }
            Event::SnapshotWritten { to, life, height } if self.slots[to].life == life => {
                self.snapshot_written(to, height);
            }
            Event::LogCut { to } => self.tell_log(to),
            Event::Tick { slot } => self.tick(slot),
            Event::Answer { from, client, outcome } => self.answered(from, client, &outcome),
            Event::Retry { client } => {
                self.clients[client].is_patient = !self.clients[client].is_done();
                if self.clients[client].is_done() {
                    return;
                }
                let frames = self.clients[client].unanswered.values().cloned().collect();
                self.submit(client, frames);
                self.schedule(self.config.client_patience, Event::Retry { client });
            }
            _ => {}
        }
    }

    fn answered(&mut self, from: usize, client: PublicKey, outcome: &Outcome) {
        let replica = self.slots[from].id;
        let Some(client) = self.by_key.get(&client).copied() else { return };
        let key = self.clients[client].key();
        if !self.slots[from].faulty {
            self.oracles.answers(replica, key, outcome);
        }
        if self.tally.hears(replica, key, outcome) > (self.config.replicas - 1) / 3 {
            self.oracles.believes(key, outcome);
            let frames = self.clients[client].believe(outcome);
            self.submit(client, frames);
        }
    }

    /// One turn of a replica's loop, then what it wants done, then the oracles.
    pub fn turn(&mut self, slot: usize, inputs: Vec<Input<Message>>) {
        let (now, line) = (self.now, self.trace.length());
        let place = &mut self.slots[slot];
        let Some(mut core) = place.core.take() else { return };
        let mut outside = Outside {
            id: place.id,
            watched: (!place.faulty).then_some(&mut self.oracles),
            at_once: self.config.verify_delay.is_none(),
            verify: self.config.verify,
            actions: Vec::new(),
        };
        let result = turn(&mut core, &mut place.disk, &mut outside, now, inputs);
        let actions = outside.actions;
        let lock = core.protocol().safety().lock.clone();
        place.core = Some(core);
        for action in actions {
            self.perform(slot, action);
        }
        self.trace.locked(now, slot, &lock, line);
        if result.is_err() {
            self.crash(slot);
        } else {
            self.examine(slot);
        }
    }

    /// What the oracles see of a replica between two turns.
    fn examine(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let Some(core) = place.core.as_ref().filter(|_| !place.faulty) else { return };
        let execution = core.execution();
        let commands = &execution.application().commands;
        for (index, command) in commands.iter().enumerate().skip(place.checked.1) {
            self.oracles.executed(place.id, index, command);
        }
        for height in place.checked.0..=execution.height().0 {
            if let Some(root) = execution.root_at(Height(height)) {
                self.oracles.has_state(place.id, Height(height), root);
            }
        }
        place.checked = (execution.height().0, commands.len());
    }

    fn answer(&mut self, from: usize, client: PublicKey, response: Response) {
        for response in self.answered_instead(from, response) {
            if let Response::Outcome(outcome) = response {
                let delay = self.rng.between(self.config.link.delay);
                self.schedule(delay, Event::Answer { from, client, outcome });
            }
        }
    }

    /// Frames of a client that is none of the cluster's own arrive now.
    pub fn submit_to(&mut self, to: usize, frames: Vec<SharedFrame>) {
        self.schedule(0, Event::Frames { to, frames, relay: false });
    }

    /// A message that somebody made up arrives now.
    pub fn inject(&mut self, from: usize, to: usize, message: &Peer) {
        self.schedule(0, Event::Deliver { to, from, bytes: encoded(message) });
    }

    /// The highest view any correct replica is in.
    pub fn highest_view(&self) -> View {
        let views = self.correct().map(|core| status_of(core).view);
        views.max().unwrap_or_default()
    }

    /// The correct replicas that run.
    pub fn correct(&self) -> impl Iterator<Item = &Core> {
        self.slots.iter().filter(|slot| !slot.faulty).filter_map(|slot| slot.core.as_ref())
    }

    pub fn core(&self, slot: usize) -> &Core {
        self.slots[slot].core.as_ref().expect("the replica runs")
    }

    /// Whether all correct replicas that run have executed the same commands. (Their heights may
    /// differ: who made the last certificate knows more blocks without commands to be committed.)
    pub fn is_level(&self) -> bool {
        let all = self.oracles.commands.len();
        self.correct().all(|core| core.execution().application().commands.len() == all)
    }
}

pub fn status_of(core: &Core) -> quorate_core::protocol::Status {
    use quorate_core::protocol::Protocol;
    core.protocol().status()
}

fn encoded(message: &Peer) -> Bytes {
    message.to_bytes().into()
}
