//! Arguments that several commands share.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use quorate_core::ReplicaId;
use quorate_node::config::{
    Application, AuthenticationName, Choices, Cluster, Combination, Durability, Finding,
    FlagSetting, LeaderName, LivenessName, PacemakerName, Place, ProtocolName, SamplingName,
    SchemeName, VoteRoute,
};
use quorate_node::family::read_index;
use quorate_node::testnet;
pub use quorate_service::arguments::{HomeArgument, SettingArguments};
use quorate_transport::TransportName;

use crate::failure::{Exit, Failure};

/// How commands that only read are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadsName {
    /// By a read index: what was answered to anybody before is read, and nothing is ordered.
    Index,
    /// Ordered, like writes.
    Ordered,
}

/// Whether reads are answered by an index; without a name, where the cluster's protocol has one.
pub fn reads_by_index(cluster: &Cluster, name: Option<ReadsName>) -> Result<bool, Failure> {
    match (name, read_index(cluster)) {
        (Some(ReadsName::Ordered), _) | (None, Err(_)) => Ok(false),
        (_, Ok(())) => Ok(true),
        (Some(ReadsName::Index), Err(lacking)) => {
            let place = Place::Flag("--reads index".to_owned());
            let remedy = "say --reads ordered: such reads are linearizable as well".to_owned();
            let what = lacking.to_string();
            Err(Failure::new(Exit::Usage, Finding { what, place, remedy }))
        }
    }
}

/// What orders the blocks of a cluster that is made, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Protocol")]
pub struct ChoiceArguments {
    /// The protocol that orders the blocks. Default: hotstuff-two-chain.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(ProtocolName::NAMES, ProtocolName::named))]
    protocol: Option<ProtocolName>,
    /// How replicas leave a view whose leader does not lead. Default: timeout-certificates.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(PacemakerName::NAMES, PacemakerName::named))]
    pacemaker: Option<PacemakerName>,
    /// Who leads a view. Default: carousel; round-robin with --signatures bls12-381-threshold.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(LeaderName::NAMES, LeaderName::named))]
    leader: Option<LeaderName>,
    /// The replica that leads with --leader fixed. Default: 0.
    #[arg(long, value_name = "ID")]
    fixed_leader: Option<u16>,
    /// How Snowman samples: later-practice (k = 20, alpha = 15, beta = 20), paper (k = 10,
    /// alpha = 8, beta = 150) or snowflake-plus (k = 80, alpha = 72, beta = 12). An option of
    /// --protocol snowman. Default: later-practice.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(SamplingName::NAMES, SamplingName::named))]
    sampling: Option<SamplingName>,
    /// What Snowman does where polls decide nothing for long: sampling goes on polling, frosty has
    /// a quorum decide. An option of --protocol snowman. Default: sampling.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(LivenessName::NAMES, LivenessName::named))]
    liveness: Option<LivenessName>,
    /// What replicas sign votes and time-outs with. Default: ed25519.
    #[arg(long, value_name = "SCHEME")]
    #[arg(value_parser = scheme())]
    signatures: Option<SchemeName>,
    /// By what it is known who says something; macs and macs-to-clients are options of pbft.
    /// Default: macs-to-clients with pbft, else signatures.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(AuthenticationName::NAMES, AuthenticationName::named))]
    authentication: Option<AuthenticationName>,
    /// Answer a message delay earlier, when a block is prepared; an option of --protocol pbft.
    #[arg(long)]
    tentative: bool,
    /// To whom votes go; broadcast is an option of hotstuff-two-chain, and its default up to 50
    /// replicas. Default otherwise: next-leader.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = named(VoteRoute::NAMES, VoteRoute::named))]
    votes: Option<VoteRoute>,
    /// Whether to vote once more for a block whose certificate is there; an option of --votes
    /// broadcast, and the default with it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    second_vote: Option<bool>,
    /// What replicas reach each other by: TLS over TCP, QUIC, or DTLS over UDP. Clients use TLS
    /// over TCP with any.
    #[arg(long, value_name = "NAME", default_value = TransportName::Tcp.name())]
    #[arg(value_parser = named(TransportName::NAMES, TransportName::named))]
    transport: TransportName,
    /// Make replicas for experiments (laboratory.enabled): --signatures none needs it.
    #[arg(long)]
    laboratory: bool,
}

