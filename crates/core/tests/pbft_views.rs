//! One replica of PBFT, and what its peers say of views that a faulty primary leads.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::base::crypto::{Claim, Signature, Verified};
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::ledger::block::{Block, BlockId};
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::pbft::words::{
    Content, Entry, NewView, Phase, SignedChange, Types, ViewChange, Vote,
};
use quorate_core::protocols::pbft::{Authentication, Message, Pbft, Settings, origin};
use quorate_core::protocols::protocol::{BlockOf, Input, Ledger, Output, Protocol as _};
use quorate_core::{Digest, Epoch, Height, ReplicaId, Time, View};

/// Of the primary of [`VIEW`].
const LIAR: u16 = 3;
const VIEW: View = View(4);

struct Waiting;

impl Ledger for Waiting {
    fn has_pending(&self) -> bool {
        true
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        Vec::new()
    }

    fn executed(&self) -> Height {
        Height(0)
    }

    fn state_root(&self, _: Height) -> Option<Digest> {
        None
    }
}

/// Replica r0, and what it said.
struct Solo {
    protocol: Pbft,
    genesis: BlockOf<Types>,
    votes: Vec<Vote>,
}

fn believed<T>(claim: Claim<T>) -> Verified<T> {
    let verdicts = vec![true; claim.checks().len()];
    claim.settle(&verdicts).unwrap()
}

impl Solo {
    fn new() -> Self {
        let keys = (0..4_u8).map(|id| ReplicaKey::from([id; 32])).collect();
        let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
        let settings = Settings { authentication: Authentication::Macs, ..Settings::default() };
        let genesis = origin(&committee, settings.window).genesis;
        let protocol = Pbft::new(committee, ReplicaId(0), settings);
        Self { protocol, genesis, votes: Vec::new() }
    }

    fn feed(&mut self, input: Input<Types>) {
        let effects = self.protocol.step(Time(1), input, &mut Waiting);
        let Ok(outputs) = effects.persist(|_| Ok::<(), Infallible>(()));
        for output in outputs {
            if let Output::Broadcast(Message::Vote { vote, .. }) = output {
                self.votes.push(vote);
            }
        }
    }

    fn hear(&mut self, from: u16, message: Message) {
        let from = ReplicaId(from);
        let message = believed(self.protocol.claim(from, message).unwrap());
        self.feed(Input::Message { from, message });
    }

    fn fetch(&mut self, block: &BlockOf<Types>) {
        let block = believed(self.protocol.claim_block(Arc::clone(block)).unwrap());
        self.feed(Input::Fetched(block));
    }

    /// The liar shows a new view that begins with these blocks: r1 prepared them before.
    fn enter(&mut self, chosen: &[&BlockOf<Types>]) {
        let entries: Vec<Entry> = chosen.iter().map(|block| entry(block)).collect();
        let changes = (1..4).map(|from| {
            let (prepared, pre_prepared) = match from {
                2 => (Vec::new(), Vec::new()),
                _ => (entries.clone(), entries.clone()),
            };
            let change = ViewChange { view: VIEW, stable: None, prepared, pre_prepared };
            SignedChange { from: ReplicaId(from), change, signature: Signature::NONE }
        });
        let (changes, chosen) = (changes.collect(), chosen.iter().map(|block| block.id()));
        let new_view = Box::new(NewView { view: VIEW, changes, chosen: chosen.collect() });
        self.hear(LIAR, Message::NewView { new_view, signature: Signature::NONE });
        assert_eq!(self.protocol.view(), VIEW);
    }

    /// All others say that they prepared a block in the view.
    fn learn(&mut self, block: &BlockOf<Types>) {
        for from in 1..4 {
            let (height, block) = (block.height(), block.id());
            let vote = Vote { phase: Phase::Commit, view: VIEW, height, block };
            self.hear(from, Message::Vote { vote, signature: Signature::NONE });
        }
        self.fetch(block);
        assert_eq!(self.protocol.committed().id(), block.id());
    }

    fn order(&mut self, block: &BlockOf<Types>) {
        let block = Arc::clone(block);
        self.hear(LIAR, Message::PrePrepare { block, signature: Signature::NONE });
    }

    /// What it said of a block.
    fn said_of(&self, block: &BlockOf<Types>) -> Vec<Phase> {
        let votes = self.votes.iter().filter(|vote| vote.block == block.id());
        votes.map(|vote| vote.phase).collect()
    }

    fn missing(&self) -> Option<BlockId> {
        self.protocol.missing().map(|missing| missing.block)
    }
}

fn block(view: View, parent: &BlockOf<Types>, frame: u8) -> BlockOf<Types> {
    Arc::new(Block::new(Content {
        epoch: Epoch(0),
        view,
        height: parent.height().next(),
        parent: parent.id(),
        stable: None,
        frames: vec![Digest([frame; 32])],
    }))
}

fn entry(block: &BlockOf<Types>) -> Entry {
    let (height, view) = (block.height(), block.view());
    Entry { height, view, block: block.id(), parent: block.parent() }
}

/// The primary showed this replica a new view that begins with two blocks, and let the others
/// commit another one at the first height. The replica accepted the first block before it learnt
/// that; the second it never had.
#[test]
fn a_dead_branch_is_left_where_its_first_block_was_accepted() {
    let mut replica = Solo::new();
    let first = block(View(1), &replica.genesis, 1);
    let second = block(View(1), &first, 2);
    let other = block(VIEW, &replica.genesis, 3);
    replica.enter(&[&first, &second]);
    replica.fetch(&first);
    assert_eq!(replica.said_of(&first), [Phase::Prepare]);
    assert_eq!(replica.missing(), Some(second.id()));
    replica.learn(&other);
    assert_eq!(replica.missing(), None, "it waits for a block that nobody may have");
    let next = block(VIEW, &other, 4);
    replica.order(&next);
    assert_eq!(replica.said_of(&next), [Phase::Prepare], "it is out of the view");
    assert_eq!(replica.said_of(&first), [Phase::Prepare]);
}

/// The same where it had none of the blocks: it does not say of them that they are committed.
#[test]
fn a_dead_branch_is_not_said_to_be_committed() {
    let mut replica = Solo::new();
    let first = block(View(1), &replica.genesis, 1);
    let second = block(View(1), &first, 2);
    let other = block(VIEW, &replica.genesis, 3);
    replica.enter(&[&first, &second]);
    replica.learn(&other);
    replica.learn(&block(VIEW, &other, 4));
    assert_eq!(replica.said_of(&first), [], "another block is committed there");
    assert_eq!(replica.said_of(&second), [], "another block is committed there");
    assert_eq!(replica.missing(), None);
}

/// What a view begins with and is committed here is said again for others, without the block.
#[test]
fn what_is_committed_is_said_again_in_the_next_view() {
    let mut replica = Solo::new();
    let first = block(View(1), &replica.genesis, 1);
    let second = block(View(1), &first, 2);
    replica.learn(&first);
    replica.enter(&[&first, &second]);
    assert_eq!(replica.said_of(&first), [Phase::Prepare, Phase::Commit]);
    assert_eq!(replica.missing(), Some(second.id()));
}
