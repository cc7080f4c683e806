//! The inspecting thread: what peers send is read, and its signatures verified, before the deciding
//! thread sees it.

mod reading;
mod vertices;

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::snow::avalanche::{Message, VertexId};
use quorate_core::{ReplicaId, planted};
use quorate_transport::Arrivals;

use super::frames::{FETCHED_BYTES, Frame, PAGE};
use super::metrics::{Foul, Metrics};
use super::{Deed, Shared, bytes, keep, tell};
use reading::{Batch, Content, Liars};
use vertices::{Seen, Verifying, Vertices};

/// Frames inspected together.
const FRAMES: usize = 64;
/// The kinds of messages that carry a vertex, and the bytes before it.
const QUERY: (u8, usize) = (0, 9);
const HAVE: (u8, usize) = (4, 1);
/// Most bytes of a peer that wait for a later round: some seconds of verification. Beyond them its
/// vertices are not read.
const LATER_BYTES: usize = 16 << 20;

pub(super) fn run(
    shared: &Shared,
    mut arrivals: Arrivals<(ReplicaId, Bytes)>,
    deeds: &SyncSender<Deed>,
) {
    let (mut seen, mut liars) = (Seen::default(), Liars::default());
    let Shared { scheme, chain, metrics, .. } = shared;
    let verifying = Verifying { scheme, chain, metrics };
    let mut later = Vec::new();
    loop {
        let mut frames = Vec::new();
        // What waits for its round does not wait for frames.
        if later.is_empty() {
            let Some(first) = arrivals.blocking_recv() else { return };
            frames.push(first);
        }
        let _room = arrivals.try_recv_many(&mut frames, FRAMES);
        let now = Instant::now();
        let batch = Batch::read(frames, &liars, now, metrics);
        for (from, frame) in batch.others {
            answer(shared, from, frame, deeds);
        }
        let contents = later.into_iter().chain(batch.contents).collect();
        let inspected = inspect(contents, &verifying, (&mut seen, &mut liars), now);
        later = inspected.1;
        for deed in inspected.0 {
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

/// Verifies; what holds is for the deciding thread. Notes who sent what is not signed. Returns,
/// too, what is beyond a peer's budget: it comes first in the next round.
fn inspect(
    contents: Vec<(ReplicaId, Content)>,
    verifying: &Verifying<'_>,
    (seen, liars): (&mut Seen, &mut Liars),
    now: Instant,
) -> (Vec<Deed>, Vec<(ReplicaId, Content)>) {
    let (mut batch, mut looked, mut later) = (Vertices::default(), Vec::new(), Vec::new());
    for (from, content) in contents {
        let digests = match &content {
            Content::Whole(_) => Some(Vec::new()),
            Content::Query(_, bytes) | Content::Have(bytes) => {
                batch.look(verifying, seen, from, bytes).map(|digest| vec![digest])
            }
            Content::Fetched(all) => batch.look_fetched(verifying, seen, from, all),
        };
        match digests {
            Some(digests) => looked.push((from, content, digests)),
            None => later.push((from, content)),
        }
    }
    batch.settle(verifying, seen);
    let mut deeds = Vec::with_capacity(looked.len());
    for (from, content, digests) in looked {
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
    (deeds, kept(later, liars, now, verifying.metrics))
}

/// What may wait for the next round: nothing of a liar, and of no peer too much.
fn kept(
    mut later: Vec<(ReplicaId, Content)>,
    liars: &Liars,
    now: Instant,
    metrics: &Metrics,
) -> Vec<(ReplicaId, Content)> {
    let mut bytes: HashMap<ReplicaId, usize> = HashMap::new();
    later.retain(|(from, content)| {
        let of_peer = bytes.entry(*from).or_default();
        *of_peer += content.bytes();
        let foul = if liars.has(*from, now) { Foul::Distrusted } else { Foul::TooOften };
        let is_kept = *of_peer <= LATER_BYTES && foul != Foul::Distrusted;
        if planted!("payments-signatures-dropped", false, is_kept) {
            return true;
        }
        metrics.foul(foul);
        false
    });
    later
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
