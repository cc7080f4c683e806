//! The tables `service`, and clusters of a service of one's own.

use quorate_node::config::{Application, Overrides, load, load_cluster};
use quorate_node::testnet::{self, Options, Service, program_of};

fn options(agreed: &str, own: &str) -> Options {
    let service = Service {
        agreed: agreed.to_owned(),
        own: own.to_owned(),
        program: Some("/opt/bank".into()),
    };
    Options { application: Application::Service, service, ..Options::default() }
}

#[test]
fn a_service_s_settings_come_through_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let agreed = "limits = { most = 3 }\nname = \"bank\"\nopening_balance = 7";
    let made = testnet::init(folder.path(), 4, &options(agreed, "cache = 9")).unwrap();
    let loaded = load(&made.replicas[2], &Overrides::default()).unwrap();
    assert_eq!(loaded.cluster.application_name(), "bank");
    let table: toml::Table = toml::from_str(&loaded.cluster.service).unwrap();
    assert_eq!(table["opening_balance"].as_integer(), Some(7));
    assert_eq!(table["limits"]["most"].as_integer(), Some(3));
    assert_eq!(loaded.node.service.trim(), "cache = 9");
    assert_eq!(program_of(folder.path()), Some("/opt/bank".into()));
    // All agree on it: it is a part of the chain's identity, as the files have it.
    let (read, _) = load_cluster(&made.client.cluster_file()).unwrap();
    assert_eq!(read.chain_digest(), loaded.cluster.chain_digest());
    assert_eq!(read.chain_digest(), made.cluster.chain_digest());
    let mut other = read.clone();
    other.service = read.service.replace('7', "8");
    assert_ne!(other.chain_digest(), read.chain_digest());
}

#[test]
fn a_service_needs_a_name_and_another_application_no_service() {
    let refused = |options: &Options| {
        let folder = tempfile::tempdir().unwrap();
        testnet::init(folder.path(), 4, options).unwrap_err().to_string()
    };
    for (agreed, expected) in [
        ("", "the table `service` has no `name`"),
        ("most = 3", "the table `service` has no `name`"),
        ("name", "the service's settings are no TOML"),
        ("name = 3", "the table `service` has no fitting `name`"),
        ("name = \"a b\"", "the table `service` has no fitting `name`"),
    ] {
        let said = refused(&options(agreed, ""));
        assert!(said.contains(expected), "{agreed}: {said}");
    }
    let kv = Options { application: Application::Kv, ..options("name = \"bank\"", "") };
    let said = refused(&kv);
    assert!(said.contains("there is a table `service`, and the application is \"kv\""), "{said}");
}
