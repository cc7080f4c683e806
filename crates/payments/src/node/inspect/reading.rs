//! Reading the frames of a batch, and how much of it each peer may say.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, Reader};
use quorate_core::protocols::snow::avalanche::Message;
use quorate_core::{ReplicaId, planted};

use super::super::frames::Frame;
use super::super::metrics::{Foul, Metrics};
use super::{HAVE, QUERY};
use crate::transaction::Transaction;
use crate::verify::Signed;

/// Pages and fetches that a peer is answered of one batch. A node that catches up asks for one of
/// each at a time; a page costs two thousand look-ups in the ledger.
const ANSWERED: u32 = 4;
/// Vertices that a peer may want of one batch: as many as the vertices of one peer that wait have
/// parents.
const WANTED: u32 = 1024;
/// For how long nothing is read of a peer that sent what is not signed. A correct one verifies a
/// vertex before it passes it on.
const DISTRUST: Duration = Duration::from_secs(10);

/// What comes of a message, its vertex still to be verified.
pub(super) enum Content {
    Whole(Message<Signed>),
    Query(u64, Bytes),
    Have(Bytes),
    Fetched(Vec<Bytes>),
}

/// What the frames of a batch say.
#[derive(Default)]
pub(super) struct Batch {
    /// Frames without a vertex and without a message of the protocol.
    pub(super) others: Vec<(ReplicaId, Frame)>,
    pub(super) contents: Vec<(ReplicaId, Content)>,
}

impl Batch {
    /// Reads what each peer may say.
    pub(super) fn read(
        frames: Vec<(ReplicaId, Bytes)>,
        liars: &Liars,
        now: Instant,
        metrics: &Metrics,
    ) -> Self {
        let (mut batch, mut allowed) = (Self::default(), Allowed::default());
        for (from, frame) in frames {
            if planted!("payments-liars-trusted", false, liars.has(from, now)) {
                metrics.foul(Foul::Distrusted);
                continue;
            }
            match Frame::read(frame) {
                Ok(Frame::AskPage(_) | Frame::Fetch(_)) if !allowed.may_ask(from) => {
                    metrics.foul(Foul::TooOften);
                }
                Ok(Frame::Messages(messages)) => {
                    for message in messages {
                        batch.hear(from, message, &mut allowed, metrics);
                    }
                }
                Ok(Frame::Fetched(vertices)) => {
                    batch.contents.push((from, Content::Fetched(vertices)));
                }
                Ok(frame) => batch.others.push((from, frame)),
                Err(_) => metrics.foul(Foul::Malformed),
            }
        }
        batch
    }

    fn hear(&mut self, from: ReplicaId, message: Bytes, allowed: &mut Allowed, metrics: &Metrics) {
        match content(message) {
            Some(Content::Whole(Message::Want(_))) if !allowed.may_want(from) => {
                metrics.foul(Foul::TooOften);
            }
            Some(content) => self.contents.push((from, content)),
            None => metrics.foul(Foul::Malformed),
        }
    }
}

/// How many questions of each peer were read of a batch, and how many wants: whoever asks without
/// end keeps nobody else's messages waiting.
#[derive(Debug, Default)]
struct Allowed(HashMap<ReplicaId, (u32, u32)>);

impl Allowed {
    fn may_ask(&mut self, peer: ReplicaId) -> bool {
        let (asked, _) = self.0.entry(peer).or_default();
        *asked += 1;
        planted!("payments-asks-without-end", true, *asked <= ANSWERED)
    }

    fn may_want(&mut self, peer: ReplicaId) -> bool {
        let (_, wanted) = self.0.entry(peer).or_default();
        *wanted += 1;
        planted!("payments-wants-without-end", true, *wanted <= WANTED)
    }
}

/// Peers that sent what is not signed, and when. Verifying costs more than sending, so nothing is
/// read of them for ten seconds.
#[derive(Debug, Default)]
pub(super) struct Liars(HashMap<ReplicaId, Instant>);

impl Liars {
    pub(super) fn note(&mut self, peer: ReplicaId, now: Instant) {
        self.0.insert(peer, now);
    }

