//! The one place where a replica's protocol is made from configuration.
//!
//! A [`Family`] is chosen by `cluster.toml`; everything behind it is generic over the protocol.
//! Code that needs the protocol's types is written once as a [`Job`], and [`Family::run`] does it
//! for the family at hand.

use std::sync::Arc;

use quorate_core::base::crypto::{Check, Form, Scheme, Share, ShareKeys, Signature};
use quorate_core::base::membership::CommitteeError;
use quorate_core::client::decided::{Decided, Follow};
use quorate_core::client::proven::Proofs;
use quorate_core::client::succession::{Follower, Succession};
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::{Kind, Timing, Waits};
use quorate_core::protocols::hotstuff::rules::Facts;
use quorate_core::protocols::hotstuff::{self, HotStuff, Settings, rules};
use quorate_core::protocols::pbft::{self, Authentication, Patience, Pbft};
use quorate_core::protocols::protocol::{Capability, Origin, Protocol, Types};
use quorate_core::protocols::sequencer::{self, Sequencer};
use quorate_core::protocols::snow::snowman::{self, Snowman};
use quorate_core::protocols::two_delay::{self, TwoDelay};
use quorate_core::replica::{Ancestors, Dissemination};
use quorate_core::{Committee, Height, ReplicaId};
use quorate_crypto::MembersScheme;

use crate::config::{
    AuthenticationName, Cluster, DisseminationName, LeaderName, LivenessName, Node, PacemakerName,
    ProtocolName, SchemeName, SentAncestors, TimeoutKind, ViewTimeout, VoteRoute, VoteVerification,
};

/// What a replica runs.
#[derive(Clone, Debug)]
pub enum Family {
    /// A variant of HotStuff.
    HotStuff(Settings),
    /// PBFT.
    Pbft(pbft::Settings),
    /// Snowman.
    Snowman(snowman::Settings),
    /// One leader that all believe: for the laboratory.
    Sequencer,
    /// Two message delays: for the laboratory.
    TwoDelay(two_delay::Patience),
}

/// How the protocol of a family is made.
pub trait Build: Clone + Send + Sync + 'static {
    /// Its words.
    type Types: Types;
    /// What a replica runs.
    type Protocol: Protocol<Types = Self::Types> + Send + 'static;

    /// What a replica's data begins with.
    fn origin(&self, committee: &Committee) -> Origin<Self::Types>;

    /// The same with the randomness of this replica, which nobody else may know, if it needs any.
    ///
    /// # Errors
    /// The system gives none.
    fn seeded(self) -> std::io::Result<Self>
    where
        Self: Sized,
    {
        Ok(self)
    }

    /// The protocol of replica `me`.
    fn protocol(self, committee: Committee, me: ReplicaId) -> Self::Protocol;

    /// What the evidence of its replicas is checked by.
    fn verifier(&self, committee: Committee) -> <Self::Protocol as Protocol>::Verifier;

    /// What an adversary needs to know of the protocol, if there are adversaries for it.
    fn attacked(&self, committee: &Committee) -> Option<Attacked> {
        let _ = committee;
        None
    }
}

/// What an adversary needs to know of the protocol that it attacks.
#[derive(Clone, Debug)]
pub enum Attacked {
    /// What HotStuff's signatures are bound to, and the variant.
    HotStuff(Domain, &'static Facts),
    /// What PBFT's signatures are bound to.
    Pbft(pbft::Domain),
}

/// Something that is done for any family.
pub trait Job {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<B: Build>(self, build: B) -> Self::Output;
}

impl Build for Settings {
    type Types = hotstuff::Types;
    type Protocol = HotStuff;

    fn origin(&self, committee: &Committee) -> Origin<hotstuff::Types> {
        hotstuff::origin(&self.domain(committee.clone()))
    }

    fn protocol(self, committee: Committee, me: ReplicaId) -> HotStuff {
        HotStuff::new(committee, me, self)
    }

    fn verifier(&self, committee: Committee) -> hotstuff::verifier::Verifier {
        hotstuff::verifier::Verifier::new(self.domain(committee), self.rules.facts())
    }

    fn attacked(&self, committee: &Committee) -> Option<Attacked> {
        Some(Attacked::HotStuff(self.domain(committee.clone()), self.rules.facts()))
    }
}

impl Build for pbft::Settings {
    type Types = pbft::Types;
    type Protocol = Pbft;

    fn origin(&self, committee: &Committee) -> Origin<pbft::Types> {
        pbft::origin(committee, self.window)
    }

