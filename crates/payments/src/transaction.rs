//! Transactions: outputs that are spent, outputs that are made, and who signed for the former.
//!
//! ```text
//! transaction   body ‖ a signature of 64 bytes for each signer
//! body          signers u8 ‖ keys, ascending
//!               inputs u8  ‖ inputs, ascending: transaction id ‖ index u32 ‖ signer u8
//!               outputs u8 ‖ outputs: address ‖ amount u64
//! ```
//!
//! Each value has one encoding. The id is the digest of the body: signatures are no part of it, so
//! that nobody can give a payment a second id, and with it a second place in the ledger, by signing
//! it otherwise. Each key signs once, for all inputs that it owns, and what it signs is bound to
//! the chain ([`Statement::payment`]).
//!
//! A transaction that [`Transaction::from_bytes`] reads is well formed: within its caps, no output
//! named twice, no amount zero. Whether its signatures hold is for [`verify`](mod@crate::verify),
//! and whether its inputs exist, belong to the signers and suffice, for the
//! [ledger](crate::ledger).

use quorate_core::base::crypto::{Check, ClientSigner, PublicKey, Signature, Statement};
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader};
use quorate_core::protocols::snow::avalanche::vertex::{self, Worth};
pub use quorate_core::protocols::snow::avalanche::{InputId as OutputId, TransactionId};
use quorate_core::{Digest, planted};

use crate::address::Address;
use crate::refusal::Refusal;

/// Most inputs of a transaction, and most keys that sign one.
pub const MAX_INPUTS: usize = 64;
/// Most outputs of a transaction.
pub const MAX_OUTPUTS: usize = 64;
/// Bytes of the longest transaction.
pub const MAX_TRANSACTION_BYTES: usize =
    3 + MAX_INPUTS * (32 + SIGNATURE_BYTES + OUTPUT_ID_BYTES + 1) + MAX_OUTPUTS * Output::BYTES;

const SIGNATURE_BYTES: usize = 64;

/// Bytes of an output's name.
const OUTPUT_ID_BYTES: usize = 36;

/// An output that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Whom it belongs to.
    pub to: Address,
    /// How much it is; never 0.
    pub amount: u64,
}

impl Output {
    const BYTES: usize = Address::BYTES + 8;
}

/// What is signed, and what the id is the digest of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    signers: Vec<PublicKey>,
    inputs: Vec<OutputId>,
    /// The place of each input's owner among the signers.
    owners: Vec<u8>,
    outputs: Vec<Output>,
}

/// A transaction. Its shape is right; its signatures need not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    body: Body,
    signatures: Vec<Signature>,
    id: TransactionId,
}

impl Body {
    /// A transaction that spends `inputs`, each beside its owner's key, and makes `outputs`. Puts
    /// the inputs in order.
    ///
    /// # Errors
    /// [`Refusal`], as for one that is read.
    pub fn new(inputs: &[(OutputId, PublicKey)], outputs: Vec<Output>) -> Result<Self, Refusal> {
        let mut signers: Vec<_> = inputs.iter().map(|(_, key)| *key).collect();
        signers.sort_unstable();
        signers.dedup();
        if signers.len() > MAX_INPUTS {
            let (count, cap) = (signers.len(), MAX_INPUTS);
            return Err(Refusal::TooLarge { what: "signers", count, cap });
        }
        let mut inputs = inputs.to_vec();
        inputs.sort_unstable();
        let owner =
            |(_, key): &(_, PublicKey)| signers.partition_point(|signer| signer < key) as u8;
        let owners = inputs.iter().map(owner).collect();
        let inputs = inputs.into_iter().map(|(output, _)| output).collect();
        let body = Self { signers, inputs, owners, outputs };
        body.check()?;
        Ok(body)
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        TransactionId(Digest::of("quorate payment 1", &self.to_bytes()))
    }

