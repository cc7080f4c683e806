//! Owners who do not trust each other begin a cluster as `docs/operations.md` tells them to,
//! command for command. Each has a folder of its own; what is handed over is a copy of a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::cluster::{ports, quorate, turn, wait_until};

const PAGE: &str = include_str!("../../../../docs/operations.md");
const TOGETHER: &str = "Begin a cluster together";
const THRESHOLD: &str = "Generate a threshold key together";
const OWNERS: [&str; 4] = ["alice", "bob", "carol", "dora"];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The commands of a section of the page, step for step.
fn steps(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = PAGE.split_once(&format!("## {heading}\n")).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```console\n").skip(1);
    let commands = |block: &str| {
        let (block, _) = block.split_once("```").unwrap();
        let lines = block.lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
        lines.map(str::to_owned).collect()
    };
    blocks.map(commands).collect()
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

/// What a command that must be refused says.
fn refused(folder: &Path, line: &str, code: i32) -> String {
    // A replica that starts although it should not must not run for ever.
    let line = format!("exec timeout 60 {line}");
    let Output { status, stderr, .. } = shell(folder, &line).output().unwrap();
    let complaint = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{line}: {complaint}");
    assert!(complaint.contains("remedy:"), "{complaint}");
    complaint
}

/// The owners' folders, after the ceremony of the page.
struct Ceremony {
    folder: TempDir,
    steps: Vec<Vec<String>>,
}

impl Ceremony {
    fn hold(first_port: u16) -> Self {
        Self::hold_as(first_port, steps(TOGETHER), &[])
    }

    /// As [`Self::hold`], with a threshold key: its section's commands in the place of others.
    fn hold_with_threshold_key(first_port: u16) -> Self {
        let [new, deal, check, seal] = <[Vec<String>; 4]>::try_from(steps(THRESHOLD)).unwrap();
        assert_eq!([&new, &deal, &check].map(Vec::len), [1; 3]);
        let [seal, sign] = <[String; 2]>::try_from(seal).unwrap();
        let mut steps = steps(TOGETHER);
        (steps[0], steps[2], steps[3]) = (new, vec![seal], vec![sign]);
        let rounds = [(deal, Some("dealing"), "deal"), (check, None, "")];
        Self::hold_as(first_port, steps, &rounds)
    }

    /// `rounds` are between joining and sealing: a command, and the file that it makes for others.
    fn hold_as(
        first_port: u16,
        steps: Vec<Vec<String>>,
        rounds: &[(Vec<String>, Option<&str>, &str)],
    ) -> Self {
        let ceremony = Self { folder: tempfile::tempdir().unwrap(), steps };
        let [new, join, seal, sign, verify, start, client] = &ceremony.steps[..] else {
            panic!("seven steps: {:?}", ceremony.steps)
        };
        assert_eq!([new, join, seal, sign, verify].map(Vec::len), [1; 5]);
        assert_eq!((start.len(), client.len()), (3, 2));
        OWNERS.iter().for_each(|name| std::fs::create_dir(ceremony.of(name)).unwrap());
        done(&ceremony.of("alice"), &new[0]);
        for (id, name) in OWNERS.iter().enumerate() {
            let port = first_port + 3 * id as u16;
            let join = join[0]
                .replace("alice.example.org:7000", &format!("127.0.0.1:{port}"))
                .replace("alice.example.org:7001", &format!("127.0.0.1:{}", port + 1))
                .replace("--name alice", &format!("--name {name}"));
            ceremony.hand_over("alice", "proposal.toml", "proposal.toml");
            done(&ceremony.of(name), &join);
            ceremony.hand_over(name, "replica/config/genesis-member.toml", &format!("{name}.toml"));
        }
        for (command, file, to) in rounds {
            OWNERS.iter().for_each(|name| drop(done(&ceremony.of(name), &command[0])));
            for name in OWNERS.iter().filter(|_| file.is_some()) {
                let file = format!("replica/config/genesis-{}.toml", file.unwrap_or_default());
                ceremony.hand_over(name, &file, &format!("{name}.{to}"));
            }
        }
        let digest = |said: String| {
            said.lines().find(|line| line.starts_with("genesis digest ")).unwrap().to_owned()
        };
        let digests = OWNERS.map(|name| digest(done(&ceremony.of(name), &seal[0])));
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        let genesis = digests[0].split_whitespace().nth(2).unwrap().trim_end_matches(':');
        for (id, name) in OWNERS.iter().enumerate() {
            let http = format!("127.0.0.1:{}", first_port + 3 * id as u16 + 2);
            let sign = sign[0].replace("DIGEST", genesis);
            done(&ceremony.of(name), &sign.replace("127.0.0.1:7002", &http));
            let signature = "replica/config/genesis-signature.toml";
            ceremony.hand_over(name, signature, &format!("{name}.sig"));
        }
        OWNERS.iter().for_each(|name| drop(done(&ceremony.of(name), &verify[0])));
        ceremony
    }

    fn of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A copy of one owner's file for all.
    fn hand_over(&self, from: &str, file: &str, to: &str) {
        let bytes = std::fs::read(self.of(from).join(file)).unwrap();
        OWNERS.iter().for_each(|name| std::fs::write(self.of(name).join(to), &bytes).unwrap());
    }
}

#[test]
fn owners_begin_a_cluster_together_as_the_page_says() {
    let _turn = turn();
    let (_held, first_port) = ports(3 * OWNERS.len() as u16);
    begin(&Ceremony::hold(first_port));
}

