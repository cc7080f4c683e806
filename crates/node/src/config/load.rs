//! From files, environment and flags to a configuration that holds.

mod keys;

use std::path::Path;

use quorate_core::ReplicaId;

use super::cluster::{self, Cluster, Member, MemberFile};
use super::document;
use super::finding::{ConfigError, Finding, Place};
use super::genesis;
use super::home::Home;
use super::node::{self, Node};
use super::schema::{Field, Schema, Setting, Settings, Value};

pub use keys::{Keys, public_half};

/// Settings of `node.toml` from elsewhere than the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// From the command line.
    pub flags: Vec<FlagSetting>,
    /// `QUORATE_*` variables: name and value.
    pub environment: Vec<(String, String)>,
}

/// A setting on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagSetting {
    /// The flag, as typed, for messages: `--log-level`.
    pub flag: String,
    /// The key it sets.
    pub key: String,
    /// The value, as typed.
    pub value: String,
}

/// What every variable of Quorate's starts with.
const PREFIX: &str = "QUORATE_";
/// Variables that are not keys of `node.toml`.
const OTHER_VARIABLES: [&str; 1] = ["QUORATE_HOME"];

impl Overrides {
    /// The flags, beside the variables of this process's environment.
    #[must_use]
    pub fn with_process_environment(flags: Vec<FlagSetting>) -> Self {
        let environment = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with(PREFIX))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
            .collect();
        Self { flags, environment }
    }
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The file the key belongs to: `cluster` or `node`.
    pub file: &'static str,
    /// The key; `replicas.0.peer_address` for lists.
    pub key: String,
    /// The value, and who set it.
    pub setting: Setting,
}

/// A configuration that holds.
#[derive(Debug)]
pub struct Loaded {
    /// Where it was found.
    pub home: Home,
    /// What all replicas agreed on.
    pub cluster: Cluster,
    /// What this process decides.
    pub node: Node,
    /// What is doubtful.
    pub warnings: Vec<Finding>,
    /// This replica, as others know it.
    pub member: Member,
    /// Every setting in force, in the order of the files.
    pub effective: Vec<Effective>,
    key_places: KeyPlaces,
}

/// Where the keys are spoken of: this member in `cluster.toml`, and the two key files' settings.
#[derive(Debug)]
struct KeyPlaces {
    member: Place,
    consensus: Place,
    transport: Place,
}

/// Loads a replica's configuration. The key files are not read: see [`Loaded::open_keys`].
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn load(home: &Home, overrides: &Overrides) -> Result<Loaded, ConfigError> {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let cluster = read_cluster(&home.cluster_file(), &mut findings, &mut warnings);
    let node_file = home.node_file();
    let fields = node::SCHEMA.fields;
    let document = document::read(&node_file, &node::SCHEMA, &mut findings);
    let settings = document.map(|document| document.settings).map(|mut settings| {
        apply_environment(&overrides.environment, &mut settings, &mut findings, &mut warnings);
        apply_flags(&overrides.flags, &node::SCHEMA, &mut settings, &mut findings);
        let place = Place::File(node_file.clone());
        document::report_missing(&settings, fields, "", &place, &mut findings);
        settings.fill_presets(fields);
        settings
    });
    let loaded = cluster.zip(settings).and_then(|(cluster, settings)| {
        finish(home, cluster, settings, &mut findings, &mut warnings)
    });
    ConfigError::unless_clean(loaded, findings).map(|loaded| Loaded { warnings, ..loaded })
}

/// Loads `cluster.toml` alone, as clients do. The findings are warnings.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn load_cluster(file: &Path) -> Result<(Cluster, Vec<Finding>), ConfigError> {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let read = read_cluster(file, &mut findings, &mut warnings);
    ConfigError::unless_clean(read.map(|read| (read.cluster, warnings)), findings)
}

/// The same for a file that nobody runs with: whatever owners signed beside it.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn load_cluster_alone(file: &Path) -> Result<(Cluster, Vec<Finding>), ConfigError> {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let read = read_alone(file, &mut findings, &mut warnings);
    ConfigError::unless_clean(read.map(|read| (read.cluster, warnings)), findings)
}

