//! A small part of what `make model` explores of PBFT's view changes, and every wrong choice.

use quorate_model::campaign::Depth;
use quorate_model::pbft::{Bound, Chooser, Entry, Place, Replica, Rule, campaign};
use quorate_model::rounds::Scheduler;

#[test]
fn the_choice_holds_and_production_does_what_the_model_does() {
    let mut runs = 0;
    campaign::rules(Depth::Quick, 1, |run, held| {
        assert!(held, "{run}: {:#?}", run.violation);
        runs += 1;
    });
    assert_eq!(runs, 8);
}

#[test]
fn every_wrong_choice_is_found() {
    let mut found = Vec::new();
    campaign::mutants(1, |run| found.push(run.violation.clone().map(|(property, _)| property)));
    let lost = Some("committed blocks stay");
    // Tips by number, tips by view, vouching, conflicts, dropped.
    assert_eq!(found, [lost, lost, Some("nothing is made up"), lost, lost]);
}

/// One view is too few for both readings of "the highest prepared tip": a second one has to order
/// a block again, or another one.
#[test]
fn tips_and_conflicts_need_two_views() {
    for rule in Rule::MUTANTS {
        let bound = Bound { views: 1, heights: 2, scheduler: Scheduler::Sparing };
        let run = campaign::view_changes(rule, bound, 1);
        let needs_one = matches!(rule, Rule::VouchingIgnored | Rule::PreparedDropped);
        assert_eq!(run.violation.is_some(), needs_one, "{run}");
    }
}

fn said(prepared: (u8, u8), pre_prepared: &[(u8, u8)]) -> Replica {
    let entry = |&(view, block): &(u8, u8)| Entry { view, block };
    let mut place = Place { prepared: entry(&prepared), ..Place::default() };
    for (known, said) in place.pre_prepared.iter_mut().zip(pre_prepared) {
        *known = entry(said);
    }
    let mut replica = Replica::default();
    replica.places[0] = place;
    replica
}

/// The exploration's finding, in short (`docs/model.md`): a replica remembers four pre-prepared
/// blocks of a height, and the fifth makes it forget one that another prepared. It shows the view
/// that began without that block, and the other one drops it from P: then the view begins.
#[test]
fn the_fifth_block_of_a_height_leaves_no_view_without_a_choice() {
    let away = said((1, 1), &[(1, 1)]);
    let silent = said((0, 0), &[]);
    let four = said((0, 0), &[(1, 1), (2, 2), (3, 3), (4, 4)]);
    let five = said((0, 0), &[(2, 2), (3, 3), (4, 4), (5, 5)]);
    let parents = [0; 6];
    let is_stuck = |away, other| {
        Chooser::new(Rule::Right).new_views(6, 1, &[away, silent, other], &parents).is_stuck
    };
    assert!(!is_stuck(away, four));
    assert!(is_stuck(away, five), "nobody need be shown anything");
    let mut shown = away;
    assert!(shown.hear_of((5, [0; 3])));
    assert!(!is_stuck(shown, five));
    // A view that began with the block rules out nothing.
    let mut shown = away;
    assert!(!shown.hear_of((5, [1, 0, 0])));
    assert_eq!(shown, away);
}
