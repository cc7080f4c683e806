//! Changes of the ledger that are not in the store yet: the next batch.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::wire::{Decode, Encode};
use quorate_store::lazy_trie::Batch;

use super::records::{
    Accepted, Account, Entry, MAX_NOTE_BYTES, META, Meta, Note, OutputState, account_key,
    history_key, note_key, note_number_key, number_key, output_key, slot_key, transaction_key,
};
use super::view::View;
use super::{LedgerError, Outcome, misfit, output_of};
use crate::address::Address;
use crate::transaction::{Output, OutputId, Transaction, TransactionId};

/// Changes on top of what the store holds.
pub(super) struct Draft<'v> {
    view: &'v View,
    meta: Meta,
    /// By key; `None`: removed.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// What the transaction at work did to addresses: spent, received.
    touched: BTreeMap<Address, (u64, u64)>,
}

impl<'v> Draft<'v> {
    pub(super) fn new(view: &'v View, meta: Meta) -> Self {
        Self { view, meta, changes: BTreeMap::new(), touched: BTreeMap::new() }
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Everything as one batch.
    pub(super) fn batch(mut self) -> Result<Batch, LedgerError> {
        self.put(META.to_vec(), &self.meta.clone());
        let mut batch = Batch::new();
        for (key, value) in &self.changes {
            match value {
                Some(value) => batch.put(key, value)?,
                None => batch.delete(key)?,
            }
        }
        Ok(batch)
    }

    /// Takes a transaction if it fits; changes nothing otherwise.
    pub(super) fn accept(&mut self, transaction: &Transaction) -> Result<Outcome, LedgerError> {
        let id = transaction.id();
        if self.get::<Accepted>(&transaction_key(&id))?.is_some() {
            return Ok(Outcome::Known);
        }
        let refusal = misfit(transaction, |output| self.get(&output_key(output)))?;
        if let Some(refusal) = refusal {
            return Ok(Outcome::Refused(refusal));
        }
        for input in transaction.inputs() {
            self.spend(input, id)?;
        }
        for (place, output) in transaction.outputs().iter().enumerate() {
            self.make(output_of(id, place), *output)?;
        }
        self.tell_accounts(id)?;
        let number = self.meta.accepted;
        let transaction = Bytes::from(transaction.to_bytes());
        let accepted = Accepted { number, transaction };
        self.put(transaction_key(&id), &accepted);
        self.put(number_key(number), &id);
        self.meta.add(&id);
        Ok(Outcome::Accepted(number))
    }

    /// Keeps a note, unless there is one of this digest.
    pub(super) fn note(&mut self, digest: &Digest, note: &Bytes) -> Result<(), LedgerError> {
        if note.len() > MAX_NOTE_BYTES {
            return Err(LedgerError::Inconsistent("a note is longer than it may be"));
        }
        let key = note_key(digest);
        if self.get::<Note>(&key)?.is_some() {
            return Ok(());
        }
        let number = self.meta.notes;
        self.put(key, &Note { number, bytes: note.clone() });
        self.put(note_number_key(number), digest);
        self.meta.notes += 1;
        Ok(())
    }

    /// Adds an output.
    pub(super) fn make(&mut self, id: OutputId, output: Output) -> Result<(), LedgerError> {
        let Output { to, amount } = output;
        let mut account = self.account(&to)?;
        let slot = account.unspent;
        account.balance = account
            .balance
            .checked_add(amount)
            .ok_or(LedgerError::Inconsistent("an address has more than there is"))?;
        account.unspent += 1;
        self.put(account_key(&to), &account);
        self.put(slot_key(&to, slot), &id);
        self.put(output_key(&id), &OutputState::Unspent { to, amount, slot });
        let (_, received) = self.touched.entry(to).or_default();
        *received = received.saturating_add(amount);
        Ok(())
    }

    /// Marks an output spent. Its owner's last slot takes the place of its slot.
    fn spend(&mut self, id: &OutputId, by: TransactionId) -> Result<(), LedgerError> {
        let lost = LedgerError::Inconsistent("an unspent output is not among its owner's");
        let Some(OutputState::Unspent { to, amount, slot }) = self.get(&output_key(id))? else {
            return Err(LedgerError::Inconsistent("an output was spent twice"));
        };
        let mut account = self.account(&to)?;
        let (Some(last), Some(balance)) =
            (account.unspent.checked_sub(1), account.balance.checked_sub(amount))
        else {
            return Err(lost);
        };
        if slot != last {
            let Some(moved) = self.get::<OutputId>(&slot_key(&to, last))? else {
                return Err(lost);
            };
            let Some(OutputState::Unspent { to, amount, .. }) = self.get(&output_key(&moved))?
            else {
                return Err(lost);
            };
            self.put(output_key(&moved), &OutputState::Unspent { to, amount, slot });
            self.put(slot_key(&to, slot), &moved);
        }
        self.changes.insert(slot_key(&to, last), None);
        (account.unspent, account.balance) = (last, balance);
        self.put(account_key(&to), &account);
        self.put(output_key(id), &OutputState::Spent { by, to, amount });
        let (spent, _) = self.touched.entry(to).or_default();
        *spent = spent.saturating_add(amount);
        Ok(())
    }

    /// Adds the entry of a transaction to the history of every address that it concerned.
    pub(super) fn tell_accounts(&mut self, transaction: TransactionId) -> Result<(), LedgerError> {
        for (address, (spent, received)) in std::mem::take(&mut self.touched) {
            let mut account = self.account(&address)?;
            let entry = Entry { transaction, spent, received };
            self.put(history_key(&address, account.entries), &entry);
            account.entries += 1;
            self.put(account_key(&address), &account);
        }
        Ok(())
    }

    fn account(&self, address: &Address) -> Result<Account, LedgerError> {
        Ok(self.get(&account_key(address))?.unwrap_or_default())
    }

    fn get<T: Decode>(&self, key: &[u8]) -> Result<Option<T>, LedgerError> {
        match self.changes.get(key) {
            Some(Some(value)) => Ok(Some(T::from_bytes(Bytes::copy_from_slice(value))?)),
            Some(None) => Ok(None),
            None => self.view.get(key),
        }
    }

    fn put(&mut self, key: Vec<u8>, value: &impl Encode) {
        self.changes.insert(key, Some(value.to_bytes()));
    }
}
