//! All scenarios of a kind are counted right, and a number names one of them.

use std::collections::BTreeSet;

use quorate_sim::twins::scenario::MAX_SLOTS;
use quorate_sim::twins::space::{Kind, partition_count};
use quorate_sim::twins::{
    Groups, Numbers, Scenario, Shape, ShapeError, Space, SpaceError, ViewScript,
};

fn space(replicas: usize, twins: usize, partitions: usize, views: usize) -> Space {
    let shape = Shape::new(replicas, twins).expect("counts");
    Space::new(Kind { shape, partitions, views, by_phase: false, one_way: false }).expect("a space")
}

#[test]
fn partitions_are_counted_as_stirling_does() {
    assert_eq!(partition_count(5, 1), 1);
    // 15 into two groups, and all together.
    assert_eq!(partition_count(5, 2), 16);
    assert_eq!(partition_count(5, 3), 16 + 25);
    assert_eq!(partition_count(5, 5), 52);
    assert_eq!(partition_count(MAX_SLOTS, MAX_SLOTS), 10_480_142_147);
    assert_eq!(space(4, 1, 2, 1).letters(), 16 * 4);
    assert_eq!(space(4, 1, 2, 7).unpruned(), Some(64u128.pow(7)));
    assert_eq!(space(4, 1, 2, 7).permutations(), 12);
}

/// Every word, whatever it is but for names: (leader, partition) for each view.
fn all_scenarios(shape: Shape, partitions: &[Groups], views: usize) -> Vec<Scenario> {
    let mut all = vec![Vec::new()];
    for _ in 0..views {
        let mut longer = Vec::new();
        for views in all {
            for leader in 0..shape.replicas() as u8 {
                for groups in partitions {
                    let mut views: Vec<ViewScript> = views.clone();
                    views.push(ViewScript::steady(leader, *groups));
                    longer.push(views);
                }
            }
        }
        all = longer;
    }
    all.into_iter().map(|views| Scenario { shape, views }).collect()
}

/// Every way to put slots into at most `most` of `most` named groups, each once.
fn all_partitions(slots: usize, most: usize) -> Vec<Groups> {
    let named = 0..(most as u64).pow(slots as u32);
    let group =
        |name: u64, slot: usize| (name / (most as u64).pow(slot as u32) % most as u64) as u8;
    let all: BTreeSet<Groups> =
        named.map(|name| Groups::new(slots, |slot| group(name, slot))).collect();
    all.into_iter().collect()
}

#[test]
fn every_scenario_has_a_number_and_every_number_a_scenario() {
    for (replicas, twins, partitions, views) in
        [(4, 1, 2, 1), (4, 1, 2, 2), (4, 0, 2, 2), (4, 1, 3, 1), (4, 0, 1, 4), (7, 2, 2, 1)]
    {
        let space = space(replicas, twins, partitions, views);
        let shape = space.kind().shape;
        let all = all_scenarios(shape, &all_partitions(shape.slots(), partitions), views);
        assert_eq!(Some(all.len() as u128), space.unpruned());
        let numbers: BTreeSet<u128> =
            all.iter().map(|scenario| space.number(scenario).expect("of this kind")).collect();
        // As many classes as there are numbers, and no other numbers.
        assert_eq!(numbers.len() as u128, space.count());
        assert_eq!(numbers.last().map(|last| last + 1), Some(space.count()));
        for number in numbers {
            let scenario = space.scenario(number).expect("below the count");
            assert_eq!(space.number(&scenario), Some(number));
        }
        assert_eq!(space.scenario(space.count()), None);
    }
}

#[test]
fn numbers_and_scenarios_of_larger_spaces_belong_together() {
    let shape = Shape::new(4, 1).expect("counts");
    for (by_phase, one_way, views) in
        [(false, false, 12), (true, false, 5), (false, true, 9), (true, true, 4)]
    {
        let kind = Kind { shape, partitions: 2, views, by_phase, one_way };
        let space = Space::new(kind).expect("a space");
        let numbers = Numbers::sample(space.count(), 200, 7);
        for k in 0..numbers.len() {
            let number = numbers.get(k).expect("in the sample");
            let scenario = space.scenario(number).expect("below the count");
            assert_eq!(scenario.views.len(), views);
            assert_eq!(space.number(&scenario), Some(number));
        }
    }
}

