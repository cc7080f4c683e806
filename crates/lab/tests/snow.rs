//! Studies of the Snow family in their quick form: what they claim holds there too.

use quorate_lab::snow::{ALL, Extent, Found, Request, Table};

fn run(name: &str) -> Found {
    let study = ALL.iter().find(|study| study.name == name).unwrap();
    study.run(&Request { extent: Extent::Quick, seed: 0, attempts: Some(200) }).unwrap()
}

fn table<'a>(found: &'a Found, name: &str) -> &'a Table {
    &found.tables.iter().find(|(known, _)| *known == name).unwrap().1
}

fn sum(table: &Table, column: &str) -> f64 {
    table.numbers(column).iter().sum()
}

#[test]
fn convergence_takes_a_few_polls_more_with_ten_times_the_nodes() {
    let found = run("rounds");
    let runs = table(&found, "runs");
    let polls = runs.numbers("polls_before_the_last_beta");
    assert_eq!(runs.numbers("nodes"), [10.0, 20.0, 50.0, 100.0, 200.0]);
    assert!(polls.iter().all(|polls| (0.0..30.0).contains(polls)), "{polls:?}");
}

#[test]
fn of_outputs_that_are_spent_twice_one_spend_at_most_is_accepted_inside_the_promised_share() {
    let found = run("spends");
    let inside = table(&found, "inside");
    assert!(sum(inside, "attempts") >= 200.0);
    assert_eq!(sum(inside, "both_accepted"), 0.0);
    assert_eq!(sum(inside, "honest_accepted_by_all"), sum(inside, "honest_payments"));
    // Where most nodes are faulty it breaks, and the oracle sees it.
    let broken = table(&found, "frontier").numbers("runs_with_two_accepted");
    assert!(broken[0] == 0.0 && broken.last().unwrap() > &0.0, "{broken:?}");
}

#[test]
fn a_few_times_the_square_root_of_n_informed_adversaries_keep_nodes_undecided() {
    let found = run("informed");
    let runs = table(&found, "runs");
    assert_eq!(sum(runs, "unsafe_runs"), 0.0);
    let (faulty, stalled) = (runs.numbers("faulty"), runs.numbers("stalled_runs"));
    // Nobody lies in the first row, and four times the square root of n in the ninth.
    assert_eq!((faulty[0], stalled[0]), (0.0, 0.0));
    assert_eq!((faulty[8], stalled[8]), (45.0, 2.0));
}

#[test]
fn a_larger_beta_allows_more_faulty_nodes() {
    let found = run("parameters");
    let shares = table(&found, "frontier").numbers("largest_faulty_percent");
    for of_sample in shares.chunks(6) {
        assert!(of_sample.is_sorted(), "{of_sample:?}");
        assert!(of_sample[5] > of_sample[0], "{of_sample:?}");
    }
}
