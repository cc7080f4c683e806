//! What owners begin with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quorate_core::base::crypto::{ClientSigner as _, PublicKey};
use quorate_core::base::membership::{MAX_REPLICAS, quorum};
use quorate_core::base::wire::put_bytes;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::bls::threshold;
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};

use crate::config::cluster::{self, Member};
use crate::config::document::{self, Document};
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::load::{FlagSetting, apply_flags, public_half};
use crate::config::quantity::HostPort;
use crate::config::schema::{Field, Kind, List, Preset, Schema, Settings, Value};

/// Fewer owners than this tolerate no faulty replica, and would have to trust each other.
pub const LEAST_OWNERS: usize = 4;

pub(super) const ADMINISTRATORS: &str = "governance.administrators";
pub(super) const GROUP_KEY: &str = "group_key";
const APPROVALS: &str = "governance.approvals";

/// What a file may set only with some protocols or leaders.
const OPTIONS: [&str; 4] = ["fixed_leader", "sampling", "liveness", "tentative"];

/// The keys of a proposal: those of `cluster.toml`, without the replicas.
static PROPOSAL: Schema = Schema {
    title: "A proposal: what the owners of a cluster that is to begin agree on, but the replicas.\n\
            Edit it before the first owner joins. Each owner reads it and runs\n\
            `quorate genesis join`; what they sign then is bound to every value in it.\n\
            `approvals` in [governance] without `administrators`: each owner brings a key of an\n\
            administrator.",
    tables: cluster::SCHEMA.tables,
    fields: cluster::SCHEMA.fields,
    list: Some(List {
        name: "owners",
        comment: "One table an owner. These join, and nobody else.",
        fields: &[Field {
            key: "name",
            kind: Kind::Name,
            preset: Preset::Required,
            comment: "what others call the owner",
        }],
    }),
};

/// All that owners agree on before they make their keys: `cluster.toml` without the replicas.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub(super) file: PathBuf,
    digest: Digest,
    /// With the defaults of what the file leaves out.
    pub(super) settings: Settings,
    owners: BTreeSet<String>,
}

impl Proposal {
    /// A proposal to these owners with these values, and the defaults of the others: its text, for
    /// `file`.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn text(
        file: &Path,
        owners: &[String],
        values: &[FlagSetting],
    ) -> Result<String, ConfigError> {
        let (mut findings, mut settings) = (Vec::new(), Settings::default());
        apply_flags(values, &PROPOSAL, &mut settings, &mut findings);
        let place = Place::Flag("--owner".to_owned());
        let named = |name: &String| {
            let mut element = Settings::default();
            element.set("name", Value::Text(name.clone()), place.clone());
            (place.clone(), element)
        };
        let list: Vec<_> = owners.iter().map(named).collect();
        let elements: Vec<_> = list.iter().map(|(_, element)| element.clone()).collect();
        let text = PROPOSAL.render(&with_defaults(settings.clone()), &elements);
        settings.fill_presets(PROPOSAL.fields);
        let named = owners_of(&place, &list, &mut findings);
        check(file, &settings, named.len(), &mut findings);
        ConfigError::unless_clean(Some(text), findings)
    }

    /// Reads a proposal.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        let read = Self::read(file, &mut findings);
        ConfigError::unless_clean(read, findings)
    }

    fn read(file: &Path, findings: &mut Vec<Finding>) -> Option<Self> {
        let Document { mut settings, list } = document::read(file, &PROPOSAL, findings)?;
        let place = Place::File(file.to_owned());
        document::report_missing(&settings, PROPOSAL.fields, "", &place, findings);
        let owners = owners_of(&place, &list, findings);
        let digest = digest(&settings, &owners);
        settings.fill_presets(PROPOSAL.fields);
        if findings.is_empty() {
            check(file, &settings, owners.len(), findings);
        }
        Some(Self { file: file.to_owned(), digest, settings, owners })
    }

    /// What is signed in the ceremony: the digest of all that the file sets. Comments, order and
    /// spelling do not count.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The names of those who join, in their order.
    #[must_use]
    pub fn owners(&self) -> &BTreeSet<String> {
        &self.owners
    }

    /// The name of the chain.
    #[must_use]
    pub fn chain(&self) -> String {
        self.settings.text("chain").unwrap_or_default()
    }

    /// What replicas sign with.
    #[must_use]
    pub fn scheme(&self) -> SchemeName {
        scheme(&self.settings)
    }

    /// Whether each owner brings the key of an administrator.
    #[must_use]
    pub fn is_governed_by_owners(&self) -> bool {
        is_governed_by_owners(&self.settings)
    }

    /// The settings of a cluster with these administrators, if owners bring them.
    pub(super) fn settings_with(&self, administrators: Vec<PublicKey>) -> Settings {
        let mut settings = self.settings.clone();
        if self.is_governed_by_owners() {
            let source = settings.source(APPROVALS);
            settings.set(ADMINISTRATORS, Value::Keys(administrators), source);
        }
        settings
    }
}

/// Spells the defaults out, so that people see what they agree on. Options that not every protocol
/// has are left out.
fn with_defaults(mut settings: Settings) -> Settings {
    for field in PROPOSAL.fields {
        if let Preset::Is(text) = field.preset
            && !OPTIONS.contains(&field.key)
            && settings.get(field.key).is_none()
            && let Some(value) = field.kind.parse(text)
        {
            settings.set(field.key, value, Place::Default);
        }
    }
    settings
}

