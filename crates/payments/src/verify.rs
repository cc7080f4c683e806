//! Signatures of transactions, checked in batches, on whatever thread has the time.
//!
//! [`Signed`] is the proof: the ledger takes nothing else, and nothing but [`verify`] makes one.
//! One batch holds the signatures of many transactions, which costs half as much as to check each
//! alone; a false one among them is found by bisection and takes no other with it.

use std::ops::Deref;
use std::sync::Arc;

use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::Encode;
use quorate_core::protocols::snow::avalanche::vertex::{self, Worth};
use quorate_core::{Digest, planted};

use crate::refusal::Refusal;
use crate::transaction::{OutputId, Transaction, TransactionId};

/// A transaction whose signatures hold on this chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed(Arc<Transaction>);

impl vertex::Transaction for Signed {
    fn id(&self) -> TransactionId {
        Transaction::id(self)
    }

    fn inputs(&self) -> &[OutputId] {
        Transaction::inputs(self)
    }

    fn weight(&self) -> usize {
        vertex::Transaction::weight(&*self.0)
    }

    fn output(&self, index: u32) -> Option<Worth> {
        vertex::Transaction::output(&*self.0, index)
    }

    fn is_covered_by(&self, spent: &[Worth]) -> bool {
        vertex::Transaction::is_covered_by(&*self.0, spent)
    }
}

impl Encode for Signed {
    fn encode(&self, out: &mut Vec<u8>) {
        Transaction::encode(self, out);
    }
}

impl Deref for Signed {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.0
    }
}

/// Checks the signatures of all transactions as one batch; the verdicts in their order.
pub fn verify(
    scheme: &dyn Scheme,
    chain: &Digest,
    transactions: Vec<Transaction>,
) -> Vec<Result<Signed, Refusal>> {
    let checks: Vec<_> =
        transactions.iter().flat_map(|transaction| transaction.checks(chain)).collect();
    let verdicts = scheme.verify(&checks);
    let mut verdicts = verdicts.into_iter();
    let settle = |transaction: Transaction| {
        let mut holds = true;
        for _ in transaction.checks(chain) {
            let verdict = verdicts.next().unwrap_or(false);
            holds &= planted!("payments-signature-unchecked", true, verdict);
        }
        if holds { Ok(Signed(Arc::new(transaction))) } else { Err(Refusal::Unsigned) }
    };
    transactions.into_iter().map(settle).collect()
}
