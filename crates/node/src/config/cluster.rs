//! `cluster.toml`: what all replicas agreed on.

mod check;
mod clients;
mod fields;
mod governed;
mod member_file;
mod public_keys;
mod restored;

use std::sync::Arc;

use quorate_core::base::crypto::{PublicKey, SHARE_KEY_BYTES, ShareKeys};
use quorate_core::base::membership::{
    self, CommitteeError, Governance, Opening, ReplicaKey, Rules,
};
use quorate_core::base::wire::{Encode, put_bytes};
use quorate_core::ledger::clients::Clients;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, ledger::sessions};
use quorate_crypto::SchemeName;
use quorate_transport::TransportName;

use super::choice::{
    Application, AuthenticationName, LeaderName, LivenessName, PacemakerName, ProtocolName,
    SamplingName, VoteRoute,
};
use super::combination::{Choices, Combination};
use super::contact::Contact;
use super::finding::{Finding, Place};
use super::quantity::{ByteSize, HostPort};
use super::schema::{Settings, Value};
use super::service;

pub(super) use check::from_document;
pub(super) use fields::{MEMBER_SCHEMA, SCHEMA};
pub use member_file::MemberFile;
pub use restored::Restored;

/// Bytes of a proof of possession: a BLS signature.
pub const PROOF_BYTES: usize = quorate_crypto::bls::SIGNATURE_BYTES;
/// Bytes of the committee's key, where it has one.
pub const GROUP_KEY_BYTES: usize = quorate_crypto::bls::KEY_BYTES;

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
    /// To whom votes go.
    pub votes: VoteRoute,
    /// Whether a replica that holds a block's certificate votes for it once more.
    pub second_vote: bool,
    /// How a view is left whose leader does not lead.
    pub pacemaker: PacemakerName,
    /// Who leads.
    pub leader: LeaderName,
    /// The leader, with [`LeaderName::Fixed`]; 0 without.
    pub fixed_leader: ReplicaId,
    /// How many replicas Snowman asks, and how often; with other protocols it is not used.
    pub sampling: SamplingName,
    /// What Snowman does where sampling decides nothing; with other protocols it is not used.
    pub liveness: LivenessName,
    /// What is signed with.
    pub signatures: SchemeName,
    /// By what it is known who says something.
    pub authentication: AuthenticationName,
    /// Whether replicas of PBFT answer tentatively, and clients take such answers. No part of the
    /// chain's identity: without the other side it does nothing.
    pub tentative: bool,
    /// The committee's public key; there is one exactly if the scheme
    /// [needs it](SchemeName::is_dealt).
    pub group_key: Option<[u8; GROUP_KEY_BYTES]>,
    /// What replicas reach each other by. No part of the chain's identity, as addresses are none.
    pub transport: TransportName,
    /// What is replicated.
    pub application: Application,
    /// The keys of the table `service`, as TOML: with [`Application::Service`] the service's name,
    /// and what its program wants all replicas to agree on.
    pub service: String,
    /// What a block may hold.
    pub batch: BatchLimits,
    /// What client sessions may use up: part of the replicated rules.
    pub sessions: sessions::Limits,
    /// What is taken from clients and peers.
    pub limits: ClusterLimits,
    /// Who may change the members; nobody where there are no administrators.
    pub governance: Governance,
    /// Who may send commands, as the chain begins.
    pub clients: Arc<Clients>,
    /// The rules that its first epoch executes by: others than the first only where members may
    /// change.
    pub rules: Rules,
    /// The state of another chain that this one begins with, if it was restored from a backup.
    pub restored: Option<Restored>,
    /// The replicas; the one at index i has id i. Where members may change, these are the first.
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
    /// What the application's keys and values may take.
    pub max_state_bytes: u64,
}

/// One replica, as all others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the committee.
    pub id: ReplicaId,
    /// What its votes are checked with; where members [generate](Cluster::generates_keys) threshold
    /// keys, what it signs alone.
    pub consensus_key: ReplicaKey,
    /// What its votes are checked with in the first epoch, where members generate threshold keys.
    pub share_key: Option<[u8; SHARE_KEY_BYTES]>,
    /// The proof that it holds the secret half; there is one exactly if the scheme
    /// [needs it](SchemeName::needs_possession).
    pub proof_of_possession: Option<[u8; PROOF_BYTES]>,
    /// What it proves itself with when replicas connect.
    pub transport_key: PublicKey,
    /// Where other replicas reach it.
    pub peer_address: HostPort,
    /// Where clients reach it.
    pub client_address: HostPort,
    /// What its owner calls it, for people. No part of the chain's identity.
    pub name: Option<String>,
}

