//! What holds for every election: it is a function of the chain that is extended, and of nothing
//! else.

use proptest::prelude::*;
use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::{Election, History, MAX_WINDOW, Schedule};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::chain::{Chain, EPOCH, all_but, child, committee, ids};

pub const ALL: [Election; 4] =
    [Election::Fixed(ReplicaId(0)), Election::RoundRobin, Election::Carousel, Election::Reputation];

#[test]
fn every_name_names_its_election() {
    assert_eq!(Election::names().map(Election::named), ALL.map(Some));
    assert_eq!(ALL.map(Election::name), Election::names());
    assert_eq!(Election::Fixed(ReplicaId(3)).name(), "fixed");
    assert_eq!(Election::named("Carousel"), None);
    assert_eq!(ALL.map(Election::needs_signers), [false, false, true, true]);
}

#[test]
fn no_election_looks_back_further_than_the_bound() {
    for replicas in 1..=256 {
        let [fixed, round_robin, carousel, reputation] = ALL.map(|e| e.window(replicas));
        assert_eq!((fixed, round_robin), (0, 0));
        assert!((1..=MAX_WINDOW).contains(&carousel), "{carousel} of {replicas}");
        assert!((12..=MAX_WINDOW).contains(&reputation), "{reputation} of {replicas}");
    }
    assert_eq!((Election::Carousel.window(4), Election::Reputation.window(4)), (38, 48));
    assert_eq!((Election::Carousel.window(256), Election::Reputation.window(256)), (128, 128));
}

#[test]
fn a_fixed_leader_leads_always_and_round_robin_takes_turns() {
    let chain = straight(4, 9);
    let committee = committee(4);
    for view in [1, 4, 10, 11, 1_000_003, u64::MAX] {
        let fixed = Election::Fixed(ReplicaId(2));
        assert_eq!(chain.leader(fixed, view, &committee, 3), ReplicaId(2));
        let turn = chain.leader(Election::RoundRobin, view, &committee, 3);
        assert_eq!(turn, ReplicaId((view % 4) as u16));
        assert_eq!(Election::RoundRobin.without_history(View(view), &committee), turn);
    }
}

#[test]
fn a_schedule_names_its_views_and_then_all_take_turns() {
    let (chain, committee) = (straight(4, 9), committee(4));
    let schedule = Schedule::new(&[3, 3, 0, 9]).expect("four views");
    let election = Election::Scheduled(schedule);
    let leaders: Vec<u16> =
        (1..=8).map(|view| chain.leader(election, view, &committee, 3).0).collect();
    assert_eq!(leaders, [3, 3, 0, 9, 1, 2, 3, 0]);
    assert_eq!(schedule.leader(View(0)), None);
    assert_eq!(schedule.leader(View(u64::MAX)), None);
    assert_eq!((election.name(), Election::named("scheduled")), ("scheduled", None));
    assert!(!election.needs_signers());
    let longest = [1; Schedule::VIEWS];
    let last = View(Schedule::VIEWS as u64);
    assert_eq!(Schedule::new(&longest).and_then(|all| all.leader(last)), Some(ReplicaId(1)));
    assert_eq!(Schedule::new(&[1; Schedule::VIEWS + 1]), None);
}

/// A chain without a gap, replicas proposing in turn, all signing.
fn straight(replicas: usize, blocks: u64) -> Chain {
    let mut chain = Chain::new();
    for view in 1..=blocks {
        let proposer = ReplicaId((view % replicas as u64) as u16);
        chain.push(view, proposer, &all_but(replicas, &[]));
    }
    chain
}

