//! HTTP over TLS, and with a token: who may read what a replica tells, and from which port on that
//! has to be said.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ports::ports;
use quorate_node::config::{self, FlagSetting, Overrides};
use quorate_node::http::{AskError, Asker};
use quorate_node::launch::{LaunchError, Launched, Remedies, launch};
use quorate_node::testnet::{self, Options, Testnet};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "a token that nobody guesses";

fn token(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    let mut options = std::fs::File::options();
    let mut file = options.create(true).truncate(true).write(true).mode(mode).open(&path).unwrap();
    std::io::Write::write_all(&mut file, text.replace(' ', "-").as_bytes()).unwrap();
    path
}

/// A certificate for the loopback interface, and its key.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn new(folder: &Path, name: &str) -> Self {
        let pair = Self {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        };
        pair.write();
        pair
    }

    fn write(&self) {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(&self.certificate, made.cert.pem()).unwrap();
        std::fs::write(&self.key, made.signing_key.serialize_pem()).unwrap();
    }
}

struct World {
    net: Testnet,
    runtime: Runtime,
    folder: tempfile::TempDir,
    _ports: TcpListener,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (held, first_port) = ports(3 * 4);
        let options = Options { base_port: Some(first_port), ..Options::default() };
        let net = testnet::init(&folder.path().join("net"), 4, &options).unwrap();
        Self { net, runtime: Runtime::new().unwrap(), folder, _ports: held }
    }

    fn start(&self, settings: &[(&str, &str)]) -> Result<Launched, LaunchError> {
        let loaded = config::load(&self.net.replicas[0], &overrides(settings)).unwrap();
        let keys = loaded.open_keys().unwrap();
        let committee = loaded.cluster.committee().unwrap();
        self.runtime.block_on(launch(&loaded, committee, keys, Remedies::default()))
    }
}

