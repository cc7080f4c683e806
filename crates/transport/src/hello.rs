//! The hello: the first frame in each direction. It names the versions of the protocol that its
//! sender speaks, the chain and the role.
//!
//! # Versions are agreed on
//!
//! Each side names a range of versions, and both speak the highest that is in both ranges. Each
//! computes it from the two hellos, so no third message confirms it. Without a common version both
//! sides hang up, and each names both ranges. So replicas of two releases work together as long as
//! their ranges overlap, and an operator upgrades one replica after the other.
//!
//! # The layout of a hello is for ever
//!
//! The hello itself cannot be negotiated: it is what old and new programs must both read. Its
//! layout, integers little-endian, is
//!
//! ```text
//! magic 8 ‖ newest version u16 ‖ oldest version u16 ‖ chain 32 ‖ role u8 ‖ id u16 ‖ later fields
//! ```
//!
//! 1. The fields named here keep their places in all versions. A reader needs no more of them to
//!    agree on a version, or to say why there is none.
//! 2. A later program may add fields behind them. A reader skips these if the sender's newest
//!    version is above its own, and refuses them otherwise: each hello of a version that it knows
//!    has exactly one encoding.
//! 3. Versions 1 and 2 had no range: `magic ‖ version ‖ chain ‖ role ‖ id`. The newest version
//!    stands where these had their only one, so such a program finds another version than its own
//!    and says so. Of its hello a reader takes the version alone: the range from it to it.
//!
//! # Nobody can force an old version
//!
//! The hello passes inside the channel (TLS 1.3, QUIC's TLS 1.3 or DTLS 1.3), whose other side has
//! proved its key. So nobody between two correct replicas can narrow a range, as one could in a
//! negotiation before the keys are exchanged. A replica that lies narrows its own link alone: every
//! version in the range is one that this program speaks safely. A version that turns out to be
//! unsafe leaves the range ([`Versions::PROGRAM`]). A client that pins no key
//! ([`connect_to_anybody`](super::connect_to_anybody)) believes nothing without a proof, in any
//! version.

use std::fmt;
use std::str::FromStr;

use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::{Digest, ReplicaId, planted};

use bytes::Bytes;

use super::counters::{Counters, count};

const MAGIC: [u8; 8] = *b"quorate\x01";
/// The limit of a hello's length; every hello is shorter.
pub(super) const MAX_HELLO_BYTES: usize = 256;
/// The first version whose hello names a range.
const FIRST_RANGE: u16 = 3;

/// A range of versions of the protocol: of everything that follows the hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    oldest: u16,
    newest: u16,
}

/// Why something is no range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected OLDEST-NEWEST, the oldest at least {FIRST_RANGE}, such as 3-4")]
pub struct NoVersions;

impl Versions {
    /// The versions that this program speaks. Version 4 has one message more, by which replicas
    /// tell each other what they hold.
    pub const PROGRAM: Self = Self { oldest: 3, newest: 4 };
    /// The first version in which replicas tell each other what they hold.
    pub const TELLS_HELD: u16 = 4;

    /// From `oldest` to `newest`, both included.
    ///
    /// # Errors
    /// [`NoVersions`] if the range is empty, or has versions whose hello names no range.
    pub fn new(oldest: u16, newest: u16) -> Result<Self, NoVersions> {
        let is_range = FIRST_RANGE <= oldest && oldest <= newest;
        if is_range { Ok(Self { oldest, newest }) } else { Err(NoVersions) }
    }

    /// The oldest one.
    #[must_use]
    pub fn oldest(self) -> u16 {
        self.oldest
    }

    /// The newest one.
    #[must_use]
    pub fn newest(self) -> u16 {
        self.newest
    }

    /// The highest version that is in both ranges.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        let oldest = planted!("older-hello-welcome", 0, self.oldest.max(other.oldest));
        (oldest <= newest).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.oldest, self.newest)
    }
}

impl FromStr for Versions {
    type Err = NoVersions;

