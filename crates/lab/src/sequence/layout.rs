//! From a scene to places on paper. Time runs downwards in bands: what happens at one instant
//! stands in one band, and arrows run in the space between bands. That space grows until every
//! label has a place of its own.

use std::collections::BTreeMap;

use super::place::{Point, Rect, Segment, Surroundings, width};
use super::scene::{Absence, Bundle, Scene};
use super::words::{self, Kind, Line, Mark};

/// The height of a line of text.
pub const LINE: f64 = 17.0;
/// How far left of the first lifeline the times end.
const TIMES: f64 = 32.0;
/// Above the first instant: the names.
const HEADER: f64 = 58.0;
/// What every label is high.
pub const LABEL: f64 = 15.0;
/// The space between two instants that arrows cross, at first.
const CROSSED: f64 = 46.0;
/// By how much a space grows whose labels do not fit.
const GROWTH: f64 = 12.0;
/// What an arrow's head takes, each way.
const HEAD: f64 = 14.0;
/// How far apart two arrows run that would lie on each other.
const APART: f64 = 8.0;
/// How often spaces may grow before labels are put where they must: more than any script needs.
const ATTEMPTS: usize = 400;

/// A lifeline: stretches of it, each from one height to another.
#[derive(Debug, Default)]
pub struct Column {
    /// Where it is, from the left.
    pub x: f64,
    /// Whose it is.
    pub name: String,
    /// Where its replica runs.
    pub runs: Vec<(f64, f64)>,
    /// Where time is cut short.
    pub cut_short: Vec<(f64, f64)>,
    /// Where its replica is away.
    pub away: Vec<(f64, f64)>,
}

/// A text and the middle of its left edge, or its middle.
#[derive(Debug)]
pub struct Text {
    /// Where it is.
    pub at: Point,
    /// What it says.
    pub text: String,
}

impl Text {
    /// How wide it is at most, and a little space on both sides.
    pub fn width(&self) -> f64 {
        width(&self.text) + 8.0
    }

    /// The box around it, if it stands by its middle.
    pub fn edges(&self) -> Rect {
        Rect::around(self.at, self.width(), LABEL)
    }
}

/// Messages with one label.
#[derive(Debug)]
pub struct Fan {
    /// How they are drawn.
    pub kind: Kind,
    /// The block they are about.
    pub block: Option<(u64, usize)>,
    /// The arrows; whether one ends where nobody is.
    pub arrows: Vec<(Segment, bool)>,
    /// The label, by its middle.
    pub label: Text,
}

/// Something a replica did.
#[derive(Debug)]
pub struct Deed {
    /// The middle of its mark, on the lifeline.
    pub at: Point,
    /// What it was.
    pub line: Line,
}

impl Deed {
    /// Where its text begins.
    pub fn text_left(&self) -> f64 {
        self.at.x + if self.line.view.is_some() { 21.0 } else { 11.0 }
    }

    /// The box around its mark and its text.
    pub fn edges(&self) -> Rect {
        let half = LINE / 2.0 - 1.0;
        Rect {
            left: self.at.x - 14.0,
            top: self.at.y - half,
            right: self.text_left() + width(&self.line.text),
            bottom: self.at.y + half,
        }
    }
}

/// All that is drawn, with its place.
#[derive(Debug, Default)]
pub struct Layout {
    /// The picture's width.
    pub width: f64,
    /// The picture's height.
    pub height: f64,
    /// The lifelines.
    pub columns: Vec<Column>,
    /// The times, each at its instant.
    pub times: Vec<Text>,
    /// How long the stretches are that were cut short.
    pub pauses: Vec<Text>,
    /// What the script did, by the middle of the text.
    pub notes: Vec<Text>,
    /// The messages.
    pub fans: Vec<Fan>,
    /// What the replicas did.
    pub deeds: Vec<Deed>,
}

/// The moments and the participants an arrow runs between: sent, arrived, from, to.
type Way = (usize, usize, usize, usize);

/// The heights of one instant.
#[derive(Clone, Copy, Debug)]
struct Band {
    top: f64,
    bottom: f64,
    /// Where its notes begin.
    notes: f64,
}

impl Layout {
    /// Finds a place for everything.
    pub fn of(scene: &Scene) -> Self {
        let mut spaces = spaces(scene);
        for attempt in 0.. {
            let (layout, crowded) = Self::with(scene, &spaces);
            if crowded.is_empty() || attempt == ATTEMPTS {
                return layout;
            }
            for space in crowded {
                spaces.get_mut(space).into_iter().for_each(|space| *space += GROWTH);
            }
        }
        Self::default()
    }

