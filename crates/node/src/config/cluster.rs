//! `cluster.toml`: what all replicas agreed on.

use std::collections::BTreeMap;

use quorate_core::committee::{CommitteeError, MAX_REPLICAS};
use quorate_core::crypto::PublicKey;
use quorate_core::wire::{Encode, put_bytes};
use quorate_core::{Committee, Digest, Epoch, ReplicaId, frame, sessions};

use super::choice::{Application, ProtocolName};
use super::document::Document;
use super::finding::{Finding, Place};
use super::quantity::{ByteSize, HostPort};
use super::schema::{Field, Kind, List, Preset, Schema, Settings, Value};

/// What all replicas agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The chain's name, for people.
    pub chain: String,
    /// Tells this chain from any other of the same name and members.
    pub genesis: [u8; 32],
    /// The number of the committee below.
    pub epoch: Epoch,
    /// What orders the blocks.
    pub protocol: ProtocolName,
    /// What is replicated.
    pub application: Application,
    /// What a block may hold.
    pub batch: BatchLimits,
    /// What client sessions may use up: part of the replicated rules.
    pub sessions: sessions::Limits,
    /// What is taken from clients and peers.
    pub limits: ClusterLimits,
    /// The replicas; the one at index i has id i.
    pub members: Vec<Member>,
}

/// What a block may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most commands; a single frame may have more.
    pub max_commands: u32,
    /// Most bytes of commands, their length prefixes of four bytes included.
    pub max_bytes: u32,
}

/// What is taken from clients and peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterLimits {
    /// Most commands in one request frame.
    pub max_frame_commands: u32,
    /// Most bytes of commands in one request frame, their length prefixes included.
    pub max_frame_bytes: u32,
    /// Largest state a replica fetches from others.
    pub max_snapshot_bytes: u64,
}

/// One replica, as all others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the committee.
    pub id: ReplicaId,
    /// What it signs votes with.
    pub consensus_key: PublicKey,
    /// What it proves itself with when replicas connect.
    pub transport_key: PublicKey,
    /// Where other replicas reach it.
    pub peer_address: HostPort,
    /// Where clients reach it.
    pub client_address: HostPort,
}

