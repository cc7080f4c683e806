//! What people see of a cluster: `quorate top`, and the dashboard in a real browser.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use quorate_app::kv::Condition;
use quorate_app::kv::command::encode;
use quorate_node::http::ask_json;
use quorate_node::launch::last_http_address;
use serde_json::Value;

use crate::cluster::{Cluster, quorate, wait_until};

/// Its names on Debian, on other distributions, and Google's.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const PATIENCE: Duration = Duration::from_secs(60);

fn address(cluster: &Cluster, replica: usize) -> String {
    last_http_address(&cluster.data(replica)).unwrap()
}

/// Sets some keys, one after another: each is in a block of its own.
fn work(cluster: &Cluster) {
    let client = cluster.client();
    for n in 0..20_u8 {
        let mut set = Vec::new();
        encode::set(&mut set, &[b'k', n], &[n], Condition::Always, false);
        cluster.runtime.block_on(client.submit(vec![set.into()])).unwrap();
    }
}

fn top(cluster: &Cluster) -> String {
    let said = quorate()
        .args(["top", "--frames", "1", "--every", "500", "--home"])
        .arg(cluster.folder())
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

/// The dashboard's document when it has asked; none without a browser.
fn dashboard(address: &str) -> Option<String> {
    let answers = |name: &&&str| {
        let asked = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        asked.is_ok_and(|said| said.status.success())
    };
    let Some(browser) = BROWSERS.iter().find(answers) else {
        eprintln!("skipped, because there is no Chromium; to enable: apt-get install chromium");
        return None;
    };
    let said = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=8000")
        .arg(format!("http://{address}/"))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(said.status.success(), "{browser} failed");
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[test]
fn a_killed_replica_is_named_by_top_and_by_the_dashboard() {
    let mut cluster = Cluster::start(&[], &[]);
    work(&cluster);
    let told = |path: &str| ask_json(&address(&cluster, 0), path, PATIENCE).unwrap();
    wait_until("all are connected", || {
        (0..4).all(|replica| {
            let status = ask_json(&address(&cluster, replica), "/status", PATIENCE).unwrap();
            status["warnings"].as_array().is_some_and(Vec::is_empty)
        })
    });
    let blocks = told("/blocks");
    let list = blocks["blocks"].as_array().unwrap();
    let shown = |block: &Value| {
        block["proposer"].is_u64() && block["voters"].as_array().is_some_and(|ids| ids.len() >= 3)
    };
    assert!(list.iter().any(shown), "{blocks}");
    let mut text = String::new();
    // A replica that is busy may not answer it in time, or be missed by another for a moment.
    wait_until("it sees all four, and nothing wrong", || {
        text = top(&cluster);
        text.contains("4 of 4 replicas ready")
            && text.contains("nothing is wrong that a replica can see")
    });

    cluster.kill(2);
    wait_until("the others miss it", || {
        let status = ask_json(&address(&cluster, 0), "/status", PATIENCE).unwrap();
        status["warnings"][0]["name"] == "peer-missing"
    });
    wait_until("it sees the other three", || {
        text = top(&cluster);
        text.contains("3 of 4 replicas ready")
    });
    assert!(text.contains("critical: replica 2: unreachable: "), "{text}");
    assert!(
        text.contains("no channel to replica 2; 0 more may fail before nothing is ordered"),
        "{text}"
    );

    let Some(document) = dashboard(&address(&cluster, 0)) else { return };
    assert!(document.contains("replica 0 of 4"), "{document}");
    assert!(document.contains("<b>peer-missing</b>no channel to replica 2;"), "{document}");
    assert!(document.contains("proposed by "), "no block is drawn: {document}");
}

/// A file of this mode.
fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    let mut made = fs::File::options();
    let mut made = made.create_new(true).write(true).mode(mode).open(&path).unwrap();
    std::io::Write::write_all(&mut made, text.as_bytes()).unwrap();
    path
}

/// Replicas that answer over TLS, and to who shows their token. `status` and `top` find both in the
/// replicas' homes. Elsewhere they are told by flags, and say which flag is missing or wrong.
#[test]
fn status_and_top_show_the_token_and_know_the_certificate() {
    let mut cluster = Cluster::new(&[], &[]);
    let secrets = tempfile::tempdir().unwrap();
    let folder = secrets.path();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names.clone()).unwrap();
    let certificate = file(folder, "http.pem", &made.cert.pem(), 0o644);
    let key = file(folder, "http.key", &made.signing_key.serialize_pem(), 0o600);
    let token = file(folder, "http.token", "a-token-that-nobody-guesses", 0o600);
    let wrong = file(folder, "wrong.token", "another-token-of-somebody", 0o600);
    let stranger = rcgen::generate_simple_self_signed(names).unwrap();
    let stranger = file(folder, "stranger.pem", &stranger.cert.pem(), 0o644);
    for replica in 0..4 {
        let node = cluster.home(replica).join("config/node.toml");
        let keys = format!("certificate = {certificate:?}\nkey = {key:?}\ntoken = {token:?}\n");
        let text = fs::read_to_string(&node).unwrap();
        assert!(text.contains("[http]\n"), "{text}");
        fs::write(&node, text.replace("[http]\n", &format!("[http]\n{keys}"))).unwrap();
    }
    cluster.start_all();
    work(&cluster);
    let mut text = String::new();
    wait_until("all four are read by their homes", || {
        text = top(&cluster);
        text.contains("4 of 4 replicas ready")
    });

    let address = address(&cluster, 0);
    let ask = |command: &str, flags: &[(&str, &PathBuf)]| -> Output {
        let mut asked = quorate();
        asked.args([command, "--address", &address]);
        if command == "top" {
            asked.args(["--frames", "1", "--every", "500"]);
        }
        flags.iter().for_each(|(flag, path)| {
            asked.arg(flag).arg(path);
        });
        asked.output().unwrap()
    };
    let both = [("--token-file", &token), ("--ca", &certificate)];
    let told = |output: &Output| {
        let text = [&output.stdout[..], &output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    // A replica that is busy may not answer in time.
    for (command, expected) in [("status", "ready"), ("top", "1 of 4 replicas ready")] {
        wait_until(&format!("{command} says: {expected}"), || {
            let said = ask(command, &both);
            said.status.success() && told(&said).contains(expected)
        });
    }
    for (flags, expected) in [
        (&[("--ca", &certificate)][..], "name the file with --token-file"),
        (&[("--token-file", &wrong), ("--ca", &certificate)], "name the file with --token-file"),
        (&[("--token-file", &token), ("--ca", &stranger)], "does not answer"),
        (&[("--token-file", &token)], "does not answer"),
    ] {
        for command in ["status", "top"] {
            wait_until(&format!("{command} {flags:?} says: {expected}"), || {
                let said = told(&ask(command, flags));
                assert!(!said.contains("replicas ready"), "{command} {flags:?}: {said}");
                said.contains(expected)
            });
        }
    }
}
