//! The inspecting thread: what peers send is read, and its signatures verified as one batch, before
//! the deciding thread sees it.
//!
//! A vertex comes once from each of many peers. The bytes of those whose signatures held are
//! remembered by their digest, so that they are read and verified once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::protocols::snow::avalanche::{Message, Vertex};
use quorate_core::{Digest, ReplicaId, planted};
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
/// Pages and fetches that a peer is answered of one batch. A node that catches up asks for one of
/// each at a time; a page costs two thousand look-ups in the ledger.
const ANSWERED: u32 = 4;
/// For how long nothing is read of a peer that sent what is not signed. A correct one verifies a
/// vertex before it passes it on.
const DISTRUST: Duration = Duration::from_secs(10);
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
    let (mut seen, mut liars) = (Seen::default(), Liars::default());
    while let Some(first) = arrivals.blocking_recv() {
        let mut frames = vec![first];
        let _room = arrivals.try_recv_many(&mut frames, FRAMES);
        let (mut contents, mut answered) = (Vec::new(), Answered::default());
        let now = Instant::now();
        for (from, frame) in frames {
            if liars.has(from, now) {
                shared.metrics.foul(Foul::Distrusted);
                continue;
            }
            match Frame::read(frame) {
                Ok(Frame::AskPage(_) | Frame::Fetch(_)) if !answered.may(from) => {
                    shared.metrics.foul(Foul::TooOften);
                }
                Ok(frame) => read(shared, from, frame, &mut contents, deeds),
                Err(_) => shared.metrics.foul(Foul::Malformed),
            }
        }
        if !inspect(shared, contents, (&mut seen, &mut liars), deeds) {
            return;
        }
    }
}

/// How many questions of each peer were answered of a batch: whoever asks without end keeps nobody
/// else's messages waiting.
#[derive(Debug, Default)]
struct Answered(HashMap<ReplicaId, u32>);

impl Answered {
    fn may(&mut self, peer: ReplicaId) -> bool {
        let count = self.0.entry(peer).or_default();
        *count += 1;
        planted!("payments-asks-without-end", true, *count <= ANSWERED)
    }
}

/// Peers that sent what is not signed, and when. Verifying costs more than sending, so nothing is
/// read of them for ten seconds. The batch in which it was found is verified to its end.
#[derive(Debug, Default)]
struct Liars(HashMap<ReplicaId, Instant>);

impl Liars {
    fn note(&mut self, peer: ReplicaId, now: Instant) {
        self.0.insert(peer, now);
    }

    fn has(&self, peer: ReplicaId, now: Instant) -> bool {
        let since = self.0.get(&peer).map(|at| now.saturating_duration_since(*at));
        planted!("payments-liars-trusted", false, since.is_some_and(|since| since < DISTRUST))
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

/// What signatures are verified with, and where they are counted.
struct Verifying<'s> {
    scheme: &'s dyn Scheme,
    chain: &'s Digest,
    metrics: &'s Metrics,
}

/// The vertices of a batch, while they are looked into.
#[derive(Default)]
struct Batch {
    /// Those that are known, or will be once they are verified.
    ready: HashMap<Digest, Result<Arc<Vertex<Signed>>, Foul>>,
    open: Vec<(Digest, usize, Vertex<Transaction>)>,
    /// Those that are open.
    unsettled: HashSet<Digest>,
}

impl Batch {
    fn look(&mut self, metrics: &Metrics, seen: &mut Seen, bytes: &Bytes) -> Digest {
        let digest = Digest::of("quorate vertex bytes", bytes);
        if self.ready.contains_key(&digest) || self.unsettled.contains(&digest) {
            return digest;
        }
        if let Some(vertex) = seen.get(&digest, bytes.len()) {
            Metrics::count(&metrics.known_vertices);
            self.ready.insert(digest, Ok(vertex));
            return digest;
        }
        match Vertex::<Transaction>::from_bytes(bytes.clone()) {
            Ok(vertex) if vertex.check().is_ok() => {
                self.unsettled.insert(digest);
                self.open.push((digest, bytes.len(), vertex));
            }
            _ => drop(self.ready.insert(digest, Err(Foul::Malformed))),
        }
        digest
    }

