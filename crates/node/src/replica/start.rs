//! How a replica's threads, queues and sockets are put together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;
use quorate_app::kv::feed::Feed;
use quorate_core::base::wire::Decode as _;
use quorate_core::ledger::block::FullBlock;
use quorate_core::ledger::state_machine::{Checkpoint, StateMachine};
use quorate_core::protocols::protocol::{Capability, Protocol as _, SharedHandover, Types};
use quorate_core::replica::{Dissemination, Input, Recovery, Replica};
use quorate_core::{Committee, Digest, Height, ReplicaId};
use quorate_journal::{BlockIndex, Opened, States};
use quorate_transport::{
    Arrivals, ClientListener, ConnectionId, Counters, Event, Gate, Inbound, Limits, Mesh,
    PeerSocket, Peers, Wake, inbound,
};
use tokio::net::TcpListener;

use super::admission::Admission;
use super::archive::{Archive, Pull, Puller, Shelf, Task};
use super::changes::Approved;
use super::data::{self, Data, DataError, OpenOptions, Owner};
use super::decide::{Decider, End, Reach, Turns};
use super::desk::Desk;
use super::doorbell::Doorbell;
use super::epochs::Epochs;
use super::events::Trouble;
use super::feed::Watchers;
use super::generating::Board;
use super::giving_way::spawn_low;
use super::inbox::{self, Outside};
use super::links::{Keys, Links};
use super::metrics::{Metrics, StageClock};
use super::profile::Follower;
use super::proofs::Proofs;
use super::queries::Queries;
use super::refusals::Refusals;
use super::replies::Replies;
use super::requests::Requests;
use super::routes::Routes;
use super::settled::{Allowance, Settled};
use super::spread::Spread;
use super::standing::Standings;
use super::traced::{Received, Tracer};
use super::transport_key::TransportKey;
use super::verifier::Verifier;
use super::watch::Watched;
use super::{Past, Running, Setup, StartError, spawn};
use crate::descriptors::Shares;
use crate::family::{Attacked, Build, Job};
use crate::traces::{Source, Traces};

/// Events of clients that may wait for the clients' stage.
const CLIENT_EVENTS: usize = 4096;
/// Bytes of their frames, until the deciding thread has taken these.
const CLIENT_BYTES: u32 = 64 << 20;

/// Starts a replica of any family.
pub(super) struct Start<S> {
    pub setup: Setup,
    pub peer_socket: PeerSocket,
    pub client_socket: TcpListener,
    pub fresh: Box<dyn Fn() -> S + Send>,
}

impl<S: StateMachine + 'static> Job for Start<S> {
    type Output = Result<Running, StartError>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        let Self { setup, peer_socket, client_socket, fresh } = self;
        setup.start_as(build, peer_socket, client_socket, fresh)
    }
}

/// What makes the protocol of each epoch.
type Make<P> = Box<dyn Fn(&Committee) -> P + Send>;

fn maker<B: Build>(build: B, me: ReplicaId) -> Make<B::Protocol> {
    Box::new(move |committee| build.clone().protocol(committee.clone(), me))
}

/// What several threads of a replica share.
struct Shared<T: Types> {
    chain: Digest,
    outside: Outside,
    metrics: Arc<Metrics>,
    links: Links,
    listener: Arc<ClientListener>,
    archive: Archive<T>,
    index: Arc<BlockIndex>,
    settled: Arc<Settled>,
    feed: Option<Arc<Feed>>,
    traces: Option<Arc<Traces>>,
    epochs: Arc<Epochs>,
    generating: Arc<Board>,
    transport: Arc<TransportKey>,
}

/// The ways in and out.
struct Doors {
    peers: Arc<Peers>,
    listener: Arc<ClientListener>,
    /// What clients do.
    events: Arrivals<(ConnectionId, Event)>,
}

