//! The tables `service`: the settings of a service of one's own.

use super::choice::Application;
use super::cluster::Cluster;
use super::finding::{Finding, Place};
use super::node::Node;
use super::schema::{Kind, Settings};

/// A table's keys as they are read back from a file: sorted, in one form. `None`: this is no TOML.
#[must_use]
pub fn canonical_table(keys: &str) -> Option<String> {
    toml::from_str(keys).ok().map(|table: toml::Table| table.to_string())
}

/// The name in a table's `keys`, or what is wrong with it.
pub(super) fn name_of(keys: &str) -> Result<String, &'static str> {
    let table: toml::Table = toml::from_str(keys).map_err(|_| "is no table")?;
    match table.get("name") {
        Some(toml::Value::String(name)) if Kind::Name.parse(name).is_some() => Ok(name.clone()),
        Some(_) => Err("has no fitting `name`"),
        None => Err("has no `name`"),
    }
}

/// Checks the table of `cluster.toml`.
pub(super) fn check(cluster: &Cluster, settings: &Settings, findings: &mut Vec<Finding>) {
    let place = match settings.source("service") {
        Place::Default => settings.source("application"),
        place => place,
    };
    match (cluster.application, name_of(&cluster.service)) {
        (Application::Service, Err(trouble)) => findings.push(Finding::new(
            format!("`application` is \"service\", and the table `service` {trouble}"),
            place,
            format!("add name = \"...\" to [service]: expected {}", Kind::Name),
        )),
        (Application::Service, Ok(_)) => {}
        (other, _) if !cluster.service.is_empty() => findings.push(Finding::new(
            format!("there is a table `service`, and the application is \"{other}\""),
            place,
            "remove the table, or set application = \"service\"",
        )),
        _ => {}
    }
}

/// Checks the table of `node.toml`.
pub(super) fn check_node(
    node: &Node,
    cluster: &Cluster,
    settings: &Settings,
    findings: &mut Vec<Finding>,
) {
    if cluster.application != Application::Service && !node.service.is_empty() {
        findings.push(Finding::new(
            format!(
                "there is a table `service`, and the application is \"{}\"",
                cluster.application
            ),
            settings.source("service"),
            "remove the table: only programs of a service of their own read it",
        ));
    }
}
