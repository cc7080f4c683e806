//! Reputation: the weights, the draw, who is blamed for a skipped view, and what comes of it over
//! thousands of views.

use quorate_core::protocols::hotstuff::leader::reputation::{PATIENCE, excluded, weights};
use quorate_core::protocols::hotstuff::leader::{Election, History};
use quorate_core::{Committee, Digest, ReplicaId, View};

use crate::chain::{Chain, all_but, committee, committee_of};
use crate::sim::{Led, Sim};

const ACTIVE: u64 = 1000;
const INACTIVE: u64 = 10;
const FAILED: u64 = 1;

fn weights_of(chain: &Chain, view: u64, committee: &Committee) -> Vec<u64> {
    let tree = chain.tree(0, 0);
    let head = chain.head().id();
    let history = History { tree: &tree, head: &head, committed: chain.committed(3) };
    weights(View(view), committee, &history)
}

/// Whom a skipped view is put to: who leads it where all weigh the same.
fn first_choice(view: u64, committee: &Committee) -> ReplicaId {
    Chain::new().leader(Election::Reputation, view, committee, 3)
}

/// A chain of `blocks` blocks in the views that `skips` leaves; `proposes` and `signs` say who
/// proposed and who signed the block of a height.
fn chain(
    blocks: u64,
    skips: impl Fn(u64) -> bool,
    proposes: impl Fn(u64) -> u16,
    signs: impl Fn(u64) -> Vec<ReplicaId>,
) -> Chain {
    let (mut chain, mut view) = (Chain::new(), 0);
    for height in 1..=blocks {
        view += 1;
        while skips(view) {
            view += 1;
        }
        chain.push(view, ReplicaId(proposes(height)), &signs(height - 1));
    }
    chain
}

fn nothing(_: u64) -> bool {
    false
}

#[test]
fn all_weigh_the_same_while_there_is_no_history() {
    for blocks in 0..8 {
        let chain = chain(blocks, nothing, |_| 1, |_| all_but(4, &[3]));
        assert_eq!(weights_of(&chain, blocks + 1, &committee(4)), [INACTIVE; 4]);
    }
}

#[test]
fn who_proposed_or_signed_in_the_window_is_active() {
    let committee = committee(4);
    // Views 1 … 48 have a block each. For view 49 those of 1 … 40 count, for votes 37 … 40.
    let with = |proposal: u64, vote: u64| {
        let proposes = move |height| if height == proposal { 3 } else { (height % 3) as u16 };
        let signs = move |height| if height == vote { all_but(4, &[0]) } else { all_but(4, &[3]) };
        weights_of(&chain(48, nothing, proposes, signs), 49, &committee)[3]
    };
    assert_eq!(with(0, 0), INACTIVE);
    for (proposal, weight) in [(1, ACTIVE), (40, ACTIVE), (41, INACTIVE), (48, INACTIVE)] {
        assert_eq!(with(proposal, 0), weight, "proposed {proposal}");
    }
    for (vote, weight) in [(36, INACTIVE), (37, ACTIVE), (40, ACTIVE), (41, INACTIVE)] {
        assert_eq!(with(0, vote), weight, "signed {vote}");
    }
    // One block later the first has left the window.
    let proposes = |height| if height == 1 { 3 } else { (height % 3) as u16 };
    let later = chain(49, nothing, proposes, |_| all_but(4, &[3]));
    assert_eq!(weights_of(&later, 50, &committee), [ACTIVE, ACTIVE, ACTIVE, INACTIVE]);
}

#[test]
fn the_window_never_holds_more_blocks_than_the_bound() {
    // n = 31 would have 310 blocks; 128 are looked back on, 20 of them excluded.
    let committee = committee(31);
    let with = |proposal: u64| {
        let proposes = move |height| if height == proposal { 30 } else { (height % 7) as u16 };
        weights_of(&chain(400, nothing, proposes, |_| all_but(31, &[30])), 401, &committee)[30]
    };
    assert_eq!(with(400 - 128), INACTIVE);
    assert_eq!(with(400 - 127), ACTIVE);
    assert_eq!(with(400 - excluded(31)), ACTIVE);
    assert_eq!(with(400 - excluded(31) + 1), INACTIVE);
}

#[test]
fn more_failures_than_one_in_ten_cost_the_standing() {
    let committee = committee(4);
    let blamed = |view: &u64| first_choice(*view, &committee) == ReplicaId(2);
    let views: Vec<u64> = (3..38).filter(blamed).take(2).collect();
    // Replica 2 proposes the first so many blocks, and is the first choice of the views skipped.
    let with = |skipped: usize, proposals: u64| {
        let proposes = move |height: u64| if height <= proposals { 2 } else { 1 };
        let skips = |view| views[..skipped].contains(&view);
        let chain = chain(48 - skipped as u64, skips, proposes, |_| all_but(4, &[0]));
        assert_eq!(chain.head().view, View(48));
        weights_of(&chain, 49, &committee)
    };
    assert_eq!(with(0, 9), [INACTIVE, ACTIVE, ACTIVE, ACTIVE]);
    assert_eq!(with(1, 9), [INACTIVE, ACTIVE, ACTIVE, ACTIVE], "one in ten");
    assert_eq!(with(1, 8), [INACTIVE, ACTIVE, FAILED, ACTIVE], "one in nine");
    assert_eq!(with(2, 18), [INACTIVE, ACTIVE, ACTIVE, ACTIVE]);
    assert_eq!(with(2, 17), [INACTIVE, ACTIVE, FAILED, ACTIVE]);
}