fn scheme(settings: &Settings) -> SchemeName {
    let named = settings.text("signatures").and_then(|name| name.parse().ok());
    named.unwrap_or(SchemeName::Ed25519)
}

fn is_governed_by_owners(settings: &Settings) -> bool {
    settings.mentions(APPROVALS) && !settings.mentions(ADMINISTRATORS)
}

/// The owners that a proposal names.
fn owners_of(
    place: &Place,
    list: &[(Place, Settings)],
    findings: &mut Vec<Finding>,
) -> BTreeSet<String> {
    let mut owners = BTreeSet::new();
    for (place, element) in list {
        let Some(name) = element.text("name") else { continue };
        if !owners.insert(name.clone()) {
            let what = format!("the owner {name} is named twice");
            findings.push(Finding::new(what, place.clone(), "give each owner another name"));
        }
    }
    if findings.is_empty() && !(LEAST_OWNERS..=MAX_REPLICAS).contains(&owners.len()) {
        findings.push(Finding::new(
            format!("{} owners begin no cluster", owners.len()),
            place.clone(),
            format!("name {LEAST_OWNERS} to {MAX_REPLICAS}: fewer tolerate no faulty replica"),
        ));
    }
    owners
}

fn digest(settings: &Settings, owners: &BTreeSet<String>) -> Digest {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, &owners.len().to_le_bytes());
    owners.iter().for_each(|name| put_bytes(&mut bytes, name.as_bytes()));
    for (key, setting) in settings.iter() {
        put_bytes(&mut bytes, key.as_bytes());
        put_bytes(&mut bytes, setting.value.to_string().as_bytes());
    }
    Digest::of("quorate genesis proposal 1", &bytes)
}

/// Checks what the keys say together, as for a cluster of as many stand-ins as there are owners.
fn check(file: &Path, settings: &Settings, owners: usize, findings: &mut Vec<Finding>) {
    let scheme = scheme(settings);
    let source = settings.source("signatures");
    if scheme.is_dealt() && settings.mentions(GROUP_KEY) {
        return findings.push(Finding::new(
            "`group_key` is set, and the owners generate it together",
            settings.source(GROUP_KEY),
            "leave it out: it comes of what all deal (`quorate genesis deal`)",
        ));
    }
    if scheme.is_dealt() && (settings.mentions(APPROVALS) || settings.mentions(ADMINISTRATORS)) {
        return findings.push(Finding::new(
            "members cannot change here: `signatures` is \"bls12-381-threshold\", and owners generate \
             a key of members that stay; those that change need keys of their own beside it",
            source,
            "set signatures = \"ed25519\", or leave [governance] out: the members are fixed then. \
             `quorate testnet init --administrators` makes such a cluster, whose first key is dealt",
        ));
    }
    if scheme == SchemeName::None {
        return findings.push(Finding::new(
            "`signatures` is \"none\": no owner could prove that it holds its key",
            source,
            "choose a scheme that signs; `quorate testnet init` makes clusters for experiments",
        ));
    }
    let mut trial = settings.clone();
    if is_governed_by_owners(settings) {
        let keys = (0..owners).map(|at| stand_in(at).public_key());
        trial.set(ADMINISTRATORS, Value::Keys(keys.collect()), settings.source(APPROVALS));
    }
    let place = Place::File(file.to_owned());
    let mut keys: Vec<_> = (0..owners).filter_map(|id| stand_in_key(scheme, id)).collect();
    if scheme.is_dealt() {
        let deal = match threshold::deal(owners, quorum(owners)) {
            Ok(deal) => deal,
            Err(error) => {
                let what = format!("no stand-in keys to check it with: {error}");
                return findings.push(Finding::new(what, place, "try again"));
            }
        };
        trial.set(GROUP_KEY, Value::Hex(deal.group.to_vec()), Place::Default);
        keys = deal.shares.into_iter().map(ConsensusKey::dealt).collect();
    }
    let members = keys.iter().enumerate().map(|(id, key)| stand_in_member(key, id));
    let list = members.map(|member| (place.clone(), member.settings())).collect();
    cluster::from_document(file, &Document { settings: trial, list }, findings);
}

fn seed(number: usize) -> [u8; 32] {
    let mut seed = [1; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    seed
}

fn stand_in(number: usize) -> SecretKey {
    SecretKey::from_seed(&seed(number))
}

fn stand_in_key(scheme: SchemeName, id: usize) -> Option<ConsensusKey> {
    ConsensusKey::from_bytes(scheme, &seed(10_000 + id))
}

fn stand_in_member(consensus: &ConsensusKey, id: usize) -> Member {
    Member {
        id: ReplicaId(id as u16),
        consensus_key: public_half(consensus),
        share_key: None,
        proof_of_possession: consensus.proof_of_possession(),
        transport_key: stand_in(20_000 + id).public_key(),
        peer_address: HostPort::loopback(1 + 2 * id as u16),
        client_address: HostPort::loopback(2 + 2 * id as u16),
        name: None,
    }
}
