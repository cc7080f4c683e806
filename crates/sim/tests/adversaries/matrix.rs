//! Every adversary × every protocol × both pacemakers, with four replicas of which one lies, and
//! with seven of which two do.

use quorate_adversary::{ALL, Make, named};
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_sim::network::Link;
use quorate_sim::{Cluster, Config};

/// Requests of each client.
const ROUNDS: u64 = 12;
/// In what time each is answered, in microseconds.
const PATIENCE: u64 = 120_000_000;

/// Who lies among four and among seven. Two of seven lead in a row and far apart from each other in
/// turn.
pub const LIARS: [(usize, &[usize]); 3] = [(4, &[1]), (7, &[2, 3]), (7, &[0, 4])];

/// A cluster with these liars, two clients, and links that differ a little.
pub fn cluster(
    rules: &'static dyn Rules,
    pacemaker: Kind,
    (replicas, liars): (usize, &[usize]),
    make: Make,
) -> Cluster {
    let link = Link { delay: (500, 3_000), ..Link::steady(0) };
    let config = Config { replicas, rules, pacemaker, clients: 2, link, ..Config::default() };
    let mut cluster = Cluster::new(config);
    for liar in liars {
        cluster.make_liar(*liar, make(*liar as u64));
    }
    cluster
}

/// The clients ask again and again, and are answered.
pub fn must_answer(cluster: &mut Cluster, rounds: u64, what: &str) {
    for round in 0..rounds {
        for client in 0..cluster.clients.len() {
            cluster.request(client, 1 + round % 3, 20);
        }
        assert!(cluster.run_until_answered(PATIENCE), "{what}: round {round}");
    }
}

/// This adversary in every place.
fn against_everything(name: &str) {
    let make = named(name).expect("it has a name");
    for rules in rules::ALL {
        for pacemaker in [Kind::TimeoutCertificates, Kind::Linear] {
            for place in LIARS {
                let what = format!("{name}, {}, {pacemaker:?}, {place:?}", rules.facts().name);
                let mut cluster = cluster(rules, pacemaker, place, make);
                must_answer(&mut cluster, ROUNDS, &what);
                let asked: u64 = (0..ROUNDS).map(|round| 1 + round % 3).sum();
                for client in &cluster.clients {
                    assert_eq!(client.acknowledged, asked, "{what}");
                }
                let idle = name == "lying-sync";
                for liar in place.1 {
                    let deeds = cluster.deeds(*liar).total();
                    assert!(idle || deeds > 0, "{what}: r{liar} did nothing");
                }
                assert!(cluster.highest_view().0 < 1_000, "{what}: {:?}", cluster.highest_view());
                for core in cluster.correct() {
                    assert!(core.held_blocks() < 80, "{what}: {} blocks", core.held_blocks());
                }
            }
        }
    }
}

macro_rules! against_everything {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            against_everything($name);
        })*

        #[test]
        fn none_is_left_out() {
            let tested = [$($name),*];
            let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, tested);
        }
    };
}

against_everything!(
    silent_leader: "silent-leader",
    slow_leader: "slow-leader",
    forking_leader: "forking-leader",
    equivocating_leader: "equivocating-leader",
    double_voter: "double-voter",
    proposal_withholder: "proposal-withholder",
    certificate_withholder: "certificate-withholder",
    vote_withholder: "vote-withholder",
    stale_certificates: "stale-certificates",
    forged_certificates: "forged-certificates",
    future_views: "future-views",
    time_out_spammer: "time-out-spammer",
    lying_sync: "lying-sync",
    replayer: "replayer",
    small_scope: "small-scope",
    lying_replies: "lying-replies",
);
