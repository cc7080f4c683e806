//! The client's side: replicas say anything, and up to f of them lie together.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quorate_app::kv::command::encode;
use quorate_app::kv::feed::{Bounds, Feed, Found};
use quorate_app::kv::proof::{Shown, verify};
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::base::crypto::{PublicKey, Signature, Signer as _};
use quorate_core::base::wire::{Decode as _, Encode as _, put_bytes};
use quorate_core::client::decided::Decided as Follower;
use quorate_core::client::message::{Outcome, Refusal, Rejection, Request, Response};
use quorate_core::client::proven::{Answer, Bound};
use quorate_core::client::{Input as Told, Output, Packed, Session, SessionConfig};
use quorate_core::ledger::clients::{Admission, Clients, Grant};
use quorate_core::ledger::directive::{Directive, Order, SignedDirective};
use quorate_core::ledger::execution::StateSummary;
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::state_machine::{Decided, Replies, StateMachine as _};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::rules::{Chained, Rules as _};
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::protocols::protocol::{self, Ballot};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Epoch, Height, ReplicaId, Sequence, SessionId, Time, View};
use quorate_sim::keys::{CHAIN, Key, Mock, committee};

use crate::allocation;
use crate::input::Input;

const REPLICAS: usize = 4;
/// f + 1: as many as must say the same.
const BELIEVED: usize = 2;

/// A session of a client whose replicas say what the input wants. A session number and a reply are
/// believed only when f + 1 replicas have said them, and each batch is done once.
pub fn session(input: &[u8]) {
    let mut input = Input::new(input);
    let mut now = Time(1_000_000);
    let config = SessionConfig::new(CHAIN, REPLICAS);
    let mut session = Session::new(config, Arc::new(Key::of_client(0)), 7, now);
    let mut outputs = Vec::new();
    let connected = (0..REPLICAS as u16).map(|id| Told::Connected(ReplicaId(id)));
    session.step(now, connected, &mut outputs);
    let mut said: BTreeMap<Vec<u8>, BTreeSet<u16>> = BTreeMap::new();
    let (mut submitted, mut done) = (0, BTreeSet::new());
    for _ in 0..120 {
        if input.is_empty() {
            break;
        }
        let choice = input.byte();
        match choice % 8 {
            0 => {
                let commands = (0..1 + choice / 64).map(|number| vec![number; 3]);
                let Ok(batch) = Packed::commands(commands) else { continue };
                let give_up = (choice & 32 == 32).then_some(Time(now.0 + 1_000_000));
                let told = Told::Submit { id: submitted, batch, give_up };
                submitted += 1;
                session.step(now, [told], &mut outputs);
            }
            1 => {
                now = Time(now.0 + input.number() % 3_000_000);
                session.step(now, [Told::Timeout], &mut outputs);
            }
            2 => {
                let replica = ReplicaId(u16::from(choice >> 4));
                let told = match choice & 8 {
                    0 => Told::Disconnected(replica),
                    _ => Told::Connected(replica),
                };
                session.step(now, [told], &mut outputs);
            }
            _ => {
                let from = u16::from(choice >> 5);
                let response = response(&mut input);
                if let Response::Outcome(outcome) = &response {
                    for fact in facts(outcome) {
                        said.entry(fact).or_default().insert(from % 8);
                    }
                }
                let told = Told::Response { from: ReplicaId(from), response };
                session.step(now, [told], &mut outputs);
            }
        }
        assert!(outputs.len() <= 4096, "{} outputs of one step", outputs.len());
        let enough = |fact: &Vec<u8>| {
            let by = said.get(fact).into_iter().flatten();
            by.filter(|id| usize::from(**id) < REPLICAS).count() >= BELIEVED
        };
        for output in outputs.drain(..) {
            match output {
                Output::Opened(opened) => {
                    assert!(enough(&opened.to_bytes()), "{opened:?} on the word of too few");
                }
                Output::Done { id, result } => {
                    assert!(done.insert(id), "batch {id} is done twice");
                    for reply in result.iter().flat_map(Packed::iter) {
                        assert!(enough(&reply.to_vec()), "{reply:?} on the word of too few");
                    }
                }
                Output::Send { .. } | Output::Ended(_) => {}
            }
        }
    }
    assert!(done.iter().all(|id| *id < submitted));
}