impl Setup {
    /// Every thread starts as soon as what it needs is there, the deciding one last.
    fn start_as<B: Build, S: StateMachine + 'static>(
        mut self,
        build: B,
        peer_socket: PeerSocket,
        client_socket: TcpListener,
        fresh: Box<dyn Fn() -> S + Send>,
    ) -> Result<Running, StartError> {
        if self.rejoin && !B::Protocol::CAPABILITIES.contains(&Capability::Rejoin) {
            return Err(StartError::NoRejoin);
        }
        let owner = self.owner(&build);
        let shares = self.shares(&owner)?;
        let counters = Arc::new(Counters::default());
        let metrics = Arc::new(Metrics::beside(&counters, &self.application));
        self.note_threads(&metrics);
        let fresh = watched(fresh, &metrics, self.newest_rules);
        let mut data = self.open(&owner, &metrics, &*fresh)?;
        let notes = std::mem::take(&mut data.opened.notes);
        let (opened, lock) = data.into_parts();
        let Opened { journal, states, mut execution, checkpoint, recovery, restored, .. } = opened;
        execution.skip(std::mem::take(&mut self.skipped_commands));
        let recovered = execution.height();
        self.feed.iter().for_each(|feed| feed.stands_at(recovered));
        let checkpoint = checkpoint.map(|checkpoint| (recovered, checkpoint));
        let ended = &recovery.as_ref().unwrap_or(&restored).handovers;
        let transport = TransportKey::new(&self.transport_file, &self.transport_key)?;
        let epochs = self.come_through(ended, recovered, &transport, &metrics);
        epochs.clients.note(execution.sessions());

        let (peer_inbound, outside, inbox) = inbox::inbox();
        let over = Over::default();
        let bells = [&inbox.bell, &over.bell];
        let sockets = (peer_socket, client_socket);
        let doors =
            self.open_doors(sockets, &shares, &transport, peer_inbound, bells, &counters)?;

        let (archive, tasks, pulls) = Archive::new();
        let shared = Shared {
            chain: self.committee.chain(),
            links: self.links(build.attacked(&self.committee), &doors.peers, &metrics)?,
            index: Arc::clone(journal.index()),
            settled: Arc::default(),
            feed: self.feed.clone(),
            traces: self.start_traces(&metrics)?,
            epochs,
            generating: Arc::new(Board::new(self.me, Arc::clone(&self.keyring))),
            transport: Arc::new(transport),
            outside,
            metrics,
            listener: doors.listener,
            archive,
        };
        let stage = self.requests_stage(&shared, doors.events, &over)?;
        let archived = self.start_archive(&shared, states, (tasks, pulls), checkpoint)?;
        let make = maker(build.seeded()?, self.me);
        let (settings, committee) = (self.settings.clone(), self.committee.clone());
        let replica = Replica::new(settings, committee, make, execution, fresh);
        let decider = Decider {
            turns: Turns::new(first_input(recovery, restored)?),
            settled: Arc::clone(&shared.settled),
            proofs: Proofs::start(shared.chain, &shared.links, &shared.listener, &shared.outside)?,
            queries: self.queries(&shared)?,
            reach: self.reach(&shared)?,
            replica,
            journal,
            inbox,
            log_window_bytes: self.log_window_bytes,
        };
        let stage = Desk::new(stage, Arc::clone(&over.bell), true);
        let requests = move || stage.run().map_or_else(panicked, drop);
        spawn("requests", shared.outside.guard("requests", requests))?;
        let bell = Arc::clone(&decider.inbox.bell);
        let desk = Desk::new(decider, bell, self.helped);
        let decider = spawn("decide", move || {
            let _held = (over, lock);
            let (decider, end) = desk.run().unwrap_or_else(panicked);
            decider.end(end)
        })?;
        Ok(running(shared, (doors.peers, counters), (decider, archived), (recovered, notes)))
    }

    /// What is known of the members: those before the restart are the ones that there are channels
    /// to, not those of `cluster.toml`.
    fn come_through<T: Types>(
        &mut self,
        ended: &[SharedHandover<T>],
        recovered: Height,
        transport: &TransportKey,
        metrics: &Metrics,
    ) -> Arc<Epochs> {
        let epochs = Arc::new(Epochs::new(self.committee.clone()));
        ended.iter().for_each(|handover| epochs.begin(handover.next.clone()));
        epochs.add(ended);
        let committee = epochs.committee();
        metrics.epoch.set(committee.epoch().0);
        super::members::take_key(&self.keyring, &committee, self.me);
        if super::members::is_settled_at(&committee, recovered) {
            epochs.settle();
        }
        if epochs.is_governed() {
            super::members::take_transport_key(transport, &epochs, self.me);
            self.members = epochs.peers();
        }
        epochs
    }

    fn open<T: Types, S: StateMachine>(
        &self,
        owner: &Owner<T>,
        metrics: &Metrics,
        fresh: &dyn Fn() -> S,
    ) -> Result<Data<T, S>, DataError> {
        let options = OpenOptions {
            durability: self.durability,
            rejoin: self.rejoin,
            log_window_bytes: self.log_window_bytes,
            sessions: self.sessions,
        };
        let data = data::open(&self.data, owner, options, fresh)?;
        metrics.snapshot_bytes.set(data.opened.snapshot_bytes);
        metrics.snapshot_limit_bytes.set(self.settings.max_snapshot_bytes);
        Ok(data)
    }

    /// What the system may hold for a peer: little where frames travel ahead, so that all other
    /// messages go before them.
    fn not_sent_bytes(&self) -> Option<u32> {
        (self.settings.dissemination == Dissemination::Ahead).then_some(64 << 10)
    }

    /// Lets the other replicas and the clients in. What they bring rings the bell of the deciding
    /// thread, and that of the clients' thread.
    fn open_doors(
        &self,
        (peer_socket, client_socket): (PeerSocket, TcpListener),
        shares: &Shares,
        transport: &TransportKey,
        peer_inbound: Inbound<(ReplicaId, Bytes)>,
        bells: [&Arc<Doorbell>; 2],
        counters: &Arc<Counters>,
    ) -> Result<Doors, StartError> {
        let [peers_ring, clients_ring] = bells.map(|bell| {
            let bell = Arc::clone(bell);
            let ring: Wake = Arc::new(move || bell.ring_and_help());
            ring
        });
        let (me, chain) = (self.me, self.committee.chain());
        let identity = transport.identity();
        let mesh = Mesh {
            me,
            chain,
            identity: identity.clone(),
            members: self.members.clone(),
            versions: self.versions,
            limits: Limits {
                not_sent_bytes: self.not_sent_bytes(),
                retransmission: self.retransmission,
                ..shares.peers
            },
            seed: u64::from(me.0),
        };
        let peers =
            Peers::start(mesh, peer_socket, peer_inbound, peers_ring, Arc::clone(counters))?;
        let (inbound, events) = inbound(CLIENT_EVENTS, CLIENT_BYTES);
        let limits = Limits { held_bytes: self.clients_held_bytes, ..shares.clients };
        let gate = Gate { me, chain, identity, versions: self.versions, limits };
        let counters = Arc::clone(counters);
        let listener = ClientListener::start(gate, client_socket, inbound, clients_ring, counters)?;
        Ok(Doors { peers: Arc::new(peers), listener: Arc::new(listener), events })
    }

    /// Its links; in a laboratory, with an adversary before them.
    fn links(
        &self,
        attacked: Option<Attacked>,
        peers: &Arc<Peers>,
        metrics: &Arc<Metrics>,
    ) -> Result<Links, StartError> {
        let peers = Arc::clone(peers);
        let Some(schedule) = &self.adversary else { return Ok(Links::honest(peers)) };
        let (signer, scheme) = (Arc::clone(&self.signer), Arc::clone(&self.scheme));
        let attacked = attacked.ok_or(StartError::NoAdversary)?;
        let keys = Keys { me: self.me, attacked, signer, scheme };
        Ok(Links::byzantine(peers, schedule, keys, Arc::clone(metrics))?)
    }

    /// The thread that tells what becomes of frames, if somebody is told.
    fn start_traces(&self, metrics: &Arc<Metrics>) -> Result<Option<Arc<Traces>>, StartError> {
        let source = Source { chain: self.committee.chain(), replica: self.me };
        self.traces.as_ref().map(|settings| Traces::start(settings, source, metrics)).transpose()
    }

    /// The threads that show peers and clients what is on disk.
    fn start_archive<T: Types>(
        &self,
        shared: &Shared<T>,
        states: States,
        (tasks, pulls): (Receiver<Task<T>>, Receiver<Pull>),
        checkpoint: Option<(Height, Box<dyn Checkpoint>)>,
    ) -> io::Result<JoinHandle<()>> {
        let busy = shared.archive.busy();
        let shelf = Shelf {
            index: Arc::clone(&shared.index),
            states,
            links: shared.links.clone(),
            listener: Arc::clone(&shared.listener),
            outside: shared.outside.clone(),
            max_snapshot_bytes: self.settings.max_snapshot_bytes,
            metrics: Arc::clone(&shared.metrics),
        };
        let puller = Puller {
            index: Arc::clone(&shared.index),
            listener: Arc::clone(&shared.listener),
            busy: busy.clone(),
        };
        let pulls = move || puller.run::<T>(&pulls);
        spawn_low("pulls", shared.outside.guard("pulls", pulls))?;
        // As high as others: peers that are behind live on it, and so does the log's end.
        let archive = move || shelf.run(&busy, &tasks, checkpoint);
        spawn("archive", shared.outside.guard("archive", archive))
    }

    /// The thread that answers questions.
    fn queries<T: Types>(&self, shared: &Shared<T>) -> io::Result<Queries> {
        let Shared { listener, metrics, outside, .. } = shared;
        Queries::start(&self.application, listener, metrics, outside)
    }

    /// What the clients' thread works with.
    fn requests_stage<T: Types>(
        &self,
        shared: &Shared<T>,
        events: Arrivals<(ConnectionId, Event)>,
        over: &Over,
    ) -> io::Result<Requests<T>> {
        Ok(Requests {
            chain: shared.chain,
            max_frame_commands: self.max_frame_commands,
            max_frame_bytes: self.max_frame_bytes,
            scheme: Arc::clone(&self.scheme),
            spread: Spread::start("requests", self.requests, &shared.outside)?,
            listener: Arc::clone(&shared.listener),
            archive: shared.archive.clone(),
            watchers: Watchers::start(
                shared.feed.as_ref(),
                (&shared.links, &shared.listener),
                &shared.metrics,
                &shared.outside,
            )?,
            outside: shared.outside.clone(),
            metrics: Arc::clone(&shared.metrics),
            received: shared.traces.clone().map(Received::new),
            events,
            standings: Standings::default(),
            refusals: Refusals::default(),
            settled: Arc::clone(&shared.settled),
            epochs: Arc::clone(&shared.epochs),
            generating: Arc::clone(&shared.generating),
            admission: Admission::new(Arc::clone(&shared.epochs)),
            allowance: Allowance::new(Instant::now()),
            approved: Approved::new(Instant::now()),
            batch: Vec::new(),
            kept: None,
            worked: Instant::now(),
            over: Arc::clone(&over.over),
        })
    }

    /// What the deciding thread reaches; starts the threads that verify and sign for it.
    fn reach<T: Types>(&self, shared: &Shared<T>) -> io::Result<Reach<T>> {
        let Shared { outside, metrics, listener, .. } = shared;
        let replies = || {
            let signs = (self.committee.clone(), Arc::clone(&self.signer));
            Replies::start(signs, Arc::clone(listener), Arc::clone(metrics), outside)
        };
        Ok(Reach {
            sends_ahead: self.settings.dissemination == Dissemination::Ahead,
            links: shared.links.clone(),
            replies: if self.signs_outcomes { Some(replies()?) } else { None },
            listener: Arc::clone(listener),
            verifier: Verifier::start(self.verifiers, &self.scheme, metrics, outside)?,
            scheme: Arc::clone(&self.scheme),
            signer: Arc::clone(&self.signer),
            inline_checks: self.inline_checks,
            archive: shared.archive.clone(),
            index: Arc::clone(&shared.index),
            epochs: Arc::clone(&shared.epochs),
            generating: Arc::clone(&shared.generating),
            me: self.me,
            keyring: Arc::clone(&self.keyring),
            transport: Arc::clone(&shared.transport),
            metrics: Arc::clone(metrics),
            routes: Routes::default(),
            executed: Vec::new(),
            clock: StageClock::new(Arc::clone(metrics)),
            follower: Follower::new(shared.traces.clone().map(Tracer::new)),
            idle: false,
            trouble: Trouble::default(),
            application: self.application.clone(),
            halted: None,
        })
    }
}

