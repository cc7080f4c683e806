//! The signatures of administrators under a command, and the reply to it.
//!
//! Two commands rest on such approvals: a [change](super::change) of the members, and a
//! [directive](super::directive) on clients. Each is alone in its frame. The approvals are verified
//! before any replica votes for the block, and counted when the command executes.

use std::fmt::Display;

use crate::base::crypto::{Check, PublicKey, Signature, Statement};
use crate::base::membership::{Committee, Governance};
use crate::base::wire::{Decode as _, DecodeError, Encode as _, Reader};

/// What the reply to such a command begins with if it was carried out; a number follows (u64,
/// little-endian): the next epoch, or the serial of the directive. The reply to one that was
/// refused is the reason, in words.
pub const CHANGED: u8 = 0;
/// What the reply to such a command begins with if it was refused.
const REFUSED: u8 = 1;

/// Administrators, each with the signature under the command.
pub type Approvals = Vec<(PublicKey, Signature)>;

/// Too few administrators signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFew {
    /// How many signed.
    pub found: usize,
    /// How many must.
    pub needed: usize,
}

/// The signatures, which have to hold.
pub(super) fn checks(approvals: &Approvals, statement: Statement) -> Vec<Check> {
    let check = |(key, signature): &(PublicKey, Signature)| Check::Client {
        key: *key,
        statement,
        signature: *signature,
    };
    approvals.iter().map(check).collect()
}

/// Whether all who signed are administrators of the current epoch, and each signed once. If not, no
/// signature is worth verifying: anybody may have put it there.
pub(super) fn are_of_administrators(approvals: &Approvals, current: &Committee) -> bool {
    let administrators = &current.governance().administrators;
    let signers: Vec<_> = approvals.iter().map(|(key, _)| key).collect();
    let is_new = |at: usize| !signers[..at].contains(&signers[at]);
    (0..signers.len()).all(|at| administrators.contains(signers[at]) && is_new(at))
}

/// Whether enough administrators signed.
pub(super) fn are_enough(approvals: &Approvals, governance: &Governance) -> Result<(), TooFew> {
    let signed = |key: &&PublicKey| approvals.iter().any(|(signer, _)| signer == *key);
    let found = governance.administrators.iter().filter(signed).count();
    let needed = usize::from(governance.approvals);
    if found < needed { Err(TooFew { found, needed }) } else { Ok(()) }
}

/// Writes approvals: their number (u32), and each key and signature.
pub(super) fn encode(approvals: &Approvals, out: &mut Vec<u8>) {
    (approvals.len() as u32).encode(out);
    for (key, signature) in approvals {
        key.encode(out);
        signature.encode(out);
    }
}

/// Reads approvals.
pub(super) fn decode(reader: &mut Reader) -> Result<Approvals, DecodeError> {
    let count = reader.length("approvals", Governance::MAX_ADMINISTRATORS)?;
    (0..count).map(|_| Ok((PublicKey::decode(reader)?, Signature::decode(reader)?))).collect()
}

/// The reply to a command that was carried out, or was refused for a reason.
pub(super) fn reply(result: Result<u64, impl Display>) -> Vec<u8> {
    match result {
        Ok(number) => [&[CHANGED][..], &number.to_le_bytes()].concat(),
        Err(reason) => [&[REFUSED][..], reason.to_string().as_bytes()].concat(),
    }
}
