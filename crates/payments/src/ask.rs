//! What wallets and nodes say to each other, over TLS with the node's key pinned.
//!
//! A frame is a number that the wallet chose, and a question or an answer. A question has one
//! answer, with its number; [`Question::Submit`] has a second one once the transaction is decided.

use bytes::Bytes;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes, put_list};

use crate::address::Address;
use crate::ledger::{Account, Entry};
use crate::transaction::{MAX_TRANSACTION_BYTES, OutputId, TransactionId};

/// Most outputs or entries of an answer.
pub const MAX_LISTED: usize = 4096;
/// Most bytes of a text in an answer.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// What a wallet asks of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Take this transaction, and say what becomes of it.
    Submit(Bytes),
    /// What is there of an address?
    Account(Address),
    /// Which outputs of an address are unspent? At most so many.
    Unspent(Address, u32),
    /// What happened to an address? After leaving out so many, at most so many, the newest first.
    History(Address, u64, u32),
    /// What is known of a transaction?
    Status(TransactionId),
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The transaction is under way.
    Taken(TransactionId),
    /// It is not taken: the reason's name, and a text for people.
    Refused(String, String),
    /// It is accepted, and durable at this node.
    Accepted(TransactionId),
    /// It can never be accepted here: a text for people.
    Rejected(TransactionId, String),
    /// What is there of the address.
    Account(Account),
    /// Unspent outputs.
    Unspent(Vec<(OutputId, u64)>),
    /// What happened.
    History(Vec<Entry>),
    /// The transaction's state: "accepted", "pending", "rejected" or "unknown", and why it is so.
    Status(String, String),
}

struct Unspent(OutputId, u64);

impl Encode for Unspent {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl Decode for Unspent {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(OutputId::decode(reader)?, reader.u64()?))
    }
}

impl Encode for Question {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Submit(transaction) => {
                out.push(0);
                put_bytes(out, transaction);
            }
            Self::Account(address) => {
                out.push(1);
                address.encode(out);
            }
            Self::Unspent(address, most) => {
                out.push(2);
                address.encode(out);
                most.encode(out);
            }
            Self::History(address, skip, most) => {
                out.push(3);
                address.encode(out);
                skip.encode(out);
                most.encode(out);
            }
            Self::Status(id) => {
                out.push(4);
                id.encode(out);
            }
        }
    }
}

impl Decode for Question {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            // A longer one is refused by name once it is read.
            0 => Self::Submit(reader.byte_string("transaction", 2 * MAX_TRANSACTION_BYTES)?),
            1 => Self::Account(Address::decode(reader)?),
            2 => Self::Unspent(Address::decode(reader)?, reader.u32()?),
            3 => Self::History(Address::decode(reader)?, reader.u64()?, reader.u32()?),
            4 => Self::Status(TransactionId::decode(reader)?),
            _ => return Err(DecodeError::Invalid { field: "question" }),
        })
    }
}

fn text(reader: &mut Reader) -> Result<String, DecodeError> {
    let bytes = reader.byte_string("text", MAX_TEXT_BYTES)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Invalid { field: "text" })
}

impl Encode for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Taken(id) => {
                out.push(0);
                id.encode(out);
            }
            Self::Refused(name, why) => {
                out.push(1);
                put_bytes(out, name.as_bytes());
                put_bytes(out, why.as_bytes());
            }
            Self::Accepted(id) => {
                out.push(2);
                id.encode(out);
            }
            Self::Rejected(id, why) => {
                out.push(3);
                id.encode(out);
                put_bytes(out, why.as_bytes());
            }
            Self::Account(account) => {
                out.push(4);
                account.encode(out);
            }
            Self::Unspent(unspent) => {
                out.push(5);
                let unspent = unspent.iter().map(|(id, amount)| Unspent(*id, *amount));
                put_list(out, &unspent.collect::<Vec<_>>());
            }
            Self::History(entries) => {
                out.push(6);
                put_list(out, entries);
            }
            Self::Status(state, why) => {
                out.push(7);
                put_bytes(out, state.as_bytes());
                put_bytes(out, why.as_bytes());
            }
        }
    }
}

impl Decode for Answer {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Taken(TransactionId::decode(reader)?),
            1 => Self::Refused(text(reader)?, text(reader)?),
            2 => Self::Accepted(TransactionId::decode(reader)?),
            3 => Self::Rejected(TransactionId::decode(reader)?, text(reader)?),
            4 => Self::Account(Account::decode(reader)?),
            5 => {
                let unspent: Vec<Unspent> = reader.list("outputs", MAX_LISTED)?;
                Self::Unspent(unspent.into_iter().map(|Unspent(id, amount)| (id, amount)).collect())
            }
            6 => Self::History(reader.list("entries", MAX_LISTED)?),
            7 => Self::Status(text(reader)?, text(reader)?),
            _ => return Err(DecodeError::Invalid { field: "answer" }),
        })
    }
}

/// A frame: a number, and what it is about.
#[must_use]
pub fn frame(number: u64, content: &impl Encode) -> Bytes {
    let mut bytes = Vec::with_capacity(128);
    number.encode(&mut bytes);
    content.encode(&mut bytes);
    Bytes::from(bytes)
}

/// Reads a frame.
///
/// # Errors
/// [`DecodeError`]
pub fn read_frame<T: Decode>(frame: Bytes) -> Result<(u64, T), DecodeError> {
    let mut reader = Reader::new(frame);
    let read = (reader.u64()?, T::decode(&mut reader)?);
    reader.finish()?;
    Ok(read)
}
