//! The inspecting thread: what peers send is read, and its signatures verified, before the deciding
//! thread sees it.

mod reading;
mod vertices;

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::snow::avalanche::{Message, VertexId};
use quorate_core::{ReplicaId, planted};
use quorate_transport::Arrivals;

use super::frames::{FETCHED_BYTES, Frame, PAGE};
use super::metrics::Foul;
use super::{Deed, Shared, bytes, keep, tell};
use reading::{Batch, Content, Liars};
use vertices::{Seen, Verifying, Vertices};

/// Frames inspected together.
const FRAMES: usize = 64;
/// The kinds of messages that carry a vertex, and the bytes before it.
const QUERY: (u8, usize) = (0, 9);
const HAVE: (u8, usize) = (4, 1);

pub(super) fn run(
    shared: &Shared,
    mut arrivals: Arrivals<(ReplicaId, Bytes)>,
    deeds: &SyncSender<Deed>,
) {
    let (mut seen, mut liars) = (Seen::default(), Liars::default());
    let Shared { scheme, chain, metrics, .. } = shared;
    let verifying = Verifying { scheme, chain, metrics };
    while let Some(first) = arrivals.blocking_recv() {
        let mut frames = vec![first];
        let _room = arrivals.try_recv_many(&mut frames, FRAMES);
        let now = Instant::now();
        let batch = Batch::read(frames, &liars, now, metrics);
        for (from, frame) in batch.others {
            answer(shared, from, frame, deeds);
        }
        let inspected = inspect(batch.contents, &verifying, (&mut seen, &mut liars), now);
        for deed in inspected {
            if !tell(deeds, deed) {
                return;
            }
        }
    }
}

/// Answers what needs nobody's decision.
fn answer(shared: &Shared, from: ReplicaId, frame: Frame, deeds: &SyncSender<Deed>) {
    match frame {
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
        // Their vertices are verified first.
        Frame::Messages(_) | Frame::Fetched(_) => {}
    }
}

fn page(shared: &Shared, before: u64) -> Option<Frame> {
    let notes = shared.view.meta().ok()??.notes;
    let end = before.min(notes);
    let first = end.saturating_sub(PAGE as u64);
    let vertex = |number| {
        let digest = shared.view.note_numbered(number).ok()??;
        Some(VertexId(digest))
    };
    Some(Frame::Page(first, (first..end).map(vertex).collect::<Option<_>>()?))
}

/// Verifies; what holds is for the deciding thread. Notes who sent what is not signed.
fn inspect(
    contents: Vec<(ReplicaId, Content)>,
    verifying: &Verifying<'_>,
    (seen, liars): (&mut Seen, &mut Liars),
    now: Instant,
) -> Vec<Deed> {
    let mut batch = Vertices::default();
    let mut look = |from: ReplicaId, bytes: &Bytes| batch.look(verifying, seen, from, bytes);
    let looked: Vec<Vec<_>> = contents
        .iter()
        .map(|(from, content)| match content {
            Content::Whole(_) => Vec::new(),
            Content::Query(_, bytes) | Content::Have(bytes) => {
                look(*from, bytes).into_iter().collect()
            }
            Content::Fetched(all) => all.iter().filter_map(|bytes| look(*from, bytes)).collect(),
        })
        .collect();
    batch.settle(verifying, seen);
    let mut deeds = Vec::with_capacity(contents.len());
    for ((from, content), digests) in contents.into_iter().zip(looked) {
        let is_liar = digests.iter().any(|digest| batch.is_unsigned(digest));
        if planted!("payments-liars-not-noted", false, is_liar) {
            liars.note(from, now);
        }
        let mut found = digests.iter().filter_map(|digest| batch.vertex(verifying.metrics, digest));
        deeds.extend(match content {
            Content::Whole(message) => Some(Deed::Message(from, message)),
            Content::Query(poll, _) => {
                found.next().map(|vertex| Deed::Message(from, Message::Query { poll, vertex }))
            }
            Content::Have(_) => {
                found.next().map(|vertex| Deed::Message(from, Message::Have(vertex)))
            }
            Content::Fetched(_) => Some(Deed::Fetched(from, found.collect())),
        });
    }
    deeds
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