pub(super) static SCHEMA: Schema = Schema {
    title: "What all replicas of the cluster agreed on: this file must say the same everywhere.\n\
            The digest of everything in it but transport keys and addresses is the chain's\n\
            identity: replicas whose digests differ do not talk to each other.\n\
            `quorate config show` prints the digest.",
    tables: &[
        ("batch", "What a block may hold."),
        ("sessions", "What client sessions may use up. Part of the replicated rules."),
        ("limits", "What is taken from clients and peers."),
    ],
    fields: &[
        Field {
            key: "chain",
            kind: Kind::Name,
            preset: Preset::Required,
            comment: "The chain's name.",
        },
        Field {
            key: "genesis",
            kind: Kind::Hex32,
            preset: Preset::Required,
            comment: "Random at creation: tells this chain from any other of the same name.",
        },
        Field {
            key: "epoch",
            kind: Kind::Integer { min: 0, max: i64::MAX as u64 },
            preset: Preset::Is("0"),
            comment: "The number of the committee below. Every vote is bound to it.",
        },
        Field {
            key: "protocol",
            kind: Kind::Choice(ProtocolName::NAMES),
            preset: Preset::Is("hotstuff-chained"),
            comment: "The protocol that orders the blocks.",
        },
        Field {
            key: "application",
            kind: Kind::Choice(Application::NAMES),
            preset: Preset::Is("kv"),
            comment: "What is replicated: a key-value store, or nothing but the order of commands.",
        },
        Field {
            key: "batch.max_commands",
            kind: Kind::Integer { min: 1, max: 65536 },
            preset: Preset::Is("400"),
            comment: "Most commands in a block. More raises throughput and latency under load.",
        },
        Field {
            key: "batch.max_bytes",
            kind: Kind::Size { min: 1 << 10, max: 16 << 20 },
            preset: Preset::Is("1MiB"),
            comment: "Most bytes of commands in a block.",
        },
        Field {
            key: "sessions.max_sessions",
            kind: Kind::Integer { min: 1, max: 1 << 20 },
            preset: Preset::Is("1024"),
            comment: "Most sessions that live at a time. Each may cost every replica answer_bytes and\n\
                      window_bytes of memory.",
        },
        Field {
            key: "sessions.min_idle_blocks",
            kind: Kind::Integer { min: 1, max: i64::MAX as u64 },
            preset: Preset::Is("10000"),
            comment: "How many blocks a session must have been idle before another may take its place.",
        },
        Field {
            key: "sessions.answer_commands",
            kind: Kind::Integer { min: frame::MAX_COMMANDS as u64, max: 1 << 24 },
            preset: Preset::Is("16384"),
            comment: "Most commands of one session whose replies are kept for retries.",
        },
        Field {
            key: "sessions.answer_bytes",
            kind: Kind::Size { min: 1 << 10, max: 1 << 30 },
            preset: Preset::Is("1MiB"),
            comment: "Most bytes of replies kept for one session.",
        },
        Field {
            key: "sessions.window_frames",
            kind: Kind::Integer { min: 1, max: 1 << 16 },
            preset: Preset::Is("256"),
            comment: "Most frames of one session that wait for a gap in its numbers to close.",
        },
        Field {
            key: "sessions.window_commands",
            kind: Kind::Integer { min: 1, max: 1 << 32 },
            preset: Preset::Is("65536"),
            comment: "How far ahead of the next number a waiting frame may begin, in commands.",
        },
        Field {
            key: "sessions.window_bytes",
            kind: Kind::Size { min: 1 << 10, max: 1 << 30 },
            preset: Preset::Is("512KiB"),
            comment: "Most bytes of the waiting frames of one session.",
        },
        Field {
            key: "limits.max_frame_commands",
            kind: Kind::Integer { min: 1, max: frame::MAX_COMMANDS as u64 },
            preset: Preset::Is("4096"),
            comment: "Most commands in one request frame. One that is larger than a block fills it alone.",
        },
        Field {
            key: "limits.max_frame_bytes",
            kind: Kind::Size { min: 1 << 10, max: frame::MAX_BODY_BYTES as u64 },
            preset: Preset::Is("4MiB"),
            comment: "Most bytes of commands in one request frame.",
        },
        Field {
            key: "limits.max_snapshot_bytes",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44 },
            preset: Preset::Is("64GiB"),
            comment: "Largest state a replica fetches from others when it is far behind.",
        },
    ],
    list: Some(List {
        name: "replicas",
        comment: "The committee: one table a replica, ids from 0 without gaps.",
        fields: &[
            Field {
                key: "id",
                kind: Kind::Integer { min: 0, max: MAX_REPLICAS as u64 - 1 },
                preset: Preset::Required,
                comment: "the replica's place in the committee",
            },
            Field {
                key: "consensus_key",
                kind: Kind::Hex32,
                preset: Preset::Required,
                comment: "the public key its votes are checked with (Ed25519)",
            },
            Field {
                key: "transport_key",
                kind: Kind::Hex32,
                preset: Preset::Required,
                comment: "the public key its connections are checked with (Ed25519)",
            },
            Field {
                key: "peer_address",
                kind: Kind::Peer,
                preset: Preset::Required,
                comment: "where other replicas reach it",
            },
            Field {
                key: "client_address",
                kind: Kind::Peer,
                preset: Preset::Required,
                comment: "where clients reach it",
            },
        ],
    }),
};

impl Cluster {
    /// A cluster of `members` with the default limits, epoch, protocol and application.
    #[must_use]
    pub fn new(chain: String, genesis: [u8; 32], members: Vec<Member>) -> Self {
        let mut settings = Settings::default();
        settings.set("chain", Value::Text(chain), Place::Default);
        settings.set("genesis", Value::Hex32(genesis), Place::Default);
        settings.fill_presets(SCHEMA.fields);
        match from_settings(&settings, members) {
            Some(cluster) => cluster,
            None => unreachable!("every field of the schema is required or has a preset"),
        }
    }

