//! `node.toml`: what one process decides for itself.

mod check;
mod dissemination;
mod http;
mod laboratory;
mod traces;

use std::path::PathBuf;
use std::time::Duration;

use quorate_core::ReplicaId;

use super::choice::{
    Cores, DisseminationName, Durability, LogFormat, LogLevel, SentAncestors, StateStore,
    TimeoutKind, VoteVerification,
};
use super::finding::Place;
use super::home::Home;
use super::quantity::HostPort;
use super::schema::{Field, Kind, NO_ADVERSARY, Preset, Schema, Settings};

pub(super) use check::check;
pub use http::Http;
pub use laboratory::Laboratory;
pub use traces::Tracing;

/// One replica's own configuration. Paths are resolved, addresses are where to listen.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Which member of the committee this is.
    pub replica: ReplicaId,
    /// How clients' frames reach the replicas that do not have them.
    pub dissemination: DisseminationName,
    /// Where the secret keys are.
    pub keys: KeyFiles,
    /// What is kept, and how.
    pub storage: Storage,
    /// Where to listen.
    pub listen: Listen,
    /// Who may read over HTTP.
    pub http: Http,
    /// What clients may take.
    pub clients: Clients,
    /// When a leader is given up.
    pub view_timeout: ViewTimeout,
    /// How it shares the processors.
    pub processor: Processor,
    /// How wide the stages are that may be.
    pub pipeline: Pipeline,
    /// What is logged.
    pub log: Log,
    /// What is traced.
    pub tracing: Tracing,
    /// What is tried out.
    pub laboratory: Laboratory,
    /// The keys of the table `service`, as TOML: what the service's program reads at this replica.
    pub service: String,
}

/// Where the secret keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    /// The one for votes.
    pub consensus: PathBuf,
    /// The one for connections.
    pub transport: PathBuf,
}

/// What is kept, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The data folder, signing state included.
    pub folder: PathBuf,
    /// What is waited for before anything leaves.
    pub durability: Durability,
    /// Bytes of decided blocks kept; the oldest beyond go once a snapshot covers them.
    pub log_window_bytes: u64,
    /// Blocks from one snapshot of the state to the next.
    pub snapshot_every_blocks: u64,
    /// Where the application's state is.
    pub state: StateStore,
}

/// Where to listen; port 0 asks for any free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For other replicas.
    pub peer: HostPort,
    /// For clients.
    pub client: HostPort,
    /// For status and metrics over HTTP.
    pub http: HostPort,
}

/// What clients may take of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// Bytes that all their connections may hold together.
    pub max_held_bytes: usize,
}

/// When a leader is given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewTimeout {
    /// How the time changes.
    pub kind: TimeoutKind,
    /// How long a view may take where none failed; with [`TimeoutKind::Adaptive`], at most, and
    /// until enough views were timed.
    pub base: Duration,
    /// By how much the next failed view may take longer. Nothing with [`TimeoutKind::Fixed`].
    pub multiplier: f64,
    /// The longest a view may take. Nothing with [`TimeoutKind::Fixed`].
    pub max: Duration,
    /// In what time a message of any correct replica arrives: how long a leader of HotStuff-2
    /// waits after a failed view before it proposes.
    pub delta: Duration,
}

/// How the process shares the processors with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Whether its threads, when they are woken, may take a processor from a thread at work.
    pub preempts: bool,
    /// Which cores the threads of its connections run on.
    pub network_cores: Cores,
}

/// How many threads the stages have that may have several; 0: as many as suit the machine. The
/// [stages](crate::replica::profile::Stage) that are one thread say why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    /// Of the connections: receive and send.
    pub network: usize,
    /// Of clients' frames: hash and verify.
    pub requests: usize,
    /// Of the protocol's signatures: verify.
    pub verify: usize,
}

impl Pipeline {
    /// Threads of the connections, where they may run on so many cores: half of these, for the
    /// other half is verifying and deciding.
    #[must_use]
    pub fn network(&self, cores: usize) -> usize {
        or_half(self.network, cores)
    }

    /// Threads that hash and verify clients' frames.
    #[must_use]
    pub fn requests(&self) -> usize {
        or_half(self.requests, cores())
    }

    /// Threads that verify the protocol's signatures.
    #[must_use]
    pub fn verify(&self) -> usize {
        or_half(self.verify, cores())
    }
}

fn or_half(threads: usize, cores: usize) -> usize {
    if threads > 0 { threads } else { (cores / 2).max(1) }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// How much.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

const MEMBER: &str = "the address of this replica in cluster.toml";

/// What an operation of an emulated accelerator may take.
const ACCELERATED: Kind = Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(1) };

