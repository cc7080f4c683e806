//! Runs a script and compares what happened with what it says, line by line.
//! `QUORATE_REGENERATE=1` writes what happened into it instead.
//!
//! A script is a list of commands, each followed by `----` and the trace of it; lines that begin
//! with `#` are for the reader. Times are in milliseconds, a message takes one on its way. The
//! commands are in [`Script::command`].

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use quorate_core::View;
use quorate_core::base::crypto::{Check, Scheme};
use quorate_core::protocols::hotstuff::rules::Rules;

use crate::cluster::keys::Mock;
use crate::cluster::mutant::Mutation;
use crate::cluster::trace::Trace;
use crate::cluster::{Cluster, Config, status_of};

/// What is wrong with the replicas of a cluster, if anything is.
pub struct Bug {
    pub rules: &'static dyn Rules,
    pub mutation: fn(usize) -> Option<Box<dyn Mutation>>,
    pub verify: fn(usize, &[Check]) -> Vec<bool>,
    pub second_vote: bool,
    /// What the oracles do not look at, so that it is seen what comes of it.
    pub unwatched: Unwatched,
}

impl Bug {
    /// Nothing is.
    pub fn none(rules: &'static dyn Rules) -> Self {
        let verify = |_: usize, checks: &[Check]| Mock.verify(checks);
        Self {
            rules,
            mutation: |_| None,
            verify,
            second_vote: false,
            unwatched: Unwatched::Nothing,
        }
    }
}

/// What the oracles leave out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unwatched {
    Nothing,
    Votes,
    Replica(usize),
}

/// What happened.
pub struct Played {
    commands: Vec<String>,
    happened: String,
}

impl Played {
    /// Whether it says so.
    pub fn says(&self, words: &str) -> bool {
        self.happened.contains(words)
    }

    /// How many lines say so.
    pub fn count(&self, words: &str) -> usize {
        self.happened.lines().filter(|line| line.contains(words)).count()
    }

    /// The same was done to it as to `other`, and perhaps more afterwards.
    pub fn repeats(&self, other: &Self) {
        assert!(other.commands.len() > 5, "the other script is hardly one");
        assert_eq!(self.commands.get(..other.commands.len()), Some(&*other.commands));
    }
}

struct Script {
    cluster: Cluster,
}

/// How long at most a script waits for something to happen, in microseconds.
const PATIENCE_MICROS: u64 = 10_000_000;

impl Script {
    /// `name word key=value …`. What it prints beside the trace.
    fn command(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let number = |key: &str| value(key).map(|v| v.parse::<u64>().expect("a number"));
        let replicas = || words[1..].iter().map_while(|word| replica(word));
        let cluster = &mut self.cluster;
        match words[0] {
            "request" => cluster.request(0, number("commands").unwrap_or(1), 1),
            // The first of them speaks to the others no more; with one only, to nobody.
            "cut" => {
                let named: Vec<usize> = replicas().collect();
                for to in 0..cluster.slots.len() {
                    let cut = named.len() == 1 || named[1..].contains(&to);
                    cluster.network.link(named[0], to).cut |= cut;
                }
            }
            "isolate" => {
                let alone: Vec<usize> = replicas().collect();
                let group = |slot| if alone.contains(&slot) { 1 + slot } else { 0 };
                cluster.network.partition(group);
            }
            "mend" => {
                let (from, to) = (replica(words[1]), replica(words[2]));
                cluster.network.link(from.expect("from"), to.expect("to")).cut = false;
            }
            "slow" => {
                let (from, to) = (replica(words[1]), replica(words[2]));
                let micros = number("to").expect("to=millis") * 1_000;
                let link = cluster.network.link(from.expect("from"), to.expect("to"));
                link.delay = (micros, micros);
            }
            "heal" => cluster.network.heal(),
            "trace" => cluster.trace.on = words[1] == "on",
            "status" => return status(cluster),
            "answered" => {
                let done = cluster.run_until_answered(PATIENCE_MICROS);
                return if done { "(all answered)\n" } else { "(not all answered)\n" }.into();
            }
            "run" => {
                let done = match number("for") {
                    Some(millis) => {
                        cluster.run_for(millis * 1_000);
                        true
                    }
                    // run until r0 view=8, or QC=7
                    None => {
                        let watched = replica(words[2]).expect("a replica");
                        let view = |key| View(number(key).unwrap_or(0));
                        let (entered, certified) = (view("view"), view("QC"));
                        cluster.run_until(PATIENCE_MICROS, |cluster| {
                            let status = status_of(cluster.core(watched));
                            status.view >= entered && status.high_qc >= certified
                        })
                    }
                };
                assert!(done, "it does not come to that: {line}");
            }
            other => panic!("no such command: {other}"),
        }
        String::new()
    }
}

fn replica(name: &str) -> Option<usize> {
    name.strip_prefix('r').and_then(|id| id.parse().ok())
}

fn status(cluster: &Cluster) -> String {
    let mut lines = String::new();
    for (id, slot) in cluster.slots.iter().enumerate() {
        let core = slot.core.as_ref().expect("nobody crashes here");
        let (status, commands) = (status_of(core), &core.execution().application().commands);
        let _ = writeln!(
            lines,
            "r{id}: view {}, QC of view {}, height {}, {} commands",
            status.view,
            status.high_qc,
            status.committed,
            commands.len()
        );
    }
    lines
}

/// Runs the script `name` with replicas that have this bug.
pub fn play(name: &str, bug: &Bug) -> Played {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts/mutants");
    let path = folder.join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).expect("a script");
    let played = run(&text, bug);
    if std::env::var_os("QUORATE_REGENERATE").is_some() {
        std::fs::write(&path, &played.happened).expect("the script is written");
    } else if text != played.happened {
        let mut lines = text.lines().zip(played.happened.lines()).enumerate();
        let differs = lines.find(|(_, (said, was))| said != was);
        panic!("{name}: not what it says (QUORATE_REGENERATE=1 rewrites it): {differs:?}");
    }
    played
}

fn run(text: &str, bug: &Bug) -> Played {
    let config = Config {
        rules: bug.rules,
        mutation: bug.mutation,
        verify: bug.verify,
        second_vote: bug.second_vote,
        client_patience: 60_000_000,
        ..Config::default()
    };
    let mut script = Script { cluster: Cluster::traced(config, Trace::on()) };
    match bug.unwatched {
        Unwatched::Nothing => {}
        Unwatched::Votes => script.cluster.oracles.ignores_votes = true,
        Unwatched::Replica(slot) => script.cluster.slots[slot].faulty = true,
    }
    script.cluster.trace.take();
    let (mut commands, mut happened) = (Vec::new(), String::new());
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
            let result = catch_unwind(AssertUnwindSafe(|| script.command(line)));
            let _ = write!(happened, "{line}\n----\n");
            for line in script.cluster.trace.take() {
                let _ = writeln!(happened, "{line}");
            }
            let said = result.unwrap_or_else(|panic| format!("({})\n", words_of(&panic)));
            happened.push_str(&said);
            commands.push(line.to_owned());
        }
    }
    Played { commands, happened }
}

/// What an oracle cried out, without the values it compared.
fn words_of(panic: &Box<dyn std::any::Any + Send>) -> String {
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
    let words = words.unwrap_or_default();
    let words = words.strip_prefix("assertion `left == right` failed: ").unwrap_or(&words);
    words.lines().next().unwrap_or_default().to_owned()
}
