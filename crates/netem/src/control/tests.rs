use super::apply;
use crate::link::Link;
use crate::topology::Topology;

fn four() -> Topology {
    Topology::uniform(4, &Link::parse("delay=10ms").expect("a link")).expect("a network")
}

fn cut(topology: &Topology) -> Vec<(usize, usize)> {
    let pairs = (0..5).flat_map(|from| (0..5).map(move |to| (from, to)));
    pairs.filter(|(from, to)| topology.link(*from, *to).is_some_and(|link| link.cut)).collect()
}

#[test]
fn set_changes_one_direction_and_both_two() {
    let mut topology = four();
    apply(&mut topology, "set", "0 1 loss=1%").expect("obeyed");
    assert_eq!(
        topology.link(0, 1).map(ToString::to_string).as_deref(),
        Some("delay=10ms loss=0.01")
    );
    assert_eq!(topology.link(1, 0).map(ToString::to_string).as_deref(), Some("delay=10ms"));
    apply(&mut topology, "both", "2 clients delay=1ms bandwidth=1Mbit").expect("obeyed");
    for (from, to) in [(2, 4), (4, 2)] {
        assert_eq!(
            topology.link(from, to).map(ToString::to_string).as_deref(),
            Some("delay=1ms bandwidth=1Mbit")
        );
    }
}

#[test]
fn a_partition_cuts_between_groups_alone_and_heals() {
    let mut topology = four();
    apply(&mut topology, "partition", "0 2,3").expect("obeyed");
    assert_eq!(cut(&topology), [(0, 2), (0, 3), (2, 0), (3, 0)]);
    apply(&mut topology, "heal", "").expect("obeyed");
    assert_eq!(topology, four());
}

#[test]
fn what_is_wrong_changes_nothing_and_says_why() {
    let wrong = [
        ("set", "0 1", "wants two nodes"),
        ("set", "0 9 delay=1ms", "there is no node \"9\""),
        ("set", "0 1 delay=1", "delay: \"1\" is not a time"),
        ("both", "* * delay=5ms jitter=6ms", "jitter is more than the delay"),
        ("partition", "0,1", "at least two groups"),
        ("partition", "0 x", "there is no node \"x\""),
        ("fly", "", "none of set, both, partition"),
    ];
    for (word, rest, why) in wrong {
        let mut topology = four();
        let said = apply(&mut topology, word, rest).expect_err(rest).to_string();
        assert!(said.contains(why), "{word} {rest}: {said}");
        assert_eq!(topology, four());
    }
}

#[test]
fn links_are_read_as_they_are_shown_and_nothing_else_is() {
    let mut topology = four();
    apply(&mut topology, "set", "3 clients jitter=1ms distribution=normal cut=true")
        .expect("obeyed");
    let shown = topology.to_string();
    assert_eq!(Topology::of_lines(&shown).expect("links").to_string(), shown);
    for text in ["", "hello", "0 -> 0: ", "0 -> 1: delay=1ms", "0 -> 1: \n1 -> 0: fast"] {
        assert_eq!(Topology::of_lines(text), None, "{text}");
    }
}
