//! What the DAG is made of, by name.

use std::fmt;

use crate::base::types::Digest;
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Digest);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                Ok(Self(Digest::decode(reader)?))
            }
        }
    };
}

name!(
    /// A transaction, by the hash of all that it says.
    TransactionId
);
name!(
    /// A vertex, by the hash of its parents and transactions.
    VertexId
);

/// What a transaction spends: an output of an earlier one. Two transactions with a common input
/// conflict: an input *is* a conflict set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputId {
    /// Whose output it is.
    pub transaction: TransactionId,
    /// Which of its outputs.
    pub index: u32,
}

impl fmt::Display for InputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transaction, self.index)
    }
}

impl Encode for InputId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.transaction.encode(out);
        self.index.encode(out);
    }
}

impl Decode for InputId {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let transaction = TransactionId::decode(reader)?;
        Ok(Self { transaction, index: reader.u32()? })
    }
}
