//! Seeds that once failed do not fail again; and the simulator does what it says of itself.

use quorate_sim::campaign::{self, Campaign, Progress, judged};
use quorate_sim::family::HotStuffs;
use quorate_sim::swarm::{Plan, Trouble};
use quorate_sim::trace::Trace;

/// The seeds of the corpus.
fn corpus() -> Vec<(u64, Plan)> {
    let lines = include_str!("../corpus.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let seed = words.next().and_then(|seed| seed.parse().ok()).expect("a seed");
            let trouble = match words.next().expect("what went wrong") {
                "-" => None,
                name => Some(Trouble::named(name).expect("a trouble there is")),
            };
            (seed, Plan { trouble, ..Plan::default() })
        })
        .collect()
}

#[test]
fn seeds_that_once_failed_do_not_fail_again() {
    let corpus = corpus();
    assert!(corpus.len() > 5);
    for (seed, plan) in corpus {
        let (outcome, _) = campaign::run::<HotStuffs>(seed, &plan, Trace::default());
        assert_eq!(outcome.err(), None);
    }
}

#[test]
fn a_campaign_runs_each_seed_once_whatever_the_threads() {
    let of = |threads| {
        let campaign = Campaign {
            first: 100,
            seeds: 24,
            time: None,
            threads,
            most_violations: 1,
            plan: Plan::default(),
        };
        campaign.run::<HotStuffs>(&Progress::default())
    };
    let (one, three) = (of(1), of(3));
    assert_eq!(one.violations, []);
    assert_eq!((one.next, three.next), (124, 124));
    assert_eq!(one.tally.seeds, 24);
    assert_eq!(
        (one.tally.events, one.tally.commits, &one.tally.faults),
        (three.tally.events, three.tally.commits, &three.tally.faults)
    );
}

#[test]
fn a_violation_is_put_to_its_oracle() {
    assert_eq!(judged("agreement: r1 committed another"), ("agreement", "r1 committed another"));
    assert_eq!(judged("exactly once: twice"), ("exactly once", "twice"));
    let compared = std::panic::catch_unwind(|| assert_eq!(1, 2, "state: r2 is in another"));
    let compared = compared.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(judged(&compared).0, "state");
    assert_eq!(judged("index out of bounds"), ("no panic", "index out of bounds"));
}

#[test]
fn every_kind_of_fault_happens() {
    let campaign = Campaign {
        first: 0,
        seeds: 60,
        time: None,
        threads: 2,
        most_violations: 1,
        plan: Plan::default(),
    };
    let faults = campaign.run::<HotStuffs>(&Progress::default()).tally.faults;
    for kind in [
        "crash",
        "data lost",
        "liar forgets",
        "message cut off",
        "message dropped by a full queue",
        "message duplicated",
        "message lost",
        "message queued for bandwidth",
        "message straggled",
        "messages reordered",
        "one-way cut",
        "partition",
        "pause",
        "full disk",
        "power failure",
        "power failure: all in flight lost",
        "power failure: reordered writes",
        "power failure: torn write",
        "sync error",
        "restart",
        "timed isolation",
    ] {
        assert!(faults.of(kind) > 0, "{kind} never happened");
    }
}