    fn protocol(self, committee: Committee, me: ReplicaId) -> Pbft {
        Pbft::new(committee, me, self)
    }

    fn verifier(&self, committee: Committee) -> pbft::Domain {
        pbft::Domain::new(committee, self.authentication)
    }

    fn attacked(&self, committee: &Committee) -> Option<Attacked> {
        Some(Attacked::Pbft(self.verifier(committee.clone())))
    }
}

impl Build for snowman::Settings {
    type Types = snowman::Types;
    type Protocol = Snowman;

    fn origin(&self, committee: &Committee) -> Origin<snowman::Types> {
        snowman::origin(committee, self.fallback)
    }

    fn protocol(self, committee: Committee, me: ReplicaId) -> Snowman {
        Snowman::new(committee, me, self)
    }

    /// Whoever could foretell its samples could prepare answers for them.
    fn seeded(self) -> std::io::Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self { seed: u64::from_le_bytes(seed), ..self })
    }

    fn verifier(&self, committee: Committee) -> snowman::Domain {
        self.domain(committee)
    }
}

/// Makes a [`Sequencer`].
#[derive(Clone, Copy)]
struct Sequencers;

impl Build for Sequencers {
    type Types = sequencer::Types;
    type Protocol = Sequencer;

    fn origin(&self, committee: &Committee) -> Origin<sequencer::Types> {
        sequencer::origin(committee)
    }

    fn protocol(self, committee: Committee, me: ReplicaId) -> Sequencer {
        Sequencer::new(committee, me)
    }

    fn verifier(&self, committee: Committee) -> sequencer::Believer {
        sequencer::Believer(committee)
    }
}

impl Build for two_delay::Patience {
    type Types = two_delay::Types;
    type Protocol = TwoDelay;

    fn origin(&self, committee: &Committee) -> Origin<two_delay::Types> {
        two_delay::origin(committee)
    }

    fn protocol(self, committee: Committee, me: ReplicaId) -> TwoDelay {
        TwoDelay::new(committee, me, self)
    }

    fn verifier(&self, committee: Committee) -> two_delay::Domain {
        two_delay::Domain::new(committee)
    }
}

/// A client asks for what the cluster's protocol cannot give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lacking {
    /// The protocol lacks it.
    #[error("`protocol = \"{protocol}\"` has no {wanted}; use one of the HotStuff family")]
    Capability {
        /// The protocol.
        protocol: &'static str,
        /// What was asked for.
        wanted: Capability,
    },
    /// The members make no committee.
    #[error(transparent)]
    Committee(#[from] CommitteeError),
}

impl Family {
    /// What all replicas of a cluster agreed on, with the timing left at its default.
    ///
    /// # Panics
    /// Never: every name of configuration is that of a protocol (tested).
    #[must_use]
    pub fn agreed(cluster: &Cluster) -> Self {
        let name = cluster.protocol.name();
        match rules::named(name) {
            Some(rules) => Self::HotStuff(hotstuff(cluster, rules)),
            None if name == pbft::NAME => Self::Pbft(pbft::Settings {
                authentication: match cluster.authentication {
                    AuthenticationName::Signatures => Authentication::Signatures,
                    AuthenticationName::Macs | AuthenticationName::MacsToClients => {
                        Authentication::Macs
                    }
                },
                tentative: cluster.tentative,
                ..pbft::Settings::default()
            }),
            None if name == snowman::NAME => Self::Snowman(snowman::Settings {
                parameters: cluster.sampling.parameters(),
                fallback: match cluster.liveness {
                    LivenessName::Sampling => None,
                    LivenessName::Frosty => Some(snowman::Fallback::default()),
                },
                ..snowman::Settings::default()
            }),
            None if name == sequencer::NAME => Self::Sequencer,
            None if name == two_delay::NAME => Self::TwoDelay(two_delay::Patience::default()),
            None => unreachable!("every name of configuration is that of a protocol"),
        }
    }