    /// The chain's identity: the digest of what all replicas agreed on. Transport keys and
    /// addresses are left out: they may change without making another chain.
    #[must_use]
    pub fn chain_digest(&self) -> Digest {
        let mut bytes = Vec::with_capacity(256 + 32 * self.members.len());
        put_bytes(&mut bytes, self.chain.as_bytes());
        bytes.extend_from_slice(&self.genesis);
        self.epoch.encode(&mut bytes);
        put_bytes(&mut bytes, self.protocol.name().as_bytes());
        put_bytes(&mut bytes, self.application.name().as_bytes());
        self.batch.max_commands.encode(&mut bytes);
        self.batch.max_bytes.encode(&mut bytes);
        self.sessions.encode(&mut bytes);
        self.limits.max_frame_commands.encode(&mut bytes);
        self.limits.max_frame_bytes.encode(&mut bytes);
        self.limits.max_snapshot_bytes.encode(&mut bytes);
        (self.members.len() as u32).encode(&mut bytes);
        for member in &self.members {
            member.consensus_key.encode(&mut bytes);
        }
        Digest::of("quorate chain 1", &bytes)
    }

    /// The committee, bound to the chain's identity.
    ///
    /// # Errors
    /// [`CommitteeError`] if the members make none; never for a cluster that was loaded.
    pub fn committee(&self) -> Result<Committee, CommitteeError> {
        let keys = self.members.iter().map(|member| member.consensus_key).collect();
        Committee::new(self.chain_digest(), self.epoch, keys)
    }

    /// The member with this id.
    #[must_use]
    pub fn member(&self, id: ReplicaId) -> Option<&Member> {
        self.members.get(id.index())
    }

    /// The text of a `cluster.toml` that says this, with every key explained.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let members: Vec<_> = self.members.iter().map(Member::settings).collect();
        SCHEMA.render(&self.settings(), &members)
    }

    /// What is wrong with it, if anything is: a file that says this would not load. For clusters
    /// that are made, not loaded.
    #[must_use]
    pub fn check(&self) -> Option<Finding> {
        let mut findings = Vec::new();
        let text = self.to_toml();
        let file = std::path::Path::new("cluster.toml");
        let document = super::document::parse(file, &text, &SCHEMA, &mut findings);
        if let Some(document) = document {
            from_document(&document, &mut findings);
        }
        findings.into_iter().next()
    }

    fn settings(&self) -> Settings {
        let size = |bytes: u64| Value::Size(ByteSize(bytes));
        let integer = |n: u32| Value::Integer(n.into());
        let text = |name: &str| Value::Text(name.to_owned());
        let (batch, sessions, limits) = (&self.batch, &self.sessions, &self.limits);
        let mut settings = Settings::default();
        for (key, value) in [
            ("chain", text(&self.chain)),
            ("genesis", Value::Hex32(self.genesis)),
            ("epoch", Value::Integer(self.epoch.0)),
            ("protocol", text(self.protocol.name())),
            ("application", text(self.application.name())),
            ("batch.max_commands", integer(batch.max_commands)),
            ("batch.max_bytes", size(batch.max_bytes.into())),
            ("sessions.max_sessions", integer(sessions.max_sessions)),
            ("sessions.min_idle_blocks", Value::Integer(sessions.min_idle_blocks)),
            ("sessions.answer_commands", integer(sessions.answer_commands)),
            ("sessions.answer_bytes", size(sessions.answer_bytes.into())),
            ("sessions.window_frames", integer(sessions.window_frames)),
            ("sessions.window_commands", Value::Integer(sessions.window_commands)),
            ("sessions.window_bytes", size(sessions.window_bytes.into())),
            ("limits.max_frame_commands", integer(limits.max_frame_commands)),
            ("limits.max_frame_bytes", size(limits.max_frame_bytes.into())),
            ("limits.max_snapshot_bytes", size(limits.max_snapshot_bytes)),
        ] {
            settings.set(key, value, Place::Default);
        }
        settings
    }
}

impl Member {
    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in [
            ("id", Value::Integer(self.id.0.into())),
            ("consensus_key", Value::Hex32(self.consensus_key.0)),
            ("transport_key", Value::Hex32(self.transport_key.0)),
            ("peer_address", Value::Address(self.peer_address.clone())),
            ("client_address", Value::Address(self.client_address.clone())),
        ] {
            settings.set(key, value, Place::Default);
        }
        settings
    }

    fn from_settings(settings: &Settings) -> Option<Self> {
        Some(Self {
            id: ReplicaId(u16::try_from(settings.integer("id")?).ok()?),
            consensus_key: PublicKey(settings.hex32("consensus_key")?),
            transport_key: PublicKey(settings.hex32("transport_key")?),
            peer_address: settings.address("peer_address")?,
            client_address: settings.address("client_address")?,
        })
    }
}

