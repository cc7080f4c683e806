//! What k, α and β allow: the largest share of faulty nodes at which the bound on the probability
//! of failure (white paper, appendix A) is one in a thousand million, and the polls that the
//! numbers cost without faults.

use quorate_core::protocols::snow::analysis::Chain;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint};

use super::chart::chart;
use super::each::each;
use super::{Found, Request, StudyError, Table};
use crate::plot::Picture;

const NODES: u32 = 2000;
const ACCEPTABLE_LOG10: f64 = -9.0;
/// k and α.
const SAMPLES: [(u32, u32); 9] =
    [(10, 6), (10, 7), (10, 8), (10, 9), (20, 13), (20, 15), (20, 18), (80, 60), (80, 72)];
const DECISIONS: [u32; 6] = [5, 12, 20, 40, 80, 150];

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let samples = &SAMPLES[..request.extent.of(3, SAMPLES.len())];
    let mut items = Vec::new();
    for (sample, quorum) in samples {
        items.extend(DECISIONS.map(|decision| Parameters {
            sample: *sample,
            quorum: *quorum,
            early: decision,
            decision,
        }));
    }
    let found = each(&items, |numbers| {
        let numbers = numbers.checked()?;
        Ok((largest_share(numbers), Chain::new(NODES, 0, numbers).expected_rounds()))
    })?;
    let columns = ["k", "alpha", "beta", "largest_faulty_percent", "expected_polls_without_faults"];
    let mut table = Table::new(&columns);
    let mut lines = Vec::new();
    for (numbers, found) in items.chunks(DECISIONS.len()).zip(found.chunks(DECISIONS.len())) {
        let mut points = Vec::new();
        for (numbers, (permille, polls)) in numbers.iter().zip(found) {
            let percent = f64::from(*permille) / 10.0;
            let x = f64::from(numbers.decision);
            points.push(LinePoint { x, y: percent, x_range: None, y_range: None });
            table.row([
                numbers.sample.to_string(),
                numbers.quorum.to_string(),
                numbers.decision.to_string(),
                format!("{percent:.1}"),
                format!("{polls:.1}"),
            ]);
        }
        let Some(Parameters { sample, quorum, .. }) = numbers.first() else { continue };
        lines.push(Line { label: format!("k = {sample}, alpha = {quorum}"), points });
    }
    let says = [("the white paper's", Parameters::PAPER), ("later", Parameters::LATER_PRACTICE)]
        .map(|(whose, numbers)| {
            format!(
                "{whose} numbers (k = {}, alpha = {}, beta = {}): {:.1} % of the nodes may be \
                 faulty at 10^-9",
                numbers.sample,
                numbers.quorum,
                numbers.decision,
                f64::from(largest_share(numbers)) / 10.0
            )
        });
    Ok(Found {
        tables: vec![("frontier", table)],
        pictures: vec![draw(lines)?],
        says: says.to_vec(),
    })
}

/// The largest share of faulty nodes, in thousandths and below a half, whose bound is acceptable;
/// zero if none is. The bound grows with the share.
fn largest_share(numbers: Parameters) -> u32 {
    let is_acceptable = |permille: u32| {
        Chain::new(NODES, NODES / 1000 * permille, numbers).failure().log10 <= ACCEPTABLE_LOG10
    };
    let (mut low, mut high) = (0_u32, 500);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if is_acceptable(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

fn draw(lines: Vec<Line>) -> Result<Picture, StudyError> {
    let title = "Share of faulty nodes at a failure probability of 1e-9 (n = 2,000)";
    let axes = (Axis::logarithmic("beta", 5.0, 150.0), Axis::from_zero("faulty nodes, %", 50.0, 5));
    chart("frontier", title, axes, lines)
}
