//! The pictures that a study asks for, and those that are drawn of every study.

use std::collections::BTreeMap;

use super::extent::{Extent, shared};
use super::figure::{label, over_time};
use super::group::{self, Group};
use crate::experiment::{Chart, ChartKind, Estimate, Figures, Plan, Row, Settings, Study};
use quorate_node::replica::profile::STAGES;
use quorate_plot::{Axis, Bar, Bars, Heat, Line, LinePoint, Lines, PlotError};

/// More lines than this in a picture are not told apart.
const MOST_LINES: usize = 7;
/// More bars than this in a picture are not read.
const MOST_BARS: usize = 40;
/// Heat maps that are drawn if nobody asks for any.
const FEW_MAPS: usize = 4;
/// Heat maps of one chart at most.
pub(super) const MOST_MAPS: usize = 24;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What its file is called, without `.svg`.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// The picture.
    pub svg: String,
}

/// All pictures of a study.
///
/// # Errors
/// [`PlotError`].
pub fn pictures(study: &Study, plan: &Plan, rows: &[Row]) -> Result<Vec<Picture>, PlotError> {
    let mut pictures = Vec::new();
    for chart in study.chart.iter().chain(&usual(study, plan)) {
        let drawing = Drawing { chart, plan, rows };
        for (panel, title, svg) in drawing.draw()? {
            let kind = match chart.kind {
                ChartKind::OverTime => "over-time",
                ChartKind::Curve => "curve",
                ChartKind::Bars => "bars",
                ChartKind::CumulativeLatency => "cumulative-latency",
                ChartKind::HeatMap => "heat-map",
            };
            let parts = [kind, chart.y.as_deref().unwrap_or_default(), &panel];
            let name = file_name(&parts);
            let taken = |name: &String| pictures.iter().any(|known: &Picture| known.name == *name);
            let others = (2..).map(|turn| format!("{name}-{turn}"));
            let free = std::iter::once(name.clone()).chain(others).find(|name| !taken(name));
            let name = free.unwrap_or(name);
            pictures.push(Picture { name, title, svg });
        }
    }
    Ok(pictures)
}

/// Whether a study's pictures have heat maps among them.
pub(super) fn draws_heat_maps(study: &Study, plan: &Plan) -> bool {
    let usual = usual(study, plan);
    study.chart.iter().chain(&usual).any(|chart| chart.kind == ChartKind::HeatMap)
}

fn file_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if !name.is_empty() {
            name.push('-');
        }
        let good = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        name.extend(part.chars().map(good));
    }
    name
}

/// What is drawn of every study, unless it draws that itself.
fn usual(study: &Study, plan: &Plan) -> Vec<Chart> {
    let asks = |kind: ChartKind, y: Option<&str>| {
        study
            .chart
            .iter()
            .any(|chart| chart.kind == kind && (y.is_none() || chart.y.as_deref() == y))
    };
    // What is apart is seen apart, but for what has one line or one bar.
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &plan.settings {
        *sizes.entry(&one.point.variant).or_default() += 1;
    }
    let apart = sizes.values().any(|size| *size > 1);
    let panels: Vec<String> =
        plan.varying().into_iter().filter(|axis| apart && axis == "variant").collect();
    let chart = |kind: ChartKind, y: Option<&str>, x: Option<&str>| Chart {
        kind,
        title: None,
        y: y.map(str::to_owned),
        x: x.map(str::to_owned),
        by: Vec::new(),
        panels: panels.clone(),
        logarithmic: false,
    };
    let count = plan.settings.len();
    let mut charts = Vec::new();
    if plan.varying().iter().any(|axis| axis == "rate") && !asks(ChartKind::Curve, None) {
        charts.push(chart(ChartKind::Curve, Some("goodput"), Some("throughput")));
        charts.push(chart(ChartKind::Curve, Some("p50_ms"), Some("goodput")));
    }
    if count <= MOST_LINES && !asks(ChartKind::OverTime, Some("goodput")) {
        charts.push(chart(ChartKind::OverTime, Some("goodput"), None));
    }
    if count <= MOST_LINES && !asks(ChartKind::CumulativeLatency, None) {
        charts.push(chart(ChartKind::CumulativeLatency, None, None));
    }
    if count <= FEW_MAPS && !asks(ChartKind::HeatMap, None) {
        charts.push(chart(ChartKind::HeatMap, None, None));
    }
    for figure in ["goodput", "memory_mib", "stage_us"] {
        if count <= MOST_BARS && !asks(ChartKind::Bars, Some(figure)) {
            charts.push(chart(ChartKind::Bars, Some(figure), None));
        }
    }
    charts
}

