//! Runs the scripts of `tests/scripts` at the root of the workspace and compares what happened,
//! line by line. `QUORATE_REGENERATE=1` writes what happened into the scripts instead.
//!
//! A script is a list of commands, each followed by `----` and by the trace of it. Lines that begin
//! with `#` are for the reader. The commands are in `Script::command`; times are in milliseconds, a
//! message takes one on its way.
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; who runs the test says which seeds, and scripts are files"
)]

mod cluster;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cluster::adversary::Liar;
use cluster::client::Targets;
use cluster::trace::Trace;
use cluster::{Cluster, Config, Peer, status_of};
use quorate_core::block::{Block, Content};
use quorate_core::certificate::{Ballot, Qc, Vote};
use quorate_core::crypto::Signature;
use quorate_core::hotstuff::{Message, rules};
use quorate_core::pacemaker::Kind;
use quorate_core::protocol::Protocol;
use quorate_core::replica::message::PeerMessage;
use quorate_core::wire::{Decode, Encode};
use quorate_core::{Digest, Epoch, ReplicaId, View};

struct Script {
    cluster: Cluster,
}

impl Script {
    /// `name word key=value …`. What it prints beside the trace.
    fn command(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let number = |key: &str| value(key).map(|v| v.parse::<u64>().expect("a number"));
        let slot = || replica(words.get(1).copied().unwrap_or_default());
        let (cluster, mut said) = (&mut self.cluster, String::new());
        match words[0] {
            "cluster" => self.create(&number, &value),
            "request" => {
                cluster.clients[0].targets = match value("to") {
                    None | Some("all") => Targets::All,
                    Some(to) => {
                        Targets::One { replica: replica(to), relay: value("relay").is_some() }
                    }
                };
                cluster.request(0, number("commands").unwrap_or(1), 1);
            }
            "run" => match number("for") {
                Some(millis) => cluster.run_for(millis * 1_000),
                None => {
                    let silent = |c: &Cluster| c.in_flight() == 0 && !c.has_timer();
                    let fell_silent = cluster.run_until(60_000_000, silent);
                    said.push_str(if fell_silent { "(silence)\n" } else { "(still busy)\n" });
                }
            },
            "answered" => {
                let done = cluster.run_until_answered(number("within").unwrap_or(10_000) * 1_000);
                said.push_str(if done { "(all answered)\n" } else { "(not all answered)\n" });
            }
            "crash" => cluster.crash(slot()),
            "start" => cluster.boot(slot()),
            "rejoin" => cluster.rejoin(slot(), 1),
            "isolate" => {
                let alone = slot();
                cluster.network.partition(|slot| usize::from(slot == alone));
            }
            "cut" => cluster.network.link(slot(), replica(words[2])).cut = true,
            "heal" => cluster.network.heal(),
            "slow" => {
                let millis = number("to").expect("to=millis") * 1_000;
                cluster.network.link(slot(), replica(words[2])).delay = (millis, millis);
            }
            "lose" => cluster.drops = Some(losses(words[1])),
            "trace" => cluster.trace.on = words[1] == "on",
            "status" => said = status(cluster),
            "liar" => cluster.slots[slot()].faulty = true,
            "send" => send(cluster, words[1], replica(words[2]), replica(words[3])),
            other => panic!("no such command: {other}"),
        }
        for line in self.cluster.trace.take() {
            let _ = writeln!(said, "{line}");
        }
        said
    }