/// A version of a protocol, or 0.
const VERSION: Kind = Kind::Integer { min: 0, max: u16::MAX as u64 };

pub(super) static SCHEMA: Schema = Schema {
    title: "What this replica decides for itself. A flag (--set KEY=VALUE) comes before the\n\
            environment (QUORATE_VIEW_TIMEOUT_BASE for view_timeout.base), which comes before this\n\
            file. `quorate config show --effective` prints what is in force, and who set it.",
    tables: &[
        ("keys", "Secret keys, made by `quorate keygen`. Files that others may read are refused."),
        ("storage", "What is kept on disk."),
        (
            "listen",
            "Where this process listens. An address that is not of the loopback interface opens\n\
             the port to others.",
        ),
        ("clients", "What clients may take of this process."),
        ("view_timeout", "When a leader that does not lead is given up."),
        ("processor", "How this process shares the machine's processors."),
        (
            "pipeline",
            "How many threads the stages have that may have several; 0: half as many as there are cores.\n\
             `quorate profile` and /metrics tell what each stage takes, and how long its queue is.",
        ),
        ("log", "What is logged, to standard error."),
        ("tracing", "Traces of clients' commands through this replica."),
        (
            "laboratory",
            "Experiments: parts that can be switched off to learn what they bring. All of it is refused\n\
             unless enabled.",
        ),
    ],
    fields: &[
        Field {
            key: "replica",
            kind: Kind::Integer { min: 0, max: 255 },
            preset: Preset::Required,
            comment: "This replica's id in cluster.toml.",
        },
        dissemination::DISSEMINATION,
        Field {
            key: "keys.consensus",
            kind: Kind::Path,
            preset: Preset::Is("config/consensus.key"),
            comment: "The key that signs votes. It must never be in use by two processes.",
        },
        Field {
            key: "keys.transport",
            kind: Kind::Path,
            preset: Preset::Is("config/transport.key"),
            comment: "The key that proves who this is when replicas connect.",
        },
        Field {
            key: "storage.folder",
            kind: Kind::Path,
            preset: Preset::Is("data"),
            comment: "The data folder. It holds the signing state: never restore an old copy of it.",
        },
        Field {
            key: "storage.durability",
            kind: Kind::Choice(Durability::NAMES),
            preset: Preset::Is("sync"),
            comment: "What a vote waits for. \"sync\": the disk, so that it survives a power cut.\n\
                      \"os\": the operating system, so that it survives the process alone.",
        },
        Field {
            key: "storage.log_window",
            kind: Kind::Size { min: 64 << 20, max: 1 << 50 },
            preset: Preset::Is("1GiB"),
            comment: "How much of the decided log is kept. It bounds the disk, and how far a replica\n\
                      may be behind without having to fetch the whole state.",
        },
        Field {
            key: "storage.snapshot_every",
            kind: Kind::Integer { min: 1, max: 1 << 40 },
            preset: Preset::Is("10000"),
            comment: "Blocks from one snapshot of the state to the next.",
        },
        Field {
            key: "storage.state",
            kind: Kind::Choice(StateStore::NAMES),
            preset: Preset::Is("memory"),
            comment: "Where the state of the application \"kv\" is. \"memory\": a start makes it again from\n\
                      the newest snapshot. \"disk\": in the folder state within storage.folder, larger than\n\
                      memory if need be; a start goes on from its checkpoint. Replicas may differ, and change.",
        },
        Field {
            key: "listen.peer",
            kind: Kind::Listen,
            preset: Preset::Inherited(MEMBER),
            comment: "For other replicas.",
        },
        Field {
            key: "listen.client",
            kind: Kind::Listen,
            preset: Preset::Inherited(MEMBER),
            comment: "For clients.",
        },
        Field {
            key: "listen.http",
            kind: Kind::Listen,
            preset: Preset::Is("127.0.0.1:0"),
            comment: "For status and metrics (/livez, /readyz, /status, /metrics) and /watch. Who may read\n\
                      say the keys of [http].",
        },
        http::CERTIFICATE,
        http::KEY,
        http::TOKEN,
        http::OPEN_METRICS,
        http::UNPROTECTED,
        Field {
            key: "clients.max_held",
            kind: Kind::Size { min: 16 << 20, max: 1 << 40 },
            preset: Preset::Is("96MiB"),
            comment: "Memory for what all clients' connections hold together: frames that have not arrived\n\
                      whole, and answers that have not left. Without room, long frames wait; beyond it, the\n\
                      connections that hold most end.",
        },
        Field {
            key: "view_timeout.kind",
            kind: Kind::Choice(TimeoutKind::NAMES),
            preset: Preset::Is("exponential"),
            comment: "How long a view may take: always base; longer with each failed view, as long as views\n\
                      need it; or the same from four times what recent views took, base at most.",
        },
        Field {
            key: "view_timeout.base",
            kind: Kind::Duration {
                min: Duration::from_millis(1),
                max: Duration::from_secs(60 * 60),
            },
            preset: Preset::Is("300ms"),
            comment: "How long a view may take. Several round trips and one sync of the disk.",
        },
        Field {
            key: "view_timeout.multiplier",
            kind: Kind::Ratio { min: 1.0, max: 10.0 },
            preset: Preset::Is("2"),
            comment: "By how much each failed view lets the next take longer. Nothing to\n\
                      kind = \"fixed\".",
        },
        Field {
            key: "view_timeout.max",
            kind: Kind::Duration {
                min: Duration::from_millis(1),
                max: Duration::from_secs(24 * 60 * 60),
            },
            preset: Preset::Is("1min"),
            comment: "The longest a view may take. At least view_timeout.base.",
        },
        Field {
            key: "view_timeout.delta",
            kind: Kind::Duration {
                min: Duration::from_millis(1),
                max: Duration::from_secs(60 * 60),
            },
            preset: Preset::Is("50ms"),
            comment: "The time in which a message of any correct replica arrives. A leader of hotstuff-2\n\
                      waits so long after a failed view, and never otherwise.",
        },
        Field {
            key: "processor.preempts",
            kind: Kind::Bool,
            preset: Preset::Is("true"),
            comment: "Whether a thread that is woken may take a processor from one at work, as is usual.\n\
                      false (Linux: SCHED_BATCH): it waits for its turn. Better where a machine runs several\n\
                      replicas and little else, worse beside programs that keep its processors busy.",
        },
        Field {
            key: "processor.network_cores",
            kind: Kind::Choice(Cores::NAMES),
            preset: Preset::Is("all"),
            comment: "Which cores the threads of its connections run on: all that the process may use, or its\n\
                      share of them. share (Linux) is for a machine that runs the whole cluster: replica 0\n\
                      of 4 keeps to the first quarter, to one core at least, and is not moved about.",
        },
        Field {
            key: "pipeline.network",
            kind: Kind::Integer { min: 0, max: 256 },
            preset: Preset::Is("0"),
            comment: "Of the connections: receive and send. Of the cores, those of processor.network_cores.",
        },
        Field {
            key: "pipeline.requests",
            kind: Kind::Integer { min: 0, max: 256 },
            preset: Preset::Is("0"),
            comment: "Of clients' frames: hash and verify. A batch is divided among them and handed on whole,\n\
                      so that each client's frames stay in their order.",
        },
        Field {
            key: "pipeline.verify",
            kind: Kind::Integer { min: 0, max: 256 },
            preset: Preset::Is("0"),
            comment: "Of what replicas sign: verify. Verdicts are handed on in the order of the messages.",
        },
        Field {
            key: "log.level",
            kind: Kind::Choice(LogLevel::NAMES),
            preset: Preset::Is("info"),
            comment: "How much is logged.",
        },
        Field {
            key: "log.format",
            kind: Kind::Choice(LogFormat::NAMES),
            preset: Preset::Is("text"),
            comment: "For people, or one JSON object a line.",
        },
        traces::OTLP,
        traces::CA,
        traces::SAMPLE,
        Field {
            key: "laboratory.enabled",
            kind: Kind::Bool,
            preset: Preset::Is("false"),
            comment: "Whether this is a laboratory. A cluster with signatures = \"none\" needs it as well.",
        },
        Field {
            key: "laboratory.filtering",
            kind: Kind::Bool,
            preset: Preset::Is("true"),
            comment: "Whether a proposal leaves out what its ancestors hold.",
        },
        Field {
            key: "laboratory.ancestors",
            kind: Kind::Choice(SentAncestors::NAMES),
            preset: Preset::Is("none"),
            comment: "Which uncommitted ancestors travel with a proposal: none, those the receiver is not\n\
                      known to have, or all.",
        },
        Field {
            key: "laboratory.certificate_cache",
            kind: Kind::Bool,
            preset: Preset::Is("true"),
            comment: "Whether a certificate that was verified is not verified again.",
        },
        Field {
            key: "laboratory.verify_votes",
            kind: Kind::Choice(VoteVerification::NAMES),
            preset: Preset::Is("at-quorum"),
            comment: "When votes are verified: as one batch once a quorum is there, or each when it comes.",
        },
        Field {
            key: "laboratory.retransmission",
            kind: Kind::Bool,
            preset: Preset::Is("true"),
            comment: "Whether transport = \"udp\" sends again what was lost between replicas. TCP and QUIC\n\
                      always do.",
        },
        Field {
            key: "laboratory.adversary",
            kind: Kind::Adversary,
            preset: Preset::Is(NO_ADVERSARY),
            comment: "What makes this replica Byzantine, and when (counted from its start): NAME,\n\
                      NAME@FROM..TO, or NAME@FROM..TO/PERIOD to do so in each period. Several are separated\n\
                      by commas. docs/adversaries.md says what each does.",
        },
        Field {
            key: "laboratory.oldest_version",
            kind: VERSION,
            preset: Preset::Is("0"),
            comment: "The oldest version of the wire protocol that this replica says it speaks, as if it were\n\
                      another release. 0: what this program speaks.",
        },
        Field {
            key: "laboratory.newest_version",
            kind: VERSION,
            preset: Preset::Is("0"),
            comment: "The newest one. 0: what this program speaks.",
        },
        Field {
            key: "laboratory.newest_rules",
            kind: VERSION,
            preset: Preset::Is("0"),
            comment: "The newest rules that this replica says its application supports. 0: what it supports.",
        },
        Field {
            key: "laboratory.accelerator.sign",
            kind: ACCELERATED,
            preset: Preset::Is("0s"),
            comment: "How long an emulated accelerator takes for a signature. \"0s\": the processor signs.",
        },
        Field {
            key: "laboratory.accelerator.verify",
            kind: ACCELERATED,
            preset: Preset::Is("0s"),
            comment: "How long it takes to verify one. \"0s\": the processor verifies.",
        },
        Field {
            key: "laboratory.accelerator.latency",
            kind: ACCELERATED,
            preset: Preset::Is("0s"),
            comment: "How long the way to it and back takes, for each request.",
        },
        Field {
            key: "service",
            kind: Kind::Table,
            preset: Preset::Absent,
            comment: "With application = \"service\": what its program reads at this replica alone.",
        },
    ],
    list: None,
};

