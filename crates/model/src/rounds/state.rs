//! What the scheduler knows, and what becomes of it by one move.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_core::View;
use quorate_core::base::types::Height;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::rules::Rules;
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::protocol::Ballot;

use super::{Move, SharedQc, Step};
use crate::values;

/// A proposal of the present view. (In later phases: the block of that certificate.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choice {
    /// The number of its justify.
    pub justify: u8,
    /// Which of the two payloads.
    pub variant: u8,
}

/// A correct replica. Certificates are named by their numbers, which ascend with their ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The highest certificate it knows.
    pub high: u8,
    /// Its lock.
    pub lock: u8,
    /// It knows what it had to know to enter the present view.
    pub entered: bool,
    /// Its vote in the present view and phase.
    pub vote: Option<Choice>,
}

/// A state of the [model](super::Rounds).
#[derive(Clone, Debug)]
pub struct State {
    pub(super) view: View,
    pub(super) phase: u8,
    /// Whose turn it is.
    turn: u8,
    /// All there are, ascending; the first is genesis'.
    pub(super) certificates: Vec<SharedQc>,
    /// Every certified block. Its root is genesis.
    tree: Arc<BlockTree>,
    /// The lowest highest QC of a time-out certificate of the view before.
    floor: u8,
    replicas: [Replica; 3],
    /// The highest block that some certificate commits.
    head: BlockId,
    /// Two certificates commit blocks of different chains.
    pub(super) conflict: bool,
    /// Two certified blocks are not on one chain.
    pub(super) forked: bool,
}

impl State {
    pub(super) fn first() -> Self {
        let genesis = values::genesis();
        let head = genesis.id();
        Self {
            view: View(1),
            phase: 1,
            turn: 0,
            certificates: vec![Arc::new(Qc::genesis(head))],
            tree: Arc::new(BlockTree::new(genesis, Height(0), Vec::new())),
            floor: 0,
            replicas: Default::default(),
            head,
            conflict: false,
            forked: false,
        }
    }

    pub(super) fn has_committed(&self) -> bool {
        self.head != self.tree.root().id()
    }

    fn qc(&self, number: u8) -> &Qc {
        &self.certificates[usize::from(number)]
    }

    fn replica(&self) -> &Replica {
        &self.replicas[usize::from(self.turn)]
    }

    /// The highest view that `qc` puts an end to.
    fn ended_by(rules: &dyn Rules, qc: &Qc) -> u64 {
        let view = qc.view().0;
        if view == 0 || qc.phase() >= rules.facts().phases { view } else { view - 1 }
    }

    /// The certificates that put an end to the view before.
    pub(super) fn entry(&self, rules: &dyn Rules) -> impl Iterator<Item = u8> {
        let last = self.view.0 - 1;
        let ends = move |qc: &Qc| Self::ended_by(rules, qc) == last;
        (0..self.certificates.len() as u8).filter(move |number| ends(self.qc(*number)))
    }

    /// The certificates of the phase before, in this view.
    pub(super) fn of_last_phase(&self) -> impl Iterator<Item = u8> {
        let rank = (self.view, self.phase - 1);
        (0..self.certificates.len() as u8).filter(move |number| self.qc(*number).rank() == rank)
    }

    /// The certificates that would change what the replica whose turn it is knows.
    pub(super) fn news(&self, rules: &dyn Rules) -> impl Iterator<Item = u8> {
        let replica = *self.replica();
        (0..self.certificates.len() as u8).filter(move |number| {
            let mut taught = replica;
            self.teach(rules, &mut taught, *number);
            taught != replica
        })
    }

    fn block_of(&self, choice: Choice) -> SharedBlock {
        let justify = self.qc(choice.justify);
        let parent = self.tree.get(&justify.block()).unwrap_or(self.tree.root());
        values::block(self.view, parent, justify, choice.variant)
    }

    /// All that the replica whose turn it is may do.
    pub(super) fn moves(&self, rules: &dyn Rules) -> Vec<Move> {
        let mut moves: Vec<Move> = self.news(rules).map(Move::Learn).collect();
        if self.phase == 1 {
            self.votes(rules, &mut moves);
            moves.extend(self.entry(rules).map(Move::Enter));
        } else {
            moves.extend(self.of_last_phase().map(Move::VoteNext));
        }
        moves.push(Move::Pass);
        moves
    }

