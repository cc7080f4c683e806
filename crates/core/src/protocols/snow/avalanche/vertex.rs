//! A vertex: some transactions, and the vertices that its issuer preferred when it made it.

use std::fmt::Debug;

use super::names::{InputId, TransactionId, VertexId};
use crate::base::types::Digest;
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};

/// The most parents of a vertex.
pub const MAX_PARENTS: usize = 16;
/// The most transactions of a vertex.
pub const MAX_TRANSACTIONS: usize = 256;
/// The most inputs of a transaction.
pub const MAX_INPUTS: usize = 256;
/// What a vertex without parents and transactions [weighs](Vertex::weight).
const PLACE: usize = 10;

/// What an output is worth, and to whom. The protocol compares nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worth {
    /// Whose it is.
    pub owner: Digest,
    /// How much it is.
    pub amount: u64,
}

/// What is agreed on. The protocol knows a transaction by its name and by what it spends; whether
/// it is valid is the driver's affair, which lets no invalid one pass.
pub trait Transaction: Clone + Debug {
    /// The hash of all that it says.
    fn id(&self) -> TransactionId;

    /// The outputs that it spends. It can be accepted only after the transactions that they are of.
    /// None: it conflicts with nothing.
    fn inputs(&self) -> &[InputId];

    /// What it counts for where memory is bounded, in units of 64 bytes: with its entries in the
    /// graph, and its inputs' entries in their conflict sets. What it carries besides comes on top.
    fn weight(&self) -> usize {
        8 + 3 * self.inputs().len()
    }

    /// An output that it makes; `None`: it makes none with this index. By default it makes any.
    fn output(&self, index: u32) -> Option<Worth> {
        let _ = index;
        Some(Worth::default())
    }

    /// Whether it may spend its inputs, which are worth this, in their order. Asked before it joins
    /// a conflict set, so that what nobody may accept is nobody's rival. By default it may.
    fn is_covered_by(&self, spent: &[Worth]) -> bool {
        let _ = spent;
        true
    }
}

impl<T: Transaction> Transaction for std::sync::Arc<T> {
    fn id(&self) -> TransactionId {
        T::id(self)
    }

    fn inputs(&self) -> &[InputId] {
        T::inputs(self)
    }

    fn weight(&self) -> usize {
        T::weight(self)
    }

    fn output(&self, index: u32) -> Option<Worth> {
        T::output(self, index)
    }

    fn is_covered_by(&self, spent: &[Worth]) -> bool {
        T::is_covered_by(self, spent)
    }
}

/// Transactions with the parents that they vouch for. One without transactions is a no-op, whose
/// only use is the polls that it brings its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vertex<T> {
    id: VertexId,
    parents: Vec<VertexId>,
    transactions: Vec<T>,
}

/// Why a vertex is no vertex. Whoever sends one lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// More parents than allowed.
    #[error("{0} parents, above the cap of {MAX_PARENTS}")]
    Parents(usize),
    /// Parents out of order, or one twice.
    #[error("the parents are not in ascending order")]
    ParentOrder,
    /// More transactions than allowed.
    #[error("{0} transactions, above the cap of {MAX_TRANSACTIONS}")]
    Transactions(usize),
    /// A transaction with more inputs than allowed.
    #[error("a transaction has {0} inputs, above the cap of {MAX_INPUTS}")]
    Inputs(usize),
    /// Two transactions of the vertex, or two inputs of one, spend the same.
    #[error("the output {0} is spent twice within the vertex")]
    SpentTwice(InputId),
    /// A transaction is in it twice.
    #[error("the transaction {0} is twice in the vertex")]
    Repeated(TransactionId),
    /// A transaction spends an output of another one of the same vertex.
    #[error("the transaction {0} is spent within its own vertex")]
    SpentWithin(TransactionId),
}

impl<T> Vertex<T> {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> VertexId {
        self.id
    }

    /// The vertices it vouches for, ascending.
    #[must_use]
    pub fn parents(&self) -> &[VertexId] {
        &self.parents
    }

    /// What is in it.
    #[must_use]
    pub fn transactions(&self) -> &[T] {
        &self.transactions
    }
}

impl<T: Transaction> Vertex<T> {
    /// What it counts for where memory is bounded, in units of 64 bytes: its place in the graph,
    /// one for each parent, and its transactions.
    #[must_use]
    pub fn weight(&self) -> usize {
        let parents = self.parents.len();
        PLACE + parents + self.transactions.iter().map(T::weight).sum::<usize>()
    }

    /// A vertex of these; sorts the parents.
    #[must_use]
    pub fn new(mut parents: Vec<VertexId>, transactions: Vec<T>) -> Self {
        parents.sort_unstable();
        parents.dedup();
        Self::named(parents, transactions)
    }

    fn named(parents: Vec<VertexId>, transactions: Vec<T>) -> Self {
        let mut bytes = Vec::with_capacity(8 + 32 * (parents.len() + transactions.len()));
        put_list(&mut bytes, &parents);
        transactions.iter().for_each(|transaction| transaction.id().encode(&mut bytes));
        Self { id: VertexId(Digest::of("quorate avalanche vertex", &bytes)), parents, transactions }
    }

    /// Whether it keeps the bounds and is consistent in itself.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong.
    pub fn check(&self) -> Result<(), Malformed> {
        let Self { parents, transactions, .. } = self;
        if parents.len() > MAX_PARENTS {
            return Err(Malformed::Parents(parents.len()));
        }
        if !parents.is_sorted_by(|one, next| one < next) {
            return Err(Malformed::ParentOrder);
        }
        if transactions.len() > MAX_TRANSACTIONS {
            return Err(Malformed::Transactions(transactions.len()));
        }
        let mut ids: Vec<TransactionId> = transactions.iter().map(T::id).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Malformed::Repeated(twice[0]));
        }
        let mut inputs = Vec::new();
        for transaction in transactions {
            let own = transaction.inputs();
            if own.len() > MAX_INPUTS {
                return Err(Malformed::Inputs(own.len()));
            }
            inputs.extend_from_slice(own);
        }
        inputs.sort_unstable();
        let is_twice =
            |pair: &&[InputId]| planted!("avalanche-input-twice", false, pair[0] == pair[1]);
        if let Some(twice) = inputs.windows(2).find(is_twice) {
            return Err(Malformed::SpentTwice(twice[0]));
        }
        let within = inputs.iter().find(|input| ids.binary_search(&input.transaction).is_ok());
        within.map_or(Ok(()), |input| Err(Malformed::SpentWithin(input.transaction)))
    }
}

impl<T: Encode> Encode for Vertex<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.parents);
        put_list(out, &self.transactions);
    }
}

impl<T: Transaction + Decode> Decode for Vertex<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let parents = reader.list("parents", MAX_PARENTS)?;
        Ok(Self::named(parents, reader.list("transactions", MAX_TRANSACTIONS)?))
    }
}
