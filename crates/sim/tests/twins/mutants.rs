//! Known bugs, each found by twins within so many scenarios.

use std::sync::atomic::AtomicBool;

use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::{
    Basic, Chained, Facts, Fast, Outcome, Rules, TwoChain,
};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::{Duration, View};
use quorate_sim::mutant::{Mutation, Skips};
use quorate_sim::twins::campaign::{Progress, Source};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Campaign, Numbers, Plan, Shape, Signatures, Space, Variant, run, shrink};

/// Rules with something else in place of some.
#[derive(Debug)]
struct Bug {
    rules: &'static dyn Rules,
    on_qc: Option<fn(&BlockTree, &Qc) -> Outcome>,
    votes_again: bool,
}

impl Bug {
    const fn of(rules: &'static dyn Rules) -> Self {
        Self { rules, on_qc: None, votes_again: false }
    }
}

impl Rules for Bug {
    fn facts(&self) -> &'static Facts {
        self.rules.facts()
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        self.rules.may_vote(tree, lock, block, tc)
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        self.on_qc.map_or_else(|| self.rules.on_qc(tree, qc), |on_qc| on_qc(tree, qc))
    }

    fn may_vote_again(&self, view: View, given_up: View) -> bool {
        self.votes_again || self.rules.may_vote_again(view, given_up)
    }

    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        self.rules.justify(high_qc, tc)
    }
}

/// The ancestor `steps` above `qc`'s block, whatever the views are.
fn ancestor(
    tree: &BlockTree,
    qc: &Qc,
    steps: usize,
) -> Option<quorate_core::ledger::block::BlockId> {
    let mut block = tree.find(&qc.block())?;
    for _ in 0..steps {
        block = tree.find(&block.parent())?;
    }
    Some(block.id())
}

/// Early Fast-HotStuff: a direct parent, of any view (the Twins paper, appendix F).
static EARLY_FAST: Bug = Bug {
    on_qc: Some(|tree, qc| Outcome { lock: Some(qc.clone()), commit: ancestor(tree, qc, 1) }),
    ..Bug::of(&Fast)
};
/// The three-chain, of any views.
static ANY_VIEWS: Bug = Bug {
    on_qc: Some(|tree, qc| Outcome {
        lock: Chained.on_qc(tree, qc).lock,
        commit: ancestor(tree, qc, 2),
    }),
    ..Bug::of(&Chained)
};
/// Commits its block on the certificate of the first phase.
static BASIC_IN_A_HURRY: Bug = Bug {
    on_qc: Some(|tree, qc| Outcome {
        lock: Basic.on_qc(tree, qc).lock,
        commit: ancestor(tree, qc, 0),
    }),
    ..Bug::of(&Basic)
};
/// Commit a block on its own certificate.
static CHAINED_IN_A_HURRY: Bug = Bug {
    on_qc: Some(|tree, qc| Outcome {
        lock: Chained.on_qc(tree, qc).lock,
        commit: ancestor(tree, qc, 0),
    }),
    ..Bug::of(&Chained)
};
static TWO_CHAIN_IN_A_HURRY: Bug = Bug {
    on_qc: Some(|tree, qc| Outcome { lock: Some(qc.clone()), commit: ancestor(tree, qc, 0) }),
    ..Bug::of(&TwoChain)
};
/// A second vote after the view was given up.
static VOTES_AGAIN: Bug = Bug { votes_again: true, ..Bug::of(&TwoChain) };

fn skips(_: usize) -> Option<Box<dyn Mutation>> {
    Some(Box::new(Skips::after(Duration::from_millis(2))))
}

/// After how many scenarios of `views` views a bug is found, by which oracle.
fn found(variant: Variant, (twins, views): (usize, usize), most: u128) -> (u128, String) {
    let plan = Plan::new(variant, Signatures::mixed(4));
    let shape = Shape::new(4, twins).expect("counts");
    let kind = Kind { shape, partitions: 2, views, by_phase: false, one_way: false };
    let space = Space::new(kind).expect("a space");
    let numbers = Numbers::sample(space.count(), most, 1);
    let source = Source::Numbered(Box::new(space), numbers);
    let campaign = Campaign { plan: &plan, source: &source, threads: 2, max_failures: 1 };
    let end = campaign.run(Progress::default(), &AtomicBool::new(false), |_| ());
    let Some(first) = end.failed.first() else { panic!("{}: not in {most}", plan.variant.name) };
    // It shrinks to something that fails alike, and the sound rules hold in it.
    let scenario = source.get(first.place).expect("it was run");
    let (small, violation) = shrink(&plan, &scenario).expect("it fails again");
    assert!(small.views.len() <= scenario.views.len());
    assert_eq!(violation.oracle, first.violation.oracle);
    println!("{}: {violation}, the {}th scenario\n{small}", plan.variant.name, first.place + 1);
    (first.place + 1, first.violation.oracle.clone())
}

fn bug(name: &'static str, bug: &'static Bug) -> Variant {
    Variant { name, ..Variant::new(bug) }
}

#[test]
fn the_early_rule_of_fast_hotstuff_is_found() {
    let early = bug("early fast", &EARLY_FAST);
    let (count, oracle) = found(early, (1, 7), 5_000);
    assert_eq!(oracle, "agreement");
    // The corrected rule holds where the early one fails.
    let plan = Plan::new(Variant::new(&Fast), Signatures::mixed(4));
    let shape = Shape::new(4, 1).expect("counts");
    let kind = Kind { shape, partitions: 2, views: 7, by_phase: false, one_way: false };
    let space = Space::new(kind).expect("a space");
    let number = Numbers::sample(space.count(), 5_000, 1).get(count - 1).expect("it was run");
    let scenario = space.scenario(number).expect("it was run");
    assert_eq!(run(&plan, &scenario).violation, None);
}

#[test]
fn a_three_chain_of_any_views_is_found() {
    let (_, oracle) = found(bug("any views", &ANY_VIEWS), (1, 10), 15_000);
    assert_eq!(oracle, "agreement");
}

#[test]
fn a_commit_that_skips_an_ancestor_is_found() {
    let variant = Variant { name: "skips", mutation: skips, ..Variant::new(&Chained) };
    assert_eq!(found(variant, (1, 7), 200).1, "no gap");
}

#[test]
fn votes_that_come_too_late_and_commits_that_come_too_early_are_found() {
    let again = bug("votes again", &VOTES_AGAIN);
    let again = Variant { broadcast_votes: true, second_vote: true, ..again };
    assert_eq!(found(again, (1, 7), 200).1, "no vote after a time-out");
    for (hurry, views) in
        [(&BASIC_IN_A_HURRY, 10), (&CHAINED_IN_A_HURRY, 7), (&TWO_CHAIN_IN_A_HURRY, 7)]
    {
        assert_eq!(found(bug("in a hurry", hurry), (1, views), 2_000).1, "agreement");
    }
}