/// The replica, with all of its threads at work.
fn running<T: Types>(
    shared: Shared<T>,
    (peers, counters): (Arc<Peers>, Arc<Counters>),
    (decider, archived): (JoinHandle<End>, JoinHandle<()>),
    (recovered, notes): (Height, Vec<String>),
) -> Running {
    let Shared { index, outside, metrics, epochs, feed, generating, transport, .. } = shared;
    let past: Past = Arc::new(move |height| {
        let Some(block) = index.look_up(height)? else { return Ok(Vec::new()) };
        let block = FullBlock::<T::Content>::from_bytes(block).map_err(io::Error::other)?;
        Ok(block.frames)
    });
    Running {
        outside,
        decider,
        archived,
        metrics,
        counters,
        peers,
        epochs,
        feed,
        generating,
        past,
        transport,
        notes,
        recovered,
    }
}

/// Makes applications whose calls are noted.
fn watched<S: StateMachine + 'static>(
    fresh: Box<dyn Fn() -> S + Send>,
    metrics: &Metrics,
    newest_rules: Option<u16>,
) -> Box<dyn Fn() -> Watched<S> + Send> {
    let watch = Arc::clone(&metrics.watch);
    Box::new(move || Watched::new(fresh(), Arc::clone(&watch)).supporting(newest_rules))
}

/// Ends the thread whose turn panicked at somebody else's hands.
fn panicked<T>() -> T {
    panic!("a turn that another thread took panicked; see above")
}

/// Tells the clients' stage that the replica has ended, when it has.
#[derive(Default)]
struct Over {
    over: Arc<AtomicBool>,
    bell: Arc<Doorbell>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.bell.ring();
    }
}

/// What starts the replica: what it recovered, or that it lost its data, with what was restored.
fn first_input<T: Types>(
    recovery: Option<Recovery<T>>,
    restored: Recovery<T>,
) -> io::Result<Input<T>> {
    Ok(match recovery {
        Some(recovery) => Input::Start(Box::new(recovery)),
        None => Input::Rejoin { nonce: nonce()?, restored: Box::new(restored) },
    })
}

fn nonce() -> io::Result<Digest> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Digest(bytes))
}