    /// The same with what each replica decides by itself.
    #[must_use]
    pub fn tuned(cluster: &Cluster, node: &Node) -> Self {
        match Self::agreed(cluster) {
            Self::HotStuff(settings) => Self::HotStuff(Settings {
                timing: timing(&node.view_timeout),
                delta: node.view_timeout.delta,
                verify_each_vote: node.laboratory.verify_votes == VoteVerification::OneByOne,
                ..settings
            }),
            Self::Pbft(settings) => {
                let ViewTimeout { base, max, .. } = node.view_timeout;
                Self::Pbft(pbft::Settings { patience: Patience { base, max }, ..settings })
            }
            Self::Snowman(settings) => Self::Snowman(settings),
            Self::Sequencer => Self::Sequencer,
            Self::TwoDelay(_) => {
                let ViewTimeout { base, max, .. } = node.view_timeout;
                Self::TwoDelay(two_delay::Patience { base, max })
            }
        }
    }

    /// Does something for the family.
    pub fn run<J: Job>(self, job: J) -> J::Output {
        match self {
            Self::HotStuff(settings) => job.run(settings),
            Self::Pbft(settings) => job.run(settings),
            Self::Snowman(settings) => job.run(settings),
            Self::Sequencer => job.run(Sequencers),
            Self::TwoDelay(patience) => job.run(patience),
        }
    }
}

/// What a cluster's verified reads are checked by.
///
/// # Errors
/// [`Lacking`] if the cluster's protocol has none.
pub fn proofs(cluster: &Cluster) -> Result<Arc<dyn Proofs>, Lacking> {
    proofs_of(cluster, cluster.committee()?)
}

/// The same where the members are by now those of `committee`.
///
/// # Errors
/// [`Lacking`] if the cluster's protocol has none.
pub fn proofs_of(cluster: &Cluster, committee: Committee) -> Result<Arc<dyn Proofs>, Lacking> {
    struct Read(Committee);
    impl Job for Read {
        type Output = Option<Arc<dyn Proofs>>;
        fn run<B: Build>(self, build: B) -> Self::Output {
            let can = B::Protocol::CAPABILITIES.contains(&Capability::VerifiedReads);
            can.then(|| Arc::new(build.verifier(self.0)) as _)
        }
    }
    let (protocol, wanted) = (cluster.protocol.name(), Capability::VerifiedReads);
    let found = Family::agreed(cluster).run(Read(committee));
    found.ok_or(Lacking::Capability { protocol, wanted })
}

/// Whether a cluster's clients may [read by an index](crate::client::Client::read).
///
/// # Errors
/// [`Lacking`] if the cluster's protocol has none.
pub fn read_index(cluster: &Cluster) -> Result<(), Lacking> {
    struct Has;
    impl Job for Has {
        type Output = bool;
        fn run<B: Build>(self, _: B) -> bool {
            B::Protocol::CAPABILITIES.contains(&Capability::ReadIndex)
        }
    }
    let (protocol, wanted) = (cluster.protocol.name(), Capability::ReadIndex);
    let has = Family::agreed(cluster).run(Has);
    has.then_some(()).ok_or(Lacking::Capability { protocol, wanted })
}

/// What follows the blocks that the committee of an epoch decides, from height `from` on.
///
/// # Errors
/// [`Lacking`] if the blocks of the cluster's protocol prove nothing.
pub fn follow(
    cluster: &Cluster,
    committee: Committee,
    from: Height,
) -> Result<Box<dyn Follow>, Lacking> {
    struct Pull(Committee, Height);
    impl Job for Pull {
        type Output = Option<Box<dyn Follow>>;
        fn run<B: Build>(self, build: B) -> Self::Output {
            let can = B::Protocol::CAPABILITIES.contains(&Capability::Pull);
            can.then(|| Box::new(Decided::new(build.verifier(self.0), self.1)) as _)
        }
    }
    let (protocol, wanted) = (cluster.protocol.name(), Capability::Pull);
    let found = Family::agreed(cluster).run(Pull(committee, from));
    found.ok_or(Lacking::Capability { protocol, wanted })
}

/// What follows the committees of a cluster, from the first one on.
///
/// # Panics
/// Never for a cluster that was loaded: it holds a committee.
#[must_use]
pub fn follower(cluster: &Cluster) -> Box<dyn Follower> {
    struct Succeed(Committee);
    impl Job for Succeed {
        type Output = Box<dyn Follower>;
        fn run<B: Build>(self, build: B) -> Self::Output {
            let make = move |committee: &Committee| build.verifier(committee.clone());
            Box::new(Succession::new(&self.0, Box::new(make)))
        }
    }
    match cluster.committee() {
        Ok(committee) => Family::agreed(cluster).run(Succeed(committee)),
        Err(error) => unreachable!("a cluster's members are checked before it is used: {error}"),
    }
}

