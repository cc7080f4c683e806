//! What a replica tells over HTTP: `/livez`, `/readyz`, `/metrics`, `/status`, `/history`,
//! `/blocks`, `/profile`, `/version` and `/watch` for programs, and the dashboard `/` for people.
//!
//! Reading it takes nothing from the replica: every number is an atomic that the deciding thread
//! publishes. `/livez` never needs a quorum; `/readyz` says whether commands would be ordered.
//! The server is bounded: few connections, each with a deadline for its requests and for its life,
//! and bodies are never read.

pub mod access;
mod ask;
mod blocks;
mod dashboard;
mod history;
mod memory;
mod metrics;
mod profile;
mod status;
pub mod warnings;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use quorate_core::{Committee, ReplicaId};
use quorate_transport::Door;
use quorate_transport::places::{Caps, Network, Places, Rule};
use quorate_transport::{Counters, Peers};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use self::access::Access;
use self::history::History;
use self::memory::Memory;
use self::warnings::{Look, Warning};
use self::watch::{Open, Watching};
use crate::config::{Cluster, Node};
use crate::replica::Running;
use crate::replica::epochs::{Epochs, Standing};
use crate::replica::metrics::Metrics;
use crate::replica::watch::Place;

pub use ask::{AskError, Asker, Reply, ask, ask_json};

/// Connections served at once, in all and of one address. When there are so many the oldest gives
/// way, so that nobody who keeps connections can keep `/livez` from being read.
const CONNECTIONS: usize = 32;
const CONNECTIONS_OF_ADDRESS: usize = 16;
/// Connections that gave way and are not gone yet.
const LEAVING: usize = 4;
/// All of them together.
pub(crate) const MOST_CONNECTIONS: usize = CONNECTIONS + LEAVING;
/// Time for the head of a request, from the connection's or the last answer's moment.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection lives at most, unless it is a [stream](watch): one that does not read is
/// gone then.
const LIFE: Duration = Duration::from_secs(60);
/// Bytes of a request's head at most.
const HEAD_BYTES: usize = 16 << 10;
/// Pause after the system refused to accept: mostly, no file descriptors are left.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Samples of the history that are a minute.
const MINUTE: usize = (60 / history::EVERY.as_secs()) as usize;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is told, and where it is read from.
pub struct Facts {
    /// Which replica this is.
    replica: u16,
    /// What all agreed on.
    cluster: Cluster,
    /// What is replicated, as people call it.
    application: String,
    epochs: Arc<Epochs>,
    metrics: Arc<Metrics>,
    counters: Arc<Counters>,
    peers: Arc<Peers>,
    /// The data folder.
    folder: PathBuf,
    /// Bytes that the log may take.
    log_window_bytes: u64,
    history: History,
    /// What those who watch are told.
    watching: Option<Watching>,
    stopping: AtomicBool,
}

impl Facts {
    /// About the replica `running` of `cluster`, configured as `node`.
    #[must_use]
    pub fn new(node: &Node, cluster: Cluster, running: &Running) -> Arc<Self> {
        Arc::new(Self {
            replica: node.replica.0,
            folder: node.storage.folder.clone(),
            log_window_bytes: node.storage.log_window_bytes,
            history: History::default(),
            watching: running.feed().map(Watching::of),
            application: cluster.application_name(),
            epochs: Arc::clone(running.epochs()),
            cluster,
            metrics: Arc::clone(running.metrics()),
            counters: Arc::clone(running.counters()),
            peers: Arc::clone(running.peers()),
            stopping: AtomicBool::new(false),
        })
    }

    /// Says that the replica is stopping: it is not ready any more.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What is wrong, worst first.
    fn warnings(&self) -> Vec<Warning> {
        let look = Look {
            me: ReplicaId(self.replica),
            committee: self.epochs.committee(),
            connected: &self.peers.connected(),
            metrics: &self.metrics,
            minute: &self.history.last(MINUTE),
            free_bytes: free_bytes(&self.folder),
            memory: Memory::now(),
            log_window_bytes: self.log_window_bytes,
        };
        look.warnings()
    }

