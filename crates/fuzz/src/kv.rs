//! The key-value store: commands and questions of clients, chunks of peers.

use std::num::NonZeroU64;

use bytes::Bytes;
use quorate_app::kv::command::encode;
use quorate_app::kv::quotas::{self, question};
use quorate_app::kv::{Command, ErrorKind, KeyValue, MAX_REPLY_BYTES, Reply};
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::{Caller, Decided, Replies, StateMachine};
use quorate_core::{Height, View};

use crate::allocation;
use crate::input::Input;

/// A store, and how many blocks it has executed.
#[derive(Default)]
pub struct Limited {
    store: KeyValue,
    blocks: u64,
}

/// Executes a block of commands that nobody sent.
pub fn apply(to: &mut Limited, commands: &[&[u8]]) -> Vec<Bytes> {
    apply_of(to, commands, &[])
}

/// Executes a block of commands: each has a reply that can be read and is within its limit.
fn apply_of(to: &mut Limited, commands: &[&[u8]], callers: &[Caller<'_>]) -> Vec<Bytes> {
    to.blocks += 1;
    let block =
        Decided { height: Height(to.blocks), view: View(to.blocks), commands, rules: 1, callers };
    let mut replies = Replies::default();
    to.store.apply(&block, &mut replies);
    assert_eq!(replies.len(), commands.len());
    for reply in replies.iter() {
        check_reply(reply);
    }
    replies.iter().map(Bytes::copy_from_slice).collect()
}

fn check_reply(reply: &[u8]) {
    assert!(reply.len() <= MAX_REPLY_BYTES + 64, "{} bytes", reply.len());
    if let Err(error) = Reply::decode(reply) {
        panic!("a reply that cannot be read: {error}");
    }
}

/// A client, and what the list of clients grants it.
type Client = (PublicKey, Option<Grant>);

/// One that is not listed; one with prefixes; one with a quota; one with both.
fn clients() -> [Client; 4] {
    let grant = |prefixes: &[&'static [u8]], quota| Grant {
        prefixes: prefixes.iter().map(|prefix| Bytes::from_static(prefix)).collect(),
        stored_bytes: NonZeroU64::new(quota),
        ..Grant::default()
    };
    [
        (PublicKey([0; 32]), None),
        (PublicKey([1; 32]), Some(grant(&[b"k\0", b"k\x01"], 0))),
        (PublicKey([2; 32]), Some(grant(&[], 1000))),
        (PublicKey([3; 32]), Some(grant(&[b"k\x01"], 2000))),
    ]
}

/// No client stores more than its quota.
fn check_quotas(store: &KeyValue, clients: &[Client]) {
    let keys: Vec<PublicKey> = clients.iter().map(|(key, _)| *key).collect();
    let stored = quotas::answer(&store.query(&question(&keys)), keys.len());
    for (stored, (_, grant)) in stored.expect("an answer").into_iter().zip(clients) {
        if let Some(quota) = grant.as_ref().and_then(|grant| grant.stored_bytes) {
            assert!(stored <= quota.get(), "{stored} bytes are stored, and {quota} may be");
        }
    }
}

/// Bytes as commands and questions of clients. One that is read can be executed; one that only
/// reads, or is refused, changes nothing, and neither does a question; nobody stores more than its
/// quota; the same commands in one block or in several lead to the same state and the same replies,
/// unless there are quotas: what a block frees counts from the next one on.
pub fn requests(input: &[u8]) {
    let mut input = Input::new(input);
    let clients = clients();
    let mut commands: Vec<(Vec<u8>, Caller<'_>)> = Vec::new();
    while !input.is_empty() && commands.len() < 64 {
        commands.push(command(&mut input, &clients));
    }
    let (mut one, mut all) = (Limited::default(), Limited::default());
    let mut replies = Vec::new();
    for (command, caller) in &commands {
        let before = one.store.root();
        // A command takes memory in proportion to what it sends and what there is, not to numbers
        // in it.
        let (allocated, mut reply) =
            allocation::of(|| apply_of(&mut one, &[command.as_slice()], &[*caller]));
        assert!(allocated <= 1 << 20, "{allocated} bytes for a command of {}", command.len());
        let refusal = match Reply::decode(&reply[0]) {
            Ok(Reply::Error(kind, _)) => Some(kind),
            _ => None,
        };
        let is_denied = refusal == Some(ErrorKind::NoPermission);
        let reads = Command::decode(command).is_ok_and(|command| command.is_read_only());
        if reads || is_denied || refusal == Some(ErrorKind::OutOfMemory) {
            assert_eq!(one.store.root(), before, "it was to change nothing, and has");
        }
        let answer = one.store.query(command);
        check_reply(&answer);
        if reads && !is_denied {
            assert_eq!(answer, reply[0], "a question is answered otherwise than a command");
        }
        check_quotas(&one.store, &clients);
        replies.append(&mut reply);
    }
    let (together, callers): (Vec<&[u8]>, Vec<Caller<'_>>) =
        commands.iter().map(|(command, caller)| (command.as_slice(), *caller)).unzip();
    let replies_together = apply_of(&mut all, &together, &callers);
    check_quotas(&all.store, &clients);
    let has_quota = |caller: &Caller<'_>| caller.grant.is_some_and(|it| it.stored_bytes.is_some());
    if callers.iter().any(has_quota) {
        return;
    }
    assert_eq!(replies_together, replies);
    // The root covers also which block changed what.
    all.store.root();
    one.store.root();
    assert_eq!(map_root(&all), map_root(&one));
}

/// The root of the map alone, behind which a proof says the rest.
fn map_root(of: &Limited) -> Bytes {
    let mut prover = of.store.prover().expect("it makes proofs");
    prover.prove(b"").expect("a proof").slice(..32)
}

/// A command that is likely to be read, or any bytes, and who sends it.
fn command<'a>(input: &mut Input<'_>, clients: &'a [Client; 4]) -> (Vec<u8>, Caller<'a>) {
    let mut out = Vec::new();
    let choice = input.byte();
    let key = [b'k', choice % 4];
    let (sender, grant) = &clients[usize::from(choice / 4 % 4)];
    let caller = Caller { key: sender, grant: grant.as_ref() };
    match input.byte() % 8 {
        0 => encode::incr_by(&mut out, &key, input.number() as i64),
        1 => {
            let value = vec![b'a'; usize::from(input.byte())];
            encode::append(&mut out, &key, &value);
        }
        2 => encode::db_size(&mut out),
        3 => encode::flush_all(&mut out),
        4 => encode::h_incr_by(&mut out, &key, b"field", input.number() as i64),
        5 => out = question(&vec![PublicKey([key[1]; 32]); usize::from(input.byte())]),
        _ => {
            let length = usize::from(input.byte());
            return (input.bytes(length), caller);
        }
    }
    let change = input.byte();
    if change & 1 == 1 {
        let at = usize::from(change >> 1) % out.len().max(1);
        if let Some(byte) = out.get_mut(at) {
            *byte ^= input.byte();
        }
    }
    (out, caller)
}

/// The chunks of a snapshot, changed, cut, doubled or in another order: refused, or the same state.
/// What was refused leaves a store that can be restored again.
pub fn snapshot(input: &[u8]) {
    let mut input = Input::new(input);
    let mut grown = Limited::default();
    let mut commands = Vec::new();
    for number in 0..u64::from(input.byte()) % 40 {
        let mut out = Vec::new();
        encode::append(&mut out, &number.to_le_bytes(), &[b'v'; 20]);
        commands.push(out);
    }
    let commands: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
    apply(&mut grown, &commands);
    let mut honest = Vec::new();
    grown.store.snapshot().chunks(&mut |chunk| {
        honest.push(Bytes::copy_from_slice(chunk));
        true
    });
    let mut chunks: Vec<Vec<u8>> = honest.iter().map(|chunk| chunk.to_vec()).collect();
    for _ in 0..input.byte() % 4 {
        let at = input.below(chunks.len().max(1) as u64) as usize;
        let Some(chunk) = chunks.get_mut(at) else { break };
        let place = input.below(chunk.len().max(1) as u64) as usize;
        match input.byte() % 6 {
            0 => drop(chunks.remove(at)),
            1 => {
                let copy = chunk.clone();
                chunks.insert(at, copy);
            }
            2 => chunk.truncate(place),
            3 => chunks.rotate_left(1),
            4 => chunk.extend(input.bytes(8)),
            _ => {
                if let Some(byte) = chunk.get_mut(place) {
                    *byte ^= input.byte();
                }
            }
        }
    }
    let sent: usize = chunks.iter().map(Vec::len).sum();
    let chunks: Vec<Bytes> = chunks.into_iter().map(Bytes::from).collect();
    let root = grown.store.root();
    let mut restored = KeyValue::new();
    let (allocated, outcome) = allocation::of(|| restored.restore(&mut chunks.clone().into_iter()));
    assert!(allocated <= 256 * sent as u64 + (256 << 10), "{allocated} bytes for {sent}");
    if outcome.is_ok() && chunks == honest {
        assert_eq!(restored.root(), root);
    }
    if chunks == honest {
        assert!(outcome.is_ok(), "an honest snapshot is refused");
    }
    assert!(restored.restore(&mut honest.into_iter()).is_ok());
    assert_eq!(restored.root(), root);
}