/// What an outcome says that a client may come to believe.
fn facts(outcome: &Outcome) -> Vec<Vec<u8>> {
    match outcome {
        Outcome::Opened { session, .. } => vec![session.to_bytes()],
        Outcome::Executed { replies, count, .. } => {
            let packed = Packed::parse(replies.clone(), *count as usize);
            packed.iter().flat_map(Packed::iter).map(|reply| reply.to_vec()).collect()
        }
        Outcome::Rejected { .. } => Vec::new(),
    }
}

fn response(input: &mut Input<'_>) -> Response {
    let (kind, small) = (input.byte(), u64::from(input.byte()));
    let (session, first) = (SessionId(1 + small % 2), Sequence(1 + small / 2 % 6));
    match kind % 6 {
        0 => {
            let incarnation = 7 + u64::from(kind >> 6);
            Response::Outcome(Outcome::Opened { incarnation, session })
        }
        1 | 2 => {
            let count = u32::from(kind >> 5);
            let mut replies = Vec::new();
            for _ in 0..count {
                put_bytes(&mut replies, &[b'r', input.byte() % 2]);
            }
            if small & 128 == 128 {
                replies.truncate(replies.len() / 2);
            }
            Response::Outcome(Outcome::Executed { session, first, count, replies: replies.into() })
        }
        3 => Response::Refused { session, first, reason: Refusal::Busy },
        4 => Response::Outcome(Outcome::Rejected {
            session: SessionId(small % 3),
            first: if small % 3 == 0 { Sequence(7) } else { first },
            reason: Rejection::UnknownSession,
        }),
        _ => Response::Answer { id: small, answer: Bytes::new() },
    }
}

fn domain() -> Domain {
    Domain::new(committee(REPLICAS), Chained.facts().number)
}

fn verifier() -> Verifier {
    Verifier::new(domain(), Chained.facts())
}

fn certificate(of: &Block) -> Option<Qc> {
    if of.height == Height(0) {
        return Some(Qc::genesis(of.id()));
    }
    let statement = domain().vote(of.view, 1, &of.id());
    let mut bytes = Ballot { view: of.view, phase: 1, block: of.id() }.to_bytes();
    bytes.push(1);
    3u32.encode(&mut bytes);
    for signer in 0..3 {
        ReplicaId(signer).encode(&mut bytes);
        Key::of_replica(usize::from(signer)).sign(&statement).encode(&mut bytes);
    }
    Qc::from_bytes(bytes.into()).ok()
}

fn block(of: &Block, view: u64, state_root: Digest, frames: Vec<Digest>) -> Option<Block> {
    let justify = certificate(of)?;
    let (epoch, view, height) = (Epoch(0), View(view), of.height.next());
    let proposer = ReplicaId((view.0 % 4) as u16);
    Some(Block::new(Content { epoch, view, height, proposer, justify, state_root, frames }))
}

/// Blocks of views 1 to 8, one on the other.
fn chain() -> &'static [FullBlock] {
    static BLOCKS: OnceLock<Vec<FullBlock>> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let mut blocks: Vec<FullBlock> = Vec::new();
        for view in 1..=8 {
            let parent = blocks
                .last()
                .map_or_else(|| Block::genesis(CHAIN, Epoch(0)), |full| Block::clone(&full.block));
            let key = Key::of_client(1);
            let public = quorate_core::base::crypto::ClientSigner::public_key(&key);
            let command = [view as u8; 5];
            let frame =
                Frame::build(public, SessionId(1), Sequence(view), [&command[..]], &CHAIN, |s| {
                    key.sign(s)
                });
            let Some(frame) = frame.map(Arc::new) else { break };
            let Some(block) = block(&parent, view, Digest::default(), vec![frame.id()]) else {
                break;
            };
            blocks.push(FullBlock { block: Arc::new(block), frames: vec![frame] });
        }
        blocks
    })
}

