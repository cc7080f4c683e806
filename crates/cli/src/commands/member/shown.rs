//! Members and changes, for people and for programs.

use quorate_core::base::membership::Member;
use quorate_core::{Committee, Digest, ReplicaId};
use quorate_node::client::change::unreached;
use quorate_node::config::Contact;
use serde_json::{Value, json};

use super::{Known, generating};
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// `quorate member status`
pub(super) fn status(known: &mut Known, format: Format) -> Result<(), Failure> {
    let committee = known.chain.committee().clone();
    let missing = known.runtime.block_on(unreached(&committee));
    let trouble = |id: ReplicaId| {
        missing.iter().find(|(of, _)| *of == id).map(|(_, trouble)| trouble.clone())
    };
    let told = generating::Told::of(known);
    match format {
        Format::Table => {
            let generation = told.map(|told| told.text()).unwrap_or_default();
            print(&format!("{}\n{}{generation}", summary(&committee), rows(&committee, trouble)))
        }
        Format::Json => {
            let mut status = of(&committee, trouble);
            if let Some(told) = told {
                status["generation"] = told.json();
            }
            print_json(&status)
        }
    }
}

/// `quorate member history`
pub(super) fn history(known: &mut Known, format: Format) -> Result<(), Failure> {
    let committees = known.chain.committees();
    match format {
        Format::Table => {
            let text: Vec<String> = committees
                .iter()
                .enumerate()
                .map(|(at, committee)| {
                    let before = at.checked_sub(1).and_then(|before| committees.get(before));
                    let opening = committee.opening().height;
                    let changes = differences(before, committee);
                    format!("epoch {} from height {opening}: {changes}\n", committee.epoch())
                })
                .collect();
            print(&text.concat())
        }
        Format::Json => {
            let epochs: Vec<_> =
                committees.iter().map(|committee| of(committee, |_| None)).collect();
            print_json(&json!({ "epochs": epochs }))
        }
    }
}

/// What a committee is like in a line.
pub(super) fn summary(committee: &Committee) -> String {
    let (voters, all) = (committee.voter_count(), committee.replicas().count());
    let governance = committee.governance();
    format!(
        "epoch {}: {voters} members count, {} learn; f = {}, a quorum is {}; {} of {} administrators must sign; rules {}",
        committee.epoch(),
        all - voters,
        committee.faults(),
        committee.quorum(),
        governance.approvals,
        governance.administrators.len(),
        committee.rules(),
    )
}

fn rows(committee: &Committee, trouble: impl Fn(ReplicaId) -> Option<String>) -> String {
    let row = |id: ReplicaId| {
        let member = committee.member(id)?;
        let contact = Contact::of(member).ok();
        let address = |of: fn(&Contact) -> String| contact.as_ref().map(of).unwrap_or_default();
        Some([
            id.to_string(),
            weight(member),
            address(|contact| contact.peer_address.to_string()),
            address(|contact| contact.client_address.to_string()),
            trouble(id).map_or_else(|| "reached".to_owned(), |why| format!("not reached: {why}")),
        ])
    };
    let rows: Vec<_> = committee.replicas().filter_map(row).collect();
    table(["REPLICA", "WEIGHT", "PEERS", "CLIENTS", "STATE"], &rows)
}

fn transport_key(member: &Member) -> Option<String> {
    Contact::of(member).ok().map(|contact| Digest(contact.transport_key.0).to_string())
}

fn weight(member: &Member) -> String {
    match member.weight {
        0 => "learner".to_owned(),
        weight => weight.to_string(),
    }
}

/// A committee for programs.
pub(super) fn of(committee: &Committee, trouble: impl Fn(ReplicaId) -> Option<String>) -> Value {
    let member = |id: ReplicaId| {
        let member = committee.member(id)?;
        let contact = Contact::of(member).ok();
        Some(json!({
            "id": id.0,
            "weight": member.weight,
            "learner": member.is_learner(),
            "consensus_key": member.key.to_string(),
            "transport_key": transport_key(member),
            "peer_address": contact.as_ref().map(|contact| contact.peer_address.to_string()),
            "client_address": contact.as_ref().map(|contact| contact.client_address.to_string()),
            "unreached": trouble(id),
        }))
    };
    let rules = committee.rules();
    json!({
        "epoch": committee.epoch().0,
        "height": committee.opening().height.0,
        "digest": committee.digest().to_string(),
        "faults": committee.faults(),
        "quorum": committee.quorum(),
        "rules": { "core": rules.core, "application": rules.application },
        "members": committee.replicas().filter_map(member).collect::<Vec<_>>(),
    })
}

/// What is different, in words.
pub(super) fn differences(before: Option<&Committee>, after: &Committee) -> String {
    let Some(before) = before else {
        let first = after.replicas().map(|id| id.to_string()).collect::<Vec<_>>();
        return format!("the first members are {}", first.join(", "));
    };
    let mut said = Vec::new();
    let ids = (0..before.size().max(after.size())).map(|id| ReplicaId(id as u16));
    for id in ids {
        match (before.member(id), after.member(id)) {
            (None, Some(member)) => said.push(format!("{id} joins ({})", weight(member))),
            (Some(_), None) => said.push(format!("{id} leaves")),
            (Some(was), Some(is)) if was.weight != is.weight => {
                said.push(format!("{id}: {} -> {}", weight(was), weight(is)));
            }
            (Some(was), Some(is)) if was.key != is.key => {
                said.push(format!("{id} has another consensus key"))
            }
            (Some(was), Some(is)) if transport_key(was) != transport_key(is) => {
                said.push(format!("{id} has another transport key"))
            }
            _ => {}
        }
    }
    if before.governance() != after.governance() {
        said.push("other administrators".to_owned());
    }
    if before.rules() != after.rules() {
        said.push(format!("rules: {} -> {}", before.rules(), after.rules()));
    }
    said.join(", ")
}
