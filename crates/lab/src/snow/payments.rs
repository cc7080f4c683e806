//! Avalanche by the number of nodes, in one place and in 20 cities (white paper, section 5, figures
//! 15 to 19): payments a second, and how long one takes until the first and the last node accepted
//! it.

use quorate_core::protocols::snow::avalanche::Counters;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint, Lines};
use quorate_snow::payments::{self, Load, Report};
use quorate_snow::setting::{Adversary, Setting, Stake, quantile};

use super::each::each;
use super::{Extent, Found, Request, StudyError, Table, world};
use crate::plot::Picture;

/// What the document measured with 2,000 nodes in 20 cities: payments a second and seconds.
const DOCUMENT: (u64, f64) = (3400, 1.35);
const NETWORKS: [&str; 2] = ["lan", "20-cities"];
const SIZES: [usize; 5] = [125, 250, 500, 1000, 2000];

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let Request { extent, seed, .. } = *request;
    let mut table = Table::new(&[
        "network",
        "nodes",
        "offered_per_second",
        "accepted_per_second",
        "accepted_by_all",
        "submitted",
        "first_p50_ms",
        "first_p99_ms",
        "last_p50_ms",
        "last_p99_ms",
        "messages_per_payment_and_node",
        "bytes_per_payment_and_node",
        "processor_share",
        "messages",
    ]);
    let mut histogram = Table::new(&["network", "nodes", "up_to_ms", "first_share", "last_share"]);
    let (mut pictures, mut says) = (Vec::new(), Vec::new());
    let sizes = SIZES.into_iter().filter(|nodes| *nodes <= extent.of(125, 2000));
    let items: Vec<_> = sizes.flat_map(|nodes| NETWORKS.map(|network| (network, nodes))).collect();
    let reports = each(&items, |(network, nodes)| one(extent, seed, network, *nodes))?;
    for network in NETWORKS {
        let mut lines = Vec::new();
        let of_network = items.iter().zip(&reports).filter(|((of, _), _)| *of == network);
        for ((_, nodes), report) in of_network {
            row(&mut table, extent, network, *nodes, report);
            bins(&mut histogram, network, *nodes, report);
            lines.push(cumulative(&format!("{nodes} nodes"), &report.last_ns));
            says.push(format!(
                "{nodes} nodes, {network}: {:.0} payments/s accepted by all, p50 {:.2} s at the first \
                 node and {:.2} s at the last",
                report.rate,
                quantile(&report.first_ns, 0.5) as f64 / 1e9,
                quantile(&report.last_ns, 0.5) as f64 / 1e9,
            ));
        }
        pictures.push(draw(network, lines)?);
    }
    says.push(format!(
        "the document, 2,000 nodes in 20 cities: {} payments/s, {} s",
        DOCUMENT.0, DOCUMENT.1
    ));
    let tables = vec![("runs", table), ("histogram", histogram)];
    Ok(Found { tables, pictures, says })
}

fn draw(network: &str, lines: Vec<Line>) -> Result<Picture, StudyError> {
    let title = format!("Until all nodes accepted a payment, cumulative ({network})");
    let ends = lines.iter().flat_map(|line| line.points.last().map(|at| at.x));
    let longest = ends.fold(DOCUMENT.1 * 1.1, f64::max);
    let svg = Lines {
        title: title.clone(),
        x: Axis::from_zero("seconds", longest, 6),
        y: Axis::from_zero("share of payments, %", 100.0, 5),
        lines,
        shaded: Vec::new(),
        shade: String::new(),
        marked: vec![DOCUMENT.1],
        mark: format!("{} s: the document's latency", DOCUMENT.1),
        dotted: false,
    }
    .draw()?;
    Ok(Picture { name: format!("latency-{network}"), title, svg })
}

fn rate(extent: Extent) -> u64 {
    extent.of(500, DOCUMENT.0)
}

fn one(extent: Extent, seed: u64, network: &str, nodes: usize) -> Result<Report, StudyError> {
    let setting = Setting {
        nodes,
        faulty: 0,
        adversary: Adversary::Withhold,
        numbers: Parameters::PAPER,
        stake: Stake::Equal,
        world: world::named(network),
        seed,
    };
    // Few payments are under way when the load begins; those of the last seconds end in the rest.
    let seconds = extent.of(3, 8);
    let load = Load {
        rate: rate(extent),
        issuers: 5,
        double_permille: 0,
        load_ns: seconds * 1_000_000_000,
        rest_ns: 4_000_000_000,
        batch: 40,
        counters: Counters::Glacier,
    };
    Ok(payments::run(&setting, load)?)
}

fn row(table: &mut Table, extent: Extent, network: &str, nodes: usize, report: &Report) {
    let ms = |sorted: &[u64], share| format!("{:.0}", quantile(sorted, share) as f64 / 1e6);
    let each = |all: u64| all as f64 / nodes as f64 / report.submitted.max(1) as f64;
    let busy = report.busy_ns as f64 / nodes as f64 / report.simulated_ns.max(1) as f64;
    table.row([
        network.to_owned(),
        nodes.to_string(),
        rate(extent).to_string(),
        format!("{:.0}", report.rate),
        report.honest_by_all.to_string(),
        report.submitted.to_string(),
        ms(&report.first_ns, 0.5),
        ms(&report.first_ns, 0.99),
        ms(&report.last_ns, 0.5),
        ms(&report.last_ns, 0.99),
        format!("{:.2}", each(report.messages)),
        format!("{:.0}", each(report.bytes)),
        format!("{busy:.3}"),
        report.messages.to_string(),
    ]);
}

/// Shares of payments by tenths of a second.
fn bins(histogram: &mut Table, network: &str, nodes: usize, report: &Report) {
    let longest = report.last_ns.last().copied().unwrap_or(0) / 100_000_000;
    for bin in 0..=longest {
        let within = |sorted: &[u64]| {
            let count = sorted.iter().filter(|ns| **ns / 100_000_000 == bin).count();
            format!("{:.4}", count as f64 / sorted.len().max(1) as f64)
        };
        histogram.row([
            network.to_owned(),
            nodes.to_string(),
            ((bin + 1) * 100).to_string(),
            within(&report.first_ns),
            within(&report.last_ns),
        ]);
    }
}

fn cumulative(label: &str, sorted: &[u64]) -> Line {
    let point = |percent: u32| LinePoint {
        x: quantile(sorted, f64::from(percent) / 100.0) as f64 / 1e9,
        y: f64::from(percent),
        x_range: None,
        y_range: None,
    };
    Line { label: label.to_owned(), points: (0..=100).map(point).collect() }
}
