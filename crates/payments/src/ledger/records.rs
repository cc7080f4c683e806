//! What the ledger's store holds: keys and values.
//!
//! ```text
//! 'm'                       what the ledger is of, and how far it is
//! 'o' ‖ output              whose it is and how much, or who spent it
//! 't' ‖ transaction id      number ‖ transaction
//! 'n' ‖ number u64          the id of the transaction that was accepted so many-th
//! 'v' ‖ digest              number ‖ note
//! 'w' ‖ number u64          the digest of the note that was kept so many-th
//! 'a' ‖ address             balance, how many outputs are unspent, how many entries of history
//! 'u' ‖ address ‖ slot u32  an unspent output of the address; slots have no gaps
//! 'h' ‖ address ‖ n u64     what the n-th transaction that concerned the address did to it
//! ```

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};

use crate::address::Address;
use crate::transaction::{MAX_TRANSACTION_BYTES, OutputId, TransactionId};

/// Most bytes of a note.
pub const MAX_NOTE_BYTES: usize = 64 << 10;

pub(super) const META: &[u8] = b"m";
const FORMAT: u32 = 1;

pub(super) fn output_key(output: &OutputId) -> Vec<u8> {
    key(b'o', |key| output.encode(key))
}

pub(super) fn transaction_key(id: &TransactionId) -> Vec<u8> {
    key(b't', |key| id.encode(key))
}

pub(super) fn number_key(number: u64) -> Vec<u8> {
    key(b'n', |key| number.encode(key))
}

pub(super) fn note_key(digest: &Digest) -> Vec<u8> {
    key(b'v', |key| digest.encode(key))
}

pub(super) fn note_number_key(number: u64) -> Vec<u8> {
    key(b'w', |key| number.encode(key))
}

pub(super) fn account_key(address: &Address) -> Vec<u8> {
    key(b'a', |key| address.encode(key))
}

pub(super) fn slot_key(address: &Address, slot: u32) -> Vec<u8> {
    key(b'u', |key| {
        address.encode(key);
        slot.encode(key);
    })
}

pub(super) fn history_key(address: &Address, n: u64) -> Vec<u8> {
    key(b'h', |key| {
        address.encode(key);
        n.encode(key);
    })
}

fn key(kind: u8, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    key.push(kind);
    put(&mut key);
    key
}

/// What the ledger is of, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The chain.
    pub chain: Digest,
    /// What all outputs that are unspent amount to.
    pub supply: u64,
    /// How many transactions were accepted.
    pub accepted: u64,
    /// How many notes are kept.
    pub notes: u64,
    /// The sum of their ids, each as four numbers, without carries out of these. It tells whether
    /// two correct ledgers hold the same set, whatever the order; whoever may choose ids can make
    /// two sets of one sum.
    pub sum: [u64; 4],
}

impl Meta {
    /// Counts a transaction.
    pub(super) fn add(&mut self, id: &TransactionId) {
        self.accepted += 1;
        let (numbers, _) = id.0.0.as_chunks::<8>();
        for (sum, number) in self.sum.iter_mut().zip(numbers) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*number));
        }
    }
}

/// An output that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// Nobody spent it.
    Unspent {
        /// Whose it is.
        to: Address,
        /// How much it is.
        amount: u64,
        /// Its slot among those of its owner.
        slot: u32,
    },
    /// It was spent.
    Spent {
        /// By this transaction.
        by: TransactionId,
        /// Whose it was.
        to: Address,
        /// How much it was.
        amount: u64,
    },
}

/// What there is of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// What its unspent outputs amount to.
    pub balance: u64,
    /// How many these are.
    pub unspent: u32,
    /// How many transactions concerned it.
    pub entries: u64,
}

/// What a transaction did to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The transaction; that of the genesis for what there was in the beginning.
    pub transaction: TransactionId,
    /// How much of the address it spent.
    pub spent: u64,
    /// How much it paid to the address.
    pub received: u64,
}

/// A transaction that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// How many were accepted before it, here.
    pub number: u64,
    /// Its encoding.
    pub transaction: Bytes,
}

/// Bytes that are found again by a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How many were kept before it, here.
    pub number: u64,
    /// The bytes.
    pub bytes: Bytes,
}

impl Encode for Meta {
    fn encode(&self, out: &mut Vec<u8>) {
        FORMAT.encode(out);
        self.chain.encode(out);
        self.supply.encode(out);
        self.accepted.encode(out);
        self.notes.encode(out);
        self.sum.iter().for_each(|number| number.encode(out));
    }
}

impl Decode for Meta {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        if reader.u32()? != FORMAT {
            return Err(DecodeError::Invalid { field: "format version" });
        }
        Ok(Self {
            chain: Digest::decode(reader)?,
            supply: reader.u64()?,
            accepted: reader.u64()?,
            notes: reader.u64()?,
            sum: [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?],
        })
    }
}

impl Encode for OutputState {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unspent { to, amount, slot } => {
                out.push(0);
                to.encode(out);
                amount.encode(out);
                slot.encode(out);
            }
            Self::Spent { by, to, amount } => {
                out.push(1);
                by.encode(out);
                to.encode(out);
                amount.encode(out);
            }
        }
    }
}

impl Decode for OutputState {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Unspent {
                to: Address::decode(reader)?,
                amount: reader.u64()?,
                slot: reader.u32()?,
            }),
            1 => Ok(Self::Spent {
                by: TransactionId::decode(reader)?,
                to: Address::decode(reader)?,
                amount: reader.u64()?,
            }),
            _ => Err(DecodeError::Invalid { field: "state of an output" }),
        }
    }
}

impl Encode for Account {
    fn encode(&self, out: &mut Vec<u8>) {
        self.balance.encode(out);
        self.unspent.encode(out);
        self.entries.encode(out);
    }
}

impl Decode for Account {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { balance: reader.u64()?, unspent: reader.u32()?, entries: reader.u64()? })
    }
}

impl Encode for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.transaction.encode(out);
        self.spent.encode(out);
        self.received.encode(out);
    }
}

impl Decode for Entry {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            transaction: TransactionId::decode(reader)?,
            spent: reader.u64()?,
            received: reader.u64()?,
        })
    }
}

impl Encode for Accepted {
    fn encode(&self, out: &mut Vec<u8>) {
        self.number.encode(out);
        put_bytes(out, &self.transaction);
    }
}

impl Decode for Accepted {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            number: reader.u64()?,
            transaction: reader.byte_string("transaction", MAX_TRANSACTION_BYTES)?,
        })
    }
}

impl Encode for Note {
    fn encode(&self, out: &mut Vec<u8>) {
        self.number.encode(out);
        put_bytes(out, &self.bytes);
    }
}

impl Decode for Note {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.u64()?, bytes: reader.byte_string("note", MAX_NOTE_BYTES)? })
    }
}
