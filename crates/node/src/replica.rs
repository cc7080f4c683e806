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
//! One thread decides; what costs time is done elsewhere and comes back as an input. Where it
//! rests, whoever brings a message may take its turn (`desk.rs`).

mod admission;
mod archive;
mod changes;
mod channels;
pub mod data;
pub mod decide;
mod desk;
mod doorbell;
pub mod epochs;
mod events;
mod feed;
pub mod generating;
mod giving_way;
mod inbox;
pub mod keyring;
mod lines;
mod links;
mod members;
pub mod metrics;
pub mod profile;
mod proofs;
mod queries;
pub mod recent;
mod refusals;
mod replies;
mod requests;
mod routes;
mod settled;
pub mod shares;
mod spread;
mod standing;
mod start;
#[cfg(test)]
mod tests;
mod traced;
pub mod transport_key;
mod verifier;
pub mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use quorate_app::kv::feed::Feed;
use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::clients::Clients;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::protocol::{Capability, Types};
use quorate_core::replica;
use quorate_core::{Committee, Digest, ReplicaId, ledger::sessions};
use quorate_crypto::SecretKey;
use quorate_transport::{
    Counters, Limits, Member, MeshError, PeerSocket, Peers, TlsError, Versions,
};
use tokio::net::TcpListener;

use crate::adversary::Schedule;
use crate::config::Durability;
use crate::descriptors::{self, Files, Shares, TooFew};
use crate::family::{Build, Family, Job};
use crate::traces;
use data::{DataError, Owner};
use decide::End;
use epochs::Epochs;
use generating::Board;
pub(crate) use giving_way::spawn_low;
use inbox::{Answer, Outside};
use keyring::Keyring;
use metrics::Metrics;
use profile::Stage;
use start::Start;
use transport_key::TransportKey;

/// Where members may change, file descriptors are kept free for so many: more than most clusters
/// grow to, and less than would be refused by usual limits.
const GROWN_REPLICAS: usize = 64;

/// All that a replica needs to run.
pub struct Setup {
    /// The committee.
    pub committee: Committee,
    /// This replica.
    pub me: ReplicaId,
    /// What its application is called, for messages.
    pub application: String,
    /// The lists of what blocks change, where the application makes some.
    pub feed: Option<Arc<Feed>>,
    /// Where it tells what becomes of frames, if it does.
    pub traces: Option<traces::Settings>,
    /// What it runs.
    pub protocol: Family,
    /// What signatures are checked with: clients' and replicas'.
    pub scheme: Arc<dyn Scheme>,
    /// Whether it signs the outcomes that it tells clients.
    pub signs_outcomes: bool,
    /// Most signatures that the deciding thread checks itself when nothing else waits for it:
    /// none, for schemes that take longer than handing them over does.
    pub inline_checks: usize,
    /// Its first consensus key, the public half: its data folder was made for this one.
    pub consensus_key: ReplicaKey,
    /// Its consensus keys.
    pub keyring: Arc<Keyring>,
    /// What signs by the key in use.
    pub signer: Arc<dyn Signer>,
    /// Its transport key.
    pub transport_key: SecretKey,
    /// The file of that key, beside which the next one lies.
    pub transport_file: PathBuf,
    /// The versions of the wire protocol that it speaks.
    pub versions: Versions,
    /// Whether UDP sends lost packets again, as it does but in a laboratory.
    pub retransmission: bool,
    /// The newest rules of the application's that it says it supports; `None`: the application's.
    pub newest_rules: Option<u16>,
    /// Transport keys and addresses of all, by id, where members are fixed. Else the committee of
    /// each epoch names them.
    pub members: Vec<Option<Member>>,
    /// The root of the application that the chain begins with, if it was restored from a backup.
    pub first_state: Option<Digest>,
    /// The list of clients that the chain begins with.
    pub clients: Arc<Clients>,
    /// Its data folder.
    pub data: PathBuf,
    /// How far a commit of the log goes.
    pub durability: Durability,
    /// Whether threads of connections may take its turns: none may that calls an application which
    /// might never return, for the sockets and HTTP are theirs.
    pub helped: bool,
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
    /// The authorities that vouch for the collector of traces cannot be read.
    #[error("traces cannot be sent over TLS: {0}")]
    Collector(crate::http::access::AccessError),
    /// The system gave no thread or randomness.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// The frames of the committed block at a height; none if it is not in the log. An error says that
/// it may be there.
pub type Past =
    Arc<dyn Fn(quorate_core::Height) -> std::io::Result<Vec<SharedFrame>> + Send + Sync>;

/// A replica that runs.
pub struct Running {
    outside: Outside,
    decider: JoinHandle<End>,
    archived: JoinHandle<()>,
    metrics: Arc<Metrics>,
    counters: Arc<Counters>,
    peers: Arc<Peers>,
    epochs: Arc<Epochs>,
    feed: Option<Arc<Feed>>,
    generating: Arc<Board>,
    past: Past,
    transport: Arc<TransportKey>,
    notes: Vec<String>,
    recovered: quorate_core::Height,
}

impl Setup {
    /// Who its data folder belongs to.
    fn owner<B: Build>(&self, build: &B) -> Owner<B::Types> {
        Owner::new(build.origin(&self.committee), self.consensus_key.clone())
            .beginning_with(self.first_state)
            .serving(Arc::clone(&self.clients))
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
        let replicas = match self.committee.most_replicas() {
            fixed if fixed == self.committee.size() => fixed,
            most => most.min(GROWN_REPLICAS.max(self.committee.size())),
        };
        let shares = descriptors::divide(limit, replicas, files)?;
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

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
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

    /// The lists of what blocks change, where the application makes some.
    #[must_use]
    pub fn feed(&self) -> Option<&Arc<Feed>> {
        self.feed.as_ref()
    }

    /// What it knows of its members.
    #[must_use]
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// Its part in key generations.
    #[must_use]
    pub fn generating(&self) -> &Arc<Board> {
        &self.generating
    }

    /// The blocks in its log.
    #[must_use]
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Its transport keys.
    #[must_use]
    pub fn transport_key(&self) -> &Arc<TransportKey> {
        &self.transport
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

    /// Whether it has ended, and nothing is being written any more: [`join`](Self::join) does not
    /// have to wait.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.decider.is_finished() && self.archived.is_finished()
    }

    /// Asks it to stop; [`join`](Self::join) waits for that.
    pub fn stop(&self) {
        self.outside.answer(Answer::Stop);
    }

    /// Waits until it has ended, and says why. Blocks.
    #[must_use]
    pub fn join(self) -> End {
        let end = match self.decider.join() {
            Ok(end) => {
                // What was being written is then, and the state's folder is free for whoever comes
                // next.
                let _ = self.archived.join();
                end
            }
            Err(_) => End::Bug("the deciding thread panicked; see above".to_owned()),
        };
        match (end, self.metrics.watch.panicked()) {
            (End::Bug(_), Some(said)) => End::Application(said),
            (end, _) => end,
        }
    }
}
