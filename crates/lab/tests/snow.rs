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
    // A few are still pending when the quick form ends.
    let share = sum(inside, "honest_accepted_by_all") / sum(inside, "honest_payments");
    assert!(share > 0.9, "{share}");
    // Where most nodes are faulty it breaks, and the oracle sees it.
    let broken = table(&found, "frontier").numbers("runs_with_two_accepted");
    assert!(broken[0] == 0.0 && broken.last().unwrap() > &0.0, "{broken:?}");
}
