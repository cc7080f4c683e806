//! `quorate deploy`, with eight hosts: a network namespace, an `sshd` and a folder each.
//!
//! `needs::networks` says where they are skipped.

#[path = "../../netem/tests/needs/mod.rs"]
mod needs;
mod program;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{command, err, json};
use quorate_netem::{Link, Network, Settings, Topology};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const HOSTS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);
const SSHD: &str = "/usr/sbin/sshd";

/// Eight hosts, the last of them for load alone.
struct Hosts {
    folder: TempDir,
    network: Network,
    doors: Vec<Option<Child>>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for door in self.doors.iter_mut().flatten() {
            let _ = door.kill();
            let _ = door.wait();
        }
        // Replicas that a failing test leaves run in these folders alone.
        for process in self.left() {
            if let Some(pid) = process.file_name().and_then(|name| name.to_str()?.parse().ok()) {
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", err(&output));
}

impl Hosts {
    /// `None` where there can be none.
    fn new() -> Option<Self> {
        if !needs::networks() || !needs::program("strip", "binutils") || !needs::sshd() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["key", "strange-key", "host-key"] {
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path(name)]);
        }
        run("strip", &["-o", &path("quorate"), env!("CARGO_BIN_EXE_quorate")]);
        let topology = Topology::uniform(HOSTS, &Link::delay(Duration::from_millis(1))).unwrap();
        let network = Network::up(&topology, &Settings::default()).unwrap();
        let host_key = fs::read_to_string(path("host-key.pub")).unwrap();
        let (mut config, mut known, mut inventory) = (String::new(), String::new(), String::new());
        for host in 0..HOSTS {
            let address = network.namespaces()[host].address();
            config += &format!("Host h{host}\n  HostName {address}\n  User root\n");
            known += &format!("{address} {host_key}");
            let role = if host + 1 == HOSTS { "client" } else { "replica" };
            let home = path(&format!("host-{host}"));
            fs::create_dir(&home).unwrap();
            fs::copy(path("key.pub"), path(&format!("authorized-{host}"))).unwrap();
            inventory += &format!(
                "[[host]]\nname = \"h{host}\"\naddress = \"{address}\"\nroles = [\"{role}\"]\n\
                 folder = \"{home}/quorate\"\n"
            );
        }
        config += &format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n",
            path("key"),
            path("known_hosts")
        );
        fs::write(path("ssh_config"), config).unwrap();
        fs::write(path("known_hosts"), known).unwrap();
        let head = "[cluster]\nchain = \"eight\"\n[ssh]\nconfig = \"ssh_config\"\n\
                    connect_timeout_s = 60\n[node]\nstorage.durability = \"os\"\n";
        fs::write(path("eight.toml"), format!("{head}{inventory}")).unwrap();
        // It wants this folder, and leaves it.
        fs::create_dir_all("/run/sshd").unwrap();
        let doors = (0..HOSTS).map(|_| None).collect();
        let mut hosts = Self { folder, network, doors };
        (0..HOSTS).for_each(|host| hosts.open_door(host));
        Some(hosts)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the `sshd` of a host, and waits until it listens.
    fn open_door(&mut self, host: usize) {
        let place = |name: &str| self.path(name).display().to_string();
        let file = self.path(&format!("sshd-{host}"));
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPrintMotd no\n",
            place("host-key"),
            place(&format!("authorized-{host}")),
        );
        fs::write(&file, config).unwrap();
        let mut door = Command::new(SSHD);
        door.args(["-D", "-e", "-f"]).arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        self.network.namespaces()[host].enter(&mut door);
        self.doors[host] = Some(door.spawn().unwrap());
        let knock = || TcpStream::connect((Ipv4Addr::LOCALHOST, 22)).is_ok();
        let began = Instant::now();
        while !self.network.namespaces()[host].within(knock).unwrap() {
            assert!(began.elapsed() < PATIENCE, "no sshd listens at host {host}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn shut_door(&mut self, host: usize) {
        let mut door = self.doors[host].take().unwrap();
        door.kill().unwrap();
        door.wait().unwrap();
    }

    /// `quorate deploy`, from where the clients are.
    fn deploy(&self, arguments: &[&str]) -> Command {
        let (verb, rest) = arguments.split_first().unwrap();
        let all = [&["-o", "json", "deploy", verb, "eight.toml"], rest].concat();
        let mut command = command(self.folder.path(), &all);
        self.network.clients().enter(&mut command);
        command
    }

    fn up(&self) -> Output {
        self.deploy(&["up", "--binary", "quorate"]).output().unwrap()
    }

    /// What a command that must succeed says of each host.
    fn said(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.deploy(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        of_hosts(&output)
    }

    /// Processes that run in the hosts' folders.
    fn left(&self) -> Vec<PathBuf> {
        let Ok(folder) = self.folder.path().canonicalize() else { return Vec::new() };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let inside = |process: &PathBuf| {
            fs::read_link(process.join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(&folder) && cwd != folder)
        };
        processes.filter(inside).collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.left(), Vec::<PathBuf>::new());
        for host in 0..HOSTS {
            let mut there = fs::read_dir(self.path(&format!("host-{host}"))).unwrap();
            assert!(there.next().is_none(), "host {host}");
        }
        assert!(!self.path("eight").exists());
    }

    /// All seven replicas run, are ready, and have executed the same.
    fn wait_until_level(&self) {
        let began = Instant::now();
        loop {
            let said = self.said(&["status"]);
            let status = |one: &Value| one["result"]["status"].clone();
            let states: Vec<_> = said[..HOSTS - 1].iter().map(status).collect();
            let is_level = |one: &Value| {
                one["ready"] == true && one["executed_height"] == states[0]["executed_height"]
            };
            if states.iter().all(is_level) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{states:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn of_hosts(output: &Output) -> Vec<Value> {
    json(output)["hosts"].as_array().unwrap().clone()
}

fn results(said: &[Value]) -> Vec<&str> {
    said.iter().map(|one| one["result"].as_str().unwrap()).collect()
}

#[test]
fn eight_hosts_from_up_to_down() {
    let Some(hosts) = Hosts::new() else { return };
    let up = hosts.up();
    assert!(up.status.success(), "{}", err(&up));
    let mut expected = vec!["new: program, keys, configuration, process"; HOSTS - 1];
    expected.push("new: program, client");
    assert_eq!(results(&of_hosts(&up)), expected);
    hosts.wait_until_level();
    let again = hosts.up();
    assert_eq!(results(&of_hosts(&again)), ["nothing to do"; HOSTS]);

    // Every replica is restarted while clients write; nobody is told of a failure.
    let arguments =
        ["run", "--out", "reports", "--", "--seconds", "12", "--warmup", "1", "--clients", "2"];
    let load = hosts.deploy(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let restarted = hosts.said(&["restart"]);
    assert_eq!(results(&restarted), ["restarted"; HOSTS - 1]);
    let load = load.unwrap().wait_with_output().unwrap();
    assert!(load.status.success(), "{}", err(&load));
    let report = &of_hosts(&load)[0];
    assert_eq!(report["host"], "h7");
    assert!(report["result"]["commands"].as_u64().unwrap() > 0, "{report}");
    assert!(hosts.path("reports/h7.json").exists());
    hosts.wait_until_level();

    let said = hosts.said(&["exec", "--", "ls", "replica/config", "||", "echo", "none"]);
    assert!(said[0]["result"].as_str().unwrap().contains("consensus.key"));
    hosts.said(&["collect", "--out", "collected"]);
    for host in 0..HOSTS {
        let archive = hosts.path(&format!("collected/h{host}.tar.gz"));
        let listed = Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("machine.txt"), "{listed}");
        assert_eq!(listed.contains("replica.log"), host + 1 < HOSTS, "{listed}");
        assert!(!listed.contains(".key"), "secrets stay: {listed}");
    }

    assert_eq!(results(&hosts.said(&["stop"])), ["stopped"; HOSTS - 1]);
    assert_eq!(results(&hosts.said(&["stop"])), ["did not run"; HOSTS - 1]);
    assert_eq!(results(&hosts.said(&["start"])), ["started"; HOSTS - 1]);
    let refused = hosts.deploy(&["down"]).output().unwrap();
    assert!(err(&refused).contains("--yes"), "{}", err(&refused));
    assert_eq!(results(&hosts.said(&["down", "--yes"])), ["removed"; HOSTS]);
    hosts.assert_nothing_is_left();
}

/// A host whose door is shut, one with a full disk and one that does not know the key are named,
/// with what to do. The others have their part done. Mended, the same command goes on.
#[test]
fn hosts_that_fail_are_named_and_the_others_go_on() {
    let Some(mut hosts) = Hosts::new() else { return };
    let full = hosts.path("host-2").display().to_string();
    run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &full]);
    hosts.shut_door(1);
    fs::copy(hosts.path("strange-key.pub"), hosts.path("authorized-3")).unwrap();
    let up = hosts.up();
    run("umount", &[&full]);
    assert!(!up.status.success());
    let said = of_hosts(&up);
    for (host, what, remedy) in [
        (1, "Connection refused", "see that it is up"),
        (2, "No space left on device", "make room"),
        (3, "Permission denied", "let it take your key"),
        (4, "waits for those of the other hosts", "mend the others"),
    ] {
        let (error, told) = (said[host]["error"].to_string(), said[host]["remedy"].to_string());
        assert!(error.contains(what), "{error}");
        assert!(told.contains(remedy), "{told}");
        assert!(err(&up).contains(&format!("h{host}")), "{}", err(&up));
    }
    hosts.open_door(1);
    fs::copy(hosts.path("key.pub"), hosts.path("authorized-3")).unwrap();

    // Ctrl-C in the middle, while programs are copied.
    let mut command = hosts.deploy(&["up", "--binary", "quorate"]);
    let mut cut = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(cut.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "h2: copying the program"));
    let pid = Pid::from_raw(i32::try_from(cut.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<_> = lines.collect();
    assert!(!cut.wait().unwrap().success());
    assert!(rest.iter().any(|line| line.contains("run the same again")), "{rest:?}");

    let up = hosts.up();
    assert!(up.status.success(), "{}", err(&up));
    assert_eq!(of_hosts(&up)[4]["result"], "new: configuration, process");
    hosts.wait_until_level();
    // A host that fails later does not hold up the others either.
    hosts.shut_door(5);
    let stopped = hosts.deploy(&["stop"]).output().unwrap();
    let said = of_hosts(&stopped);
    assert!(said[5]["error"].as_str().unwrap().contains("Connection refused"));
    assert_eq!(said[6]["result"], "stopped");
    hosts.open_door(5);
    hosts.said(&["down", "--yes"]);
    hosts.assert_nothing_is_left();
}

/// Two operators, or one who runs it again too early, bring up the same cluster at the same time:
/// each finds what the other one did. Nothing is half, twice or left over.
#[test]
fn two_that_bring_up_one_cluster_do_not_disturb_each_other() {
    let Some(hosts) = Hosts::new() else { return };
    // Of one that was killed, long ago.
    let left = hosts.path("host-2/quorate/bin");
    fs::create_dir_all(&left).unwrap();
    fs::write(hosts.path("host-2/quorate/.quorate-deploy"), "").unwrap();
    fs::write(left.join("quorate.part.4711"), "half a program").unwrap();

    let one = || {
        let mut command = hosts.deploy(&["up", "--binary", "quorate"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [one(), one()].map(|up| up.wait_with_output().unwrap());
    let mut news = vec![String::new(); HOSTS];
    for up in &both {
        assert!(up.status.success(), "{}", err(up));
        for (all, said) in news.iter_mut().zip(results(&of_hosts(up))) {
            all.push_str(said);
        }
    }
    // Configuration is several files: each may have written some.
    for (new, most) in [("program", 1), ("keys", 1), ("configuration", 2), ("process", 1)] {
        let fits = |said: &String| (1..=most).contains(&said.matches(new).count());
        assert!(news[..HOSTS - 1].iter().all(fits), "{new}: {news:?}");
    }
    hosts.wait_until_level();
    let parts = hosts.said(&["exec", "--", "find", ".", "-name", "'*.part*'"]);
    assert_eq!(results(&parts), [""; HOSTS]);
    assert!(!hosts.path("eight/config/cluster.part").exists());
    assert_eq!(results(&hosts.said(&["down", "--yes"])), ["removed"; HOSTS]);
    hosts.assert_nothing_is_left();
}

/// A study: two runs, each on a cluster of its own, loaded from the client's host.
#[test]
fn a_study_runs_on_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let study = "name = \"s\"\ntitle = \"A study\"\n[grid]\nreplicas = [4, 7]\nbatch = 100\n\
                 durability = \"os\"\npayload = \"16B\"\nrate = 200\nclients = 2\n\
                 [measure]\nduration = \"2s\"\nwarm_up = \"500ms\"\nrepeats = 1\n";
    fs::write(hosts.path("s.toml"), study).unwrap();
    let run = |study: &str| {
        let more = [study, "--binary", "quorate", "--out", "results"];
        hosts.deploy(&[&["run"][..], &more].concat()).output().unwrap()
    };
    // What only one machine can show is refused before any host is touched.
    fs::write(hosts.path("k.toml"), study.replace("rate = 200", "kill = \"leader@1s\"")).unwrap();
    let refused = run("k.toml");
    assert!(
        err(&refused).contains("a replica that is killed is not for hosts"),
        "{}",
        err(&refused)
    );
    fs::write(hosts.path("n.toml"), study.replace("[4, 7]", "10")).unwrap();
    let refused = run("n.toml");
    assert!(err(&refused).contains("has 7 hosts with the role"), "{}", err(&refused));

    let done = run("s.toml");
    assert!(done.status.success(), "{}", err(&done));
    let text = fs::read_to_string(hosts.path("results/runs.jsonl")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!(row["failure"].is_null(), "{row}");
        let figures = &row["figures"];
        assert!(figures["commands"].as_u64().unwrap() > 0, "{row}");
        assert_eq!((&figures["failed"], &figures["unanswered"]), (&0.into(), &0.into()));
    }
    assert!(hosts.path("results/report.html").exists());
    hosts.assert_nothing_is_left();

    // It is over: nothing is run again. And it does not disturb a cluster that runs.
    assert!(err(&run("s.toml")).contains("2 of 2 runs are there already"));
    assert!(hosts.up().status.success());
    let refused = run("s.toml");
    assert!(err(&refused).contains("its replicas run, and have the ports: h0, h1"));
    hosts.said(&["down", "--yes"]);
    hosts.assert_nothing_is_left();
}

/// A bad inventory is refused with the place, before any host is touched.
#[test]
fn a_bad_inventory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str, why: &str| {
        fs::write(folder.path().join("bad.toml"), text).unwrap();
        let output = program::quorate(folder.path(), &["deploy", "up", "bad.toml"]);
        assert_eq!(program::code(&output), 2, "{text}");
        let said = err(&output);
        assert!(said.contains(why) && said.contains("bad.toml"), "{said}");
    };
    let host = "[[host]]\nname = \"a\"\n";
    refused("", "no [[host]]");
    refused("[[host]]\nnam = \"a\"\n", "unknown field `nam`");
    refused(&format!("{host}roles = [\"leader\"]\n"), "unknown variant `leader`");
    refused(&format!("{host}{host}"), "two hosts are called \"a\"");
    refused("[[host]]\nname = \"-oProxyCommand=x\"\n", "a name is of letters");
    refused(&format!("{host}ssh = \"-oProxyCommand=x\"\n"), "no destination");
    refused(&format!("{host}folder = \"/\"\n"), "no folder of its own");
    refused(&format!("{host}folder = \"a/../..\"\n"), "no folder of its own");
    refused(&format!("{host}folder = \"a'; rm -rf b\"\n"), "no folder of its own");
    refused(&format!("[cluster]\nprotocol = \"paxos\"\n{host}"), "protocol = \"paxos\"");
    refused(&format!("[cluster]\nsignatures = \"bls12-381-threshold\"\n{host}"), "dealt");
    refused(&format!("[node]\nstorage.speed = \"high\"\n{host}"), "none of node.toml");
    refused(
        &format!("{host}address = \"x\"\n[[host]]\nname = \"b\"\naddress = \"x\"\n"),
        "x:7000 is used twice",
    );
}

/// What it runs under systemd is what systemd takes.
#[test]
fn the_unit_is_one() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return needs::optional(
            "the unit of quorate deploy",
            "there is no systemd-analyze",
            "install systemd",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = include_str!("../../deploy/src/replica.service");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::copy("/bin/true", folder.path().join("bin/quorate")).unwrap();
    let file = folder.path().join("quorate-eight-0.service");
    fs::write(&file, unit.replace("FOLDER", &folder.path().display().to_string())).unwrap();
    let output =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said: Vec<_> = err(&output)
        .lines()
        .filter(|line| line.contains("quorate-eight"))
        .map(str::to_owned)
        .collect();
    assert_eq!(said, Vec::<String>::new());
}
