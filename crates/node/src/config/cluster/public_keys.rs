//! Whether the public keys of `cluster.toml` are any: points of the right group, whose owners
//! proved that they have the secret halves, or which were dealt together.

use std::path::Path;

use quorate_crypto::committee_keys::{
    CommitteeKeyError, DealingProblem, GroupKey, KeyProblem, MemberKey,
};
use quorate_crypto::{CommitteeScheme, ed25519};

use super::Cluster;
use crate::config::document::Document;
use crate::config::finding::{Finding, Place};

impl Cluster {
    /// What verifies and joins signatures of this cluster's replicas and clients. Every key is
    /// checked on the way, which takes a while where keys are large.
    ///
    /// # Errors
    /// [`CommitteeKeyError`]: which key is none, and why; never for a cluster that was loaded.
    pub fn scheme(&self) -> Result<CommitteeScheme, CommitteeKeyError> {
        let members = self.members.iter().map(|member| MemberKey {
            key: match &member.share_key {
                Some(share) => share,
                None => member.consensus_key.as_bytes(),
            },
            possession: member.proof_of_possession.as_ref().map(|proof| &proof[..]),
        });
        let group = self.group_key.as_ref().map(|key| GroupKey { key, quorum: self.quorum() });
        CommitteeScheme::new(self.signatures, &members.collect::<Vec<_>>(), group)
    }

    /// q, or 0 for members that make no committee.
    fn quorum(&self) -> usize {
        self.committee().map_or(0, |committee| committee.quorum())
    }
}

/// Checks the keys of a cluster with which nothing else is wrong.
pub(super) fn check(
    cluster: &Cluster,
    file: &Path,
    document: &Document,
    findings: &mut Vec<Finding>,
) {
    if let Err(error) = cluster.scheme() {
        findings.push(finding(&error, cluster, file, document));
    }
    if cluster.generates_keys() {
        check_own_keys(cluster, file, document, findings);
    }
}

/// Checks the keys that members have beside their shares.
fn check_own_keys(
    cluster: &Cluster,
    file: &Path,
    document: &Document,
    findings: &mut Vec<Finding>,
) {
    for member in &cluster.members {
        if let Err(problem) = ed25519::read_key(member.consensus_key.as_bytes()) {
            findings.push(Finding::new(
                format!("`consensus_key` of replica {} {}", member.id, fault(problem)),
                place_of(member.id.index(), CONSENSUS_KEY, file, document),
                "copy it again from what `quorate keygen --signatures ed25519` printed",
            ));
        }
    }
}

/// Where a key of a member is set.
fn place_of(replica: usize, key: &str, file: &Path, document: &Document) -> Place {
    let found = document
        .list
        .iter()
        .find(|(_, settings)| settings.integer("id").is_some_and(|id| id == replica as u64));
    found.map_or_else(|| Place::File(file.to_owned()), |(_, settings)| settings.source(key))
}

const CONSENSUS_KEY: &str = "consensus_key";

fn finding(
    error: &CommitteeKeyError,
    cluster: &Cluster,
    file: &Path,
    document: &Document,
) -> Finding {
    let scheme = cluster.signatures;
    let votes = if cluster.generates_keys() { "share_key" } else { CONSENSUS_KEY };
    let whole = || Place::File(file.to_owned());
    let group = || document.settings.source("group_key");
    let member = |replica: usize, key: &str| place_of(replica, key, file, document);
    let dealer = "copy it again from what the dealer printed (`quorate keygen --threshold`)";
    match *error {
        CommitteeKeyError::Replica { replica, problem: KeyProblem::FalsePossession, .. } => {
            Finding::new(
                format!(
                    "`proof_of_possession` of replica {replica} does not hold for its `consensus_key`"
                ),
                member(replica, "proof_of_possession"),
                format!("copy both again from what `quorate keygen --signatures {scheme}` printed"),
            )
        }
        CommitteeKeyError::Replica { replica, problem, .. } => Finding::new(
            format!("`{votes}` of replica {replica} {}", fault(problem)),
            member(replica, votes),
            match scheme.is_dealt() {
                true => dealer.to_owned(),
                false => format!(
                    "copy it again from what `quorate keygen --signatures {scheme}` printed, or \
                     make another"
                ),
            },
        ),
        CommitteeKeyError::Group { problem, .. } => {
            Finding::new(format!("`group_key` {}", fault(problem)), group(), dealer)
        }
        CommitteeKeyError::Dealing(DealingProblem::Replica(replica)) => Finding::new(
            format!("`{votes}` of replica {replica} was not dealt together with the others"),
            member(replica, votes),
            format!("{dealer}, and see that the replicas are in its order"),
        ),
        CommitteeKeyError::Dealing(DealingProblem::Group) => Finding::new(
            "`group_key` was not dealt together with the replicas' keys",
            group(),
            dealer,
        ),
        CommitteeKeyError::Dealing(DealingProblem::Several) => Finding::new(
            "the keys of the replicas were not dealt together, or not for so many replicas",
            whole(),
            "copy all of them again from one run of the dealer, in its order, or deal again",
        ),
        CommitteeKeyError::Dealing(DealingProblem::Degree) => Finding::new(
            "the keys were dealt so that fewer than a quorum sign for all",
            whole(),
            "deal again for this number of replicas: `quorate keygen --threshold`",
        ),
        // What is left was found before, with its place.
        ref other => Finding::new(other.to_string(), whole(), "make the keys anew"),
    }
}

/// What is wrong with a key, to be read behind its name.
fn fault(problem: KeyProblem) -> String {
    match problem {
        KeyProblem::NotOnCurve => "is no point of the scheme's curve".to_owned(),
        KeyProblem::Infinity => "is the point at infinity, for which anybody can sign".to_owned(),
        KeyProblem::OutsideSubgroup => "lies outside the group of prime order".to_owned(),
        other => other.to_string(),
    }
}
