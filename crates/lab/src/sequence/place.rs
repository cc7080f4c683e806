//! Where labels go: on their arrows, never on each other.

/// A point, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Where it begins.
    pub from: Point,
    /// Where it ends.
    pub to: Point,
}

impl Segment {
    /// From its beginning to its end.
    pub fn length(&self) -> f64 {
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        (dx * dx + dy * dy).sqrt()
    }

    /// The point that far along it: 0 is its beginning, 1 its end.
    pub fn at(&self, share: f64) -> Point {
        Point {
            x: self.from.x + (self.to.x - self.from.x) * share,
            y: self.from.y + (self.to.y - self.from.y) * share,
        }
    }
}

/// A box around a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its right edge.
    pub right: f64,
    /// Its lower edge.
    pub bottom: f64,
}

impl Rect {
    /// Around a point.
    pub fn around(middle: Point, width: f64, height: f64) -> Self {
        Self {
            left: middle.x - width / 2.0,
            top: middle.y - height / 2.0,
            right: middle.x + width / 2.0,
            bottom: middle.y + height / 2.0,
        }
    }

    /// Whether two boxes share a point.
    pub fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// How many pixels of a line run through it: the line is clipped by one edge after the other
    /// (Liang and Barsky).
    pub fn crossed_by(&self, line: &Segment) -> f64 {
        let (dx, dy) = (line.to.x - line.from.x, line.to.y - line.from.y);
        let edges = [
            (-dx, line.from.x - self.left),
            (dx, self.right - line.from.x),
            (-dy, line.from.y - self.top),
            (dy, self.bottom - line.from.y),
        ];
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (speed, distance) in edges {
            if speed == 0.0 && distance < 0.0 {
                return 0.0;
            }
            if speed < 0.0 {
                enters = enters.max(distance / speed);
            } else if speed > 0.0 {
                leaves = leaves.min(distance / speed);
            }
        }
        (leaves - enters).max(0.0) * line.length()
    }
}

/// What labels must keep clear of, and what they had better.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The part of the picture where labels may be.
    pub inside: Option<Rect>,
    /// Texts and marks: no label covers one.
    pub taken: Vec<Rect>,
    /// Where the lifelines are, from the left.
    pub lifelines: Vec<f64>,
    /// All arrows, each with the number of its bundle.
    pub arrows: Vec<(usize, Segment)>,
}

/// How far along its arrow a label may sit, the middle first.
const SHARES: [f64; 9] = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];

impl Surroundings {
    /// The middle of a label of that size for a bundle, on one of its arrows; nothing if there is
    /// no place that is free.
    pub fn place(&self, bundle: usize, width: f64, height: f64) -> Option<Point> {
        let own = || self.arrows.iter().filter(|(of, _)| *of == bundle);
        let mut best: Option<(f64, Point)> = None;
        for (_, arrow) in own() {
            for share in SHARES {
                let middle = arrow.at(share);
                let label = Rect::around(middle, width, height);
                let inside = self.inside.is_none_or(|all| {
                    all.left <= label.left
                        && label.right <= all.right
                        && all.top <= label.top
                        && label.bottom <= all.bottom
                });
                if !inside || self.taken.iter().any(|taken| taken.meets(&label)) {
                    continue;
                }
                let cost = self.cost(bundle, arrow, &label) + (share - 0.5).abs() * 40.0;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, middle));
                }
            }
        }
        best.map(|(_, middle)| middle)
    }

    /// What the label would hide: pixels of other arrows, the share of its own, and lifelines.
    fn cost(&self, bundle: usize, on: &Segment, label: &Rect) -> f64 {
        let others = self
            .arrows
            .iter()
            .filter(|(_, arrow)| arrow != on)
            .map(|(of, arrow)| label.crossed_by(arrow) * if *of == bundle { 0.7 } else { 2.0 });
        let own = 80.0 * label.crossed_by(on) / on.length().max(1.0);
        let lifelines = self.lifelines.iter().filter(|x| label.left < **x && **x < label.right);
        others.sum::<f64>() + own + 25.0 * lifelines.count() as f64
    }
}

/// How wide a text is at most, in pixels at a size of 12: as in the widest of the usual fonts.
pub fn width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '\'' | '|' => 3.6,
            'f' | 'r' | 't' | '.' | ',' | ':' | '(' | ')' | ' ' | '·' | '-' => 4.8,
            'm' | 'w' | 'M' | 'W' | '→' => 11.8,
            c if c.is_ascii_uppercase() => 9.0,
            _ => 7.5,
        })
        .sum()
}
