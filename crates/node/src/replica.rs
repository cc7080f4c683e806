//! A replica as a process: threads, queues, sockets and a data folder around the pure core.
//!
//! ```text
//!  peers ──tls──► transport ───────────────► ┐
//!                                            ├─► deciding thread ─► log ─► transport, clients
//!  clients ─tls─► transport ─► requests ───► ┘     ▲        │
//!                              (hash, verify)      │        ├─► verifier (batches of signatures)
//!                                                  ├────────┴─► archive (blocks, snapshots)
//!                                                  └──────────► proofs, queries (of a frozen
//! state)
//! ```
//!
//! One thread decides; what costs time is done elsewhere and comes back as an input. Where it rests,
//! whoever brings a message may take its turn (`desk.rs`).

mod archive;
pub mod data;
pub mod decide;
mod desk;
mod doorbell;
mod events;
mod inbox;
mod lines;
mod links;
pub mod metrics;
pub mod profile;
mod proofs;
mod queries;
mod replies;
mod requests;
mod routes;
mod settled;
mod spread;
mod standing;
#[cfg(test)]
mod tests;
mod verifier;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::protocol::{Capability, Protocol as _, Types};
use quorate_core::replica::{self, Input, Replica};
use quorate_core::{Committee, Digest, ReplicaId, ledger::sessions};
use quorate_crypto::SecretKey;
use quorate_journal::Opened;
use quorate_transport::{
    ClientListener, Counters, Gate, Identity, Limits, Member, Mesh, MeshError, PeerSocket, Peers,
    TlsError, Wake, inbound,
};
use tokio::net::TcpListener;

use crate::adversary::Schedule;
use crate::config::Durability;
use crate::descriptors::{self, Files, Shares, TooFew};
use crate::family::{Build, Family, Job};
use archive::{Archive, Puller, Shelf};
use data::{DataError, OpenOptions, Owner};
use decide::{Decider, End, Reach, Turns};
use desk::Desk;
use doorbell::Doorbell;
use events::OtherRoot;
use inbox::{Answer, Outside};
use links::{Keys, Links};
use metrics::{Metrics, StageClock};
use profile::{Follower, Stage};
use proofs::Proofs;
use queries::Queries;
use replies::Replies;
use requests::Requests;
use routes::Routes;
use settled::{Allowance, Settled};
use spread::Spread;
use standing::Standings;
use verifier::Verifier;

/// Events of clients that may wait for the clients' stage.
const CLIENT_EVENTS: usize = 4096;
/// Bytes of their frames, until the deciding thread has taken these.
const CLIENT_BYTES: u32 = 64 << 20;

/// All that a replica needs to run.
pub struct Setup {
    /// The committee.
    pub committee: Committee,
    /// This replica.
    pub me: ReplicaId,
    /// What it runs.
    pub protocol: Family,
    /// What signatures are checked with: clients' and replicas'.
    pub scheme: Arc<dyn Scheme>,
    /// Whether it signs the outcomes that it tells clients.
    pub signs_outcomes: bool,
    /// Most signatures that the deciding thread checks itself when nothing else waits for it:
    /// none, for schemes that take longer than handing them over does.
    pub inline_checks: usize,
    /// Its consensus key, the public half.
    pub consensus_key: ReplicaKey,
    /// The secret half.
    pub signer: Arc<dyn Signer>,
    /// Its transport key.
    pub transport_key: SecretKey,
    /// Transport keys and addresses of all, in the order of their ids.
    pub members: Vec<Member>,
    /// Its data folder.
    pub data: PathBuf,
    /// How far a commit of the log goes.
    pub durability: Durability,
    /// Whether its data is known to be lost.
    pub rejoin: bool,
    /// Digests of commands that are not given to the application; see
    /// [`Execution::skip`](quorate_core::ledger::execution::Execution::skip).
    pub skipped_commands: BTreeSet<Digest>,
    /// Bytes that the log may take on disk.
    pub log_window_bytes: u64,
    /// Files that the application keeps open.
    pub state_files: usize,
    /// Bounds of blocks, relaying and snapshots.
    pub settings: replica::Settings,
    /// Most commands in a client's frame.
    pub max_frame_commands: u32,
    /// Most bytes of commands in a client's frame.
    pub max_frame_bytes: usize,
    /// Bounds of sessions.
    pub sessions: sessions::Limits,
    /// Bytes that all clients' connections may hold together.
    pub clients_held_bytes: usize,
    /// Threads that hash and verify clients' frames.
    pub requests: usize,
    /// Threads that verify what the protocol asks about.
    pub verifiers: usize,
    /// Who stands between it and its links, in a laboratory.
    pub adversary: Option<Schedule>,
}

