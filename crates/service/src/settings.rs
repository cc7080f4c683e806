//! What the tables `service` of `cluster.toml` and `node.toml` say, beside what the program
//! declares.

use std::path::Path;

use quorate_node::config::{Finding, Loaded, Place};
use toml::{Table, Value};

use crate::exit::{Exit, Failure};

/// The settings of a service. Every key that its program declared is there, of the declared type.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What all replicas agreed on: the table `service` of `cluster.toml`.
    pub agreed: Keys,
    /// What this replica has for itself: the table `service` of `node.toml`.
    pub own: Keys,
}

/// The keys of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys(Table);

impl Keys {
    /// A whole number; 0 if no such key was declared.
    #[must_use]
    pub fn integer(&self, key: &str) -> i64 {
        self.0.get(key).and_then(Value::as_integer).unwrap_or_default()
    }

    /// A text; empty if no such key was declared.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// True or false; false if no such key was declared.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    /// All keys.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.0
    }
}

/// The settings in force, where the program declares these keys with these defaults.
pub(crate) fn read(loaded: &Loaded, agreed: &Table, own: &Table) -> Result<Settings, Failure> {
    let (cluster, node) = (loaded.home.cluster_file(), loaded.home.node_file());
    let mut findings = Vec::new();
    let settings = Settings {
        agreed: keys(&loaded.cluster.service, agreed, &["name"], &cluster, &mut findings),
        own: keys(&loaded.node.service, own, &[], &node, &mut findings),
    };
    if findings.is_empty() { Ok(settings) } else { Err(Failure { exit: Exit::Usage, findings }) }
}

fn keys(
    text: &str,
    declared: &Table,
    of_quorate: &[&str],
    file: &Path,
    findings: &mut Vec<Finding>,
) -> Keys {
    // It was read as a table.
    let mut table: Table = toml::from_str(text).unwrap_or_default();
    let mut complain = |what: String, remedy: String| {
        findings.push(Finding { what, place: Place::File(file.to_owned()), remedy });
    };
    for (key, value) in &table {
        match declared.get(key) {
            Some(usual) if usual.same_type(value) => {}
            Some(usual) => complain(
                format!("`service.{key}` is of type {}", value.type_str()),
                format!("expected the type {}, such as {usual}", usual.type_str()),
            ),
            None if of_quorate.contains(&key.as_str()) => {}
            None => complain(
                format!("unknown key `service.{key}`"),
                match declared.is_empty() {
                    true => "remove it: the service declares no keys here".to_owned(),
                    false => format!("remove it; the keys here are {}", names(declared)),
                },
            ),
        }
    }
    for (key, usual) in declared {
        table.entry(key.clone()).or_insert_with(|| usual.clone());
    }
    Keys(table)
}

fn names(declared: &Table) -> String {
    declared.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn keys_are_the_declared_ones_of_the_declared_types() {
        let declared = table("most = 7\nlabel = \"a\"");
        let read = |text: &str| {
            let mut findings = Vec::new();
            let keys = keys(text, &declared, &["name"], Path::new("cluster.toml"), &mut findings);
            (keys, findings.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (keys, findings) = read("name = \"bank\"\nmost = 9");
        assert_eq!(findings, [""; 0]);
        assert_eq!((keys.integer("most"), keys.text("label")), (9, "a"));
        let (_, findings) = read("most = \"9\"\nmosst = 1");
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("unknown key `service.mosst`"), "{findings:?}");
        assert!(findings[1].contains("`service.most` is of type string"), "{findings:?}");
    }
}
