//! One replica of PBFT, and what its peers say of views that a faulty primary leads.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::base::crypto::{Claim, Signature, Verified};
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::block::{Block, BlockId};
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::pbft::choice::Chosen;
use quorate_core::protocols::pbft::words::{
    Content, Entry, Memory, NewView, Phase, SignedChange, Types, ViewChange, Vote,
};
use quorate_core::protocols::pbft::{
    Authentication, Message, Pbft, Settings, memory_bytes, origin,
};
use quorate_core::protocols::protocol::{
    BlockOf, Input, Ledger, Output, Protocol as _, Record, Recovered,
};
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time, View};

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

/// Replica r0, what it said, and what it wrote down.
struct Solo {
    now: Time,
    protocol: Pbft,
    genesis: BlockOf<Types>,
    votes: Vec<Vote>,
    changes: Vec<ViewChange>,
    /// New views that it sent to one other.
    shown: Vec<NewView>,
    memory: Option<Memory>,
    blocks: Vec<BlockOf<Types>>,
}

fn committee() -> Committee {
    let keys = (0..4_u8).map(|id| ReplicaKey::from([id; 32])).collect();
    Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap()
}

fn protocol() -> Pbft {
    let settings = Settings { authentication: Authentication::Macs, ..Settings::default() };
    Pbft::new(committee(), ReplicaId(0), settings)
}

fn believed<T>(claim: Claim<T>) -> Verified<T> {
    let verdicts = vec![true; claim.checks().len()];
    claim.settle(&verdicts).unwrap()
}

impl Solo {
    fn new() -> Self {
        let genesis = origin(&committee(), Settings::default().window).genesis;
        Self {
            now: Time(1),
            protocol: protocol(),
            genesis,
            votes: Vec::new(),
            changes: Vec::new(),
            shown: Vec::new(),
            memory: None,
            blocks: Vec::new(),
        }
    }

    /// It ends, and starts with what it wrote down.
    fn restart(&mut self) {
        let (root, blocks) = (Arc::clone(&self.genesis), self.blocks.clone());
        let recovered = Recovered {
            memory: self.memory.clone(),
            root,
            root_committed: Height(0),
            recent: Vec::new(),
            blocks,
        };
        self.protocol = protocol();
        self.feed(Input::Start(Box::new(recovered)));
    }

    fn feed(&mut self, input: Input<Types>) {
        let effects = self.protocol.step(self.now, input, &mut Waiting);
        let Ok(outputs) = effects.persist(|records| {
            for record in records {
                match record {
                    Record::Memory(memory) => self.memory = Some(Memory::clone(&memory)),
                    Record::Block(block) => self.blocks.push(block),
                }
            }
            Ok::<(), Infallible>(())
        });
        for output in outputs {
            match output {
                Output::Sign(statement) => {
                    self.feed(Input::Signed { statement, signature: Signature::NONE });
                }
                Output::Broadcast(Message::Vote { vote, .. }) => self.votes.push(vote),
                Output::Broadcast(Message::ViewChange(signed)) => self.changes.push(signed.change),
                Output::Send { message: Message::NewView { new_view, .. }, .. } => {
                    self.shown.push(*new_view);
                }
                _ => {}
            }
        }
    }

    /// The view of its last view change, and how many blocks are in P and Q.
    fn said_last(&self) -> Option<(View, usize, usize)> {
        let change = self.changes.last()?;
        Some((change.view, change.prepared.len(), change.pre_prepared.len()))
    }

    /// A view of the liar's begins with nothing.
    fn begin(&mut self, view: View) {
        let changes = (1..4).map(|from| {
            let (prepared, pre_prepared) = (Vec::new(), Vec::new());
            let change = ViewChange { view, stable: None, prepared, pre_prepared };
            SignedChange { from: ReplicaId(from), change, signature: Signature::NONE }
        });
        let (changes, chosen) = (changes.collect(), Vec::new());
        let new_view = Box::new(NewView { view, changes, chosen });
        self.hear(LIAR, Message::NewView { new_view, signature: Signature::NONE });
        assert_eq!(self.protocol.view(), view);
    }

    fn hear(&mut self, from: u16, message: Message) {
        let from = ReplicaId(from);
        let message = believed(self.protocol.claim(from, message).unwrap());
        self.feed(Input::Message { from, message });
    }

