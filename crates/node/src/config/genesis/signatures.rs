//! The signatures of owners under the cluster that they sealed.

use std::collections::BTreeMap;
use std::path::Path;

use quorate_core::base::crypto::{Check, Scheme as _, Share, Signature, Signer as _, Statement};
use quorate_core::base::membership::MAX_REPLICAS;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::ConsensusKey;

use super::Part;
use crate::config::cluster::Cluster;
use crate::config::document;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::schema::{Field, Kind, List, Preset, Schema, Settings, Value};

static SIGNATURES: Schema = Schema {
    title: "Owners' signatures under one cluster.toml. `quorate genesis verify` says who has signed;\n\
            the file with all of them may lie beside cluster.toml as genesis-signatures.toml.",
    tables: &[],
    fields: &[Field {
        key: "genesis",
        kind: Kind::Hex(&[32]),
        preset: Preset::Required,
        comment: "The genesis digest of that cluster.toml, which `quorate genesis seal` prints.",
    }],
    list: Some(List {
        name: "signatures",
        comment: "One table an owner.",
        fields: &[
            Field {
                key: "replica",
                kind: Kind::Integer { min: 0, max: MAX_REPLICAS as u64 - 1 },
                preset: Preset::Required,
                comment: "the id of the owner's replica",
            },
            Field {
                key: "signature",
                kind: Kind::Hex(&[48, 64]),
                preset: Preset::Required,
                comment: "by its consensus key",
            },
        ],
    }),
};

/// Signatures of owners under one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    genesis: Digest,
    by_replica: BTreeMap<ReplicaId, Signature>,
}

impl Signatures {
    /// None yet.
    #[must_use]
    pub fn none(cluster: &Cluster) -> Self {
        Self { genesis: cluster.genesis_digest(), by_replica: BTreeMap::new() }
    }

    /// The signature of the owner of replica `id`.
    #[must_use]
    pub fn of(cluster: &Cluster, id: ReplicaId, key: &ConsensusKey) -> Self {
        let mut signatures = Self::none(cluster);
        signatures.by_replica.insert(id, key.sign(&statement(cluster, id)));
        signatures
    }

    /// Reads a file of signatures, all of which must be under `cluster`.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(file: &Path, cluster: &Cluster) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        let read = Self::read(file, cluster, &mut findings);
        ConfigError::unless_clean(read, findings)
    }

    pub(super) fn read(
        file: &Path,
        cluster: &Cluster,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let before = findings.len();
        let document = document::read(file, &SIGNATURES, findings)?;
        let (place, settings) = (Place::File(file.to_owned()), &document.settings);
        document::report_missing(settings, SIGNATURES.fields, "", &place, findings);
        if findings.len() > before {
            return None;
        }
        let mut read = Self::none(cluster);
        let genesis = Digest(settings.bytes("genesis")?);
        if genesis != read.genesis {
            findings.push(Finding::new(
                format!(
                    "it is under the genesis {genesis}, and this cluster.toml has {}",
                    read.genesis
                ),
                settings.source("genesis"),
                "compare the two cluster.toml (`quorate genesis verify FILE --home DIR` names the fields \
                 that differ); have all owners sign the same one",
            ));
            return None;
        }
        for (place, element) in &document.list {
            read.take(cluster, place, element, findings);
        }
        read.check(cluster, &document.list, findings);
        Some(read)
    }

    fn take(
        &mut self,
        cluster: &Cluster,
        place: &Place,
        element: &Settings,
        findings: &mut Vec<Finding>,
    ) -> Option<()> {
        let id = ReplicaId(u16::try_from(element.integer("replica")?).ok()?);
        let signature = Signature::new(&element.hex("signature")?)?;
        if cluster.member(id).is_none() {
            let what = format!("there is no replica {id} in this cluster");
            findings.push(Finding::new(what, element.source("replica"), "remove this table"));
        } else if self.by_replica.insert(id, signature).is_some() {
            let what = format!("replica {id} signs twice");
            findings.push(Finding::new(what, place.clone(), "remove one of the two"));
        }
        Some(())
    }

    fn check(&self, cluster: &Cluster, list: &[(Place, Settings)], findings: &mut Vec<Finding>) {
        // Never for a cluster that was loaded.
        let Ok(scheme) = cluster.scheme() else { return };
        let shares: Vec<_> = self
            .by_replica
            .iter()
            .map(|(id, signature)| Share {
                signer: *id,
                statement: statement(cluster, *id),
                signature: *signature,
            })
            .collect();
        let checks: Vec<_> = shares.iter().copied().map(Check::Replica).collect();
        for (share, holds) in shares.iter().zip(scheme.verify(&checks)) {
            if holds {
                continue;
            }
            let id = share.signer;
            let source = list.iter().find(|(_, element)| {
                element.integer("replica").is_some_and(|found| found == u64::from(id.0))
            });
            let place = source.map_or(Place::Default, |(_, element)| element.source("signature"));
            findings.push(Finding::new(
                format!("the signature of replica {} does not hold", label(cluster, id)),
                place,
                "take the file again from that owner, who signs with `quorate genesis sign`",
            ));
        }
    }

    /// Adds the signatures of another file under the same cluster.
    pub fn add(&mut self, other: Self) {
        self.by_replica.extend(other.by_replica);
    }

    /// Whether the owner of replica `id` has signed.
    #[must_use]
    pub fn has(&self, id: ReplicaId) -> bool {
        self.by_replica.contains_key(&id)
    }

    /// The replicas whose owners have not signed, as people call them.
    #[must_use]
    pub fn missing(&self, cluster: &Cluster) -> Vec<String> {
        let missing = cluster.members.iter().filter(|member| !self.has(member.id));
        missing.map(|member| format!("replica {}", label(cluster, member.id))).collect()
    }

    /// The text of a file that says this.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut settings = Settings::default();
        settings.set("genesis", Value::Hex(self.genesis.0.to_vec()), Place::Default);
        let element = |(id, signature): (&ReplicaId, &Signature)| {
            let mut element = Settings::default();
            element.set("replica", Value::Integer(id.0.into()), Place::Default);
            let bytes = signature.as_bytes().to_vec();
            element.set("signature", Value::Hex(bytes), Place::Default);
            element
        };
        let list: Vec<_> = self.by_replica.iter().map(element).collect();
        SIGNATURES.render(&settings, &list)
    }
}

fn label(cluster: &Cluster, id: ReplicaId) -> String {
    cluster.member(id).map_or_else(|| id.to_string(), |member| member.label())
}

/// What the owner of replica `id` signs. Where consensus keys are shares of one, it names the
/// replica: from a quorum's signatures of one statement, anybody computes those of all others.
fn statement(cluster: &Cluster, id: ReplicaId) -> Statement {
    let mut content = cluster.chain_digest();
    if cluster.signatures.is_dealt() {
        let bytes = [&content.0[..], &id.0.to_le_bytes()].concat();
        content = Digest::of("quorate genesis sealed by a replica 1", &bytes);
    }
    Statement::genesis(&cluster.genesis_digest(), Part::Sealed as u8, &content)
}