/// True encodings of what replicas and clients send.
pub fn encodings() -> &'static [Vec<u8>] {
    static ENCODINGS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ENCODINGS.get_or_init(|| {
        let mut all: Vec<Vec<u8>> = answers().iter().map(|(_, _, answer)| answer.clone()).collect();
        for full in chain() {
            all.push(full.to_bytes());
            all.push(full.block.to_bytes());
            all.push(full.block.justify.to_bytes());
            let frame = Arc::clone(&full.frames[0]);
            all.push(PeerMessage::<Types>::Relay(vec![Arc::clone(&frame)]).to_bytes());
            all.push(PeerMessage::<Types>::Chain(vec![full.clone(); 2]).to_bytes());
            all.push(Request::Submit { relay: true, frame }.to_bytes());
        }
        all.extend(feed_encodings());
        all.extend(directives());
        all.push(listed_clients());
        all
    })
}

/// Directives as commands: each order, and that with a quota, which has a format of its own.
fn directives() -> impl Iterator<Item = Vec<u8>> {
    let key = PublicKey([7; 32]);
    let allow = |stored_bytes| Order::Allow(key, grant(stored_bytes));
    let (quota, listed) = (NonZeroU64::new(7), Order::Admit(Admission::Listed));
    let orders = [allow(None), allow(quota), Order::Revoke(key), Order::Forget(key), listed];
    orders.into_iter().map(move |order| {
        let directive = Directive { serial: 1, order };
        SignedDirective { directive, approvals: vec![(key, Signature::NONE)] }.to_command()
    })
}

fn grant(stored_bytes: Option<NonZeroU64>) -> Grant {
    Grant { prefixes: vec![Bytes::from_static(b"app:")], stored_bytes, ..Grant::default() }
}

/// A list of clients: a key that is revoked, one that is granted something, one with a quota.
fn listed_clients() -> Vec<u8> {
    let grant = grant(None).to_bytes();
    let of_quota = [&[2][..], &7_u64.to_le_bytes(), &grant].concat();
    let entries = [vec![0], [&[1][..], &grant].concat(), of_quota];
    let mut list = Admission::Listed.to_bytes();
    list.extend_from_slice(&9_u64.to_le_bytes());
    list.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for (key, entry) in (1..).zip(entries) {
        list.extend_from_slice(&[key; 32]);
        list.extend(entry);
    }
    Clients::from_bytes(list.into()).expect("a list of clients").to_bytes()
}

/// What a replica says of its change feed, and the list of a block.
fn feed_encodings() -> Vec<Vec<u8>> {
    let feed = Arc::new(Feed::new(Bounds::default()));
    let mut store = KeyValue::new().telling(&feed);
    let mut set = Vec::new();
    encode::set(&mut set, b"key", b"value", Condition::Always, false);
    let mut hash = Vec::new();
    encode::h_set(&mut hash, b"hash", [&b"a"[..], b"1", b"b", b"2"]);
    let mut del = Vec::new();
    encode::h_del(&mut del, b"hash", [&b"a"[..]]);
    for height in 1..4 {
        let commands: [&[u8]; 3] = [&set, &hash, &del];
        let (height, view) = (Height(height), View(height));
        let block = Decided { height, view, rules: 1, commands: &commands, callers: &[] };
        store.apply(&block, &mut Replies::default());
    }
    let Found::Here((_, Some((_, list)))) = feed.next(Height(1)) else { unreachable!() };
    let mut all = vec![list.to_vec(), feed.links(Height(2)).to_bytes()];
    all.push(feed.page(Height(1), 3, 60).to_bytes());
    all.push(feed.links(Height(0)).to_bytes());
    let (links, page) = (all[1].clone().into(), all[2].clone().into());
    all.push(Response::Changes { id: 1, links }.to_bytes());
    all.push(Response::Lists { id: 2, page }.to_bytes());
    all.push(Request::Changes { id: 3, from: Height(4), wait: true }.to_bytes());
    let (from, offset, budget_bytes) = (Height(6), 7, 8);
    all.push(Request::Lists { id: 5, from, offset, budget_bytes }.to_bytes());
    all
}

