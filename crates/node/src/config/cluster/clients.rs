//! Who may send commands, as a chain begins.

use std::sync::Arc;

use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::{Admission, Clients};
use quorate_crypto::ed25519;

use super::Cluster;
use crate::config::finding::{Finding, Place};
use crate::config::schema::{Settings, Value};

const ADMISSION: &str = "clients.admission";
const KEYS: &str = "clients.keys";

/// Most keys that a file names. More are allowed in the running cluster.
pub(super) const MAX_KEYS: usize = 4096;
/// The names of admissions.
pub(super) const ADMISSIONS: &[&str] = &["open", "listed"];

/// The list that a file asks for; that of everybody if it asks for none.
pub(super) fn of(settings: &Settings) -> Option<Arc<Clients>> {
    let admission = match settings.text(ADMISSION).as_deref() {
        Some("listed") => Admission::Listed,
        _ => Admission::Open,
    };
    let keys = settings.keys(KEYS).unwrap_or_default();
    Clients::first(admission, keys).ok().map(Arc::new)
}

/// Writes the list down, if it says anything.
pub(super) fn set(clients: &Clients, settings: &mut Settings) {
    if clients.is_silent() {
        return;
    }
    let admission = match clients.admission() {
        Admission::Open => "open",
        Admission::Listed => "listed",
    };
    settings.set(ADMISSION, Value::Text(admission.to_owned()), Place::Default);
    let keys: Vec<PublicKey> = clients.entries().map(|(key, _)| *key).collect();
    if !keys.is_empty() {
        settings.set(KEYS, Value::Keys(keys), Place::Default);
    }
}

/// Checks that the list can be changed later, and that its keys are keys.
pub(super) fn check(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let named = [ADMISSION, KEYS].into_iter().find(|key| settings.mentions(key));
    let Some(named) = named else { return };
    if !cluster.is_governed() {
        findings.push(Finding::new(
            format!("`{named}` is set, and the cluster has no administrators who could change the list"),
            settings.source(named),
            "add [governance] with administrators, or leave [clients] out: anybody may send commands then",
        ));
    }
    if !settings.mentions(ADMISSION) {
        findings.push(Finding::new(
            format!("`{ADMISSION}` is missing beside `{KEYS}`"),
            settings.source(KEYS),
            "add admission = \"listed\", or leave [clients] out: anybody may send commands then",
        ));
    }
    let keys = settings.keys(KEYS).unwrap_or_default();
    for (at, key) in keys.iter().enumerate() {
        let shown = Digest(key.0);
        if keys[..at].contains(key) {
            let what = format!("`{KEYS}` names the key {shown} twice");
            findings.push(Finding::new(what, settings.source(KEYS), "name each client once"));
        }
        if let Err(problem) = ed25519::read_key(&key.0) {
            let what = format!("`{KEYS}`: {shown} {problem}");
            let remedy = "put the public key there that `quorate keygen` printed";
            findings.push(Finding::new(what, settings.source(KEYS), remedy));
        }
    }
}
