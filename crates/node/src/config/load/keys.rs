//! The secret keys of a replica, as its configuration names them.

use std::path::Path;

use quorate_core::committee::ReplicaKey;
use quorate_core::crypto::ClientSigner as _;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};

use super::Loaded;
use crate::config::finding::{ConfigError, Finding, Place};

/// The secret keys of a replica.
#[derive(Debug)]
pub struct Keys {
    /// The one for votes.
    pub consensus: SecretKey,
    /// The one for connections.
    pub transport: SecretKey,
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
            member.map(|member| member.consensus_key.clone()),
        );
        let transport = self.open_key(
            "transport",
            &files.transport,
            &places.transport,
            member.map(|member| ReplicaKey::from(member.transport_key.0)),
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
        expected: Option<ReplicaKey>,
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
        expected: Option<ReplicaKey>,
    ) -> Result<SecretKey, Finding> {
        let found = ReplicaKey::from(secret.public_key().0);
        if expected.as_ref() == Some(&found) {
            return Ok(secret);
        }
        let id = self.node.replica;
        let says = expected.map_or(String::new(), |key| key.to_string());
        Err(Finding::new(
            format!(
                "the key in {} is {found}, but `{role}_key` of replica {id} is {says}",
                file.display(),
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