    fn create<'a>(
        &mut self,
        number: &dyn Fn(&str) -> Option<u64>,
        value: &dyn Fn(&str) -> Option<&'a str>,
    ) {
        let kind = value("pacemaker").map_or(Kind::default(), |name| {
            let (_, kind) = Kind::NAMES.into_iter().find(|(n, _)| *n == name).expect("a pacemaker");
            kind
        });
        let config = Config {
            rules: rules::named(value("protocol").unwrap_or("hotstuff-chained")).expect("its name"),
            pacemaker: kind,
            second_vote: value("second-vote") == Some("yes"),
            replicas: number("replicas").unwrap_or(4) as usize,
            snapshot_blocks: number("snapshots").unwrap_or(1_000_000),
            retire: number("snapshots").is_some(),
            inline_bytes: number("inline").unwrap_or(4096) as usize,
            client_patience: number("patience").unwrap_or(60_000) * 1_000,
            ..Config::default()
        };
        self.cluster = Cluster::traced(config, Trace::on());
    }
}

fn replica(name: &str) -> usize {
    name.strip_prefix('r').and_then(|id| id.parse().ok()).expect("a replica: r0, r1 …")
}

fn status(cluster: &Cluster) -> String {
    let mut lines = String::new();
    for (id, slot) in cluster.slots.iter().enumerate() {
        let Some(core) = &slot.core else {
            let _ = writeln!(lines, "r{id}: down");
            continue;
        };
        let (status, executed) = (status_of(core), &core.execution().application().commands);
        let _ = write!(
            lines,
            "r{id}: view {}, QC of view {}, lock on view {}, height {}, {} commands",
            status.view,
            status.high_qc,
            status.lock,
            status.committed,
            executed.len()
        );
        if status.abstain_until > View(0) {
            let _ = write!(lines, ", abstains up to view {}", status.abstain_until);
        }
        lines.push('\n');
    }
    lines
}

/// Which messages get lost.
fn losses(what: &str) -> fn(usize, usize, &Peer) -> bool {
    match what {
        "nothing" => |_, _, _| false,
        "proposals-to-r3" => {
            |_, to, peer| to == 3 && matches!(inner(peer), Some(Message::Proposal { .. }))
        }
        "votes" => |_, _, peer| matches!(inner(peer), Some(Message::Vote(_))),
        "certificates-of-r0" => {
            |from, _, peer| from == 0 && matches!(inner(peer), Some(Message::Proposal { .. }))
        }
        other => panic!("no such loss: {other}"),
    }
}

fn inner(peer: &Peer) -> Option<&Message> {
    match peer {
        PeerMessage::Protocol { message, .. } => Some(message),
        _ => None,
    }
}

/// Messages that a liar makes up. The liar knows what its own replica knows.
fn send(cluster: &mut Cluster, what: &str, from: usize, to: usize) {
    let safety = cluster.core(from).protocol().safety().clone();
    let tree = cluster.core(from).protocol().tree();
    let parent = tree.find(&safety.high_qc.block()).cloned().expect("it holds its high QC's block");
    let view = safety.high_qc.view().next();
    let committed = tree.committed_by(&parent.id()).expect("the parent is in its tree");
    let execution = cluster.core(from).execution();
    let state_root = execution.root_at(committed).expect("executed");
    let liar = Liar { id: from, domain: cluster.config.domain(), to };
    let block = |justify: Qc, view: View, frames: Vec<Digest>| Message::Proposal {
        block: std::sync::Arc::new(Block::new(Content {
            epoch: Epoch(0),
            view,
            height: parent.height.next(),
            proposer: ReplicaId(from as u16),
            justify,
            state_root,
            frames,
        })),
        tc: None,
    };
    let high_qc = safety.high_qc.clone();
    let advance = |high_qc| Message::Advance { high_qc, high_tc: None, decided: None };
    let message = match what {
        "empty-proposal" => block(high_qc, view, Vec::new()),
        "proposal-without-bodies" => block(high_qc, view, vec![Digest([3; 32])]),
        "proposal-out-of-turn" => block(high_qc, View(view.0 + 1), Vec::new()),
        "proposal-for-a-later-view" => {
            let replicas = cluster.config.replicas as u64;
            block(high_qc, View(view.0 + replicas), Vec::new())
        }
        "vote-of-another" => {
            Message::Vote(Vote { voter: ReplicaId(to as u16), ..liar.vote(view, 1, parent.id()) })
        }
        "bad-vote" => {
            let Ballot { view, phase, block } = safety.voted.expect("it has voted");
            let signature = Signature::from([9; 64]);
            Message::Vote(Vote { signature, ..liar.vote(view, phase, block) })
        }
        "certificate-with-a-bad-signature" => {
            advance(edited(&high_qc, |_, _, signature| *signature ^= 1))
        }
        "certificate-of-another-view" => advance(raised(&high_qc)),
        "certificate-with-a-signer-twice" => advance(edited(&high_qc, |_, signer, _| *signer = 1)),
        "certificate-out-of-order" => {
            advance(edited(&high_qc, |at, signer, _| *signer = 3 - at as u8))
        }
        "certificate-with-a-stranger" => {
            advance(edited(&high_qc, |at, signer, _| *signer = 200 + at as u8))
        }
        "certificate-of-too-few" => advance(cut_short(&high_qc)),
        other => panic!("no such message: {other}"),
    };
    cluster.inject(from, to, &PeerMessage::of(message));
}

