//! The commands of a script.
//!
//! | command | what it does |
//! |---|---|
//! | `cluster key=value …` | starts replicas anew; they greet each other before the clock runs |
//! | `request [to=r0] [relay=yes] [commands=1]` | the client wants commands executed |
//! | `run [for=ms]` | so long; without `for` until nothing is under way and no timer runs |
//! | `answered [within=ms]` | until the client has its answers |
//! | `crash r0`, `start r0`, `rejoin r0` | stops it; starts it with its data, or without |
//! | `isolate r0`, `cut r0 r1`, `heal` | cuts links, and mends all |
//! | `slow r0 r1 to=ms` | all messages of this link take so long |
//! | `lose votes [of=view] [from=r0] [to=r1]` | messages of a kind are lost from now on |
//! | `delay votes by=ms [of=view] [from=r0] [to=r1]` | or come later |
//! | `lose relays`, `lose told` | the same of frames passed on, and of word that they are held |
//! | `lose nothing` | takes back all of these |
//! | `equivocate r0 to=r1,r2` | a liar: these get a block of other content in its proposals |
//! | `liar r0` | nobody holds it to the rules from now on |
//! | `send what r0 r1` | a message made up in the name of r0 arrives now (`forged.rs`) |
//! | `status` | where each replica stands |
//! | `trace off`, `trace on` | passes over what happens |
//!
//! Keys of `cluster`: `protocol`, `second_vote=yes`, `pacemaker`, `leader`, `form` (of
//! certificates), `delta` in ms, `replicas`, `snapshots` (blocks between two, with logs cut),
//! `inline` (bytes of bodies sent with a block), `ahead=yes` (frames travel ahead of proposals),
//! `patience` of clients in ms.

use std::fmt::Write as _;
use std::sync::Arc;

use quorate_core::View;
use quorate_core::base::crypto::Form;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::{Message, rules};
use quorate_core::replica::Dissemination;
use quorate_core::replica::message::PeerMessage;

use crate::cluster::client::Targets;
use crate::cluster::network::{Fate, Link};
use crate::cluster::trace::Trace;
use crate::cluster::{Cluster, Config, Peer, status_of};
use crate::forged;
use crate::words::{Script, Words, replica};

/// A script at work.
pub struct OfHotStuff {
    cluster: Cluster,
    meddling: Vec<Meddling>,
}

/// What is done to messages of a kind.
#[derive(Clone, Debug)]
struct Meddling {
    kind: String,
    of: Option<View>,
    from: Option<usize>,
    to: Vec<usize>,
    deed: Deed,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Lose,
    Delay { millis: u64 },
    Equivocate,
}

impl OfHotStuff {
    pub fn new() -> Self {
        Self { cluster: Cluster::new(Config::default()), meddling: Vec::new() }
    }

    fn disturb(&mut self, words: &Words<'_>) {
        let cluster = &mut self.cluster;
        match words.only(&["to"]).at(0) {
            "crash" => cluster.crash(words.replica(1)),
            "start" => cluster.boot(words.replica(1)),
            "rejoin" => cluster.rejoin(words.replica(1), 1),
            "isolate" => {
                let alone = words.replica(1);
                cluster.network.partition(|slot| usize::from(slot == alone));
            }
            "cut" => cluster.network.link(words.replica(1), words.replica(2)).cut = true,
            "heal" => cluster.network.heal(),
            "slow" => {
                let micros = words.number("to").expect("to=millis") * 1_000;
                let link = cluster.network.link(words.replica(1), words.replica(2));
                link.delay = (micros, micros);
            }
            "trace" => cluster.trace.on = words.at(1) == "on",
            "liar" => cluster.slots[words.replica(1)].faulty = true,
            "send" => forged::send(cluster, words.at(1), words.replica(2), words.replica(3)),
            other => panic!("no such command: {other}"),
        }
    }

    fn create(&mut self, words: &Words<'_>) {
        words.only(&[
            "protocol",
            "second_vote",
            "pacemaker",
            "leader",
            "form",
            "delta",
            "replicas",
            "snapshots",
            "inline",
            "ahead",
            "patience",
        ]);
        let kind = |name| Kind::NAMES.into_iter().find(|(known, _)| *known == name);
        let rules = words.value("protocol").unwrap_or("hotstuff-chained");
        let defaults = Config::default();
        let config = Config {
            rules: rules::named(rules).expect("a protocol"),
            second_vote: words.is_set("second_vote"),
            pacemaker: words
                .value("pacemaker")
                .map_or(defaults.pacemaker, |name| kind(name).expect("a pacemaker").1),
            election: words
                .value("leader")
                .map_or(defaults.election, |name| Election::named(name).expect("an election")),
            forms: words.value("form").map_or(defaults.forms, forms),
            delta: words.number("delta").map_or(defaults.delta, |millis| millis * 1_000),
            replicas: words.number("replicas").map_or(defaults.replicas, |count| count as usize),
            snapshot_blocks: words.number("snapshots").unwrap_or(defaults.snapshot_blocks),
            retire: words.number("snapshots").is_some(),
            log_room_bytes: 0,
            inline_bytes: words.number("inline").map_or(defaults.inline_bytes, |n| n as usize),
            dissemination: match words.is_set("ahead") {
                true => Dissemination::Ahead,
                false => defaults.dissemination,
            },
            client_patience: words.number("patience").unwrap_or(60_000) * 1_000,
            ..defaults
        };
        let usual = config.link;
        let greeting = Config { link: Link::steady(0), ..config };
        let cluster = Cluster::traced(greeting, Trace::on());
        *self = Self { cluster, meddling: Vec::new() };
        self.cluster.trace.on = false;
        // Where the lock is the newest certificate there is nothing to show.
        self.cluster.trace.shows_locks = self.cluster.config.rules.facts().certificates > 2;
        self.cluster.run_for(0);
        self.cluster.network.set_all(|link| *link = usual);
        self.cluster.config.link = usual;
        self.cluster.trace.on = true;
    }