fn from_settings(settings: &Settings, members: Vec<Member>) -> Option<Cluster> {
    let integer = |key| u32::try_from(settings.integer(key)?).ok();
    let size = |key| u32::try_from(settings.size(key)?.0).ok();
    Some(Cluster {
        chain: settings.text("chain")?,
        genesis: settings.hex32("genesis")?,
        epoch: Epoch(settings.integer("epoch")?),
        protocol: ProtocolName::named(&settings.text("protocol")?)?,
        application: Application::named(&settings.text("application")?)?,
        batch: BatchLimits {
            max_commands: integer("batch.max_commands")?,
            max_bytes: size("batch.max_bytes")?,
        },
        sessions: sessions::Limits {
            max_sessions: integer("sessions.max_sessions")?,
            min_idle_blocks: settings.integer("sessions.min_idle_blocks")?,
            answer_commands: integer("sessions.answer_commands")?,
            answer_bytes: size("sessions.answer_bytes")?,
            window_frames: integer("sessions.window_frames")?,
            window_commands: settings.integer("sessions.window_commands")?,
            window_bytes: size("sessions.window_bytes")?,
        },
        limits: ClusterLimits {
            max_frame_commands: integer("limits.max_frame_commands")?,
            max_frame_bytes: size("limits.max_frame_bytes")?,
            max_snapshot_bytes: settings.size("limits.max_snapshot_bytes")?.0,
        },
        members,
    })
}

/// Makes a cluster of what a file says, and checks what its keys say together. Returns the places
/// of the members beside it.
pub(super) fn from_document(
    document: &Document,
    findings: &mut Vec<Finding>,
) -> Option<(Cluster, Vec<Place>)> {
    let mut members: Vec<(Member, Place)> = Vec::with_capacity(document.list.len());
    for (place, settings) in &document.list {
        members.push((Member::from_settings(settings)?, place.clone()));
    }
    members.sort_by_key(|(member, _)| member.id);
    check_ids(&members, findings);
    check_distinct(&members, findings);
    let (members, places): (_, Vec<_>) = members.into_iter().unzip();
    let cluster = from_settings(&document.settings, members)?;
    Some((cluster, places))
}

fn check_ids(members: &[(Member, Place)], findings: &mut Vec<Finding>) {
    for (index, (member, place)) in members.iter().enumerate() {
        let id = member.id;
        if id.index() == index {
            continue;
        }
        let what = match index.checked_sub(1).and_then(|before| members.get(before)) {
            Some((other, _)) if other.id == id => format!("two replicas have the id {id}"),
            _ => format!("there is a replica {id}, and no replica {index}"),
        };
        let remedy = format!("give the {} replicas the ids from 0 without gaps", members.len());
        return findings.push(Finding::new(what, place.clone(), remedy));
    }
}

/// No key serves twice, in whichever role, and no address.
fn check_distinct(members: &[(Member, Place)], findings: &mut Vec<Finding>) {
    let mut keys = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for (member, place) in members {
        let id = member.id;
        for (role, key) in
            [("consensus_key", member.consensus_key), ("transport_key", member.transport_key)]
        {
            if let Some((other, first)) = keys.insert(key, (id, role)) {
                findings.push(Finding::new(
                    format!("`{role}` of replica {id} is also `{first}` of replica {other}"),
                    place.clone(),
                    "every key serves once: make another with `quorate keygen`",
                ));
            }
        }
        for (role, address) in
            [("peer_address", &member.peer_address), ("client_address", &member.client_address)]
        {
            if let Some((other, first)) = addresses.insert(address.clone(), (id, role)) {
                findings.push(Finding::new(
                    format!("`{role}` of replica {id} is also `{first}` of replica {other}"),
                    place.clone(),
                    "give each its own port",
                ));
            }
        }
    }
}
