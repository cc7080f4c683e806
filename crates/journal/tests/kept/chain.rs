//! A chain of blocks, with the outcomes of its execution in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_app::kv::command::encode;
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::base::crypto::{PublicKey, Signature, Statement};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::client::message::Outcome;
use quorate_core::ledger::execution::{Executed, Execution};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::sessions::Limits;
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::{self, Types};
use quorate_core::protocols::protocol::Shown;
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::Offer;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};
use quorate_journal::Owner;

pub const CHAIN: Digest = Digest([7; 32]);
/// Small, so that sessions and answers are evicted.
pub const LIMITS: Limits = Limits {
    max_sessions: 3,
    min_idle_blocks: 2,
    answer_commands: 1 << 20,
    answer_bytes: 3000,
    window_frames: 4,
    window_commands: 100,
    window_bytes: 10_000,
};

pub fn owner() -> Owner<Types> {
    let key = ReplicaKey::new(&[1; 32]).expect("a key");
    let committee = Committee::new(CHAIN, Epoch(0), vec![key.clone()]).expect("a committee");
    Owner::new(hotstuff::origin(&Domain::new(committee, 1)), key)
}

pub struct Chain {
    /// The blocks from height 1 on.
    blocks: Vec<FullBlock>,
    executed: Vec<Executed>,
    genesis: SharedBlock,
    genesis_root: Digest,
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn command(random: &mut Random) -> Vec<u8> {
    let key = random.below(40).to_le_bytes();
    let value = vec![random.below(256) as u8; random.below(400) as usize];
    let mut out = Vec::new();
    match random.below(9) {
        0 | 1 => encode::set(&mut out, &key, &value, Condition::Always, false),
        2 => encode::append(&mut out, &key, &value),
        3 => encode::incr_by(&mut out, &key[..1], 3),
        4 => encode::h_set(&mut out, &key[..3], [&value[..value.len().min(9)], b"v"]),
        5 => encode::del(&mut out, [&key[..], &key[..3]]),
        6 => encode::get(&mut out, &key),
        7 => encode::keys(&mut out, b"*"),
        _ if random.below(10) == 0 => encode::flush_all(&mut out),
        _ => encode::db_size(&mut out),
    }
    out
}

fn key(client: u8) -> PublicKey {
    PublicKey([client + 1; 32])
}

fn sign(_: &Statement) -> Signature {
    Signature::from([0; 64])
}

/// The frames of a block: sessions opened and ended, frames in order, ahead of order, and repeated.
fn frames(
    random: &mut Random,
    height: u64,
    execution: &Execution<KeyValue>,
    opened: &BTreeMap<PublicKey, SessionId>,
) -> Vec<SharedFrame> {
    let mut frames = Vec::new();
    for client in 0..4u8 {
        let key = key(client);
        if height % 16 == u64::from(client) * 3 + 1 {
            frames.push(Arc::new(Frame::open(key, height, &CHAIN, sign)));
        }
        let Some(session) = opened.get(&key).copied() else { continue };
        let mut next = execution.sessions().next_number(session).unwrap_or(Sequence(1)).0;
        for _ in 0..random.below(3) {
            let first = match random.below(5) {
                0 => next + 2,
                1 => next.saturating_sub(2).max(1),
                _ => next,
            };
            let commands: Vec<_> = (0..1 + random.below(3)).map(|_| command(random)).collect();
            next = next.max(first + commands.len() as u64);
            let commands = commands.iter().map(Vec::as_slice);
            let frame = Frame::build(key, session, Sequence(first), commands, &CHAIN, sign);
            frames.push(Arc::new(frame.expect("a frame")));
        }
    }
    frames
}

/// Gives the frames of a block at a height, from the state below it and the sessions opened.
type Frames<'a> = &'a mut dyn FnMut(
    u64,
    &Execution<KeyValue>,
    &BTreeMap<PublicKey, SessionId>,
) -> Vec<SharedFrame>;

impl Chain {
    pub fn new(blocks: u64) -> Self {
        let mut random = Random(11);
        let chain = Self::of(blocks, &mut |height, execution, opened| {
            frames(&mut random, height, execution, opened)
        });
        let commands: u64 = chain.executed.iter().map(|executed| executed.commands).sum();
        assert!(commands > blocks, "the sessions are met: {commands}");
        chain
    }

