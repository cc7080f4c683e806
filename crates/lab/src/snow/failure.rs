//! How probable it is that two correct nodes decide differently (white paper, figure 3 and appendix
//! A): the exact bound, walks of the same chain, runs of the protocol, and Bitcoin's curve beside
//! it.

use quorate_core::protocols::snow::analysis::{Chain, bitcoin_log10};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint};
use quorate_snow::chain;
use quorate_snow::colours::{self, Kind};
use quorate_snow::setting::{Adversary, Setting, Stake};

use super::chart::chart;
use super::each::each;
use super::{Extent, Found, Request, StudyError, Table, world};
use crate::plot::Picture;

const NODES: u32 = 2000;
/// Above this bound the chain is walked as it is; below it nobody would live to see a failure.
const PLAIN_FROM_LOG10: f64 = -6.0;
/// From here on the bound promises nothing.
const CERTAIN_LOG10: f64 = -0.5;

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let Request { extent, seed, .. } = *request;
    let (curves, picture) = curves(extent, seed)?;
    let (runs, worst) = runs(extent, seed)?;
    let below_one = curves.numbers("bound_log10").into_iter().map(|bound| bound < CERTAIN_LOG10);
    let off = curves.numbers("walked_minus_bound").into_iter().zip(below_one);
    let off = off.filter(|(_, below)| *below).map(|(off, _)| off.abs()).fold(0.0, f64::max);
    Ok(Found {
        says: vec![
            format!(
                "where the bound is below 0.3, weighted walks lie within {off:.3} of its logarithm"
            ),
            format!(
                "rows in which a node decided against the others more often than the bound of the \
                 same chain: {worst}"
            ),
        ],
        tables: vec![("curves", curves), ("runs", runs)],
        pictures: vec![picture],
    })
}

fn curves(extent: Extent, seed: u64) -> Result<(Table, Picture), StudyError> {
    let mut table = Table::new(&[
        "alpha",
        "faulty_percent",
        "bound_log10",
        "walked_log10",
        "walked_relative_error",
        "walked_minus_bound",
        "plain_attempts",
        "plain_failures",
        "bitcoin_six_blocks_log10",
    ]);
    let walks = extent.of(300, 10_000);
    let attempts = extent.of(2_000, 100_000);
    let most_steps = extent.of(1 << 24, 1 << 33);
    let items: Vec<(u32, u32)> =
        [7, 8].iter().flat_map(|alpha| (2..=40).step_by(2).map(|share| (*alpha, share))).collect();
    let points = each(&items, |(quorum, percent)| {
        let numbers = Parameters { quorum: *quorum, ..Parameters::PAPER };
        let chain = Chain::new(NODES, NODES / 100 * percent, numbers);
        let bound = chain.failure();
        let walked = chain::simulate(&chain, &bound, walks, seed ^ u64::from(*percent));
        let plain = (bound.log10 >= PLAIN_FROM_LOG10)
            .then(|| chain::simulate_plainly(&chain, &bound, attempts, most_steps, seed))
            .flatten();
        Ok((bound, walked, plain))
    })?;
    let point = |x: f64, y: f64| LinePoint { x, y, x_range: None, y_range: None };
    let mut lines = Vec::new();
    for quorum in [7, 8] {
        let (mut exact, mut walked_line) = (Vec::new(), Vec::new());
        for ((_, percent), (bound, walked, plain)) in
            items.iter().zip(&points).filter(|((of, _), _)| *of == quorum)
        {
            let share = f64::from(*percent) / 100.0;
            exact.push(point(f64::from(*percent), bound.log10));
            if percent % 4 == 0 {
                walked_line.push(point(f64::from(*percent), walked.log10));
            }
            table.row([
                quorum.to_string(),
                percent.to_string(),
                format!("{:.2}", bound.log10),
                format!("{:.2}", walked.log10),
                format!("{:.3}", walked.error),
                format!("{:.3}", walked.log10 - bound.log10),
                plain.map_or_else(String::new, |_| attempts.to_string()),
                plain.map_or_else(String::new, |failed| failed.to_string()),
                format!("{:.2}", bitcoin_log10(share, 6)),
            ]);
        }
        lines.push(Line { label: format!("bound, alpha = {quorum}"), points: exact });
        lines.push(Line { label: format!("walks, alpha = {quorum}"), points: walked_line });
    }
    let bitcoin = (2..=40)
        .step_by(2)
        .map(|percent| point(f64::from(percent), bitcoin_log10(f64::from(percent) / 100.0, 6)));
    lines.push(Line { label: "Bitcoin, six blocks".to_owned(), points: bitcoin.collect() });
    let title = "Failure probability by the share of faulty nodes (n = 2,000, k = 10, beta = 150)";
    let axes = (
        Axis::from_zero("faulty nodes, %", 40.0, 8),
        Axis::between("log10 of the probability", -160.0, 0.0, 8),
    );
    Ok((table, chart("failure", title, axes, lines)?))
}

/// A network so small, and numbers so weak, that it fails within a thousand runs.
const SMALL: u32 = 60;
const WEAK: Parameters = Parameters { sample: 10, quorum: 7, early: 5, decision: 5 };

/// Simulated time of a run. Liars may keep nodes undecided for as long as they like, which is safe.
const LIMIT_NS: u64 = 10_000_000_000;

/// Runs of the protocol beside the bound of the same chain. The bound is about one node, so it is
/// compared with the share of the nodes that decided against the majority, not with the share of
/// the runs that had such a node. Returns the number of rows above it.
fn runs(extent: Extent, seed: u64) -> Result<(Table, usize), StudyError> {
    let mut table = Table::new(&[
        "protocol",
        "adversary",
        "faulty_percent",
        "runs",
        "unsafe_runs",
        "nodes_apart",
        "apart_log10",
        "bound_log10",
    ]);
    let (count, mut above) = (extent.of(2, 500), 0);
    let mut items = Vec::new();
    for kind in [Kind::Snowflake, Kind::Snowball] {
        for adversary in [Adversary::Balance, Adversary::Split, Adversary::Opposite] {
            items.extend([0, 10, 20, 30].map(|percent| (kind, adversary, percent)));
        }
    }
    let unsafe_runs = each(&items, |(kind, adversary, percent)| {
        let (mut bad, mut apart) = (0_u32, 0);
        for run in 0..count {
            let setting = Setting {
                nodes: SMALL as usize,
                faulty: (SMALL * percent / 100) as usize,
                adversary: *adversary,
                numbers: WEAK,
                stake: Stake::Equal,
                world: world::named("20-cities"),
                seed: seed ^ (run + 1) << 16 ^ u64::from(*percent),
            };
            let report = colours::run(&setting, *kind, 500, LIMIT_NS)?;
            bad += u32::from(report.is_unsafe());
            apart += report.decisions[0].min(report.decisions[1]);
        }
        Ok((bad, apart))
    })?;
    for ((kind, adversary, percent), (bad, apart)) in items.into_iter().zip(unsafe_runs) {
        let bound = Chain::new(SMALL, SMALL * percent / 100, WEAK).failure();
        let correct = SMALL - SMALL * percent / 100;
        let share = apart as f64 / (count as f64 * f64::from(correct));
        above += usize::from(share.log10() > bound.log10);
        table.row([
            format!("{kind:?}").to_lowercase(),
            adversary.name().to_owned(),
            percent.to_string(),
            count.to_string(),
            bad.to_string(),
            apart.to_string(),
            if apart == 0 { String::new() } else { format!("{:.2}", share.log10()) },
            format!("{:.2}", bound.log10),
        ]);
    }
    Ok((table, above))
}
