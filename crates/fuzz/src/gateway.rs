//! The Redis gateway: its protocol, and what its commands come to.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BufMut as _;
use quorate_gateway::FrameLimits;
use quorate_gateway::commands::{Answer, Batch, Shared, Then, dispatch as dispatch_one};
use quorate_gateway::reply::{Shape, write_reply};
use quorate_gateway::resp::Requests;

use crate::kv::{Limited, apply};

type Request = Vec<Vec<u8>>;

/// The requests in `bytes` that arrive in pieces of these sizes, and how they end.
fn read(bytes: &[u8], sizes: &[usize]) -> (Vec<Request>, Option<String>) {
    let (mut requests, mut list, mut rest) = (Requests::default(), Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (now, later) = rest.split_at((*size).min(rest.len()));
        requests.space().put_slice(now);
        rest = later;
        loop {
            match requests.next_request() {
                Ok(Some(args)) => list.push(args.from(0).map(<[u8]>::to_vec).collect()),
                Ok(None) => break,
                Err(error) => return (list, Some(error.to_string())),
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (list, None)
}

/// Requests are the same in whatever pieces they arrive, and hold no byte that was not sent.
pub fn resp(input: &[u8]) {
    let (sizes, bytes) = input.split_at(input.len().min(3));
    let sizes: Vec<usize> = sizes.iter().map(|size| usize::from(*size) + 1).chain([9]).collect();
    let whole = read(bytes, &[usize::MAX]);
    assert_eq!(whole, read(bytes, &sizes), "pieces {sizes:?}");
    let held: usize = whole.0.iter().flatten().map(Vec::len).sum();
    assert!(held <= bytes.len(), "{held} of {}", bytes.len());
}

/// What a connection may be answered for one command that the gateway answers by itself: the
/// longest is the documentation of all commands.
const LOCAL_BYTES: usize = 64 << 10;

/// Commands of one connection: each has its answer, none is answered by more than its bound, and
/// the cluster's replies become RESP that ends where it should.
pub fn dispatch(input: &[u8]) {
    let address = SocketAddr::from(([127, 0, 0, 1], 6379));
    let shared = Arc::new(Shared::new(address, 4, FrameLimits::default()));
    let Some(mut connection) = shared.admit(address) else { return };
    let mut requests = Requests::default();
    requests.space().put_slice(input);
    let mut store = Limited::default();
    while let Ok(Some(args)) = requests.next_request() {
        connection.count(1);
        let asked: usize = args.from(0).map(<[u8]>::len).sum();
        let mut batch = Batch::default();
        let then = dispatch_one(args, &mut connection, &mut batch);
        let local = batch.local.len();
        assert!(local <= LOCAL_BYTES + 8 * asked, "{local} bytes in answer to {asked}");
        for batch in [Some(&batch), batch.behind.as_deref()].into_iter().flatten() {
            answer(batch, &mut store);
        }
        if then == Then::Close {
            break;
        }
    }
}

/// Executes what is to be ordered, and puts the answers together.
fn answer(batch: &Batch, store: &mut Limited) {
    let starts = std::iter::once(0).chain(batch.ends.iter().copied());
    let commands: Vec<&[u8]> =
        starts.zip(&batch.ends).map(|(start, end)| &batch.encoded[start..*end]).collect();
    let replies = apply(store, &commands);
    let ordered = batch.answers.iter().filter_map(|answer| match answer {
        Answer::Ordered(shape, protocol) => Some((*shape, *protocol)),
        Answer::Local(_) => None,
    });
    let mut out = Vec::new();
    let mut written = 0;
    for ((shape, protocol), reply) in ordered.zip(&replies) {
        let before = out.len();
        write_reply(&mut out, reply, shape, protocol);
        match shape {
            Shape::Silent => assert_eq!(out.len(), before, "a reply that is not to be sent"),
            _ => assert!(out.len() > before && out.ends_with(b"\r\n"), "{shape:?} does not end"),
        }
        written += 1;
    }
    assert!(batch.together || written == commands.len(), "a command without an answer");
}
