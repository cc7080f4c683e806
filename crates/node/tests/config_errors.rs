//! What people read when a configuration is wrong: the whole text, to the letter.

use std::path::Path;

use quorate_node::config::{ConfigError, FlagSetting, Home, Loaded, Overrides, load};
use quorate_node::testnet;
use tempfile::TempDir;

struct World {
    folder: TempDir,
    home: Home,
}

/// Four replicas with known ports; the home is replica 1's.
fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let options = testnet::Options { base_port: Some(7000), ..testnet::Options::default() };
    let made = testnet::init(folder.path(), 4, &options).unwrap();
    World { home: made.replicas[1].clone(), folder }
}

impl World {
    fn edit(&self, file: &Path, from: &str, to: &str) {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(from), "{from:?} is not in\n{text}");
        std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    fn edit_node(&self, from: &str, to: &str) {
        self.edit(&self.home.node_file(), from, to);
    }

    fn edit_cluster(&self, from: &str, to: &str) {
        self.edit(&self.home.cluster_file(), from, to);
    }

    fn write_node(&self, text: &str) {
        std::fs::write(self.home.node_file(), text).unwrap();
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.home, &Overrides::default())
    }

    /// The error, with the temporary folder's name taken out.
    fn error(&self) -> String {
        self.clean(&self.load().unwrap_err())
    }

    fn clean(&self, error: &ConfigError) -> String {
        error.to_string().replace(&self.folder.path().display().to_string(), "NET")
    }
}

fn flag(key: &str, value: &str) -> FlagSetting {
    FlagSetting { flag: "--set".into(), key: key.into(), value: value.into() }
}

#[test]
fn what_init_makes_loads() {
    let world = world();
    let loaded = world.load().unwrap();
    assert_eq!(loaded.warnings, []);
    loaded.open_keys().unwrap();
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let world = world();
    world.write_node("replica = 1\n\n[view_timeout]\nbse = \"1s\"\nmax = \"9s\"\n");
    assert_eq!(
        world.error(),
        "unknown key `view_timeout.bse`\n  \
         where:  NET/replica-1/config/node.toml, line 4\n  \
         remedy: did you mean `view_timeout.base`?"
    );
}

#[test]
fn a_key_in_the_wrong_table_is_led_to_its_own() {
    let world = world();
    world.write_node("replica = 1\n\ndurability = \"os\"\n");
    assert_eq!(
        world.error(),
        "unknown key `durability`\n  \
         where:  NET/replica-1/config/node.toml, line 3\n  \
         remedy: did you mean `storage.durability`?"
    );
}

#[test]
fn a_key_that_resembles_none_lists_the_table() {
    let world = world();
    world.write_node("replica = 1\nlog.colour = true\n[telemetry]\nhost = \"x\"\n");
    assert_eq!(
        world.error(),
        "unknown key `log.colour`\n  \
         where:  NET/replica-1/config/node.toml, line 2\n  \
         remedy: remove it; the keys here are level, format\n\
         unknown key `telemetry`\n  \
         where:  NET/replica-1/config/node.toml, line 3\n  \
         remedy: remove it; the keys here are replica, dissemination, [keys], [storage], [listen], [http], [clients], [view_timeout], [processor], [pipeline], [log], [tracing], [laboratory], [laboratory.accelerator], [service]"
    );
}

#[test]
fn authorities_are_for_a_collector_over_tls() {
    let world = world();
    let node = "replica = 1\n[tracing]\notlp = \"127.0.0.1:4318\"\notlp_ca = \"ca.pem\"\n";
    world.write_node(node);
    assert_eq!(
        world.error(),
        "`tracing.otlp_ca` is set, and `tracing.otlp` is no collector over TLS\n  \
         where:  NET/replica-1/config/node.toml, line 4\n  \
         remedy: write tracing.otlp = \"https://HOST:PORT\", or leave tracing.otlp_ca out"
    );
    world.write_node(&node.replace("127", "https://127"));
    let tracing = world.load().unwrap().node.tracing;
    assert!(tracing.otlp.is_some_and(|otlp| otlp.tls));
    assert!(tracing.otlp_ca.is_some_and(|file| file.is_absolute()), "it starts at the home");
    world.write_node(&node.replace("127", "ftp://127"));
    let said = world.error();
    assert!(said.contains("expected http:// or https://, a host and a port above 0"), "{said}");
}

