//! The rules by which an epoch executes.
//!
//! Replicas of one epoch must compute the same states, whatever programs they run. So a program
//! that executes in a new way does so only under new *rules*, and rules are switched on by an
//! ordered command: they are a part of the committee, and a change of the members raises them
//! ([`change`](crate::ledger::change)). In an epoch all replicas execute by the same rules, from
//! its first block to its last.
//!
//! There are two numbers, because two authors count. The core numbers what *it* does with decided
//! blocks: sessions, changes, the encoding of the state. The application numbers what *its*
//! commands do. With one number for both, an application that had used up a number would have the
//! core's next rule switched on at some replicas and not at others, by an upgrade of the library
//! alone.

use std::fmt;
use std::str::FromStr;

use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// The version of the rules that an epoch executes by; or the newest that a program supports. It
/// supports all that came before: a replica that was away executes old epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Of the core, from 1.
    pub core: u16,
    /// Of the application, from 1.
    pub application: u16,
}

/// Why a text names no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected CORE.APPLICATION, both from 1, such as 1.2")]
pub struct NoRules;

impl Rules {
    /// Those of an epoch that nobody has raised.
    pub const FIRST: Self = Self { core: 1, application: 1 };

    /// From these rules of the core on, a grant may have a
    /// [quota](crate::ledger::clients::Grant::stored_bytes).
    pub const QUOTAS: u16 = 2;

    /// From these rules of the core on, members may generate a threshold key for the next epoch
    /// ([`generation`](crate::ledger::generation)), and committees may have one.
    pub const GENERATED_KEYS: u16 = 3;

    /// The newest rules of the core that this program supports.
    pub const NEWEST_OF_CORE: u16 = Self::GENERATED_KEYS;

    /// Under these, every format counts that this program can ever execute. Clients' frames and
    /// relayed ones are verified by them, whatever the epoch's rules are: a frame outlives its
    /// epoch.
    pub const EVERY_FORMAT: Self = Self::supported(1);

    /// The newest rules that this program supports with an application that supports these.
    #[must_use]
    pub const fn supported(application: u16) -> Self {
        Self { core: Self::NEWEST_OF_CORE, application }
    }

    /// Whether a program that supports these rules, and none newer, can execute by `other`.
    #[must_use]
    pub const fn cover(self, other: Self) -> bool {
        self.core >= other.core && self.application >= other.application
    }

    /// The newest rules that two programs can both execute by.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self {
            core: self.core.min(other.core),
            application: self.application.min(other.application),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.core, self.application)
    }
}

impl FromStr for Rules {
    type Err = NoRules;

    fn from_str(text: &str) -> Result<Self, NoRules> {
        let (core, application) = text.split_once('.').ok_or(NoRules)?;
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or(NoRules);
        Ok(Self { core: number(core)?, application: number(application)? })
    }
}

impl Encode for Rules {
    fn encode(&self, out: &mut Vec<u8>) {
        self.core.encode(out);
        self.application.encode(out);
    }
}

impl Decode for Rules {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let rules = Self { core: reader.u16()?, application: reader.u16()? };
        if rules.cover(Self::FIRST) {
            Ok(rules)
        } else {
            Err(DecodeError::Invalid { field: "rules: they count from 1" })
        }
    }
}
