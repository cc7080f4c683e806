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
//!
//! There are two formats. Format 2 is of an order that gives a key a
//! [quota](Grant::stored_bytes); all others have format 1. Under rules before [`Rules::QUOTAS`] a
//! directive of format 2 is answered as by a program that does not know it.
//!
//! # Why a directive that nobody verified is never carried out
//!
//! The rules of an epoch say which formats there are, and so whose signatures a frame rests on. A
//! frame of a later format rests on its client's signature alone: old programs see no directive in
//! it. Such a frame can outlive its epoch, and would be a directive in the next one, with approvals
//! that anybody may have made up. So nothing of an unknown format gets from an epoch into one with
//! newer rules of the core:
//!
//! - Sessions let go of [such frames](SignedDirective::is_known_under) where the epoch begins. The
//!   former rules decide which, not the memory of a program, so all replicas drop the same ones.
//! - The mempool lets go of them too, and so do verifications under way. Bodies of blocks and
//!   proposals end with their epoch anyway. So a new epoch's blocks hold only frames that a quorum
//!   of it verified by its own rules, and no honest leader proposes one that others must refuse.
//! - Frames of clients and relayed frames are verified in [every format](Rules::EVERY_FORMAT) that
//!   the program knows, whatever the rules are. Those on their way through a switch do no harm.
//!
//! The sender of a frame that was dropped sends it again, and it is verified anew.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;

use super::approvals::{self, Approvals, TooFew};
use super::clients::{Admission, Clients, Entry, Full, Grant, decode_quota};
use crate::base::crypto::{Check, Kind, PublicKey, Statement};
use crate::base::membership::{Committee, Rules};
use crate::base::types::{Digest, Epoch, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// What the command begins with.
const MAGIC: &[u8] = b"quorate directive 1";
/// What it begins with if its order gives a quota, which follows (u64).
const QUOTA_MAGIC: &[u8] = b"quorate directive 2";
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
    /// The epoch's rules are older than quotas.
    #[error(
        "quotas need rules {needed} of the core, and this epoch has {current}: switch them on first \
         (`quorate upgrade switch`)",
        needed = Rules::QUOTAS
    )]
    NoQuotasYet {
        /// The rules of the epoch.
        current: Rules,
    },
}

impl From<TooFew> for Refusal {
    fn from(TooFew { found, needed }: TooFew) -> Self {
        Self::NotApproved { found, needed }
    }
}

impl Order {
    /// The quota that it gives, if it gives one.
    const fn quota(&self) -> Option<NonZeroU64> {
        match self {
            Self::Allow(_, grant) => grant.stored_bytes,
            _ => None,
        }
    }
}

impl Directive {
    /// What an administrator signs.
    #[must_use]
    pub fn approval(&self, chain: &Digest) -> Statement {
        let digest = match self.order.quota() {
            None => Digest::of("quorate directive", &self.to_bytes()),
            Some(quota) => {
                let mut bytes = quota.get().to_bytes();
                self.encode(&mut bytes);
                Digest::of("quorate directive with a quota", &bytes)
            }
        };
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
        let mut command = Vec::new();
        match self.directive.order.quota() {
            None => command.extend_from_slice(MAGIC),
            Some(quota) => {
                command.extend_from_slice(QUOTA_MAGIC);
                quota.get().encode(&mut command);
            }
        }
        self.encode(&mut command);
        command
    }

    /// The directive that a command is.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command(command: &[u8]) -> Result<Self, DecodeError> {
        if let Some(encoded) = command.strip_prefix(MAGIC) {
            return Self::from_bytes(Bytes::copy_from_slice(encoded));
        }
        let encoded = command.strip_prefix(QUOTA_MAGIC).ok_or(DecodeError::Invalid {
            field: "format tag: this program reads directives of formats 1 and 2",
        })?;
        let mut reader = Reader::new(Bytes::copy_from_slice(encoded));
        let quota = decode_quota(&mut reader)?;
        let mut signed = Self::decode(&mut reader)?;
        reader.finish()?;
        match &mut signed.directive.order {
            Order::Allow(_, grant) => grant.stored_bytes = Some(quota),
            _ => return Err(DecodeError::Invalid { field: "order of a directive with a quota" }),
        }
        Ok(signed)
    }

    /// The same in an epoch with these rules. What they do not know is refused in the words of the
    /// programs that had no other rules: replies are a part of the state.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command_under(command: &[u8], rules: Rules) -> Result<Self, DecodeError> {
        let is_known = rules.core >= Rules::QUOTAS || command.starts_with(MAGIC);
        if planted!("quotas-before-their-rules", false, !is_known) {
            return Err(DecodeError::Invalid {
                field: "format tag: this program reads directives of format 1",
            });
        }
        Self::of_command(command)
    }

    /// Whether programs know the format of this command in an epoch with these rules. The approvals
    /// of a directive were not verified there if they do not.
    #[must_use]
    pub fn is_known_under(command: &[u8], rules: Rules) -> bool {
        command.starts_with(MAGIC)
            || rules.core >= Rules::QUOTAS && command.starts_with(QUOTA_MAGIC)
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
            Order::Allow(_, grant)
                if grant.stored_bytes.is_some() && current.rules().core < Rules::QUOTAS =>
            {
                Err(Refusal::NoQuotasYet { current: current.rules() })
            }
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

/// Without a [quota](Grant::stored_bytes), as [`Grant`] is.
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