#[test]
fn an_unknown_key_of_a_replica_has_its_line() {
    let world = world();
    world.edit_cluster("peer_address = \"127.0.0.1:7006\"", "peer_adress = \"127.0.0.1:7006\"");
    let text = std::fs::read_to_string(world.home.cluster_file()).unwrap();
    let line = 1 + text.lines().position(|line| line.starts_with("peer_adress")).unwrap();
    assert_eq!(
        world.error(),
        format!(
            "unknown key `replicas.peer_adress`\n  \
             where:  NET/replica-1/config/cluster.toml, line {line}\n  \
             remedy: did you mean `peer_address`?"
        )
    );
}

#[test]
fn a_wrong_type_says_what_was_found() {
    let world = world();
    world.write_node("replica = \"one\"\nlog = 5\n[storage]\nsnapshot_every = 0\nfolder = [1]\n");
    assert_eq!(
        world.error(),
        "`replica` is \"one\"\n  \
         where:  NET/replica-1/config/node.toml, line 1\n  \
         remedy: expected a whole number from 0 to 255\n\
         `log` is 5\n  \
         where:  NET/replica-1/config/node.toml, line 2\n  \
         remedy: expected a table [log] with the keys level, format\n\
         `storage.snapshot_every` is 0\n  \
         where:  NET/replica-1/config/node.toml, line 4\n  \
         remedy: expected a whole number from 1 to 1099511627776\n\
         `storage.folder` is an array\n  \
         where:  NET/replica-1/config/node.toml, line 5\n  \
         remedy: expected a path; relative ones start at the home"
    );
}

#[test]
fn a_bad_duration_says_what_one_looks_like() {
    let world = world();
    for bad in ["\"5 parsecs\"", "\"0ms\"", "\"2h\"", "250", "\"99999999999999999999s\""] {
        world.write_node(&format!("replica = 1\nview_timeout.base = {bad}\n"));
        assert_eq!(
            world.error(),
            format!(
                "`view_timeout.base` is {bad}\n  \
                 where:  NET/replica-1/config/node.toml, line 2\n  \
                 remedy: expected a duration from 1ms to 1h, such as \"250ms\""
            )
        );
    }
}

#[test]
fn a_bad_choice_lists_the_names() {
    let world = world();
    world.edit_node("durability = \"sync\"", "durability = \"maybe\"");
    let error = world.error();
    assert!(error.starts_with("`storage.durability` is \"maybe\"\n"), "{error}");
    assert!(error.ends_with("remedy: expected one of \"sync\", \"os\""), "{error}");
}

#[test]
fn a_duplicate_key_is_named() {
    let world = world();
    world.write_node("replica = 1\n[log]\nlevel = \"info\"\nlevel = \"warn\"\n");
    assert_eq!(
        world.error(),
        "`level` is set twice\n  \
         where:  NET/replica-1/config/node.toml, line 4\n  \
         remedy: remove one of the two"
    );
}

#[test]
fn a_broken_line_is_named() {
    let world = world();
    world.write_node("replica = 1\n[log\nlevel = \"info\"\n");
    let error = world.error();
    assert!(error.starts_with("the file is not valid TOML: "), "{error}");
    assert!(error.contains("where:  NET/replica-1/config/node.toml, line 2\n"), "{error}");
}

#[test]
fn a_missing_value_and_a_missing_file_are_named() {
    let world = world();
    world.write_node("");
    std::fs::remove_file(world.home.cluster_file()).unwrap();
    assert_eq!(
        world.error(),
        "the file cannot be read: No such file or directory (os error 2)\n  \
         where:  NET/replica-1/config/cluster.toml\n  \
         remedy: check the path; that of a home is --home (or QUORATE_HOME), and `quorate testnet init` makes homes\n\
         `replica` is missing\n  \
         where:  NET/replica-1/config/node.toml\n  \
         remedy: add it: expected a whole number from 0 to 255"
    );
}

#[test]
fn a_huge_file_is_refused_unread() {
    let world = world();
    world.write_node(&"#".repeat((1 << 20) + 1));
    assert!(world.error().starts_with("the file is larger than 1MiB\n"));
}