    /// Lays out with given spaces between the bands; says which spaces are too small.
    fn with(scene: &Scene, spaces: &[f64]) -> (Self, Vec<usize>) {
        let bands = bands(scene, spaces);
        let end = bands.last().map_or(HEADER, |band| band.bottom) + 14.0;
        let (first, step) = (first(scene), step(scene));
        let mut layout = Self { height: end + 34.0, ..Self::default() };
        for (index, name) in scene.participants.iter().enumerate() {
            let x = first + step * index as f64;
            let mut column = Column { x, name: name.clone(), ..Column::default() };
            column.stretch(scene, &bands, end, index);
            layout.columns.push(column);
        }
        layout.width = layout.last() + step - 12.0;
        layout.write_bands(scene, &bands);
        layout.lay_arrows(scene, &bands);
        let crowded = layout.place_labels(scene);
        (layout, crowded)
    }

    fn write_bands(&mut self, scene: &Scene, bands: &[Band]) {
        let (first, middle) = (self.first(), self.middle());
        for (moment, band) in scene.moments.iter().zip(bands) {
            let y = band.top + LINE / 2.0;
            let at = Point { x: first - TIMES, y };
            if moment.at.round == 0 {
                self.times.push(Text { at, text: moment.at.time.to_string() });
            }
            for (column, lines) in self.columns.iter().zip(&moment.lines) {
                for (index, line) in lines.iter().enumerate() {
                    let at = Point { x: column.x, y: y + LINE * index as f64 };
                    self.deeds.push(Deed { at, line: line.clone() });
                }
            }
            for (index, note) in moment.notes.iter().enumerate() {
                let at = Point { x: middle, y: band.notes + LINE * (index as f64 + 0.5) };
                self.notes.push(Text { at, text: note.clone() });
            }
        }
        for (below, (band, next)) in bands.iter().zip(bands.iter().skip(1)).enumerate() {
            if let Some(pause) = scene.pause_below(below) {
                let at = Point { x: middle, y: (band.bottom + next.top) / 2.0 };
                self.pauses.push(Text { at, text: format!("{pause} ms later") });
            }
        }
    }

    fn first(&self) -> f64 {
        self.columns.first().map_or(0.0, |column| column.x)
    }

    fn last(&self) -> f64 {
        self.columns.last().map_or(0.0, |column| column.x)
    }

    /// Halfway between the first and the last lifeline.
    fn middle(&self) -> f64 {
        (self.first() + self.last()) / 2.0
    }

    fn lay_arrows(&mut self, scene: &Scene, bands: &[Band]) {
        let ways = ways(scene);
        let mut taken: BTreeMap<Way, usize> = BTreeMap::new();
        for bundle in &scene.bundles {
            let mut arrows = Vec::new();
            for arrow in &bundle.arrows {
                let way = (bundle.sent, bundle.arrived, arrow.from, arrow.to);
                let before = taken.entry(way).and_modify(|count| *count += 1).or_default();
                let after = ways.get(&way).map_or(0, |all| all.saturating_sub(*before + 1));
                let segment = self.segment(bands, way, *before as f64, after as f64);
                arrows.extend(segment.map(|segment| (segment, arrow.lost)));
            }
            let label = Text { at: Point::default(), text: bundle.label.clone() };
            let block = words::block(&bundle.label).filter(|_| bundle.kind != Kind::TimeOut);
            self.fans.push(Fan { kind: bundle.kind, block, arrows, label });
        }
    }

    /// An arrow on its way, with so many others above and below it on the same one.
    fn segment(&self, bands: &[Band], way: Way, above: f64, below: f64) -> Option<Segment> {
        let (sent, arrived) = (bands.get(way.0)?, bands.get(way.1)?);
        let (from, to) = (self.columns.get(way.2)?, self.columns.get(way.3)?);
        let before = if to.x < from.x { 5.0 } else { -5.0 };
        Some(Segment {
            from: Point { x: from.x, y: sent.bottom + 2.0 + APART * above },
            to: Point { x: to.x + before, y: arrived.top - 4.0 - APART * below },
        })
    }

    /// Gives each label its place; says below which moments there was none.
    fn place_labels(&mut self, scene: &Scene) -> Vec<usize> {
        let mut around = Surroundings {
            inside: Some(Rect {
                left: self.first() - 22.0,
                top: HEADER - 12.0,
                right: self.width - 4.0,
                bottom: self.height,
            }),
            lifelines: self.columns.iter().map(|column| column.x).collect(),
            ..Surroundings::default()
        };
        around.taken.extend(self.deeds.iter().map(Deed::edges));
        around.taken.extend(self.notes.iter().chain(&self.pauses).map(Text::edges));
        for (index, fan) in self.fans.iter().enumerate() {
            let heads = fan.arrows.iter().map(|(arrow, _)| Rect::around(arrow.to, HEAD, HEAD));
            around.taken.extend(heads);
            around.arrows.extend(fan.arrows.iter().map(|(segment, _)| (index, *segment)));
        }
        let mut crowded = Vec::new();
        for (index, (fan, bundle)) in self.fans.iter_mut().zip(&scene.bundles).enumerate() {
            match around.place(index, fan.label.width(), LABEL) {
                Some(at) => fan.label.at = at,
                None => {
                    crowded.push(bundle.sent);
                    let first = fan.arrows.first();
                    fan.label.at = first.map_or(Point::default(), |(arrow, _)| arrow.at(0.5));
                }
            }
            around.taken.push(fan.label.edges());
        }
        crowded.dedup();
        crowded
    }