/// Reads the text of a `cluster.toml` that is kept in another file.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn parse_cluster(file: &Path, text: &str) -> Result<Cluster, ConfigError> {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let document = document::parse(file, text, &cluster::SCHEMA, &mut findings);
    let read = document.and_then(|read| checked(file, read, &mut findings, &mut warnings));
    ConfigError::unless_clean(read.map(|read| read.cluster), findings)
}

pub(super) struct ReadCluster {
    pub(super) cluster: Cluster,
    member_places: Vec<Place>,
    /// Where the keys are set that may be for the laboratory alone.
    laboratory_places: [(&'static str, Place); 2],
    effective: Vec<Effective>,
}

impl ReadCluster {
    /// Where `key` is set in `file`, from which this was read.
    pub(super) fn place_of(&self, key: &str, file: &Path) -> Place {
        let set = self.effective.iter().find(|effective| effective.key == key);
        match set.map(|effective| &effective.setting.source) {
            None | Some(Place::Default) => Place::File(file.to_owned()),
            Some(place) => place.clone(),
        }
    }
}

/// Reads the file, and checks it against what owners signed, if that lies beside it.
fn read_cluster(
    file: &Path,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Option<ReadCluster> {
    let read = read_alone(file, findings, warnings)?;
    if findings.is_empty() {
        genesis::check_beside(file, &read, findings);
    }
    Some(read)
}

/// Reads the file, whatever lies beside it.
pub(super) fn read_alone(
    file: &Path,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Option<ReadCluster> {
    let document = document::read(file, &cluster::SCHEMA, findings)?;
    checked(file, document, findings, warnings)
}

fn checked(
    file: &Path,
    mut document: document::Document,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Option<ReadCluster> {
    let fields = cluster::SCHEMA.fields;
    let place = Place::File(file.to_owned());
    document::report_missing(&document.settings, fields, "", &place, findings);
    document.settings.fill_presets(fields);
    let (cluster, member_places) = cluster::from_document(file, &document, findings)?;
    if let Err(error) = cluster.committee() {
        // Shared keys were reported with their places.
        if findings.is_empty() {
            let remedy = "list each member of the committee once, with its own keys";
            findings.push(Finding::new(error.to_string(), place.clone(), remedy));
        }
        return None;
    }
    let size = cluster.members.len();
    if size < 4 {
        let what = format!("a committee of {size} tolerates no faulty replica");
        let remedy = "use at least 4 replicas, unless this is an experiment";
        warnings.push(Finding::new(what, place, remedy));
    }
    for rule in cluster.combination().warned() {
        warnings.push(rule.finding(document.settings.source(rule.key)));
    }
    let mut effective = effective_of("cluster", fields, &document.settings, "");
    if let Some(list) = &cluster::SCHEMA.list {
        for (_, settings) in &document.list {
            let id = settings.integer("id").unwrap_or_default();
            let prefix = format!("{}.{id}.", list.name);
            effective.extend(effective_of("cluster", list.fields, settings, &prefix));
        }
    }
    let laboratory_places =
        ["protocol", "signatures"].map(|key| (key, document.settings.source(key)));
    Some(ReadCluster { cluster, member_places, laboratory_places, effective })
}

fn effective_of(
    file: &'static str,
    fields: &'static [Field],
    settings: &Settings,
    prefix: &str,
) -> Vec<Effective> {
    let of = |field: &Field| {
        let setting = settings.get(field.key)?.clone();
        Some(Effective { file, key: format!("{prefix}{}", field.key), setting })
    };
    fields.iter().filter_map(of).collect()
}

fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

fn apply_environment(
    environment: &[(String, String)],
    settings: &mut Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    let fields = node::SCHEMA.fields;
    for (variable, text) in environment {
        let place = Place::Environment(variable.clone());
        if OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        match fields.iter().find(|field| variable_of(field.key) == *variable) {
            Some(field) => apply_text(field, text, place, settings, findings),
            None => {
                // Not an error: orchestrators put variables of their own there.
                let variables: Vec<_> = fields.iter().map(|field| variable_of(field.key)).collect();
                let known = variables.iter().map(String::as_str);
                let remedy = match document::nearest(variable, known) {
                    Some(nearest) => format!("did you mean {nearest}?"),
                    None => "unset it, if it was meant to set anything".to_owned(),
                };
                let what = format!("{variable} sets nothing");
                warnings.push(Finding::new(what, place, remedy));
            }
        }
    }
}

pub(super) fn apply_flags(
    flags: &[FlagSetting],
    schema: &'static Schema,
    settings: &mut Settings,
    findings: &mut Vec<Finding>,
) {
    for FlagSetting { flag, key, value } in flags {
        let place = Place::Flag(flag.clone());
        match schema.field(key) {
            Some(field) => apply_text(field, value, place, settings, findings),
            None => {
                let unknown = document::unknown_key(key, place, schema.fields, None);
                findings.push(unknown);
            }
        }
    }
}

fn apply_text(
    field: &Field,
    text: &str,
    place: Place,
    settings: &mut Settings,
    findings: &mut Vec<Finding>,
) {
    match field.kind.parse(text) {
        Some(value) => settings.set(field.key, value, place),
        None => {
            settings.refuse(field.key);
            let found = format!("{text:?}");
            let (key, kind) = (field.key, &field.kind);
            findings.push(document::wrong_value(key, &found, Some(text), kind, place));
        }
    }
}

/// Checks the two files against each other, and fills in what one takes from the other.
fn finish(
    home: &Home,
    read: ReadCluster,
    mut settings: Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Option<Loaded> {
    let ReadCluster { cluster, member_places, laboratory_places, mut effective } = read;
    let id = ReplicaId(u16::try_from(settings.integer("replica")?).ok()?);
    let own = own_member(home, id, &cluster, &member_places, findings);
    let Some((member, place)) = own else {
        let last = cluster.members.len() - 1;
        let joins = match cluster.is_governed() {
            true => "; a home for a new member is made by `quorate member new`",
            false => "",
        };
        findings.push(Finding::new(
            format!("`replica` is {id}, which is no member of the committee"),
            settings.source("replica"),
            format!("the ids in {} are 0 to {last}{joins}", home.cluster_file().display()),
        ));
        return None;
    };
    inherit_addresses(&member, &place, &mut settings);
    let node = node::from_settings(&settings, home)?;
    let agreed = |key: &str| {
        let place = laboratory_places.iter().find(|(known, _)| *known == key);
        place.map_or(Place::Default, |(_, place)| place.clone())
    };
    node::check(&node, &settings, &cluster, agreed, findings, warnings);
    effective.extend(effective_of("node", node::SCHEMA.fields, &settings, ""));
    let key_places = KeyPlaces {
        member: place.clone(),
        consensus: settings.source("keys.consensus"),
        transport: settings.source("keys.transport"),
    };
    let (home, warnings) = (home.clone(), Vec::new());
    Some(Loaded { home, cluster, node, warnings, member, effective, key_places })
}

/// This replica as others know it: by its own `member.toml` if it joined later, else by
/// `cluster.toml`.
fn own_member(
    home: &Home,
    id: ReplicaId,
    cluster: &Cluster,
    places: &[Place],
    findings: &mut Vec<Finding>,
) -> Option<(Member, Place)> {
    let file = home.member_file();
    if cluster.is_governed() && file.exists() {
        let read = MemberFile::read(&file, cluster.chain_digest(), findings)?;
        let is_own = read.member.id == id;
        return is_own.then_some((read.member, Place::File(file)));
    }
    Some((cluster.member(id)?.clone(), places.get(id.index())?.clone()))
}

fn inherit_addresses(member: &Member, place: &Place, settings: &mut Settings) {
    for (key, address) in
        [("listen.peer", &member.peer_address), ("listen.client", &member.client_address)]
    {
        if settings.get(key).is_none() {
            settings.set(key, Value::Address(address.clone()), place.clone());
        }
    }
}
