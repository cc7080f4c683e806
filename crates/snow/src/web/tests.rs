//! The functions that the page calls, called here.

use super::*;

/// A run that the page does too, in a browser: `crates/cli/tests/snow.rs` compares the traces.
#[test]
fn a_grid_decides_and_says_so() {
    assert_eq!(grid_new(2, 400, 40, 0, 10, 7, 20, 0, 500, 7), 1);
    let mut steps = 0;
    while grid_advance(50.0) > 0 {
        steps += 1;
        assert!(steps < 4000, "{:?}", grid_numbers_now());
    }
    let numbers = grid_numbers_now();
    assert_eq!(numbers.len(), GRID_FIELDS);
    assert_eq!(numbers[3] + numbers[4], 360.0);
    assert!(numbers[3] == 0.0 || numbers[4] == 0.0, "{numbers:?}");
    let nodes = grid_nodes_now();
    assert_eq!(nodes.len(), 400 * NODE_FIELDS);
    assert_eq!(nodes.chunks(NODE_FIELDS).filter(|node| node[1] == 1).count(), 40);
    let correct = nodes.chunks(NODE_FIELDS).filter(|node| node[1] == 0);
    assert!(correct.clone().all(|node| node[2] >= 20 && node[6] > 0));
}

#[test]
fn numbers_that_cannot_be_used_are_refused_in_words() {
    assert_eq!(grid_new(2, 400, 0, 0, 10, 5, 20, 0, 500, 7), 0);
    let said = MESSAGE.with_borrow(String::clone);
    assert!(said.contains("choose it above k / 2"), "{said}");
    assert_eq!(message_length() as usize, said.len());
    assert_eq!(spends_new(4, 0, 0, 10, 8, 4, 8, 2, 1), 0);
    let said = MESSAGE.with_borrow(String::clone);
    assert!(said.contains("lower k"), "{said}");
    assert!(failure(2000, 2000, 10, 8, 150).is_nan() && failure(5, 0, 10, 8, 150).is_nan());
    for number in [0, 1, u32::MAX] {
        grid_new(number, number, number, number, number, number, number, number, number, number);
        spends_new(number, number, number, number, number, number, number, number, number);
        spends_look(number);
        spends_twice(number, number, f64::NAN);
        failure(number, number, number, number, number);
        bitcoin(f64::from(number));
    }
}

#[test]
fn the_curve_is_that_of_the_analysis() {
    assert!((failure(2000, 400, 10, 7, 150) + 18.2).abs() < 0.05);
    assert!(bitcoin(0.1) < -3.6 && bitcoin(0.6) == 0.0);
    assert!(expected_polls(2000, 10, 8, 20) > 20.0);
}

#[test]
fn time_passes_in_steps_too_short_for_anything_to_happen() {
    assert_eq!(spends_new(20, 0, 0, 6, 5, 4, 10, 4, 3), 1);
    (0..1000).for_each(|_| {
        spends_advance(1.0);
    });
    assert_eq!(spends_now(), 1000.0);
    assert_eq!(grid_new(2, 100, 0, 0, 10, 7, 20, 0, 500, 7), 1);
    (0..100).for_each(|_| {
        grid_advance(0.5);
    });
    assert_eq!(grid_numbers_now()[0], 50.0);
}

#[test]
fn a_long_step_shows_what_was_decided_within_it() {
    assert_eq!(spends_new(20, 0, 0, 6, 5, 4, 10, 4, 3), 1);
    spends_advance(20_000.0);
    let vertices = spends_vertices_now();
    let payments = vertices.chunks(VERTEX_FIELDS).filter(|vertex| vertex[0] >= 0).count();
    assert!(payments >= 75, "{payments} of 80");
}

#[test]
fn a_double_spend_is_shown_until_one_of_it_is_accepted() {
    assert_eq!(spends_new(20, 0, 0, 6, 5, 4, 10, 4, 3), 1);
    spends_advance(3000.0);
    let pair = spends_twice(0, 11, 0.0);
    assert_eq!(pair, 0);
    spends_advance(150.0);
    assert!(spends_why(0, 0) > 0, "just spent, it is pending");
    let said = MESSAGE.with_borrow(String::clone);
    assert!(said.starts_with("confidence "), "{said}");
    (0..300).for_each(|_| {
        spends_advance(100.0);
    });
    spends_leanings(0);
    let leanings = spends_leanings_now();
    let accepted = |part: &[u8]| part.iter().filter(|of| **of == 3).count();
    let both = (accepted(&leanings[..20]), accepted(&leanings[20..]));
    assert!(both == (20, 0) || both == (0, 20), "{both:?}");
    assert_eq!((spends_why(0, 0), spends_unsafe()), (0, 0));
    let vertices = spends_vertices_now();
    assert_eq!(vertices.len() % VERTEX_FIELDS, 0);
    let of = |which| vertices.chunks(VERTEX_FIELDS).any(|vertex| vertex[5] == which);
    assert!(of(1) && of(2) && !of(3));
    for (at, vertex) in vertices.chunks(VERTEX_FIELDS).enumerate() {
        let parents = &vertex[7..7 + vertex[6] as usize];
        assert!(parents.iter().all(|parent| (0..at as i32).contains(parent)));
    }
}
