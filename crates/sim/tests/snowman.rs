//! Snowman in clusters in which anything may go wrong.

use quorate_sim::campaign::{Campaign, Progress};
use quorate_sim::family::Snowmans;
use quorate_sim::swarm::Plan;

/// More by `quorate sim --protocol snowman`.
#[test]
fn storms_pass() {
    let campaign = Campaign {
        first: 0,
        seeds: 200,
        time: None,
        threads: 2,
        most_violations: 3,
        plan: Plan::default(),
    };
    let report = campaign.run::<Snowmans>(&Progress::default());
    assert_eq!(report.violations, []);
    assert!(report.tally.commits > 400, "{:?}", report.tally);
}
