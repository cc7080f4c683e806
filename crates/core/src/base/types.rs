//! The small values every other module speaks in. Each is a type of its own, so that a view can
//! never be passed where a height is meant.

use std::fmt;

use quorate_merkle::hashes;

use crate::base::wire::{Decode, DecodeError, Encode, Reader};

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The next one. Saturates: at one step a nanosecond the end is 584 years away.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// This value moved forward by `n`, saturating.
            #[must_use]
            pub const fn plus(self, n: u64) -> Self {
                Self(self.0.saturating_add(n))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $letter, self.0)
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                Ok(Self(reader.u64()?))
            }
        }
    };
}

counter!(
    /// A view: one leader, at most one block. View 0 belongs to the genesis block alone.
    View, "v"
);
counter!(
    /// A block's distance from the genesis block, along its parents.
    Height, "h"
);
counter!(
    /// The number of the committee in force. Every signature is bound to one.
    Epoch, "e"
);
counter!(
    /// The position of a command in its session. The first command is number 1.
    Sequence, "#"
);
counter!(
    /// A client's session, numbered by the replicated state when it is opened. Numbers are never
    /// used again, so a frame replayed after its session expired is refused.
    SessionId, "s"
);

/// The most replicas a committee may have: what the wire's caps are sized for.
pub const MAX_REPLICAS: usize = 256;

/// A replica's place in the committee, from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u16);

impl ReplicaId {
    /// The place as an index into the committee's list.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl Encode for ReplicaId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for ReplicaId {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.u16()?))
    }
}

/// A BLAKE3 hash of 32 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of `bytes` under `domain`. Domains keep a block from ever being read as a frame.
    #[must_use]
    pub fn of(domain: &'static str, bytes: &[u8]) -> Self {
        // Most of what is hashed is short: at one piece that costs half of what an incremental
        // hasher does.
        let (mut piece, named) = ([0; 448], domain.len() + 1);
        if let Some(piece) = piece.get_mut(..named + bytes.len()) {
            let (name, content) = piece.split_at_mut(named);
            name[..domain.len()].copy_from_slice(domain.as_bytes());
            content.copy_from_slice(bytes);
            return Self(*blake3::hash(piece).as_bytes());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(domain.as_bytes());
        hasher.update(&[0]);
        hasher.update(bytes);
        Self(*hasher.finalize().as_bytes())
    }

    /// [`Digest::of`] each of `messages`. Short ones of one length are hashed side by side, in the
    /// lanes of the vector unit; a long one fills them by itself.
    #[must_use]
    pub fn of_each(domain: &'static str, messages: &[&[u8]]) -> Vec<Self> {
        let longest = hashes::LONGEST.saturating_sub(domain.len() + 1);
        if messages.len() < 2 || messages.iter().any(|message| message.len() > longest) {
            return messages.iter().map(|message| Self::of(domain, message)).collect();
        }
        let length: usize = messages.iter().map(|message| domain.len() + 1 + message.len()).sum();
        let mut pieces = Vec::with_capacity(length);
        for message in messages {
            pieces.extend_from_slice(domain.as_bytes());
            pieces.push(0);
            pieces.extend_from_slice(message);
        }
        let mut rest = pieces.as_slice();
        let split = |message: &&[u8]| {
            let (piece, behind) = rest.split_at(domain.len() + 1 + message.len());
            rest = behind;
            piece
        };
        let pieces: Vec<&[u8]> = messages.iter().map(split).collect();
        let mut digests = vec![[0; 32]; pieces.len()];
        hashes::Kind::plain().of(&pieces, &mut digests);
        digests.into_iter().map(Self).collect()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl Encode for Digest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for Digest {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}

/// An instant, in nanoseconds since a start that only the driver knows. Never compared between
/// replicas.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of [`Time`].
pub type Duration = std::time::Duration;

impl Time {
    /// The instant `span` later, saturating.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