    /// One session. Up to `height` more keys are set than removed, one by one. There all are
    /// removed, then each block sets one key.
    pub fn emptied_at(height: u64, blocks: u64) -> Self {
        let chain = Self::of(blocks, &mut |at, _, opened| {
            let key = key(0);
            let Some(session) = opened.get(&key).copied() else {
                return vec![Arc::new(Frame::open(key, at, &CHAIN, sign))];
            };
            let mut command = Vec::new();
            if at < height {
                let keys: Vec<[u8; 4]> = (600 * at..600 * (at + 1))
                    .map(|number| (number as u32).to_be_bytes())
                    .collect();
                encode::m_set(&mut command, keys.iter().flat_map(|key| [&key[..], b"v"]));
            } else if at == height {
                encode::flush_all(&mut command);
            } else {
                encode::set(&mut command, &at.to_be_bytes(), b"v", Condition::Always, false);
            }
            let number = Sequence(at - 1);
            let frame = Frame::build(key, session, number, [&command[..]], &CHAIN, sign);
            vec![Arc::new(frame.expect("a frame"))]
        });
        let commands: u64 = chain.executed.iter().map(|executed| executed.commands).sum();
        assert_eq!(commands, blocks - 1);
        chain
    }

    fn of(blocks: u64, frames: Frames<'_>) -> Self {
        let genesis = owner().genesis();
        let mut execution = Execution::new(KeyValue::new(), LIMITS, genesis.id()).expect("limits");
        let genesis_root = execution.state_root();
        let mut chain = Self { blocks: Vec::new(), executed: Vec::new(), genesis, genesis_root };
        let mut opened = BTreeMap::new();
        for height in 1..=blocks {
            let frames = frames(height, &execution, &opened);
            let block = Block::new(Content {
                epoch: Epoch(0),
                view: View(height),
                height: Height(height),
                proposer: ReplicaId(0),
                justify: Qc::genesis(chain.id(height - 1)),
                state_root: chain.root(height - 1),
                frames: frames.iter().map(|frame| frame.id()).collect(),
            });
            let executed =
                execution.execute(block.height, block.view, block.id(), &frames).expect("a block");
            for (key, outcome) in &executed.outcomes {
                if let Outcome::Opened { session, .. } = outcome {
                    opened.insert(*key, *session);
                }
            }
            chain.executed.push(executed);
            chain.blocks.push(FullBlock { block: Arc::new(block), frames });
        }
        chain
    }

    /// The state at a height.
    pub fn state(&self, height: u64) -> Execution<KeyValue> {
        let mut state = Execution::new(KeyValue::new(), LIMITS, self.genesis.id()).expect("limits");
        for FullBlock { block, frames } in &self.blocks[..height as usize] {
            state.execute(block.height, block.view, block.id(), frames).expect("a block");
        }
        state
    }

    pub fn block(&self, height: u64) -> &FullBlock {
        &self.blocks[height as usize - 1]
    }

    pub fn executed(&self, height: u64) -> &Executed {
        &self.executed[height as usize - 1]
    }

    pub fn id(&self, height: u64) -> Digest {
        if height == 0 { self.genesis.id() } else { self.block(height).block.id() }
    }

    pub fn root(&self, height: u64) -> Digest {
        if height == 0 { self.genesis_root } else { self.executed(height).root }
    }

    /// The offer of the state at a height, once the block two above it exists.
    pub fn offer(&self, height: u64) -> Offer<Types> {
        Offer {
            epoch: Epoch(0),
            block: Arc::clone(&self.block(height).block),
            recent: Vec::new(),
            shown: Shown {
                block: Arc::clone(&self.block(height + 1).block),
                evidence: self.block(height + 2).block.justify.clone(),
            },
        }
    }

    pub fn meta(&self, height: u64) -> SnapshotMeta<Types> {
        let block = Arc::clone(&self.block(height).block);
        let roots = (height.saturating_sub(9)..=height).map(|height| self.root(height)).collect();
        SnapshotMeta { block, committed: Height(height), recent: Vec::new(), roots }
    }
}