    pub(super) fn has(&self, peer: ReplicaId, now: Instant) -> bool {
        let since = self.0.get(&peer).map(|at| now.saturating_duration_since(*at));
        since.is_some_and(|since| since < DISTRUST)
    }
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

#[cfg(test)]
mod tests {
    use quorate_core::Digest;
    use quorate_core::base::wire::Encode as _;
    use quorate_core::protocols::snow::avalanche::{VertexId, Vote};

    use super::*;

    const PEERS: [ReplicaId; 2] = [ReplicaId(1), ReplicaId(2)];

    fn read(frames: &[(ReplicaId, Frame)], liars: &Liars, now: Instant) -> (Batch, Metrics) {
        let metrics = Metrics::default();
        let frames = frames.iter().map(|(from, frame)| (*from, Bytes::from(frame.to_bytes())));
        (Batch::read(frames.collect(), liars, now, &metrics), metrics)
    }

    fn refused(metrics: &Metrics, name: &str) -> u64 {
        metrics.json()[format!("refused_{name}")].as_u64().unwrap()
    }

    #[test]
    fn whoever_asks_too_often_is_not_answered_and_the_others_are() {
        let of_one = (0..100).map(|number| (PEERS[0], Frame::AskPage(number)));
        let of_other = [(PEERS[1], Frame::AskPage(7)), (PEERS[1], Frame::Fetch(Vec::new()))];
        let frames: Vec<_> = of_one.chain(of_other.clone()).collect();
        let (batch, metrics) = read(&frames, &Liars::default(), Instant::now());
        let of = |peer| batch.others.iter().filter(|(from, _)| *from == peer).count();
        assert_eq!(PEERS.map(of), [ANSWERED as usize, 2]);
        assert_eq!(refused(&metrics, "too_often"), 100 - u64::from(ANSWERED));
    }

    #[test]
    fn whoever_wants_too_much_is_not_served_and_the_others_are() {
        let want = Message::<Transaction>::Want(VertexId(Digest([7; 32])));
        let want = Bytes::from(want.to_bytes());
        let frames = [
            (PEERS[0], Frame::Messages(vec![want.clone(); 3000])),
            (PEERS[0], Frame::Messages(vec![want.clone(); 3000])),
            (PEERS[1], Frame::Messages(vec![want; 100])),
        ];
        let (batch, metrics) = read(&frames, &Liars::default(), Instant::now());
        let of = |peer| batch.contents.iter().filter(|(from, _)| *from == peer).count();
        assert_eq!(PEERS.map(of), [WANTED as usize, 100]);
        assert_eq!(refused(&metrics, "too_often"), 6000 - u64::from(WANTED));
    }

    #[test]
    fn nothing_is_read_of_a_liar_for_ten_seconds() {
        let (mut liars, now) = (Liars::default(), Instant::now());
        liars.note(PEERS[0], now);
        let answer = Message::<Transaction>::Answer { poll: 7, vote: Vote::Yes };
        let frame = Frame::Messages(vec![Bytes::from(answer.to_bytes())]);
        let frames = PEERS.map(|peer| (peer, frame.clone()));
        for (seconds, expected) in [(0, 1), (9, 1), (10, 2)] {
            let (batch, metrics) = read(&frames, &liars, now + Duration::from_secs(seconds));
            assert_eq!(batch.contents.len(), expected, "after {seconds} s");
            assert_eq!(refused(&metrics, "distrusted"), 2 - expected as u64);
        }
    }

    #[test]
    fn what_is_no_message_is_not_read() {
        for bytes in [&[][..], &[0, 1], &[1], &[2, 0, 0], &[3; 5], &[5], &[9, 9, 9]] {
            assert!(content(Bytes::copy_from_slice(bytes)).is_none(), "{bytes:?}");
        }
        let answer = Message::<Transaction>::Answer { poll: 7, vote: Vote::Yes };
        assert!(matches!(content(Bytes::from(answer.to_bytes())), Some(Content::Whole(_))));
    }
}