impl ChoiceArguments {
    /// The choices that make up the protocol of `replicas` replicas.
    pub fn combination(&self, replicas: usize) -> Combination {
        let choices = Choices {
            protocol: self.protocol,
            votes: self.votes,
            second_vote: self.second_vote,
            pacemaker: self.pacemaker,
            leader: self.leader,
            signatures: self.signatures,
            authentication: self.authentication,
        };
        choices.among(replicas)
    }

    /// The choices as keys of `cluster.toml`, each with its flag. A choice left open has no key.
    pub fn said(&self) -> Vec<FlagSetting> {
        let bool = |value: bool| value.then(|| "true".to_owned());
        let text = |name: &dyn std::fmt::Display| name.to_string();
        let said = [
            ("protocol", self.protocol.map(|it| text(&it))),
            ("pacemaker", self.pacemaker.map(|it| text(&it))),
            ("leader", self.leader.map(|it| text(&it))),
            ("fixed_leader", self.fixed_leader.map(|it| text(&it))),
            ("sampling", self.sampling.map(|it| text(&it))),
            ("liveness", self.liveness.map(|it| text(&it))),
            ("signatures", self.signatures.map(|it| text(&it))),
            ("authentication", self.authentication.map(|it| text(&it))),
            ("tentative", bool(self.tentative)),
            ("votes", self.votes.map(|it| text(&it))),
            ("second_vote", self.second_vote.map(|it| text(&it))),
            ("transport", Some(text(&self.transport))),
        ];
        let said = said.into_iter().filter_map(|(key, value)| Some((key, value?)));
        said.map(|(key, value)| FlagSetting {
            flag: format!("--{}", key.replace('_', "-")),
            key: key.to_owned(),
            value,
        })
        .collect()
    }

    /// What replicas reach each other by.
    #[cfg(feature = "laboratory")]
    pub fn transport(&self) -> TransportName {
        self.transport
    }

    /// The protocol of `replicas` replicas, and what differs from the default.
    #[cfg(feature = "laboratory")]
    pub fn described(&self, replicas: usize) -> String {
        described(&self.combination(replicas), self.transport)
    }

    /// A cluster of `replicas` replicas and these choices, by default for the rest.
    pub fn options(&self, replicas: usize) -> testnet::Options {
        testnet::Options {
            combination: self.combination(replicas),
            fixed_leader: self.fixed_leader.map(ReplicaId),
            sampling: self.sampling,
            tentative: self.tentative,
            liveness: self.liveness,
            transport: self.transport,
            laboratory: self.laboratory,
            ..testnet::Options::default()
        }
    }
}

/// The protocol, and what differs from the default.
pub fn described(combination: &Combination, transport: TransportName) -> String {
    match transport {
        TransportName::Tcp => combination.to_string(),
        other => format!("{combination}, transport {other}"),
    }
}

/// Reads the name of a signature scheme.
pub fn scheme() -> impl TypedValueParser<Value = SchemeName> {
    PossibleValuesParser::new(SchemeName::ALL.map(SchemeName::as_str))
        .try_map(|name| name.parse::<SchemeName>())
}

/// Reads the name of an application.
pub fn application() -> impl TypedValueParser<Value = Application> {
    named(Application::NAMES, Application::named)
}

/// Reads what a vote waits for.
pub fn durability() -> impl TypedValueParser<Value = Durability> {
    named(Durability::NAMES, Durability::named)
}

fn named<T: Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
    find: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names)
        .try_map(move |name| find(&name).ok_or_else(|| format!("no such name: {name}")))
}

/// A switch with two positions that people name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SendTo {
    /// Every frame to every replica: no replica can hold it back.
    All,
    /// Every frame to one replica, which passes it on.
    One,
}

/// Reads a number of seconds, up to a year.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let fits = (0.0..=31_536_000.0).contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds))
        .ok_or_else(|| "must be from 0 to 31536000 seconds".to_owned())
}
