//! The protocols that decide between colours, poll by poll. A letter is a successful poll for that
//! colour, a dot a failed one; below each stand colour and counter after it.

use quorate_core::protocols::snow::poll::{Colour, Outcome};
use quorate_core::protocols::snow::slush::Slush;
use quorate_core::protocols::snow::snowball::Snowball;
use quorate_core::protocols::snow::snowflake::Snowflake;
use quorate_core::protocols::snow::snowflake_plus::{Condition, Invalid, SnowflakePlus};

const RED: Colour = Colour(0);
const BLUE: Colour = Colour(1);

fn outcome(poll: char, seats: u32) -> Option<Outcome> {
    let colour = match poll {
        'r' => RED,
        'b' => BLUE,
        'g' => Colour(2),
        _ => return None,
    };
    Some(Outcome { colour, seats })
}

fn letter(colour: Option<Colour>) -> char {
    colour.map_or('-', |colour| ['r', 'b', 'g'][usize::from(colour.0)])
}

#[test]
fn slush_follows_the_last_successful_poll_until_its_polls_are_over() {
    let mut node = Slush::new(None, 4);
    node.asked(BLUE);
    node.asked(RED);
    let colours: String = "r.br"
        .chars()
        .map(|poll| {
            assert_eq!(node.decided(), None);
            node.polled(outcome(poll, 8));
            letter(node.colour())
        })
        .collect();
    assert_eq!(colours, "rrbr");
    node.polled(outcome('b', 8));
    assert_eq!(node.decided(), Some(RED));
}

#[test]
fn snowflake_counts_polls_in_a_row() {
    let mut node = Snowflake::new(Some(RED), 3);
    let mut seen = String::new();
    for poll in "rr.rbbrrrb".chars() {
        node.polled(outcome(poll, 8));
        seen += &format!("{}{} ", letter(node.colour()), node.count());
    }
    // Decided at the third r in a row; what comes later changes nothing.
    assert_eq!(seen, "r1 r2 r0 r1 b1 b2 r1 r2 r3 r3 ");
    assert_eq!(node.decided(), Some(RED));
}

#[test]
fn snowball_changes_its_colour_only_with_more_confidence() {
    let mut node = Snowball::new(Some(RED), 4);
    let mut seen = String::new();
    for poll in "rrbb.bggb".chars() {
        node.polled(outcome(poll, 8));
        seen += &format!("{}{} ", letter(node.colour()), node.count());
    }
    // Two of red against two of blue: red stays; the third of blue changes it.
    assert_eq!(seen, "r1 r2 r1 r2 r0 b1 b1 b2 b1 ");
    assert_eq!(node.confidence(BLUE), 4);
    (0..3).for_each(|_| node.polled(outcome('b', 8)));
    assert_eq!(node.decided(), Some(BLUE));
}

#[test]
fn snowflake_plus_decides_by_many_seats_soon_or_by_fewer_later() {
    let conditions = [Condition { seats: 7, polls: 6 }, Condition { seats: 9, polls: 2 }];
    let node = |polls: &[(char, u32)]| {
        let mut node = SnowflakePlus::new(Some(RED), 6, &conditions).unwrap();
        polls.iter().for_each(|(poll, seats)| node.polled(outcome(*poll, *seats)));
        (letter(node.colour()), node.decided().is_some())
    };
    assert_eq!(node(&[('r', 9), ('r', 9)]), ('r', true));
    // Seven seats end the run of nine, not that of seven.
    assert_eq!(node(&[('r', 9), ('r', 7), ('r', 9), ('r', 7), ('r', 7)]), ('r', false));
    assert_eq!(node(&[('r', 7); 6]), ('r', true));
    // Six seats change the colour and count for nothing; five are a failed poll.
    assert_eq!(node(&[('r', 9), ('b', 6), ('r', 9)]), ('r', false));
    assert_eq!(node(&[('r', 9), ('b', 5), ('r', 9)]), ('r', false));
    let wrong = [Condition { seats: 5, polls: 6 }];
    let refused = SnowflakePlus::new(None, 6, &wrong).unwrap_err();
    assert_eq!(refused, Invalid::Order { seats: 5, polls: 6, least: 6 });
}
