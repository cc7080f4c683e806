//! Every view of four replicas, and many of seven: a block that is committed by first votes is out
//! for nobody, and the votes of all correct replicas always lead on.

use proptest::prelude::*;

use super::{Counts, Firsts};
use crate::base::types::ReplicaId;

/// A first vote: for block 0 or 1, or blank.
type Vote = Option<u8>;
const VOTES: [Vote; 3] = [Some(0), Some(1), None];

/// One view: what each replica said, liars as the votes that are counted for commits.
#[derive(Clone, Debug)]
struct Case {
    leader: usize,
    liars: Vec<usize>,
    said: Vec<Vote>,
    /// What a reader has of each replica; of a liar any vote.
    seen: Vec<Option<Vote>>,
}

impl Case {
    fn n(&self) -> usize {
        self.said.len()
    }

    /// Only a leader that lies signs two blocks.
    fn is_possible(&self) -> bool {
        let heard = self.seen.iter().flatten();
        let both = |block| self.said.iter().chain(heard.clone()).any(|vote| *vote == Some(block));
        self.liars.contains(&self.leader) || !(both(0) && both(1))
    }

    /// The reader has a correct replica's own vote, or none.
    fn is_honest(&self) -> bool {
        let correct = (0..self.n()).filter(|id| !self.liars.contains(id));
        correct.into_iter().all(|id| self.seen[id].is_none_or(|vote| vote == self.said[id]))
    }

