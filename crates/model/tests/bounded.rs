//! A small part of `make model`: every variant to the depth at which conflicting certificates
//! occur, and a mutant of each kind.

use quorate_core::protocols::hotstuff::rules;
use quorate_model::campaign::{self, Depth};
use quorate_model::driver::Driver;
use quorate_model::mutant;
use quorate_model::report::run;
use quorate_model::rounds::{Rounds, Scheduler};

/// Violations only: what is seen somewhere is asked for where the depth is enough.
#[test]
fn every_variant_holds_in_both_models() {
    let mut runs = 0;
    campaign::rules(Depth::Quick, 1, |run, _| {
        assert_eq!(run.violation, None, "{run}");
        runs += 1;
    });
    assert_eq!(runs, 4 * rules::ALL.len());
}

#[test]
fn conflicting_certificates_and_commits_occur_together() {
    for rules in rules::ALL {
        let scheduler = Scheduler::Sparing;
        let run = run(
            "rounds",
            Rounds { rules, views: 5 / rules.facts().phases as u64 + 1, scheduler },
            1,
        );
        assert!(run.holds(true), "{}: {run}", rules.facts().name);
    }
}

#[test]
fn sparing_leaves_out_nothing_that_certificates_tell() {
    // Both schedulers of the three-chain see the first commit beside a conflicting certificate in
    // the fourth view, and not before.
    for scheduler in [Scheduler::Full, Scheduler::Sparing] {
        let rules = &rules::Chained;
        assert!(!run("three views", Rounds { rules, views: 3, scheduler }, 1).holds(true));
        assert!(run("four views", Rounds { rules, views: 4, scheduler }, 1).holds(true));
    }
}

#[test]
fn every_mutant_is_found() {
    for mutant in mutant::ALL {
        let (run, _) = campaign::shortest(mutant, 1);
        let (property, steps) = run.violation.clone().unwrap_or_else(|| panic!("{run}"));
        assert_eq!(property, "agreement");
        assert!((2..=6).contains(&steps.len()), "{run}: {steps:#?}");
    }
}

#[test]
fn mutants_break_the_real_driver_as_well() {
    let early = |mutant: &&mutant::Mutant| {
        mutant.bug == mutant::Bug::ShortChain && mutant.rules.facts().chain_length < 3
    };
    let mut found = 0;
    for mutant in mutant::ALL.iter().filter(early) {
        let run = campaign::in_driver(mutant, 2, 1);
        assert!(run.violation.is_some(), "{run}");
        found += 1;
    }
    assert_eq!(found, 4);
    let right = Driver { rules: &rules::Fast, views: 2, scheduler: Scheduler::Sparing };
    assert_eq!(run("as it is", right, 1).violation, None);
}