#[test]
fn a_foreign_id_is_refused_with_its_source() {
    let world = world();
    let overrides =
        Overrides { flags: Vec::new(), environment: vec![("QUORATE_REPLICA".into(), "4".into())] };
    let error = load(&world.home, &overrides).unwrap_err();
    assert_eq!(
        world.clean(&error),
        "`replica` is 4, which is no member of the committee\n  \
         where:  environment variable QUORATE_REPLICA\n  \
         remedy: the ids in NET/replica-1/config/cluster.toml are 0 to 3"
    );
}

#[test]
fn an_unknown_flag_key_and_a_bad_flag_value_are_refused() {
    let world = world();
    let flags = vec![flag("view_timeot.base", "1s"), flag("log.level", "loud")];
    let error = load(&world.home, &Overrides { flags, environment: Vec::new() }).unwrap_err();
    assert_eq!(
        world.clean(&error),
        "unknown key `view_timeot.base`\n  where:  flag --set\n  \
         remedy: did you mean `view_timeout.base`?\n\
         `log.level` is \"loud\"\n  where:  flag --set\n  \
         remedy: expected one of \"error\", \"warn\", \"info\", \"debug\", \"trace\""
    );
}

#[test]
fn two_replicas_with_one_id_or_a_gap_are_refused() {
    let world = world();
    world.edit_cluster("id = 2", "id = 1");
    assert!(world.error().starts_with("two replicas have the id 1\n"), "{}", world.error());
    world.edit_cluster("id = 1", "id = 7");
    assert!(world.error().starts_with("there is a replica 3, and no replica 2\n"));
}

#[test]
fn a_key_or_an_address_that_serves_twice_is_refused() {
    let world = world();
    let cluster = world.load().unwrap().cluster;
    let hex = |index: usize| format!("\"{}\"", cluster.members[index].consensus_key);
    world.edit_cluster(&hex(2), &hex(0));
    world.edit_cluster("127.0.0.1:7010", "127.0.0.1:7000");
    let error = world.error();
    assert!(
        error.contains("`consensus_key` of replica 2 is also `consensus_key` of replica 0\n"),
        "{error}"
    );
    assert!(
        error.contains("`client_address` of replica 3 is also `peer_address` of replica 0\n"),
        "{error}"
    );
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let world = world();
    world.edit_node("max = \"1min\"", "max = \"100ms\"");
    world.edit_node("transport = \"config/transport.key\"", "transport = \"config/consensus.key\"");
    world.edit_node("http = \"127.0.0.1:7005\"", "http = \"127.0.0.1:7004\"");
    let error = world.error();
    for expected in [
        "`keys.transport` names the same file as `keys.consensus`\n",
        "`listen.http` is \"127.0.0.1:7004\", and so is `listen.client`\n",
        "`view_timeout.max` is \"100ms\", below `view_timeout.base`\n",
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_key_file_of_another_replica_is_refused_and_both_are_named() {
    let world = world();
    let loaded = world.load().unwrap();
    let foreign = world.folder.path().join("replica-2/config/consensus.key");
    std::fs::copy(foreign, &loaded.node.keys.consensus).unwrap();
    let members = &loaded.cluster.members;
    let text = std::fs::read_to_string(world.home.cluster_file()).unwrap();
    let line = 1 + text.lines().position(|line| line == "id = 1").unwrap() - 1;
    assert_eq!(
        world.clean(&loaded.open_keys().unwrap_err()),
        format!(
            "the key in NET/replica-1/config/consensus.key is {}, but `consensus_key` of replica 1 is {}\n  \
             where:  NET/replica-1/config/cluster.toml, line {line}\n  \
             remedy: put the key file of replica 1 there, or correct `replica` in node.toml",
            members[2].consensus_key, members[1].consensus_key,
        )
    );
}

#[test]
fn an_open_or_missing_key_file_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = world();
    let loaded = world.load().unwrap();
    let wide = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&loaded.node.keys.consensus, wide).unwrap();
    std::fs::remove_file(&loaded.node.keys.transport).unwrap();
    let error = world.clean(&loaded.open_keys().unwrap_err());
    assert!(
        error.starts_with("key file NET/replica-1/config/consensus.key has mode 0640: "),
        "{error}"
    );
    assert!(
        error.contains("\nthere is no key file NET/replica-1/config/transport.key\n"),
        "{error}"
    );
}
