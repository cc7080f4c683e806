//! The vertices of a batch, and how much is verified of them for each peer.
//!
//! A vertex comes once from each of many peers, and transactions come in several vertices. Those
//! whose signatures held are remembered, so that they are read and verified once.
//!
//! The signatures of a batch are verified in slices, those of peers with few first. Nothing more is
//! verified of a peer after its first vertex that is not signed, and of all that it sent no more
//! than its budget: whatever one peer sends, the others wait for a fraction of a second.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::Decode as _;
use quorate_core::protocols::snow::avalanche::Vertex;
use quorate_core::{Digest, ReplicaId, planted};

use super::super::metrics::{Foul, Metrics};
use crate::transaction::{Transaction, TransactionId};
use crate::verify::{Signed, verify};

/// Bytes of vertices in each of two generations of those that were seen.
const SEEN_BYTES: usize = 8 << 20;
/// Signatures that are verified of what one peer sent, of one batch: less than half a
/// second of work, and what a node under full load sends while this one does not look for five. Its
/// first vertex may have more. Correct nodes put at most forty payments into a vertex.
const SIGNATURES: usize = 16_384;
/// Signatures that are verified together, but for those of the last vertex among them.
const SLICE: usize = 1024;

/// Vertices whose signatures held, by the digest of their bytes, and their transactions: two
/// generations.
#[derive(Default)]
pub(super) struct Seen {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    vertices: HashMap<Digest, Arc<Vertex<Signed>>>,
    transactions: HashMap<TransactionId, Signed>,
    bytes: usize,
}

impl Seen {
    fn vertex(&mut self, digest: &Digest, bytes: usize) -> Option<Arc<Vertex<Signed>>> {
        if let Some(vertex) = self.young.vertices.get(digest) {
            return Some(Arc::clone(vertex));
        }
        let vertex = self.old.vertices.remove(digest)?;
        self.put(*digest, Arc::clone(&vertex), bytes);
        Some(vertex)
    }

    /// The same transaction, with the same signatures.
    fn transaction(&self, transaction: &Transaction) -> Option<Signed> {
        let id = transaction.id();
        let mut of = [&self.young, &self.old].into_iter();
        let known = of.find_map(|generation| generation.transactions.get(&id))?;
        (**known == *transaction).then(|| known.clone())
    }

    fn put(&mut self, digest: Digest, vertex: Arc<Vertex<Signed>>, bytes: usize) {
        if self.young.bytes > SEEN_BYTES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        let transactions = vertex.transactions().iter();
        self.young.transactions.extend(transactions.map(|signed| (signed.id(), signed.clone())));
        self.young.vertices.insert(digest, vertex);
    }
}

/// What signatures are verified with, and where they are counted.
pub(super) struct Verifying<'s> {
    pub(super) scheme: &'s dyn Scheme,
    pub(super) chain: &'s Digest,
    pub(super) metrics: &'s Metrics,
}

/// A vertex that is still to be verified.
struct Open {
    digest: Digest,
    bytes: usize,
    vertex: Vertex<Transaction>,
    /// Who brought it, and how many signatures it has.
    by: Vec<ReplicaId>,
    signatures: usize,
}

/// The vertices of a batch, while they are looked into.
#[derive(Default)]
pub(super) struct Vertices {
    /// Those that are known, or will be once they are verified.
    ready: HashMap<Digest, Result<Arc<Vertex<Signed>>, Foul>>,
    open: Vec<Open>,
    /// The places of those that are open.
    places: HashMap<Digest, usize>,
    /// Signatures of each peer's open vertices.
    spent: HashMap<ReplicaId, usize>,
}

