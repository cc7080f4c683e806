//! What differs between two clusters, field by field.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::cluster::Cluster;
use crate::config::schema::Settings;

/// One field that two clusters do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key; `replicas.0.peer_address` for those of a replica.
    pub key: String,
    /// What was agreed on, as the file writes it; `None`: it was left out.
    pub agreed: Option<String>,
    /// What is found in its place.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "left out".to_owned());
        let (found, agreed) = (said(&self.found), said(&self.agreed));
        write!(f, "`{}` is {found} here, and {agreed}", self.key)
    }
}

/// The fields of `found` that are not as in `agreed`, by their keys.
#[must_use]
pub fn differences(agreed: &Cluster, found: &Cluster) -> Vec<Difference> {
    let (agreed, found) = (values(agreed), values(found));
    let keys: std::collections::BTreeSet<_> = agreed.keys().chain(found.keys()).collect();
    let differs = keys.into_iter().filter(|key| agreed.get(*key) != found.get(*key));
    let of = |key: &String| Difference {
        key: key.clone(),
        agreed: agreed.get(key).cloned(),
        found: found.get(key).cloned(),
    };
    differs.map(of).collect()
}

fn values(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |prefix: &str, settings: &Settings| {
        for (key, setting) in settings.iter() {
            all.insert(format!("{prefix}{key}"), setting.value.to_toml());
        }
    };
    add("", &cluster.settings());
    for member in &cluster.members {
        add(&format!("replicas.{}.", member.id), &member.settings());
    }
    all
}