    /// Why the replica is not ready; `None` if it is.
    fn not_ready(&self) -> Option<String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Some("stopping".to_owned());
        }
        if self.metrics.rejoining.get() != 0 {
            return Some("waiting for testimonies after the loss of its data".to_owned());
        }
        if let Some(lasts) = self.metrics.watch.lasting(Place::Deciding) {
            return Some(lasts);
        }
        if self.standing() == Standing::Left {
            return Some("it is no member any more".to_owned());
        }
        let committee = self.epochs.committee();
        let faulty = committee.faults() as u64;
        if self.metrics.state_root_differs_views.get() > faulty {
            return Some(format!(
                "its state root at height {} differs from those proposed, and nothing is committed: the \
                 application `{}` is not deterministic, or its state is damaged",
                self.metrics.state_root_differs_at.get(),
                self.application
            ));
        }
        let (reached, quorum) = (self.reached(&committee), committee.quorum());
        (reached < quorum).then(|| {
            format!("reaches {reached} replicas, itself included, of {quorum} that make a quorum")
        })
    }

    /// How much the members weigh together that are reached, this one included.
    fn reached(&self, committee: &Committee) -> usize {
        let me = ReplicaId(self.replica);
        let others = self.peers.connected().into_iter().filter(|id| *id != me);
        committee.weight_of(others.chain([me]))
    }

    /// How this replica takes part.
    fn standing(&self) -> Standing {
        self.epochs.standing(ReplicaId(self.replica))
    }
}

/// Bytes that the disk of a folder has left for this process.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Answers on `listener` until the task is dropped or aborted.
pub async fn serve(listener: TcpListener, access: Arc<Access>, facts: Arc<Facts>) {
    let counters = Arc::clone(&facts.counters);
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_text))
        .route("/status", get(status_json))
        .route("/history", get(history_json))
        .route("/blocks", get(blocks_json))
        .route("/profile", get(profile_json))
        .route("/version", get(version))
        .route("/watch", get(watch::stream))
        .merge(dashboard::routes())
        .with_state(Arc::clone(&facts))
        .layer(from_fn_with_state(Arc::clone(&access), access::check));
    let tls = || access.tls();
    tokio::select! {
        () = serve_with(listener, router, &counters, tls) => {}
        () = Arc::clone(&access).follow() => {}
        () = history::keep(facts) => {}
    }
}

/// Answers what `router` has, on `listener`, within the bounds of this module, until the task is
/// dropped or aborted.
pub async fn serve_router(listener: TcpListener, router: Router, counters: &Counters) {
    serve_with(listener, router, counters, || None).await;
}

/// The same, over TLS if `tls` says so when a connection comes.
async fn serve_with(
    listener: TcpListener,
    router: Router,
    counters: &Counters,
    tls: impl Fn() -> Option<Arc<ServerConfig>>,
) {
    let caps = Caps { all: CONNECTIONS, of_network: CONNECTIONS_OF_ADDRESS };
    let places = Places::new(caps, Rule::OldestGivesWay);
    let mut connections = JoinSet::new();
    let door = Door::new(listener);
    loop {
        let accepted = tokio::select! {
            accepted = door.accept(), if connections.len() < MOST_CONNECTIONS => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let Some((mut place, gave_way)) = places.take(address.ip().into()) else { continue };
        counters.gave_way.fetch_add(u64::from(gave_way), Ordering::Relaxed);
        let open = Open::default();
        let network: Network = address.ip().into();
        let router = router.clone().layer(Extension(open.clone())).layer(Extension(network));
        let service = TowerToHyperService::new(router);
        let tls = tls();
        connections.spawn(async move {
            let connection = async {
                match tls {
                    None => answer(stream, service).await,
                    Some(tls) => {
                        let accepting = TlsAcceptor::from(tls).accept(stream);
                        if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, accepting).await {
                            answer(stream, service).await;
                        }
                    }
                }
            };
            // A client that breaks off or takes too long is its own concern.
            tokio::select! {
                () = connection => {}
                () = lived(&open) => {}
                () = place.lost() => {}
            }
        });
    }
}

/// Answers on one connection.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, service: TowerToHyperService<Router>) {
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Waits until a connection has lived as long as one may that is no stream.
async fn lived(open: &Open) {
    tokio::time::sleep(LIFE).await;
    while open.has_stream() {
        tokio::time::sleep(HEAD_WITHIN).await;
    }
}

async fn ready(State(facts): State<Arc<Facts>>) -> Response {
    match facts.not_ready() {
        None => "ok\n".into_response(),
        Some(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response()
        }
    }
}

async fn metrics_text(State(facts): State<Arc<Facts>>) -> Response {
    match metrics::text(&facts) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn status_json(State(facts): State<Arc<Facts>>) -> Response {
    json(&status::of(&facts))
}

async fn history_json(State(facts): State<Arc<Facts>>) -> Response {
    json(&facts.history.to_json())
}

async fn blocks_json(State(facts): State<Arc<Facts>>) -> Response {
    json(&blocks::of(&facts))
}

async fn profile_json(State(facts): State<Arc<Facts>>) -> Response {
    json(&profile::of(&facts))
}

async fn version() -> Response {
    json(&serde_json::json!({ "name": "quorate", "version": VERSION }))
}

fn json(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}
