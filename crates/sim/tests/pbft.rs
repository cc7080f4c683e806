//! PBFT in clusters in which anything may go wrong.

use quorate_sim::campaign::{Campaign, Progress};
use quorate_sim::family::Pbfts;
use quorate_sim::swarm::Plan;

/// More by `quorate sim --protocol pbft`.
#[test]
fn storms_pass() {
    let campaign = Campaign {
        first: 0,
        seeds: 400,
        time: None,
        threads: 2,
        most_violations: 3,
        plan: Plan::default(),
    };
    let report = campaign.run::<Pbfts>(&Progress::default());
    assert_eq!(report.violations, []);
    assert!(report.tally.commits > 400 && report.tally.views > 400, "{:?}", report.tally);
}
