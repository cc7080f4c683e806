//! Every protocol holds, in scenarios in which chains fork and leaders equivocate.

use std::sync::atomic::AtomicBool;

use quorate_sim::twins::campaign::{Progress, Source};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Campaign, Numbers, Plan, Shape, Signatures, Space, Totals, Variant};

/// All scenarios of a kind, or a sample of them, in which nothing may go wrong.
fn campaign(variant: Variant, kind: Kind, sample: Option<u128>) -> Totals {
    let plan = Plan::new(variant, Signatures::mixed(kind.shape.replicas()));
    let space = Space::new(kind).expect("a space");
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

fn kind(views: usize) -> Kind {
    let shape = Shape::new(4, 1).expect("counts");
    Kind { shape, partitions: 2, views, by_phase: false, one_way: false }
}

#[test]
fn all_of_two_views_and_many_of_three_and_of_seven() {
    for variant in Variant::named("all") {
        let two = campaign(variant, kind(2), None);
        let three = campaign(variant, kind(3), Some(1_500));
        let seven = campaign(variant, kind(7), Some(400));
        for totals in [&two, &three, &seven] {
            assert!(totals.committed > 0 && totals.equivocated > 0 && totals.noticed > 0);
        }
        assert!(two.forked + three.forked + seven.forked > 0, "{}", variant.name);
    }
}

#[test]
fn the_other_pacemaker_and_second_votes() {
    let six = Variant::named("all").len();
    for variant in Variant::named("every").into_iter().skip(six) {
        let two = campaign(variant, kind(2), None);
        let five = campaign(variant, kind(5), Some(400));
        assert!(two.equivocated > 0 && five.committed > 0, "{}", variant.name);
    }
}

#[test]
fn groups_by_phase_and_one_way_blocks() {
    for variant in Variant::named("all") {
        campaign(variant, Kind { by_phase: true, one_way: true, ..kind(3) }, Some(300));
        let seven = Shape::new(7, 2).expect("counts");
        campaign(variant, Kind { shape: seven, partitions: 3, ..kind(3) }, Some(60));
    }
}