#[test]
fn of_a_gap_the_newest_view_alone_is_blamed() {
    let committee = committee(16);
    // A gap of views of different first choices.
    let choices = |from: u64| [0, 1, 2].map(|ahead| first_choice(from + ahead, &committee).index());
    let from = (3..100)
        .find(|from| {
            let [oldest, middle, newest] = choices(*from);
            oldest != newest && middle != newest && ![oldest, middle, newest].contains(&0)
        })
        .expect("some view");
    let skips = |view| (from..from + 3).contains(&view);
    let chain = chain(107, skips, |_| 0, |_| all_but(16, &[]));
    let weights = weights_of(&chain, chain.head().view.0 + 1, &committee);
    assert_eq!(choices(from).map(|id| weights[id]), [ACTIVE, ACTIVE, FAILED]);
}

#[test]
fn all_weigh_the_same_when_no_block_was_committed_for_long() {
    let committee = committee(4);
    let chain = chain(60, nothing, |height| (height % 3) as u16, |_| all_but(4, &[3]));
    // The three-chain rule committed block 58.
    let table = [ACTIVE, ACTIVE, ACTIVE, INACTIVE];
    assert_eq!(weights_of(&chain, 58 + PATIENCE, &committee), table);
    assert_eq!(weights_of(&chain, 58 + PATIENCE + 1, &committee), [INACTIVE; 4]);
    for view in 58 + PATIENCE + 1..10_000 {
        let leader = chain.leader(Election::Reputation, view, &committee, 3);
        assert_eq!(leader, first_choice(view, &committee));
    }
}

/// How often each replica led, against the sum of its chances: no further apart than five standard
/// deviations, those of independent draws with these chances.
#[derive(Default)]
struct Tally {
    led: Vec<f64>,
    expected: Vec<f64>,
    variance: Vec<f64>,
}

impl Tally {
    fn add(&mut self, weights: &[u64], leader: ReplicaId) {
        let total: u64 = weights.iter().sum();
        for sums in [&mut self.led, &mut self.expected, &mut self.variance] {
            sums.resize(weights.len(), 0.0);
        }
        self.led[leader.index()] += 1.0;
        for (i, weight) in weights.iter().enumerate() {
            let chance = *weight as f64 / total as f64;
            self.expected[i] += chance;
            self.variance[i] += chance * (1.0 - chance);
        }
    }

    fn check(&self) {
        for (i, led) in self.led.iter().enumerate() {
            let (expected, deviation) = (self.expected[i], self.variance[i].sqrt());
            let off = (led - expected).abs();
            assert!(off <= 5.0 * deviation + 1.0, "replica {i} led {led} of {expected}");
        }
    }
}

/// The same history under 10,000 names of the chain, each with draws of its own.
#[test]
fn the_leader_is_drawn_by_weight() {
    for replicas in [4, 7, 16] {
        // The last replica neither proposes nor votes, and every eleventh view is skipped.
        let absent = replicas as u16 - 1;
        let proposes = |height| (height % u64::from(absent)) as u16;
        let skips = |view| view % 11 == 0;
        let chain = chain(150, skips, proposes, |_| all_but(replicas, &[absent]));
        let (tree, head) = (chain.tree(0, 0), chain.head().id());
        let history = History { tree: &tree, head: &head, committed: chain.committed(3) };
        let view = chain.head().view.next();
        let (mut tally, mut seen) = (Tally::default(), [0; 3]);
        for name in 0..10_000u64 {
            let committee = committee_of(Digest::of("name", &name.to_le_bytes()), replicas);
            let weights = weights(view, &committee, &history);
            for (count, weight) in seen.iter_mut().zip([ACTIVE, INACTIVE, FAILED]) {
                *count += weights.iter().filter(|it| **it == weight).count();
            }
            let leader = Election::Reputation.leader(view, &committee, 3, &history);
            tally.add(&weights, leader);
        }
        tally.check();
        assert!(seen.iter().all(|count| *count > 100), "all weights occur: {seen:?}");
    }
}

/// Runs `views` views; `up` says who proposes and who signs. What came of each, with the weights
/// its leader was drawn by.
fn run(
    sim: &mut Sim,
    views: u64,
    signers: &[ReplicaId],
    proposes: impl Fn(View, ReplicaId) -> bool,
) -> Vec<(Led, Vec<u64>)> {
    (0..views)
        .map(|_| {
            let (view, history) = sim.history();
            let weights = weights(view, &sim.committee, &history);
            (sim.step(signers, &proposes), weights)
        })
        .collect()
}

