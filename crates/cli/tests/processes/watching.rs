//! What people see of a cluster: `quorate top`, and the dashboard in a real browser.

use std::process::{Command, Stdio};
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
    // A replica that is busy may not answer it in time.
    wait_until("it sees all four", || {
        text = top(&cluster);
        text.contains("4 of 4 replicas ready")
    });
    assert!(text.contains("nothing is wrong that a replica can see"), "{text}");

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