struct Drawing<'a> {
    chart: &'a Chart,
    plan: &'a Plan,
    rows: &'a [Row],
}

/// Of a picture: its panel's part of its name, its title, and itself.
type Drawn = (String, String, String);

impl Drawing<'_> {
    fn draw(&self) -> Result<Vec<Drawn>, PlotError> {
        if self.chart.kind == ChartKind::HeatMap {
            return self.heat_maps();
        }
        let all: Vec<&Settings> = self.plan.settings.iter().collect();
        let panels = group::by(&all, &self.chart.panels);
        match self.chart.kind {
            ChartKind::Bars => self.all_bars(&panels),
            _ => self.all_lines(&panels),
        }
    }

    fn title_of(&self, panel: &Group<'_>) -> String {
        match panel.label.is_empty() {
            true => self.title(),
            false => format!("{}: {}", self.title(), panel.label),
        }
    }

    fn all_bars(&self, panels: &[Group<'_>]) -> Result<Vec<Drawn>, PlotError> {
        let bars: Vec<Bars> = panels.iter().map(|panel| self.bars(panel)).collect();
        let ends: Vec<Extent> =
            bars.iter().map(|bars| Extent::of(std::iter::once(bars.longest()))).collect();
        let drawn = panels.iter().zip(bars).zip(shared(&ends)).map(|((panel, bars), end)| {
            Ok((panel.name.clone(), bars.title.clone(), bars.draw_up_to(end.high)?))
        });
        drawn.collect()
    }

    fn all_lines(&self, panels: &[Group<'_>]) -> Result<Vec<Drawn>, PlotError> {
        let content: Vec<(&Group<'_>, Vec<Line>)> =
            panels.iter().filter_map(|panel| Some((panel, self.lines(panel)?))).collect();
        let mut xs: Vec<Extent> = content.iter().map(|(_, lines)| Extent::across(lines)).collect();
        if self.chart.kind == ChartKind::CumulativeLatency {
            xs = shared(&xs);
        }
        let ys: Vec<Extent> = content.iter().map(|(_, lines)| Extent::upwards(lines)).collect();
        let ys = shared(&ys);
        let mut drawn = Vec::new();
        for ((panel, lines), (x, y)) in content.into_iter().zip(xs.into_iter().zip(ys)) {
            let title = self.title_of(panel);
            let svg = self.chart_of(panel, lines, (x, y)).draw()?;
            drawn.push((panel.name.clone(), title, svg));
        }
        Ok(drawn)
    }

    fn y(&self) -> &str {
        self.chart.y.as_deref().unwrap_or("goodput")
    }

    fn x(&self) -> &str {
        self.chart.x.as_deref().unwrap_or("throughput")
    }

    fn title(&self) -> String {
        if let Some(title) = &self.chart.title {
            return title.clone();
        }
        let bare = |name: &str| label(name).split(" (").next().unwrap_or_default().to_owned();
        let title = match self.chart.kind {
            ChartKind::OverTime => format!("{} over time", bare(self.y())),
            ChartKind::Curve => format!("{} against {}", bare(self.y()), bare(self.x())),
            ChartKind::Bars => bare(self.y()),
            ChartKind::CumulativeLatency => "share of the commands by latency".to_owned(),
            ChartKind::HeatMap => "latency over time".to_owned(),
        };
        let mut letters = title.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    }

    /// The axes that have lines of their own within a panel.
    fn line_axes(&self, panel: &Group<'_>) -> Vec<String> {
        let axes = match self.chart.by.is_empty() {
            false => self.chart.by.clone(),
            true => {
                let mut but = self.chart.panels.clone();
                if self.chart.kind == ChartKind::Curve {
                    but.extend([self.x().to_owned(), "rate".to_owned()]);
                }
                group::varying(self.plan, &but)
            }
        };
        group::varying_among(&panel.settings, axes)
    }

    /// `None`: there is nothing to draw. A line without data stays among the others, which keep
    /// their colours so.
    fn lines(&self, panel: &Group<'_>) -> Option<Vec<Line>> {
        let groups = group::by(&panel.settings, &self.line_axes(panel));
        let line = |group: &Group<'_>| {
            let mut points = self.points(group);
            if points.iter().all(|at| !at.y.is_finite()) {
                points.clear();
            }
            Line { label: group.label.clone(), points }
        };
        let lines: Vec<Line> = groups.iter().map(line).collect();
        lines.iter().flat_map(|line| &line.points).next()?;
        // Points that nothing leads to are bars' business.
        let lone =
            self.chart.kind == ChartKind::Curve && lines.iter().all(|line| line.points.len() < 2);
        (!lone).then_some(lines)
    }

    fn chart_of(&self, panel: &Group<'_>, lines: Vec<Line>, (x, y): (Extent, Extent)) -> Lines {
        let (shaded, marked) = self.faults(panel);
        let (x, y) = match self.chart.kind {
            ChartKind::CumulativeLatency => (
                Axis::logarithmic("latency (ms)", x.low, x.high),
                Axis::until("commands answered within (%)", 100.0, 5),
            ),
            ChartKind::OverTime => (Axis::until("time (s)", self.seconds(), 8), self.y_axis(y)),
            _ => (Axis::from_zero(label(self.x()), x.high, 6), self.y_axis(y)),
        };
        Lines {
            title: self.title_of(panel),
            x,
            y,
            lines,
            shaded,
            shade: "under attack".to_owned(),
            marked,
            mark: "a replica is killed".to_owned(),
            dotted: self.chart.kind == ChartKind::Curve,
        }
    }

    fn y_axis(&self, extent: Extent) -> Axis {
        match self.chart.logarithmic {
            true => Axis::logarithmic(label(self.y()), extent.low, extent.high),
            false => Axis::from_zero(label(self.y()), extent.high, 5),
        }
    }

    fn seconds(&self) -> f64 {
        self.plan.measuring.duration.as_secs_f64()
    }

    fn points(&self, group: &Group<'_>) -> Vec<LinePoint> {
        match self.chart.kind {
            ChartKind::OverTime => self.points_over_time(group),
            ChartKind::CumulativeLatency => self.cumulative(group),
            _ => self.points_of_curve(group),
        }
    }

    fn points_over_time(&self, group: &Group<'_>) -> Vec<LinePoint> {
        let rows = group::rows(self.rows, &group.settings);
        let series: Vec<Vec<(f64, Option<f64>)>> = rows
            .iter()
            .filter_map(|row| Some(over_time(row.figures.as_ref()?, self.y())))
            .collect();
        // An interval may be missing in one repeat and not in another: what belongs together has
        // its time in common.
        let interval = self.plan.measuring.interval.as_secs_f64();
        let mut slots: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for (x, y) in series.into_iter().flatten().filter(|(x, _)| *x <= self.seconds()) {
            let slot = slots.entry((x / interval) as u64).or_default();
            slot.0.push(x);
            slot.1.extend(y);
        }
        let at = |(xs, ys): &(Vec<f64>, Vec<f64>)| {
            let (x, y) = (Estimate::of(xs)?, Estimate::of(ys));
            // Where no repeat has a value, the line has a gap.
            let (mean, y_range) = y.map_or((f64::NAN, None), |y| (y.mean, range(&y)));
            Some(LinePoint { x: x.mean, y: mean, x_range: None, y_range })
        };
        slots.values().filter_map(at).collect()
    }

    fn points_of_curve(&self, group: &Group<'_>) -> Vec<LinePoint> {
        let mut points = Vec::new();
        for settings in &group.settings {
            let rows = group::rows(self.rows, &[settings]);
            let Some(y) = group::estimate(&rows, self.y()) else { continue };
            let figure = group::estimate(&rows, self.x());
            let x = match (settings.point.number(self.x()), figure) {
                (Some(value), _) => {
                    LinePoint { x: value, y: y.mean, x_range: None, y_range: range(&y) }
                }
                (None, Some(x)) => {
                    LinePoint { x: x.mean, y: y.mean, x_range: range(&x), y_range: range(&y) }
                }
                (None, None) => continue,
            };
            points.push((settings.point.number("rate"), x));
        }
        // A figure on the horizontal axis may go back under overload: then the load gives the
        // order.
        match self.plan.settings.first().is_some_and(|one| one.point.number(self.x()).is_some()) {
            true => points.sort_by(|a, b| a.1.x.total_cmp(&b.1.x)),
            false => points.sort_by(|a, b| {
                a.0.unwrap_or(f64::INFINITY).total_cmp(&b.0.unwrap_or(f64::INFINITY))
            }),
        }
        points.into_iter().map(|(_, point)| point).collect()
    }

    fn cumulative(&self, group: &Group<'_>) -> Vec<LinePoint> {
        let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
        for row in group::rows(self.rows, &group.settings) {
            for (bound, count) in row.figures.iter().flat_map(|figures| &figures.latencies) {
                *classes.entry(*bound).or_default() += count;
            }
        }
        let all: u64 = classes.values().sum();
        let at = |x: f64, y: f64| LinePoint { x, y, x_range: None, y_range: None };
        // No command is below the first class, where the curve begins: so one class is a line too.
        let first = classes.keys().next().map(|bound| at(*bound as f64 / 1e3 / STEP, 0.0));
        let mut so_far = 0;
        let others = classes.into_iter().map(|(bound, count)| {
            so_far += count;
            at(bound as f64 / 1e3, 100.0 * so_far as f64 / all.max(1) as f64)
        });
        first.into_iter().chain(others).collect()
    }

    /// Spans of attack and times of kills, if the horizontal axis is the time.
    fn faults(&self, panel: &Group<'_>) -> (Vec<(f64, f64)>, Vec<f64>) {
        if self.chart.kind != ChartKind::OverTime {
            return (Vec::new(), Vec::new());
        }
        let (mut shaded, mut marked): (Vec<(f64, f64)>, Vec<f64>) = (Vec::new(), Vec::new());
        for row in group::rows(self.rows, &panel.settings) {
            let Some(figures) = &row.figures else { continue };
            for under in &figures.under {
                if !shaded.contains(&(under.from, under.to)) {
                    shaded.push((under.from, under.to));
                }
            }
            let killed = figures.killed.map(|(_, at)| at);
            marked.extend(killed.filter(|at| marked.iter().all(|known| (known - at).abs() > 0.3)));
        }
        (shaded, marked)
    }

    fn bars(&self, panel: &Group<'_>) -> Bars {
        let names = group::varying(self.plan, &self.chart.panels);
        let names = group::varying_among(&panel.settings, names);
        let by = group::varying_among(&panel.settings, self.chart.by.clone());
        let stacked = self.y() == "stage_us";
        let colours = match stacked {
            true => self.stages(panel),
            false => group::by(&panel.settings, &by).into_iter().map(|group| group.label).collect(),
        };
        let mut bars = Vec::new();
        for settings in panel.settings.iter().take(MOST_BARS) {
            let rows = group::rows(self.rows, &[settings]);
            let mut name = group::label(&settings.point, &names);
            if name.is_empty() {
                name = lone_name(panel, settings);
            }
            let part = |(number, stage): (usize, &String)| {
                let estimate = group::estimate(&rows, &format!("stage_us.{stage}"))?;
                Some((number, estimate.mean))
            };
            let bar = match (stacked, group::estimate(&rows, self.y())) {
                (true, _) => Bar {
                    label: name,
                    parts: colours.iter().enumerate().filter_map(part).collect(),
                    range: None,
                },
                (false, Some(estimate)) => {
                    let own = group::label(&settings.point, &by);
                    let number = colours.iter().position(|label| *label == own).unwrap_or(0);
                    let range = range(&estimate);
                    Bar { label: name, parts: vec![(number, estimate.mean)], range }
                }
                (false, None) => Bar { label: name, parts: Vec::new(), range: None },
            };
            bars.push(bar);
        }
        // A colour a bar would say what stands in front of it.
        let tells = colours.len() > 1 && (stacked || colours.len() < bars.len());
        let colours = if tells { colours } else { Vec::new() };
        if !tells {
            bars.iter_mut().flat_map(|bar| &mut bar.parts).for_each(|part| part.0 = 0);
        }
        // The title says what the time is of: beside the names of bars there is little room.
        let label = if stacked { "time (µs/command)".to_owned() } else { label(self.y()) };
        Bars { title: self.title_of(panel), label, bars, colours }
    }

    /// The stages in the order in which a command meets them; behind them those of older programs.
    fn stages(&self, panel: &Group<'_>) -> Vec<String> {
        let rows = group::rows(self.rows, &panel.settings);
        let stages = rows.iter().filter_map(|row| Some(row.figures.as_ref()?.stage_us.keys()));
        let mut names: Vec<String> = stages.flatten().cloned().collect();
        let place = |name: &str| STAGES.iter().position(|stage| *stage == name);
        names.sort_by_key(|name| (place(name).unwrap_or(STAGES.len()), name.clone()));
        names.dedup();
        names
    }

    fn heat_maps(&self) -> Result<Vec<Drawn>, PlotError> {
        let names = group::varying(self.plan, &[]);
        let first = |settings: &Settings| {
            group::rows(self.rows, &[settings]).into_iter().min_by_key(|row| row.repeat)
        };
        let rows: Vec<(&Row, &Figures)> = self
            .plan
            .settings
            .iter()
            .filter_map(first)
            .filter_map(|row| Some((row, row.figures.as_ref()?)))
            .take(MOST_MAPS)
            .collect();
        let bounds = |(_, figures): &(&Row, &Figures)| {
            let bounds = figures.latencies.iter().map(|(bound, _)| *bound as f64 / 1e3);
            let Extent { low, high } = Extent::of(bounds);
            Extent { low: low / STEP, high }
        };
        let extents: Vec<Extent> = rows.iter().map(bounds).collect();
        let mut drawn = Vec::new();
        for ((row, figures), extent) in rows.into_iter().zip(shared(&extents)) {
            let label = group::label(&row.settings.point, &names);
            let colon = if label.is_empty() { "" } else { ": " };
            let title = format!("{}{colon}{label}", self.title());
            let heat = Heat {
                title: title.clone(),
                x: Axis::until("time (s)", self.seconds(), 8),
                y: Axis::logarithmic("latency (ms)", extent.low, extent.high),
                cells: cells(figures),
                spans: figures.under.iter().map(|under| (under.from, under.to)).collect(),
                killed: figures.killed.map(|(_, at)| at),
            };
            drawn.push((group::name(&row.settings.point, &names), title, heat.draw()?));
        }
        Ok(drawn)
    }
}

fn cells(figures: &Figures) -> Vec<([(f64, f64); 2], u64)> {
    let mut cells = Vec::new();
    for (interval, classes) in figures.series.iter().zip(&figures.latencies_over_time) {
        let span = (interval.at, interval.at + interval.seconds);
        for (bound, count) in classes {
            let bound = *bound as f64 / 1e3;
            cells.push(([span, (bound / STEP, bound)], *count));
        }
    }
    cells
}

/// What a bar is called from which nothing beside it differs.
fn lone_name(panel: &Group<'_>, settings: &Settings) -> String {
    let point = &settings.point;
    let names = [panel.label.clone(), point.variant.clone()];
    let known = names.into_iter().find(|name| !name.is_empty());
    known.or_else(|| point.text("protocol")).unwrap_or_default()
}

/// From one class of latencies to the next: eight a doubling.
const STEP: f64 = 1.090_507_732_665_257_7;

fn range(estimate: &Estimate) -> Option<(f64, f64)> {
    estimate.half_width.map(|_| (estimate.low(), estimate.high()))
}
