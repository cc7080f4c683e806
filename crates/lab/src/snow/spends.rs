//! Double spends: attempts inside the share of faulty nodes that the parameters were chosen for,
//! and the share at which they succeed. Each attempt is two payments of one output at two correct
//! nodes within 80 ms; faulty nodes tell everybody that its own side is right.

use quorate_core::protocols::snow::analysis::Chain;
use quorate_core::protocols::snow::avalanche::Counters;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint, Lines};
use quorate_snow::colours::{self, Kind};
use quorate_snow::payments::{self, Load, Report};
use quorate_snow::setting::{Adversary, Setting, Stake};

use super::each::each;
use super::{Found, Request, StudyError, Table, world};
use crate::plot::Picture;

const NODES: usize = 25;
/// A fifth.
const INSIDE: usize = 5;
/// Nodes of the frontier.
const WIDE: usize = 100;
/// Attempts of one run. How many are under way at once follows from their rate.
const ATTEMPTS: u64 = 50;
const RATE: u64 = 10;
/// Runs begun together, on however many cores: which seeds run does not depend on the machine.
const AT_ONCE: u64 = 256;

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let (inside, mut says) = inside(request)?;
    let (frontier, picture, broken_from) = frontier(request)?;
    says.push(match broken_from {
        None => "nothing was broken at any share".to_owned(),
        Some(percent) => format!("two spends of one output were first accepted at {percent} %"),
    });
    let tables = vec![("inside", inside), ("frontier", frontier)];
    Ok(Found { tables, pictures: vec![picture], says })
}

fn attempt(
    adversary: Adversary,
    faulty: usize,
    (payments, double_permille): (u64, u64),
    seed: u64,
) -> Result<Report, StudyError> {
    let setting = Setting {
        nodes: NODES,
        faulty,
        adversary,
        numbers: Parameters::PAPER,
        stake: Stake::Equal,
        world: world::named("20-cities"),
        seed,
    };
    let load = Load {
        rate: RATE,
        issuers: 5,
        double_permille,
        load_ns: payments * 1_000_000_000 / RATE,
        rest_ns: 60_000_000_000,
        batch: 40,
        counters: Counters::Glacier,
    };
    Ok(payments::run(&setting, load)?)
}

fn inside(request: &Request) -> Result<(Table, Vec<String>), StudyError> {
    let mut table = Table::new(&[
        "adversary",
        "faulty_percent",
        "attempts",
        "both_accepted",
        "one_accepted_by_all",
        "honest_payments",
        "honest_accepted_by_all",
        "bound_log10",
    ]);
    let wanted = request.attempts.unwrap_or(request.extent.of(2_000, 1_000_000));
    // Of fifty attempts one meets nodes that say the opposite: these let a conflict hang for long.
    let adversaries = [(Adversary::Split, 49), (Adversary::Opposite, 1)];
    let mut says = Vec::new();
    for (adversary, fiftieths) in adversaries {
        let wanted = (wanted * fiftieths).div_ceil(50);
        let mut sums = [0_u64; 5];
        let mut seed = request.seed;
        while sums[0] < wanted {
            let runs = (wanted - sums[0]).div_ceil(ATTEMPTS).min(AT_ONCE);
            let seeds: Vec<u64> = (seed..seed + runs).collect();
            seed += runs;
            // One output of ten is spent once.
            let load = ((10 * ATTEMPTS.min(wanted)).div_ceil(9), 900);
            for report in each(&seeds, |seed| attempt(adversary, INSIDE, load, *seed))? {
                let found = [
                    report.contested,
                    u64::from(report.violation.is_some()),
                    report.contested_accepted,
                    report.honest,
                    report.honest_by_all,
                ];
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
        }
        let bound = Chain::new(NODES as u32, INSIDE as u32, Parameters::PAPER).failure();
        let [attempts, both, one, honest, honest_by_all] = sums;
        table.row([
            adversary.name().to_owned(),
            (100 * INSIDE / NODES).to_string(),
            attempts.to_string(),
            both.to_string(),
            one.to_string(),
            honest.to_string(),
            honest_by_all.to_string(),
            format!("{:.1}", bound.log10),
        ]);
        says.push(format!(
            "{}: {attempts} attempts with a fifth faulty, {both} accepted twice; {honest_by_all} of \
             {honest} payments without a rival accepted by all",
            adversary.name()
        ));
    }
    Ok((table, says))
}

/// One decision between two spends, by Snowball, at growing shares: half of the correct nodes heard
/// of each first.
fn frontier(request: &Request) -> Result<(Table, Picture, Option<usize>), StudyError> {
    let mut table = Table::new(&[
        "faulty_percent",
        "runs",
        "runs_with_two_accepted",
        "undecided",
        "bound_log10",
    ]);
    let runs = request.extent.of(3, 50);
    let shares: Vec<usize> = (0..=90).step_by(request.extent.of(30, 5)).collect();
    let items: Vec<_> =
        shares.iter().flat_map(|share| (0..runs).map(|run| (*share, run))).collect();
    let reports = each(&items, |(percent, run)| {
        let setting = Setting {
            nodes: WIDE,
            faulty: percent * WIDE / 100,
            adversary: Adversary::Split,
            numbers: Parameters::PAPER,
            stake: Stake::Equal,
            world: world::named("20-cities"),
            seed: request.seed + run,
        };
        Ok(colours::run(&setting, Kind::Snowball, 500, 120_000_000_000)?)
    })?;
    let (mut succeed, mut hang, mut first) = (Vec::new(), Vec::new(), None);
    for (percent, reports) in shares.into_iter().zip(reports.chunks(runs as usize)) {
        let broken = reports.iter().filter(|report| report.is_unsafe()).count();
        let undecided = reports.iter().filter(|report| report.decided < report.correct).count();
        let faulty = (percent * WIDE / 100) as u32;
        let bound = Chain::new(WIDE as u32, faulty, Parameters::PAPER).failure();
        if broken > 0 && first.is_none() {
            first = Some(percent);
        }
        let point = |count: usize| {
            let (x, y) = (percent as f64, 100.0 * count as f64 / runs as f64);
            LinePoint { x, y, x_range: None, y_range: None }
        };
        succeed.push(point(broken));
        hang.push(point(undecided));
        table.row([
            percent.to_string(),
            runs.to_string(),
            broken.to_string(),
            undecided.to_string(),
            format!("{:.1}", bound.log10),
        ]);
    }
    let title = "Double spends, n = 100, k = 10, alpha = 8, beta = 150 (Snowball)";
    let line = |label: &str, points| Line { label: label.to_owned(), points };
    let svg = Lines {
        title: title.to_owned(),
        x: Axis::from_zero("faulty nodes, %", 90.0, 9),
        y: Axis::from_zero("runs, %", 100.0, 5),
        lines: vec![
            line("both spends accepted", succeed),
            line("not all decided after two minutes", hang),
        ],
        shaded: vec![(0.0, 20.0)],
        shade: "promised".to_owned(),
        marked: Vec::new(),
        mark: String::new(),
        dotted: true,
    }
    .draw()?;
    Ok((table, Picture { name: "frontier".to_owned(), title: title.to_owned(), svg }, first))
}
