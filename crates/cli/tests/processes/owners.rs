//! Separate owners begin a cluster as `docs/operations.md` tells them to, command for command.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::cluster::{ports, quorate, turn, wait_until};

const PAGE: &str = include_str!("../../../../docs/operations.md");
const OWNERS: usize = 4;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The code blocks of the page's section, in order, with the language of each.
fn blocks() -> Vec<(String, String)> {
    let (_, section) = PAGE.split_once("## A cluster of separate owners\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let fenced = section.split("```").skip(1).step_by(2);
    let block = |text: &str| {
        let (language, body) = text.split_once('\n').unwrap();
        let lines: Vec<_> =
            body.lines().map(|line| line.strip_prefix("   ").unwrap_or(line)).collect();
        (language.to_owned(), lines.join("\n"))
    };
    fenced.map(block).collect()
}

fn commands(block: &str) -> Vec<&str> {
    block.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// A line of the page in an owner's folder, with `quorate` found as it is after installation.
fn shell(folder: &Path, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_quorate")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command.args(["-c", line]).current_dir(folder).stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}", program.display()));
    command
}

fn done(folder: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = shell(folder, line).output().unwrap();
    assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Puts what this test has in place of what the page leaves open.
fn filled(template: &str, id: usize, lines: &str, first_port: u16) -> String {
    let port = |place: u16| first_port + 3 * id as u16 + place;
    let line_of = |key: &str| lines.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let fill = |line: &str| match line.split(' ').next().unwrap_or_default() {
        "id" => format!("id = {id}"),
        "replica" => format!("replica = {id}"),
        "genesis" => format!("genesis = \"{}\"", "5a".repeat(32)),
        key @ ("transport_key" | "consensus_key") => line_of(key),
        "peer_address" => format!("peer_address = \"127.0.0.1:{}\"", port(0)),
        "client_address" => format!("client_address = \"127.0.0.1:{}\"", port(1)),
        "http" => format!("http = \"127.0.0.1:{}\"", port(2)),
        _ => line.to_owned(),
    };
    template.lines().map(|line| fill(line) + "\n").collect()
}

#[test]
fn separate_owners_begin_a_cluster_as_the_page_says() {
    let _turn = turn();
    let blocks = blocks();
    let languages: Vec<_> = blocks.iter().map(|(language, _)| language.as_str()).collect();
    assert_eq!(languages, ["console", "toml", "toml", "console", "console"]);
    let folder = tempfile::tempdir().unwrap();
    let owner = |id: usize| folder.path().join(format!("owner-{id}"));
    let (_held, first_port) = ports(3 * OWNERS as u16);
    // The keys, each owner's by itself; what is printed is what is sent to the others.
    let keys = (0..OWNERS).map(|id| {
        std::fs::create_dir(owner(id)).unwrap();
        commands(&blocks[0].1).iter().map(|line| done(&owner(id), line)).collect::<String>()
    });
    let keys: Vec<_> = keys.collect();
    let (head, table) = blocks[1].1.split_once("[[replicas]]").unwrap();
    let mut agreed = filled(head, 0, "", first_port);
    for (id, lines) in keys.iter().enumerate() {
        agreed += &format!("[[replicas]]{}", filled(table, id, lines, first_port));
    }
    let mut replicas = Vec::new();
    let mut digests = Vec::new();
    for id in 0..OWNERS {
        let config = owner(id).join("replica/config");
        std::fs::write(config.join("cluster.toml"), &agreed).unwrap();
        let node = filled(&blocks[2].1, id, "", first_port);
        std::fs::write(config.join("node.toml"), node).unwrap();
        let [check, init, start] = commands(&blocks[3].1)[..] else { panic!("three commands") };
        done(&owner(id), check);
        digests.push(done(&owner(id), init).lines().last().unwrap().to_owned());
        // Once in a replica's life.
        let again = shell(&owner(id), init).output().unwrap();
        let complaint = String::from_utf8(again.stderr).unwrap();
        assert_eq!(again.status.code(), Some(2));
        assert!(complaint.contains("was begun before"), "{complaint}");
        assert!(complaint.contains("--rejoin-after-data-loss"), "{complaint}");
        let log = File::create(owner(id).join("log")).unwrap();
        let mut command = shell(&owner(id), &format!("exec {start}"));
        replicas.push(Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    let [make_home, gateway] = commands(&blocks[4].1)[..] else { panic!("two commands") };
    done(&owner(0), make_home);
    // At a port of its own: the page's is the usual one of Redis.
    let gateway = shell(&owner(0), &format!("exec {gateway} --listen 127.0.0.1:0"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut gateway = Running(gateway.unwrap());
    let mut said = String::new();
    BufReader::new(gateway.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim_end().rsplit(' ').next().unwrap().to_owned();
    let mut client = BufReader::new(TcpStream::connect(address).unwrap());
    wait_until("a command of the owners' cluster is executed", || {
        client.get_mut().write_all(b"SET k v\r\n").unwrap();
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        line == "+OK\r\n"
    });
    // They are what `status` finds, too.
    let status = quorate().args(["status", "--home"]).arg(owner(0).join("replica")).output();
    assert!(status.unwrap().status.success());
}
