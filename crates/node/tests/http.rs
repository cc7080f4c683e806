//! What a replica tells over HTTP, in every state it can be in.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ports::ports;
use quorate_node::config::{self, Overrides};
use quorate_node::http::{ask, ask_json};
use quorate_node::launch::{Launched, Remedies, last_http_address, launch};
use quorate_node::testnet::{self, Options, Testnet};

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    net: Testnet,
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    _ports: TcpListener,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (held, first_port) = ports(3 * 4);
        let options = Options { base_port: Some(first_port), ..Options::default() };
        let net = testnet::init(&folder.path().join("net"), 4, &options).unwrap();
        Self { net, runtime: tokio::runtime::Runtime::new().unwrap(), folder, _ports: held }
    }

    fn start(&self, id: usize) -> Launched {
        let loaded = config::load(&self.net.replicas[id], &Overrides::default()).unwrap();
        let keys = loaded.open_keys().unwrap();
        let committee = loaded.cluster.committee().unwrap();
        self.runtime.block_on(launch(&loaded, committee, keys, Remedies::default())).unwrap()
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_replica_is_alive_alone_and_ready_in_a_quorum() {
    let world = World::new();
    let first = world.start(0);
    let address = first.http_address.to_string();
    let data = world.folder.path().join("net/replica-0/data");
    assert_eq!(last_http_address(&data).as_deref(), Some(address.as_str()));
    assert_eq!(last_http_address(world.folder.path()), None);

    let get = |path: &str| ask(&address, path, PATIENCE).unwrap();
    assert_eq!((get("/livez").code, get("/livez").body.as_str()), (200, "ok\n"));
    assert_eq!(get("/readyz").code, 503);
    assert!(get("/readyz").body.contains("reaches 1 replicas, itself included, of 3"));
    assert_eq!(get("/nothing").code, 404);
    let status = ask_json(&address, "/status", PATIENCE).unwrap();
    assert_eq!((&status["ready"], &status["replica"]), (&false.into(), &0.into()));

    let others = [world.start(1), world.start(2)];
    eventually("a quorum is reached", || get("/readyz").code == 200);
    let status = ask_json(&address, "/status", PATIENCE).unwrap();
    assert_eq!(status["protocol"], "hotstuff-two-chain");
    assert_eq!(status["replicas"], 4);
    assert_eq!(status["chain_digest"], world.net.cluster.chain_digest().to_string());
    assert_eq!((&status["abstaining"], &status["rejoining"]), (&false.into(), &false.into()));
    for field in ["view", "leader", "committed_height", "executed_height", "log_bytes"] {
        assert!(status[field].is_u64(), "{field}: {status}");
    }
    assert!(status["stage_seconds"]["persist"].is_f64());
    let version = ask_json(&address, "/version", PATIENCE).unwrap();
    assert_eq!(version["version"], quorate_node::http::VERSION);

    first.facts.stop();
    assert_eq!((get("/livez").code, get("/readyz").code), (200, 503));
    assert!(get("/readyz").body.contains("stopping"));
    drop(others);
}

#[test]
fn the_dashboard_comes_with_its_parts_and_may_load_nothing_else() {
    let world = World::new();
    let replica = world.start(0);
    let address = replica.http_address.to_string();
    let page = ask(&address, "/", PATIENCE).unwrap();
    assert_eq!(page.code, 200);
    assert!(page.body.contains("<script src=\"dashboard.js\" defer></script>"));
    for part in ["/dashboard.js", "/dashboard.css"] {
        assert_eq!(ask(&address, part, PATIENCE).unwrap().code, 200, "{part}");
    }
    let mut raw = TcpStream::connect(&address).unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    raw.read_to_string(&mut answer).unwrap();
    let head = answer.split_once("\r\n\r\n").unwrap().0.to_lowercase();
    assert!(
        head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
        "{head}"
    );
    assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");

    // A replica alone says what is wrong, and with which remedy.
    let status = ask_json(&address, "/status", PATIENCE).unwrap();
    assert_eq!(status["warnings"][0]["name"], "no-quorum", "{status}");
    assert_eq!(status["warnings"][0]["level"], "critical");
    assert!(
        status["warnings"][0]["remedy"].as_str().is_some_and(|remedy| remedy.contains("start"))
    );
    let metrics = ask(&address, "/metrics", PATIENCE).unwrap().body;
    assert!(metrics.contains("quorate_warning{name=\"no-quorum\"} 1\n"), "{metrics}");
    assert!(metrics.contains("quorate_warning{name=\"stalled\"} 0\n"), "{metrics}");
    let history = ask_json(&address, "/history", PATIENCE).unwrap();
    assert_eq!((&history["every_s"], history["p99_ms"].is_array()), (&5.into(), true));
    let blocks = ask_json(&address, "/blocks", PATIENCE).unwrap();
    assert_eq!((&blocks["replicas"], blocks["blocks"].is_array()), (&4.into(), true));
}

#[test]
fn metrics_are_openmetrics() {
    let world = World::new();
    let replica = world.start(0);
    let text = ask(&replica.http_address.to_string(), "/metrics", PATIENCE).unwrap().body;
    assert!(text.ends_with("# EOF\n"));
    let mut names = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(name.starts_with("quorate_"), "{line}");
        assert!(!name.contains("nanoseconds"), "{line}");
        assert!(names.insert(name.to_owned()), "twice: {name}");
    }
    for name in [
        "quorate_view",
        "quorate_ready",
        "quorate_committed_commands_total",
        "quorate_log_sync_seconds_total",
        "quorate_stage_seconds_total{stage=\"persist\"}",
        "quorate_stage_items_total{stage=\"receive\"}",
        "quorate_stage_visits_total{stage=\"verify\"}",
        "quorate_stage_waiting_total{stage=\"send\"}",
        "quorate_stage_longest_queue{stage=\"decode\"}",
        "quorate_stage_threads{stage=\"authenticate\"}",
        "quorate_transport_bytes_in_total",
        "quorate_transport_refused_total{reason=\"wrong_key\"}",
    ] {
        assert!(names.contains(name), "{name} is not in\n{text}");
    }
    let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    let distinct: std::collections::BTreeSet<_> =
        text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(distinct.len(), families);
}

