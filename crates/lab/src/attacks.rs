//! Floods by one client or one peer against a cluster of processes under honest load, one after the
//! other.
//!
//! Each [`Flood`] is a file in `floods`; its head says what it attacks and what answers it.
//! [`Attacks`] measures the honest throughput before, while the flood lasts, and after, and the
//! memory of the processes attacked; it tries meanwhile what an attack of its kind would keep
//! others from: new sessions, status, pulls, a replica's return.
//!
//! The flood is a process of its own at a low priority: it shares the machine with its victims, so
//! that processor time which the attacker spends would count as damage otherwise. It comes from an
//! address of its own (`target::SOURCE`), as an attacker would.

mod floods;
mod gateway;
mod honest;
mod row;
mod run;
mod target;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use row::{AttackRow, Phase};
pub use run::{AttackError, Attacks, Phases};
pub use target::Target;

/// What a client's flood does until it is dropped.
pub type Doing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who floods.
#[derive(Clone, Copy)]
pub enum By {
    /// A client, or whoever reaches a port.
    Client(fn(Arc<Target>) -> Doing),
    /// A replica, with this adversary ([`quorate_adversary::named`]).
    Peer(&'static str),
}

/// What honest parties use meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The replicas' ports for clients.
    Replicas,
    /// A gateway, which is attacked.
    Gateway,
}

/// What is tried while a flood lasts, beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Nothing more.
    Load,
    /// Replicas are asked for their status.
    Status,
    /// Decided blocks are pulled.
    Pull,
    /// A replica is killed, comes back, and reaches the others.
    Return,
}

/// One attack.
#[derive(Clone, Copy)]
pub struct Flood {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a few words.
    pub does: &'static str,
    /// Who does it.
    pub by: By,
    /// What honest parties use.
    pub through: Through,
    /// What is tried beside the load.
    pub trial: Trial,
    /// Whether replicas reach each other over UDP.
    pub udp: bool,
    /// Whether an administrator grants the flood's key a rate before it begins.
    pub has_rate: bool,
}

impl Flood {
    /// A client's flood on the replicas.
    const fn by_client(
        name: &'static str,
        does: &'static str,
        act: fn(Arc<Target>) -> Doing,
    ) -> Self {
        let (by, through, trial) = (By::Client(act), Through::Replicas, Trial::Load);
        Self { name, does, by, through, trial, udp: false, has_rate: false }
    }

    /// A client's flood on a gateway.
    const fn on_gateway(
        name: &'static str,
        does: &'static str,
        act: fn(Arc<Target>) -> Doing,
    ) -> Self {
        Self { through: Through::Gateway, ..Self::by_client(name, does, act) }
    }

    /// A replica's flood.
    const fn by_peer(adversary: &'static str, does: &'static str) -> Self {
        let (by, through, trial) = (By::Peer(adversary), Through::Replicas, Trial::Load);
        Self { name: adversary, does, by, through, trial, udp: false, has_rate: false }
    }

    /// Least share of the throughput before that honest clients keep while it lasts. A rate bounds
    /// what a flood takes of the replicas.
    #[must_use]
    pub fn least_share(&self) -> f64 {
        if self.has_rate { row::LEAST_SHARE_BESIDE_A_RATE } else { row::LEAST_SHARE }
    }

    const fn granted_a_rate(self) -> Self {
        Self { has_rate: true, ..self }
    }

    const fn with(self, trial: Trial) -> Self {
        Self { trial, ..self }
    }
}

/// Every flood, in the order in which they are measured.
pub const ALL: &[Flood] = &[
    floods::half_open::CLIENTS,
    floods::half_open::PEERS,
    floods::slow_loris::FLOOD,
    floods::bad_signatures::FLOOD,
    floods::beyond_rate::CLIENT,
    floods::beyond_rate::DEAF,
    floods::junk_frames::FLOOD,
    floods::replayed_frames::FLOOD,
    floods::long_frames::FLOOD,
    floods::unread_answers::FLOOD,
    floods::patterns::FLOOD,
    floods::pull_slots::FLOOD,
    floods::verified_reads::FLOOD,
    floods::http_slots::FLOOD,
    floods::command_docs::FLOOD,
    floods::web_page::FLOOD,
    floods::made_up_addresses::FLOOD,
    Flood::by_peer("junk-to-verify", "frames whose signatures do not hold, by a replica"),
    Flood::by_peer("future-views", "votes, time-outs and proposals of views far ahead"),
    Flood::by_peer("time-out-spammer", "500 time-outs a second"),
    Flood::by_peer("replayer", "old messages, and old signatures under other statements"),
    Flood::by_peer("block-requests", "requests for blocks, bodies and chunks without end"),
    Flood::by_peer("unsolicited-chunks", "chunks and bodies that nobody asked for"),
];

/// The flood of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Flood> {
    ALL.iter().find(|flood| flood.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_have_names_of_their_own_and_peers_have_adversaries() {
        for (at, flood) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != flood.name), "{}", flood.name);
            if let By::Peer(adversary) = flood.by {
                assert!(quorate_adversary::named(adversary).is_some(), "{adversary}");
            }
        }
    }

    /// The threat model names the flood of each row that has one, and no other.
    #[test]
    fn the_threat_model_names_every_flood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("THREAT_MODEL.md")).unwrap();
        let named: std::collections::BTreeSet<&str> = text
            .split("`make attack` ")
            .skip(1)
            .flat_map(|rest| rest.split('|').next().unwrap().split('`').skip(1).step_by(2))
            .filter(|name| !name.contains('/') && !name.contains(':'))
            .collect();
        let all: std::collections::BTreeSet<&str> = ALL.iter().map(|flood| flood.name).collect();
        assert_eq!(named, all);
    }
}
