//! Slush, Snowflake and Snowball.

use std::time::Instant;

use quorate_core::protocols::snow::parameters::Invalid;
use quorate_snow::colours::{self, Kind};
use serde_json::json;

use super::{Arguments, Outcome, ms};

pub(super) fn run(arguments: &Arguments, kind: Kind) -> Result<Outcome, Invalid> {
    let (began, mut runs) = (Instant::now(), Vec::new());
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.runs) {
        let setting = arguments.setting(seed);
        let first = (arguments.first * 10.0) as u64;
        let limit = arguments.seconds * 1_000_000_000;
        runs.push((seed, colours::run(&setting, kind, first, limit)?));
    }
    let seconds = began.elapsed().as_secs_f64();
    let count = runs.len() as f64;
    let sum =
        |of: &dyn Fn(&colours::Report) -> f64| runs.iter().map(|(_, run)| of(run)).sum::<f64>();
    let messages = sum(&|run| run.messages as f64);
    let apart: Vec<u64> =
        runs.iter().filter(|(_, run)| run.is_unsafe()).map(|(seed, _)| *seed).collect();
    let unfinished = runs.iter().filter(|(_, run)| run.decided < run.correct).count();
    let correct = runs.first().map_or(0, |(_, run)| run.correct);
    let eclipsed = runs.iter().filter(|(_, run)| run.eclipsed_apart).count();
    let times = [0, 1, 2].map(|at| (sum(&|run| run.times_ns[at] as f64) / count) as u64);
    let (polls, decided) = (sum(&|run| run.polls) / count, sum(&|run| run.decided as f64) / count);
    let rows = vec![
        ("nodes, correct", format!("{}, {correct}", arguments.nodes)),
        ("runs", runs.len().to_string()),
        ("runs in which two nodes decide differently", apart.len().to_string()),
        ("runs in which somebody does not decide", unfinished.to_string()),
        ("runs in which an eclipsed node is wrong", eclipsed.to_string()),
        ("correct nodes that decide, mean", format!("{decided:.1}")),
        ("polls of a node", format!("{polls:.1}")),
        ("decided: median, 99th percentile, last", times.map(ms).join(", ")),
        ("messages", format!("{messages:.0}")),
        ("messages a second of this machine", format!("{:.2} M", messages / seconds / 1e6)),
    ];
    let json = json!({
        "protocol": format!("{kind:?}").to_lowercase(),
        "nodes": arguments.nodes,
        "correct": correct,
        "adversary": arguments.adversary,
        "first_seed": arguments.seed,
        "runs": runs.len(),
        "unsafe_runs": apart.len(),
        "unsafe_seeds": apart.iter().take(100).collect::<Vec<_>>(),
        "unfinished_runs": unfinished,
        "eclipsed_runs": eclipsed,
        "decided": decided,
        "polls": polls,
        "decided_ms": times.map(|ns| ns as f64 / 1e6),
        "messages": messages,
        "seconds": seconds,
    });
    let violation = apart.first().map(|seed| {
        format!(
            "two correct nodes decided differently in {} runs, first with seed {seed}",
            apart.len()
        )
    });
    Ok(Outcome { rows, json, violation })
}
