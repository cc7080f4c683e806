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

/// The table of the documentation, and walks of the same chain on it.
#[test]
fn walks_lie_on_the_bound_and_runs_below_it() {
    let found = run("failure");
    let curves = table(&found, "curves");
    assert!(curves.numbers("walked_minus_bound").iter().all(|off| off.abs() < 0.25));
    let (bound, alpha) = (curves.numbers("bound_log10"), curves.numbers("alpha"));
    let percent = curves.numbers("faulty_percent");
    let at = |of: f64, share: f64| {
        let place = (0..bound.len()).find(|row| alpha[*row] == of && percent[*row] == share);
        bound[place.unwrap()]
    };
    for (share, seven, eight) in [
        (10.0, -51.8, -102.3),
        (20.0, -18.2, -48.4),
        (24.0, -9.6, -31.7),
        (28.0, -3.7, -18.0),
        (30.0, -1.7, -12.4),
        (34.0, 0.0, -3.6),
    ] {
        assert!((at(7.0, share) - seven).abs() < 0.05 + 1e-9, "{share}: {}", at(7.0, share));
        assert!((at(8.0, share) - eight).abs() < 0.05 + 1e-9, "{share}: {}", at(8.0, share));
    }
    // Tried as it is, the chain fails as often as computed.
    for row in curves.rows() {
        let [.., attempts, failures, _] = row.as_slice() else { panic!("{row:?}") };
        let (Ok(attempts), Ok(failures)) = (attempts.parse::<f64>(), failures.parse::<f64>())
        else {
            continue;
        };
        let expected = attempts * 10_f64.powf(row[2].parse().unwrap());
        assert!((failures - expected).abs() <= 5.0 * expected.sqrt() + 3.0, "{row:?}");
    }
    assert_eq!(found.pictures.len(), 1);
    assert!(found.pictures[0].svg.contains("Bitcoin"));
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
    assert_eq!(sum(inside, "honest_payments"), sum(inside, "honest_accepted_by_all"));
    // Where most nodes are faulty it breaks, and the oracle sees it.
    let broken = table(&found, "frontier").numbers("runs_with_two_accepted");
    assert!(broken[0] == 0.0 && broken.last().unwrap() > &0.0, "{broken:?}");
}

#[test]
fn glacier_ends_what_the_white_papers_counters_let_hang() {
    let found = run("liveness");
    let rows = table(&found, "runs").rows();
    let of = |counters: &str| {
        let row = rows.iter().find(|row| row[0] == counters && row[1] == "true").unwrap();
        row[3].clone()
    };
    assert_eq!(of("white-paper"), "never");
    assert!(of("glacier").parse::<f64>().unwrap() < 4_000.0, "{}", of("glacier"));
}
