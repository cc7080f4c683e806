//! From files, environment and flags to a configuration that holds.

use std::path::Path;

use quorate_core::ReplicaId;
use quorate_core::crypto::{PublicKey, Signer as _};
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};

use super::cluster::{self, Cluster, Member};
use super::document;
use super::finding::{ConfigError, Finding, Place};
use super::home::Home;
use super::node::{self, Node};
use super::quantity::HumanDuration;
use super::schema::{Field, Setting, Settings, Value};

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

/// The secret keys of a replica.
#[derive(Debug)]
pub struct Keys {
    /// The one for votes.
    pub consensus: SecretKey,
    /// The one for connections.
    pub transport: SecretKey,
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
        apply_flags(&overrides.flags, &mut settings, &mut findings);
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

struct ReadCluster {
    cluster: Cluster,
    member_places: Vec<Place>,
    effective: Vec<Effective>,
}

fn read_cluster(
    file: &Path,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Option<ReadCluster> {
    let fields = cluster::SCHEMA.fields;
    let mut document = document::read(file, &cluster::SCHEMA, findings)?;
    let place = Place::File(file.to_owned());
    document::report_missing(&document.settings, fields, "", &place, findings);
    document.settings.fill_presets(fields);
    let (cluster, member_places) = cluster::from_document(&document, findings)?;
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
    let mut effective = effective_of("cluster", fields, &document.settings, "");
    if let Some(list) = &cluster::SCHEMA.list {
        for (_, settings) in &document.list {
            let id = settings.integer("id").unwrap_or_default();
            let prefix = format!("{}.{id}.", list.name);
            effective.extend(effective_of("cluster", list.fields, settings, &prefix));
        }
    }
    Some(ReadCluster { cluster, member_places, effective })
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

fn apply_flags(flags: &[FlagSetting], settings: &mut Settings, findings: &mut Vec<Finding>) {
    for FlagSetting { flag, key, value } in flags {
        let place = Place::Flag(flag.clone());
        match node::SCHEMA.field(key) {
            Some(field) => apply_text(field, value, place, settings, findings),
            None => {
                let unknown = document::unknown_key(key, place, node::SCHEMA.fields, None);
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
            findings.push(document::wrong_value(field.key, &found, &field.kind, place));
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
    let ReadCluster { cluster, member_places, mut effective } = read;
    let id = ReplicaId(u16::try_from(settings.integer("replica")?).ok()?);
    let (Some(member), Some(place)) = (cluster.member(id), member_places.get(id.index())) else {
        let last = cluster.members.len() - 1;
        findings.push(Finding::new(
            format!("`replica` is {id}, which is no member of the committee"),
            settings.source("replica"),
            format!("the ids in {} are 0 to {last}", home.cluster_file().display()),
        ));
        return None;
    };
    inherit_addresses(member, place, &mut settings);
    let node = node::from_settings(&settings, home)?;
    check_node(&node, &settings, findings, warnings);
    effective.extend(effective_of("node", node::SCHEMA.fields, &settings, ""));
    let key_places = KeyPlaces {
        member: place.clone(),
        consensus: settings.source("keys.consensus"),
        transport: settings.source("keys.transport"),
    };
    let (home, warnings) = (home.clone(), Vec::new());
    Some(Loaded { home, cluster, node, warnings, effective, key_places })
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

fn check_node(
    node: &Node,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    if node.view_timeout.max < node.view_timeout.base {
        let (base, max) = (HumanDuration(node.view_timeout.base), node.view_timeout.max);
        findings.push(Finding::new(
            format!("`view_timeout.max` is \"{}\", below `view_timeout.base`", HumanDuration(max)),
            settings.source("view_timeout.max"),
            format!("make it at least \"{base}\""),
        ));
    }
    if node.keys.consensus == node.keys.transport {
        findings.push(Finding::new(
            "`keys.transport` names the same file as `keys.consensus`",
            settings.source("keys.transport"),
            "give each its own key: make one with `quorate keygen`",
        ));
    }
    let listen = [
        ("listen.peer", &node.listen.peer),
        ("listen.client", &node.listen.client),
        ("listen.http", &node.listen.http),
    ];
    for (index, (key, address)) in listen.iter().enumerate() {
        let twin = listen[..index].iter().find(|(_, other)| other == address);
        if let (Some((other, _)), true) = (twin, address.port() > 0) {
            findings.push(Finding::new(
                format!("`{key}` is \"{address}\", and so is `{other}`"),
                settings.source(key),
                "give each its own port",
            ));
        }
    }
    if !node.listen.http.is_loopback() {
        warnings.push(Finding::new(
            format!(
                "`listen.http` is \"{}\": everybody may read status and metrics",
                node.listen.http
            ),
            settings.source("listen.http"),
            "use 127.0.0.1, or see that only your monitoring reaches the port",
        ));
    }
}

impl Loaded {
    /// Reads the secret keys, and checks that they are this member's.
    ///
    /// # Errors
    /// [`ConfigError`]: a file is missing, open to others or no key; or its key is not the one
    /// that `cluster.toml` tells the other replicas.
    pub fn open_keys(&self) -> Result<Keys, ConfigError> {
        let member = self.cluster.member(self.node.replica);
        let (files, places) = (&self.node.keys, &self.key_places);
        let consensus = self.open_key(
            "consensus",
            &files.consensus,
            &places.consensus,
            member.map(|member| member.consensus_key),
        );
        let transport = self.open_key(
            "transport",
            &files.transport,
            &places.transport,
            member.map(|member| member.transport_key),
        );
        match (consensus, transport) {
            (Ok(consensus), Ok(transport)) => Ok(Keys { consensus, transport }),
            (consensus, transport) => {
                let findings = consensus.err().into_iter().chain(transport.err()).collect();
                Err(ConfigError { findings })
            }
        }
    }

    fn open_key(
        &self,
        role: &str,
        file: &Path,
        set: &Place,
        expected: Option<PublicKey>,
    ) -> Result<SecretKey, Finding> {
        match key_file::read(file) {
            Ok(secret) => self.matching(role, file, secret, expected),
            Err(error) => Err(key_file_finding(role, file, &error, set)),
        }
    }

    fn matching(
        &self,
        role: &str,
        file: &Path,
        secret: SecretKey,
        expected: Option<PublicKey>,
    ) -> Result<SecretKey, Finding> {
        if expected == Some(secret.public_key()) {
            return Ok(secret);
        }
        let id = self.node.replica;
        let says = expected.map_or(String::new(), |key| Value::Hex32(key.0).to_string());
        Err(Finding::new(
            format!(
                "the key in {} is {}, but `{role}_key` of replica {id} is {says}",
                file.display(),
                Value::Hex32(secret.public_key().0),
            ),
            self.key_places.member.clone(),
            format!("put the key file of replica {id} there, or correct `replica` in node.toml"),
        ))
    }
}

fn key_file_finding(role: &str, file: &Path, error: &KeyFileError, set: &Place) -> Finding {
    let shown = file.display();
    let remedy = format!("restore it, or correct `keys.{role}`");
    let (what, remedy) = match error {
        KeyFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            (format!("there is no key file {shown}"), remedy)
        }
        KeyFileError::Mode { mode, .. } => (
            format!("key file {shown} has mode {mode:04o}: others than its owner may use the key"),
            format!("if nobody has read it: chmod 600 {shown}; else make a new key"),
        ),
        other => (other.to_string(), remedy),
    };
    let place = match set {
        Place::Default => Place::File(file.to_owned()),
        set => set.clone(),
    };
    Finding::new(what, place, remedy)
}
