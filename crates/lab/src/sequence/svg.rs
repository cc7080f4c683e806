//! Writes the picture down. Colours are classes: one for each of five blocks in turn, the same for
//! a block's proposal, its votes, its certificate and its commit. They stand out from the paper and
//! can be told apart with every kind of colour vision, in light and in dark surroundings (the tests
//! measure both); and every name is written out.

use std::fmt::Write as _;

use super::layout::{Column, Deed, Fan, Layout, Text};
use super::place::{Point, Rect, Segment, width};
use super::words::{self, Kind, Mark};

/// How many colours blocks take in turn.
const COLOURS: u64 = 5;

/// Classes: `bg` paper, `lb` paper behind a label, `nb` a pill, `hl` an instant, `u` a lifeline,
/// `z` time cut short, `w` away; texts `t` time, `n` note, `m` by its middle, `e` event, `b` bold;
/// arrows `P` `V` `T` `O` by kind, `h` their heads; marks `d` solid, `o` hollow, `x` without a
/// block; `kN` and `cN` strokes and fills of a block, `k` of none.
const STYLE: &str = "\
text{font:12px system-ui,'Segoe UI',Roboto,Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#24292f;dominant-baseline:central}\
tspan{font-weight:600}\
path,rect,circle{fill:none;stroke:#57606a;stroke-width:1.3}\
.bg{fill:#fff;stroke:#d8dee4}.lb{fill:#fff;fill-opacity:.88;stroke:none}.nb{fill:#f6f8fa;stroke:#d0d7de}\
.hl{stroke:#eaeef2}.u{stroke:#8c959f}.z{stroke-dasharray:1 4}.w{stroke:#c9d1d9;stroke-dasharray:2 6}\
.t,.n{fill:#57606a}.t{text-anchor:end;font-size:11px}.n{font-style:italic}.n,.m{text-anchor:middle}.b{font-weight:700}\
.k.d{fill:#57606a}.P{stroke-width:2.2}.T,.x{stroke:#24292f}.T{stroke-dasharray:6 3}.O{stroke-dasharray:2 3}.x{stroke-width:2}\
.h{stroke-width:.8;stroke-dasharray:none}.k.h{fill:#57606a}.T.h{fill:#24292f}.o{fill:#fff;stroke-width:1.8}\
";

/// Stroke and fill of each colour in light, then in dark surroundings.
pub(super) const PALETTE: [(&str, &str); COLOURS as usize] = [
    ("#014fd7", "#5994fe"),
    ("#a36a0c", "#b6893f"),
    ("#125b4e", "#54f9a5"),
    ("#bb1b9d", "#e761ac"),
    ("#554d1b", "#e0de49"),
];

const DARK: &str = "\
text{fill:#e6edf3}path,rect,circle{stroke:#8b949e}\
.bg{fill:#0d1117;stroke:#30363d}.lb{fill:#0d1117;stroke:none}.nb{fill:#161b22;stroke:#3d444d}\
.hl{stroke:#1c2128}.u{stroke:#6e7681}.w{stroke:#30363d}\
.t,.n{fill:#9198a1}.k.d,.k.h{fill:#8b949e}.T,.x{stroke:#e6edf3}.T.h{fill:#e6edf3}.o{fill:#0d1117}\
";

/// The picture as one SVG document.
pub fn write(title: &str, layout: &Layout) -> String {
    let mut svg = String::new();
    let (width, height) = (Px(layout.width), Px(layout.height));
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}",
        escaped(title)
    );
    colours(&mut svg, |(light, _)| light);
    let _ = write!(svg, "@media(prefers-color-scheme:dark){{{DARK}");
    colours(&mut svg, |(_, dark)| dark);
    svg.push_str("}</style>\n");
    let (inner_width, inner_height) = (Px(layout.width - 1.0), Px(layout.height - 1.0));
    let _ = writeln!(
        svg,
        "<rect class=\"bg\" x=\".5\" y=\".5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"8\"/>"
    );
    times(&mut svg, layout);
    layout.columns.iter().for_each(|column| lifeline(&mut svg, column, layout.height));
    layout.fans.iter().for_each(|fan| arrows(&mut svg, fan));
    for note in &layout.notes {
        boxed(&mut svg, note.at, note.width() + 8.0);
        text(&mut svg, "n", note.at, &note.text);
    }
    for (class, label) in labels(layout) {
        paper(&mut svg, &label.edges());
        text(&mut svg, class, label.at, &label.text);
    }
    for deed in &layout.deeds {
        let edges = Rect { left: deed.text_left() - 2.0, ..deed.edges() };
        if layout.is_crossed(&edges) {
            paper(&mut svg, &edges);
        }
        mark(&mut svg, deed);
    }
    svg.push_str("</svg>\n");
    svg
}

