//! The commands of a script of the protocol of two delays: those of `script.rs` that are not
//! HotStuff's own, and
//!
//! | command | what it does |
//! |---|---|
//! | `cluster [replicas=4]` | starts replicas anew; a block is one frame, a view is waited for 100 ms |
//! | `sessions` | three clients open their sessions, and all falls silent |
//! | `request [client=0]` | a client wants a command executed |
//! | `lose firsts [of=view] [from=r0] [to=r1]` | messages of a kind are lost from now on: `proposals`, `firsts`, `fallbacks`, `seconds`, `time-outs`, `standings` |
//! | `equivocate r2 to=r0,r1` | a liar: these get a block without commands in its proposals |

use std::fmt::Write as _;
use std::sync::Arc;

use quorate_core::ReplicaId;
use quorate_core::ledger::block::Block;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::protocols::two_delay::words::Content;
use quorate_core::protocols::two_delay::{Domain, Message};
use quorate_core::replica::message::PeerMessage;

use crate::cluster::family::TwoDelays;
use crate::cluster::keys::{committee, replica_seal};
use crate::cluster::network::{Fate, Link};
use crate::cluster::trace::Trace;
use crate::cluster::{Cluster, Config, Peer};
use crate::words::{Script, Words, replica};

/// A script at work.
pub struct OfTwoDelays {
    cluster: Cluster<TwoDelays>,
    deeds: Vec<Deed>,
}

/// What becomes of messages: they are lost, or proposals are of another block.
#[derive(Clone, Debug)]
struct Deed {
    kind: String,
    of: Option<u64>,
    from: Option<usize>,
    to: Vec<usize>,
    is_lie: bool,
}

impl OfTwoDelays {
    pub fn new() -> Self {
        Self { cluster: Cluster::of(Config::default(), Trace::default()), deeds: Vec::new() }
    }

    fn create(&mut self, words: &Words<'_>) {
        words.only(&["replicas"]);
        let defaults = Config::default();
        let config = Config {
            replicas: words.number("replicas").map_or(defaults.replicas, |count| count as usize),
            clients: 3,
            batch_commands: 1,
            client_patience: 60_000_000,
            relay_after: 60_000_000,
            ..defaults
        };
        let usual = config.link;
        let greeting = Config { link: Link::steady(0), ..config };
        *self = Self { cluster: Cluster::of(greeting, Trace::on()), deeds: Vec::new() };
        self.cluster.trace.on = false;
        self.cluster.run_for(0);
        self.cluster.network.set_all(|link| *link = usual);
        self.cluster.config.link = usual;
        self.cluster.trace.on = true;
    }

    fn run(&mut self, words: &Words<'_>) -> String {
        if let Some(millis) = words.only(&["for"]).number("for") {
            self.cluster.run_for(millis * 1_000);
            return String::new();
        }
        let silent =
            |cluster: &Cluster<TwoDelays>| cluster.in_flight() == 0 && !cluster.has_timer();
        let fell_silent = self.cluster.run_until(60_000_000, silent);
        if fell_silent { "(silence)\n" } else { "(still busy)\n" }.into()
    }

    fn meddle(&mut self, words: &Words<'_>) {
        words.only(&["of", "from", "to"]);
        let mut deed = Deed {
            kind: words.at(1).to_owned(),
            of: words.number("of"),
            from: words.value("from").map(replica),
            to: words.value("to").map_or(Vec::new(), |to| to.split(',').map(replica).collect()),
            is_lie: words.at(0) == "equivocate",
        };
        if deed.is_lie {
            let liar = words.replica(1);
            self.cluster.slots[liar].faulty = true;
            (deed.kind, deed.from) = ("proposals".into(), Some(liar));
        }
        match deed.kind.as_str() {
            "nothing" => self.deeds.clear(),
            _ => self.deeds.push(deed),
        }
        let (all, domain) = (self.deeds.clone(), Domain::new(committee(self.cluster.slots.len())));
        self.cluster.meddler = Some(Box::new(move |from, to, peer| {
            match all.iter().find(|deed| deed.concerns(from, to, peer)) {
                Some(deed) if deed.is_lie => another(&domain, from, peer),
                Some(_) => Fate::Lost,
                None => Fate::Goes,
            }
        }));
    }

