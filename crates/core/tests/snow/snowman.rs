//! Snowman's rules, poll by poll, and what a peer may say to a replica.

mod fetching;
mod frosty;

use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::block::Block;
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::protocol::{
    BlockOf, Decision, Event, Input, Ledger, Malformed, Output, Protocol as _, Record, Recovered,
};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::protocols::snow::snowman::words::{Content, Memory, Place, Testimony};
use quorate_core::protocols::snow::snowman::{Fallback, Message, Settings, Snowman, Types};
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time, View};

const ME: ReplicaId = ReplicaId(0);
const BETA: u32 = 5;

struct Nothing;

impl Ledger for Nothing {
    fn has_pending(&self) -> bool {
        false
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

fn committee(size: u8) -> Committee {
    let keys = (0..size).map(|id| ReplicaKey::from([id; 32])).collect();
    Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap()
}

fn child(parent: &BlockOf<Types>, proposer: u16) -> BlockOf<Types> {
    Arc::new(Block::new(Content {
        epoch: Epoch(0),
        height: parent.height().next(),
        parent: parent.id(),
        proposer: ReplicaId(proposer),
        stable: None,
        frames: vec![Digest([proposer as u8; 32])],
    }))
}

/// Replica 0, and what it said last.
struct Desk {
    replica: Snowman,
    genesis: BlockOf<Types>,
    now: Time,
    asked: Vec<(ReplicaId, u64)>,
    committed: Vec<BlockOf<Types>>,
    said: Vec<Output<Types>>,
    memory: Option<Memory>,
}

impl Desk {
    fn begun(size: u8, memory: Option<Memory>, blocks: Vec<BlockOf<Types>>) -> Self {
        Self::with(size, None, memory, blocks)
    }

    fn with(
        size: u8,
        fallback: Option<Fallback>,
        memory: Option<Memory>,
        blocks: Vec<BlockOf<Types>>,
    ) -> Self {
        let parameters = Parameters { decision: BETA, early: BETA, ..Parameters::LATER_PRACTICE };
        let settings = Settings { parameters, polls: 1, fallback, ..Settings::default() };
        let committee = committee(size);
        let genesis = Content::genesis(&committee);
        let replica = Snowman::new(committee, ME, settings);
        let (asked, committed, said) = Default::default();
        let now = Time(0);
        let root = Arc::clone(&genesis);
        let mut desk = Self { replica, genesis, now, asked, committed, said, memory: None };
        let recent = Vec::new();
        let recovered = Recovered { memory, root, root_committed: Height(0), recent, blocks };
        desk.step(Input::Start(Box::new(recovered)));
        desk
    }

    fn new(size: u8) -> Self {
        Self::begun(size, None, Vec::new())
    }

    fn step(&mut self, input: Input<Types>) {
        let effects = self.replica.step(self.now, input, &mut Nothing);
        let memory = &mut self.memory;
        let written = effects.persist(|records| {
            for record in records {
                if let Record::Memory(record) = record {
                    *memory = Some((*record).clone());
                }
            }
            Ok::<(), ()>(())
        });
        self.said = written.unwrap();
        for output in &self.said {
            match output {
                Output::Send { to, message: Message::Query { poll, .. } } => {
                    self.asked.push((*to, *poll));
                }
                Output::Commit(decisions) => {
                    self.committed.extend(decisions.iter().filter_map(|decision| match decision {
                        Decision::Block(block) => Some(Arc::clone(block)),
                        Decision::Root(_) => None,
                    }));
                }
                _ => {}
            }
        }
    }

    fn hear(&mut self, from: u16, message: Message) -> Result<(), Malformed> {
        let from = ReplicaId(from);
        let claim = self.replica.claim(from, message)?;
        let verdicts = vec![true; claim.checks().len()];
        let message = claim.settle(&verdicts).expect("good verdicts");
        self.step(Input::Message { from, message });
        Ok(())
    }

    /// A peer sends this block when it is asked for what is missing.
    fn fetch(&mut self, from: u16, block: &BlockOf<Types>) {
        let block = self.replica.claim_block(Arc::clone(block)).unwrap().settle(&[]).unwrap();
        self.step(Input::Fetched { from: ReplicaId(from), block });
    }

    /// One poll, in which everybody prefers `tip`, or a block that nobody here has.
    fn poll(&mut self, tip: Option<Place>) {
        self.due();
        let tip = tip.unwrap_or(Place { height: Height(1), block: Digest([0xee; 32]) });
        for (peer, poll) in std::mem::take(&mut self.asked) {
            self.now = self.now.after(Duration::from_micros(10));
            let answer = Message::Answer { poll, tip, at: None, accepted: Height(0) };
            // Enough may have answered; then the next poll has begun.
            self.hear(peer.0, answer).unwrap();
        }
    }

    /// Who is asked in the next poll, which has begun.
    fn due(&mut self) -> Vec<ReplicaId> {
        while self.asked.is_empty() {
            self.now = self.replica.deadline().unwrap().max(self.now);
            self.step(Input::Timeout);
        }
        self.asked.iter().map(|(peer, _)| *peer).collect()
    }

    /// One poll, with the answers of these peers in the order of their names.
    fn answers(&mut self, answers: &[(u16, Place)]) {
        self.answers_of_some_who_accepted(answers, &[]);
    }

    /// The same, where `accepted` have accepted what they name.
    fn answers_of_some_who_accepted(&mut self, answers: &[(u16, Place)], accepted: &[u16]) {
        self.due();
        for (peer, poll) in std::mem::take(&mut self.asked) {
            self.now = self.now.after(Duration::from_micros(10));
            let Some((_, tip)) = answers.iter().find(|(of, _)| *of == peer.0) else { continue };
            let height = if accepted.contains(&peer.0) { tip.height } else { Height(0) };
            let answer = Message::Answer { poll, tip: *tip, at: None, accepted: height };
            self.hear(peer.0, answer).unwrap();
        }
    }

    fn prefers(&mut self) -> Place {
        self.answered().0
    }

    /// What it answers: a tip, and how far it says that it has accepted.
    fn answered(&mut self) -> (Place, Height) {
        let tip = Place::of(&self.genesis);
        self.hear(1, Message::Query { poll: 77, tip, accepted: Height(0) }).unwrap();
        let mut answers = self.said.iter().filter_map(|output| match output {
            Output::Send { message: Message::Answer { poll: 77, tip, accepted, .. }, .. } => {
                Some((*tip, *accepted))
            }
            _ => None,
        });
        answers.next_back().expect("an answer")
    }
}

/// `y` is a poll in which all prefer the block, `.` one in which none does.
fn accepted_after(size: u8, polls: &str) -> Option<usize> {
    let mut desk = Desk::new(size);
    let block = child(&desk.genesis, 1);
    desk.hear(1, Message::Push(Arc::clone(&block))).unwrap();
    for (count, poll) in polls.chars().enumerate() {
        desk.poll((poll == 'y').then(|| Place::of(&block)));
        if !desk.committed.is_empty() {
            assert_eq!(desk.committed[0].id(), block.id());
            return Some(count + 1);
        }
    }
    None
}

#[test]
fn beta_polls_in_a_row_accept_and_an_unsuccessful_one_begins_anew() {
    // Among four everybody is asked; among forty a sample of twenty.
    for size in [4, 40] {
        assert_eq!(accepted_after(size, "yyyyyyyy"), Some(5), "{size}");
        assert_eq!(accepted_after(size, "yyyy"), None, "{size}");
        assert_eq!(accepted_after(size, "yyyy.yyyyyy"), Some(10), "{size}");
        assert_eq!(accepted_after(size, ".y.yy.yyy.yyyy.yyyyy"), Some(20), "{size}");
        assert_eq!(accepted_after(size, "........"), None, "{size}");
    }
}

/// An answer for a block is one for its ancestors; with the lower block its siblings are gone.
#[test]
fn an_answer_counts_for_all_ancestors_and_siblings_are_rejected() {
    let mut desk = Desk::new(4);
    let (lower, sibling) = (child(&desk.genesis, 1), child(&desk.genesis, 2));
    let upper = child(&lower, 3);
    for (from, block) in [(1, &lower), (2, &sibling), (3, &upper)] {
        desk.hear(from, Message::Push(Arc::clone(block))).unwrap();
    }
    assert_eq!(desk.replica.uncommitted(), 3);
    for _ in 0..BETA {
        assert_eq!(desk.committed.len(), 0);
        desk.poll(Some(Place::of(&upper)));
    }
    // The first poll began before the upper block was here.
    let accepted = |desk: &Desk| desk.committed.iter().map(|block| block.id()).collect::<Vec<_>>();
    assert_eq!(accepted(&desk), [lower.id()]);
    assert_eq!(desk.replica.uncommitted(), 1);
    desk.poll(Some(Place::of(&upper)));
    assert_eq!(accepted(&desk), [lower.id(), upper.id()]);
    assert_eq!(desk.replica.uncommitted(), 0);
    let fx = desk.replica.step(desk.now, Input::Wake, &mut Nothing);
    assert!(!fx.has_records());
}

/// The first child is preferred, until a poll says otherwise; a restart does not forget it.
#[test]
fn a_successful_poll_changes_the_preference_and_a_restart_keeps_it() {
    let mut desk = Desk::new(4);
    let (first, second) = (child(&desk.genesis, 1), child(&desk.genesis, 2));
    desk.hear(1, Message::Push(Arc::clone(&first))).unwrap();
    desk.hear(2, Message::Push(Arc::clone(&second))).unwrap();
    assert_eq!(desk.prefers().block, first.id());
    desk.poll(Some(Place::of(&second)));
    assert_eq!(desk.prefers().block, second.id());
    let memory = desk.memory.clone().unwrap();
    assert_eq!(memory.preferred, second.id());
    let mut again = Desk::begun(4, Some(memory), vec![first, Arc::clone(&second)]);
    assert_eq!(again.prefers().block, second.id());
    // Counters were not kept: all of β polls again.
    for count in 0..BETA {
        assert_eq!((count, again.committed.len()), (count, 0));
        again.poll(Some(Place::of(&second)));
    }
    assert_eq!(again.committed.len(), 1);
}

/// Among three, of whom all must agree, one alone prefers another block. Its polls cannot succeed
/// after the first answer, but they must not end before the second: there is a tie to break.
#[test]
fn a_replica_that_is_alone_with_its_preference_comes_round() {
    for size in [3, 4, 6] {
        let mut desk = Desk::new(size);
        let (first, second) = (child(&desk.genesis, 1), child(&desk.genesis, 2));
        desk.hear(1, Message::Push(first)).unwrap();
        desk.hear(2, Message::Push(Arc::clone(&second))).unwrap();
        (0..64).for_each(|_| {
            if desk.committed.is_empty() {
                desk.poll(Some(Place::of(&second)));
            }
        });
        let accepted: Vec<_> = desk.committed.iter().map(|block| block.id()).collect();
        assert_eq!(accepted, [second.id()], "{size}");
    }
}

/// A peer that prefers a block that is not known here may well agree: its answer breaks no tie.
/// Otherwise a replica could turn from a block that q of them prefer, and that others accept.
#[test]
fn answers_with_unknown_blocks_break_no_tie() {
    let mut desk = Desk::new(4);
    let mut blocks = [child(&desk.genesis, 1), child(&desk.genesis, 2)];
    // Among equals the lowest name is best: the other one is preferred here.
    blocks.sort_by_key(|block| std::cmp::Reverse(block.id()));
    let [mine, other] = blocks;
    desk.hear(mine.proposer.0, Message::Push(Arc::clone(&mine))).unwrap();
    desk.hear(other.proposer.0, Message::Push(Arc::clone(&other))).unwrap();
    let far = Place { height: Height(9), block: Digest([0xee; 32]) };
    for _ in 0..64 {
        desk.answers(&[(1, Place::of(&other)), (2, far), (3, far)]);
        assert_eq!(desk.prefers().block, mine.id());
    }
}

/// Replica 0 prefers one of two blocks, that of the lower name or the other, and others name one
/// each, poll after poll. Whether it turns.
fn turns(
    (size, mine_is_low): (u8, bool),
    (for_mine, for_other): (&[u16], &[u16]),
    accepted: &[u16],
) -> bool {
    let mut desk = Desk::new(size);
    let mut blocks = [child(&desk.genesis, 1), child(&desk.genesis, 2)];
    blocks.sort_by_key(|block| block.id());
    if !mine_is_low {
        blocks.reverse();
    }
    let [mine, other] = blocks;
    desk.hear(mine.proposer.0, Message::Push(Arc::clone(&mine))).unwrap();
    desk.hear(other.proposer.0, Message::Push(Arc::clone(&other))).unwrap();
    let (mine, other) = (Place::of(&mine), Place::of(&other));
    let of = |peers: &[u16], tip| peers.iter().map(|peer| (*peer, tip)).collect::<Vec<_>>();
    // All that live have answered before.
    desk.answers(&[of(for_mine, mine), of(for_other, mine)].concat());
    let answers = [of(for_mine, mine), of(for_other, other)].concat();
    (0..64).any(|_| {
        desk.answers_of_some_who_accepted(&answers, accepted);
        desk.prefers() != mine
    })
}

/// Two of four replicas are for one block, and two for another. A replica cannot turn any more from
/// a block that it has accepted. So a tie turns the others to that block, whatever its name, and no
/// replica away from it. Otherwise both halves stay apart for ever.
#[test]
fn a_tie_turns_replicas_to_what_others_have_accepted() {
    assert!(turns((4, true), (&[3], &[1, 2]), &[1, 2]));
    assert!(!turns((4, true), (&[3], &[1, 2]), &[3]));
    assert!(!turns((4, false), (&[3], &[1, 2]), &[3]));
    assert!(turns((4, false), (&[3], &[1, 2]), &[]), "the lower name");
}

/// Of f + 1 that say they have accepted a block one is correct. It turns the others, also where
/// more replicas prefer another block. Fewer may all lie.
#[test]
fn what_a_witness_has_accepted_turns_a_replica_whatever_most_prefer() {
    assert!(turns((5, true), (&[3, 4], &[1, 2]), &[1, 2]));
    assert!(!turns((5, true), (&[3, 4], &[1, 2]), &[1]));
    // Three of seven: two claims for the own block, which has more seats, do not outweigh them.
    assert!(turns((7, true), (&[4, 5, 6], &[1, 2, 3]), &[1, 2, 3, 4, 5]));
}

/// Four of seven prefer a block, and the answers of one of them are always the last: polls that do
/// not succeed end before. What it said last counts. Where it is dead, polls end without it.
#[test]
fn the_last_word_of_who_has_not_answered_counts_in_a_tie() {
    assert!(!turns((7, false), (&[1, 2, 6], &[3, 4, 5]), &[5, 6]));
    assert!(turns((7, false), (&[1, 2], &[3, 4, 5]), &[5]));
}

/// As many as may lie move no tie by what they say they have accepted.
#[test]
fn a_liar_s_claim_moves_no_tie() {
    assert!(!turns((8, true), (&[1, 2, 3], &[4, 5, 6, 7]), &[7]));
    assert!(turns((8, true), (&[1, 2, 3], &[4, 5, 6, 7]), &[6, 7]));
}

/// Where samples are smaller than the committee, more than half of the sample turns a replica. Two
/// children that are even do not: answers are missing, and nearly all may prefer one of the two.
/// Where more than half is against the preference, and for several others, a coin turns it.
#[test]
fn it_takes_more_than_half_of_a_sample_to_change_the_preference() {
    let turns = |seats: &[(usize, usize)]| {
        let mut desk = Desk::new(40);
        let mut blocks: Vec<_> = (1..4).map(|proposer| child(&desk.genesis, proposer)).collect();
        // Among equals the lowest name is best: another one is preferred here.
        blocks.sort_by_key(|block| std::cmp::Reverse(block.id()));
        for block in &blocks {
            desk.hear(block.proposer.0, Message::Push(Arc::clone(block))).unwrap();
        }
        let far = Place { height: Height(9), block: Digest([0xee; 32]) };
        (0..64).any(|_| {
            let named = seats.iter().flat_map(|(of, count)| vec![Place::of(&blocks[*of]); *count]);
            let tips = named.chain([far; 20]);
            let answers: Vec<_> =
                desk.due().into_iter().zip(tips).map(|(peer, tip)| (peer.0, tip)).collect();
            desk.answers(&answers);
            desk.prefers().block != blocks[0].id()
        })
    };
    assert!(!turns(&[(1, 8), (0, 7)]));
    assert!(!turns(&[(1, 10), (0, 10)]));
    assert!(turns(&[(0, 9), (1, 11)]));
    // A third child makes no difference, unless more than half is against the preference.
    assert!(!turns(&[(2, 1), (1, 8), (0, 7)]));
    assert!(!turns(&[(2, 5), (1, 5), (0, 10)]));
    assert!(turns(&[(2, 5), (1, 10), (0, 5)]));
}

/// More than half of a sample turns a replica; to accept takes α.
#[test]
fn a_majority_below_alpha_accepts_nothing() {
    for (seats, expected) in [(14, 0), (15, 1)] {
        let mut desk = Desk::new(40);
        let block = child(&desk.genesis, 1);
        desk.hear(1, Message::Push(Arc::clone(&block))).unwrap();
        let far = Place { height: Height(9), block: Digest([0xee; 32]) };
        for _ in 0..BETA {
            let tips = std::iter::repeat_n(Place::of(&block), seats).chain([far; 20]);
            let answers: Vec<_> =
                desk.due().into_iter().zip(tips).map(|(peer, tip)| (peer.0, tip)).collect();
            desk.answers(&answers);
        }
        assert_eq!(desk.committed.len(), expected, "{seats} of 20");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let mut desk = Desk::new(4);
    let block = child(&desk.genesis, 1);
    let push = |content: Content| Message::Push(Arc::new(Block::new(content)));
    let refusal = |desk: &Desk, from: u16, message: Message| {
        desk.replica.claim(ReplicaId(from), message).err()
    };
    let of = (**block).clone();
    assert_eq!(refusal(&desk, 2, push(of.clone())), Some(Malformed::WrongSender));
    let other = Content { epoch: Epoch(1), ..of.clone() };
    assert_eq!(refusal(&desk, 1, push(other)), Some(Malformed::WrongEpoch));
    for height in [0, 129, u64::MAX] {
        let far = Content { height: Height(height), ..of.clone() };
        assert_eq!(refusal(&desk, 1, push(far)), Some(Malformed::Stale), "{height}");
    }
    let checkpoint = Checkpoint { height: Height(1), block: block.id(), root: Digest([3; 32]) };
    let signatures = vec![(ReplicaId(1), Signature::from([1; 64]))];
    let stable = Stable { checkpoint, signatures: signatures.clone() };
    let above = Content { stable: Some(stable.clone()), ..of.clone() };
    assert_eq!(refusal(&desk, 1, push(above)), Some(Malformed::Contradiction));
    // f + 1 = 2 replicas, in order, and each once.
    let said = |signatures| Message::Stable(Box::new(Stable { checkpoint, signatures }));
    assert_eq!(refusal(&desk, 1, said(signatures)), Some(Malformed::NoQuorum));
    for (ids, expected) in
        [([2, 1], Malformed::UnorderedSigners), ([1, 1], Malformed::UnorderedSigners)]
    {
        let twice = ids.map(|id| (ReplicaId(id), Signature::from([1; 64])));
        assert_eq!(refusal(&desk, 1, said(twice.to_vec())), Some(expected));
    }
    let stranger = [1, 9].map(|id| (ReplicaId(id), Signature::from([1; 64])));
    assert_eq!(refusal(&desk, 1, said(stranger.to_vec())), Some(Malformed::UnknownSigner));
    // Answers count from those that were asked, and once.
    let tip = Place::of(&block);
    let answer = |poll| Message::Answer { poll, tip, at: None, accepted: Height(0) };
    assert_eq!(refusal(&desk, 1, answer(1)), Some(Malformed::Unasked));
    desk.hear(1, Message::Push(block)).unwrap();
    let (peer, poll) = desk.asked[0];
    assert_eq!(desk.hear(peer.0, answer(poll)), Ok(()));
    assert_eq!(refusal(&desk, peer.0, answer(poll)), Some(Malformed::Unasked));
}

/// Two children of one block by one replica: the second is not taken from it.
#[test]
fn a_proposer_has_one_child_of_each_block() {
    let mut desk = Desk::new(4);
    let block = child(&desk.genesis, 1);
    let other = Content { frames: Vec::new(), ..(**block).clone() };
    desk.hear(1, Message::Push(block)).unwrap();
    desk.hear(1, Message::Push(Arc::new(Block::new(other)))).unwrap();
    let equivocation = Event::Equivocation { proposer: ReplicaId(1), view: View(0) };
    let is_told =
        |output: &Output<Types>| matches!(output, Output::Event(it) if *it == equivocation);
    assert!(desk.said.iter().any(is_told), "{:?}", desk.said);
    assert_eq!(desk.replica.uncommitted(), 1);
}

/// Every replica extends every block: the tree is bounded, and polls go on.
#[test]
fn a_flood_of_blocks_is_bounded() {
    let mut desk = Desk::new(40);
    let mut blocks = vec![Arc::clone(&desk.genesis)];
    'flood: for parent in 0.. {
        for proposer in 1..40 {
            let block = child(&Arc::clone(&blocks[parent]), proposer);
            // What is far above the accepted block is refused.
            let _ = desk.hear(proposer, Message::Push(Arc::clone(&block)));
            blocks.push(block);
            if blocks.len() > 3000 {
                break 'flood;
            }
        }
    }
    assert!(desk.replica.uncommitted() <= 512 + 128, "{}", desk.replica.uncommitted());
    let preferred = desk.prefers();
    for _ in 0..BETA {
        desk.poll(Some(preferred));
    }
    assert!(!desk.committed.is_empty());
}

fn golden(bytes: &[u8]) -> String {
    let Digest(digest) = Digest::of("golden", bytes);
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The wire format and what is on disk: another value is a new version of the format.
#[test]
fn encodings_are_golden() {
    let genesis = Content::genesis(&committee(4));
    let block = child(&genesis, 1);
    let checkpoint = Checkpoint { height: Height(1), block: block.id(), root: Digest([3; 32]) };
    let signatures = [1, 2].map(|id| (ReplicaId(id), Signature::from([id as u8; 64]))).to_vec();
    let stable = Stable { checkpoint, signatures };
    let content = Content { height: Height(2), stable: Some(stable.clone()), ..(**block).clone() };
    let upper = Arc::new(Block::new(content));
    let tip = Place::of(&block);
    let (poll, accepted, signature) = (9, Height(4), Signature::from([5; 64]));
    let messages = [
        Message::Push(Arc::clone(&upper)),
        Message::Query { poll, tip, accepted },
        Message::Answer { poll, tip, at: Some(upper.id()), accepted },
        Message::Answer { poll, tip, at: None, accepted },
        Message::Checkpoint { checkpoint, signature },
        Message::Stable(Box::new(stable.clone())),
        Message::Accepted { tip, stable: Height(8) },
    ];
    let mut found = vec![golden(&genesis.id().0), golden(&upper.id().0)];
    for message in messages {
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(bytes.clone().into()).unwrap(), message);
        for cut in 0..bytes.len() {
            assert!(
                Message::from_bytes(bytes[..cut].to_vec().into()).is_err(),
                "{message:?} {cut}"
            );
        }
        found.push(golden(&bytes));
    }
    let memory =
        Memory { accepted: tip, preferred: upper.id(), stable: Some(stable), frosty: None };
    assert_eq!(Memory::from_bytes(memory.to_bytes().into()).unwrap(), memory);
    found.push(golden(&memory.to_bytes()));
    let testimony = Testimony { accepted };
    assert_eq!(Testimony::from_bytes(testimony.to_bytes().into()).unwrap(), testimony);
    found.push(golden(&testimony.to_bytes()));
    assert_eq!(found, GOLDEN);
}

const GOLDEN: [&str; 11] = [
    // genesis
    "07e912f759450080",
    // a block with a checkpoint
    "d046ae27fe34a255",
    // Push
    "52e55634295624f6",
    // Query
    "fcee660cc360f1f7",
    // Answer
    "28548f2c39444caa",
    // Answer without a block at the height
    "aeaaee900dc124f1",
    // Checkpoint
    "0105b81c1261bf76",
    // Stable
    "b460097055886e81",
    // Accepted
    "1cae370d1c61d447",
    // Memory
    "5b10ff9b96162ebc",
    // Testimony
    "e63bb61190655d6f",
];