impl Cluster {
    /// A cluster of `members` with the default limits, epoch, combination and application.
    #[must_use]
    pub fn new(chain: String, genesis: [u8; 32], members: Vec<Member>) -> Self {
        let mut settings = Settings::default();
        settings.set("chain", Value::Text(chain), Place::Default);
        settings.set("genesis", Value::Hex(genesis.to_vec()), Place::Default);
        settings.fill_presets(SCHEMA.fields);
        match from_settings(&settings, members) {
            Some(cluster) => cluster,
            None => unreachable!("every field of the schema is required or has a preset"),
        }
    }

    /// Whether the members may change.
    #[must_use]
    pub fn is_governed(&self) -> bool {
        !self.governance.administrators.is_empty()
    }

    /// Whether members that change sign with a threshold key, and generate a fresh one for each
    /// epoch. Each has a key of its own then beside its share.
    #[must_use]
    pub fn generates_keys(&self) -> bool {
        self.is_governed() && self.signatures.is_dealt()
    }

    /// The scheme of members' own keys.
    #[must_use]
    pub fn own_scheme(&self) -> SchemeName {
        if self.generates_keys() { SchemeName::Ed25519 } else { self.signatures }
    }

    /// The chain's identity: the digest of what all replicas agreed on. Transport,
    /// transport keys and addresses are left out: they may change without making another chain.
    /// Where members may change, keys and addresses are part of the replicated state, so there they
    /// are covered as well.
    #[must_use]
    pub fn chain_digest(&self) -> Digest {
        let mut bytes = Vec::with_capacity(512 + 160 * self.members.len());
        put_bytes(&mut bytes, self.chain.as_bytes());
        bytes.extend_from_slice(&self.genesis);
        self.epoch.encode(&mut bytes);
        put_bytes(&mut bytes, self.protocol.name().as_bytes());
        if self.protocol == ProtocolName::Pbft {
            // With the others there is no choice.
            put_bytes(&mut bytes, self.authentication.name().as_bytes());
        }
        put_bytes(&mut bytes, self.votes.name().as_bytes());
        bytes.push(self.second_vote.into());
        put_bytes(&mut bytes, self.pacemaker.name().as_bytes());
        put_bytes(&mut bytes, self.leader.name().as_bytes());
        self.fixed_leader.encode(&mut bytes);
        if self.protocol == ProtocolName::Snowman {
            // With the others there is no choice.
            put_bytes(&mut bytes, self.sampling.name().as_bytes());
            if self.liveness != LivenessName::Sampling {
                // Chains were made before there was a choice.
                put_bytes(&mut bytes, self.liveness.name().as_bytes());
            }
        }
        put_bytes(&mut bytes, self.signatures.as_str().as_bytes());
        put_bytes(&mut bytes, self.group_key.as_ref().map_or(&[], |key| &key[..]));
        put_bytes(&mut bytes, self.application.name().as_bytes());
        if self.application == Application::Service {
            put_bytes(&mut bytes, self.service.as_bytes());
        }
        self.batch.max_commands.encode(&mut bytes);
        self.batch.max_bytes.encode(&mut bytes);
        self.sessions.encode(&mut bytes);
        self.limits.max_frame_commands.encode(&mut bytes);
        self.limits.max_frame_bytes.encode(&mut bytes);
        self.limits.max_snapshot_bytes.encode(&mut bytes);
        self.limits.max_state_bytes.encode(&mut bytes);
        (self.members.len() as u32).encode(&mut bytes);
        for member in &self.members {
            put_bytes(&mut bytes, member.consensus_key.as_bytes());
            let proof = &member.proof_of_possession;
            put_bytes(&mut bytes, proof.as_ref().map_or(&[], |proof| &proof[..]));
        }
        if self.is_governed() {
            self.governance.encode(&mut bytes);
            self.members.iter().for_each(|member| member.contact().encode(&mut bytes));
        }
        if self.generates_keys() {
            for member in &self.members {
                put_bytes(&mut bytes, member.share_key.as_ref().map_or(&[], |key| &key[..]));
            }
        }
        if self.rules != Rules::FIRST {
            put_bytes(&mut bytes, b"rules");
            self.rules.encode(&mut bytes);
        }
        if let Some(restored) = &self.restored {
            restored.encode(&mut bytes);
        }
        if !self.clients.is_silent() {
            put_bytes(&mut bytes, b"clients");
            self.clients.encode(&mut bytes);
        }
        Digest::of("quorate chain 3", &bytes)
    }

    /// What people call the application: with [`Application::Service`] the name of the service.
    #[must_use]
    pub fn application_name(&self) -> String {
        let service = || service::name_of(&self.service);
        match self.application {
            Application::Service => service().unwrap_or_else(|_| self.application.to_string()),
            application => application.to_string(),
        }
    }