/// Why a replica did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data folder.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its transport key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its way to the other replicas.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// Its file descriptors.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// The protocol cannot do without its data.
    #[error(
        "`--rejoin-after-data-loss`: this protocol has no {}; restore the data folder",
        Capability::Rejoin
    )]
    NoRejoin,
    /// There is no adversary for the protocol.
    #[error("`laboratory.adversary`: none is written for this protocol; leave it out")]
    NoAdversary,
    /// The system gave no thread or randomness.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// A replica that runs.
pub struct Running {
    outside: Outside,
    decider: JoinHandle<End>,
    archived: JoinHandle<()>,
    metrics: Arc<Metrics>,
    counters: Arc<Counters>,
    peers: Arc<Peers>,
    notes: Vec<String>,
    recovered: quorate_core::Height,
}

impl Setup {
    /// Who its data folder belongs to.
    fn owner<B: Build>(&self, build: &B) -> Owner<B::Types> {
        Owner::new(build.origin(&self.committee), self.consensus_key.clone())
    }

    /// What an earlier process left of its state on disk comes into memory. What an operator may
    /// want to know of that.
    ///
    /// # Errors
    /// [`DataError`], with the remedy; the folder is as it was.
    pub fn bring_into_memory(&self) -> Result<Vec<String>, DataError> {
        self.protocol.clone().run(BringIntoMemory { setup: self })
    }

    /// Raises the process's limit of file descriptors, and divides it.
    fn shares<T: Types>(&self, owner: &Owner<T>) -> Result<Shares, TooFew> {
        let segment_bytes = data::log_options(owner, self.log_window_bytes).segment_bytes;
        let settings = &self.settings;
        let snapshot_bytes = settings.snapshot_blocks.saturating_mul(settings.batch_bytes as u64);
        let files = Files {
            state: self.state_files,
            ..Files::of_log(self.log_window_bytes, segment_bytes, snapshot_bytes)
        };
        let limit = descriptors::raise();
        let shares = descriptors::divide(limit, self.members.len(), files)?;
        let (clients, usual) = (shares.clients.connections, Limits::clients().connections);
        if clients < usual {
            tracing::warn!(
                limit,
                clients,
                usual,
                "few open files are allowed: clients beyond `clients` are refused at `listen.client`; {}",
                descriptors::REMEDY
            );
        }
        if shares.log < files.log_at_most {
            tracing::warn!(
                limit,
                files = files.log_at_most,
                room = shares.log,
                "full blocks between two snapshots may fill more files of the log than there is room for; \
                 make `storage.snapshot_every` smaller, or {}",
                descriptors::REMEDY
            );
        }
        Ok(shares)
    }

