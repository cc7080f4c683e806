//! The settings of a replica for experiments.

use quorate_transport::Versions;

use super::super::choice::{SentAncestors, VoteVerification};
use super::super::schema::{NO_ADVERSARY, Settings};
use crate::accelerator::Costs;
use crate::adversary::Schedule;

/// Switches for experiments. Without `enabled`, all others keep their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laboratory {
    /// Whether this is a laboratory: also what a cluster without signatures asks of a replica.
    pub enabled: bool,
    /// Whether a proposal leaves out what its ancestors hold.
    pub filtering: bool,
    /// Which uncommitted ancestors travel with a proposal.
    pub ancestors: SentAncestors,
    /// Whether a certificate that was verified is remembered, so as not to be verified again.
    pub certificate_cache: bool,
    /// When votes are verified.
    pub verify_votes: VoteVerification,
    /// Whether the UDP transport sends lost packets again.
    pub retransmission: bool,
    /// What signatures cost on an emulated accelerator.
    pub accelerator: Costs,
    /// The adversary between this replica and its links, with its schedule.
    pub adversary: Option<Schedule>,
    /// The versions of the wire protocol that it says it speaks.
    pub versions: Versions,
    /// The newest rules of the application's that it says it supports; `None`: the application's.
    pub newest_rules: Option<u16>,
}

impl Laboratory {
    pub(super) fn from_settings(settings: &Settings) -> Option<Self> {
        Some(Self {
            enabled: settings.bool("laboratory.enabled")?,
            filtering: settings.bool("laboratory.filtering")?,
            ancestors: SentAncestors::named(&settings.text("laboratory.ancestors")?)?,
            certificate_cache: settings.bool("laboratory.certificate_cache")?,
            verify_votes: VoteVerification::named(&settings.text("laboratory.verify_votes")?)?,
            retransmission: settings.bool("laboratory.retransmission")?,
            accelerator: Costs {
                sign: settings.duration("laboratory.accelerator.sign")?.0,
                verify: settings.duration("laboratory.accelerator.verify")?.0,
                latency: settings.duration("laboratory.accelerator.latency")?.0,
            },
            versions: versions(settings).unwrap_or(Versions::PROGRAM),
            newest_rules: match u16::try_from(settings.integer("laboratory.newest_rules")?).ok()? {
                0 => None,
                newest => Some(newest),
            },
            adversary: match settings.text("laboratory.adversary")?.as_str() {
                NO_ADVERSARY => None,
                schedule => Some(schedule.parse().ok()?),
            },
        })
    }
}

/// The versions that this replica says it speaks, if they are a range.
pub(super) fn versions(settings: &Settings) -> Option<Versions> {
    let number = |key, program| match u16::try_from(settings.integer(key)?).ok()? {
        0 => Some(program),
        number => Some(number),
    };
    let program = Versions::PROGRAM;
    let oldest = number("laboratory.oldest_version", program.oldest())?;
    Versions::new(oldest, number("laboratory.newest_version", program.newest())?).ok()
}
