//! Whatever is decided, value is conserved and no output is spent twice; and wherever the machine
//! loses its power, nothing that was accepted is lost.

mod fixtures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fixtures::{CHAIN, genesis, in_memory, ledger, options, signed};
use proptest::prelude::*;
use quorate_core::Digest;
use quorate_payments::ledger::{Meta, Outcome, output_of};
use quorate_payments::{Ledger, OutputId, Signed};
use quorate_store::disk::{CrashDisk, Fate, MemoryDisk};

/// A payment to come: which of all outputs ever made it spends, and how it splits them.
#[derive(Clone, Debug)]
struct Plan {
    spends: Vec<prop::sample::Index>,
    to: u8,
    /// In hundredths.
    share: u64,
    /// Makes more of it than there is, if true.
    greedy: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let spends = prop::collection::vec(any::<prop::sample::Index>(), 1..4);
    (spends, 0..4u8, 0..=100u64, prop::bool::weighted(0.1))
        .prop_map(|(spends, to, share, greedy)| Plan { spends, to, share, greedy })
}

/// All outputs ever made: whose, and how much.
type Made = BTreeMap<OutputId, (u8, u64)>;

fn signed_plan(plan: &Plan, made: &Made) -> Signed {
    let all: Vec<_> = made.iter().collect();
    let spends: BTreeMap<_, _> =
        plan.spends.iter().map(|index| *index.get(&all)).map(|(id, made)| (*id, *made)).collect();
    let value: u64 = spends.values().map(|(_, amount)| amount).sum();
    let (first, _) = spends.values().next().copied().unwrap();
    let paid = value * plan.share / 100;
    let change = value - paid + u64::from(plan.greedy);
    let outputs = [(plan.to, paid), (first, change)];
    let outputs: Vec<_> = outputs.into_iter().filter(|(_, amount)| *amount > 0).collect();
    let inputs: Vec<_> = spends.iter().map(|(id, (owner, _))| (*id, *owner)).collect();
    signed(&inputs, &outputs)
}

/// What a model with sets would accept: the same rules in their plainest form.
fn fits(transaction: &Signed, made: &Made, spent: &BTreeSet<OutputId>) -> bool {
    let known = transaction.inputs().iter().all(|id| made.contains_key(id) && !spent.contains(id));
    let value: u64 = transaction.inputs().iter().filter_map(|id| Some(made.get(id)?.1)).sum();
    known && value == transaction.total()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn value_is_conserved_and_no_output_is_spent_twice(
        groups in prop::collection::vec(prop::collection::vec(plan(), 1..6), 1..12)
    ) {
        let genesis = genesis(4, 2, 1000);
        let mut ledger = in_memory(&genesis);
        let owner = |place: usize| (place / 2) as u8;
        let mut made: Made = genesis.outputs().enumerate()
            .map(|(place, (id, output))| (id, (owner(place), output.amount))).collect();
        let (mut spent, mut accepted) = (BTreeSet::new(), BTreeSet::new());
        for group in groups {
            // All of a group are made of what there was before it: conflicts among them are usual.
            let decided: Vec<_> = group.iter().map(|plan| signed_plan(plan, &made)).collect();
            let outcomes = ledger.accept(&decided, &[]).unwrap();
            for (transaction, outcome) in decided.iter().zip(outcomes) {
                let expected = fits(transaction, &made, &spent);
                let again = accepted.contains(&transaction.id());
                match outcome {
                    Outcome::Accepted(_) => prop_assert!(expected && !again),
                    Outcome::Known => prop_assert!(again),
                    Outcome::Refused(_) => { prop_assert!(!expected); continue }
                }
                accepted.insert(transaction.id());
                spent.extend(transaction.inputs());
                for (place, output) in transaction.outputs().iter().enumerate() {
                    let owner = (0..4).find(|n| fixtures::address(*n) == output.to).unwrap();
                    made.insert(output_of(transaction.id(), place), (owner, output.amount));
                }
            }
            let audit = ledger.view().audit().unwrap();
            prop_assert_eq!(audit.value, 8000);
            prop_assert_eq!(audit.unspent as usize, made.len() - spent.len());
        }
        for owner in 0..4 {
            let left = made.iter().filter(|(id, (of, _))| *of == owner && !spent.contains(*id));
            let left: BTreeMap<_, _> = left.map(|(id, (_, amount))| (*id, *amount)).collect();
            let view = ledger.view();
            let told: BTreeMap<_, _> =
                view.unspent(&fixtures::address(owner), 1000).unwrap().into_iter().collect();
            prop_assert_eq!(view.balance(&fixtures::address(owner)).unwrap(), left.values().sum::<u64>());
            prop_assert_eq!(told, left);
        }
    }
}

/// A life of a ledger on a recording disk: groups of payments, each of which returns when it is
/// durable. What it held after each, and how many operations the disk had recorded then.
fn life(crash: &CrashDisk) -> Vec<(usize, Meta)> {
    let genesis = genesis(2, 3, 100);
    let mut ledger = ledger(Arc::new(crash.clone()), &genesis);
    let mut unspent: Vec<_> = genesis.outputs().map(|(id, _)| id).collect();
    let mut points = vec![(crash.operations(), ledger.meta())];
    for round in 0..12u8 {
        let spent = unspent.remove(0);
        let owner = (0..2).find(|n| {
            matches!(
                ledger.view().output(&spent).unwrap(),
                Some(quorate_payments::ledger::OutputState::Unspent { to, .. }) if to == fixtures::address(*n)
            )
        });
        let amount = 100;
        let payment = signed(&[(spent, owner.unwrap())], &[(round % 2, amount)]);
        unspent.push(output_of(payment.id(), 0));
        let note = (Digest([round; 32]), Bytes::from(vec![round; 100]));
        ledger.accept(&[payment], &[note]).unwrap();
        points.push((crash.operations(), ledger.meta()));
    }
    points
}

#[test]
fn nothing_accepted_is_lost_wherever_the_power_goes() {
    let crash = CrashDisk::over(&MemoryDisk::new()).unwrap();
    let points = life(&crash);
    let genesis = genesis(2, 3, 100);
    for operations in points[0].0..=crash.operations() {
        let durable = points.iter().rev().find(|(at, _)| *at <= operations).unwrap().1;
        let seed = operations as u64;
        for fate in [Fate::Kept, Fate::Lost, Fate::NamesLost, Fate::Mixed { seed }] {
            let left = crash.materialise(operations, fate);
            let found = Ledger::open_on(Arc::new(left), options(), CHAIN, &genesis)
                .unwrap_or_else(|error| panic!("{operations} {fate:?}: {error}"));
            let known = points.iter().any(|(_, meta)| *meta == found.meta());
            assert!(known, "{operations} {fate:?}: half of a group");
            assert!(found.meta().accepted >= durable.accepted, "{operations} {fate:?}: lost");
            found.view().audit().unwrap();
            for note in 0..found.meta().notes {
                let digest = found.view().note_numbered(note).unwrap().unwrap();
                assert_eq!(found.view().note(&digest).unwrap().unwrap().number, note);
            }
        }
    }
}

#[test]
fn a_ledger_of_another_chain_is_refused() {
    let disk = MemoryDisk::new();
    let genesis = genesis(1, 1, 5);
    drop(ledger(Arc::new(disk.clone()), &genesis));
    let other = Ledger::open_on(Arc::new(disk), options(), Digest([8; 32]), &genesis);
    assert!(matches!(other, Err(quorate_payments::ledger::LedgerError::Chain { .. })));
}
