//! What a campaign came to, for people and programs.

use std::time::Duration;

use quorate_sim::campaign::{Campaign, Report, Violation};
use quorate_sim::swarm::{Tally, simulated};
use serde_json::{Value, json};

/// One line of what goes on.
pub(super) fn live(report: &Report, elapsed: Duration) -> String {
    let Tally { seeds, simulated: time, events, views, commits, faults, .. } = &report.tally;
    let fired: u64 = faults.iter().map(|(_, count)| count).sum();
    format!(
        "{:>5.0} s  {seeds} seeds  {} simulated ({:.0} x)  {:.2} M events/s  {fired} faults of {} kinds  \
         {views} views  {commits} commits  {} violations",
        elapsed.as_secs_f64(),
        simulated(*time),
        *time as f64 / 1e9 / elapsed.as_secs_f64(),
        *events as f64 / 1e6 / elapsed.as_secs_f64(),
        faults.iter().count(),
        report.violations.len()
    )
}

fn rows(campaign: &Campaign, report: &Report, elapsed: Duration) -> Vec<(&'static str, String)> {
    let Tally { seeds, simulated: time, events, commits, views, acknowledged, .. } = &report.tally;
    let seconds = elapsed.as_secs_f64();
    vec![
        ("seeds", format!("{seeds}, from {} on", campaign.first)),
        ("time", format!("{seconds:.0} s on {} threads", campaign.threads)),
        ("simulated time", simulated(*time)),
        ("simulated seconds a second", format!("{:.0}", *time as f64 / 1e9 / seconds)),
        ("events", events.to_string()),
        ("events a second", format!("{:.0}", *events as f64 / seconds)),
        ("views", views.to_string()),
        ("blocks committed", commits.to_string()),
        ("commands acknowledged", acknowledged.to_string()),
        ("trace of all", format!("{:016x}", report.trace)),
    ]
}

pub(super) fn for_people(campaign: &Campaign, report: &Report, elapsed: Duration) -> String {
    let mut text = String::new();
    for (name, value) in rows(campaign, report, elapsed) {
        text.push_str(&format!("{name:<28}{value}\n"));
    }
    text.push_str("faults that happened\n");
    for (kind, count) in report.tally.faults.iter() {
        text.push_str(&format!("  {kind:<34}{count:>12}\n"));
    }
    for Violation { seed, oracle, what, events } in &report.violations {
        text.push_str(&format!("seed {seed}: {oracle}: {what} (after {events} events)\n"));
    }
    // Last, where it is seen behind all the counts.
    text + &verdict(report)
}

fn verdict(report: &Report) -> String {
    format!("{} violations in {} seeds\n", report.violations.len(), report.tally.seeds)
}

pub(super) fn markdown(campaign: &Campaign, report: &Report, elapsed: Duration) -> String {
    let mut text = "| | |\n|---|--:|\n".to_owned();
    for (name, value) in rows(campaign, report, elapsed) {
        text.push_str(&format!("| {name} | {value} |\n"));
    }
    text.push_str("\n| fault | times |\n|---|--:|\n");
    for (kind, count) in report.tally.faults.iter() {
        text.push_str(&format!("| {kind} | {count} |\n"));
    }
    text.push_str(&format!("\n{}", verdict(report)));
    if !report.violations.is_empty() {
        text.push_str("\n| seed | oracle | what | events |\n|--:|---|---|--:|\n");
        for Violation { seed, oracle, what, events } in &report.violations {
            text.push_str(&format!(
                "| {seed} | {oracle} | {} | {events} |\n",
                what.replace('|', "/")
            ));
        }
    }
    text
}

pub(super) fn json(campaign: &Campaign, report: &Report, elapsed: Duration) -> Value {
    let Tally { seeds, simulated: time, events, commits, views, acknowledged, faults, .. } =
        &report.tally;
    let seconds = elapsed.as_secs_f64();
    let violations: Vec<Value> = report
        .violations
        .iter()
        .map(|Violation { seed, oracle, what, events }| {
            json!({ "seed": seed, "oracle": oracle, "what": what, "events": events })
        })
        .collect();
    json!({
        "first_seed": campaign.first,
        "next_seed": report.next,
        "seeds": seeds,
        "seconds": seconds,
        "threads": campaign.threads,
        "simulated_seconds": *time as f64 / 1e9,
        "events": events,
        "events_per_second": *events as f64 / seconds,
        "views": views,
        "commits": commits,
        "acknowledged": acknowledged,
        "faults": faults.iter().collect::<std::collections::BTreeMap<_, _>>(),
        "violations": violations,
        "trace": format!("{:016x}", report.trace),
    })
}
