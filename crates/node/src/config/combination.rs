//! What goes with what: the choices of `cluster.toml` that do not work together, in one table.
//!
//! Loading, `testnet init`, benchmarks and `docs/protocols/combinations.md` all ask this module.

use std::fmt;

use quorate_core::ReplicaId;
use quorate_crypto::SchemeName;

use super::choice::{
    AuthenticationName, LeaderName, LivenessName, PacemakerName, ProtocolName, SamplingName,
    VoteRoute,
};
use super::finding::{Finding, Place};

/// The choices that make up a protocol, each possible by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Combination {
    /// What orders the blocks.
    pub protocol: ProtocolName,
    /// To whom votes go.
    pub votes: VoteRoute,
    /// Whether a replica that holds a block's certificate votes for it once more.
    pub second_vote: bool,
    /// How a view is left whose leader does not lead.
    pub pacemaker: PacemakerName,
    /// Who leads.
    pub leader: LeaderName,
    /// What is signed with.
    pub signatures: SchemeName,
    /// By what it is known who says something.
    pub authentication: AuthenticationName,
}

/// The same with some left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// See [`Combination::protocol`].
    pub protocol: Option<ProtocolName>,
    /// See [`Combination::votes`].
    pub votes: Option<VoteRoute>,
    /// See [`Combination::second_vote`].
    pub second_vote: Option<bool>,
    /// See [`Combination::pacemaker`].
    pub pacemaker: Option<PacemakerName>,
    /// See [`Combination::leader`].
    pub leader: Option<LeaderName>,
    /// See [`Combination::signatures`].
    pub signatures: Option<SchemeName>,
    /// See [`Combination::authentication`].
    pub authentication: Option<AuthenticationName>,
}

/// Votes are broadcast by default among so many replicas. Each replica handles n of them a view
/// then: a delay less while that is cheap. Beyond, n² messages a view cost more than the delay.
pub const BROADCAST_TO: usize = 50;

impl Choices {
    /// Among `replicas` replicas, what is left open as by default: the fastest that is safe, and
    /// that goes with what is chosen.
    #[must_use]
    pub fn among(&self, replicas: usize) -> Combination {
        let protocol = self.protocol.unwrap_or(ProtocolName::HotstuffTwoChain);
        let signatures = self.signatures.unwrap_or(SchemeName::Ed25519);
        let is_two_chain = protocol == ProtocolName::HotstuffTwoChain;
        let is_second = self.second_vote == Some(true);
        let votes = self.votes.unwrap_or(match is_two_chain {
            true if is_second || replicas <= BROADCAST_TO => VoteRoute::Broadcast,
            _ => VoteRoute::NextLeader,
        });
        Combination {
            protocol,
            votes,
            second_vote: self.second_vote.unwrap_or(is_two_chain && votes == VoteRoute::Broadcast),
            pacemaker: self.pacemaker.unwrap_or(PacemakerName::TimeoutCertificates),
            leader: self.leader.unwrap_or(match signatures {
                // Its certificates name no signers.
                SchemeName::BlsThreshold => LeaderName::RoundRobin,
                _ => LeaderName::Carousel,
            }),
            signatures,
            authentication: self.authentication.unwrap_or(match protocol {
                // Nothing is lost by it: what convinces third parties is signed all the same.
                ProtocolName::Pbft => AuthenticationName::MacsToClients,
                _ => AuthenticationName::Signatures,
            }),
        }
    }
}

impl Default for Combination {
    /// That of a small cluster of which nothing else is said.
    fn default() -> Self {
        Choices::default().among(1)
    }
}

/// The protocol, and what differs from the default with it.
impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, votes) = (Some(self.protocol), Some(self.votes));
        let small = Choices { protocol, ..Choices::default() }.among(1);
        let usual =
            Choices { protocol, votes, signatures: Some(self.signatures), ..Choices::default() };
        let usual = usual.among(1);
        f.write_str(self.protocol.name())?;
        if self.votes != small.votes {
            write!(f, ", votes {}", self.votes)?;
        }
        if self.second_vote != usual.second_vote {
            f.write_str(if self.second_vote { ", second votes" } else { ", no second votes" })?;
        }
        if self.pacemaker != usual.pacemaker {
            write!(f, ", pacemaker {}", self.pacemaker)?;
        }
        if self.leader != usual.leader {
            write!(f, ", leader {}", self.leader)?;
        }
        if self.signatures != small.signatures {
            write!(f, ", signatures {}", self.signatures)?;
        }
        if self.authentication != usual.authentication {
            write!(f, ", authentication {}", self.authentication)?;
        }
        Ok(())
    }
}

/// Something that is wrong, or doubtful, with some combinations.
pub struct Rule {
    /// The key of `cluster.toml` that is to blame.
    pub key: &'static str,
    /// What is wrong and why, naming the key.
    pub reason: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    applies: fn(&Combination) -> bool,
}