#[test]
fn a_history_is_the_committed_blocks_with_those_who_signed_them() {
    let mut chain = Chain::new();
    chain.push(1, ReplicaId(1), &[]);
    chain.push(2, ReplicaId(2), &ids(&[0, 1, 2]));
    chain.push(5, ReplicaId(1), &ids(&[1, 2, 3]));
    chain.push(6, ReplicaId(3), &ids(&[0, 2, 3]));
    let head = chain.head().id();
    for root in 0..=4 {
        let tree = chain.tree(root, 4);
        let seen = |committed, depth, epoch| {
            let history = History { tree: &tree, head: &head, committed: Height(committed) };
            let blocks = history.blocks(depth, Epoch(epoch));
            blocks.map(|it| (it.block.height.0, it.signers().collect())).collect::<Vec<_>>()
        };
        let (third, second) = ((3, ids(&[0, 2, 3])), (2, ids(&[1, 2, 3])));
        let first = (1, ids(&[0, 1, 2]));
        let below = vec![third, second, first];
        assert_eq!(seen(3, 128, EPOCH.0), below, "root {root}");
        assert_eq!(seen(2, 128, EPOCH.0), below[1..]);
        assert_eq!(seen(3, 3, EPOCH.0), below[..2], "three blocks from the head on");
        assert_eq!(seen(0, 128, EPOCH.0), [], "nobody proposed the genesis block");
        assert_eq!(seen(3, 128, EPOCH.0 + 1), [], "another committee's");
        // The head's own certificate is not in the chain.
        assert_eq!(seen(9, 1, EPOCH.0), [(4, Vec::new())]);
    }
}

/// A replica that lost the blocks between, or took in another chain's, sees none behind the gap.
#[test]
fn a_history_ends_where_a_block_is_missing() {
    let chain = straight(4, 8);
    let mut below: Vec<_> = chain.blocks[..6].iter().map(|block| block.header().clone()).collect();
    below.remove(3);
    let mut tree = BlockTree::new(chain.blocks[6].clone(), Height(0), below);
    for block in &chain.blocks[7..] {
        tree.insert(block, |_, _| None).expect("on its parent");
    }
    let head = chain.head().id();
    let history = History { tree: &tree, head: &head, committed: Height(6) };
    let heights: Vec<u64> = history.blocks(128, EPOCH).map(|it| it.block.height.0).collect();
    assert_eq!(heights, [6, 5, 4]);
}