    /// The choices that make up the protocol.
    #[must_use]
    pub fn combination(&self) -> Combination {
        Combination {
            protocol: self.protocol,
            votes: self.votes,
            second_vote: self.second_vote,
            pacemaker: self.pacemaker,
            leader: self.leader,
            signatures: self.signatures,
            authentication: self.authentication,
        }
    }

    /// Makes other choices.
    pub fn set_combination(&mut self, combination: Combination) {
        let Combination {
            protocol,
            votes,
            second_vote,
            pacemaker,
            leader,
            signatures,
            authentication,
        } = combination;
        (self.protocol, self.votes, self.second_vote) = (protocol, votes, second_vote);
        (self.pacemaker, self.leader) = (pacemaker, leader);
        (self.signatures, self.authentication) = (signatures, authentication);
    }

    /// The first committee, bound to the chain's identity.
    ///
    /// # Errors
    /// [`CommitteeError`] if the members make none; never for a cluster that was loaded.
    pub fn committee(&self) -> Result<Committee, CommitteeError> {
        let chain = self.chain_digest();
        if self.is_governed() {
            let opening = Opening { after: chain, height: Height(0) };
            let members = self.members.iter().map(|member| Some(member.in_committee(1))).collect();
            let governance = self.governance.clone();
            let first = Committee::with_members(chain, self.epoch, opening, members, governance)?;
            let first = first.under(self.rules);
            return if self.generates_keys() { self.with_shares(first) } else { Ok(first) };
        }
        let keys = self.members.iter().map(|member| member.consensus_key.clone()).collect();
        Committee::new(chain, self.epoch, keys)
    }

    fn with_shares(&self, first: Committee) -> Result<Committee, CommitteeError> {
        let keys = self.members.iter().filter_map(|member| Some((member.id, member.share_key?)));
        let keys: Vec<_> = keys.collect();
        let (shares, voters) = (keys.len(), first.voter_count());
        let quorum = first.quorum_among(first.voters()).unwrap_or_default();
        let shares =
            ShareKeys::new(quorum, keys).ok_or(CommitteeError::Shares { shares, voters })?;
        first.with_shares(shares)
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
        if let Some(mut document) = document {
            document.settings.fill_presets(SCHEMA.fields);
            from_document(file, &document, &mut findings);
        }
        findings.into_iter().next()
    }

    pub(in crate::config) fn settings(&self) -> Settings {
        let size = |bytes: u64| Value::Size(ByteSize(bytes));
        let integer = |n: u32| Value::Integer(n.into());
        let text = |name: &str| Value::Text(name.to_owned());
        let (batch, sessions, limits) = (&self.batch, &self.sessions, &self.limits);
        let mut settings = Settings::default();
        for (key, value) in [
            ("chain", text(&self.chain)),
            ("genesis", Value::Hex(self.genesis.to_vec())),
            ("epoch", Value::Integer(self.epoch.0)),
            ("protocol", text(self.protocol.name())),
            ("votes", text(self.votes.name())),
            ("second_vote", Value::Bool(self.second_vote)),
            ("pacemaker", text(self.pacemaker.name())),
            ("leader", text(self.leader.name())),
            ("signatures", text(self.signatures.as_str())),
            ("authentication", text(self.authentication.name())),
            ("transport", text(self.transport.name())),
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
            ("limits.max_state_bytes", size(limits.max_state_bytes)),
        ] {
            settings.set(key, value, Place::Default);
        }
        if self.leader == LeaderName::Fixed || self.fixed_leader != ReplicaId(0) {
            let leader = Value::Integer(self.fixed_leader.0.into());
            settings.set("fixed_leader", leader, Place::Default);
        }
        if self.protocol == ProtocolName::Snowman {
            settings.set("sampling", text(self.sampling.name()), Place::Default);
            settings.set("liveness", text(self.liveness.name()), Place::Default);
        }
        if self.tentative {
            settings.set("tentative", Value::Bool(true), Place::Default);
        }
        if let Some(key) = &self.group_key {
            settings.set("group_key", Value::Hex(key.to_vec()), Place::Default);
        }
        if self.is_governed() {
            let Governance { administrators, approvals } = self.governance.clone();
            let administrators = Value::Keys(administrators);
            settings.set("governance.administrators", administrators, Place::Default);
            settings.set("governance.approvals", Value::Integer(approvals.into()), Place::Default);
        }
        clients::set(&self.clients, &mut settings);
        if self.rules != Rules::FIRST {
            let rules = Value::Text(self.rules.to_string());
            settings.set("governance.rules", rules, Place::Default);
        }
        if let Some(restored) = &self.restored {
            restored.set(&mut settings);
        }
        if !self.service.is_empty() {
            settings.set("service", Value::Table(self.service.clone()), Place::Default);
        }
        settings
    }
}

