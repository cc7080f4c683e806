//! Polls until all correct nodes agree, against n: O(log n) (white paper, section 3).

use quorate_core::protocols::snow::analysis::Chain;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint};
use quorate_snow::colours::{self, Kind};
use quorate_snow::setting::{Adversary, Setting, Stake};

use super::chart::chart;
use super::each::each;
use super::{Extent, Found, Request, StudyError, Table, world};
use crate::plot::Picture;

const SIZES: [u32; 10] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
/// From here on a sample is a small part of all.
const FIT_FROM: u32 = 50;
const TITLE: &str =
    "Polls of a node before the last beta, from a balanced beginning (Snowball, 20 cities)";

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let Request { extent, seed, .. } = *request;
    let mut table = Table::new(&[
        "nodes",
        "k",
        "alpha",
        "beta",
        "runs",
        "polls",
        "polls_before_the_last_beta",
        "computed_before_the_last_beta",
        "last_decision_ms",
    ]);
    let mut items = Vec::new();
    for nodes in SIZES.into_iter().filter(|nodes| *nodes <= extent.of(200, 10_000)) {
        items.extend((0..runs(extent, nodes)).map(|run| (nodes, run)));
    }
    let reports = each(&items, |(nodes, run)| {
        let setting = Setting {
            nodes: *nodes as usize,
            faulty: 0,
            adversary: Adversary::Opposite,
            numbers: numbers(*nodes),
            stake: Stake::Equal,
            world: world::named("20-cities"),
            seed: seed ^ (run + 1) << 20,
        };
        Ok(colours::run(&setting, Kind::Snowball, 500, 600_000_000_000)?)
    })?;
    let (mut measured, mut computed) = (Vec::new(), Vec::new());
    for nodes in SIZES {
        let found = items.iter().zip(&reports).filter(|((of, _), _)| *of == nodes);
        let reports: Vec<_> = found.map(|(_, report)| report).collect();
        if reports.is_empty() {
            continue;
        }
        let mean = |of: &dyn Fn(&colours::Report) -> f64| {
            reports.iter().map(|report| of(report)).sum::<f64>() / reports.len() as f64
        };
        let polls = mean(&|report| report.polls);
        let last_ms = mean(&|report| report.times_ns[2] as f64 / 1e6);
        let numbers = numbers(nodes);
        let beta = f64::from(numbers.decision);
        let expected = Chain::new(nodes, 0, numbers).expected_rounds() - beta;
        // Few nodes sample fewer: that is another system, and no point of these lines.
        if numbers.sample == Parameters::PAPER.sample {
            measured.push((f64::from(nodes), polls - beta));
            computed.push((f64::from(nodes), expected));
        }
        table.row([
            nodes.to_string(),
            numbers.sample.to_string(),
            numbers.quorum.to_string(),
            numbers.decision.to_string(),
            reports.len().to_string(),
            format!("{polls:.2}"),
            format!("{:.2}", polls - beta),
            format!("{expected:.2}"),
            format!("{last_ms:.0}"),
        ]);
    }
    let many: Vec<_> =
        measured.iter().copied().filter(|(n, _)| *n >= f64::from(FIT_FROM)).collect();
    let fit = Fit::of(&many);
    let says = format!(
        "polls before the last beta = {:.2} + {:.2} log10 n for n >= {FIT_FROM}, R2 = {:.3}",
        fit.base, fit.slope, fit.r_squared
    );
    let fitted = many.iter().map(|(n, _)| (*n, fit.at(*n))).collect::<Vec<_>>();
    let picture = draw(&[("measured", &measured), ("computed", &computed), ("fit", &fitted)])?;
    Ok(Found { tables: vec![("runs", table)], pictures: vec![picture], says: vec![says] })
}

fn runs(extent: Extent, nodes: u32) -> u64 {
    if nodes > 1000 { extent.of(1, 3) } else { extent.of(3, 20) }
}

/// Whoever asks all others has nothing left to chance: an even split would stay.
fn numbers(nodes: u32) -> Parameters {
    let sample = Parameters::PAPER.sample.min(nodes / 2);
    Parameters { sample, quorum: (4 * sample).div_ceil(5), early: 20, decision: 20 }
}

fn draw(series: &[(&str, &[(f64, f64)])]) -> Result<Picture, StudyError> {
    let all = series.iter().flat_map(|(_, points)| points.iter().copied());
    let (widest, highest) =
        all.fold((10.0, 1.0), |(x, y): (f64, f64), at| (x.max(at.0), y.max(at.1)));
    let line = |(label, points): &(&str, &[(f64, f64)])| {
        let point = |(x, y): &(f64, f64)| LinePoint { x: *x, y: *y, x_range: None, y_range: None };
        Line { label: (*label).to_owned(), points: points.iter().map(point).collect() }
    };
    let axes = (Axis::logarithmic("nodes", 10.0, widest), Axis::from_zero("polls", highest, 6));
    chart("rounds", TITLE, axes, series.iter().map(line).collect())
}

/// y = base + slope · log₁₀ x, by least squares.
#[derive(Clone, Copy, Debug)]
struct Fit {
    base: f64,
    slope: f64,
    r_squared: f64,
}

impl Fit {
    fn of(points: &[(f64, f64)]) -> Self {
        let count = points.len().max(1) as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(&|at| at.0.log10()), mean(&|at| at.1));
        let covariance = mean(&|at| (at.0.log10() - x) * (at.1 - y));
        let variance = mean(&|at| (at.0.log10() - x).powi(2));
        let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
        let base = y - slope * x;
        let left = mean(&|at| (at.1 - base - slope * at.0.log10()).powi(2));
        let all = mean(&|at| (at.1 - y).powi(2));
        Self { base, slope, r_squared: if all > 0.0 { 1.0 - left / all } else { 1.0 } }
    }

    fn at(&self, x: f64) -> f64 {
        self.base + self.slope * x.log10()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points = [10.0, 100.0, 5000.0].map(|x: f64| (x, 3.0 + 2.0 * x.log10()));
        let fit = Fit::of(&points);
        assert!((fit.base - 3.0).abs() < 1e-9 && (fit.slope - 2.0).abs() < 1e-9, "{fit:?}");
        assert!((fit.r_squared - 1.0).abs() < 1e-9 && (fit.at(1000.0) - 9.0).abs() < 1e-9);
        let scattered = Fit::of(&[(10.0, 1.0), (100.0, 5.0), (1000.0, 1.0)]);
        assert!(scattered.r_squared < 0.1, "{scattered:?}");
    }
}
