//! What the keys of `node.toml` say together, and beside `cluster.toml`.

use super::{Node, SCHEMA, ViewTimeout, http, traces};
use crate::config::choice::{
    Application, DisseminationName, ProtocolName, StateStore, TimeoutKind,
};
use crate::config::cluster::Cluster;
use crate::config::finding::{Finding, Place};
use crate::config::quantity::HumanDuration;
use crate::config::schema::{Preset, Settings};
use crate::config::service;

/// Checks a node of `cluster`; `agreed` says where a key of `cluster.toml` is set.
pub(in crate::config) fn check(
    node: &Node,
    settings: &Settings,
    cluster: &Cluster,
    agreed: impl Fn(&str) -> Place,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    check_timeouts(node, settings, cluster, findings);
    check_dissemination(node, settings, cluster, findings);
    check_places(node, settings, findings, warnings);
    if node.storage.state == StateStore::Disk && cluster.application != Application::Kv {
        findings.push(Finding::new(
            format!(
                "`storage.state` is \"disk\", and the application \"{}\" is in memory alone",
                cluster.application
            ),
            settings.source("storage.state"),
            "set it to \"memory\"",
        ));
    }
    traces::check(&node.tracing, settings, findings);
    check_laboratory(node, settings, findings, warnings);
    service::check_node(node, cluster, settings, findings);
    if let Some((key, value, instead)) = cluster.combination().laboratory()
        && !node.laboratory.enabled
    {
        findings.push(Finding::new(
            format!("`{key}` is \"{value}\", but `laboratory.enabled` is false in node.toml"),
            agreed(key),
            format!("{instead}; or, where nothing is at stake, set laboratory.enabled = true"),
        ));
    }
}

/// A leader may let frames that travel ahead wait for half of `view_timeout.base`. Nobody may have
/// given its view up by then.
fn check_dissemination(
    node: &Node,
    settings: &Settings,
    cluster: &Cluster,
    findings: &mut Vec<Finding>,
) {
    if node.dissemination == DisseminationName::Direct {
        return;
    }
    let place = || settings.source("dissemination");
    if cluster.protocol == ProtocolName::Pbft {
        findings.push(Finding::new(
            "`dissemination` is \"ahead\", and the protocol is \"pbft\": its backups give up a primary that \
             lets their clients' frames wait, and would give up a correct one",
            place(),
            "set it to \"direct\"",
        ));
    }
    if node.view_timeout.kind == TimeoutKind::Adaptive {
        findings.push(Finding::new(
            "`dissemination` is \"ahead\", and `view_timeout.kind` is \"adaptive\": views would be given up \
             while their leaders wait for frames",
            place(),
            "set it to \"direct\", or view_timeout.kind to \"exponential\"",
        ));
    }
}

fn check_timeouts(
    node: &Node,
    settings: &Settings,
    cluster: &Cluster,
    findings: &mut Vec<Finding>,
) {
    if node.view_timeout.max < node.view_timeout.base {
        let (base, max) = (HumanDuration(node.view_timeout.base), node.view_timeout.max);
        findings.push(Finding::new(
            format!("`view_timeout.max` is \"{}\", below `view_timeout.base`", HumanDuration(max)),
            settings.source("view_timeout.max"),
            format!("make it at least \"{base}\""),
        ));
    }
    let ViewTimeout { base, delta, .. } = node.view_timeout;
    if cluster.protocol == ProtocolName::Hotstuff2 && delta >= base {
        let place = match settings.source("view_timeout.delta") {
            Place::Default => settings.source("view_timeout.base"),
            set => set,
        };
        let (base, delta) = (HumanDuration(base), HumanDuration(delta));
        findings.push(Finding::new(
            format!(
                "`view_timeout.delta` is \"{delta}\", and `view_timeout.base` is \"{base}\": the view of a \
                 leader of hotstuff-2 that waits so long is over before it proposes"
            ),
            place,
            format!("make delta less than \"{base}\", or base more than \"{delta}\""),
        ));
    }
}

fn check_places(
    node: &Node,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
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
    http::check(node, settings, findings, warnings);
}

/// Nothing is tried out by accident: without `enabled` every other switch is as by default.
fn check_laboratory(
    node: &Node,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    if let (true, Some(schedule)) = (node.laboratory.enabled, &node.laboratory.adversary) {
        warnings.push(Finding::new(
            format!("`laboratory.adversary` is \"{schedule}\": this replica is Byzantine"),
            settings.source("laboratory.adversary"),
            "have no more than f of them in a cluster, and trust nothing that this one says",
        ));
    }
    if super::laboratory::versions(settings).is_none() {
        findings.push(Finding::new(
            "`laboratory.oldest_version` and `laboratory.newest_version` are no range of versions",
            settings.source("laboratory.oldest_version"),
            "expected 3 <= oldest <= newest; 0 stands for what this program speaks",
        ));
    }
    if node.laboratory.enabled && !cfg!(feature = "laboratory") {
        return findings.push(Finding::new(
            "`laboratory.enabled` is true, and this build has no laboratory",
            settings.source("laboratory.enabled"),
            "set it to false; or, for an experiment, build the program with the feature `laboratory`",
        ));
    }
    if node.laboratory.enabled {
        return warnings.push(Finding::new(
            "`laboratory.enabled` is true: this replica is for experiments",
            settings.source("laboratory.enabled"),
            "use it where nothing is at stake",
        ));
    }
    for field in SCHEMA.fields.iter().filter(|field| field.key.starts_with("laboratory.")) {
        let Preset::Is(preset) = field.preset else { continue };
        let Some(setting) = settings.get(field.key) else { continue };
        if field.kind.parse(preset).as_ref() != Some(&setting.value) {
            findings.push(Finding::new(
                format!(
                    "`{}` is {}, but `laboratory.enabled` is false",
                    field.key,
                    setting.value.to_toml()
                ),
                setting.source.clone(),
                format!("set it to {preset}; or, in an experiment, set laboratory.enabled = true"),
            ));
        }
    }
}
