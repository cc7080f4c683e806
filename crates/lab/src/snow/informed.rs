//! Liveness against informed adversaries: of about √n faulty nodes that know what the others
//! prefer, each poll finds a few that speak for the weaker side, and both sides stay even (arXiv
//! 2409.02217). Frosty's fallback is what ends that (docs/protocols/snow.md, "Frosty").

use quorate_core::protocols::snow::parameters::Parameters;
use quorate_plot::{Axis, Line, LinePoint, Lines};
use quorate_snow::colours::{self, Kind, Report};
use quorate_snow::setting::{Adversary, Setting, Stake};

use super::each::each;
use super::{Found, Request, StudyError, Table, world};
use crate::plot::Picture;

const SIZES: [usize; 3] = [125, 500, 2000];
/// Faulty nodes, in quarters of √n.
const QUARTERS: [usize; 9] = [0, 1, 2, 3, 4, 6, 8, 12, 16];
/// How long nodes have, in simulated nanoseconds: without faulty ones all decide within 40 s.
const PATIENCE_NS: u64 = 300_000_000_000;

/// Which protocol, and with which numbers.
const PROTOCOLS: [(&str, Kind, Parameters); 2] = [
    ("snowball", Kind::Snowball, Parameters::PAPER),
    ("snowflake", Kind::Snowflake, Parameters::LATER_PRACTICE),
];

#[derive(Clone, Copy)]
struct Point {
    protocol: usize,
    nodes: usize,
    quarters: usize,
    run: u64,
}

impl Point {
    fn faulty(&self) -> usize {
        (self.quarters as f64 / 4.0 * (self.nodes as f64).sqrt()).round() as usize
    }
}

pub(super) fn run(request: &Request) -> Result<Found, StudyError> {
    let (sizes, runs) = request.extent.of((1, 2), (SIZES.len(), 10));
    let mut points = Vec::new();
    for nodes in SIZES.into_iter().take(sizes) {
        for protocol in 0..PROTOCOLS.len() {
            for quarters in QUARTERS {
                points.extend((0..runs).map(|run| Point { protocol, nodes, quarters, run }));
            }
        }
    }
    let reports = each(&points, |point| one(point, request.seed))?;
    let mut table = Table::new(&[
        "protocol",
        "nodes",
        "faulty",
        "faulty_percent",
        "runs",
        "stalled_runs",
        "unsafe_runs",
        "undecided_nodes",
        "last_decision_s",
    ]);
    let (mut lines, mut says) = (Vec::new(), Vec::new());
    let groups: Vec<_> = points.chunks(runs as usize).zip(reports.chunks(runs as usize)).collect();
    for of_line in groups.chunks(QUARTERS.len()) {
        let mut line = Vec::new();
        let mut stalls_from = None;
        for (points, reports) in of_line {
            let Some(point) = points.first() else { continue };
            let share = row(&mut table, point, reports);
            line.push(LinePoint {
                x: point.quarters as f64 / 4.0,
                y: 100.0 * share,
                x_range: None,
                y_range: None,
            });
            if share > 0.5 && stalls_from.is_none() {
                stalls_from = Some(point.faulty());
            }
        }
        let Some(point) = of_line.first().and_then(|(points, _)| points.first()) else { continue };
        let (name, nodes) = (PROTOCOLS[point.protocol].0, point.nodes);
        says.push(match stalls_from {
            Some(faulty) => format!(
                "{name}, {nodes} nodes: from {faulty} informed adversaries on ({:.1} %), most runs \
                 did not end within 300 s",
                100.0 * faulty as f64 / nodes as f64
            ),
            None => format!("{name}, {nodes} nodes: most runs ended, whatever the number"),
        });
        lines.push(Line { label: format!("{name}, n = {nodes}"), points: line });
    }
    Ok(Found { tables: vec![("runs", table)], pictures: vec![draw(lines)?], says })
}

fn one(point: &Point, seed: u64) -> Result<Report, StudyError> {
    let (_, kind, numbers) = PROTOCOLS[point.protocol];
    let setting = Setting {
        nodes: point.nodes,
        faulty: point.faulty(),
        adversary: Adversary::Balance,
        numbers,
        stake: Stake::Equal,
        world: world::named("20-cities"),
        seed: seed ^ (point.run + 1) << 24 ^ (point.quarters as u64) << 8,
    };
    Ok(colours::run(&setting, kind, 500, PATIENCE_NS)?)
}

/// Writes the row of these runs; returns the share of those that did not end.
fn row(table: &mut Table, point: &Point, reports: &[Report]) -> f64 {
    let stalled = reports.iter().filter(|report| report.decided < report.correct).count();
    let undecided = reports.iter().map(|report| report.correct - report.decided).sum::<usize>();
    let ended = reports.iter().filter(|report| report.decided == report.correct);
    let last = ended.map(|report| report.times_ns[2]).max();
    let faulty = point.faulty();
    table.row([
        PROTOCOLS[point.protocol].0.to_owned(),
        point.nodes.to_string(),
        faulty.to_string(),
        format!("{:.1}", 100.0 * faulty as f64 / point.nodes as f64),
        reports.len().to_string(),
        stalled.to_string(),
        reports.iter().filter(|report| report.is_unsafe()).count().to_string(),
        undecided.to_string(),
        last.map_or_else(String::new, |ns| format!("{:.1}", ns as f64 / 1e9)),
    ]);
    stalled as f64 / reports.len().max(1) as f64
}

fn draw(lines: Vec<Line>) -> Result<Picture, StudyError> {
    let title = "Runs in which a node had not decided after 300 s, by informed adversaries";
    let svg = Lines {
        title: title.to_owned(),
        x: Axis::from_zero("faulty nodes / square root of n", 4.0, 8),
        y: Axis::from_zero("runs, %", 100.0, 5),
        lines,
        shaded: Vec::new(),
        shade: String::new(),
        marked: vec![1.0],
        mark: "square root of n".to_owned(),
        dotted: true,
    }
    .draw()?;
    Ok(Picture { name: "informed".to_owned(), title: title.to_owned(), svg })
}
