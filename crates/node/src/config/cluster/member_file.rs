//! `member.toml`: what a newcomer tells an administrator of itself.

use std::path::Path;

use quorate_core::Digest;

use super::{MEMBER_SCHEMA, Member};
use crate::config::document;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::schema::Value;

/// What a newcomer tells of itself. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFile {
    /// The chain that it wants to be a member of.
    pub chain: Digest,
    /// How others reach it, and under which id it is to be known.
    pub member: Member,
}

impl MemberFile {
    /// Reads the file, which must be of this chain.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(file: &Path, chain: Digest) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        let read = Self::read(file, chain, &mut findings);
        ConfigError::unless_clean(read, findings)
    }

    /// The same, with the findings among others.
    pub(in crate::config) fn read(
        file: &Path,
        chain: Digest,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let settings = document::read(file, &MEMBER_SCHEMA, findings)?.settings;
        let place = Place::File(file.to_owned());
        document::report_missing(&settings, MEMBER_SCHEMA.fields, "", &place, findings);
        let found = Digest(settings.bytes("chain_digest")?);
        let member = Member::from_settings(&settings)?;
        for (role, key) in [
            ("consensus_key", member.consensus_key.as_bytes()),
            ("transport_key", &member.transport_key.0[..]),
        ] {
            if let Err(problem) = quorate_crypto::ed25519::read_key(key) {
                let remedy = "copy the file again from the newcomer's home, config/member.toml";
                let what = format!("`{role}` {problem}");
                findings.push(Finding::new(what, settings.source(role), remedy));
            }
        }
        if found != chain {
            findings.push(Finding::new(
                format!("it is of the chain {found}, and this one is {chain}"),
                settings.source("chain_digest"),
                "make the newcomer's home with this cluster's cluster.toml",
            ));
        }
        Some(Self { chain: found, member })
    }

    /// The text of a file that says this.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut settings = self.member.settings();
        let chain = Value::Hex(self.chain.0.to_vec());
        settings.set("chain_digest", chain, Place::Default);
        MEMBER_SCHEMA.render(&settings, &[])
    }
}