    /// Verifies all that is open as one batch.
    fn settle(&mut self, of: &Verifying<'_>, seen: &mut Seen) {
        let open = std::mem::take(&mut self.open);
        let transactions = open.iter().flat_map(|(.., vertex)| vertex.transactions().to_vec());
        let transactions: Vec<_> = transactions.collect();
        let signatures: usize =
            transactions.iter().map(|transaction| transaction.checks(of.chain).count()).sum();
        Metrics::add(&of.metrics.signatures, signatures as u64);
        let mut verdicts = verify(of.scheme, of.chain, transactions).into_iter();
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

    fn is_unsigned(&self, digest: &Digest) -> bool {
        matches!(self.ready.get(digest), Some(Err(Foul::Unsigned)))
    }

    fn vertex(&self, metrics: &Metrics, digest: &Digest) -> Option<Arc<Vertex<Signed>>> {
        match self.ready.get(digest)? {
            Ok(vertex) => Some(Arc::clone(vertex)),
            Err(foul) => {
                metrics.foul(*foul);
                None
            }
        }
    }
}

/// Verifies, and passes on what holds. Whether anybody is there to take it.
fn inspect(
    shared: &Shared,
    contents: Vec<(ReplicaId, Content)>,
    (seen, liars): (&mut Seen, &mut Liars),
    deeds: &SyncSender<Deed>,
) -> bool {
    let mut batch = Batch::default();
    let looked: Vec<Vec<Digest>> = contents
        .iter()
        .map(|(_, content)| match content {
            Content::Whole(_) => Vec::new(),
            Content::Query(_, bytes) | Content::Have(bytes) => {
                vec![batch.look(&shared.metrics, seen, bytes)]
            }
            Content::Fetched(all) => {
                all.iter().map(|bytes| batch.look(&shared.metrics, seen, bytes)).collect()
            }
        })
        .collect();
    let Shared { scheme, chain, metrics, .. } = shared;
    batch.settle(&Verifying { scheme, chain, metrics }, seen);
    let now = Instant::now();
    for ((from, content), digests) in contents.into_iter().zip(looked) {
        if digests.iter().any(|digest| batch.is_unsigned(digest)) {
            liars.note(from, now);
        }
        let mut found = digests.iter().filter_map(|digest| batch.vertex(metrics, digest));
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

#[cfg(test)]
mod tests {
    use quorate_core::base::crypto::ClientSigner as _;
    use quorate_core::protocols::snow::avalanche::Vote;
    use quorate_crypto::{Ed25519, SecretKey};

    use super::*;
    use crate::address::Address;
    use crate::transaction::{Body, Output, OutputId};

    const CHAIN: Digest = Digest([7; 32]);

    #[test]
    fn whoever_asks_too_often_is_not_answered_and_the_others_are() {
        let mut answered = Answered::default();
        let of = |answered: &mut Answered, peer, times| {
            (0..times).filter(|_| answered.may(ReplicaId(peer))).count()
        };
        assert_eq!(of(&mut answered, 1, 100), ANSWERED as usize);
        assert_eq!(of(&mut answered, 2, 2), 2);
    }

    #[test]
    fn nothing_is_read_of_a_liar_for_ten_seconds() {
        let (mut liars, now) = (Liars::default(), Instant::now());
        let has = |liars: &Liars, peer, seconds| {
            liars.has(ReplicaId(peer), now + Duration::from_secs(seconds))
        };
        assert!(!has(&liars, 1, 0));
        liars.note(ReplicaId(1), now);
        assert!(has(&liars, 1, 0) && has(&liars, 1, 9) && !has(&liars, 1, 10));
        assert!(!has(&liars, 2, 0), "the others are read");
    }

    #[test]
    fn what_is_no_message_is_not_read() {
        for bytes in [&[][..], &[0, 1], &[1], &[2, 0, 0], &[3; 5], &[5], &[9, 9, 9]] {
            assert!(content(Bytes::copy_from_slice(bytes)).is_none(), "{bytes:?}");
        }
        let answer = Message::<Transaction>::Answer { poll: 7, vote: Vote::Yes };
        assert!(matches!(content(Bytes::from(answer.to_bytes())), Some(Content::Whole(_))));
    }

    /// The bytes of a vertex with one payment.
    fn vertex(chain: &Digest) -> Vec<u8> {
        let key = SecretKey::from_seed(&[1; 32]);
        let to = Address::of(&key.public_key());
        let inputs = [(OutputId::default(), key.public_key())];
        let body = Body::new(&inputs, vec![Output { to, amount: 5 }]).unwrap();
        let payment = body.sign(chain, &[&key]).unwrap();
        Vertex::new(Vec::new(), vec![payment]).to_bytes()
    }

    /// A peer's vertex is read and verified once, however many bring it; what is malformed or not
    /// signed for this chain is refused by name each time, and takes nothing else with it.
    #[test]
    fn what_does_not_hold_is_refused_by_name_and_the_rest_of_the_batch_passes() {
        let (scheme, metrics, mut seen) = (Ed25519::default(), Metrics::default(), Seen::default());
        let verifying = Verifying { scheme: &scheme, chain: &CHAIN, metrics: &metrics };
        let good = vertex(&CHAIN);
        let mut bent = good.clone();
        *bent.last_mut().unwrap() ^= 1;
        let cut = good[..good.len() - 1].to_vec();
        let longer = [&good[..], &[0]].concat();
        let all = [good.clone(), bent, vertex(&Digest([8; 32])), cut, longer, good.clone()];
        let all = all.map(Bytes::from);
        let mut batch = Batch::default();
        let digests = all.each_ref().map(|bytes| batch.look(&metrics, &mut seen, bytes));
        assert_eq!(batch.open.len(), 3, "what comes twice is read once");
        batch.settle(&verifying, &mut seen);
        let unsigned = digests.each_ref().map(|digest| batch.is_unsigned(digest));
        assert_eq!(unsigned, [false, true, true, false, false, false]);
        let held = digests.map(|digest| batch.vertex(&metrics, &digest).is_some());
        assert_eq!(held, [true, false, false, false, false, true]);
        let refused = metrics.json();
        assert_eq!(
            (&refused["refused_malformed"], &refused["refused_unsigned"]),
            (&2.into(), &2.into())
        );
        assert_eq!(refused["signatures"], 3);
        // The next batch knows the good one, and nothing of the others.
        let mut batch = Batch::default();
        for bytes in &all {
            batch.look(&metrics, &mut seen, bytes);
        }
        assert_eq!((batch.ready.len(), batch.open.len()), (1 + 2, 2));
    }
}