fn labels(layout: &Layout) -> impl Iterator<Item = (&'static str, &Text)> {
    let pauses = layout.pauses.iter().map(|pause| ("n", pause));
    layout.fans.iter().map(|fan| ("m", &fan.label)).chain(pauses)
}

/// What keeps a text legible where something runs behind it.
fn paper(svg: &mut String, place: &Rect) {
    let (width, height) = (Px(place.right - place.left), Px(place.bottom - place.top));
    let (x, y) = (Px(place.left), Px(place.top));
    let _ = write!(
        svg,
        "<rect class=\"lb\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\"/>"
    );
}

fn colours(svg: &mut String, of: impl Fn((&'static str, &'static str)) -> &'static str) {
    for (index, pair) in PALETTE.into_iter().enumerate() {
        let colour = of(pair);
        let _ = write!(
            svg,
            ".k{index}{{stroke:{colour}}}.k{index}.h,.k{index}.d,.c{index}{{fill:{colour}}}"
        );
    }
}

/// A block's colour: the next for each view, and for each further block of one view.
fn colour((view, primes): (u64, usize)) -> u64 {
    (view % COLOURS + 2 * (primes as u64 % COLOURS)) % COLOURS
}

fn class(block: Option<(u64, usize)>) -> String {
    block.map_or_else(|| "k".into(), |block| format!("k{}", colour(block)))
}

fn times(svg: &mut String, layout: &Layout) {
    let first = layout.columns.first().map_or(0.0, |column| column.x);
    let _ = writeln!(svg, "<text class=\"t\" x=\"{}\" y=\"26\">ms</text>", Px(first - 34.0));
    let right = Px(layout.width - 8.0);
    for time in &layout.times {
        let y = Px(time.at.y);
        let _ = write!(svg, "<path class=\"hl\" d=\"M{} {y}H{right}\"/>", Px(time.at.x + 6.0));
        text(svg, "t", time.at, &time.text);
    }
}

fn lifeline(svg: &mut String, column: &Column, height: f64) {
    for (class, stretches) in [("u", &column.runs), ("u z", &column.cut_short), ("w", &column.away)]
    {
        if stretches.is_empty() {
            continue;
        }
        let _ = write!(svg, "<path class=\"{class}\" d=\"");
        for (from, to) in stretches {
            let _ = write!(svg, "M{} {}V{}", Px(column.x), Px(*from), Px(*to));
        }
        svg.push_str("\"/>\n");
    }
    for y in [26.0, height - 22.0] {
        let at = Point { x: column.x, y };
        boxed(svg, at, width(&column.name) + 20.0);
        text(svg, "m b", at, &column.name);
    }
}

fn boxed(svg: &mut String, middle: Point, width: f64) {
    let (x, y) = (Px(middle.x - width / 2.0), Px(middle.y - 9.0));
    let _ = write!(
        svg,
        "<rect class=\"nb\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"18\" rx=\"9\"/>",
        Px(width)
    );
}

fn arrows(svg: &mut String, fan: &Fan) {
    let style = match fan.kind {
        Kind::Proposal => "P",
        Kind::Vote => "V",
        Kind::TimeOut => "T",
        Kind::Other => "O",
    };
    let class = format!("{} {style}", class(fan.block));
    let _ = write!(svg, "<path class=\"{class}\" d=\"");
    for (arrow, _) in &fan.arrows {
        let (from, to) = (arrow.from, arrow.to);
        let _ = write!(svg, "M{} {}L{} {}", Px(from.x), Px(from.y), Px(to.x), Px(to.y));
    }
    let _ = write!(svg, "\"/><path class=\"{class} h\" d=\"");
    for (arrow, lost) in &fan.arrows {
        if *lost {
            let Point { x, y } = arrow.to;
            let _ = write!(svg, "M{} {}l8 8m0 -8l-8 8", Px(x - 4.0), Px(y - 4.0));
        } else {
            head(svg, arrow);
        }
    }
    svg.push_str("\"/>\n");
}