fn hotstuff(cluster: &Cluster, rules: &'static dyn rules::Rules) -> Settings {
    Settings {
        pacemaker: match cluster.pacemaker {
            PacemakerName::TimeoutCertificates => Kind::TimeoutCertificates,
            PacemakerName::Linear => Kind::Linear,
        },
        election: match cluster.leader {
            LeaderName::Fixed => Election::Fixed(cluster.fixed_leader),
            LeaderName::RoundRobin => Election::RoundRobin,
            LeaderName::Carousel => Election::Carousel,
            LeaderName::Reputation => Election::Reputation,
        },
        vote_form: cluster.signatures.vote_form(),
        time_out_form: cluster.signatures.time_out_form(),
        broadcast_votes: cluster.votes == VoteRoute::Broadcast,
        second_vote: cluster.second_vote,
        ..Settings::new(rules)
    }
}

/// How the payload reaches the other replicas.
#[must_use]
pub fn dissemination(name: DisseminationName) -> Dissemination {
    match name {
        DisseminationName::Direct => Dissemination::Direct,
        DisseminationName::Ahead => Dissemination::Ahead,
    }
}

/// Which uncommitted ancestors travel with a proposal.
#[must_use]
pub fn ancestors(sent: SentAncestors) -> Ancestors {
    match sent {
        SentAncestors::None => Ancestors::None,
        SentAncestors::Missing => Ancestors::Missing,
        SentAncestors::All => Ancestors::All,
    }
}

fn timing(view_timeout: &ViewTimeout) -> Timing {
    let ViewTimeout { base, max, .. } = *view_timeout;
    let multiplier_percent = (view_timeout.multiplier * 100.0) as u32;
    match view_timeout.kind {
        TimeoutKind::Fixed => Timing::Fixed { base },
        TimeoutKind::Exponential => Timing::Exponential { base, multiplier_percent, max },
        TimeoutKind::Adaptive => {
            Timing::Adaptive(Waits { base, multiplier_percent, max, ..Waits::default() })
        }
    }
}

/// Whether replicas sign the outcomes that they tell clients.
#[must_use]
pub fn signs_outcomes(cluster: &Cluster) -> bool {
    // The other protocols have no choice: their outcomes are authenticated by the channel.
    cluster.protocol == ProtocolName::Pbft
        && cluster.authentication != AuthenticationName::MacsToClients
}

/// What signatures are checked with: clients' and replicas'.
///
/// # Panics
/// Never for a cluster that was loaded or made: its keys were checked.
#[must_use]
pub fn scheme(cluster: &Cluster) -> Arc<dyn Scheme> {
    if let (true, Ok(committee)) = (cluster.is_governed(), cluster.committee()) {
        return Arc::new(ByKey::new(committee));
    }
    match cluster.scheme() {
        Ok(scheme) => Arc::new(scheme),
        Err(error) => unreachable!("the keys of a cluster are checked before it is used: {error}"),
    }
}

/// The same where the members are by now those of `committee`.
#[must_use]
pub fn scheme_of(cluster: &Cluster, committee: &Committee) -> Arc<dyn Scheme> {
    match cluster.is_governed() {
        true => Arc::new(ByKey::new(committee.clone())),
        false => scheme(cluster),
    }
}

/// Checks signatures of an epoch's members by the keys that its committee names. A replica resolves
/// them itself, since it knows the committees of all epochs.
pub struct ByKey {
    committee: Committee,
    scheme: MembersScheme,
}

impl ByKey {
    /// Of the members of `committee`.
    #[must_use]
    pub fn new(committee: Committee) -> Self {
        Self { committee, scheme: MembersScheme::default() }
    }
}

impl Scheme for ByKey {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let by_key = checks.iter().cloned().map(|check| self.committee.by_key(check));
        self.scheme.verify(&by_key.collect::<Vec<_>>())
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        match self.committee.shares() {
            Some(keys) => self.scheme.combine_by(keys, form, shares),
            None => self.scheme.combine(form, shares),
        }
    }

    fn combine_by(&self, keys: &ShareKeys, form: Form, shares: &[Share]) -> Option<Signature> {
        self.scheme.combine_by(keys, form, shares)
    }
}

/// Most signatures that are worth the deciding thread's time when nothing else waits: handing so
/// many over would take as long.
#[must_use]
pub fn inline_checks(cluster: &Cluster) -> usize {
    match cluster.signatures {
        SchemeName::Ed25519 => 4,
        SchemeName::None => usize::MAX,
        _ => 0,
    }
}