    /// The proposals the replica may vote for, each with the time-out certificates that let it.
    fn votes(&self, rules: &dyn Rules, moves: &mut Vec<Move>) {
        let earlier = &self.replicas[..usize::from(self.turn)];
        for justify in 0..self.certificates.len() as u8 {
            let first = Choice { justify, variant: 0 };
            // The second payload is one that another replica did not vote for.
            let variants = 1 + u8::from(earlier.iter().any(|other| other.vote == Some(first)));
            for variant in 0..variants {
                let choice = Choice { justify, variant };
                let tcs = self.time_outs_for(rules, self.replica(), choice);
                moves.extend(tcs.map(|tc| Move::Vote { choice, tc }));
            }
        }
    }

    /// What the three may do in this view and phase, as far as it can matter.
    pub(super) fn rounds(&self, rules: &dyn Rules) -> Vec<[Move; 3]> {
        let mut others = vec![Move::Pass];
        if self.phase == 1 {
            others.extend(self.entry(rules).map(Move::Enter));
        }
        let mut rounds = Vec::new();
        let mut pairs = |votes: [Option<Move>; 3]| {
            for idle in 0..3 {
                let same = idle > 0 && self.replicas[idle] == self.replicas[idle - 1];
                let voters = (0..3).filter(|at| *at != idle);
                if same || voters.map(|at| votes[at]).any(|vote| vote.is_none()) {
                    continue;
                }
                rounds.extend(others.iter().map(|other| {
                    let mut moves = votes.map(|vote| vote.unwrap_or(Move::Pass));
                    moves[idle] = *other;
                    moves
                }));
            }
        };
        if self.phase == 1 {
            for justify in 0..self.certificates.len() as u8 {
                let choice = Choice { justify, variant: 0 };
                pairs(self.replicas.map(|replica| {
                    let tc = self.time_outs_for(rules, &replica, choice).next()?;
                    Some(Move::Vote { choice, tc })
                }));
            }
        } else {
            self.of_last_phase().for_each(|number| pairs([Some(Move::VoteNext(number)); 3]));
        }
        for first in &others {
            for second in &others {
                rounds.extend(others.iter().map(|third| [*first, *second, *third]));
            }
        }
        rounds
    }

    /// The time-out certificates with which `replica` votes for a proposal, that with the lowest QC
    /// first; `None` for none, where the justify ends the view before.
    fn time_outs_for(
        &self,
        rules: &dyn Rules,
        replica: &Replica,
        choice: Choice,
    ) -> impl Iterator<Item = Option<u8>> {
        let block = self.block_of(choice);
        let lock = self.qc(replica.lock);
        let last = View(self.view.0 - 1);
        let direct = Self::ended_by(rules, &block.justify) == last.0;
        let alone = direct && rules.may_vote(&self.tree, lock, &block, None);
        let floor = self.qc(self.floor).rank();
        let with = (self.floor..self.certificates.len() as u8).filter(move |number| {
            let high = self.qc(*number);
            let exists = *number == self.floor || high.rank() > floor;
            let tc = values::tc(last, high);
            !direct && exists && rules.may_vote(&self.tree, lock, &block, Some(&tc))
        });
        alone.then_some(None).into_iter().chain(with.map(Some))
    }

    /// A replica comes to know a certificate, its block, and all below.
    fn teach(&self, rules: &dyn Rules, replica: &mut Replica, number: u8) {
        let qc = self.qc(number);
        if qc.rank() > self.qc(replica.high).rank() {
            replica.high = number;
        }
        let mut at = Some(qc);
        while let Some(qc) = at.filter(|qc| qc.view().0 > 0) {
            if let Some(lock) = rules.on_qc(&self.tree, qc).lock
                && lock.rank() > self.qc(replica.lock).rank()
                && let Some(number) = self.number_of(&lock)
            {
                replica.lock = number;
            }
            at = self.tree.get(&qc.block()).map(|block| &block.justify);
        }
    }

    fn number_of(&self, qc: &Qc) -> Option<u8> {
        self.certificates.iter().position(|known| known.ballot() == qc.ballot()).map(|at| at as u8)
    }

    /// Tells of a move, by the replica so many turns on.
    pub(super) fn describe(&self, what: Move, turns: u8) -> Step {
        let view = |number: u8| self.qc(number).view().0;
        let (justify, about) = match what {
            Move::Learn(number) | Move::Enter(number) => (None, Some(view(number))),
            Move::Vote { choice, tc } => (Some(self.qc(choice.justify).rank()), tc.map(view)),
            Move::VoteNext(_) | Move::Pass => (None, None),
        };
        Step {
            view: self.view,
            phase: self.phase,
            replica: self.turn + turns,
            what,
            justify,
            about,
        }
    }

