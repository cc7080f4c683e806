//! Who may send commands to a cluster, with the commands that operators use.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::client::message::Rejection;
use quorate_core::client::{ClientError, Fatal};
use quorate_crypto::{SecretKey, key_file};
use quorate_node::client::Client;
use serde_json::{Value, json};

use crate::cluster::{Cluster, quorate, wait_until};
use crate::needs;
use crate::redis::{Gateway, ask};

const SETTINGS: [&str; 2] = ["processor.preempts=false", "listen.http=127.0.0.1:0"];

/// Runs `quorate client` in the client's home; the first so many administrators sign.
fn client(cluster: &Cluster, administrators: usize, arguments: &[&str]) -> Output {
    let mut command = quorate();
    command.args(["--output", "json", "client"]).args(arguments);
    for number in 0..administrators {
        let file = cluster.folder().join(format!("administrator-{number}.key"));
        command.arg("--administrator").arg(file);
    }
    command.arg("--home").arg(cluster.folder().join("client")).output().unwrap()
}

fn done(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes a key by `quorate keygen`: its file, and the public half.
fn keygen(cluster: &Cluster, name: &str) -> (PathBuf, String) {
    let file = cluster.folder().join(name);
    let made = quorate().args(["--output", "json", "keygen"]).arg(&file).output().unwrap();
    (file, done(&made)["public_key"].as_str().unwrap().to_owned())
}

/// Opens a session by a key; why there is none.
fn connect(cluster: &Cluster, key: SecretKey) -> Result<(), Fatal> {
    let connecting = Client::connect(cluster.client_config(), Arc::new(key));
    cluster.runtime.block_on(connecting).map(drop)
}

/// Administrators who do not sit together allow a gateway some keys, and close the cluster. It is
/// so after everybody lost power. Then the gateway's key is revoked, and it says why it ends.
#[test]
fn administrators_say_who_may_send_commands() {
    let mut cluster = Cluster::start(&["--administrators", "2", "--approvals", "2"], &SETTINGS);
    let (file, key) = keygen(&cluster, "app.key");
    let open = json!({ "policy": "open", "next_serial": 1, "clients": [] });
    assert_eq!(done(&client(&cluster, 0, &["list"])), open);

    let allow = ["allow", &key, "--prefix", "app:", "--prefix", "tmp:", "--rate", "1000"];
    let said = refusal(&client(&cluster, 1, &allow));
    assert!(said.contains("1 administrators signed, 2 must") && said.contains("--out"), "{said}");
    let written = cluster.folder().join("directive").display().to_string();
    let planned = client(&cluster, 1, &[&allow[..], &["--out", &written]].concat());
    assert_eq!(done(&planned)["signed"], 1);
    let approved = quorate()
        .args(["-o", "json", "client", "approve", &written, "--administrator"])
        .arg(cluster.folder().join("administrator-1.key"))
        .arg("--home")
        .arg(cluster.folder().join("client"))
        .output()
        .unwrap();
    assert_eq!(done(&approved)["signed"], 2);
    let listed = done(&client(&cluster, 0, &["submit", &written]));
    let entry = json!({
        "key": key, "revoked": false, "write": true, "prefixes": ["app:", "tmp:"],
        "commands_per_second": 1000, "quota_bytes": null, "stored_bytes": null,
    });
    assert_eq!(listed["clients"], json!([entry]));
    let again = refusal(&client(&cluster, 0, &["submit", &written]));
    assert!(again.contains("serial 1, and the next one is 2"), "{again}");
    let closed = done(&client(&cluster, 2, &["policy", "listed"]));
    assert_eq!((&closed["policy"], &closed["next_serial"]), (&json!("listed"), &json!(3)));

    cluster.kill_all();
    cluster.start_all();
    // Those that were killed before the last one executed come to it by and by.
    wait_until("the list is as it was", || done(&client(&cluster, 0, &["list"])) == closed);
    let stranger = connect(&cluster, SecretKey::generate().unwrap());
    assert_eq!(stranger, Err(Fatal::Rejected(Rejection::NotListed)));
    let gateway = Gateway::start(&cluster, &["--client-key", &file.display().to_string()]);
    let mut redis = gateway.connect();
    assert_eq!(ask(&mut redis, "SET app:a 1"), "+OK");
    for outside in ["SET b 1", "MSET app:a 2 b 1", "GET b", "DEL app:a b", "FLUSHALL", "DBSIZE"] {
        let answer = ask(&mut redis, outside);
        assert!(answer.starts_with("-NOPERM"), "{outside}: {answer}");
    }
    assert_eq!(ask(&mut redis, "INCR app:a"), ":2", "what was refused changed nothing");

    done(&client(&cluster, 2, &["revoke", &key]));
    let answer = ask(&mut redis, "SET app:a 1");
    assert!(answer.starts_with('-'), "{answer}");
    let key_of_file = key_file::read(&file).unwrap();
    assert_eq!(quorate_core::Digest(key_of_file.public_key().0).to_string(), key);
    assert_eq!(connect(&cluster, key_of_file), Err(Fatal::Rejected(Rejection::Revoked)));
    wait_until("a replica's log names who was refused", || {
        (0..4).any(|id| cluster.log_text(id).contains(&key))
    });
    let said = ClientError::Fatal(Fatal::Rejected(Rejection::Revoked)).to_string();
    assert!(said.contains("is revoked") && said.contains("quorate client allow"), "{said}");
}

/// A gateway stores as much as its key may, and a word of Redis's ends it. Before the rules for it
/// are switched on, nobody has a quota, and the refusal says how that is done.
#[test]
fn a_gateway_stores_as_much_as_its_key_may() {
    let cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let (file, key) = keygen(&cluster, "app.key");
    let allow = ["allow", &key, "--quota", "10KiB"];
    let early = refusal(&client(&cluster, 1, &allow));
    assert!(early.contains("quotas need rules 2 of the core, and this epoch has 1.1"), "{early}");
    assert!(early.contains("quorate upgrade switch"), "{early}");
    switch_rules(&cluster);
    let listed = done(&client(&cluster, 1, &allow));
    assert_eq!(listed["clients"][0]["quota_bytes"], 10 << 10);
    wait_for_first(&cluster, (Some(10 << 10), 0));

    let gateway = Gateway::start(&cluster, &["--client-key", &file.display().to_string()]);
    let mut redis = gateway.connect();
    let value = "x".repeat(4 << 10);
    assert_eq!(ask(&mut redis, &format!("SET a {value}")), "+OK");
    assert_eq!(ask(&mut redis, &format!("SET b {value}")), "+OK");
    let full = ask(&mut redis, &format!("SET c {value}"));
    assert!(full.starts_with("-OOM command not allowed: this client stores 8706 bytes"), "{full}");
    assert!(full.contains("of its quota of 10240"), "{full}");
    wait_for_first(&cluster, (Some(10 << 10), 8706));
    // Its other rights change, and the quota stays.
    let changed = client(&cluster, 1, &["allow", &key, "--rate", "100000"]);
    let told = String::from_utf8_lossy(&changed.stderr);
    assert!(told.contains("the quota of 10KiB stays") && told.contains("--quota none"), "{told}");
    let entry = &done(&changed)["clients"][0];
    assert_eq!(
        (&entry["quota_bytes"], &entry["commands_per_second"]),
        (&json!(10 << 10), &json!(100_000))
    );
    wait_for_first(&cluster, (Some(10 << 10), 8706));
    assert!(ask(&mut redis, &format!("SET c {value}")).starts_with("-OOM"));
    assert_eq!(ask(&mut redis, "DEL a"), ":1");
    assert_eq!(ask(&mut redis, &format!("SET c {value}")), "+OK");
    // Another gateway has a key of its own, and no quota.
    let other = Gateway::start(&cluster, &[]);
    assert_eq!(ask(&mut other.connect(), &format!("SET d {value}")), "+OK");
    let without = client(&cluster, 1, &["allow", &key, "--quota", "none"]);
    let told = String::from_utf8_lossy(&without.stderr);
    assert!(told.contains("this order takes the quota of 10KiB away"), "{told}");
    assert_eq!(done(&without)["clients"][0]["quota_bytes"], Value::Null);
    wait_for_first(&cluster, (None, 8706));
    assert_eq!(ask(&mut redis, &format!("SET e {value}")), "+OK");
    drop(redis);
    // One replica is gone: the others say what is stored.
    let mut cluster = cluster;
    cluster.kill(3);
    wait_until("the list says what is stored", || {
        let mut list = quorate();
        list.args(["client", "list", "--home"]).arg(cluster.folder().join("client"));
        let output = list.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        told.contains("STORES") && told.contains("8706B")
    });
}

/// Switches the rules on that quotas need.
fn switch_rules(cluster: &Cluster) {
    let switched = quorate()
        .args(["-o", "json", "upgrade", "switch", "--administrator"])
        .arg(cluster.folder().join("administrator-0.key"))
        .arg("--home")
        .arg(cluster.folder().join("client"))
        .output()
        .unwrap();
    assert_eq!(done(&switched)["rules"]["core"], 2);
}

/// Quota, if there is one, and what is stored, of the first key of the list. The list does not tell
/// what is stored where too few replicas say so in time.
fn of_first(list: &Value) -> Option<(Option<u64>, u64)> {
    let of = |name: &str| list["clients"][0][name].as_u64();
    Some((of("quota_bytes"), of("stored_bytes")?))
}

/// Waits until that is listed: replicas may be behind for a moment.
fn wait_for_first(cluster: &Cluster, expected: (Option<u64>, u64)) {
    wait_until(&format!("quota and bytes stored are listed: {expected:?}"), || {
        of_first(&done(&client(cluster, 0, &["list"]))) == Some(expected)
    });
}

/// A closed cluster is loaded by the keys that its list names, and by no others.
#[test]
fn a_closed_cluster_is_loaded_by_listed_keys() {
    let cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let keys = ["one.key", "two.key"].map(|name| keygen(&cluster, name));
    for (_, key) in &keys {
        done(&client(&cluster, 1, &["allow", key]));
    }
    done(&client(&cluster, 1, &["policy", "listed"]));
    let load = |arguments: &[&str]| {
        let mut command = quorate();
        command.args(["-o", "json", "load", "--seconds", "3", "--warmup", "0"]).args(arguments);
        command.arg("--home").arg(cluster.folder().join("client")).output().unwrap()
    };
    let said = refusal(&load(&[]));
    assert!(said.contains("is not listed") && said.contains("--client-key"), "{said}");
    let files = keys.each_ref().map(|(file, _)| file.to_str().unwrap());
    let report = done(&load(&["--client-key", files[0], "--client-key", files[1]]));
    assert!(report["goodput"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["clients"], 2);
    let said = refusal(&load(&["--client-key", files[0], "--clients", "3"]));
    assert!(said.contains("cannot be used with"), "{said}");
}

/// A quota that nobody would see to is refused, or there is a warning.
#[test]
fn a_quota_that_nothing_enforces_is_not_given_silently() {
    let ordering = ["--administrators", "1", "--application", "ordering"];
    let cluster = Cluster::start(&ordering, &SETTINGS);
    let (_, key) = keygen(&cluster, "app.key");
    let said = refusal(&client(&cluster, 1, &["allow", &key, "--quota", "1MiB"]));
    assert!(said.contains("the ordering application stores no keys"), "{said}");
    assert!(said.contains("--rate"), "{said}");
    assert_eq!(
        done(&client(&cluster, 1, &["allow", &key]))["clients"][0]["stored_bytes"],
        json!(null)
    );
}

/// A service may see to a quota, or may not: whoever gives one is warned. A process in the first
/// protocol cannot, because it is not told who sent a command: its replica's log says so, once
/// somebody has a quota and sends something.
#[test]
fn a_quota_is_given_with_a_warning_where_a_service_has_to_see_to_it() {
    if !needs::program("python3", "python3") {
        return;
    }
    let folder = env!("CARGO_MANIFEST_DIR");
    let first = format!("{folder}/tests/processes/clients/first_protocol.py");
    let counters = format!("{folder}/../../examples/python/counters.py");
    let application = format!("python3 {first} {counters}");
    let init = ["--administrators", "1", "--pipe", &application];
    let mut cluster = Cluster::new(&init, &SETTINGS);
    (0..3).for_each(|replica| cluster.start_replica(replica, &[]));
    cluster.start_replica(3, &["--set", &format!("service=command = [\"python3\", {counters:?}]")]);
    let warned = |cluster: &Cluster, replica| {
        let said =
            "has prefixes or quotas, and nothing enforces them: the process chose protocol 1";
        cluster.log_text(replica).contains(said)
    };
    let (file, key) = keygen(&cluster, "app.key");
    let allow = ["allow", &key, "--quota", "1MiB"];
    let early = client(&cluster, 1, &allow);
    assert!(!String::from_utf8_lossy(&early.stderr).contains("does not enforce"), "it is refused");
    assert!(refusal(&early).contains("quotas need rules 2 of the core"));
    switch_rules(&cluster);

    let connecting =
        Client::connect(cluster.client_config(), Arc::new(key_file::read(&file).unwrap()));
    let sender = cluster.runtime.block_on(connecting).unwrap();
    let add = |cluster: &Cluster| {
        let sent = sender.submit(vec![Bytes::from_static(b"add a 1")]);
        cluster.runtime.block_on(sent).unwrap()
    };
    assert_eq!(add(&cluster)[0], "ok 1");
    assert!((0..4).all(|replica| !warned(&cluster, replica)), "nobody has a quota");
    let given = client(&cluster, 1, &allow);
    let told = String::from_utf8_lossy(&given.stderr);
    assert!(told.contains("Quorate itself does not enforce the quota: the service `"), "{told}");
    assert!(told.contains("protocol 2 alone"), "{told}");
    assert_eq!(done(&given)["clients"][0]["quota_bytes"], json!(1 << 20));
    assert_eq!(add(&cluster)[0], "ok 2");
    wait_until("the replicas of such processes have warned", || {
        (0..3).all(|replica| warned(&cluster, replica))
    });
    assert!(!warned(&cluster, 3), "its process is told who sends commands");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    let cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let (_, key) = keygen(&cluster, "app.key");
    for (arguments, expected) in [
        (&["allow", "12ab"][..], "64 hexadecimal digits"),
        (&["allow", &key, "--prefix", ""], "it is empty"),
        (&["allow", &key, "--rate", "0"], "--rate"),
        (&["allow", &key, "--quota", "5"], "a whole number and a unit"),
        (&["allow", &key, "--quota", "0B"], "it is zero"),
        (&["allow", &key, "--read-only", "--rate", "5"], "cannot be used with"),
        (&["forget", &key], "the list of clients does not name this key"),
        (&["submit", "/nowhere"], "name the file that `quorate client … --out` wrote"),
    ] {
        let said = refusal(&client(&cluster, 1, arguments));
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    drop(cluster);
    let fixed = Cluster::new(&[], &SETTINGS);
    let said = refusal(&client(&fixed, 0, &["list"]));
    assert!(said.contains("has no [governance]"), "{said}");
}