    fn from_str(text: &str) -> Result<Self, NoVersions> {
        let (oldest, newest) = text.split_once('-').ok_or(NoVersions)?;
        let number = |text: &str| text.parse().map_err(|_| NoVersions);
        Self::new(number(oldest)?, number(newest)?)
    }
}

/// The role of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A replica, to another replica.
    Peer(ReplicaId),
    /// A client.
    Client,
    /// A replica, to a client.
    Server(ReplicaId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: Versions,
    pub(super) chain: Digest,
    pub(super) role: Role,
}

/// What two hellos came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// The other side's role.
    pub(super) role: Role,
    /// The version that both speak from now on.
    pub(super) version: u16,
}

/// The reason why the other side was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The other side does not speak this protocol at all.
    #[error("does not speak Quorate's protocol")]
    Garbage,
    /// The other side speaks other versions of it.
    #[error(
        "speaks versions {theirs} of the protocol, and this one {ours}: {}",
        remedy(*theirs, *ours)
    )]
    Versions {
        /// What it speaks.
        theirs: Versions,
        /// What this side speaks.
        ours: Versions,
    },
    /// The other side belongs to another chain.
    #[error("belongs to chain {0}")]
    Chain(Digest),
    /// The other side is another participant than expected: a client on the port for replicas, or a
    /// replica with another number.
    #[error("is another kind of participant, or another replica")]
    Role,
}

fn remedy(theirs: Versions, ours: Versions) -> &'static str {
    if theirs.newest < ours.oldest { "upgrade it first" } else { "upgrade this one first" }
}

impl Refusal {
    pub(super) fn count(self, counters: &Counters) {
        count(match self {
            Self::Garbage => &counters.bad_handshake,
            Self::Versions { .. } => &counters.wrong_version,
            Self::Chain(_) => &counters.wrong_chain,
            Self::Role => &counters.wrong_role,
        });
    }
}

impl Hello {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = MAGIC.to_vec();
        self.versions.newest.encode(&mut out);
        self.versions.oldest.encode(&mut out);
        self.chain.encode(&mut out);
        let (role, id) = match self.role {
            Role::Peer(id) => (1u8, id),
            Role::Client => (2, ReplicaId(0)),
            Role::Server(id) => (3, id),
        };
        role.encode(&mut out);
        id.encode(&mut out);
        out.into()
    }

    /// Reads the other side's hello, which must name the chain of this one and a version that both
    /// speak.
    pub(super) fn meet(&self, bytes: Bytes) -> Result<Met, Refusal> {
        let ours = self.versions;
        let mut reader = Reader::new(bytes);
        if reader.array() != Ok(MAGIC) {
            return Err(Refusal::Garbage);
        }
        let theirs = read_versions(&mut reader)?;
        let version = ours.common(theirs).ok_or(Refusal::Versions { theirs, ours })?;
        let chain = Digest::decode(&mut reader).map_err(|_| Refusal::Garbage)?;
        if chain != self.chain {
            return Err(Refusal::Chain(chain));
        }
        let role = reader.u8().map_err(|_| Refusal::Garbage)?;
        let id = ReplicaId::decode(&mut reader).map_err(|_| Refusal::Garbage)?;
        if theirs.newest <= ours.newest {
            reader.finish().map_err(|_| Refusal::Garbage)?;
        }
        let role = match role {
            1 => Role::Peer(id),
            // A client has no number, so this field must be 0. Each role has exactly one encoding.
            2 if id == ReplicaId(0) => Role::Client,
            3 => Role::Server(id),
            _ => return Err(Refusal::Garbage),
        };
        Ok(Met { role, version })
    }
}

fn read_versions(reader: &mut Reader) -> Result<Versions, Refusal> {
    let newest = reader.u16().map_err(|_| Refusal::Garbage)?;
    if newest < FIRST_RANGE {
        return Ok(Versions { oldest: newest, newest });
    }
    let oldest = reader.u16().map_err(|_| Refusal::Garbage)?;
    // A range that begins below versions with ranges is one that nobody can speak.
    Versions::new(oldest, newest).map_err(|NoVersions| Refusal::Garbage)
}