    /// Signs it with the secret halves of its signers' keys; others are not used.
    ///
    /// # Errors
    /// [`Refusal::Unsigned`] if one is missing.
    pub fn sign(self, chain: &Digest, keys: &[&dyn ClientSigner]) -> Result<Transaction, Refusal> {
        let id = self.id();
        let statement = Statement::payment(chain, &id.0);
        let sign = |signer: &PublicKey| {
            let key = keys.iter().find(|key| key.public_key() == *signer);
            key.map(|key| key.sign(&statement)).ok_or(Refusal::Unsigned)
        };
        let signatures = self.signers.iter().map(sign).collect::<Result<_, _>>()?;
        Ok(Transaction { body: self, signatures, id })
    }

    /// Whether its shape is right.
    fn check(&self) -> Result<(), Refusal> {
        for (what, count, cap) in [
            ("signers", self.signers.len(), MAX_INPUTS),
            ("inputs", self.inputs.len(), MAX_INPUTS),
            ("outputs", self.outputs.len(), MAX_OUTPUTS),
        ] {
            match count {
                0 => return Err(Refusal::Malformed { what: "an empty list" }),
                _ if count > cap => return Err(Refusal::TooLarge { what, count, cap }),
                _ => {}
            }
        }
        if !self.signers.is_sorted_by(|one, next| one < next) {
            return Err(Refusal::Malformed { what: "signers out of order" });
        }
        let is_below = |one: &OutputId, next: &OutputId| {
            planted!("payments-input-twice", one <= next, one < next)
        };
        if self.inputs.windows(2).any(|pair| pair[0] == pair[1] && !is_below(&pair[0], &pair[1])) {
            return Err(Refusal::DuplicatedInput);
        }
        if !self.inputs.is_sorted_by(is_below) {
            return Err(Refusal::Malformed { what: "inputs out of order" });
        }
        let mut used = vec![false; self.signers.len()];
        for owner in &self.owners {
            match used.get_mut(usize::from(*owner)) {
                Some(used) => *used = true,
                None => return Err(Refusal::Malformed { what: "an input of no signer" }),
            }
        }
        if used.contains(&false) {
            return Err(Refusal::Malformed { what: "a signer of no input" });
        }
        if self.outputs.iter().any(|output| output.amount == 0) {
            return Err(Refusal::Malformed { what: "an output of nothing" });
        }
        self.total().map(|_| ())
    }

    /// What its outputs amount to.
    fn total(&self) -> Result<u64, Refusal> {
        let mut amounts = self.outputs.iter().map(|output| output.amount);
        let sum = amounts.try_fold(0u64, u64::checked_add);
        sum.ok_or(Refusal::Malformed { what: "outputs of more than there can be" })
    }
}

impl Transaction {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// The outputs it spends, ascending.
    #[must_use]
    pub fn inputs(&self) -> &[OutputId] {
        &self.body.inputs
    }

    /// The same, each beside the address of who signed for it.
    pub fn spent(&self) -> impl Iterator<Item = (OutputId, Address)> + '_ {
        let addresses: Vec<_> = self.body.signers.iter().map(Address::of).collect();
        let owned = self.body.inputs.iter().zip(&self.body.owners);
        // The shape was checked: each owner is one of the signers.
        owned.filter_map(move |(input, owner)| Some((*input, *addresses.get(usize::from(*owner))?)))
    }

    /// The outputs it makes.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.body.outputs
    }

    /// What its outputs amount to.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.body.outputs.iter().map(|output| output.amount).sum()
    }

    /// The signatures that it rests on.
    pub fn checks(&self, chain: &Digest) -> impl Iterator<Item = Check> + '_ {
        let statement = Statement::payment(chain, &self.id.0);
        let signers = self.body.signers.iter().zip(&self.signatures);
        signers.map(move |(key, signature)| Check::Client {
            key: *key,
            statement,
            signature: *signature,
        })
    }

    /// Reads a transaction that must fill `bytes`, and says by name what is wrong with one that
    /// does not.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn read(bytes: bytes::Bytes) -> Result<Self, Refusal> {
        if bytes.len() > MAX_TRANSACTION_BYTES {
            let (count, cap) = (bytes.len(), MAX_TRANSACTION_BYTES);
            return Err(Refusal::TooLarge { what: "bytes", count, cap });
        }
        let mut reader = Reader::new(bytes);
        let read = Self::read_from(&mut reader)?;
        reader.finish()?;
        Ok(read)
    }

    fn read_from(reader: &mut Reader) -> Result<Self, Refusal> {
        let signers = list(reader, "signers", MAX_INPUTS)?;
        let inputs: Vec<Owned> = list(reader, "inputs", MAX_INPUTS)?;
        let (inputs, owners) = inputs.into_iter().map(|Owned(input, owner)| (input, owner)).unzip();
        let outputs = list(reader, "outputs", MAX_OUTPUTS)?;
        let body = Body { signers, inputs, owners, outputs };
        body.check()?;
        let signature = |_| reader.array::<SIGNATURE_BYTES>().map(Signature::from);
        let signatures = (0..body.signers.len()).map(signature).collect::<Result<_, _>>()?;
        let id = body.id();
        Ok(Self { body, signatures, id })
    }
}

