//! Avalanche.

use std::time::Instant;

use quorate_core::protocols::snow::avalanche::Counters;
use quorate_core::protocols::snow::parameters::Invalid;
use quorate_snow::payments::{self, Load, Violation};
use quorate_snow::setting::quantile;
use serde_json::json;

use super::{Arguments, CountersName, Outcome, ms};

fn load(arguments: &Arguments) -> Load {
    Load {
        rate: arguments.rate,
        issuers: arguments.issuers as usize,
        double_permille: (arguments.double * 10.0) as u64,
        load_ns: arguments.seconds * 1_000_000_000,
        rest_ns: arguments.rest * 1_000_000_000,
        batch: 40,
        counters: match arguments.counters {
            CountersName::WhitePaper => Counters::WhitePaper,
            CountersName::Glacier => Counters::Glacier,
        },
    }
}

fn in_words(found: &Violation) -> String {
    let Violation { output, node, .. } = found;
    format!("two spends of output {output} were accepted, the second by node {node}")
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, Invalid> {
    let setting = arguments.setting(arguments.seed);
    let began = Instant::now();
    let run = payments::run(&setting, load(arguments))?;
    let seconds = began.elapsed().as_secs_f64();
    let nodes = setting.nodes as f64;
    let simulated = run.simulated_ns as f64 / 1e9;
    let each = |all: f64| all / nodes / simulated;
    let busy = each(run.busy_ns as f64 / 1e9) * 100.0;
    let attacked = match run.attacked_ns {
        None => "no attack".to_owned(),
        Some(None) => "not accepted by all while the run lasted".to_owned(),
        Some(Some(ns)) => format!("accepted by all after {}", ms(ns)),
    };
    let at = |sorted: &[u64]| [0.5, 0.9, 0.99].map(|share| quantile(sorted, share));
    let (first, last) = (at(&run.first_ns), at(&run.last_ns));
    let rows = vec![
        ("nodes, correct", format!("{}, {}", setting.nodes, setting.correct())),
        ("payments submitted", run.submitted.to_string()),
        (
            "without a rival: accepted by all, of all",
            format!("{}, {}", run.honest_by_all, run.honest),
        ),
        (
            "outputs spent twice: one accepted by all, of all",
            format!("{}, {}", run.contested_accepted, run.contested),
        ),
        ("outputs with two accepted spends", u8::from(run.violation.is_some()).to_string()),
        ("payments a second accepted by all", format!("{:.0}", run.rate)),
        ("first acceptance: 50, 90, 99 %", first.map(ms).join(", ")),
        ("last acceptance: 50, 90, 99 %", last.map(ms).join(", ")),
        ("payment under the liveness attack", attacked),
        ("no-ops", run.no_ops.to_string()),
        ("polls won, lost", format!("{}, {}", run.polls.0, run.polls.1)),
        ("messages a node and second", format!("{:.0}", each(run.messages as f64))),
        ("KB sent a node and second", format!("{:.0}", each(run.bytes as f64) / 1e3)),
        ("processor of a node", format!("{busy:.0} %")),
        (
            "messages a second of this machine",
            format!("{:.2} M", run.messages as f64 / seconds / 1e6),
        ),
    ];
    let json = json!({
        "protocol": "avalanche",
        "nodes": setting.nodes,
        "correct": setting.correct(),
        "adversary": arguments.adversary,
        "network": arguments.network,
        "seed": arguments.seed,
        "submitted": run.submitted,
        "honest": run.honest,
        "honest_accepted_by_all": run.honest_by_all,
        "contested": run.contested,
        "contested_accepted_by_all": run.contested_accepted,
        "double_accepted": run.violation.is_some(),
        "payments_per_second": run.rate,
        "first_acceptance_ms": first.map(|ns| ns as f64 / 1e6),
        "last_acceptance_ms": last.map(|ns| ns as f64 / 1e6),
        "attacked_ms": run.attacked_ns.flatten().map(|ns| ns as f64 / 1e6),
        "no_ops": run.no_ops,
        "polls_won": run.polls.0,
        "polls_lost": run.polls.1,
        "messages": run.messages,
        "bytes": run.bytes,
        "busy_share": busy / 100.0,
        "simulated_seconds": simulated,
        "seconds": seconds,
    });
    Ok(Outcome { rows, json, violation: run.violation.as_ref().map(in_words) })
}
