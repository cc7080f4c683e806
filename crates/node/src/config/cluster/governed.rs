//! What a cluster must be like whose members may change.

use quorate_core::base::membership::Rules;
use quorate_crypto::{SchemeName, ed25519};

use super::Cluster;
use crate::config::choice::{AuthenticationName, LeaderName, ProtocolName};
use crate::config::finding::{Finding, Place};
use crate::config::schema::Settings;

const ADMINISTRATORS: &str = "governance.administrators";
const APPROVALS: &str = "governance.approvals";
const RULES: &str = "governance.rules";
const FIXED: &str = "or leave [governance] out: the members are fixed then";

/// Checks who may change the members, and whether the rest of the cluster goes with it.
pub(super) fn check(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    match (settings.mentions(ADMINISTRATORS), settings.mentions(APPROVALS)) {
        (false, false) if settings.mentions(RULES) => {
            return findings.push(missing(ADMINISTRATORS, RULES, settings));
        }
        (false, false) => return,
        (true, true) => {}
        (true, false) => return findings.push(missing(APPROVALS, ADMINISTRATORS, settings)),
        (false, true) => return findings.push(missing(ADMINISTRATORS, APPROVALS, settings)),
    }
    check_keys(cluster, settings, findings);
    let rules = [
        (
            !matches!(cluster.signatures, SchemeName::Ed25519 | SchemeName::BlsThreshold),
            format!(
                "`signatures` is \"{}\", whose keys nobody can check alone",
                cluster.signatures
            ),
            "signatures",
            "set signatures = \"ed25519\" or \"bls12-381-threshold\"",
        ),
        (
            matches!(
                cluster.protocol,
                ProtocolName::Snowman
                    | ProtocolName::LaboratorySequencer
                    | ProtocolName::LaboratoryTwoDelay
            ),
            format!("`protocol` is \"{}\", whose members are fixed", cluster.protocol.name()),
            "protocol",
            "choose one of the HotStuff family, or pbft",
        ),
        (
            cluster.leader == LeaderName::Fixed,
            "`leader` is \"fixed\", and that replica might leave".to_owned(),
            "leader",
            "choose another `leader`",
        ),
        (
            cluster.protocol == ProtocolName::Pbft
                && cluster.authentication != AuthenticationName::MacsToClients,
            "outcomes are signed, and clients could not tell those of a new member".to_owned(),
            "authentication",
            "set authentication = \"macs-to-clients\"",
        ),
        (
            cluster.epoch.0 != 0,
            format!("`epoch` is {}: epochs are counted from 0 where members change", cluster.epoch),
            "epoch",
            "leave `epoch` out",
        ),
    ];
    let rules = rules.into_iter().chain(threshold(cluster));
    for (_, what, key, remedy) in rules.filter(|(is_wrong, ..)| *is_wrong) {
        let place = match settings.source(key) {
            Place::Default => settings.source(ADMINISTRATORS),
            place => place,
        };
        let what = format!("members cannot change here: {what}");
        findings.push(Finding::new(what, place, format!("{remedy}, {FIXED}")));
    }
}

/// Whether a rule is broken, how, by which key, and what to do.
type Rule = (bool, String, &'static str, &'static str);

/// What a cluster must be like whose members generate threshold keys.
fn threshold(cluster: &Cluster) -> [Rule; 2] {
    [
        (
            cluster.generates_keys() && cluster.protocol == ProtocolName::Pbft,
            "`protocol` is \"pbft\", whose checkpoints members sign alone, and not with shares of \
             a threshold key"
                .to_owned(),
            "protocol",
            "choose one of the HotStuff family, or set signatures = \"ed25519\"",
        ),
        (
            cluster.generates_keys() && cluster.rules.core < Rules::GENERATED_KEYS,
            format!(
                "members that change generate threshold keys by rules {} of the core, and the first \
                 epoch has rules {}",
                Rules::GENERATED_KEYS,
                cluster.rules
            ),
            RULES,
            "set rules = \"3.1\" in [governance], or signatures = \"ed25519\"",
        ),
    ]
}

fn missing(key: &str, beside: &str, settings: &Settings) -> Finding {
    let what = format!("`{key}` is missing beside `{beside}`");
    Finding::new(what, settings.source(beside), format!("add it, {FIXED}"))
}

fn check_keys(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let keys = &cluster.governance.administrators;
    let place = || settings.source(ADMINISTRATORS);
    for (at, key) in keys.iter().enumerate() {
        let shown = quorate_core::Digest(key.0);
        if keys[..at].contains(key) {
            let what = format!("`{ADMINISTRATORS}` names the key {shown} twice");
            findings.push(Finding::new(what, place(), "name each administrator once"));
        }
        if let Err(problem) = ed25519::read_key(&key.0) {
            let what = format!("`{ADMINISTRATORS}`: {shown} {problem}");
            let remedy = "put the public key there that `quorate keygen` printed";
            findings.push(Finding::new(what, place(), remedy));
        }
    }
    let (approvals, administrators) = (cluster.governance.approvals, keys.len());
    if !keys.is_empty() && usize::from(approvals) > administrators {
        let what = format!(
            "`{APPROVALS}` is {approvals}, and there are {administrators} administrators: nothing \
             could ever be changed"
        );
        let remedy = format!("set it to a number from 1 to {administrators}");
        findings.push(Finding::new(what, settings.source(APPROVALS), remedy));
    }
}
