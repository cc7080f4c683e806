//! How accepted vertices are kept in the ledger: as notes that name their parents and transactions.

use bytes::Bytes;
use quorate_core::base::wire::{DecodeError, Encode as _, Reader, put_list};
use quorate_core::protocols::snow::avalanche::vertex::{MAX_PARENTS, MAX_TRANSACTIONS};
use quorate_core::protocols::snow::avalanche::{Vertex, VertexId};

use crate::ledger::{LedgerError, View};
use crate::transaction::TransactionId;
use crate::verify::Signed;

/// The note of a vertex.
#[must_use]
pub(super) fn note(vertex: &Vertex<Signed>) -> Bytes {
    let mut bytes = Vec::with_capacity(32 * (1 + vertex.transactions().len()));
    put_list(&mut bytes, vertex.parents());
    let ids: Vec<_> = vertex.transactions().iter().map(|transaction| transaction.id()).collect();
    put_list(&mut bytes, &ids);
    Bytes::from(bytes)
}

fn parts(note: Bytes) -> Result<(Vec<VertexId>, Vec<TransactionId>), DecodeError> {
    let mut reader = Reader::new(note);
    let parts = (reader.list("parents", MAX_PARENTS)?, reader.list("ids", MAX_TRANSACTIONS)?);
    reader.finish()?;
    Ok(parts)
}

/// An accepted vertex as messages carry it, made again from the ledger; `None`: it is not there.
///
/// # Errors
/// [`LedgerError`]
pub(super) fn vertex_bytes(view: &View, vertex: &VertexId) -> Result<Option<Bytes>, LedgerError> {
    let Some(note) = view.note(&vertex.0)? else { return Ok(None) };
    let (parents, ids) = parts(note.bytes)?;
    let mut bytes = Vec::with_capacity(256 * (1 + ids.len()));
    put_list(&mut bytes, &parents);
    u32::try_from(ids.len()).unwrap_or(u32::MAX).encode(&mut bytes);
    for id in ids {
        let Some(accepted) = view.accepted(&id)? else {
            return Err(LedgerError::Inconsistent("an accepted vertex lacks a transaction"));
        };
        bytes.extend_from_slice(&accepted.transaction);
    }
    Ok(Some(Bytes::from(bytes)))
}
