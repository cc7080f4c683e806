//! The secret keys of a replica, as its configuration names them.

use std::path::Path;

use quorate_core::base::crypto::{ClientSigner as _, SHARE_KEY_BYTES};
use quorate_core::base::membership::ReplicaKey;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};

use super::Loaded;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::schema::{Kind, Value};
use crate::replica::keyring::beside;
use crate::replica::shares::ShareFiles;

/// The secret keys of a replica.
#[derive(Debug)]
pub struct Keys {
    /// The one for votes, of the committee's scheme.
    pub consensus: ConsensusKey,
    /// The one for connections.
    pub transport: SecretKey,
}

/// The public half of a consensus key, as the core and `cluster.toml` have it.
#[must_use]
pub fn public_half(key: &ConsensusKey) -> ReplicaKey {
    match ReplicaKey::new(&key.public_key()) {
        Some(public) => public,
        None => unreachable!("the core has room for the keys of every scheme"),
    }
}

/// One of the two keys: what it is for, its file, and where that is named.
struct Role<'a> {
    name: &'static str,
    file: &'a Path,
    set: &'a Place,
}

impl Loaded {
    /// Reads the secret keys, and checks that they are this member's.
    ///
    /// # Errors
    /// [`ConfigError`]: a file is missing, open to others, no key or one of another scheme; or its
    /// key is not the one that `cluster.toml` tells the other replicas. A replica that has not
    /// begun also needs the share that `cluster.toml` names.
    pub fn open_keys(&self) -> Result<Keys, ConfigError> {
        let member = &self.member;
        let (files, places) = (&self.node.keys, &self.key_places);
        let role = Role { name: "consensus", file: &files.consensus, set: &places.consensus };
        let consensus = self.matching(
            &role,
            key_file::read_consensus(role.file, self.cluster.own_scheme()),
            public_half,
            &self.keys_since(&files.consensus, &member.consensus_key),
        );
        let role = Role { name: "transport", file: &files.transport, set: &places.transport };
        let transport = self.matching(
            &role,
            key_file::read(role.file),
            |key| ReplicaKey::from(key.public_key().0),
            &self.keys_since(&files.transport, &ReplicaKey::from(member.transport_key.0)),
        );
        let share = self.first_share().filter(|_| !self.home.begun_file().exists());
        let share = share.map_or(Ok(()), |key| self.has_share(&key));
        match (consensus, transport, share) {
            (Ok(consensus), Ok(transport), Ok(())) => Ok(Keys { consensus, transport }),
            (consensus, transport, share) => {
                let findings = [consensus.err(), transport.err(), share.err()];
                Err(ConfigError { findings: findings.into_iter().flatten().collect() })
            }
        }
    }

    /// What is doubtful of a replica that has begun: it was given a share of a threshold key, and
    /// has none. It is well if the members have made it a learner since.
    #[must_use]
    pub fn doubtful_share(&self) -> Option<Finding> {
        let key = self.first_share()?;
        if ShareFiles::beside(&self.node.keys.consensus).has_any() {
            return None;
        }
        let Finding { what, place, .. } = self.has_share(&key).err()?;
        let id = self.node.replica;
        let remedy = format!(
            "if replica {id} counts still, its votes count for nothing: put the share of the present \
             epoch back beside its consensus key, or have the members generate another key (`quorate \
             member`)"
        );
        Some(Finding::new(format!("{what}, nor a share of a later epoch"), place, remedy))
    }

    /// The public half of the share that `cluster.toml` names for this replica.
    fn first_share(&self) -> Option<[u8; SHARE_KEY_BYTES]> {
        self.member.share_key.filter(|_| self.cluster.generates_keys())
    }

    /// Whether the share of the first epoch with this public key is here.
    fn has_share(&self, key: &[u8; SHARE_KEY_BYTES]) -> Result<(), Finding> {
        let consensus = &self.node.keys.consensus;
        let file = ShareFiles::beside(consensus).share_file(self.cluster.epoch, key);
        let set = &self.key_places.consensus;
        let role = Role { name: "consensus", file: &file, set };
        let read = key_file::read_consensus(&file, SchemeName::BlsThreshold);
        let share = read.map_err(|error| key_file_finding(&role, &error))?;
        if share.public_key() == key[..] {
            return Ok(());
        }
        let (id, shown) = (self.node.replica, file.display());
        Err(Finding::new(
            format!("the share in {shown} is not the one of `share_key` of replica {id}"),
            self.key_places.member.clone(),
            format!("put the share of replica {id} there, or correct `replica` in node.toml"),
        ))
    }

    /// The keys that this member may have by now in a file: the first one, and those that it went
    /// over to since.
    fn keys_since(&self, file: &Path, first: &ReplicaKey) -> Vec<ReplicaKey> {
        let noted = beside(file, "public");
        let noted = std::fs::read_to_string(noted).unwrap_or_default();
        let later = noted.lines().filter_map(|line| match Kind::Hex(&[32]).parse(line)? {
            Value::Hex(bytes) => ReplicaKey::new(&bytes),
            _ => None,
        });
        [first.clone()].into_iter().chain(later).collect()
    }

    /// The key that was read, if it is one of those that are `expected`.
    fn matching<K>(
        &self,
        role: &Role<'_>,
        read: Result<K, KeyFileError>,
        public: impl Fn(&K) -> ReplicaKey,
        expected: &[ReplicaKey],
    ) -> Result<K, Finding> {
        let key = read.map_err(|error| key_file_finding(role, &error))?;
        let found = public(&key);
        if expected.contains(&found) {
            return Ok(key);
        }
        let expected = expected.last().map(ReplicaKey::to_string).unwrap_or_default();
        let (id, name) = (self.node.replica, role.name);
        Err(Finding::new(
            format!(
                "the key in {} is {found}, but `{name}_key` of replica {id} is {expected}",
                role.file.display(),
            ),
            self.key_places.member.clone(),
            format!("put the key file of replica {id} there, or correct `replica` in node.toml"),
        ))
    }
}

fn key_file_finding(role: &Role<'_>, error: &KeyFileError) -> Finding {
    let shown = role.file.display();
    let remedy = format!("restore it, or correct `keys.{}`", role.name);
    let (what, remedy) = match error {
        KeyFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            (format!("there is no key file {shown}"), remedy)
        }
        KeyFileError::Mode { mode, .. } => (
            format!("key file {shown} has mode {mode:04o}: others than its owner may use the key"),
            format!("if nobody has read it: chmod 600 {shown}; else make a new key"),
        ),
        KeyFileError::Scheme { found, expected, .. } => (
            format!(
                "key file {shown} holds a key of \"{found}\", where one of \"{expected}\" is expected"
            ),
            match role.name {
                "consensus" => format!("{remedy}, or `signatures` in cluster.toml"),
                _ => remedy,
            },
        ),
        other => (other.to_string(), remedy),
    };
    let place = match role.set {
        Place::Default => Place::File(role.file.to_owned()),
        set => set.clone(),
    };
    Finding::new(what, place, remedy)
}