fn overrides(settings: &[(&str, &str)]) -> Overrides {
    let flag = |(key, value): &(&str, &str)| FlagSetting {
        flag: "--set".to_owned(),
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    Overrides { flags: settings.iter().map(flag).collect(), environment: Vec::new() }
}

fn code(asker: &Asker, address: &str, path: &str) -> u16 {
    asker.ask(address, path, PATIENCE).unwrap().code
}

#[test]
fn who_shows_the_token_over_tls_reads_and_nobody_else_does() {
    let world = World::new();
    let folder = world.folder.path();
    let pair = Pair::new(folder, "replica");
    let file = token(folder, "token", TOKEN, 0o600);
    let text = |path: &PathBuf| path.display().to_string();
    let replica = world
        .start(&[
            ("http.certificate", &text(&pair.certificate)),
            ("http.key", &text(&pair.key)),
            ("http.token", &text(&file)),
        ])
        .unwrap();
    let address = replica.http_address.to_string();
    let anybody = Asker::default().trusting(&pair.certificate).unwrap();
    let reader = anybody.clone().showing(&file).unwrap();
    for path in ["/status", "/metrics", "/readyz", "/", "/watch", "/nothing"] {
        assert_eq!(code(&anybody, &address, path), 401, "{path}");
    }
    assert_eq!(code(&anybody, &address, "/livez"), 200);
    for path in ["/status", "/metrics", "/livez", "/"] {
        assert_eq!(code(&reader, &address, path), 200, "{path}");
    }
    assert_eq!(reader.ask_json(&address, "/status", PATIENCE).unwrap()["replica"], 0);
    let wrong = token(folder, "wrong", "another token of some length", 0o600);
    let wrong = anybody.clone().showing(&wrong).unwrap();
    let refused = wrong.ask_json(&address, "/status", PATIENCE);
    assert!(matches!(refused, Err(AskError::Token { .. })), "{refused:?}");
    // In the clear, and by those who trust somebody else.
    assert!(Asker::default().ask(&address, "/livez", PATIENCE).is_err());
    let other = Pair::new(folder, "other");
    let stranger = Asker::default().trusting(&other.certificate).unwrap();
    assert!(stranger.ask(&address, "/livez", PATIENCE).is_err());
    let stranger = Asker::default().knowing(&other.certificate).unwrap();
    assert!(stranger.ask(&address, "/livez", PATIENCE).is_err());
    // Who knows the certificate needs no name.
    let known = Asker::default().knowing(&pair.certificate).unwrap();
    assert_eq!(code(&known, &address, "/livez"), 200);
}

#[test]
fn metrics_may_be_left_open() {
    let world = World::new();
    let file = token(world.folder.path(), "token", TOKEN, 0o600).display().to_string();
    let replica = world.start(&[("http.token", &file), ("http.open_metrics", "true")]).unwrap();
    let address = replica.http_address.to_string();
    let anybody = Asker::default();
    assert_eq!(code(&anybody, &address, "/metrics"), 200);
    assert_eq!(code(&anybody, &address, "/status"), 401);
}

#[test]
fn certificate_and_token_are_read_again_after_a_hang_up() {
    let world = World::new();
    let folder = world.folder.path();
    let pair = Pair::new(folder, "replica");
    let file = token(folder, "token", TOKEN, 0o600);
    let text = |path: &PathBuf| path.display().to_string();
    let replica = world
        .start(&[
            ("http.certificate", &text(&pair.certificate)),
            ("http.key", &text(&pair.key)),
            ("http.token", &text(&file)),
        ])
        .unwrap();
    let address = replica.http_address.to_string();
    let before = Asker::default().knowing(&pair.certificate).unwrap().showing(&file).unwrap();
    assert_eq!(code(&before, &address, "/status"), 200);
    let hang_up = || {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::HUP).unwrap();
    };
    // A bad file changes nothing.
    token(folder, "token", "short", 0o600);
    pair.write();
    hang_up();
    std::fs::write(&file, "x").unwrap();
    assert_eq!(code(&before, &address, "/status"), 200);
    std::fs::write(&file, "quite-another-token-than-before").unwrap();
    let after = Asker::default().knowing(&pair.certificate).unwrap().showing(&file).unwrap();
    hang_up();
    let began = Instant::now();
    while after.ask(&address, "/status", PATIENCE).map_or(true, |reply| reply.code != 200) {
        assert!(began.elapsed() < PATIENCE, "the files are read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(before.ask(&address, "/status", PATIENCE).is_err(), "the certificate is another");
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_starts() {
    let world = World::new();
    let folder = world.folder.path();
    let open = token(folder, "open", TOKEN, 0o644).display().to_string();
    let missing = folder.join("none").display().to_string();
    for (settings, expected) in [
        (vec![("http.token", open.as_str())], "mode 0644"),
        (vec![("http.token", missing.as_str())], "No such file"),
        (vec![("http.certificate", missing.as_str()), ("http.key", missing.as_str())], "none"),
    ] {
        let Err(error) = world.start(&settings) else { panic!("it starts: {settings:?}") };
        assert!(matches!(error, LaunchError::Access(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn beyond_loopback_nothing_is_open_unless_that_is_said() {
    let world = World::new();
    let load = |settings: &[(&str, &str)]| {
        let settings = [&[("listen.http", "0.0.0.0:0")], settings].concat();
        config::load(&world.net.replicas[0], &overrides(&settings))
    };
    let refused = load(&[]).unwrap_err();
    assert_eq!(refused.findings.len(), 1, "{refused}");
    assert!(refused.to_string().contains("everybody may read"), "{refused}");
    assert!(refused.findings[0].remedy.contains("http.unprotected = true"), "{refused}");
    let (certificate, token) = (("http.certificate", "a.pem"), ("http.token", "token"));
    let key = ("http.key", "a.key");
    let warned = |settings: &[(&str, &str)]| load(settings).unwrap().warnings.len();
    assert_eq!(warned(&[("http.unprotected", "true")]), 1);
    assert_eq!(warned(&[token]), 1, "not encrypted");
    assert_eq!(warned(&[certificate, key]), 1, "nobody is asked");
    assert_eq!(warned(&[certificate, key, token]), 0);
    for one in [certificate, key] {
        let refused = load(&[one, token]).unwrap_err();
        assert!(refused.to_string().contains("is not"), "{refused}");
    }
}