/// What cannot work.
pub static REFUSED: [Rule; 5] = [
    Rule {
        key: "votes",
        reason: "`votes = \"broadcast\"` is an option of `protocol = \"hotstuff-two-chain\"`: in the others \
                 the next leader alone makes certificates",
        remedy: "set protocol = \"hotstuff-two-chain\", or leave out votes",
        applies: |choice| choice.votes == VoteRoute::Broadcast && !choice.is_two_chain(),
    },
    Rule {
        key: "second_vote",
        reason: "`second_vote = true` is an option of `protocol = \"hotstuff-two-chain\"`: the others have no \
                 rule for it",
        remedy: "set protocol = \"hotstuff-two-chain\" and votes = \"broadcast\", or leave out second_vote",
        applies: |choice| choice.second_vote && !choice.is_two_chain(),
    },
    Rule {
        key: "second_vote",
        reason: "`second_vote = true` needs `votes = \"broadcast\"`: without it the next leader alone holds \
                 the certificate that the second vote is for",
        remedy: "set votes = \"broadcast\", or leave out second_vote",
        applies: |choice| {
            choice.second_vote && choice.is_two_chain() && choice.votes != VoteRoute::Broadcast
        },
    },
    Rule {
        key: "authentication",
        reason: "`authentication = \"macs\"` and `\"macs-to-clients\"` are options of `protocol = \"pbft\"`: \
                 the others put votes into certificates, which have to convince replicas that the votes were \
                 not sent to, and a MAC convinces nobody but its receiver",
        remedy: "set protocol = \"pbft\", or leave out authentication",
        applies: |choice| {
            choice.authentication != AuthenticationName::Signatures
                && choice.protocol != ProtocolName::Pbft
        },
    },
    Rule {
        key: "leader",
        reason: "`leader = \"carousel\"` and `\"reputation\"` do not go with \
                 `signatures = \"bls12-381-threshold\"`: they elect leaders from the signers of \
                 certificates, and threshold certificates name none",
        remedy: "set leader = \"round-robin\" or \"fixed\", or signatures = \"bls12-381\"",
        applies: |choice| {
            matches!(choice.leader, LeaderName::Carousel | LeaderName::Reputation)
                && choice.signatures == SchemeName::BlsThreshold
        },
    },
];

/// What works, and should be known before it is relied on.
pub static WARNED: [Rule; 5] = [
    Rule {
        key: "protocol",
        reason: "`protocol` is \"snowman\": its safety is probabilistic: two correct replicas may decide \
                 differently, with a small probability while fewer than a fifth lie; a replica that lost \
                 its data cannot come back, and there are no verified reads and no `pull`",
        remedy: "set protocol = \"hotstuff-two-chain\" where a third may lie, or where these are needed",
        applies: |choice| choice.protocol == ProtocolName::Snowman,
    },
    Rule {
        key: "protocol",
        reason: "`protocol` is \"laboratory-sequencer\": replica 0 orders, all believe it, and no fault is tolerated",
        remedy: "set protocol = \"hotstuff-two-chain\", unless this is an experiment",
        applies: |choice| choice.protocol == ProtocolName::LaboratorySequencer,
    },
    Rule {
        key: "protocol",
        reason: "`protocol` is \"laboratory-two-delay\": it has been in no real use; a replica that lost its \
                 data cannot come back, and there are no verified reads and no `pull`",
        remedy: "set protocol = \"hotstuff-two-chain\", unless this is an experiment",
        applies: |choice| choice.protocol == ProtocolName::LaboratoryTwoDelay,
    },
    Rule {
        key: "leader",
        reason: "`leader` is \"fixed\": there is no progress after its death",
        remedy: "set leader = \"round-robin\", unless this is an experiment",
        applies: |choice| choice.leader == LeaderName::Fixed,
    },
    Rule {
        key: "signatures",
        reason: "`signatures` is \"none\": any replica may speak for all others",
        remedy: "use it where nothing is at stake, to learn what signatures cost",
        applies: |choice| choice.signatures == SchemeName::None,
    },
];