#[test]
fn renaming_all_views_alike_changes_nothing_and_one_view_alone_does() {
    let space = space(4, 1, 2, 3);
    // Replicas 1, 2, 3 take turns; the copies of 0 change places.
    let renamed = [4, 2, 3, 1, 0];
    let rename = |view: &ViewScript| {
        let from = |slot: usize| (0..5).find(|s| renamed[*s] == slot).expect("a permutation");
        let leader = (renamed[usize::from(view.leader)] % 4) as u8;
        ViewScript::steady(leader, Groups::new(5, |slot| view.groups[0].of(from(slot))))
    };
    let mut differ = 0;
    for number in (0..space.count()).step_by(17) {
        let scenario = space.scenario(number).expect("below the count");
        let views: Vec<ViewScript> = scenario.views.iter().map(rename).collect();
        let all = Scenario { views, ..scenario.clone() };
        assert_eq!(space.number(&all), Some(number));
        let mut one = scenario.clone();
        one.views[1] = rename(&one.views[1]);
        differ += u32::from(space.number(&one) != Some(number));
    }
    assert!(differ > 500, "pruning view by view would call them the same");
}

#[test]
fn counts_of_use_are_what_they_were() {
    assert_eq!(space(4, 1, 2, 2).count(), 510);
    assert_eq!(space(4, 1, 2, 3).count(), 25_740);
    assert_eq!(space(4, 1, 2, 5).count(), 92_545_200);
    assert_eq!(space(4, 1, 2, 7).count(), 369_434_823_360);
    assert!(space(4, 1, 2, 12).count() > 1 << 67);
}

#[test]
fn a_sample_has_nothing_twice_and_may_be_all() {
    for count in [1, 2, 5, 510, 25_740] {
        for seed in [1, 2] {
            let numbers = Numbers::sample(count, u128::MAX, seed);
            let all: BTreeSet<u128> = (0..numbers.len()).filter_map(|k| numbers.get(k)).collect();
            assert_eq!((numbers.len(), all.len() as u128), (count, count));
            assert_eq!(all.last(), Some(&(count - 1)));
            assert_eq!(numbers.get(count), None);
        }
    }
    let first = |seed| Numbers::sample(1 << 100, 50, seed);
    let numbers = |seed| (0..50).map(|k| first(seed).get(k)).collect::<Vec<_>>();
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert_eq!(numbers(1).into_iter().collect::<BTreeSet<_>>().len(), 50);
    assert_eq!(Numbers::all(7).get(6), Some(6));
    assert!(Numbers::sample(9, 0, 1).is_empty());
}

#[test]
fn a_sample_is_even() {
    // Of 16 parts of the numbers none has much more than its share.
    let numbers = Numbers::sample(369_434_823_360, 16_000, 3);
    let mut parts = [0u32; 16];
    for k in 0..16_000 {
        let number = numbers.get(k).expect("in the sample");
        parts[(number * 16 / 369_434_823_360) as usize] += 1;
    }
    assert!(parts.iter().all(|part| (850..1150).contains(part)), "{parts:?}");
}

#[test]
fn impossible_counts_are_refused_with_what_to_use() {
    let faults = ShapeError::Faults { replicas: 4, twins: 2, faults: 1 };
    assert_eq!(Shape::new(4, 2), Err(faults));
    assert!(faults.to_string().contains("at least 7 replicas"));
    assert_eq!(Shape::new(0, 0), Err(ShapeError::Slots { replicas: 0, twins: 0 }));
    assert_eq!(Shape::new(16, 1), Err(ShapeError::Slots { replicas: 16, twins: 1 }));
    assert!(Shape::new(usize::MAX, usize::MAX).is_err());
    let shape = Shape::new(4, 1).expect("counts");
    let kind = Kind { shape, partitions: 2, views: 7, by_phase: false, one_way: false };
    let refused = |kind| Space::new(kind).map(|_| ()).expect_err("impossible");
    assert_eq!(
        refused(Kind { partitions: 6, ..kind }),
        SpaceError::Partitions { partitions: 6, slots: 5 }
    );
    assert_eq!(refused(Kind { views: 0, ..kind }), SpaceError::Views(0));
    assert_eq!(refused(Kind { views: 25, ..kind }), SpaceError::Views(25));
    assert_eq!(refused(Kind { views: 24, ..kind }), SpaceError::TooMany);
    let shape = Shape::new(16, 0).expect("counts");
    let wide = refused(Kind { shape, partitions: 16, ..kind });
    assert!(matches!(wide, SpaceError::TooWide { .. }));
}