#[test]
fn nothing_that_is_asked_brings_an_election_down() {
    let chain = straight(4, 70);
    let tree = chain.tree(66, 128);
    let unknown = Digest([9; 32]);
    let below_root = chain.blocks[3].id();
    // Even if the signers are of another committee: who leads is a signer or a member.
    for replicas in [1, 2, 3, 4, 7, 256] {
        let committee = committee(replicas);
        for (head, committed) in [
            (chain.head().id(), 68),
            (chain.head().id(), 0),
            (chain.head().id(), u64::MAX),
            (below_root, 2),
            (unknown, 5),
        ] {
            let history = History { tree: &tree, head: &head, committed: Height(committed) };
            for view in [0, 1, 3, 40, 70, 71, 72, 90, 91, 10_000, u64::MAX - 1, u64::MAX] {
                for chain_length in [0, 1, 2, 3, u64::MAX] {
                    for election in ALL {
                        let leader =
                            election.leader(View(view), &committee, chain_length, &history);
                        assert!(leader.index() < replicas.max(4), "{election:?} of {replicas}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_replica_alone_leads_every_view() {
    let committee = committee(1);
    let mut chain = Chain::new();
    for view in 1..=100 {
        for election in ALL {
            for chain_length in 1..=3 {
                let leader = chain.leader(election, view, &committee, chain_length);
                assert_eq!(leader, ReplicaId(0));
            }
        }
        chain.push(view, ReplicaId(0), &ids(&[0]));
    }
}

/// Two replicas hold the same fork. One sees every certificate and commits block by block; the
/// other sees none until the last and commits all at once. They name the same leaders throughout.
#[test]
fn replicas_that_commit_two_blocks_at_once_do_not_diverge() {
    let replicas = 4;
    let committee = committee(replicas);
    let (mut chain, mut view) = (Chain::new(), 0);
    let mut step_by_step = chain.tree(0, 0);
    let mut in_leaps = chain.tree(0, 0);
    for step in 0u64..200 {
        // Every fifth view or so is skipped, and a fork is left behind.
        view += 1 + u64::from(step % 5 == 3);
        let signers = all_but(replicas, &[(step * 7 % 4) as u16]);
        let fork = child(chain.head(), view, ReplicaId(3), &all_but(replicas, &[0]));
        let block = child(chain.head(), view + 1, ReplicaId((step * 5 % 4) as u16), &signers);
        view += 1;
        for tree in [&mut step_by_step, &mut in_leaps] {
            for block in [&fork, &block] {
                tree.insert(block, |_, _| None).expect("on its parent");
            }
        }
        chain.blocks.push(block);
        let committed = chain.committed(2).0 as usize;
        step_by_step.commit(&chain.blocks[committed].id());
        if step % 17 == 16 {
            in_leaps.commit(&chain.blocks[committed].id());
        }
        for election in ALL {
            for ahead in [1, 2, 7] {
                let ask = |tree| chain.leader_at(tree, election, view + ahead, &committee, 2);
                assert_eq!(ask(&step_by_step), ask(&in_leaps), "{election:?}, step {step}");
            }
        }
    }
}

/// A chain with gaps, of proposers and signers as they come.
fn random_chain(replicas: usize) -> impl Strategy<Value = Chain> {
    let step = (
        prop_oneof![6 => Just(1u64), 2 => 2u64..5, 1 => 5u64..40],
        0..replicas as u16,
        prop::sample::subsequence(all_but(replicas, &[]), membership::quorum(replicas)..=replicas),
    );
    prop::collection::vec(step, 1..170).prop_map(|steps| {
        let (mut chain, mut view) = (Chain::new(), 0);
        for (gap, proposer, signers) in steps {
            view += gap;
            chain.push(view, ReplicaId(proposer), &signers);
        }
        chain
    })
}

fn sized_chain() -> impl Strategy<Value = (usize, Chain)> {
    prop::sample::select(vec![1usize, 2, 4, 7, 10, 31])
        .prop_flat_map(|replicas| (Just(replicas), random_chain(replicas)))
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(192)
    })]

    #[test]
    fn the_leader_is_the_same_however_far_the_root_has_come(
        (replicas, chain) in sized_chain(),
        root: prop::sample::Index,
        chain_length in 1usize..=3,
        ahead in prop_oneof![4 => Just(1u64), 1 => 2u64..40],
    ) {
        let committee = committee(replicas);
        let height = chain.blocks.len() - 1;
        let view = chain.head().view.0 + ahead;
        for election in ALL {
            let window = election.window(replicas);
            let ask = |root: usize, recent: usize| {
                let tree = chain.tree(root, recent);
                chain.leader_at(&tree, election, view, &committee, chain_length)
            };
            let leader = ask(0, 0);
            prop_assert!(leader.index() < replicas);
            for root in [root.index(height + 1), height.saturating_sub(1), height] {
                prop_assert_eq!(ask(root, window), leader, "{:?}, root {}", election, root);
                prop_assert_eq!(ask(root, usize::MAX), leader, "{:?}, root {}", election, root);
            }
        }
    }

    /// The proposals of one view that extend one block have one leader, whatever was built upon
    /// that block meanwhile.
    #[test]
    fn what_comes_after_the_head_does_not_count(
        (replicas, chain) in sized_chain(),
        head: prop::sample::Index,
        chain_length in 1usize..=3,
    ) {
        let committee = committee(replicas);
        let then = chain.up_to(head.index(chain.blocks.len()));
        let view = then.head().view.0 + 1;
        let whole = chain.tree(0, 0);
        for election in ALL {
            let at_the_time = then.leader(election, view, &committee, chain_length);
            let now = then.leader_at(&whole, election, view, &committee, chain_length);
            prop_assert_eq!(now, at_the_time);
        }
    }
}
