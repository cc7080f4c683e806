//! The inspecting thread: what peers send is read, and its signatures verified as one batch, before
//! the deciding thread sees it.
//!
//! A vertex comes once from each of many peers. The bytes of those whose signatures held are
//! remembered by their digest, so that they are read and verified once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::protocols::snow::avalanche::{Message, Vertex};
use quorate_core::{Digest, ReplicaId};
use quorate_transport::Arrivals;

use super::frames::{FETCHED_BYTES, Frame, PAGE};
use super::metrics::{Foul, Metrics};
use super::{Deed, Shared, bytes, keep, tell};
use crate::transaction::Transaction;
use crate::verify::{Signed, verify};

/// Frames inspected together.
const FRAMES: usize = 64;
/// Bytes of vertices in each of two generations of those that were seen.
const SEEN_BYTES: usize = 8 << 20;
/// The kinds of messages that carry a vertex, and the bytes before it.
const QUERY: (u8, usize) = (0, 9);
const HAVE: (u8, usize) = (4, 1);

/// Vertices whose signatures held, by the digest of their bytes: two generations.
#[derive(Default)]
struct Seen {
    young: HashMap<Digest, Arc<Vertex<Signed>>>,
    old: HashMap<Digest, Arc<Vertex<Signed>>>,
    young_bytes: usize,
}

impl Seen {
    fn get(&mut self, digest: &Digest, bytes: usize) -> Option<Arc<Vertex<Signed>>> {
        if let Some(vertex) = self.young.get(digest) {
            return Some(Arc::clone(vertex));
        }
        let vertex = self.old.remove(digest)?;
        self.put(*digest, Arc::clone(&vertex), bytes);
        Some(vertex)
    }

    fn put(&mut self, digest: Digest, vertex: Arc<Vertex<Signed>>, bytes: usize) {
        if self.young_bytes > SEEN_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(digest, vertex);
    }
}

/// What comes of a message, its vertex still to be verified.
enum Content {
    Whole(Message<Signed>),
    Query(u64, Bytes),
    Have(Bytes),
    Fetched(Vec<Bytes>),
}

pub(super) fn run(
    shared: &Shared,
    mut arrivals: Arrivals<(ReplicaId, Bytes)>,
    deeds: &SyncSender<Deed>,
) {
    let mut seen = Seen::default();
    while let Some(first) = arrivals.blocking_recv() {
        let mut frames = vec![first];
        let _room = arrivals.try_recv_many(&mut frames, FRAMES);
        let mut contents = Vec::new();
        for (from, frame) in frames {
            match Frame::read(frame) {
                Ok(frame) => read(shared, from, frame, &mut contents, deeds),
                Err(_) => shared.metrics.foul(Foul::Malformed),
            }
        }
        if !inspect(shared, contents, &mut seen, deeds) {
            return;
        }
    }
}

/// Answers what needs nobody's decision; collects the rest.
fn read(
    shared: &Shared,
    from: ReplicaId,
    frame: Frame,
    contents: &mut Vec<(ReplicaId, Content)>,
    deeds: &SyncSender<Deed>,
) {
    match frame {
        Frame::Messages(messages) => {
            for message in messages {
                match content(message) {
                    Some(content) => contents.push((from, content)),
                    None => shared.metrics.foul(Foul::Malformed),
                }
            }
        }
        Frame::AskPage(before) => {
            if let Some(page) = page(shared, before) {
                shared.peers.send(from, bytes(&page));
            }
        }
        Frame::Page(first, vertices) => {
            tell(deeds, Deed::Page(from, first, vertices));
        }
        Frame::Fetch(wanted) => {
            let (mut found, mut size) = (Vec::new(), 0);
            for vertex in wanted {
                match keep::vertex_bytes(&shared.view, &vertex) {
                    Ok(Some(bytes)) if size < FETCHED_BYTES => {
                        size += bytes.len();
                        found.push(bytes);
                    }
                    Ok(Some(_)) => break,
                    // What the ledger cannot read the deciding thread meets as well.
                    Ok(None) | Err(_) => shared.metrics.foul(Foul::UnknownVertex),
                }
            }
            shared.peers.send(from, bytes(&Frame::Fetched(found)));
        }
        Frame::Fetched(vertices) => contents.push((from, Content::Fetched(vertices))),
    }
}

fn page(shared: &Shared, before: u64) -> Option<Frame> {
    let notes = shared.view.meta().ok()??.notes;
    let end = before.min(notes);
    let first = end.saturating_sub(PAGE as u64);
    let vertex = |number| {
        let digest = shared.view.note_numbered(number).ok()??;
        Some(quorate_core::protocols::snow::avalanche::VertexId(digest))
    };
    Some(Frame::Page(first, (first..end).map(vertex).collect::<Option<_>>()?))
}

