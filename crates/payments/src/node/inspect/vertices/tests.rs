//! What is verified of whom, from the frames of a batch to the deeds of the deciding thread.

use std::time::{Duration, Instant};

use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::snow::avalanche::VertexId;
use quorate_crypto::{Ed25519, SecretKey};

use super::super::super::frames::Frame;
use super::super::reading::{Batch, Liars};
use super::super::{Deed, inspect, with_vertex};
use super::*;
use crate::address::Address;
use crate::transaction::{Body, Output, OutputId};

const CHAIN: Digest = Digest([7; 32]);
const ANOTHER: Digest = Digest([8; 32]);

/// A payment, signed for a chain.
fn payment(chain: &Digest, number: u32) -> Transaction {
    let key = SecretKey::from_seed(&[1; 32]);
    let to = Address::of(&key.public_key());
    let output = OutputId { index: number, ..OutputId::default() };
    let body = Body::new(&[(output, key.public_key())], vec![Output { to, amount: 5 }]);
    body.unwrap().sign(chain, &[&key]).unwrap()
}

fn vertex_of(parent: u8, payments: Vec<Transaction>) -> Bytes {
    let parents = vec![VertexId(Digest([parent; 32]))];
    Bytes::from(Vertex::new(parents, payments).to_bytes())
}

/// The bytes of a vertex with one payment.
fn vertex(chain: &Digest, number: u32) -> Bytes {
    vertex_of(0, vec![payment(chain, number)])
}

/// The inspecting thread without its channels.
struct Inspecting {
    scheme: Ed25519,
    metrics: Metrics,
    seen: Seen,
    liars: Liars,
    now: Instant,
}

impl Inspecting {
    fn new() -> Self {
        Self {
            scheme: Ed25519::default(),
            metrics: Metrics::default(),
            seen: Seen::default(),
            liars: Liars::default(),
            now: Instant::now(),
        }
    }

    /// One batch: each peer asks about these vertices. How many of each are passed on.
    fn batch(&mut self, all: &[(u16, &[Bytes])]) -> Vec<usize> {
        let frame = |vertices: &[Bytes]| {
            let queries = vertices.iter().map(|vertex| Bytes::from(with_vertex(Some(1), vertex)));
            Bytes::from(Frame::Messages(queries.collect()).to_bytes())
        };
        let frames = all.iter().map(|(peer, vertices)| (ReplicaId(*peer), frame(vertices)));
        let batch = Batch::read(frames.collect(), &self.liars, self.now, &self.metrics);
        let verifying = Verifying { scheme: &self.scheme, chain: &CHAIN, metrics: &self.metrics };
        let state = (&mut self.seen, &mut self.liars);
        let deeds = inspect(batch.contents, &verifying, state, self.now);
        let of = |peer: u16| {
            let of = |deed: &&Deed| matches!(deed, Deed::Message(from, _) if from.0 == peer);
            deeds.iter().filter(of).count()
        };
        all.iter().map(|(peer, _)| of(*peer)).collect()
    }

    fn number(&self, name: &str) -> u64 {
        self.metrics.json()[name].as_u64().unwrap()
    }
}

/// A peer's vertex is read and verified once, however many bring it; what is malformed or not
/// signed for this chain is refused by name each time, and takes nothing of the others with it.
#[test]
fn what_does_not_hold_is_refused_by_name_and_the_rest_of_the_batch_passes() {
    let mut inspecting = Inspecting::new();
    let good = vertex(&CHAIN, 0);
    let mut bent = good.to_vec();
    *bent.last_mut().unwrap() ^= 1;
    let cut = good.slice(..good.len() - 1);
    let longer = Bytes::from([&good[..], &[0]].concat());
    let passed = inspecting.batch(&[
        (1, std::slice::from_ref(&good)),
        (2, &[cut, longer]),
        (3, &[Bytes::from(bent)]),
        (4, &[vertex(&ANOTHER, 0)]),
        (5, std::slice::from_ref(&good)),
    ]);
    assert_eq!(passed, [1, 0, 0, 0, 1]);
    assert_eq!(
        (inspecting.number("refused_malformed"), inspecting.number("refused_unsigned")),
        (2, 2)
    );
    assert_eq!(inspecting.number("signatures"), 3, "what comes twice is verified once");
    assert_eq!(inspecting.batch(&[(1, &[good])]), [1]);
    assert_eq!((inspecting.number("signatures"), inspecting.number("known_vertices")), (3, 1));
}

/// The same payments come in vertices with other parents: these are other bytes.
#[test]
fn a_payment_is_verified_once_in_whatever_vertices_it_comes() {
    let mut inspecting = Inspecting::new();
    let payments: Vec<_> = (0..10).map(|number| payment(&CHAIN, number)).collect();
    for parent in 0..20 {
        let copy = vertex_of(parent, payments.clone());
        assert_eq!(inspecting.batch(&[(1, &[copy])]), [1]);
    }
    assert_eq!(inspecting.number("signatures"), 10);
    // With other signatures it is another one.
    let mut bent = vertex_of(20, payments[..1].to_vec()).to_vec();
    *bent.last_mut().unwrap() ^= 1;
    assert_eq!(inspecting.batch(&[(1, &[Bytes::from(bent)])]), [0]);
}

#[test]
fn a_liar_is_found_once_and_then_not_read() {
    let mut inspecting = Inspecting::new();
    let (good, bad) = ([vertex(&CHAIN, 0)], [vertex(&ANOTHER, 0)]);
    assert_eq!(inspecting.batch(&[(1, &bad), (2, &good)]), [0, 1]);
    assert_eq!(inspecting.batch(&[(1, &good), (2, &good)]), [0, 1]);
    assert_eq!(inspecting.number("refused_distrusted"), 1);
    inspecting.now += Duration::from_secs(10);
    assert_eq!(inspecting.batch(&[(1, &good), (2, &good)]), [1, 1]);
}

/// Nothing is verified of a liar's batch after its first slice. What others bring, too, is.
#[test]
fn a_liars_batch_is_not_verified_to_its_end() {
    let mut inspecting = Inspecting::new();
    let many: Vec<_> = (0..30)
        .map(|at| vertex_of(0, (0..100).map(|n| payment(&ANOTHER, 100 * at + n)).collect()))
        .collect();
    let good = vertex(&CHAIN, 0);
    let lies = [&many[..], std::slice::from_ref(&good)].concat();
    assert_eq!(inspecting.batch(&[(1, &lies), (2, &[good])]), [1, 1]);
    assert!(inspecting.number("signatures") <= (SLICE + 101) as u64);
    assert_eq!(inspecting.number("refused_unsigned"), 11);
}

/// Signatures that hold cost as much as others.
#[test]
fn a_peer_has_a_budget_of_signatures_and_the_others_pass() {
    let mut inspecting = Inspecting::new();
    let of = |at: u32| (0..256).map(move |n| payment(&CHAIN, 256 * at + n)).collect();
    let many: Vec<_> = (0..68).map(|at| vertex_of(0, of(at))).collect();
    let other = vertex(&CHAIN, 1_000_000);
    let most = SIGNATURES / 256;
    assert_eq!(inspecting.batch(&[(1, &many), (2, &[other])]), [most, 1]);
    assert_eq!(inspecting.number("refused_too_often"), (68 - most) as u64);
    assert_eq!(inspecting.number("signatures"), SIGNATURES as u64 + 1);
}