/// The key that the votes are checked with is one that nobody knows.
#[test]
fn owners_generate_a_threshold_key_together_as_the_page_says() {
    let _turn = turn();
    let (_held, first_port) = ports(3 * OWNERS.len() as u16);
    let ceremony = Ceremony::hold_with_threshold_key(first_port);
    let sealed = std::fs::read_to_string(ceremony.of("alice").join("cluster.toml")).unwrap();
    assert!(sealed.contains("signatures = \"bls12-381-threshold\""), "{sealed}");
    begin(&ceremony);
}

/// All replicas begin, and a client's command is executed.
fn begin(ceremony: &Ceremony) {
    let sealed = |name: &str| std::fs::read(ceremony.of(name).join("cluster.toml")).unwrap();
    assert!(OWNERS.iter().all(|name| sealed(name) == sealed("alice")), "all get the same bytes");
    let mut replicas = Vec::new();
    let mut digests = Vec::new();
    for name in OWNERS {
        let folder = ceremony.of(name);
        let [check, init, start] = &ceremony.steps[5][..] else { panic!("three commands") };
        done(&folder, check);
        digests.push(done(&folder, init).lines().last().unwrap().to_owned());
        // Once in a replica's life.
        let complaint = refused(&folder, init, 2);
        assert!(complaint.contains("was begun before"), "{complaint}");
        assert!(complaint.contains("--rejoin-after-data-loss"), "{complaint}");
        let log = File::create(folder.join("log")).unwrap();
        let mut command = shell(&folder, &format!("exec {start}"));
        replicas.push(Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    let [make_home, gateway] = &ceremony.steps[6][..] else { panic!("two commands") };
    let folder = ceremony.of("alice");
    done(&folder, make_home);
    // At a port of its own: the page's is the usual one of Redis.
    let gateway = shell(&folder, &format!("exec {gateway} --listen 127.0.0.1:0"))
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
    // They are what `status` finds, too. One that is busy may not answer in time.
    wait_until("the status of an owner's replica is told", || {
        let status = quorate().args(["status", "--home"]).arg(folder.join("replica")).output();
        status.unwrap().status.success()
    });
}

/// A replica whose `cluster.toml` is not the signed one does not start, and its owner is told why.
#[test]
fn a_replica_starts_with_what_its_owner_and_all_others_signed_and_with_nothing_else() {
    let _turn = turn();
    let (_held, first_port) = ports(3 * OWNERS.len() as u16);
    let ceremony = Ceremony::hold(first_port);
    let folder = ceremony.of("bob");
    let config = folder.join("replica/config");
    let [_, init, start] = &ceremony.steps[5][..] else { panic!("three commands") };
    done(&folder, init);
    let agreed = std::fs::read_to_string(config.join("cluster.toml")).unwrap();
    let write = |text: &str| std::fs::write(config.join("cluster.toml"), text).unwrap();

    // Comments and order do not count.
    write(&format!("# copied\n{agreed}"));
    done(&folder, &ceremony.steps[5][0]);

    let line = 1 + agreed.lines().position(|line| line == "max_state_bytes = \"1GiB\"").unwrap();
    write(&agreed.replace("max_state_bytes = \"1GiB\"", "max_state_bytes = \"2GiB\""));
    let complaint = refused(&folder, start, 2);
    for part in [
        "`limits.max_state_bytes` is \"2GiB\" here, and \"1GiB\" in what this owner signed",
        &format!("cluster.toml, line {line}"),
        "put replica/config/genesis-signed.toml in its place",
    ] {
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
    // An address is no part of the chain's identity, and of what owners sign.
    write(&agreed.replace(&format!("127.0.0.1:{first_port}\""), "127.0.0.1:9\""));
    let complaint = refused(&folder, start, 2);
    assert!(complaint.contains("`replicas.0.peer_address` is \"127.0.0.1:9\" here"), "{complaint}");

    // Without the owner's own copy, the signatures are left.
    std::fs::rename(config.join("genesis-signed.toml"), folder.join("away")).unwrap();
    let complaint = refused(&folder, start, 2);
    assert!(complaint.contains("it is under the genesis"), "{complaint}");
    assert!(complaint.contains("genesis-signatures.toml, line"), "{complaint}");
    write(&agreed);
    done(&folder, &ceremony.steps[5][0]);

    // None at all: what this owner signed, others may not have.
    let (away, beside) = (folder.join("away"), config.join("genesis-signed.toml"));
    std::fs::rename(&away, &beside).unwrap();
    let signatures = config.join("genesis-signatures.toml");
    std::fs::rename(&signatures, &away).unwrap();
    let complaint = refused(&folder, start, 2);
    assert!(complaint.contains("4 owners have not signed this cluster"), "{complaint}");
    std::fs::rename(&away, &signatures).unwrap();
    std::fs::rename(&beside, &away).unwrap();

    // One signature less, and one of another owner in its place.
    let all = std::fs::read_to_string(&signatures).unwrap();
    let (head, last) = all.rsplit_once("[[signatures]]").unwrap();
    std::fs::write(&signatures, head).unwrap();
    let complaint = refused(&folder, start, 2);
    assert!(complaint.contains("1 owners have not signed"), "{complaint}");
    assert!(complaint.contains("replica 3 (dora)"), "{complaint}");
    let first = head.split("signature = \"").nth(1).unwrap().split('"').next().unwrap();
    let own = last.split('"').nth(1).unwrap();
    std::fs::write(&signatures, all.replace(own, first)).unwrap();
    let complaint = refused(&folder, start, 2);
    assert!(complaint.contains("the signature of replica 3 (dora) does not hold"), "{complaint}");
}