/// Answers to a pull that are bent on the way: only blocks that were decided are handed out, in
/// order and none twice.
pub fn blocks(input: &[u8]) {
    let mut input = Input::new(input);
    let chain = chain();
    assert_eq!(chain.len(), 8);
    let mut follower = Follower::new(verifier(), Height(1));
    let mut handed_out = 0;
    while !input.is_empty() {
        let first = match input.byte() {
            wild @ 192.. => u64::from(wild % 8),
            _ => follower.wanted().0 - 1,
        };
        let count = 1 + usize::from(input.byte() % 4);
        let honest = chain.iter().skip(first as usize).take(count);
        let mut sent: Vec<Vec<u8>> = honest.map(|full| full.to_bytes()).collect();
        for _ in 0..input.byte() % 3 {
            let at = usize::from(input.byte()) % sent.len().max(1);
            let Some(bytes) = sent.get_mut(at) else { break };
            let place = input.below(bytes.len().max(1) as u64) as usize;
            match input.byte() % 4 {
                0 => bytes.truncate(place),
                1 => drop(sent.remove(at)),
                _ => {
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte ^= input.byte();
                    }
                }
            }
        }
        let sent: Vec<Bytes> = sent.into_iter().map(Bytes::from).collect();
        let bytes = sent.concat();
        let taken = allocation::within(64, &bytes, || follower.take(&sent, &Mock));
        for full in taken.into_iter().flatten() {
            // Signatures are no part of an identity: another that holds, or a client's, may stand
            // there.
            let ids = |full: &FullBlock| {
                let frames: Vec<Digest> = full.frames.iter().map(|frame| frame.id()).collect();
                (full.block.id(), frames)
            };
            let expected = chain.get(handed_out).map(ids);
            assert_eq!(Some(ids(&full)), expected, "not what was decided");
            handed_out += 1;
        }
    }
}

/// A key, what is under it, and the encoding of a true answer.
type Proof = (Vec<u8>, Option<Shown>, Vec<u8>);

/// True answers about two keys, by the store that holds one of them.
fn answers() -> &'static [Proof] {
    static ANSWERS: OnceLock<Vec<Proof>> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        let mut store = KeyValue::new();
        let commands: Vec<Vec<u8>> = (0..20u8)
            .map(|number| {
                let mut out = Vec::new();
                encode::append(&mut out, &[b'k', number], b"value");
                out
            })
            .collect();
        let commands: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
        let decided = Decided {
            height: Height(1),
            view: View(1),
            commands: &commands,
            rules: 1,
            callers: &[],
        };
        store.apply(&decided, &mut Replies::default());
        let state = StateSummary {
            height: Height(7),
            block_id: Digest([4; 32]),
            application: store.root(),
            sessions: Digest([3; 32]),
            members: Digest::default(),
            clients: Digest::default(),
        };
        let parent = Block::genesis(CHAIN, Epoch(0));
        let below = Block::new(Content { view: View(10), height: Height(10), ..(*parent).clone() });
        let made = [[b'k', 3], [b'k', 30]].into_iter().filter_map(|key| {
            let block = block(&below, 11, state.root(), Vec::new())?;
            let shown: protocol::Shown<Types> =
                protocol::Shown { evidence: certificate(&block)?, block: Arc::new(block) };
            let content = store.prover()?.prove(&key).ok()?;
            let answer = Answer { chain: CHAIN, state, shown, content }.to_bytes();
            let value = (key[1] < 20).then(|| Shown::Text(b"value".to_vec()));
            Some((key.to_vec(), value, answer))
        });
        made.collect()
    })
}

/// A true answer that is bent is refused, or proves the same.
pub fn proofs(input: &[u8]) {
    let mut input = Input::new(input);
    let all = answers();
    assert_eq!(all.len(), 2);
    let (key, value, answer) = &all[usize::from(input.byte() & 1)];
    let mut bent = answer.clone();
    for _ in 0..input.byte() % 4 {
        let at = input.below(bent.len().max(1) as u64) as usize;
        match input.byte() % 5 {
            0 => bent.truncate(at),
            1 => {
                let more = input.bytes(4);
                bent.splice(at.min(bent.len())..at.min(bent.len()), more);
            }
            _ => {
                if let Some(byte) = bent.get_mut(at) {
                    *byte ^= input.byte();
                }
            }
        }
    }
    let honest = bent == *answer;
    let bound = Bound { newest: Height(12), max_lag_blocks: 5 };
    let bytes = bent.clone();
    let proven = allocation::within(64, &bytes, || {
        verify(&verifier(), &Mock, key, Bytes::from(bent), bound)
    });
    match proven {
        Ok(proven) => assert_eq!((&proven.value, proven.height), (value, Height(7))),
        Err(error) => assert!(!honest, "a true answer is refused: {error}"),
    }
}