    fn fetch(&mut self, block: &BlockOf<Types>) {
        let block = believed(self.protocol.claim_block(Arc::clone(block)).unwrap());
        self.feed(Input::Fetched { from: ReplicaId(1), block });
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

/// A read waits for what may be committed: what this replica prepared, or its view began with. What
/// one primary names is not yet known to any other replica.
#[test]
fn reads_wait_for_what_is_prepared_and_for_what_a_view_began_with() {
    let mut replica = Solo::new();
    let chosen = block(View(1), &replica.genesis, 1);
    replica.enter(&[&chosen]);
    assert_eq!(replica.protocol.read_index(), Some(Height(1)), "before it has the block");
    replica.fetch(&chosen);
    let next = block(VIEW, &chosen, 2);
    replica.order(&next);
    assert_eq!(replica.said_of(&next), [Phase::Prepare]);
    assert_eq!(replica.protocol.read_index(), Some(Height(1)), "its primary alone names it");
    for block in [&chosen, &next] {
        for from in 1..3 {
            let (height, block) = (block.height(), block.id());
            let vote = Vote { phase: Phase::Prepare, view: VIEW, height, block };
            replica.hear(from, Message::Vote { vote, signature: Signature::NONE });
        }
    }
    assert_eq!(replica.said_of(&next), [Phase::Prepare, Phase::Commit]);
    assert_eq!(replica.protocol.read_index(), Some(Height(2)));
    replica.restart();
    assert_eq!(replica.protocol.read_index(), Some(Height(2)));
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

/// One of the COMMITs that it counts may be a liar's, who says it to nobody else: without this
/// replica's, somebody would have one too few. Nobody needs it in a view that is over.
#[test]
fn who_commits_before_it_is_prepared_says_commit_as_well() {
    let mut replica = Solo::new();
    replica.begin(VIEW);
    let (first, other) = (block(VIEW, &replica.genesis, 1), block(VIEW, &replica.genesis, 2));
    replica.order(&first);
    assert_eq!(replica.said_of(&first), [Phase::Prepare]);
    replica.learn(&first);
    assert_eq!(replica.said_of(&first), [Phase::Prepare, Phase::Commit]);

    let mut fooled = Solo::new();
    fooled.begin(VIEW);
    fooled.order(&first);
    fooled.learn(&other);
    assert_eq!(fooled.said_of(&first), [Phase::Prepare]);
    assert_eq!(fooled.said_of(&other), [Phase::Commit], "it is committed, and one may lack it");

    let mut late = Solo::new();
    late.begin(View(VIEW.0 + 4));
    late.learn(&first);
    assert_eq!(late.said_of(&first), []);
}

/// The view changes of a replica that prepared a block in view 1, and of two that prepared nothing.
fn changes_of_one(prepared: &BlockOf<Types>, view: View) -> Vec<SignedChange> {
    let change = |from| {
        let entries = if from == 1 { vec![entry(prepared)] } else { Vec::new() };
        let (prepared, pre_prepared) = (entries.clone(), entries);
        let change = ViewChange { view, stable: None, prepared, pre_prepared };
        SignedChange { from: ReplicaId(from), change, signature: Signature::NONE }
    };
    vec![change(0), change(1), change(2), change(3)]
}

/// The rule that the mend of a bounded Q rests on: see `protocols::pbft::forgetting`.
#[test]
fn a_new_view_rules_out_what_was_prepared_before_it_and_not_chosen() {
    let genesis = Solo::new().genesis;
    let (one, other) = (block(View(1), &genesis, 1), block(View(2), &genesis, 2));
    let above = block(View(1), &one, 3);
    let chosen = Chosen { stable: None, blocks: vec![entry(&one)] };
    assert!(!chosen.rules_out(View(3), &entry(&one)), "it was chosen");
    assert!(chosen.rules_out(View(3), &entry(&other)));
    assert!(chosen.rules_out(View(3), &entry(&above)));
    assert!(!chosen.rules_out(View(2), &entry(&other)), "it was prepared since");
    let checkpoint = Checkpoint { height: Height(1), block: one.id(), root: Digest([5; 32]) };
    let stable = Some(Stable { checkpoint, signatures: Vec::new() });
    let chosen = Chosen { stable, blocks: Vec::new() };
    assert!(!chosen.rules_out(View(3), &entry(&other)), "it is not above the checkpoint");
    assert!(chosen.rules_out(View(3), &entry(&above)));
}

/// Five views of the liar's, each with another block at the first height. Nobody prepares them.
fn forgetful() -> (Solo, Vec<BlockOf<Types>>) {
    let mut replica = Solo::new();
    let genesis = Arc::clone(&replica.genesis);
    let blocks: Vec<_> =
        (1..=5_u8).map(|at| block(View(4 * u64::from(at)), &genesis, at)).collect();
    for block in &blocks {
        replica.begin(block.view());
        replica.order(block);
        assert_eq!(replica.said_of(block), [Phase::Prepare]);
    }
    (replica, blocks)
}

/// The fifth block of a height makes a replica forget the first. To another one that prepared the
/// first and says so, it shows what began the last view; to one that prepared the last, nothing.
#[test]
fn a_forgotten_block_is_ruled_out_for_who_prepared_it() {
    for restarts in [false, true] {
        let (mut replica, blocks) = forgetful();
        if restarts {
            replica.restart();
        }
        let memory = replica.memory.clone().unwrap();
        let bytes = memory.to_bytes();
        assert!(bytes.len() <= memory_bytes(4, Settings::default().window));
        assert_eq!(Memory::from_bytes(bytes.into()).as_ref(), Ok(&memory));
        let known: Vec<BlockId> = memory.pre_prepared.iter().map(|entry| entry.block).collect();
        assert_eq!(known, blocks[1..].iter().map(|block| block.id()).collect::<Vec<_>>());
        assert_eq!(
            memory.forgotten.map(|it| (it.up_to, it.new_view.view)),
            Some((Height(1), blocks[4].view(),))
        );
        // A view change that is repeated at once is not answered anew.
        for (prepared, after, is_shown) in
            [(4, 0, false), (0, 0, true), (0, 199, false), (0, 1, true)]
        {
            replica.now = replica.now.after(Duration::from_millis(after));
            let change = changes_of_one(&blocks[prepared], View(21)).remove(1);
            replica.hear(1, Message::ViewChange(Box::new(change)));
            let shown: Vec<View> = replica.shown.drain(..).map(|shown| shown.view).collect();
            assert_eq!(shown, if is_shown { vec![View(20)] } else { Vec::new() });
        }
    }
}

/// A replica that starts again within a view has no proof at hand that began this view: it accepts
/// no block that would make it forget another one.
#[test]
fn without_proof_nothing_is_forgotten() {
    let mut replica = Solo::new();
    let genesis = Arc::clone(&replica.genesis);
    for at in 1..=4_u8 {
        replica.begin(View(4 * u64::from(at)));
        replica.order(&block(replica.protocol.view(), &genesis, at));
    }
    replica.begin(View(20));
    replica.restart();
    let fifth = block(View(20), &genesis, 5);
    replica.order(&fifth);
    assert_eq!(replica.said_of(&fifth), []);
    replica.begin(View(24));
    let sixth = block(View(24), &genesis, 6);
    replica.order(&sixth);
    assert_eq!(replica.said_of(&sixth), [Phase::Prepare]);
}

/// A replica waits with a block that it prepared in view 1, and is shown that view 20 began without
/// that: it says so in its view change. It does not believe a new view that is too early, or one
/// whose choice does not follow.
#[test]
fn who_is_shown_a_later_view_drops_what_it_prepared() {
    let mut replica = Solo::new();
    let first = block(View(4), &replica.genesis, 1);
    replica.begin(View(4));
    replica.order(&first);
    for from in [1, 2] {
        let (height, block) = (first.height(), first.id());
        let vote = Vote { phase: Phase::Prepare, view: View(4), height, block };
        replica.hear(from, Message::Vote { vote, signature: Signature::NONE });
    }
    assert_eq!(replica.said_of(&first), [Phase::Prepare, Phase::Commit]);
    for from in [1, 2] {
        let change = changes_of_one(&first, View(21)).remove(2);
        let change = SignedChange { from: ReplicaId(from), ..change };
        replica.hear(from, Message::ViewChange(Box::new(change)));
    }
    assert_eq!(replica.said_last(), Some((View(21), 1, 1)));
    let show = |replica: &mut Solo, view: View, chosen: Vec<BlockId>| {
        let mut changes = changes_of_one(&first, view);
        changes.remove(1);
        let new_view = Box::new(NewView { view, changes, chosen });
        let message = Message::NewView { new_view, signature: Signature::NONE };
        if replica.protocol.claim(ReplicaId(2), message.clone()).is_ok() {
            replica.hear(2, message);
        }
        replica.said_last()
    };
    assert_eq!(show(&mut replica, View(4), Vec::new()), Some((View(21), 1, 1)), "too early");
    let unlike = vec![Digest([9; 32])];
    assert_eq!(show(&mut replica, View(20), unlike), Some((View(21), 1, 1)), "does not follow");
    assert_eq!(show(&mut replica, View(20), Vec::new()), Some((View(21), 0, 1)));
    assert_eq!(replica.memory.as_ref().map(|memory| memory.prepared.len()), Some(0));
}