fn led_by(views: &[(Led, Vec<u64>)], replica: u16) -> usize {
    views.iter().filter(|(led, _)| led.leader == ReplicaId(replica)).count()
}

#[test]
fn a_dead_replica_leads_seldom_and_nobody_is_blamed_for_it() {
    for (chain_length, is_linear) in [(1, false), (2, false), (3, false), (2, true), (3, true)] {
        let mut sim = Sim::new(4, Election::Reputation, chain_length);
        sim.is_linear = is_linear;
        let everyone = run(&mut sim, 1_000, &all_but(4, &[]), |_, _| true);
        let last = &everyone.last().expect("a thousand").1;
        assert_eq!(*last, [ACTIVE; 4]);
        let views = run(&mut sim, 10_000, &all_but(4, &[2]), |_, leader| leader != ReplicaId(2));
        let mut tally = Tally::default();
        for (led, weights) in &views {
            tally.add(weights, led.leader);
            let blamed = [0, 1, 3].into_iter().find(|id| weights[*id] == FAILED);
            assert_eq!(blamed, None, "in {:?}", led.view);
        }
        tally.check();
        let (early, late) = views.split_at(100);
        assert!(led_by(early, 2) < 20, "it led {} views", led_by(early, 2));
        assert!(led_by(late, 2) < 60, "it led {} views", led_by(late, 2));
        assert!(led_by(late, 0) > 2_500, "the others share what it would have led");
    }
}

#[test]
fn a_replica_that_is_back_is_in_full_standing_soon() {
    let mut sim = Sim::new(4, Election::Reputation, 3);
    run(&mut sim, 300, &all_but(4, &[]), |_, _| true);
    run(&mut sim, 300, &all_but(4, &[1]), |_, leader| leader != ReplicaId(1));
    let back = run(&mut sim, 1_000, &all_but(4, &[]), |_, _| true);
    assert!(back[100..].iter().all(|(_, weights)| *weights == [ACTIVE; 4]));
    assert!(led_by(&back[100..], 1) > 150);
}

#[test]
fn one_that_votes_and_never_proposes_leads_less() {
    let mut sim = Sim::new(4, Election::Reputation, 3);
    let views = run(&mut sim, 10_000, &all_but(4, &[]), |_, leader| leader != ReplicaId(0));
    let led = led_by(&views, 0);
    assert!(led < 1_000, "two fifths of its share at most, not {led}");
    for (led, weights) in &views {
        assert!(weights[1..].iter().all(|weight| *weight != FAILED), "in {:?}", led.view);
    }
}

#[test]
fn with_f_dead_the_others_lead_nearly_all_views() {
    let dead = [1, 5, 6, 10, 12];
    let mut sim = Sim::new(16, Election::Reputation, 2);
    run(&mut sim, 500, &all_but(16, &[]), |_, _| true);
    let views = run(&mut sim, 5_000, &all_but(16, &dead), |_, leader| !dead.contains(&leader.0));
    let lost: usize = dead.iter().map(|id| led_by(&views[200..], *id)).sum();
    assert!(lost < 240, "{lost} of 4800 views were led by the dead");
}

/// A history of which the weights stay the worst they can be: all but one failed and weigh 1.
/// Replica 3 then dies, which weighs 1000.
fn gone_wrong(chain_length: u64) -> Sim {
    let mut sim = Sim::new(4, Election::Reputation, chain_length);
    let outage = |view: View| Digest::of("outage", &view.0.to_le_bytes()).0[0] > 90;
    for _ in 0..20_000 {
        sim.step(&all_but(4, &[]), |view, leader| leader == ReplicaId(3) || !outage(view));
        let (view, history) = sim.history();
        // For as long as it counts who did what.
        if (0..16).all(|ahead| {
            weights(view.plus(ahead), &sim.committee, &history) == [FAILED, FAILED, FAILED, ACTIVE]
        }) {
            return sim;
        }
    }
    panic!("no such history");
}

#[test]
fn an_election_gone_wrong_mends_itself() {
    for chain_length in 1..=3 {
        let mut sim = gone_wrong(chain_length);
        let after = run(&mut sim, 1_000, &all_but(4, &[3]), |_, leader| leader != ReplicaId(3));
        assert!(led_by(&after[..16], 3) >= 15, "it leads as long as its weight counts");
        let mut last_commit = 0;
        for (i, (led, _)) in after.iter().enumerate() {
            if led.commits {
                last_commit = i;
            }
            assert!(i - last_commit < 60, "no commit for 60 views before {:?}", led.view);
        }
        let (_, weights) = after.last().expect("a thousand");
        assert_eq!(weights[..3], [ACTIVE; 3]);
        assert!(led_by(&after[500..], 3) < 10);
    }
}
