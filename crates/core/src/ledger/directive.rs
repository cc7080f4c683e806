//! Directives: the commands by which administrators say who may send commands.
//!
//! A directive is an ordered command like any other, alone in its frame. It rests on the
//! [approvals] of as many administrators as the epoch's
//! [`Governance`](crate::base::membership::Governance) wants, which are verified before any replica
//! votes for its block. Whether it may be carried out is judged when it executes, so that all
//! replicas judge alike.
//!
//! It carries a *serial*: the number of directives carried out before it, and one. So a directive
//! takes effect once, and two that were made at the same time cannot both: the second one has to be
//! made anew, by somebody who knows of the first. It is bound to the chain, and to no epoch: its
//! serial says when it counts, and the administrators of the epoch in which it executes must have
//! signed it.

use std::sync::Arc;

use bytes::Bytes;

use super::approvals::{self, Approvals, TooFew};
use super::clients::{Admission, Clients, Entry, Full, Grant};
use crate::base::crypto::{Check, Kind, PublicKey, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Epoch, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// What the command begins with.
const MAGIC: &[u8] = b"quorate directive 1";
/// What directives of any format begin with: programs that know another format of them must not
/// give one to the application.
const WORDS: &[u8] = b"quorate directive ";

/// What administrators want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A key may do this, whatever the list said of it.
    Allow(PublicKey, Grant),
    /// A key may do nothing any more. Its session ends in the block that holds the directive.
    Revoke(PublicKey),
    /// The list no longer names a key.
    Forget(PublicKey),
    /// The cluster takes commands from these.
    Admit(Admission),
}

/// An order, and when it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// [The next one](Clients::next_serial) where it executes.
    pub serial: u64,
    /// The order.
    pub order: Order,
}

/// A directive with the signatures that it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDirective {
    /// The directive.
    pub directive: Directive,
    /// Of administrators, over [`Directive::approval`].
    pub approvals: Approvals,
}

/// Why a directive was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("the directive cannot be read: {0}")]
    Unreadable(DecodeError),
    /// It came with other commands, so its signatures were not verified.
    #[error("a directive must be the only command of its frame")]
    NotAlone,
    /// Nobody may direct this cluster.
    #[error("this cluster has no administrators, so nobody may say who its clients are")]
    NotGoverned,
    /// It was carried out, or another one came first.
    #[error("the directive has the serial {found}, and the next one is {next}: make it anew")]
    Serial {
        /// The serial that it has.
        found: u64,
        /// The serial that it must have.
        next: u64,
    },
    /// Too few administrators signed it.
    #[error("{found} administrators signed, {needed} must")]
    NotApproved {
        /// How many signed.
        found: usize,
        /// How many must.
        needed: usize,
    },
    /// The list has no room.
    #[error("{0}: forget keys first (`quorate client forget`)")]
    Full(#[from] Full),
    /// The list does not name the key.
    #[error("the list of clients does not name this key")]
    Unknown,
}

impl From<TooFew> for Refusal {
    fn from(TooFew { found, needed }: TooFew) -> Self {
        Self::NotApproved { found, needed }
    }
}

impl Directive {
    /// What an administrator signs.
    #[must_use]
    pub fn approval(&self, chain: &Digest) -> Statement {
        let digest = Digest::of("quorate directive", &self.to_bytes());
        Statement::new(chain, Epoch(0), 0, Kind::Directive, View(0), 0, &digest)
    }
}

impl SignedDirective {
    /// Whether a command is a directive, by its first bytes.
    #[must_use]
    pub fn is_one(command: &[u8]) -> bool {
        command.starts_with(WORDS)
    }

    /// The directive as a command.
    #[must_use]
    pub fn to_command(&self) -> Vec<u8> {
        let mut command = MAGIC.to_vec();
        self.encode(&mut command);
        command
    }

    /// The directive that a command is.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command(command: &[u8]) -> Result<Self, DecodeError> {
        let encoded = command.strip_prefix(MAGIC).ok_or(DecodeError::Invalid {
            field: "format tag: this program reads directives of format 1",
        })?;
        Self::from_bytes(Bytes::copy_from_slice(encoded))
    }

    /// The signatures that have to hold.
    #[must_use]
    pub fn checks(&self, chain: &Digest) -> Vec<Check> {
        approvals::checks(&self.approvals, self.directive.approval(chain))
    }

    /// Whether all who signed it are administrators of the current epoch, and each signed once.
    /// If not, no signature is worth verifying: anybody may have put it there.
    #[must_use]
    pub fn is_of_administrators(&self, current: &Committee) -> bool {
        approvals::are_of_administrators(&self.approvals, current)
    }

    /// The list of clients after the directive, if it may be carried out. Its
    /// [signatures](Self::checks) hold.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn judge(&self, current: &Committee, clients: &Clients) -> Result<Clients, Refusal> {
        let governance = current.governance();
        if governance.administrators.is_empty() {
            return Err(Refusal::NotGoverned);
        }
        let (found, next) = (self.directive.serial, clients.next_serial());
        if planted!("directive-replayed", false, found != next) {
            return Err(Refusal::Serial { found, next });
        }
        let enough = approvals::are_enough(&self.approvals, governance);
        planted!("directive-by-too-few", Ok(()), enough)?;
        match &self.directive.order {
            Order::Allow(key, grant) => {
                let granted = Entry::Granted(Arc::new(grant.clone()));
                Ok(clients.with_entry(*key, Some(granted))?)
            }
            Order::Revoke(key) => Ok(clients.with_entry(*key, Some(Entry::Revoked))?),
            Order::Forget(key) if clients.entry(key).is_none() => Err(Refusal::Unknown),
            Order::Forget(key) => Ok(clients.with_entry(*key, None)?),
            Order::Admit(admission) => Ok(clients.with_admission(*admission)),
        }
    }
}

impl Encode for Order {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Allow(key, grant) => {
                out.push(1);
                key.encode(out);
                grant.encode(out);
            }
            Self::Revoke(key) => {
                out.push(2);
                key.encode(out);
            }
            Self::Forget(key) => {
                out.push(3);
                key.encode(out);
            }
            Self::Admit(admission) => {
                out.push(4);
                admission.encode(out);
            }
        }
    }
}

impl Decode for Order {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Allow(PublicKey::decode(reader)?, Grant::decode(reader)?)),
            2 => Ok(Self::Revoke(PublicKey::decode(reader)?)),
            3 => Ok(Self::Forget(PublicKey::decode(reader)?)),
            4 => Ok(Self::Admit(Admission::decode(reader)?)),
            _ => Err(DecodeError::Invalid { field: "order of a directive" }),
        }
    }
}

impl Encode for Directive {
    fn encode(&self, out: &mut Vec<u8>) {
        self.serial.encode(out);
        self.order.encode(out);
    }
}

impl Decode for Directive {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { serial: reader.u64()?, order: Order::decode(reader)? })
    }
}

impl Encode for SignedDirective {
    fn encode(&self, out: &mut Vec<u8>) {
        self.directive.encode(out);
        approvals::encode(&self.approvals, out);
    }
}

impl Decode for SignedDirective {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { directive: Directive::decode(reader)?, approvals: approvals::decode(reader)? })
    }
}