    fn disturb(&mut self, words: &Words<'_>) {
        let cluster = &mut self.cluster;
        match words.only(&[]).at(0) {
            "crash" => cluster.crash(words.replica(1)),
            "start" => cluster.boot(words.replica(1)),
            "isolate" => {
                let alone = words.replica(1);
                cluster.network.partition(|slot| usize::from(slot == alone));
            }
            "heal" => cluster.network.heal(),
            other => panic!("no such command: {other}"),
        }
    }
}

/// The proposal of another block, without commands, signed like this one.
fn another(domain: &Domain, from: usize, peer: &Peer<TwoDelays>) -> Fate<TwoDelays> {
    let PeerMessage::Protocol { epoch, message, .. } = peer else { return Fate::Goes };
    let Message::Proposal { block, decided, .. } = message else { return Fate::Goes };
    let content = Content { frames: Vec::new(), ..(***block).clone() };
    let (block, decided) = (Arc::new(Block::new(content)), decided.clone());
    let statement = domain.vote(Phase::First, block.view, Some(&block.id()));
    let signature = replica_seal(ReplicaId(from as u16), statement.as_bytes());
    let message = Message::Proposal { block, signature, decided };
    Fate::Bent(Box::new(PeerMessage::Protocol { epoch: *epoch, message, frames: Vec::new() }))
}

impl Script for OfTwoDelays {
    fn command(&mut self, line: &str) -> String {
        let words = Words::new(line);
        let mut said = String::new();
        match words.at(0) {
            "cluster" => self.create(&words),
            "sessions" => {
                self.cluster.trace.on = false;
                (0..3).for_each(|client| self.cluster.request(client, 1, 1));
                assert!(self.cluster.run_until_answered(10_000_000), "no sessions");
                said = self.run(&Words::new("run"));
                self.cluster.trace.on = true;
            }
            "request" => {
                let client = words.only(&["client"]).number("client").unwrap_or(0);
                self.cluster.request(client as usize, 1, 1);
            }
            "run" => said = self.run(&words),
            "answered" => {
                let done = self.cluster.run_until_answered(10_000_000);
                said.push_str(if done { "(all answered)\n" } else { "(not all answered)\n" });
            }
            "lose" | "equivocate" => self.meddle(&words),
            "status" => said = status(&self.cluster),
            _ => self.disturb(&words),
        }
        for line in self.cluster.trace.take_together() {
            let _ = writeln!(said, "{line}");
        }
        said
    }
}

/// The plural of a message's kind, and its view.
fn kind(message: &Message) -> (&'static str, Option<u64>) {
    match message {
        Message::Proposal { block, .. } => ("proposals", Some(block.view.0)),
        Message::Vote(vote) => {
            let kind = match vote.phase {
                Phase::First => "firsts",
                Phase::Fallback => "fallbacks",
                Phase::Second => "seconds",
            };
            (kind, Some(vote.view.0))
        }
        Message::TimeOut { view, .. } => ("time-outs", Some(view.0)),
        Message::Standing(_) => ("standings", None),
    }
}

impl Deed {
    fn concerns(&self, from: usize, to: usize, peer: &Peer<TwoDelays>) -> bool {
        let PeerMessage::Protocol { message, .. } = peer else { return false };
        let (kind, view) = kind(message);
        self.kind == kind
            && self.of.is_none_or(|of| view == Some(of))
            && self.from.is_none_or(|sender| sender == from)
            && (self.to.is_empty() || self.to.contains(&to))
    }
}

fn status(cluster: &Cluster<TwoDelays>) -> String {
    let mut lines = String::new();
    for (id, slot) in cluster.slots.iter().enumerate() {
        let Some(core) = &slot.core else {
            let _ = writeln!(lines, "r{id}: down");
            continue;
        };
        let status = core.protocol().status();
        let _ = writeln!(lines, "r{id}: view {}, height {}", status.view, status.committed);
    }
    lines
}
