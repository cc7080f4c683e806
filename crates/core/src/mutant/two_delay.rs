//! Mutants of the protocol of two delays.

use super::entry::{Mutant, of};

const fn two(name: &'static str, what: &'static str, source: &'static str) -> Mutant {
    of("laboratory-two-delay", name, what, source)
}

/// All of them.
pub(super) const TWO_DELAY: [Mutant; 11] = [
    two(
        "two-delay-fast-at-quorum",
        "n - f first votes commit a block",
        "class of bug: the fast path with the quorum of the slow one",
    ),
    two(
        "two-delay-too-few-against",
        "f + 1 first votes against a block are enough to leave it",
        "Kuznetsov, Tonkikh, Zhang 2021: the counts of a larger n",
    ),
    two(
        "two-delay-too-few-beside-liar",
        "f votes against a block are enough beside a leader that signed two",
        "class of bug: off by one",
    ),
    two(
        "two-delay-liar-counts",
        "the vote of a leader that signed two blocks counts against blocks like any other",
        "Kuznetsov, Tonkikh, Zhang 2021: the exclusion of the leader left out",
    ),
    two(
        "two-delay-falls-back-freely",
        "a fallback vote may be for any block with f first votes",
        "class of bug: the wrong majority",
    ),
    two(
        "two-delay-gives-up-freely",
        "a view is given up whatever may have been committed in it",
        "counterexample 2 of docs/protocols/two-delay.md: a view that is not settled",
    ),
    two(
        "two-delay-second-anyway",
        "a second vote is cast whatever this replica said before",
        "class of bug: the guard of the slow path left out",
    ),
    two(
        "two-delay-hides-certificate",
        "time-outs name no certificate",
        "class of bug: a view change without the highest QC",
    ),
    two(
        "two-delay-unjustified",
        "a block may be on any certified block",
        "counterexample 1 of docs/protocols/two-delay.md: an unjustified vote",
    ),
    two("two-delay-certified-at-q-minus-1", "q - 1 votes make a QC", "class of bug: off by one"),
    two(
        "two-delay-words-not-persisted",
        "what a replica says in a view is not written down",
        "class of bug: amnesia",
    ),
];
