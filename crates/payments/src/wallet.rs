//! What a wallet does before it asks anybody: choose which outputs a payment spends.

use std::path::Path;

use quorate_core::base::crypto::PublicKey;
use quorate_store::lock::{FolderLock, LockError};

use crate::address::Address;
use crate::refusal::Refusal;
use crate::transaction::{Body, MAX_INPUTS, Output, OutputId};

/// Why no payment was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayError {
    /// There is not enough.
    #[error("the wallet has {has}, the payment needs {needs}; wait for money, or send less")]
    TooLittle {
        /// What its outputs amount to.
        has: u64,
        /// What is needed.
        needs: u64,
    },
    /// There is enough, in too many small outputs.
    #[error(
        "the wallet's {MAX_INPUTS} largest outputs amount to {reach}, the payment needs {needs}; \
         send {reach} or less to yourself first, which joins them"
    )]
    TooScattered {
        /// What the largest outputs amount to that one transaction may spend.
        reach: u64,
        /// What is needed.
        needs: u64,
    },
    /// No transaction can say it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Keeps everybody else from paying out of the wallet in this home, until it is dropped: two who
/// choose outputs at once choose the same ones, and spend them twice.
///
/// # Errors
/// [`LockError`]: somebody else is paying, or the system refuses the lock.
pub fn hold(home: &Path) -> Result<FolderLock, LockError> {
    FolderLock::acquire(home)
}

/// A transaction that pays `amount` to `to` out of `unspent`, all of which belong to `owner`, and
/// what is left over back to them. The largest outputs are spent first, so that few are.
///
/// # Errors
/// [`PayError`].
pub fn pay(
    owner: &PublicKey,
    unspent: &[(OutputId, u64)],
    to: Address,
    amount: u64,
) -> Result<Body, PayError> {
    let mut largest = unspent.to_vec();
    largest.sort_unstable_by_key(|(output, amount)| (std::cmp::Reverse(*amount), *output));
    let (mut sum, mut inputs) = (0u64, Vec::new());
    for (output, value) in largest.iter().take(MAX_INPUTS) {
        if sum >= amount && !inputs.is_empty() {
            break;
        }
        sum = sum.saturating_add(*value);
        inputs.push((*output, *owner));
    }
    if sum < amount {
        let has = largest.iter().fold(0u64, |has, (_, value)| has.saturating_add(*value));
        return Err(match has >= amount {
            true => PayError::TooScattered { reach: sum, needs: amount },
            false => PayError::TooLittle { has, needs: amount },
        });
    }
    let mut outputs = vec![Output { to, amount }];
    if sum > amount {
        outputs.push(Output { to: Address::of(owner), amount: sum - amount });
    }
    Ok(Body::new(&inputs, outputs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_users_of_a_wallet_one_pays_at_a_time() {
        let home = std::env::temp_dir().join(format!("quorate-wallet-{}", std::process::id()));
        let first = hold(&home).unwrap();
        assert!(matches!(hold(&home), Err(LockError::Held { .. })));
        drop(first);
        let second = hold(&home);
        std::fs::remove_dir_all(&home).unwrap();
        assert!(second.is_ok(), "{second:?}");
    }
}