/// The text of a `node.toml` with `values` (keys and what the environment would spell) and the
/// defaults for the rest, with every key explained. `None`: a key or value the schema refuses.
#[must_use]
pub fn node_file_text(values: &[(&str, &str)]) -> Option<String> {
    let mut settings = Settings::default();
    for (key, text) in values {
        let field = SCHEMA.field(key)?;
        settings.set(field.key, field.kind.parse(text)?, Place::Default);
    }
    settings.fill_presets(SCHEMA.fields);
    Some(SCHEMA.render(&settings, &[]))
}

/// What settings without a gap say. The listen addresses of peers and clients must be filled in.
pub(super) fn from_settings(settings: &Settings, home: &Home) -> Option<Node> {
    let path = |key| Some(home.resolve(&settings.path(key)?));
    Some(Node {
        replica: ReplicaId(u16::try_from(settings.integer("replica")?).ok()?),
        dissemination: DisseminationName::named(&settings.text("dissemination")?)?,
        keys: KeyFiles { consensus: path("keys.consensus")?, transport: path("keys.transport")? },
        storage: Storage {
            folder: path("storage.folder")?,
            durability: Durability::named(&settings.text("storage.durability")?)?,
            log_window_bytes: settings.size("storage.log_window")?.0,
            snapshot_every_blocks: settings.integer("storage.snapshot_every")?,
            state: StateStore::named(&settings.text("storage.state")?)?,
        },
        listen: Listen {
            peer: settings.address("listen.peer")?,
            client: settings.address("listen.client")?,
            http: settings.address("listen.http")?,
        },
        http: Http::from_settings(settings, home)?,
        clients: Clients {
            max_held_bytes: usize::try_from(settings.size("clients.max_held")?.0)
                .unwrap_or(usize::MAX),
        },
        view_timeout: ViewTimeout {
            kind: TimeoutKind::named(&settings.text("view_timeout.kind")?)?,
            base: settings.duration("view_timeout.base")?.0,
            multiplier: settings.ratio("view_timeout.multiplier")?,
            max: settings.duration("view_timeout.max")?.0,
            delta: settings.duration("view_timeout.delta")?.0,
        },
        processor: Processor {
            preempts: settings.bool("processor.preempts")?,
            network_cores: Cores::named(&settings.text("processor.network_cores")?)?,
        },
        pipeline: Pipeline {
            network: settings.integer("pipeline.network")? as usize,
            requests: settings.integer("pipeline.requests")? as usize,
            verify: settings.integer("pipeline.verify")? as usize,
        },
        log: Log {
            level: LogLevel::named(&settings.text("log.level")?)?,
            format: LogFormat::named(&settings.text("log.format")?)?,
        },
        tracing: Tracing::from_settings(settings, home)?,
        laboratory: Laboratory::from_settings(settings)?,
        service: settings.table("service").unwrap_or_default(),
    })
}