/// The certificate with each signer and signature edited: place, signer, signature.
fn edited(qc: &Qc, edit: impl Fn(usize, &mut u8, &mut u8)) -> Qc {
    let mut bytes = qc.to_bytes();
    for (at, entry) in bytes[46..].chunks_mut(67).enumerate() {
        let (signer, signature) = entry.split_at_mut(2);
        edit(at, &mut signer[0], &mut signature[1]);
    }
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn raised(qc: &Qc) -> Qc {
    let mut bytes = qc.to_bytes();
    bytes[..8].copy_from_slice(&(qc.view().0 + 5).to_le_bytes());
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn cut_short(qc: &Qc) -> Qc {
    let mut bytes = qc.to_bytes();
    bytes[42] -= 1;
    bytes.truncate(bytes.len() - 67);
    Qc::from_bytes(bytes.into()).expect("well formed")
}

fn run(path: &Path) -> (String, String) {
    let text = std::fs::read_to_string(path).expect("a script");
    let mut script = Script { cluster: Cluster::new(Config::default()) };
    let mut happened = String::new();
    let mut skipping = false;
    for line in text.lines() {
        if line == "----" {
            skipping = true;
        } else if line.is_empty() {
            skipping = false;
            happened.push('\n');
        } else if line.starts_with('#') && !skipping {
            let _ = writeln!(happened, "{line}");
        } else if !skipping {
            let trace = script.command(line);
            let _ = write!(happened, "{line}\n----\n{trace}");
        }
    }
    (text, happened)
}

#[test]
fn scripts_happen_as_they_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 10, "scripts are missing");
    let mut wrong = Vec::new();
    for path in paths {
        let (text, happened) = run(&path);
        if std::env::var_os("QUORATE_REGENERATE").is_some() {
            std::fs::write(&path, &happened).expect("the script is written");
        } else if text != happened {
            let line = text.lines().zip(happened.lines()).position(|(a, b)| a != b);
            let at = line.unwrap_or_else(|| text.lines().count().min(happened.lines().count()));
            let is = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
            wrong.push(format!(
                "{}:{}: expected `{}`, and this happened: `{}`",
                path.file_name().unwrap_or_default().display(),
                at + 1,
                is(&text),
                is(&happened)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\nQUORATE_REGENERATE=1 rewrites them", wrong.join("\n"));
}

#[test]
fn a_script_that_is_wrong_is_noticed() {
    let path = std::env::temp_dir().join(format!("quorate-{}.txt", std::process::id()));
    std::fs::write(&path, "cluster replicas=1\n----\n    0.0  r0 dances\n").expect("written");
    let (text, happened) = run(&path);
    std::fs::remove_file(&path).expect("removed");
    assert_ne!(text, happened);
    assert!(happened.contains("r0 starts"));
}
