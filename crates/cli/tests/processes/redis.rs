//! Redis's own clients at the gateway, where they are installed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::cluster::{Cluster, quorate, wait_until};
use crate::needs;

pub struct Gateway {
    child: Child,
    port: String,
    log: PathBuf,
}

impl Gateway {
    /// One that gives up late: on a machine under load ten seconds may pass with views that fail.
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        Self::giving_up_after("60", cluster, arguments)
    }

    fn giving_up_after(seconds: &str, cluster: &Cluster, arguments: &[&str]) -> Self {
        let log = cluster.folder().join("client").join("gateway.log");
        let mut child = quorate()
            .args(["--output", "json", "gateway", "--listen", "127.0.0.1:0"])
            .args(["--give-up-after", seconds, "--home"])
            .arg(cluster.folder().join("client"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.rsplit(':').next().unwrap().trim_matches(|c: char| !c.is_ascii_digit());
        Self { child, port: port.to_owned(), log }
    }

    pub fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap())
    }

    fn log_says(&self, words: &str) -> bool {
        std::fs::read_to_string(&self.log).unwrap().contains(words)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program).args(["-p", &self.port]).args(arguments).output().unwrap()
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let output = self.run("redis-cli", arguments);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

impl Gateway {
    fn serves_redis_cli(&self) {
        assert_eq!(self.cli(&["SET", "k", "v"]), "OK");
        assert_eq!(self.cli(&["GET", "k"]), "v");
        assert_eq!(self.cli(&["INCR", "n"]), "1");
        assert_eq!(self.cli(&["HSET", "h", "a", "1", "b", "2"]), "2");
        assert_eq!(self.cli(&["HGETALL", "h"]), "a\n1\nb\n2");
        assert_eq!(self.cli(&["DEL", "k", "h"]), "2");
        assert_eq!(self.cli(&["-3", "GET", "n"]), "1");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One command that is answered with one line.
pub fn ask(connection: &mut BufReader<TcpStream>, command: &str) -> String {
    connection.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn redis_clients_are_served() {
    let cluster = Cluster::start(&[], &[]);
    let gateway = Gateway::start(&cluster, &[]);
    // Pipelined: all answers, in order.
    let mut pipelined = gateway.connect().into_inner();
    let mut commands = Vec::new();
    for number in 0..1000 {
        commands.extend(format!("SET p:{number} {number}\r\nGET p:{number}\r\n").into_bytes());
    }
    pipelined.write_all(&commands).unwrap();
    let mut lines = BufReader::new(pipelined.try_clone().unwrap()).lines();
    for number in 0..1000 {
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        assert_eq!(lines.next().unwrap().unwrap(), format!("${}", number.to_string().len()));
        assert_eq!(lines.next().unwrap().unwrap(), number.to_string());
    }
    // What is not the protocol ends its own connection alone.
    let mut garbage = gateway.connect().into_inner();
    garbage.write_all(b"*1\r\n$-7\r\n\x00\xff\r\n").unwrap();
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"-ERR Protocol error"), "{answer:?}");
    pipelined.write_all(b"PING\r\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "+PONG");
    if needs::program("redis-cli", "redis-tools") {
        gateway.serves_redis_cli();
    }
    if needs::program("redis-benchmark", "redis-tools") {
        let arguments = ["-t", "set,get", "-n", "20000", "-c", "20", "-P", "16", "-q"];
        let output = gateway.run("redis-benchmark", &arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("SET: ") && text.contains("GET: "), "{text}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("rror"), "{errors}");
    }
}

/// The chain that sampling agrees on is one to clients like any other.
#[test]
fn redis_clients_are_served_by_snowman() {
    let mut cluster = Cluster::start(&["--protocol", "snowman"], &[]);
    let gateway = Gateway::start(&cluster, &[]);
    let mut client = gateway.connect();
    assert_eq!(ask(&mut client, "SET a 1"), "+OK");
    if needs::program("redis-cli", "redis-tools") {
        gateway.serves_redis_cli();
    }
    // Three of four answer polls.
    cluster.kill(1);
    assert_eq!(ask(&mut client, "INCR a"), ":2");
    cluster.start_replica(1, &[]);
    assert_eq!(ask(&mut client, "INCR a"), ":3");
}

/// A script that uses a library of Redis.
struct Library {
    name: &'static str,
    command: Command,
    /// Where the library is, of one that is told.
    modules: Option<PathBuf>,
}

/// The libraries that `make redis-clients` has fetched, each with its script of this name.
fn libraries(script: &str) -> Vec<Library> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/clients");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let python = tools.join("redis-py/bin/python");
    let modules = tools.join("node-redis/node_modules");
    let module = tools.join("go-redis");
    let mut libraries = Vec::new();
    let mut add = |name, is_there: bool, program: &Path, modules, suffix: &str| {
        let script = scripts.join(format!("{script}.{suffix}"));
        if !script.exists() {
            return;
        }
        if !is_there {
            let tests = format!("{name} at the gateway");
            return needs::optional(&tests, "it was not fetched", "make redis-clients");
        }
        let mut command = Command::new(program);
        if suffix == "go" {
            command.arg("run").current_dir(&module);
        }
        command.arg(script);
        libraries.push(Library { name, command, modules });
    };
    add("redis-py", python.exists(), &python, None, "py");
    let index = Some(modules.join("index.js"));
    add("node-redis", modules.exists(), Path::new("node"), index, "mjs");
    add("go-redis", module.join("go.sum").exists(), Path::new("go"), None, "go");
    libraries
}

/// Libraries as applications have them, from where `make redis-clients` puts them.
#[test]
fn libraries_of_redis_are_served() {
    let libraries = libraries("plain");
    if libraries.is_empty() {
        return;
    }
    let cluster = Cluster::start(&[], &[]);
    let gateway = Gateway::start(&cluster, &[]);
    for mut client in libraries {
        let output = client.command.arg(&gateway.port).args(client.modules).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", client.name);
    }
}

/// An authority, and a certificate of it for the loopback interface; both in files.
struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    fn new(folder: &Path) -> Self {
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        of_authority.distinguished_name.push(DnType::CommonName, "an authority of the test's own");
        let authority_key = KeyPair::generate().unwrap();
        let authority = of_authority.self_signed(&authority_key).unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut of_gateway = CertificateParams::new(names).unwrap();
        of_gateway.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(of_authority, authority_key);
        let certificate = of_gateway.signed_by(&key, &issuer).unwrap();
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        Self {
            authority: write("authority.pem", authority.pem()),
            certificate: write("gateway.pem", certificate.pem()),
            key: write("gateway.key", key.serialize_pem()),
        }
    }
}

const USERS: &str = "user default off\nuser app on >secret ~app:* +@all -@dangerous\n";

/// Runs `redis-cli` over TLS as the user `app`: what it prints.
fn cli_over_tls(port: &str, authority: &str, password: &str, command: &[&str]) -> String {
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", port, "--tls", "--cacert", authority, "--no-auth-warning", "--user", "app"]);
    let output = cli.args(["--pass", password]).args(command).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end().to_owned()
}

/// Clients as people have them, at a gateway as others reach it: over TLS, as a user who may not do
/// everything. The gateway refuses the rest with the errors of Redis.
#[test]
fn clients_are_served_over_tls_and_held_to_the_rights_of_their_user() {
    let cluster = Cluster::start(&[], &[]);
    let files = Certificates::new(cluster.folder());
    let users = cluster.folder().join("users.acl");
    std::fs::write(&users, USERS).unwrap();
    let [certificate, key, users, authority] =
        [&files.certificate, &files.key, &users, &files.authority].map(|it| it.to_str().unwrap());
    let security = ["--tls-cert", certificate, "--tls-key", key, "--acl-file", users];
    let gateway = Gateway::start(&cluster, &security);
    if needs::program("redis-cli", "redis-tools") {
        let cli = |password: &str, command: &[&str]| {
            cli_over_tls(&gateway.port, authority, password, command)
        };
        assert_eq!(cli("secret", &["SET", "app:k", "v"]), "OK");
        assert_eq!(cli("secret", &["-3", "GET", "app:k"]), "v");
        let key = cli("secret", &["SET", "other", "v"]);
        assert!(key.contains("NOPERM No permissions to access a key"), "{key}");
        let command = cli("secret", &["FLUSHALL"]);
        assert!(command.contains("NOPERM") && command.contains("'flushall'"), "{command}");
        let wrong = cli("wrong", &["GET", "app:k"]);
        assert!(wrong.contains("WRONGPASS"), "{wrong}");
    }
    for mut client in libraries("secured") {
        let output = client.command.arg(&gateway.port).arg(authority).args(client.modules).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", client.name);
    }
}

#[test]
fn without_a_quorum_commands_are_answered_in_time_and_the_log_says_why() {
    let mut cluster = Cluster::start(&[], &[]);
    let gateway = Gateway::giving_up_after("10", &cluster, &[]);
    let mut client = gateway.connect();
    wait_until("the gateway has a session", || ask(&mut client, "SET a 1") == "+OK");
    cluster.kill(2);
    cluster.kill(3);
    // Two replicas took it in, and may execute it when the others are back.
    let unknown = ask(&mut client, "SET b 1");
    assert!(unknown.starts_with("-UNKNOWN ") && unknown.contains("may or may not"), "{unknown}");
    wait_until("the log says so", || gateway.log_says("the cluster did not answer within 10s"));
    wait_until("the log names a replica", || gateway.log_says("replica 3 is not reached: "));
    cluster.kill_all();
    drop(gateway);
    // A gateway that begins while nobody is there.
    let gateway = Gateway::giving_up_after("1", &cluster, &[]);
    let mut client = gateway.connect();
    let down = ask(&mut client, "SET c 1");
    assert!(down.starts_with("-CLUSTERDOWN ") && down.ends_with("was not executed"), "{down}");
    wait_until("the log names a replica", || gateway.log_says("replica 0 is not reached: "));
    assert!(!gateway.log_says("\x1b"), "colours are for terminals");
    (0..4).for_each(|replica| cluster.start_replica(replica, &[]));
    wait_until("the cluster is found", || ask(&mut client, "SET c 1") == "+OK");
    let mut both = String::new();
    wait_until("it answers in time", || {
        both = ask(&mut client, "EXISTS a c");
        !both.starts_with('-')
    });
    assert_eq!(both, ":2");
}
