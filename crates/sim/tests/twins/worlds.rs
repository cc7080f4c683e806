//! What happens in a scenario, and that a campaign is the sum of its runs.

use std::sync::atomic::{AtomicBool, Ordering};

use quorate_core::protocols::hotstuff::rules::{ALL, Chained};
use quorate_sim::twins::campaign::{Progress, Source};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{
    Campaign, Groups, Numbers, Plan, Scenario, Shape, Signatures, Space, Variant, ViewScript,
    report, run,
};

fn plan(variant: Variant) -> Plan {
    Plan::new(variant, Signatures::mixed(4))
}

/// Each view's leader, and the second group of slots.
fn scenario(views: &[(u8, &[usize])]) -> Scenario {
    let shape = Shape::new(4, 1).expect("counts");
    let view = |(leader, second): &(u8, &[usize])| {
        ViewScript::steady(*leader, Groups::new(5, |slot| u8::from(second.contains(&slot))))
    };
    Scenario { shape, views: views.iter().map(view).collect() }
}

#[test]
fn with_all_together_and_correct_leaders_the_chain_grows_as_it_should() {
    let calm = scenario(&[(1, &[]), (2, &[]), (3, &[]), (1, &[]), (2, &[])]);
    for rules in ALL {
        let told = report::tell(&plan(Variant::new(rules)), &calm);
        let name = rules.facts().name;
        assert_eq!(told.outcome.violation, None, "{name}");
        assert!(told.outcome.committed, "{name}");
        assert!(!told.outcome.equivocated && !told.outcome.noticed, "{name}");
        for view in 1..=8 {
            let line = format!("● b{view}  on b{}, height {view}", view - 1);
            assert!(told.picture.contains(&line), "{name}:\n{}", told.picture);
        }
    }
}

#[test]
fn both_copies_lead_and_their_blocks_are_two() {
    // 0 and 1, 2 are apart from 0' and 3: both halves hear a proposal, none hears two.
    let apart = scenario(&[(0, &[3, 4]), (1, &[])]);
    let told = report::tell(&plan(Variant::new(&Chained)), &apart);
    assert_eq!(told.outcome.violation, None);
    assert!(told.outcome.equivocated);
    assert!(told.picture.contains("b4  on b3, height 4, by 0"), "{}", told.picture);
    assert!(told.picture.contains("b4'  on b3, height 4, by 0'"), "{}", told.picture);
    // All together hear both.
    let together = run(&plan(Variant::new(&Chained)), &scenario(&[(0, &[])]));
    assert!(together.equivocated && together.noticed);
}

#[test]
fn a_script_without_any_quorum_ends_and_all_recover() {
    for variant in Variant::named("every") {
        let shape = Shape::new(4, 1).expect("counts");
        let alone = Groups::new(5, |slot| slot as u8);
        let views = (0..7).map(|view| ViewScript::steady(view % 4, alone)).collect();
        let outcome = run(&plan(variant), &Scenario { shape, views });
        assert_eq!(outcome.violation, None, "{}", variant.name);
        assert!(!outcome.committed && !outcome.forked, "{}", variant.name);
    }
}

#[test]
fn who_is_blocked_is_not_heard() {
    let mut one_way = scenario(&[(1, &[]), (2, &[])]);
    one_way.views[0].blocked = vec![(1, 3)];
    let told = report::tell(&plan(Variant::new(&Chained)), &one_way);
    assert!(told.trace.iter().any(|line| line.contains("r1 ✗ r3  proposal b4")));
    assert!(told.trace.iter().any(|line| line.contains("r1 → r2  proposal b4")));
    assert!(!told.trace.iter().any(|line| line.contains("r1 ✗ r2")));
    // By phase: the proposal is heard, votes are not.
    let mut by_phase = scenario(&[(1, &[]), (2, &[])]);
    by_phase.views[0].groups[1] = Groups::new(5, |slot| slot as u8);
    let told = report::tell(&plan(Variant::new(&Chained)), &by_phase);
    assert!(told.trace.iter().any(|line| line.contains("r1 → r3  proposal b4")));
    assert!(told.trace.iter().any(|line| line.contains("r3 ✗ r2  vote b4")));
    // Its certificate is made of the votes in time-outs.
    assert!(!told.trace.iter().any(|line| line.contains("→ r2  vote b4")));
    assert!(told.picture.contains("● b4"), "{}", told.picture);
}

#[test]
fn the_same_scenario_does_the_same() {
    let busy = scenario(&[(0, &[3, 4]), (0, &[1]), (2, &[0, 1, 2]), (3, &[2, 4])]);
    for variant in Variant::named("every") {
        let (one, two) = (report::tell(&plan(variant), &busy), report::tell(&plan(variant), &busy));
        assert!(one.trace.len() > 100);
        assert_eq!((one.outcome, one.trace), (two.outcome, two.trace));
    }
}

fn source(sample: u128) -> Source {
    let shape = Shape::new(4, 1).expect("counts");
    let kind = Kind { shape, partitions: 2, views: 4, by_phase: false, one_way: false };
    let space = Space::new(kind).expect("a space");
    let numbers = Numbers::sample(space.count(), sample, 5);
    Source::Numbered(Box::new(space), numbers)
}

#[test]
fn a_campaign_in_pieces_is_the_campaign() {
    let (plan, source) = (plan(Variant::new(&Chained)), source(700));
    let campaign = |threads| Campaign { plan: &plan, source: &source, threads, max_failures: 1 };
    let whole = campaign(1).run(Progress::default(), &AtomicBool::new(false), |_| ());
    assert_eq!(whole.totals.scenarios, 700);
    assert!(whole.totals.forked > 0 && whole.totals.equivocated > 0);
    let (mut progress, mut pieces) = (Progress::default(), 0);
    while progress.totals.scenarios < 700 {
        let stop = AtomicBool::new(false);
        let before = progress.clone();
        progress = campaign(3).run(before, &stop, |_| stop.store(true, Ordering::Relaxed));
        pieces += 1;
    }
    assert!(pieces > 1);
    assert_eq!(progress, whole);
}
