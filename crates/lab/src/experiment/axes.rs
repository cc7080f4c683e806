//! What may differ between the runs of a study: one line an axis.

use std::collections::BTreeMap;

use quorate_core::ReplicaId;
use quorate_node::config::{
    AuthenticationName, ByteSize, Combination, Durability, LeaderName, PacemakerName, ProtocolName,
    SchemeName, VoteRoute,
};
use quorate_node::testnet;
use quorate_transport::TransportName;
use serde::{Deserialize, Serialize};

use super::network::NetworkName;
use super::value::{
    ArrivalName, Attack, Kill, Many, Name, PopularityName, Rate, SendTo, Size, WorkloadName,
    Written,
};

macro_rules! axes {
    ($($(#[$doc:meta])* $key:ident: $type:ty = $default:expr,)*) => {
        /// Values to try, of each axis. What a study leaves out is as by default.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Grid {
            $($(#[$doc])* pub $key: Option<Many<$type>>,)*
            /// Keys of `node.toml`, as in `set."view_timeout.base" = "500ms"`.
            #[serde(default)]
            pub set: BTreeMap<String, Many<Plain>>,
        }

        /// One value of each axis.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Point {
            /// The study's name for what is special about it; empty if nothing is.
            pub variant: String,
            $($(#[$doc])* pub $key: $type,)*
            /// Keys of `node.toml`.
            pub set: BTreeMap<String, Plain>,
        }

        impl Default for Point {
            fn default() -> Self {
                Self { variant: String::new(), $($key: $default,)* set: BTreeMap::new() }
            }
        }

        impl Grid {
            /// This, where it says something, and `base` where it does not.
            #[must_use]
            pub fn over(&self, base: &Self) -> Self {
                let mut set = base.set.clone();
                set.extend(self.set.clone());
                Self { $($key: self.$key.clone().or_else(|| base.$key.clone()),)* set }
            }

            /// Every permutation, the last axis fastest.
            #[must_use]
            pub fn points(&self) -> Vec<Point> {
                let mut points = vec![Point::default()];
                $(if let Some(Many(values)) = &self.$key {
                    points = cross(&points, values, |point, value| point.$key = value.clone());
                })*
                for (key, Many(values)) in &self.set {
                    points = cross(&points, values, |point, value| {
                        point.set.insert(key.clone(), value.clone());
                    });
                }
                points
            }
        }

        /// The axes' names, `variant` first; keys of `node.toml` come on top.
        pub const AXES: &[&str] = &["variant", $(stringify!($key)),*];
    };
}

/// What a study runs that does not say: what the literature measures against. Chosen once, so that
/// studies keep their meaning whatever clusters are made of by default.
const BASE: Combination = Combination {
    protocol: ProtocolName::HotstuffChained,
    votes: VoteRoute::NextLeader,
    second_vote: false,
    pacemaker: PacemakerName::TimeoutCertificates,
    leader: LeaderName::RoundRobin,
    signatures: SchemeName::Ed25519,
    authentication: AuthenticationName::Signatures,
};

axes!(
    /// The protocol that orders the blocks.
    protocol: Name<ProtocolName> = Name(BASE.protocol),
    /// To whom votes go.
    votes: Name<VoteRoute> = Name(BASE.votes),
    /// Whether a block is voted for once more when its certificate is there.
    second_vote: bool = BASE.second_vote,
    /// How a view is left whose leader does not lead.
    pacemaker: Name<PacemakerName> = Name(BASE.pacemaker),
    /// Who leads.
    leader: Name<LeaderName> = Name(BASE.leader),
    /// The replica that leads, if that is fixed.
    fixed_leader: u16 = 0,
    /// What is signed with.
    signatures: Name<SchemeName> = Name(BASE.signatures),
    /// By what it is known who says something.
    authentication: Name<AuthenticationName> = Name(BASE.authentication),
    /// What replicas reach each other by.
    transport: Name<TransportName> = Name(TransportName::Tcp),
    /// Replicas.
    replicas: usize = 4,
    /// Most commands in a block.
    batch: u32 = 400,
    /// Bytes of a command's value; 0: commands without a byte.
    payload: Size = Written(ByteSize(0)),
    /// What a vote waits for.
    durability: Name<Durability> = Name(Durability::Sync),
    /// Commands a second; closed: as soon as there is room.
    rate: Rate = Rate::Closed,
    /// How an open loop's commands arrive.
    arrivals: ArrivalName = ArrivalName::Even,
    /// Processes that make the load.
    client_processes: u32 = 1,
    /// Client sessions, of all processes together.
    clients: u32 = 8,
    /// Frames of a session in flight; 0: 4 in a closed loop, 32 in an open one.
    outstanding: u32 = 0,
    /// Most commands in a frame; 0: a quarter of the batch.
    frame: u32 = 0,
    /// To whom frames go.
    send_to: SendTo = SendTo::All,
    /// What the commands do: `set` writes random keys, `exchange` also answers what was there,
    /// `ycsb-a` to `ycsb-f` are YCSB's; `opaque` is bytes without a meaning, for the ordering
    /// application.
    workload: WorkloadName = WorkloadName::Set,
    /// Of YCSB's workloads, which keys are asked for more often.
    popularity: PopularityName = PopularityName::Usual,
    /// How many different keys are written, or records there are.
    keys: u64 = 100_000,
    /// What Byzantine replicas do, and when.
    adversary: Written<Attack> = Written(Attack(None)),
    /// How many replicas are Byzantine, if there is an adversary; they stand evenly among the
    /// others. 0: as many as are tolerated.
    liars: usize = 0,
    /// Which replica is killed for good, and when.
    kill: Written<Kill> = Written(Kill::None),
    /// Cores that replicas and clients share; 0: all of the machine's.
    cores: usize = 0,
    /// The emulated network that replicas and clients are in; loopback: none.
    network: NetworkName = NetworkName::default(),
);

/// A plain value of TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Plain {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

fn cross<T>(points: &[Point], values: &[T], set: impl Fn(&mut Point, &T)) -> Vec<Point> {
    let one = |point: &Point, value: &T| {
        let mut point = point.clone();
        set(&mut point, value);
        point
    };
    points
        .iter()
        .flat_map(|point| values.iter().map(move |value| (point, value)))
        .map(|(point, value)| one(point, value))
        .collect()
}

impl Point {
    /// That combination, and the rest by default.
    #[must_use]
    pub fn of(combination: Combination) -> Self {
        let Combination {
            protocol,
            votes,
            second_vote,
            pacemaker,
            leader,
            signatures,
            authentication,
        } = combination;
        Self {
            protocol: Name(protocol),
            votes: Name(votes),
            second_vote,
            pacemaker: Name(pacemaker),
            leader: Name(leader),
            signatures: Name(signatures),
            authentication: Name(authentication),
            ..Self::default()
        }
    }

    /// The choices that make up the protocol.
    #[must_use]
    pub fn combination(&self) -> Combination {
        Combination {
            protocol: self.protocol.0,
            votes: self.votes.0,
            second_vote: self.second_vote,
            pacemaker: self.pacemaker.0,
            leader: self.leader.0,
            signatures: self.signatures.0,
            authentication: self.authentication.0,
        }
    }

    /// How many replicas may fail in any way.
    #[must_use]
    pub fn tolerated(&self) -> usize {
        quorate_core::base::membership::faults(self.replicas)
    }

    /// The Byzantine replicas: evenly placed, so that rotation meets them evenly.
    #[must_use]
    pub fn liars(&self) -> Vec<usize> {
        if self.adversary.0.0.is_none() {
            return Vec::new();
        }
        let count = if self.liars == 0 { self.tolerated() } else { self.liars };
        (0..count).map(|index| index * self.replicas / count.max(1)).collect()
    }

    /// Commands in a frame.
    #[must_use]
    pub fn frame_commands(&self) -> u32 {
        if self.frame > 0 { self.frame } else { (self.batch / 4).max(1) }
    }

    /// Frames of a session in flight.
    #[must_use]
    pub fn frames_in_flight(&self) -> u32 {
        match (self.outstanding, self.rate) {
            (0, Rate::Closed) => 4,
            (0, Rate::PerSecond(_)) => 32,
            (frames, _) => frames,
        }
    }

    /// Whether replicas must be laboratory ones.
    #[must_use]
    pub fn needs_laboratory(&self) -> bool {
        self.combination().needs_laboratory()
            || self.adversary.0.0.is_some()
            || self.set.keys().any(|key| key.starts_with("laboratory."))
    }

    /// The cluster that it is measured on.
    #[must_use]
    pub fn testnet_options(&self) -> testnet::Options {
        testnet::Options {
            chain: "experiment".to_owned(),
            combination: self.combination(),
            fixed_leader: (self.leader.0 == LeaderName::Fixed)
                .then_some(ReplicaId(self.fixed_leader)),
            laboratory: self.needs_laboratory(),
            transport: self.transport.0,
            batch_commands: Some(self.batch),
            durability: self.durability.0,
            application: self.workload.application(),
            ..testnet::Options::default()
        }
    }

    /// The value of an axis, or of a key of `node.toml`, as people read it.
    #[must_use]
    pub fn text(&self, axis: &str) -> Option<String> {
        if let Some(plain) = self.set.get(axis) {
            return Some(plain.to_string());
        }
        let value = serde_json::to_value(self).ok()?;
        match value.get(axis)? {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Object(_) | serde_json::Value::Null => None,
            // A rate of 2000 is not one of 2000.0.
            serde_json::Value::Number(number) => Some(number.as_f64()?.to_string()),
            other => Some(other.to_string()),
        }
    }

    /// The value of an axis as a number, if it is one; sizes in bytes.
    #[must_use]
    pub fn number(&self, axis: &str) -> Option<f64> {
        match axis {
            "payload" => Some(self.payload.0.0 as f64),
            _ => self.text(axis)?.parse().ok(),
        }
    }
}