    /// Recovers and starts the replica on the current tokio runtime, with sockets that listen
    /// already. `fresh` makes the application in its first state. The process's limit of open files
    /// is raised as far as it may.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start<S: StateMachine + 'static>(
        self,
        peer_socket: PeerSocket,
        client_socket: TcpListener,
        fresh: Box<dyn Fn() -> S + Send>,
    ) -> Result<Running, StartError> {
        self.protocol.clone().run(Start { setup: self, peer_socket, client_socket, fresh })
    }

    /// How many threads may be in each stage. On the runtime whose threads move the connections.
    fn note_threads(&self, metrics: &Metrics) {
        let network = tokio::runtime::Handle::current().metrics().num_workers();
        let (requests, verifiers) = (self.requests.max(1), self.verifiers.max(1));
        for stage in Stage::ALL {
            let threads = match stage {
                Stage::Receive | Stage::Send => network,
                // The deciding one, and the clients'.
                Stage::Decode => 2,
                Stage::Hash => requests,
                Stage::Verify => requests + verifiers,
                Stage::Decide | Stage::Persist | Stage::Execute | Stage::Encode => 1,
                Stage::Authenticate => 1 + usize::from(self.signs_outcomes),
            };
            metrics.profile.threads(stage).set(threads as u64);
        }
    }

    fn start_as<B: Build, S: StateMachine + 'static>(
        self,
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
        let metrics = Arc::new(Metrics::beside(&counters));
        self.note_threads(&metrics);
        let (durability, rejoin) = (self.durability, self.rejoin);
        let options = OpenOptions {
            durability,
            rejoin,
            log_window_bytes: self.log_window_bytes,
            sessions: self.sessions,
        };
        let mut data = data::open(&self.data, &owner, options, &fresh)?;
        let notes = std::mem::take(&mut data.opened.notes);
        let (opened, lock) = data.into_parts();
        let Opened { journal, states, mut execution, checkpoint, recovery, .. } = opened;
        execution.skip(self.skipped_commands);
        let recovered = execution.height();
        let checkpoint = checkpoint.map(|checkpoint| (recovered, checkpoint));

        let max_snapshot_bytes = self.settings.max_snapshot_bytes;
        let hotstuff = build.as_hotstuff(&self.committee);
        let protocol = build.seeded()?.protocol(self.committee.clone(), self.me);
        let replica =
            Replica::new(self.settings, self.committee.clone(), protocol, execution, fresh);
        let scheme = self.scheme;
        let (peer_inbound, outside, inbox) = inbox::inbox();
        let bell = Arc::clone(&inbox.bell);
        let wake: Wake = Arc::new(move || bell.ring_and_help());
        let identity = Identity::new(&self.transport_key)?;
        let chain = self.committee.chain();
        let mesh = Mesh {
            me: self.me,
            chain,
            identity: identity.clone(),
            members: self.members,
            limits: shares.peers,
            seed: u64::from(self.me.0),
        };
        let peers = Arc::new(Peers::start(
            mesh,
            peer_socket,
            peer_inbound,
            Arc::clone(&wake),
            Arc::clone(&counters),
        )?);
        let (client_inbound, client_events) = inbound(CLIENT_EVENTS, CLIENT_BYTES);
        let requests_bell = Arc::new(Doorbell::default());
        let over = Over { over: Arc::default(), bell: Arc::clone(&requests_bell) };
        let helped_bell = Arc::clone(&requests_bell);
        let limits = Limits { held_bytes: self.clients_held_bytes, ..shares.clients };
        let gate = Gate { me: self.me, chain, identity, limits };
        let listener = Arc::new(ClientListener::start(
            gate,
            client_socket,
            client_inbound,
            Arc::new(move || helped_bell.ring_and_help()),
            Arc::clone(&counters),
        )?);

        let links = match &self.adversary {
            None => Links::honest(Arc::clone(&peers)),
            Some(schedule) => {
                let (signer, scheme) = (Arc::clone(&self.signer), Arc::clone(&scheme));
                let (domain, facts) = hotstuff.ok_or(StartError::NoAdversary)?;
                let keys = Keys { me: self.me, domain, facts, signer, scheme };
                Links::byzantine(Arc::clone(&peers), schedule, keys, Arc::clone(&metrics))?
            }
        };
        let settled = Arc::<Settled>::default();
        let (archive, tasks, pulls) = Archive::new();
        let shelf = Shelf {
            index: Arc::clone(journal.index()),
            states,
            links: links.clone(),
            outside: outside.clone(),
            max_snapshot_bytes,
            metrics: Arc::clone(&metrics),
        };
        let busy = archive.busy();
        let puller = Puller {
            index: Arc::clone(&shelf.index),
            listener: Arc::clone(&listener),
            busy: busy.clone(),
        };
        spawn_low("pulls", outside.guard("pulls", move || puller.run::<B::Types>(&pulls)))?;
        let stage = Requests {
            chain,
            max_frame_commands: self.max_frame_commands,
            max_frame_bytes: self.max_frame_bytes,
            scheme: Arc::clone(&scheme),
            spread: Spread::start("requests", self.requests, &outside)?,
            listener: Arc::clone(&listener),
            archive: archive.clone(),
            outside: outside.clone(),
            metrics: Arc::clone(&metrics),
            events: client_events,
            standings: Standings::default(),
            settled: Arc::clone(&settled),
            allowance: Allowance::new(Instant::now()),
            batch: Vec::new(),
            kept: None,
            worked: Instant::now(),
            over: Arc::clone(&over.over),
        };
        let first = match recovery {
            Some(recovery) => Input::Start(Box::new(recovery)),
            None => Input::Rejoin(nonce()?),
        };
        let replies = match self.signs_outcomes {
            true => Some(Replies::start(
                (self.committee.clone(), Arc::clone(&self.signer)),
                Arc::clone(&listener),
                Arc::clone(&metrics),
                &outside,
            )?),
            false => None,
        };
        let decider = Decider {
            turns: Turns::new(first),
            settled,
            proofs: Proofs::start(chain, &links, &listener, &outside)?,
            queries: Queries::start(&listener, &metrics, &outside)?,
            reach: Reach {
                links,
                replies,
                listener,
                verifier: Verifier::start(self.verifiers, &scheme, &metrics, &outside)?,
                scheme,
                signer: self.signer,
                inline_checks: self.inline_checks,
                archive: archive.clone(),
                index: Arc::clone(journal.index()),
                metrics: Arc::clone(&metrics),
                routes: Routes::default(),
                executed: Vec::new(),
                clock: StageClock::new(Arc::clone(&metrics)),
                follower: Follower::default(),
                idle: false,
                other_root: OtherRoot::default(),
                halted: None,
            },
            replica,
            journal,
            inbox,
            log_window_bytes: self.log_window_bytes,
        };
        // As high as others: peers that are behind live on it, and so does the log's end.
        let archived = spawn(
            "archive",
            outside.guard("archive", move || shelf.run(&busy, &tasks, checkpoint)),
        )?;
        let stage = Desk::new(stage, requests_bell, true);
        spawn(
            "requests",
            outside.guard("requests", move || stage.run().map_or_else(panicked, drop)),
        )?;
        // Where each turn syncs the disk, nobody else has the time.
        let bell = Arc::clone(&decider.inbox.bell);
        let desk = Desk::new(decider, bell, durability == Durability::Os);
        let decider = spawn("decide", move || {
            let _locked = lock;
            let _over = over;
            let (decider, end) = desk.run().unwrap_or_else(panicked);
            decider.end(end)
        })?;
        Ok(Running { outside, decider, archived, metrics, counters, peers, notes, recovered })
    }
}

