//! Every protocol holds, in scenarios in which chains fork and leaders equivocate.

use std::sync::atomic::AtomicBool;

use quorate_sim::twins::campaign::{Progress, Source};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Campaign, Numbers, Plan, Shape, Signatures, Space, Totals, Variant};

/// All scenarios of a kind, or a sample of them, in which nothing may go wrong.
fn campaign(variant: Variant, space: &Space, sample: Option<u128>) -> Totals {
    let plan = Plan::new(variant, Signatures::mixed(space.kind().shape.replicas()));
    let space = space.clone();
    let numbers = match sample {
        Some(sample) => Numbers::sample(space.count(), sample, 1),
        None => Numbers::all(space.count()),
    };
    let source = Source::Numbered(Box::new(space), numbers);
    let campaign = Campaign { plan: &plan, source: &source, threads: 2, max_failures: 1 };
    let end = campaign.run(Progress::default(), &AtomicBool::new(false), |_| ());
    if let Some(first) = end.failed.first() {
        let scenario = source.get(first.place).expect("it was run");
        panic!("{}: {}\n{scenario}", variant.name, first.violation);
    }
    assert_eq!(end.totals.scenarios, source.len());
    println!("{:32} {:?}", variant.name, end.totals);
    end.totals
}

fn space(views: usize) -> Space {
    let shape = Shape::new(4, 1).expect("counts");
    let kind = Kind { shape, partitions: 2, views, by_phase: false, one_way: false };
    Space::new(kind).expect("a space")
}

#[test]
fn all_of_two_views_and_many_of_three_and_of_seven() {
    let spaces = [2, 3, 7].map(space);
    for variant in Variant::named("all") {
        let two = campaign(variant, &spaces[0], None);
        let three = campaign(variant, &spaces[1], Some(1_500));
        let seven = campaign(variant, &spaces[2], Some(400));
        for totals in [&two, &three, &seven] {
            assert!(totals.committed > 0 && totals.equivocated > 0 && totals.noticed > 0);
        }
        assert!(two.forked + three.forked + seven.forked > 0, "{}", variant.name);
    }
}

#[test]
fn the_other_pacemaker_and_second_votes() {
    let spaces = [2, 5].map(space);
    let six = Variant::named("all").len();
    for variant in Variant::named("every").into_iter().skip(six) {
        let two = campaign(variant, &spaces[0], None);
        let five = campaign(variant, &spaces[1], Some(400));
        assert!(two.equivocated > 0 && five.committed > 0, "{}", variant.name);
    }
}

#[test]
fn groups_by_phase_and_one_way_blocks() {
    let spaces = [(4, 1, 2, true), (7, 2, 3, false)].map(|(replicas, twins, partitions, fine)| {
        let shape = Shape::new(replicas, twins).expect("counts");
        let kind = Kind { shape, partitions, views: 3, by_phase: fine, one_way: fine };
        Space::new(kind).expect("a space")
    });
    for variant in Variant::named("all") {
        let fine = campaign(variant, &spaces[0], Some(300));
        assert!(fine.forked > 0, "{}", variant.name);
        let seven = campaign(variant, &spaces[1], Some(60));
        assert!(seven.committed > 0 && seven.equivocated > 0, "{}", variant.name);
    }
}