impl Member {
    /// Its id, and what its owner calls it.
    #[must_use]
    pub fn label(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" ({name})"));
        format!("{}{}", self.id, name.unwrap_or_default())
    }

    /// Where it is reached.
    #[must_use]
    pub fn contact(&self) -> Contact {
        Contact {
            transport_key: self.transport_key,
            peer_address: self.peer_address.clone(),
            client_address: self.client_address.clone(),
        }
    }

    /// As a committee has it.
    #[must_use]
    pub fn in_committee(&self, weight: u16) -> membership::Member {
        let contact = self.contact().to_bytes().into();
        membership::Member { key: self.consensus_key.clone(), weight, contact }
    }

    pub(in crate::config) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in [
            ("id", Value::Integer(self.id.0.into())),
            ("consensus_key", Value::Hex(self.consensus_key.as_bytes().to_vec())),
            ("transport_key", Value::Hex(self.transport_key.0.to_vec())),
            ("peer_address", Value::Address(self.peer_address.clone())),
            ("client_address", Value::Address(self.client_address.clone())),
        ] {
            settings.set(key, value, Place::Default);
        }
        if let Some(proof) = &self.proof_of_possession {
            settings.set("proof_of_possession", Value::Hex(proof.to_vec()), Place::Default);
        }
        if let Some(key) = &self.share_key {
            settings.set("share_key", Value::Hex(key.to_vec()), Place::Default);
        }
        if let Some(name) = &self.name {
            settings.set("name", Value::Text(name.clone()), Place::Default);
        }
        settings
    }

    pub(in crate::config) fn from_settings(settings: &Settings) -> Option<Self> {
        Some(Self {
            id: ReplicaId(u16::try_from(settings.integer("id")?).ok()?),
            consensus_key: ReplicaKey::new(&settings.hex("consensus_key")?)?,
            share_key: settings.bytes("share_key"),
            proof_of_possession: settings.bytes("proof_of_possession"),
            transport_key: PublicKey(settings.bytes("transport_key")?),
            peer_address: settings.address("peer_address")?,
            client_address: settings.address("client_address")?,
            name: settings.text("name"),
        })
    }
}

fn from_settings(settings: &Settings, members: Vec<Member>) -> Option<Cluster> {
    let integer = |key| u32::try_from(settings.integer(key)?).ok();
    let size = |key| u32::try_from(settings.size(key)?.0).ok();
    let replica = |key| Some(ReplicaId(u16::try_from(settings.integer(key)?).ok()?));
    let choices = Choices {
        protocol: settings.text("protocol").and_then(|name| ProtocolName::named(&name)),
        votes: settings.text("votes").and_then(|name| VoteRoute::named(&name)),
        second_vote: settings.bool("second_vote"),
        pacemaker: settings.text("pacemaker").and_then(|name| PacemakerName::named(&name)),
        leader: settings.text("leader").and_then(|name| LeaderName::named(&name)),
        signatures: settings.text("signatures").and_then(|name| name.parse().ok()),
        authentication: settings
            .text("authentication")
            .and_then(|name| AuthenticationName::named(&name)),
    };
    let Combination { protocol, votes, second_vote, pacemaker, leader, signatures, authentication } =
        choices.among(members.len());
    Some(Cluster {
        chain: settings.text("chain")?,
        genesis: settings.bytes("genesis")?,
        epoch: Epoch(settings.integer("epoch")?),
        protocol,
        votes,
        second_vote,
        pacemaker,
        leader,
        fixed_leader: replica("fixed_leader")?,
        sampling: SamplingName::named(&settings.text("sampling")?)?,
        liveness: LivenessName::named(&settings.text("liveness")?)?,
        signatures,
        authentication,
        tentative: settings.bool("tentative")?,
        group_key: settings.bytes("group_key"),
        transport: TransportName::named(&settings.text("transport")?)?,
        application: Application::named(&settings.text("application")?)?,
        service: settings.table("service").unwrap_or_default(),
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
            max_state_bytes: settings.size("limits.max_state_bytes")?.0,
        },
        governance: Governance {
            administrators: settings.keys("governance.administrators").unwrap_or_default(),
            approvals: settings
                .integer("governance.approvals")
                .map_or(Some(0), |approvals| u16::try_from(approvals).ok())?,
        },
        clients: clients::of(settings)?,
        rules: settings
            .text("governance.rules")
            .map_or(Some(Rules::FIRST), |it| it.parse().ok())?,
        restored: Restored::of(settings),
        members,
    })
}