impl Vertices {
    /// Looks at a vertex of a peer. The digest stands for it, unless the peer brought too much.
    pub(super) fn look(
        &mut self,
        of: &Verifying<'_>,
        seen: &mut Seen,
        from: ReplicaId,
        bytes: &Bytes,
    ) -> Option<Digest> {
        let digest = Digest::of("quorate vertex bytes", bytes);
        if self.ready.contains_key(&digest) {
            return Some(digest);
        }
        if let Some(place) = self.places.get(&digest) {
            self.open[*place].by.push(from);
            return Some(digest);
        }
        if let Some(vertex) = seen.vertex(&digest, bytes.len()) {
            Metrics::count(&of.metrics.known_vertices);
            self.ready.insert(digest, Ok(vertex));
            return Some(digest);
        }
        let spent = self.spent.entry(from).or_default();
        if planted!("payments-signatures-without-end", false, *spent >= SIGNATURES) {
            of.metrics.foul(Foul::TooOften);
            return None;
        }
        match Vertex::<Transaction>::from_bytes(bytes.clone()) {
            Ok(vertex) if vertex.check().is_ok() => {
                let unknown = vertex.transactions().iter();
                let unknown = unknown.filter(|transaction| seen.transaction(transaction).is_none());
                let signatures = unknown.map(|of_it| of_it.checks(of.chain).count()).sum();
                let is_much = *spent > 0 && *spent + signatures > SIGNATURES;
                if planted!("payments-signatures-without-end", false, is_much) {
                    of.metrics.foul(Foul::TooOften);
                    return None;
                }
                *spent += signatures;
                self.places.insert(digest, self.open.len());
                let (bytes, by) = (bytes.len(), vec![from]);
                self.open.push(Open { digest, bytes, vertex, by, signatures });
            }
            _ => drop(self.ready.insert(digest, Err(Foul::Malformed))),
        }
        Some(digest)
    }

    /// Verifies what is open.
    pub(super) fn settle(&mut self, of: &Verifying<'_>, seen: &mut Seen) {
        self.places.clear();
        let mut open = std::mem::take(&mut self.open);
        let spent = |open: &Open| open.by.first().and_then(|peer| self.spent.get(peer)).copied();
        open.sort_by_key(spent);
        let (mut open, mut liars) = (open.into_iter().peekable(), HashSet::new());
        while open.peek().is_some() {
            let (mut slice, mut signatures) = (Vec::new(), 0);
            while let Some(next) = open.next_if(|_| signatures < SLICE) {
                let of_liars = next.by.iter().all(|peer| liars.contains(peer));
                if planted!("payments-liars-verified-to-the-end", false, of_liars) {
                    self.ready.insert(next.digest, Err(Foul::Distrusted));
                    continue;
                }
                signatures += next.signatures;
                slice.push(next);
            }
            for (open, settled) in verified(slice, of, seen) {
                match &settled {
                    Ok(vertex) => seen.put(open.digest, Arc::clone(vertex), open.bytes),
                    Err(_) => liars.extend(open.by),
                }
                self.ready.insert(open.digest, settled);
            }
        }
    }

    /// Whether somebody did not sign what is in it.
    pub(super) fn is_unsigned(&self, digest: &Digest) -> bool {
        matches!(self.ready.get(digest), Some(Err(Foul::Unsigned)))
    }

    pub(super) fn vertex(&self, metrics: &Metrics, digest: &Digest) -> Option<Arc<Vertex<Signed>>> {
        match self.ready.get(digest)? {
            Ok(vertex) => Some(Arc::clone(vertex)),
            Err(foul) => {
                metrics.foul(*foul);
                None
            }
        }
    }
}

/// A vertex whose signatures hold, or why it is none.
type Settled = Result<Arc<Vertex<Signed>>, Foul>;

/// Verifies the signatures of all that are not known as one batch.
fn verified(slice: Vec<Open>, of: &Verifying<'_>, seen: &Seen) -> Vec<(Open, Settled)> {
    let known = |transaction: &Transaction| seen.transaction(transaction);
    let all = slice.iter().flat_map(|open| open.vertex.transactions());
    let unknown: Vec<_> = all.filter(|of_it| known(of_it).is_none()).cloned().collect();
    let signatures: usize = unknown.iter().map(|of_it| of_it.checks(of.chain).count()).sum();
    Metrics::add(&of.metrics.signatures, signatures as u64);
    let mut verdicts = verify(of.scheme, of.chain, unknown).into_iter();
    let settle = |open: Open| {
        let signed: Vec<Option<Signed>> = open
            .vertex
            .transactions()
            .iter()
            .map(|transaction| known(transaction).or_else(|| verdicts.next()?.ok()))
            .collect();
        let signed: Option<Vec<Signed>> = signed.into_iter().collect();
        let vertex = signed.map(|signed| Vertex::new(open.vertex.parents().to_vec(), signed));
        let settled = vertex.map(Arc::new).ok_or(Foul::Unsigned);
        (open, settled)
    };
    slice.into_iter().map(settle).collect()
}

#[cfg(test)]
mod tests;
