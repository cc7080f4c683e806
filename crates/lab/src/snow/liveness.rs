//! The liveness attack on the white paper's counters (Amores-Sesar, Cachin, Tedeschi, OPODIS 2022,
//! section 4) and its cure: one payment is attacked, by one faulty node, among hundreds under way.

use quorate_core::protocols::snow::avalanche::Counters;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Bar, Bars};
use quorate_snow::payments::{self, Load};
use quorate_snow::setting::{Adversary, Setting, Stake, quantile};

use super::each::each;
use super::{Found, Request, StudyError, Table, world};
use crate::plot::Picture;

const RATE: u64 = 250;

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let Request { extent, seed, .. } = *request;
    let mut table = Table::new(&[
        "counters",
        "attack",
        "seed",
        "attacked_ms",
        "watched_ms",
        "payments_p50_ms",
        "payments_p99_ms",
        "payments_accepted_by_all",
        "payments",
    ]);
    let (nodes, seconds, rest) = extent.of((50, 4, 2), (125, 8, 8));
    let mut bars = Vec::new();
    let mut says = Vec::new();
    let mut items = Vec::new();
    for counters in [Counters::WhitePaper, Counters::Glacier] {
        items.push((counters, false, seed));
        items.extend((0..extent.of(1, 3)).map(|run| (counters, true, seed + run)));
    }
    let reports = each(&items, |(counters, attacked, seed)| {
        Ok(payments::run(&setting(nodes, *attacked, *seed), load(*counters, seconds, rest))?)
    })?;
    for (name, counters) in [("white-paper", Counters::WhitePaper), ("glacier", Counters::Glacier)]
    {
        for attacked in [false, true] {
            let (mut longest, mut held, mut runs) = (0.0_f64, 0, 0);
            let this = |item: &(Counters, bool, u64)| item.0 == counters && item.1 == attacked;
            for ((_, _, seed), report) in items.iter().zip(&reports).filter(|at| this(at.0)) {
                runs += 1;
                // The attack begins two seconds after the load.
                let watched = (seconds + rest - 2) as f64 * 1e3;
                let target = report.attacked_ns.map(|of| of.map(|ns| ns as f64 / 1e6));
                held += usize::from(target == Some(None));
                let median = quantile(&report.last_ns, 0.5) as f64 / 1e6;
                longest = longest.max(target.map_or(median, |of| of.unwrap_or(watched)));
                table.row([
                    name.to_owned(),
                    attacked.to_string(),
                    seed.to_string(),
                    told(target),
                    format!("{watched:.0}"),
                    format!("{median:.0}"),
                    format!("{:.0}", quantile(&report.last_ns, 0.99) as f64 / 1e6),
                    report.honest_by_all.to_string(),
                    report.honest.to_string(),
                ]);
            }
            let which = if attacked { "the attacked payment" } else { "in peace, the median one" };
            bars.push(Bar {
                label: format!("{name}: {which}"),
                parts: vec![(0, longest / 1e3)],
                range: None,
            });
            if attacked {
                says.push(format!(
                    "{name}: in {held} of {runs} runs the attacked payment was not accepted while \
                     the run lasted; the slowest took {:.1} s",
                    longest / 1e3
                ));
            }
        }
    }
    let title = format!("Until all of {nodes} nodes accepted a payment: the slowest of the runs");
    let svg = Bars { title: title.clone(), label: "seconds".to_owned(), bars, colours: Vec::new() }
        .draw()?;
    let picture = Picture { name: "liveness".to_owned(), title, svg };
    Ok(Found { tables: vec![("runs", table)], pictures: vec![picture], says })
}

fn setting(nodes: usize, attacked: bool, seed: u64) -> Setting {
    Setting {
        nodes,
        faulty: 1,
        adversary: if attacked { Adversary::Liveness } else { Adversary::Withhold },
        numbers: Parameters::PAPER,
        stake: Stake::Equal,
        world: world::named("20-cities"),
        seed,
    }
}

fn load(counters: Counters, seconds: u64, rest: u64) -> Load {
    Load {
        rate: RATE,
        issuers: 20,
        double_permille: 0,
        load_ns: seconds * 1_000_000_000,
        rest_ns: rest * 1_000_000_000,
        batch: 40,
        counters,
    }
}

/// When the attacked payment was accepted by all, milliseconds.
fn told(target: Option<Option<f64>>) -> String {
    match target {
        None => "no-attack".to_owned(),
        Some(None) => "never".to_owned(),
        Some(Some(ms)) => format!("{ms:.0}"),
    }
}