impl vertex::Transaction for Transaction {
    fn id(&self) -> TransactionId {
        self.id
    }

    fn inputs(&self) -> &[OutputId] {
        &self.body.inputs
    }

    /// Beside its entries in the graph there are 40 bytes for each output, and a key and a
    /// signature for each signer.
    fn weight(&self) -> usize {
        8 + 3 * self.body.inputs.len() + self.body.outputs.len() + 2 * self.body.signers.len()
    }

    fn output(&self, index: u32) -> Option<Worth> {
        let Output { to, amount } = self.body.outputs.get(index as usize)?;
        Some(Worth { owner: Digest(to.0), amount: *amount })
    }

    fn is_covered_by(&self, spent: &[Worth]) -> bool {
        let owned = self.spent().zip(spent).all(|((_, owner), worth)| owner.0 == worth.owner.0);
        let mut amounts = spent.iter().map(|worth| worth.amount);
        let sum = amounts.try_fold(0u64, u64::checked_add);
        let covers = owned && spent.len() == self.body.inputs.len() && sum == Some(self.total());
        planted!("payments-rival-not-covered", true, covers)
    }
}

/// A list behind a count of one byte, which is compared with the cap before anything is allocated.
fn list<T: Decode>(reader: &mut Reader, what: &'static str, cap: usize) -> Result<Vec<T>, Refusal> {
    let count = usize::from(reader.u8()?);
    if count > cap {
        return Err(Refusal::TooLarge { what, count, cap });
    }
    Ok((0..count).map(|_| T::decode(reader)).collect::<Result<_, _>>()?)
}

fn put_list<T: Encode>(out: &mut Vec<u8>, list: &[T]) {
    // No list has more than its cap.
    out.push(list.len() as u8);
    list.iter().for_each(|item| item.encode(out));
}

/// An input and the place of its owner.
struct Owned(OutputId, u8);

impl Encode for Owned {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        out.push(self.1);
    }
}

impl Decode for Owned {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(OutputId::decode(reader)?, reader.u8()?))
    }
}

impl Encode for Output {
    fn encode(&self, out: &mut Vec<u8>) {
        self.to.encode(out);
        self.amount.encode(out);
    }
}

impl Decode for Output {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { to: Address::decode(reader)?, amount: reader.u64()? })
    }
}

impl Encode for Body {
    fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.signers);
        let owned = self.inputs.iter().zip(&self.owners);
        put_list(out, &owned.map(|(input, owner)| Owned(*input, *owner)).collect::<Vec<_>>());
        put_list(out, &self.outputs);
    }
}

impl Encode for Transaction {
    fn encode(&self, out: &mut Vec<u8>) {
        self.body.encode(out);
        self.signatures.iter().for_each(|signature| out.extend_from_slice(signature.as_bytes()));
    }
}

impl Decode for Transaction {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Self::read_from(reader).map_err(|refusal| match refusal {
            Refusal::Encoding(error) => error,
            _ => DecodeError::Invalid { field: "transaction" },
        })
    }
}