impl Combination {
    /// The protocols whose parts can be chosen: the HotStuff family. PBFT, Snowman and the
    /// laboratory's protocols have no pacemaker, leaders or routes of votes to choose.
    pub fn protocols() -> impl Iterator<Item = &'static ProtocolName> {
        let without = [
            ProtocolName::Pbft,
            ProtocolName::Snowman,
            ProtocolName::LaboratorySequencer,
            ProtocolName::LaboratoryTwoDelay,
        ];
        ProtocolName::ALL.iter().filter(move |name| !without.contains(name))
    }

    /// Every combination there is, those that are refused among them.
    pub fn all() -> impl Iterator<Item = Self> {
        let protocols = Self::protocols();
        let voting = protocols.flat_map(|&protocol| {
            VoteRoute::ALL.iter().flat_map(move |&votes| {
                [false, true].map(|second_vote| (protocol, votes, second_vote))
            })
        });
        voting.flat_map(|(protocol, votes, second_vote)| {
            PacemakerName::ALL.iter().flat_map(move |&pacemaker| {
                LeaderName::ALL.iter().flat_map(move |&leader| {
                    SchemeName::ALL.iter().map(move |&signatures| Self {
                        protocol,
                        votes,
                        second_vote,
                        pacemaker,
                        leader,
                        signatures,
                        authentication: AuthenticationName::Signatures,
                    })
                })
            })
        })
    }

    /// Why it cannot work; `None`: it can.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        self.refused().next().map(|rule| rule.reason)
    }

    /// Every rule it breaks.
    pub fn refused(&self) -> impl Iterator<Item = &'static Rule> {
        REFUSED.iter().filter(|rule| (rule.applies)(self))
    }

    /// Every doubt about it.
    pub fn warned(&self) -> impl Iterator<Item = &'static Rule> {
        WARNED.iter().filter(|rule| (rule.applies)(self))
    }

    /// Whether a replica takes part only with `laboratory.enabled` in its `node.toml`.
    #[must_use]
    pub fn needs_laboratory(&self) -> bool {
        self.laboratory().is_some()
    }

    /// What is for the laboratory alone, if anything: its key, its value and what to choose
    /// instead.
    pub(crate) fn laboratory(&self) -> Option<(&'static str, &'static str, &'static str)> {
        if self.protocol == ProtocolName::LaboratorySequencer {
            let instead = "choose a protocol that tolerates faults";
            return Some(("protocol", self.protocol.name(), instead));
        }
        if self.protocol == ProtocolName::LaboratoryTwoDelay {
            let instead = "choose a protocol that is not an experiment";
            return Some(("protocol", self.protocol.name(), instead));
        }
        (self.signatures == SchemeName::None).then_some((
            "signatures",
            "none",
            "choose a scheme that signs",
        ))
    }

    fn is_two_chain(&self) -> bool {
        self.protocol == ProtocolName::HotstuffTwoChain
    }
}

impl Rule {
    /// As a finding at the place of its key.
    #[must_use]
    pub fn finding(&self, place: Place) -> Finding {
        Finding::new(self.reason, place, self.remedy)
    }
}

/// What is wrong with a leader that was named: nobody asks for one, or there is none such.
#[must_use]
pub fn fixed_leader_refusal(
    leader: LeaderName,
    fixed: ReplicaId,
    replicas: usize,
) -> Option<(String, &'static str)> {
    if leader != LeaderName::Fixed {
        let what = format!("`fixed_leader` is set, but `leader` is \"{leader}\"");
        return Some((what, "set leader = \"fixed\", or leave out fixed_leader"));
    }
    (fixed.index() >= replicas).then(|| {
        let what = format!("`fixed_leader` is {fixed}, but there are {replicas} replicas");
        (what, "name one of the replicas; their ids begin at 0")
    })
}

/// What is wrong with tentative answers that were asked for: the protocol gives none.
#[must_use]
pub fn tentative_refusal(protocol: ProtocolName) -> Option<(String, &'static str)> {
    (protocol != ProtocolName::Pbft).then(|| {
        let what = format!("`tentative` is true, but `protocol` is \"{protocol}\"");
        (what, "set protocol = \"pbft\", or leave out tentative")
    })
}

/// What is wrong with parameters of samples that were named: nobody takes samples.
#[must_use]
pub fn sampling_refusal(protocol: ProtocolName) -> Option<(String, &'static str)> {
    (protocol != ProtocolName::Snowman).then(|| {
        let what = format!("`sampling` is set, but `protocol` is \"{protocol}\"");
        (what, "set protocol = \"snowman\", or leave out sampling")
    })
}

/// What is wrong with a fallback that was named: nobody samples, or samples decide with fewer
/// replicas than it counts on.
#[must_use]
pub fn liveness_refusal(
    protocol: ProtocolName,
    liveness: LivenessName,
    sampling: SamplingName,
    replicas: usize,
) -> Option<(String, &'static str)> {
    if protocol != ProtocolName::Snowman {
        let what = format!("`liveness` is set, but `protocol` is \"{protocol}\"");
        return Some((what, "set protocol = \"snowman\", or leave out liveness"));
    }
    let parameters = sampling.parameters();
    let asks_all = replicas <= parameters.sample as usize + 1;
    if liveness == LivenessName::Sampling || asks_all || parameters.is_for_fallback() {
        return None;
    }
    let what = format!(
        "`liveness` is \"{liveness}\", but with `sampling = \"{sampling}\"` polls of {replicas} replicas \
         succeed with {} of {}: the fallback counts on nine tenths",
        parameters.quorum, parameters.sample
    );
    Some((what, "set sampling = \"snowflake-plus\", or leave out liveness"))
}