/// Starts a replica of any family.
struct Start<S> {
    setup: Setup,
    peer_socket: PeerSocket,
    client_socket: TcpListener,
    fresh: Box<dyn Fn() -> S + Send>,
}

impl<S: StateMachine + 'static> Job for Start<S> {
    type Output = Result<Running, StartError>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        let Self { setup, peer_socket, client_socket, fresh } = self;
        setup.start_as(build, peer_socket, client_socket, fresh)
    }
}

/// See [`Setup::bring_into_memory`].
struct BringIntoMemory<'a> {
    setup: &'a Setup,
}

impl Job for BringIntoMemory<'_> {
    type Output = Result<Vec<String>, DataError>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        let Setup { data, sessions, .. } = self.setup;
        data::bring_into_memory(data, &self.setup.owner(&build), *sessions)
    }
}

/// Ends the thread whose turn panicked at somebody else's hands.
fn panicked<T>() -> T {
    panic!("a turn that another thread took panicked; see above")
}

/// Tells the clients' stage that the replica has ended, when it has.
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

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Less of a busy processor than other threads have, by a factor of about nine.
const LOWER_BY: i32 = 10;

/// A thread for what strangers ask for: where the processor is busy it gives way to the thread that
/// decides.
fn spawn_low<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    spawn(name, move || {
        // Of this thread alone, on Linux. Where it is refused, the thread is merely not less.
        let _ = rustix::process::nice(LOWER_BY);
        run()
    })
}

fn nonce() -> std::io::Result<Digest> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(Digest(bytes))
}

impl Running {
    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What its transport counts.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Its channels to the others.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// What an operator may want to know of its recovery.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The height of the state that it started from; the log may hold blocks behind it.
    #[must_use]
    pub fn recovered_height(&self) -> quorate_core::Height {
        self.recovered
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.decider.is_finished()
    }

    /// Asks it to stop; [`join`](Self::join) waits for that.
    pub fn stop(&self) {
        self.outside.answer(Answer::Stop);
    }

    /// Waits until it has ended, and says why. Blocks.
    #[must_use]
    pub fn join(self) -> End {
        let Ok(end) = self.decider.join() else {
            return End::Bug("the deciding thread panicked; see above".to_owned());
        };
        // What was being written is then, and the state's folder is free for whoever comes next.
        let _ = self.archived.join();
        end
    }
}
