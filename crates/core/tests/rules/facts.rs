//! What each variant says of itself, against the table of the design. (Message delays are counted
//! in `tests/delays.rs`.)

use quorate_core::View;
use quorate_core::protocols::hotstuff::rules::{ALL, Fast, Rules, named};

use crate::model::{Model, qc, tc};

/// Name, phases, chain length, certificates to a commit, message delays.
const TABLE: [(&str, u8, u64, u8, u64); 6] = [
    ("hotstuff-basic", 3, 1, 3, 7),
    ("hotstuff-chained", 1, 3, 3, 7),
    ("hotstuff-simplified", 1, 3, 3, 7),
    ("hotstuff-fast", 1, 2, 2, 5),
    ("hotstuff-two-chain", 1, 2, 2, 5),
    ("hotstuff-2", 1, 2, 2, 5),
];

#[test]
fn the_variants_are_those_of_the_table() {
    let said = ALL.map(|rules| {
        let facts = rules.facts();
        let views = (facts.phases, facts.chain_length, facts.certificates);
        (facts.name, views.0, views.1, views.2, facts.message_delays)
    });
    assert_eq!(said, TABLE);
    for (name, ..) in TABLE {
        assert_eq!(named(name).map(|rules| rules.facts().name), Some(name));
    }
    assert!(named("hotstuff").is_none());
}

#[test]
fn each_variant_signs_under_a_number_of_its_own() {
    let mut numbers: Vec<u8> = ALL.iter().map(|rules| rules.facts().number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "0 is that of client frames");
}

#[test]
fn one_variant_carries_all_qcs_one_waits_for_locks_and_one_votes_twice() {
    let with = |has: &dyn Fn(&dyn Rules) -> bool| -> Vec<&str> {
        ALL.into_iter().filter(|rules| has(*rules)).map(|rules| rules.facts().name).collect()
    };
    assert_eq!(with(&|rules| rules.facts().carries_all_qcs), ["hotstuff-fast"]);
    assert_eq!(with(&|rules| rules.facts().waits_for_locks), ["hotstuff-2"]);
    assert_eq!(with(&|rules| rules.may_vote_again(View(9), View(0))), ["hotstuff-two-chain"]);
}

#[test]
fn leaders_extend_their_high_qc_unless_an_agg_qc_binds_them() {
    let blocks = Model { parents: vec![0, 0, 1], views: vec![0, 1, 2] }.blocks();
    let high_qc = qc(&blocks[2]);
    let certificate = tc(3, &[&*blocks[1], &*blocks[0], &*blocks[0]], true);
    for rules in ALL {
        let extended = rules.justify(&high_qc, Some(&certificate));
        let bound = rules.facts().name == Fast.facts().name;
        assert_eq!(extended.view(), if bound { View(1) } else { View(2) });
        assert_eq!(rules.justify(&high_qc, None), high_qc);
    }
}