    fn read<T>(&self, counts: Counts, is_liar: bool, ask: impl Fn(Firsts<'_, u8>) -> T) -> T {
        let votes = self.seen.iter().enumerate();
        let votes: Vec<_> =
            votes.filter_map(|(id, vote)| Some((ReplicaId(id as u16), (*vote)?))).collect();
        let leader = ReplicaId(self.leader as u16);
        ask(Firsts { counts, leader, is_liar, votes: &votes })
    }

    /// Whether a block that is committed by first votes is out for the reader.
    fn loses(&self, counts: Counts) -> bool {
        let committed = |block: u8| {
            self.said.iter().filter(|vote| **vote == Some(block)).count() >= counts.fast
        };
        let knows = [false, self.liars.contains(&self.leader)];
        (0..2).filter(|block| committed(*block)).any(|block| {
            knows.into_iter().any(|is_liar| {
                self.read(counts, is_liar, |firsts| {
                    firsts.is_out(&block)
                        || firsts.excludes_all()
                        || firsts.excludes_others(&(1 - block))
                })
            })
        })
    }

    /// Whether the reader may go on, having all correct votes: by giving up, or by voting for the
    /// block that all others may vote for as well.
    fn goes_on(&self) -> Result<(), String> {
        let counts = Counts::of(self.n());
        let correct: Vec<_> = (0..self.n()).filter(|id| !self.liars.contains(id)).collect();
        let has = |block| correct.iter().any(|id| self.said[*id] == Some(block));
        let knows = has(0) && has(1);
        self.read(counts, knows, |firsts| {
            let hopes = |block: u8| {
                let backers = correct.iter().filter(|id| self.said[**id] == Some(block)).count();
                backers >= counts.support && firsts.excludes_others(&block)
            };
            // What every reader sees, whatever liars show it: the correct votes alone.
            let mut alone = self.clone();
            self.liars.iter().for_each(|liar| alone.seen[*liar] = None);
            let all_give_up = alone.read(counts, knows, |firsts| firsts.excludes_all());
            let all_vote = (0..2).any(|block| {
                has(block)
                    && hopes(block)
                    && alone.read(counts, knows, |firsts| firsts.excludes_others(&block))
            });
            let ok = all_vote || all_give_up && firsts.excludes_all();
            if ok { Ok(()) } else { Err(format!("{self:?} leads nowhere")) }
        })
    }
}

/// Calls `each` with every case of four replicas.
fn every_case_of_four(mut each: impl FnMut(&Case)) {
    let pick = |code: usize, at: usize, of: usize| code / of.pow(at as u32) % of;
    for (leader, liar) in [(0, 0), (0, 1)] {
        for said in 0..81 {
            for seen in 0..256 {
                let said: Vec<_> = (0..4).map(|id| VOTES[pick(said, id, 3)]).collect();
                let heard = |id| VOTES.get(pick(seen, id, 4)).copied();
                let seen = (0..4).map(heard).collect();
                let case = Case { leader, liars: vec![liar], said, seen };
                if case.is_possible() && case.is_honest() {
                    each(&case);
                }
            }
        }
    }
}

fn lost(counts: Counts) -> usize {
    let mut lost = 0;
    every_case_of_four(|case| lost += usize::from(case.loses(counts)));
    lost
}

#[test]
fn what_may_be_committed_is_out_for_nobody() {
    assert_eq!(lost(Counts::of(4)), 0);
}

/// Each count is as low as it may be: with one less something is lost.
#[test]
fn no_count_may_be_lower() {
    let right = Counts::of(4);
    assert_eq!((right.fast, right.against, right.against_beside_liar), (3, 3, 2));
    assert!(lost(Counts { fast: 2, ..right }) > 0);
    assert!(lost(Counts { against: 2, ..right }) > 0);
    assert!(lost(Counts { against_beside_liar: 1, ..right }) > 0);
}

/// The vote of a leader that signed two blocks must not count against either.
#[test]
fn the_vote_of_a_leader_that_lies_does_not_count() {
    // r0 leads and lies: r1 and r2 vote for block 0, and r0 as well, which commits it. It shows r3
    // a vote for block 1, which r3 voted for.
    let (said, seen) = ([Some(0), Some(0), Some(0), Some(1)], [Some(1), None, Some(0), Some(1)]);
    let seen = seen.map(|block| block.map(Some));
    let case = Case { leader: 0, liars: vec![0], said: said.to_vec(), seen: seen.to_vec() };
    assert!(!case.loses(Counts::of(4)));
    let not_excluded = |ask: fn(Firsts<'_, u8>) -> bool| {
        let counts = Counts { against: 2, ..Counts::of(4) };
        case.read(counts, false, ask)
    };
    assert!(not_excluded(|firsts| firsts.is_out(&0)), "two votes against it, one the liar's");
}

#[test]
fn the_votes_of_all_correct_replicas_lead_on() {
    let mut cases = 0;
    every_case_of_four(|case| {
        let correct = (0..4).filter(|id| !case.liars.contains(id));
        if correct.into_iter().all(|id| case.seen[id].is_some()) {
            case.goes_on().unwrap();
            cases += 1;
        }
    });
    assert!(cases > 400, "{cases}");
}

/// Without the leader's signature there is no telling which vote is the lie: two blocks with a vote
/// each leave both possible.
#[test]
fn two_blocks_of_a_leader_that_is_not_known_to_lie_lead_nowhere() {
    let counts = Counts::of(4);
    let votes = [Some(0), Some(1), Some(1)];
    let votes: Vec<_> = (1..).map(ReplicaId).zip(votes).collect();
    let firsts = |is_liar| Firsts { counts, leader: ReplicaId(0), is_liar, votes: &votes };
    assert!(!firsts(false).excludes_others(&1) && !firsts(false).excludes_all());
    assert!(firsts(true).excludes_others(&1) && !firsts(true).excludes_others(&0));
}

fn case_of(n: usize, f: usize) -> impl Strategy<Value = Case> {
    let vote = || prop::sample::select(VOTES.to_vec());
    let said = prop_oneof![
        prop::collection::vec(vote(), n),
        // Nearly all for one block.
        (0..n, vote()).prop_map(move |(at, other)| {
            let mut said = vec![Some(0); n];
            said[at] = other;
            said
        }),
    ];
    let liars = Just(Vec::from_iter(0..n)).prop_shuffle();
    let lies = prop::collection::vec(prop::option::of(vote()), n);
    let sees = prop::collection::vec(any::<bool>(), n);
    (said, liars, lies, sees, any::<bool>()).prop_map(move |(said, ids, lies, sees, leads)| {
        let liars = ids[..f].to_vec();
        let leader = if leads { liars[0] } else { ids[n - 1] };
        let seen = (0..n).map(|id| match liars.contains(&id) {
            true => lies[id],
            false => sees[id].then_some(said[id]),
        });
        let seen = seen.collect();
        Case { leader, liars, seen, said }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        max_global_rejects: 40_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn seven_lose_nothing(case in case_of(7, 2)) {
        prop_assume!(case.is_possible());
        prop_assert!(!case.loses(Counts::of(7)));
    }

    #[test]
    fn seven_go_on(mut case in case_of(7, 2)) {
        (0..7).filter(|id| !case.liars.contains(id)).for_each(|id| case.seen[id] = Some(case.said[id]));
        prop_assume!(case.is_possible());
        prop_assert_eq!(case.goes_on(), Ok(()));
    }
}
