//! From configuration to the parts of the protocol.

use std::sync::Arc;

use quorate_core::base::crypto::Scheme;
use quorate_core::base::membership::CommitteeError;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::{Kind, Timing, Waits};
use quorate_core::protocols::hotstuff::{Settings, rules};
use quorate_core::replica::Ancestors;

use crate::config::{
    Cluster, LeaderName, Node, PacemakerName, SchemeName, SentAncestors, TimeoutKind, ViewTimeout,
    VoteRoute, VoteVerification,
};

/// The protocol that all replicas of a cluster agreed on, with the timing left at its default.
///
/// # Panics
/// Never: every name of configuration is that of rules (tested).
#[must_use]
pub fn agreed(cluster: &Cluster) -> Settings {
    let Some(rules) = rules::named(cluster.protocol.name()) else {
        unreachable!("every name of configuration is that of rules")
    };
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

/// The same with what each replica decides by itself.
#[must_use]
pub fn tuned(cluster: &Cluster, node: &Node) -> Settings {
    Settings {
        timing: timing(&node.view_timeout),
        delta: node.view_timeout.delta,
        verify_each_vote: node.laboratory.verify_votes == VoteVerification::OneByOne,
        ..agreed(cluster)
    }
}

/// What the replicas' signatures are bound to.
///
/// # Errors
/// [`CommitteeError`] if the members make no committee; never for a cluster that was loaded.
pub fn domain(cluster: &Cluster) -> Result<Domain, CommitteeError> {
    Ok(agreed(cluster).domain(cluster.committee()?))
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

/// What signatures are checked with: clients' and replicas'.
///
/// # Panics
/// Never for a cluster that was loaded or made: its keys were checked.
#[must_use]
pub fn scheme(cluster: &Cluster) -> Arc<dyn Scheme> {
    match cluster.scheme() {
        Ok(scheme) => Arc::new(scheme),
        Err(error) => unreachable!("the keys of a cluster are checked before it is used: {error}"),
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
