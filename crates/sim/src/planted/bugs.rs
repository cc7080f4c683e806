//! Bugs put in around what must have none inside: rules, committees, the drive loop's journal.
//!
//! Each acts as what it decorates while the mutant of its name is not chosen.

use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::mutant;
use quorate_core::protocols::hotstuff::block::{Block, Header};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::{
    Basic, Chained, Facts, Fast, HotStuff2, Outcome, Rules, Simplified, TwoChain,
};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::protocol::{Protocol, Types};
use quorate_core::replica::drive::{self, Journal, World};
use quorate_core::replica::{Input, Record, Replica};
use quorate_core::{Committee, Time, View};

/// Rules, wrong where the chosen mutant says so.
#[derive(Clone, Copy, Debug)]
struct Planted(&'static dyn Rules);

static ALL: [Planted; 6] = [
    Planted(&Basic),
    Planted(&Chained),
    Planted(&Simplified),
    Planted(&Fast),
    Planted(&TwoChain),
    Planted(&HotStuff2),
];

/// `rules` with the mutants that are in them.
pub(crate) fn rules(rules: &'static dyn Rules) -> &'static dyn Rules {
    let planted = ALL.iter().find(|planted| planted.facts().number == rules.facts().number);
    planted.map_or(rules, |planted| planted)
}

/// The blocks certified in a row, newest first, as far as they are at hand.
fn chain<'a>(tree: &'a BlockTree, qc: &Qc) -> impl Iterator<Item = &'a Header> {
    std::iter::successors(tree.find(&qc.block()), |block| tree.find(&block.parent()))
}

/// The block so many below the certified one, whatever the views.
fn below(tree: &BlockTree, qc: &Qc, blocks: usize) -> Option<BlockId> {
    chain(tree, qc).nth(blocks).map(Header::id)
}

fn extends_lock(tree: &BlockTree, lock: &Qc, block: &Block) -> bool {
    match tree.get(&lock.block()) {
        Some(locked) => tree.extends(&block.parent(), &locked.id()),
        None => lock.view() <= tree.root().view,
    }
}

impl Rules for Planted {
    fn facts(&self) -> &'static Facts {
        self.0.facts()
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        match (self.facts().name, mutant::name(), tc) {
            ("hotstuff-chained", "lock-rule-inverted", _) => {
                block.justify.view() < lock.view() || extends_lock(tree, lock, block)
            }
            ("hotstuff-2", "hotstuff-2-lock-ignored", _) => true,
            ("hotstuff-two-chain", "two-chain-tc-ignored", Some(tc))
            | ("hotstuff-fast", "fast-agg-qc-ignored", Some(tc)) => block.view == tc.view().next(),
            _ => self.0.may_vote(tree, lock, block, tc),
        }
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let right = self.0.on_qc(tree, qc);
        let commit = match (self.facts().name, mutant::name()) {
            ("hotstuff-fast", "fast-commit-any-views")
            | ("hotstuff-two-chain", "two-chain-commit-any-views")
            | ("hotstuff-2", "hotstuff-2-commit-any-views") => below(tree, qc, 1),
            ("hotstuff-chained", "chained-commit-any-views")
            | ("hotstuff-simplified", "simplified-commit-any-views") => below(tree, qc, 2),
            ("hotstuff-chained", "chained-commit-two-chain") => Fast.on_qc(tree, qc).commit,
            ("hotstuff-basic", "basic-commit-at-pre-commit") if qc.phase() >= 2 => {
                below(tree, qc, 0)
            }
            _ => right.commit,
        };
        Outcome { commit, ..right }
    }

    fn may_vote_again(&self, view: View, given_up: View) -> bool {
        let unguarded = mutant::name() == "second-vote-unguarded";
        unguarded && self.facts().name == "hotstuff-two-chain"
            || self.0.may_vote_again(view, given_up)
    }

    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        self.0.justify(high_qc, tc)
    }
}

/// `committee`, with the quorum that the chosen mutant has it.
pub(crate) fn committee(committee: Committee) -> Committee {
    if mutant::name() == "weights-ignored" {
        return committee.by_heads();
    }
    let f = committee.faults();
    let quorum = match mutant::name() {
        "quorum-2f" => 2 * f.max(1),
        "quorum-f-plus-1" => f + 1,
        "quorum-2f-plus-1" => 2 * f + 1,
        _ => return committee,
    };
    committee.with_quorum(quorum)
}

/// A journal that says a record is durable before it is, for one turn.
struct Late<'a, T: Types, J> {
    journal: &'a mut J,
    records: Vec<Record<T>>,
}

impl<T: Types, J: Journal<T>> Journal<T> for Late<'_, T, J> {
    type Error = J::Error;

    fn write(&mut self, records: Vec<Record<T>>) -> Result<(), J::Error> {
        self.records.extend(records);
        Ok(())
    }
}

/// A turn of the drive loop, before whose outputs nothing is written while that mutant is chosen.
pub(crate) fn turn<P, S, J, W>(
    replica: &mut Replica<P, S>,
    journal: &mut J,
    world: &mut W,
    now: Time,
    inputs: &mut Vec<Input<P::Types>>,
) -> Result<(), J::Error>
where
    P: Protocol,
    S: StateMachine,
    J: Journal<P::Types>,
    W: World<P::Types>,
{
    if mutant::name() != "vote-before-persist" {
        return drive::turn(replica, journal, world, now, inputs);
    }
    let mut late = Late { journal, records: Vec::new() };
    drive::turn(replica, &mut late, world, now, inputs)?;
    let Late { journal, records } = late;
    if records.is_empty() { Ok(()) } else { journal.write(records) }
}
