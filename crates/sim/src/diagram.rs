//! A run in time and space: replicas side by side, time downwards, an arrow for each message.
//!
//! Instants are drawn at equal distances, however far they lie apart: what matters in a protocol is
//! the order, and a time-out is a thousand times as long as a message.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorate_core::Time;

use super::lines::{Kind, Line, apart};

/// Pixels between replicas, and between instants.
const COLUMN: usize = 190;
const ROW: usize = 18;
/// Pixels left of the first replica, and above the first instant.
const LEFT: usize = 90;
const TOP: usize = 40;

/// The lines as text, one each.
#[must_use]
pub fn text(lines: &[Line]) -> String {
    apart(lines).into_iter().map(|line| line + "\n").collect()
}

/// A page of its own with the diagram and, under it, the lines.
#[must_use]
pub fn html(title: &str, lines: &[Line]) -> String {
    let title = escaped(title);
    let (svg, trace) = (svg(lines), escaped(&text(lines)));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>\n\
         :root {{ color-scheme: light dark; font: 13px/1.4 system-ui, sans-serif }}\n\
         body {{ margin: 1.5rem }} svg {{ display: block; overflow: visible }} text {{ fill: currentColor }}\n\
         .life {{ stroke: currentColor; opacity: .25 }} .when {{ font-size: 10px; opacity: .6 }}\n\
         .event {{ font-size: 10px }} .arrow {{ fill: none; stroke-width: 1.2 }}\n\
         .arrow:hover {{ stroke-width: 4 }} pre {{ font-size: 11px }}\n\
         </style></head><body>\n<h1>{title}</h1>\n\
         <p>Time runs downwards; instants are drawn at equal distances. Blue: proposals; green: votes; orange: \
         time-outs and new views; purple: blocks and states for those behind; grey: the rest; red and \
         broken: refused. Hover over an arrow to read it.</p>\n{svg}\n<h2>Trace</h2>\n<pre>{trace}</pre>\n</body></html>\n"
    )
}

fn svg(lines: &[Line]) -> String {
    let mut rows: BTreeMap<Time, usize> = BTreeMap::new();
    let mut columns = 0;
    for line in lines {
        rows.entry(line.at).or_default();
        columns = columns.max(line.who + 1);
        if let Kind::Delivery(from) = line.kind {
            columns = columns.max(from + 1);
        }
    }
    // As high as the most that one replica does at the instant.
    let mut own: BTreeMap<(Time, usize), usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.kind == Kind::Event) {
        let count = own.entry((line.at, line.who)).or_default();
        *count += 1;
        let height = rows.entry(line.at).or_default();
        *height = (*height).max(*count);
    }
    let mut y = TOP;
    for height in rows.values_mut() {
        let lines = (*height).max(1);
        *height = y;
        y += ROW * lines;
    }
    let mut svg = format!("<svg width=\"{}\" height=\"{}\">\n", x(columns) + 40, y + TOP);
    for slot in 0..columns {
        let at = x(slot);
        let _ = writeln!(
            svg,
            "<text x=\"{at}\" y=\"16\">r{slot}</text><line class=\"life\" x1=\"{at}\" x2=\"{at}\" y1=\"24\" y2=\"{y}\"/>"
        );
    }
    for (at, y) in &rows {
        let millis = at.0 as f64 / 1e6;
        let _ = writeln!(svg, "<text class=\"when\" x=\"0\" y=\"{}\">{millis:.3} ms</text>", y + 4);
    }
    draw_lines(&mut svg, lines, &rows);
    svg + "</svg>"
}

/// The events as dots with words, the deliveries as arrows; `rows` says how far down an instant is.
fn draw_lines(svg: &mut String, lines: &[Line], rows: &BTreeMap<Time, usize>) {
    let mut own: BTreeMap<(Time, usize), usize> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        let (at, to) = (rows[&line.at], x(line.who));
        match line.kind {
            Kind::Event => {
                let place = own.entry((line.at, line.who)).or_default();
                let y = at + ROW * *place;
                *place += 1;
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{to}\" cy=\"{y}\" r=\"2.5\" fill=\"currentColor\"/><text class=\"event\" x=\"{}\" y=\"{}\">{}</text>",
                    to + 6,
                    y + 3,
                    escaped(&line.words)
                );
            }
            Kind::Delivery(from) => {
                let refused = lines.get(index + 1).is_some_and(|next| {
                    matches!(next.kind, Kind::Refusal(whose, _) if whose == from)
                        && next.who == line.who
                });
                let sent = line.sent.unwrap_or(line.at);
                let start = rows.range(..=sent).next_back().map_or(TOP - ROW, |(_, y)| *y);
                let dash = if refused { " stroke-dasharray=\"4 3\"" } else { "" };
                let colour = if refused { "#c62828" } else { colour(&line.words) };
                let _ = writeln!(
                    svg,
                    "<line class=\"arrow\" stroke=\"{colour}\"{dash} x1=\"{}\" y1=\"{start}\" x2=\"{to}\" y2=\"{at}\"><title>r{from} → r{}: {}</title></line><circle cx=\"{to}\" cy=\"{at}\" r=\"2\" fill=\"{colour}\"/>",
                    x(from),
                    line.who,
                    escaped(&line.words)
                );
            }
            Kind::Refusal(..) => {}
        }
    }
}

/// Where a replica's line of life is.
fn x(slot: usize) -> usize {
    LEFT + slot * COLUMN
}

/// By what a message is, in colours that all tell apart.
fn colour(words: &str) -> &'static str {
    let begins = |with: &[&str]| with.iter().any(|with| words.starts_with(with));
    if begins(&["proposal"]) {
        "#0072b2"
    } else if begins(&["vote"]) {
        "#009e73"
    } else if begins(&["time-out", "new-view"]) {
        "#e69f00"
    } else if begins(&["sends", "asks", "offers", "testifies"]) {
        "#9467bd"
    } else {
        "#888888"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
