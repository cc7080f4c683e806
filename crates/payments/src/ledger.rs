//! The ledger: which transactions were accepted, and which outputs are unspent.
//!
//! It is kept in a lazy-trie store (`quorate-store`). [`Ledger::accept`] takes any number of
//! transactions and makes one batch of them, which the store writes whole or not at all, with one
//! sync. So a crash leaves the ledger after some call of `accept`, never inside one.
//!
//! What it never does, whatever it is given: spend an output twice, spend one that nobody made or
//! that belongs to another, make more than was spent, accept a transaction twice.

mod draft;
mod records;
mod view;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::DecodeError;
use quorate_core::{Digest, planted};
use quorate_store::disk::Disk;
use quorate_store::lazy_trie::{self, Options, Store};

use crate::genesis::Genesis;
use crate::refusal::Refusal;
use crate::transaction::{OutputId, Transaction, TransactionId};
use crate::verify::Signed;
use draft::Draft;
pub use records::{Accepted, Account, Entry, MAX_NOTE_BYTES, Meta, Note, OutputState};
pub use view::{Audit, View};

/// Why the ledger is of no use.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store.
    #[error("ledger: {0}")]
    Store(#[from] lazy_trie::Error),
    /// A record is not what was written.
    #[error(
        "ledger: a record cannot be read ({0}); restore the folder, or fetch it anew from other nodes"
    )]
    Record(#[from] DecodeError),
    /// Records that do not fit together.
    #[error("ledger: {0}; restore the folder, or fetch it anew from other nodes")]
    Inconsistent(&'static str),
    /// It is the ledger of another chain.
    #[error(
        "ledger: it belongs to chain {found}, not to {expected}; give each node a folder of its own"
    )]
    Chain {
        /// Which it is of.
        found: Digest,
        /// Which was expected.
        expected: Digest,
    },
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the ledger now, with this number.
    Accepted(u64),
    /// It had been there already.
    Known,
    /// It does not fit into the ledger, and did not change it.
    Refused(Refusal),
}

/// The ledger, for the one who writes it.
pub struct Ledger {
    view: View,
    meta: Meta,
}

impl Ledger {
    /// Opens the ledger in a folder, or makes the one that begins with `genesis`.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn open(
        folder: &Path,
        options: Options,
        chain: Digest,
        genesis: &Genesis,
    ) -> Result<Self, LedgerError> {
        let (store, _) = Store::open(folder, options)?;
        Self::of(store, chain, genesis)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: Options,
        chain: Digest,
        genesis: &Genesis,
    ) -> Result<Self, LedgerError> {
        let (store, _) = Store::open_on(disk, options)?;
        Self::of(store, chain, genesis)
    }

    /// What a node's store is set up with: smaller than for a store that has a machine to itself.
    #[must_use]
    pub fn options() -> Options {
        Options {
            write_buffer_bytes: 32 << 20,
            checkpoint_bytes: 16 << 20,
            segment_bytes: 16 << 20,
            region_bytes: 16 << 20,
            // Few commits of many changes each.
            log_through_memory: false,
            ..Options::default()
        }
    }

    fn of(store: Store, chain: Digest, genesis: &Genesis) -> Result<Self, LedgerError> {
        let view = View::of(Arc::new(store));
        if let Some(meta) = view.meta()? {
            if meta.chain != chain {
                return Err(LedgerError::Chain { found: meta.chain, expected: chain });
            }
            return Ok(Self { view, meta });
        }
        let meta = Meta { chain, supply: genesis.supply(), accepted: 0, notes: 0, sum: [0; 4] };
        let mut draft = Draft::new(&view, meta);
        for (id, output) in genesis.outputs() {
            draft.make(id, output)?;
        }
        draft.tell_accounts(genesis.id())?;
        view.store().write(&draft.batch()?)?;
        Ok(Self { view, meta })
    }

    /// For readers, on any thread.
    #[must_use]
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// How far it is.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Takes transactions that were decided, in this order, and notes: bytes that shall be found
    /// again by a digest, at most [`MAX_NOTE_BYTES`] each. All that fit are durable together when
    /// this returns. A note whose digest is known already is left as it is.
    ///
    /// # Errors
    /// [`LedgerError`]: none of them was taken, or all of those that fit, which shows when the
    /// ledger is opened again. It takes no more.
    pub fn accept(
        &mut self,
        decided: &[Signed],
        notes: &[(Digest, Bytes)],
    ) -> Result<Vec<Outcome>, LedgerError> {
        let mut draft = Draft::new(&self.view, self.meta);
        let mut outcomes = Vec::with_capacity(decided.len());
        for transaction in decided {
            outcomes.push(draft.accept(transaction)?);
        }
        for (digest, note) in notes {
            draft.note(digest, note)?;
        }
        if *draft.meta() != self.meta {
            let meta = *draft.meta();
            self.view.store().write(&draft.batch()?)?;
            self.meta = meta;
        }
        Ok(outcomes)
    }
}

/// Whether a transaction fits where `look_up` says what became of outputs: its inputs exist, are
/// unspent, belong to who signed for them, and amount to its outputs. `Some`: why not.
///
/// # Errors
/// What `look_up` fails with.
pub fn misfit<E>(
    transaction: &Transaction,
    mut look_up: impl FnMut(&OutputId) -> Result<Option<OutputState>, E>,
) -> Result<Option<Refusal>, E> {
    let mut inputs = 0u64;
    for (output, owner) in transaction.spent() {
        if output.transaction == transaction.id() {
            return Ok(Some(Refusal::Cyclic));
        }
        match look_up(&output)? {
            None => return Ok(Some(Refusal::UnknownInput(output))),
            Some(OutputState::Spent { by, .. }) => return Ok(Some(Refusal::Spent { output, by })),
            Some(OutputState::Unspent { to, .. })
                if planted!("payments-owner-unchecked", false, to != owner) =>
            {
                return Ok(Some(Refusal::Foreign(output)));
            }
            // Different outputs of one supply: their sum has a number.
            Some(OutputState::Unspent { amount, .. }) => inputs = inputs.saturating_add(amount),
        }
    }
    let outputs = transaction.total();
    Ok(match inputs.cmp(&outputs) {
        std::cmp::Ordering::Less => {
            let refusal = Refusal::Overspending { inputs, outputs };
            planted!("payments-overspending", None, Some(refusal))
        }
        std::cmp::Ordering::Greater => Some(Refusal::Unbalanced(inputs - outputs)),
        std::cmp::Ordering::Equal => None,
    })
}

/// The name of a transaction's output.
#[must_use]
pub fn output_of(transaction: TransactionId, place: usize) -> OutputId {
    OutputId { transaction, index: place as u32 }
}