    /// Whether an arrow runs behind what stands there.
    pub fn is_crossed(&self, place: &Rect) -> bool {
        let arrows = self.fans.iter().flat_map(|fan| &fan.arrows);
        arrows.into_iter().any(|(arrow, _)| place.crossed_by(arrow) > 0.0)
    }

    /// All texts but names and times, with their edges: none meets another.
    #[cfg(test)]
    pub fn texts(&self) -> Vec<(&str, Rect)> {
        let labels = self.fans.iter().map(|fan| &fan.label);
        let texts = self.notes.iter().chain(&self.pauses).chain(labels);
        let texts = texts.map(|text| (text.text.as_str(), text.edges()));
        texts.chain(self.deeds.iter().map(|deed| (deed.line.text.as_str(), deed.edges()))).collect()
    }
}

impl Column {
    fn stretch(&mut self, scene: &Scene, bands: &[Band], end: f64, who: usize) {
        let mut absences: Vec<(f64, f64)> = Vec::new();
        for Absence { who: _, since, until } in scene.absences.iter().filter(|a| a.who == who) {
            let line = |moment: usize, mark: Mark| {
                let lines = scene.moments.get(moment).and_then(|moment| moment.lines.get(who));
                let row = lines.and_then(|lines| lines.iter().position(|l| l.mark == mark));
                let top = bands.get(moment).map_or(HEADER, |band| band.top);
                top + LINE * (row.unwrap_or_default() as f64 + 0.5)
            };
            let from = since.map_or(HEADER - 16.0, |since| line(since, Mark::Down));
            absences.push((from, until.map_or(end, |until| line(until, Mark::Up))));
        }
        let mut stretches = Vec::new();
        let mut from = HEADER - 16.0;
        for (moment, (band, below)) in bands.iter().zip(bands.iter().skip(1)).enumerate() {
            if scene.pause_below(moment).is_some() {
                stretches.push((from, band.bottom + 4.0, true));
                stretches.push((band.bottom + 4.0, below.top - 4.0, false));
                from = below.top - 4.0;
            }
        }
        stretches.push((from, end, true));
        for (from, to, whole) in stretches {
            let mut from = from;
            for &(gone, back) in &absences {
                let (gone, back) = (gone.clamp(from, to), back.clamp(from, to));
                self.draw(from, gone, whole);
                if gone < back {
                    self.away.push((gone, back));
                }
                from = back;
            }
            self.draw(from, to, whole);
        }
    }

    fn draw(&mut self, from: f64, to: f64, whole: bool) {
        if from < to {
            let stretches = if whole { &mut self.runs } else { &mut self.cut_short };
            stretches.push((from, to));
        }
    }
}

/// Where the first lifeline is: right of the times.
fn first(scene: &Scene) -> f64 {
    let times = scene.moments.iter().map(|moment| width(&moment.at.time.to_string()));
    times.fold(width("ms"), f64::max) + TIMES + 12.0
}

/// From one lifeline to the next: room for what stands beside it.
fn step(scene: &Scene) -> f64 {
    let lines = scene.moments.iter().flat_map(|moment| moment.lines.iter().flatten());
    let widest =
        lines.map(|line| width(&line.text) + if line.view.is_some() { 21.0 } else { 11.0 });
    (widest.fold(0.0, f64::max) + 26.0).max(120.0)
}

/// The space below each moment, as if all labels fitted.
fn spaces(scene: &Scene) -> Vec<f64> {
    let crosses = |below: usize| {
        scene.bundles.iter().filter(move |b: &&Bundle| b.sent <= below && below < b.arrived)
    };
    (0..scene.moments.len())
        .map(|below| match (crosses(below).next().is_some(), scene.pause_below(below)) {
            (true, _) => CROSSED,
            (false, Some(_)) => 34.0,
            (false, None) => 10.0,
        })
        .collect()
}

/// How many messages go each way.
fn ways(scene: &Scene) -> BTreeMap<Way, usize> {
    let mut ways = BTreeMap::new();
    for bundle in &scene.bundles {
        for arrow in &bundle.arrows {
            *ways.entry((bundle.sent, bundle.arrived, arrow.from, arrow.to)).or_default() += 1;
        }
    }
    ways
}

fn bands(scene: &Scene, spaces: &[f64]) -> Vec<Band> {
    let mut top = HEADER;
    let mut bands = Vec::new();
    for (index, moment) in scene.moments.iter().enumerate() {
        let rows = moment.lines.iter().map(Vec::len).max().unwrap_or_default().max(1);
        let notes = top + LINE * rows as f64 + 2.0;
        let bottom = notes + LINE * moment.notes.len() as f64;
        bands.push(Band { top, bottom, notes });
        top = bottom + spaces.get(index).copied().unwrap_or_default();
    }
    bands
}