/// A triangle at the end of an arrow.
fn head(svg: &mut String, arrow: &Segment) {
    let (dx, dy) = (arrow.to.x - arrow.from.x, arrow.to.y - arrow.from.y);
    let length = arrow.length().max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let tip = arrow.to;
    let back = Point { x: tip.x - 8.0 * ux, y: tip.y - 8.0 * uy };
    let (wx, wy) = (-3.4 * uy, 3.4 * ux);
    let _ = write!(
        svg,
        "M{} {}L{} {}L{} {}z",
        Px(tip.x),
        Px(tip.y),
        Px(back.x + wx),
        Px(back.y + wy),
        Px(back.x - wx),
        Px(back.y - wy)
    );
}

fn mark(svg: &mut String, deed: &Deed) {
    let (x, y) = (Px(deed.at.x), Px(deed.at.y));
    let class = class(words::block(&deed.line.text));
    let _ = match deed.line.mark {
        Mark::View => {
            boxed(svg, deed.at, 28.0);
            text(svg, "m", deed.at, deed.line.view.as_deref().unwrap_or_default());
            Ok(())
        }
        Mark::Propose => write!(
            svg,
            "<path class=\"{class} d\" d=\"M{} {}h9v9h-9z\"/>",
            Px(deed.at.x - 4.5),
            Px(deed.at.y - 4.5)
        ),
        Mark::Certificate => write!(
            svg,
            "<path class=\"{class} o\" d=\"M{x} {}l6 6l-6 6l-6 -6z\"/>",
            Px(deed.at.y - 6.0)
        ),
        Mark::Commit => write!(
            svg,
            "<circle class=\"{class} o\" cx=\"{x}\" cy=\"{y}\" r=\"7\"/><circle class=\"{class} d\" cx=\"{x}\" cy=\"{y}\" r=\"3.6\"/>"
        ),
        Mark::GiveUp => write!(svg, "<circle class=\"x o\" cx=\"{x}\" cy=\"{y}\" r=\"4.5\"/>"),
        Mark::Down => write!(
            svg,
            "<path class=\"x\" d=\"M{} {}l10 10m0 -10l-10 10\"/>",
            Px(deed.at.x - 5.0),
            Px(deed.at.y - 5.0)
        ),
        Mark::Vote | Mark::Plain | Mark::Up => {
            write!(svg, "<circle class=\"{class} d\" cx=\"{x}\" cy=\"{y}\" r=\"3.6\"/>")
        }
    };
    let at = Point { x: deed.text_left(), y: deed.at.y };
    let class = if deed.line.mark == Mark::Commit { "e b" } else { "e" };
    if !deed.line.text.is_empty() {
        text(svg, class, at, &deed.line.text);
    }
}

/// A text, blocks in their colours.
fn text(svg: &mut String, class: &str, at: Point, words: &str) {
    let _ = write!(svg, "<text class=\"{class}\" x=\"{}\" y=\"{}\">", Px(at.x), Px(at.y));
    let mut done = 0;
    for (start, end, block) in words::blocks(words) {
        let (before, name) = (words.get(done..start), words.get(start..end));
        let (before, name) = (before.unwrap_or_default(), name.unwrap_or_default());
        let _ = write!(
            svg,
            "{}<tspan class=\"c{}\">{}</tspan>",
            escaped(before),
            colour(block),
            escaped(name)
        );
        done = end;
    }
    let _ = writeln!(svg, "{}</text>", escaped(words.get(done..).unwrap_or_default()));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A length, to a tenth of a pixel.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round();
        if tenths % 10.0 == 0.0 {
            write!(f, "{}", tenths / 10.0)
        } else {
            write!(f, "{:.1}", tenths / 10.0)
        }
    }
}
