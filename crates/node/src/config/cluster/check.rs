//! What the keys of `cluster.toml` say together.

use std::collections::BTreeMap;
use std::path::Path;

use quorate_crypto::SchemeName;

use super::{Cluster, Member, clients, from_settings, governed, public_keys, restored};
use crate::config::combination::{
    fixed_leader_refusal, liveness_refusal, sampling_refusal, tentative_refusal,
};
use crate::config::document::Document;
use crate::config::finding::{Finding, Place};
use crate::config::schema::Settings;
use crate::config::service;

/// Makes a cluster of what a file says, and checks what its keys say together. Returns the places
/// of the members beside it.
pub(in crate::config) fn from_document(
    file: &Path,
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
    let settings = &document.settings;
    let cluster = from_settings(settings, members)?;
    for rule in cluster.combination().refused() {
        findings.push(rule.finding(settings.source(rule.key)));
    }
    check_fixed_leader(&cluster, settings, findings);
    check_sampling(&cluster, settings, findings);
    check_tentative(&cluster, settings, findings);
    check_liveness(&cluster, settings, findings);
    check_state_fits(&cluster, settings, findings);
    check_group_key(&cluster, file, settings, findings);
    governed::check(&cluster, settings, findings);
    clients::check(&cluster, settings, findings);
    restored::check(settings, findings);
    service::check(&cluster, settings, findings);
    for (place, member) in &document.list {
        check_key(cluster.own_scheme(), place, member, findings);
        check_share_key(&cluster, place, member, findings);
    }
    // It costs time, and would say the same in other words.
    if findings.is_empty() && cluster.committee().is_ok() {
        public_keys::check(&cluster, file, document, findings);
    }
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

/// A full state can be taken over: with proofs and sessions it takes less than twice what its keys
/// and values count for.
fn check_state_fits(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let limits = &cluster.limits;
    if limits.max_state_bytes > limits.max_snapshot_bytes / 2 {
        findings.push(Finding::new(
            "`limits.max_state_bytes` is more than half of `limits.max_snapshot_bytes`: a replica that is \
             behind could not take a full state over",
            settings.source("limits.max_state_bytes"),
            "make the one smaller or the other larger, at all replicas",
        ));
    }
}

/// No key serves twice, in whichever role, and no address.
fn check_distinct(members: &[(Member, Place)], findings: &mut Vec<Finding>) {
    let mut keys = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for (member, place) in members {
        let id = member.label();
        for (role, key) in [
            ("consensus_key", member.consensus_key.as_bytes()),
            ("transport_key", &member.transport_key.0[..]),
        ] {
            if let Some((other, first)) = keys.insert(key, (id.clone(), role)) {
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
            if let Some((other, first)) = addresses.insert(address.clone(), (id.clone(), role)) {
                findings.push(Finding::new(
                    format!("`{role}` of replica {id} is also `{first}` of replica {other}"),
                    place.clone(),
                    "give each its own port",
                ));
            }
        }
    }
}

fn check_fixed_leader(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let place = settings.source("fixed_leader");
    // Nobody set it: it is 0, which is always a replica.
    if place == Place::Default {
        return;
    }
    let refusal = fixed_leader_refusal(cluster.leader, cluster.fixed_leader, cluster.members.len());
    if let Some((what, remedy)) = refusal {
        findings.push(Finding::new(what, place, remedy));
    }
}

fn check_sampling(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let place = settings.source("sampling");
    if place == Place::Default {
        return;
    }
    if let Some((what, remedy)) = sampling_refusal(cluster.protocol) {
        findings.push(Finding::new(what, place, remedy));
    }
}

fn check_tentative(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    if let Some((what, remedy)) = tentative_refusal(cluster.protocol).filter(|_| cluster.tentative)
    {
        findings.push(Finding::new(what, settings.source("tentative"), remedy));
    }
}

fn check_liveness(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let place = settings.source("liveness");
    if place == Place::Default {
        return;
    }
    let Cluster { protocol, liveness, sampling, members, .. } = cluster;
    if let Some((what, remedy)) = liveness_refusal(*protocol, *liveness, *sampling, members.len()) {
        findings.push(Finding::new(what, place, remedy));
    }
}

fn check_group_key(
    cluster: &Cluster,
    file: &Path,
    settings: &Settings,
    findings: &mut Vec<Finding>,
) {
    let scheme = cluster.signatures;
    match (scheme.is_dealt(), cluster.group_key) {
        (true, None) => findings.push(Finding::new(
            format!("`group_key` is missing: `signatures = \"{scheme}\"` needs it"),
            Place::File(file.to_owned()),
            "add the one that `quorate keygen --threshold` printed",
        )),
        (false, Some(_)) => findings.push(Finding::new(
            format!("`group_key` is set, but `signatures` is \"{scheme}\""),
            settings.source("group_key"),
            "remove it, or set signatures = \"bls12-381-threshold\"",
        )),
        _ => {}
    }
}

/// There is the key of a share exactly if members generate threshold keys.
fn check_share_key(
    cluster: &Cluster,
    place: &Place,
    settings: &Settings,
    findings: &mut Vec<Finding>,
) {
    let id = settings.integer("id").unwrap_or_default();
    match (cluster.generates_keys(), settings.get("share_key")) {
        (true, None) => findings.push(Finding::new(
            format!(
                "`share_key` of replica {id} is missing: members that change sign with shares of a \
                 threshold key"
            ),
            place.clone(),
            "make the cluster with `quorate testnet init --administrators`, or set signatures = \
             \"ed25519\"",
        )),
        (false, Some(key)) => findings.push(Finding::new(
            format!(
                "`share_key` of replica {id} is set, and it is for members that change and sign with a \
                 threshold key"
            ),
            key.source.clone(),
            "remove it, or set signatures = \"bls12-381-threshold\" beside [governance]",
        )),
        _ => {}
    }
}

/// A key has its scheme's length, and a proof of possession exactly if the scheme needs one.
fn check_key(scheme: SchemeName, place: &Place, settings: &Settings, findings: &mut Vec<Finding>) {
    let id = settings.integer("id").unwrap_or_default();
    let (found, expected) =
        (settings.hex("consensus_key").map_or(0, |key| key.len()), scheme.public_key_bytes());
    let maker = match scheme.is_dealt() {
        true => "`quorate keygen --threshold`".to_owned(),
        false => format!("`quorate keygen --signatures {scheme}`"),
    };
    if found != expected {
        findings.push(Finding::new(
            format!(
                "`consensus_key` of replica {id} has {found} bytes, but keys of \"{scheme}\" have \
                 {expected}"
            ),
            settings.source("consensus_key"),
            format!("put the public key there that {maker} printed, or correct `signatures`"),
        ));
    }
    match (scheme.needs_possession(), settings.get("proof_of_possession")) {
        (true, None) => findings.push(Finding::new(
            format!(
                "`proof_of_possession` of replica {id} is missing: `signatures = \"{scheme}\"` needs it"
            ),
            place.clone(),
            format!("add the one that {maker} printed beside the public key"),
        )),
        (false, Some(proof)) => findings.push(Finding::new(
            format!(
                "`proof_of_possession` of replica {id} is set, but `signatures` is \"{scheme}\""
            ),
            proof.source.clone(),
            "remove it, or set signatures = \"bls12-381\"",
        )),
        _ => {}
    }
}
