//! Reading the ledger, on any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::wire::{Decode, Reader};
use quorate_store::lazy_trie::{Snapshot, Store};

use super::LedgerError;
use super::records::{
    Accepted, Account, Entry, META, Meta, Note, OutputState, account_key, history_key, note_key,
    note_number_key, number_key, output_key, slot_key, transaction_key,
};
use crate::address::Address;
use crate::transaction::{OutputId, Transaction, TransactionId};

/// Reads what the last call of [`Ledger::accept`](super::Ledger::accept) left.
#[derive(Clone)]
pub struct View {
    store: Arc<Store>,
}

/// What a ledger was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Transactions that were accepted.
    pub transactions: u64,
    /// Outputs that are unspent.
    pub unspent: u64,
    /// What these amount to.
    pub value: u64,
}

impl View {
    pub(super) fn of(store: Arc<Store>) -> Self {
        Self { store }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn get<T: Decode>(&self, key: &[u8]) -> Result<Option<T>, LedgerError> {
        let value = self.store.get(key)?;
        Ok(value.map(|value| T::from_bytes(Bytes::from(value))).transpose()?)
    }

    /// How far the ledger is; `None` before there is one.
    ///
    /// # Errors
    /// [`LedgerError`], as of all that is read.
    pub fn meta(&self) -> Result<Option<Meta>, LedgerError> {
        self.get(META)
    }

    /// What became of an output; `None`: nobody made it.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn output(&self, output: &OutputId) -> Result<Option<OutputState>, LedgerError> {
        self.get(&output_key(output))
    }

    /// A transaction, if it was accepted.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn accepted(&self, id: &TransactionId) -> Result<Option<Accepted>, LedgerError> {
        self.get(&transaction_key(id))
    }

    /// The transaction with a number.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn numbered(&self, number: u64) -> Result<Option<TransactionId>, LedgerError> {
        self.get(&number_key(number))
    }

    /// The note of a digest.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn note(&self, digest: &Digest) -> Result<Option<Note>, LedgerError> {
        self.get(&note_key(digest))
    }

    /// The digest of the note with a number.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn note_numbered(&self, number: u64) -> Result<Option<Digest>, LedgerError> {
        self.get(&note_number_key(number))
    }

    /// What there is of an address.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn account(&self, address: &Address) -> Result<Account, LedgerError> {
        Ok(self.get(&account_key(address))?.unwrap_or_default())
    }

    /// What an address's unspent outputs amount to.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn balance(&self, address: &Address) -> Result<u64, LedgerError> {
        Ok(self.account(address)?.balance)
    }

    /// Unspent outputs of an address with their amounts, `most` at the most, all of one moment.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn unspent(
        &self,
        address: &Address,
        most: usize,
    ) -> Result<Vec<(OutputId, u64)>, LedgerError> {
        let moment = Moment(self.store.snapshot()?);
        let account: Account = moment.get(&account_key(address))?.unwrap_or_default();
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(account.unspent);
        let lost = LedgerError::Inconsistent("an address has fewer outputs than it counts");
        let mut found = Vec::with_capacity(most as usize);
        for slot in 0..most {
            let Some(output) = moment.get::<OutputId>(&slot_key(address, slot))? else {
                return Err(lost);
            };
            match moment.get(&output_key(&output))? {
                Some(OutputState::Unspent { amount, .. }) => found.push((output, amount)),
                _ => return Err(lost),
            }
        }
        Ok(found)
    }

    /// What transactions did to an address, the newest first, after leaving out `skip`.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn history(
        &self,
        address: &Address,
        skip: u64,
        most: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let moment = Moment(self.store.snapshot()?);
        let account: Account = moment.get(&account_key(address))?.unwrap_or_default();
        let numbers = (0..account.entries.saturating_sub(skip)).rev().take(most);
        let entry = |n| {
            let lost = LedgerError::Inconsistent("an address has less history than it counts");
            moment.get(&history_key(address, n))?.ok_or(lost)
        };
        numbers.map(entry).collect()
    }

    /// Reads every record and adds up: for tests, and for whoever distrusts a disk.
    ///
    /// # Errors
    /// [`LedgerError::Inconsistent`] if value was made or lost, an output was spent by somebody
    /// else than the transaction that names it, or an account counts wrongly.
    pub fn audit(&self) -> Result<Audit, LedgerError> {
        let wrong = |what| Err(LedgerError::Inconsistent(what));
        let moment = Moment(self.store.snapshot()?);
        let Some(meta) = moment.get::<Meta>(META)? else { return wrong("it has no beginning") };
        let mut audit = Audit { transactions: 0, unspent: 0, value: 0 };
        let mut counted = Meta { accepted: 0, sum: [0; 4], ..meta };
        let mut owned: BTreeMap<Address, Account> = BTreeMap::new();
        let mut accounts = BTreeMap::new();
        for item in moment.0.iter() {
            let (_, item) = item?;
            let Some((kind, rest)) = item.key().and_then(<[u8]>::split_first) else { continue };
            let value = Bytes::copy_from_slice(item.value);
            let rest = Bytes::copy_from_slice(rest);
            match kind {
                b'o' => {
                    if let OutputState::Unspent { to, amount, .. } = OutputState::from_bytes(value)?
                    {
                        audit.unspent += 1;
                        audit.value = audit.value.saturating_add(amount);
                        let account = owned.entry(to).or_default();
                        account.unspent += 1;
                        account.balance = account.balance.saturating_add(amount);
                    }
                }
                b't' => {
                    let Accepted { transaction, .. } = Accepted::from_bytes(value)?;
                    let transaction = Transaction::decode(&mut Reader::new(transaction))?;
                    counted.add(&transaction.id());
                    for input in transaction.inputs() {
                        let by = transaction.id();
                        let state = moment.get(&output_key(input))?;
                        if !matches!(state, Some(OutputState::Spent { by: spender, .. }) if spender == by)
                        {
                            return wrong("two accepted transactions spend one output");
                        }
                    }
                }
                b'a' => {
                    let account = Account::from_bytes(value)?;
                    accounts.insert(Address::from_bytes(rest)?, (account.balance, account.unspent));
                }
                _ => {}
            }
        }
        audit.transactions = counted.accepted;
        accounts.retain(|_, (_, unspent)| *unspent > 0);
        let owned: BTreeMap<_, _> = owned
            .into_iter()
            .map(|(to, account)| (to, (account.balance, account.unspent)))
            .collect();
        match () {
            () if audit.value != meta.supply => wrong("value was made or lost"),
            () if counted != meta => wrong("it counts other transactions than it holds"),
            () if owned != accounts => wrong("an address counts other outputs than it has"),
            () => Ok(audit),
        }
    }
}

/// The ledger at one moment.
struct Moment<'s>(Snapshot<'s>);

impl Moment<'_> {
    fn get<T: Decode>(&self, key: &[u8]) -> Result<Option<T>, LedgerError> {
        let value = self.0.get_ref(key)?;
        Ok(value.map(|value| T::from_bytes(Bytes::copy_from_slice(value))).transpose()?)
    }
}
