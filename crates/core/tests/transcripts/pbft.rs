//! The commands of a script of PBFT: those of `script.rs` that are not HotStuff's own, and
//!
//! | command | what it does |
//! |---|---|
//! | `cluster [authentication=macs] [replicas=4] [window=64] [every=32] [under_way=8] [tentative=0]` | starts replicas anew; a block is one frame, a view is waited for 100 ms |
//! | `sessions` | three clients open their sessions, and all falls silent |
//! | `request [client=0]` | a client wants a command executed |
//! | `lose prepares [of=height] [from=r0] [to=r1]` | messages of a kind are lost from now on: `pre-prepares`, `prepares`, `commits`, `checkpoints`, `view-changes`, `new-views` |

use std::fmt::Write as _;

use quorate_core::Duration;
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, Message, Patience, Settings};
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;

use crate::cluster::family::Pbfts;
use crate::cluster::network::{Fate, Link};
use crate::cluster::trace::Trace;
use crate::cluster::{Cluster, Config, Peer};
use crate::words::{Script, Words, replica};

/// A script at work.
pub struct OfPbft {
    cluster: Cluster<Pbfts>,
    lost: Vec<Lost>,
}

/// Messages that are lost.
#[derive(Clone, Debug)]
struct Lost {
    kind: String,
    of: Option<u64>,
    from: Option<usize>,
    to: Vec<usize>,
}

impl OfPbft {
    pub fn new() -> Self {
        Self { cluster: Cluster::of(Config::default(), Trace::default()), lost: Vec::new() }
    }

    fn create(&mut self, words: &Words<'_>) {
        let known = ["authentication", "replicas", "window", "every", "under_way", "tentative"];
        words.only(&known);
        let authentication = match words.value("authentication").unwrap_or("macs") {
            "macs" => Authentication::Macs,
            "signatures" => Authentication::Signatures,
            other => panic!("no such authentication: {other}"),
        };
        let base = Duration::from_millis(100);
        let defaults = Settings::default();
        let pbft = Settings {
            authentication,
            window: words.number("window").unwrap_or(defaults.window),
            checkpoint_every: words.number("every").unwrap_or(defaults.checkpoint_every),
            under_way: words.number("under_way").unwrap_or(defaults.under_way),
            tentative: words.number("tentative") == Some(1),
            patience: Patience { base, max: base * 64 },
        };
        let defaults = Config::default();
        let config = Config {
            pbft,
            replicas: words.number("replicas").map_or(defaults.replicas, |count| count as usize),
            clients: 3,
            batch_commands: 1,
            client_patience: 60_000_000,
            relay_after: 60_000_000,
            ..defaults
        };
        let usual = config.link;
        let greeting = Config { link: Link::steady(0), ..config };
        *self = Self { cluster: Cluster::of(greeting, Trace::on()), lost: Vec::new() };
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
        let silent = |cluster: &Cluster<Pbfts>| cluster.in_flight() == 0 && !cluster.has_timer();
        let fell_silent = self.cluster.run_until(60_000_000, silent);
        if fell_silent { "(silence)\n" } else { "(still busy)\n" }.into()
    }

    fn lose(&mut self, words: &Words<'_>) {
        words.only(&["of", "from", "to"]);
        let new = Lost {
            kind: words.at(1).to_owned(),
            of: words.number("of"),
            from: words.value("from").map(replica),
            to: words.value("to").map_or(Vec::new(), |to| to.split(',').map(replica).collect()),
        };
        match new.kind.as_str() {
            "nothing" => self.lost.clear(),
            _ => self.lost.push(new),
        }
        let all = self.lost.clone();
        self.cluster.meddler = Some(Box::new(move |from, to, peer| {
            match all.iter().any(|lost| lost.concerns(from, to, peer)) {
                true => Fate::Lost,
                false => Fate::Goes,
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
            "trace" => cluster.trace.on = words.at(1) == "on",
            other => panic!("no such command: {other}"),
        }
    }
}

impl Script for OfPbft {
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
            "lose" => self.lose(&words),
            "status" => said = status(&self.cluster),
            _ => self.disturb(&words),
        }
        for line in self.cluster.trace.take_together() {
            let _ = writeln!(said, "{line}");
        }
        said
    }
}

/// The plural of a message's kind, and its height.
fn kind(message: &Message) -> (&'static str, Option<u64>) {
    match message {
        Message::PrePrepare { block, .. } => ("pre-prepares", Some(block.height.0)),
        Message::Vote { vote, .. } => match vote.phase {
            Phase::Prepare => ("prepares", Some(vote.height.0)),
            Phase::Commit => ("commits", Some(vote.height.0)),
        },
        Message::Checkpoint { checkpoint, .. } => ("checkpoints", Some(checkpoint.height.0)),
        Message::Stable(stable) => ("checkpoints", Some(stable.checkpoint.height.0)),
        Message::ViewChange(_) => ("view-changes", None),
        Message::NewView { .. } => ("new-views", None),
        Message::Standing(_) => ("standings", None),
    }
}

impl Lost {
    fn concerns(&self, from: usize, to: usize, peer: &Peer<Pbfts>) -> bool {
        let PeerMessage::Protocol { message, .. } = peer else { return false };
        let (kind, height) = kind(message);
        self.kind == kind
            && self.of.is_none_or(|of| height == Some(of))
            && self.from.is_none_or(|sender| sender == from)
            && (self.to.is_empty() || self.to.contains(&to))
    }
}

fn status(cluster: &Cluster<Pbfts>) -> String {
    let mut lines = String::new();
    for (id, slot) in cluster.slots.iter().enumerate() {
        let Some(core) = &slot.core else {
            let _ = writeln!(lines, "r{id}: down");
            continue;
        };
        let status = core.protocol().status();
        let (view, committed) = (status.view, status.committed);
        let _ = write!(lines, "r{id}: view {view}, height {committed}");
        for (name, value) in status.details {
            let _ = write!(lines, ", {} {value}", name.replace('_', " "));
        }
        lines.push('\n');
    }
    lines
}