    fn request(&mut self, words: &Words<'_>) {
        words.only(&["to", "relay", "commands"]);
        let targets = match words.value("to") {
            None => Targets::All,
            Some(to) => Targets::One { replica: replica(to), relay: words.is_set("relay") },
        };
        self.cluster.turn_client_to(0, targets);
        self.cluster.request(0, words.number("commands").unwrap_or(1), 1);
    }

    fn run(&mut self, words: &Words<'_>) -> String {
        if let Some(millis) = words.only(&["for"]).number("for") {
            self.cluster.run_for(millis * 1_000);
            return String::new();
        }
        let silent = |cluster: &Cluster| cluster.in_flight() == 0 && !cluster.has_timer();
        let fell_silent = self.cluster.run_until(60_000_000, silent);
        if fell_silent { "(silence)\n" } else { "(still busy)\n" }.into()
    }

    fn meddle(&mut self, words: &Words<'_>) {
        words.only(&["of", "from", "to", "by"]);
        let mut new = Meddling {
            kind: words.at(1).to_owned(),
            of: words.number("of").map(View),
            from: words.value("from").map(replica),
            to: words.value("to").map_or(Vec::new(), |to| to.split(',').map(replica).collect()),
            deed: Deed::Lose,
        };
        match words.at(0) {
            "delay" => new.deed = Deed::Delay { millis: words.number("by").expect("by=millis") },
            "equivocate" => {
                let liar = words.replica(1);
                self.cluster.slots[liar].faulty = true;
                (new.kind, new.from) = ("proposals".into(), Some(liar));
                new.deed = Deed::Equivocate;
            }
            _ if new.kind == "nothing" => self.meddling.clear(),
            _ => {}
        }
        self.meddling.push(new);
        let all = self.meddling.clone();
        self.cluster.meddler = Some(Box::new(move |from, to, peer| {
            let done = all.iter().find(|meddling| meddling.concerns(from, to, peer));
            done.map_or(Fate::Goes, |meddling| meddling.deed.fate(peer))
        }));
    }
}

impl Script for OfHotStuff {
    fn command(&mut self, line: &str) -> String {
        let words = Words::new(line);
        let mut said = String::new();
        match words.at(0) {
            "cluster" => self.create(&words),
            "request" => self.request(&words),
            "run" => said = self.run(&words),
            "answered" => {
                let within = words.only(&["within"]).number("within").unwrap_or(10_000);
                let done = self.cluster.run_until_answered(within * 1_000);
                said.push_str(if done { "(all answered)\n" } else { "(not all answered)\n" });
            }
            "lose" | "delay" | "equivocate" => self.meddle(&words),
            "status" => said = status(&self.cluster),
            _ => self.disturb(&words),
        }
        for line in self.cluster.trace.take_together() {
            let _ = writeln!(said, "{line}");
        }
        said
    }
}

impl Meddling {
    fn concerns(&self, from: usize, to: usize, peer: &Peer) -> bool {
        let (kind, view) = match peer {
            PeerMessage::Protocol { message, .. } => (message.kind(), Some(message.view())),
            PeerMessage::Relay(_) => ("relay", None),
            PeerMessage::Held(_) => ("told", None),
            _ => return false,
        };
        self.kind.strip_suffix('s').unwrap_or(&self.kind) == kind
            && self.of.is_none_or(|of| Some(of) == view)
            && self.from.is_none_or(|sender| sender == from)
            && (self.to.is_empty() || self.to.contains(&to))
    }
}

impl Deed {
    fn fate(self, peer: &Peer) -> Fate {
        match self {
            Self::Lose => Fate::Lost,
            Self::Delay { millis } => Fate::Late(millis * 1_000),
            Self::Equivocate => {
                other_proposal(peer).map_or(Fate::Goes, |other| Fate::Bent(Box::new(other)))
            }
        }
    }
}

/// The same proposal without its commands.
fn other_proposal(peer: &Peer) -> Option<Peer> {
    let PeerMessage::Protocol { message: Message::Proposal { block, tc }, .. } = peer else {
        return None;
    };
    let content = Content { frames: Vec::new(), ..Content::clone(block) };
    let block = Arc::new(Block::new(content));
    Some(PeerMessage::of(Message::Proposal { block, tc: tc.clone() }))
}

/// In which forms votes and time-outs are kept: no threshold scheme makes one of the latter.
fn forms(name: &str) -> (Form, Form) {
    match name {
        "list" => (Form::List, Form::List),
        "aggregate" => (Form::Aggregate, Form::Aggregate),
        "threshold" => (Form::Threshold, Form::Aggregate),
        other => panic!("no such form: {other}"),
    }
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