fn content(message: Bytes) -> Option<Content> {
    match *message.first()? {
        kind if kind == QUERY.0 => {
            let mut reader = Reader::new(message.slice(1..));
            let poll = reader.u64().ok()?;
            Some(Content::Query(poll, message.slice(QUERY.1..)))
        }
        kind if kind == HAVE.0 => Some(Content::Have(message.slice(HAVE.1..))),
        // Without a vertex there is nothing to verify.
        _ => match Message::<Transaction>::from_bytes(message).ok()? {
            Message::Answer { poll, vote } => Some(Content::Whole(Message::Answer { poll, vote })),
            Message::Want(vertex) => Some(Content::Whole(Message::Want(vertex))),
            Message::Query { .. } | Message::Have(_) => None,
        },
    }
}

/// The vertices of a batch, while they are looked into.
#[derive(Default)]
struct Batch {
    /// Those that are known, or will be once they are verified.
    ready: HashMap<Digest, Result<Arc<Vertex<Signed>>, Foul>>,
    open: Vec<(Digest, usize, Vertex<Transaction>)>,
}

impl Batch {
    fn look(&mut self, shared: &Shared, seen: &mut Seen, bytes: &Bytes) -> Digest {
        let digest = Digest::of("quorate vertex bytes", bytes);
        if self.ready.contains_key(&digest) || self.open.iter().any(|(open, ..)| *open == digest) {
            return digest;
        }
        if let Some(vertex) = seen.get(&digest, bytes.len()) {
            Metrics::count(&shared.metrics.known_vertices);
            self.ready.insert(digest, Ok(vertex));
            return digest;
        }
        match Vertex::<Transaction>::from_bytes(bytes.clone()) {
            Ok(vertex) if vertex.check().is_ok() => {
                self.open.push((digest, bytes.len(), vertex));
            }
            _ => drop(self.ready.insert(digest, Err(Foul::Malformed))),
        }
        digest
    }

    /// Verifies all that is open as one batch.
    fn settle(&mut self, shared: &Shared, seen: &mut Seen) {
        let open = std::mem::take(&mut self.open);
        let transactions = open.iter().flat_map(|(.., vertex)| vertex.transactions().to_vec());
        let transactions: Vec<_> = transactions.collect();
        let signatures: usize =
            transactions.iter().map(|transaction| transaction.checks(&shared.chain).count()).sum();
        Metrics::add(&shared.metrics.signatures, signatures as u64);
        let mut verdicts = verify(&shared.scheme, &shared.chain, transactions).into_iter();
        for (digest, bytes, vertex) in open {
            let verdicts: Vec<_> = verdicts.by_ref().take(vertex.transactions().len()).collect();
            let signed: Result<Vec<_>, _> = verdicts.into_iter().collect();
            let settled = match signed {
                Ok(signed) => {
                    let vertex = Arc::new(Vertex::new(vertex.parents().to_vec(), signed));
                    seen.put(digest, Arc::clone(&vertex), bytes);
                    Ok(vertex)
                }
                Err(_) => Err(Foul::Unsigned),
            };
            self.ready.insert(digest, settled);
        }
    }

    fn vertex(&self, shared: &Shared, digest: &Digest) -> Option<Arc<Vertex<Signed>>> {
        match self.ready.get(digest)? {
            Ok(vertex) => Some(Arc::clone(vertex)),
            Err(foul) => {
                shared.metrics.foul(*foul);
                None
            }
        }
    }
}

/// Verifies, and passes on what holds. Whether anybody is there to take it.
fn inspect(
    shared: &Shared,
    contents: Vec<(ReplicaId, Content)>,
    seen: &mut Seen,
    deeds: &SyncSender<Deed>,
) -> bool {
    let mut batch = Batch::default();
    let looked: Vec<Vec<Digest>> = contents
        .iter()
        .map(|(_, content)| match content {
            Content::Whole(_) => Vec::new(),
            Content::Query(_, bytes) | Content::Have(bytes) => {
                vec![batch.look(shared, seen, bytes)]
            }
            Content::Fetched(all) => {
                all.iter().map(|bytes| batch.look(shared, seen, bytes)).collect()
            }
        })
        .collect();
    batch.settle(shared, seen);
    for ((from, content), digests) in contents.into_iter().zip(looked) {
        let mut found = digests.iter().filter_map(|digest| batch.vertex(shared, digest));
        let deed = match content {
            Content::Whole(message) => Some(Deed::Message(from, message)),
            Content::Query(poll, _) => {
                found.next().map(|vertex| Deed::Message(from, Message::Query { poll, vertex }))
            }
            Content::Have(_) => {
                found.next().map(|vertex| Deed::Message(from, Message::Have(vertex)))
            }
            Content::Fetched(_) => Some(Deed::Fetched(from, found.collect())),
        };
        if deed.is_some_and(|deed| !tell(deeds, deed)) {
            return false;
        }
    }
    true
}

/// A message of the protocol with its vertex encoded already.
pub(super) fn with_vertex(poll: Option<u64>, vertex: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + vertex.len());
    match poll {
        Some(poll) => {
            bytes.push(QUERY.0);
            poll.encode(&mut bytes);
        }
        None => bytes.push(HAVE.0),
    }
    bytes.extend_from_slice(vertex);
    bytes
}