    /// One move of the replica whose turn it is.
    pub(super) fn play(&mut self, rules: &dyn Rules, what: Move) {
        let mut replica = *self.replica();
        match what {
            Move::Learn(number) => self.teach(rules, &mut replica, number),
            Move::Enter(number) => {
                self.teach(rules, &mut replica, number);
                replica.entered = true;
            }
            Move::Vote { choice, tc } => {
                tc.into_iter().for_each(|high| self.teach(rules, &mut replica, high));
                self.teach(rules, &mut replica, choice.justify);
                replica.entered = true;
                replica.vote = Some(choice);
            }
            Move::VoteNext(number) => {
                self.teach(rules, &mut replica, number);
                replica.entered = true;
                replica.vote = Some(Choice { justify: number, variant: 0 });
            }
            Move::Pass => {}
        }
        self.replicas[usize::from(self.turn)] = replica;
        if matches!(what, Move::Learn(_)) {
            return;
        }
        self.turn += 1;
        if usize::from(self.turn) == self.replicas.len() {
            self.turn = 0;
            self.end_phase(rules);
        }
    }

    fn end_phase(&mut self, rules: &dyn Rules) {
        let certified = self.certify(rules);
        self.replicas.iter_mut().for_each(|replica| replica.vote = None);
        if certified && self.phase < rules.facts().phases {
            self.phase += 1;
        } else {
            self.end_view(rules);
        }
        self.replicas.sort_unstable();
    }

    /// Certifies what two correct replicas voted for. Whether there was such a thing.
    fn certify(&mut self, rules: &dyn Rules) -> bool {
        let mut votes: Vec<Choice> = self.replicas.iter().filter_map(|r| r.vote).collect();
        votes.sort_unstable();
        let mut chosen: Vec<Choice> =
            votes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        chosen.dedup();
        // Which payload it was does not matter to what comes after.
        if let [only] = chosen.as_mut_slice() {
            only.variant = 0;
        }
        let before = self.certificates.len();
        for choice in chosen {
            let block = if self.phase == 1 {
                let block = self.block_of(choice);
                // Its parent is certified, and so in the tree; it is of a new view.
                let entered = Arc::make_mut(&mut self.tree).insert(&block, |_, _| None);
                debug_assert_eq!(entered, Ok(()));
                block.id()
            } else {
                self.qc(choice.justify).block()
            };
            let ballot = Ballot { view: self.view, phase: self.phase, block };
            self.certificates.push(Arc::new(values::qc(ballot)));
            self.judge(rules);
        }
        self.certificates.len() > before
    }

    /// What the newest certificate commits, and whether it is of another chain than the others.
    fn judge(&mut self, rules: &dyn Rules) {
        let Some(qc) = self.certificates.last() else { return };
        let tree = &self.tree;
        let one_chain = |a: &BlockId, b: &BlockId| tree.extends(a, b) || tree.extends(b, a);
        self.forked |=
            self.certificates.iter().any(|other| !one_chain(&qc.block(), &other.block()));
        let Some(commit) = rules.on_qc(tree, qc).commit else { return };
        self.conflict |= !one_chain(&commit, &self.head);
        if tree.extends(&commit, &self.head) {
            self.head = commit;
        }
    }

    /// All give up on the view; who has not entered it does so by the lowest time-out certificate.
    fn end_view(&mut self, rules: &dyn Rules) {
        let mut replicas = self.replicas;
        for replica in &mut replicas {
            if !replica.entered {
                self.teach(rules, replica, self.floor);
            }
            replica.entered = false;
        }
        let mut highs = replicas.map(|replica| replica.high);
        highs.sort_unstable();
        // The higher one of the lowest two.
        self.floor = highs[1];
        self.replicas = replicas;
        self.view = self.view.next();
        self.phase = 1;
    }
}

impl State {
    /// What tells states apart. The tree, its head and whether it forks follow from the
    /// certificates.
    fn key(&self) -> impl PartialEq + Hash + use<> {
        let certificates: Vec<(View, u8, BlockId)> =
            self.certificates.iter().map(|qc| (qc.view(), qc.phase(), qc.block())).collect();
        let at = (self.view, self.phase, self.turn, self.floor);
        (at, self.replicas, self.conflict, certificates)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