#[test]
fn what_is_no_request_is_let_go_and_others_are_served() {
    let world = World::new();
    let replica = world.start(0);
    let address = replica.http_address.to_string();
    // Connections that say nothing, and one that never ends its head.
    let idle: Vec<_> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut endless = TcpStream::connect(&address).unwrap();
    endless.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    endless.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    let line = format!("X-Filler: {}\r\n", "x".repeat(1000));
    // The server may hang up while this is written.
    while endless.write_all(line.as_bytes()).is_ok() {}
    let mut garbage = TcpStream::connect(&address).unwrap();
    garbage.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    garbage.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(ask(&address, "/livez", PATIENCE).unwrap().code, 200);
    // Those that say nothing are let go by the server.
    for mut connection in idle {
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut left = Vec::new();
        connection.read_to_end(&mut left).unwrap();
    }
}

/// They live for a minute, which nobody else waits for.
#[test]
fn those_who_do_not_read_keep_nobody_from_reading() {
    let world = World::new();
    let replica = world.start(0);
    let address = replica.http_address.to_string();
    let questions = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n".repeat(4096);
    let deaf: Vec<_> = (0..40)
        .map(|_| {
            let mut connection = TcpStream::connect(&address).unwrap();
            // Some give way while this is written.
            let _ = connection.write_all(questions.as_bytes());
            connection
        })
        .collect();
    assert_eq!(ask(&address, "/livez", PATIENCE).unwrap().code, 200);
    let text = ask(&address, "/metrics", PATIENCE).unwrap().body;
    assert!(!text.contains("quorate_transport_refused_total{reason=\"gave_way\"} 0"), "{text}");
    drop(deaf);
}

#[test]
fn asking_nobody_fails_and_says_whom() {
    // Nobody else gets the port of a socket that is bound, and nobody is heard at it.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = deaf.local_addr().unwrap();
    let error = ask(&free.to_string(), "/status", PATIENCE).unwrap_err();
    assert!(error.to_string().contains(&free.to_string()));
}
