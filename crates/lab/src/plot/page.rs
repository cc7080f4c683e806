//! One page with everything: it needs no other file and no network.

use std::fmt::Write as _;

use super::charts::Picture;
use super::{doubts, group, settings};
use crate::experiment::{Plan, Row, SourceNumber, Study};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1240px;
  padding: 1rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
p { max-width: 52rem; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n, th.n { text-align: right; }
figure { margin: 0; border: 1px solid #ddd; } figure svg { display: block; width: 100%; height: auto; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1rem;
  align-items: start; }
.doubt { color: #8a3b00; } code { background: #f3f3f3; padding: 0 .2em; }
.wide { overflow-x: auto; }
";

/// The figures of the table: name, what stands in its head, digits.
const COLUMNS: [(&str, &str, usize); 8] = [
    ("throughput", "offered/s", 0),
    ("goodput", "goodput/s", 0),
    ("mean_ms", "mean ms", 2),
    ("p50_ms", "p50 ms", 2),
    ("p99_ms", "p99 ms", 2),
    ("max_ms", "max ms", 1),
    ("commands_per_block", "commands/block", 0),
    ("memory_mib", "MiB", 0),
];

/// The page.
#[must_use]
pub fn page(study: &Study, plan: &Plan, rows: &[Row], pictures: &[Picture]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{0}</title>\n<style>{STYLE}</style></head>\n\
         <body>\n<h1>{0}</h1>\n",
        escaped(&study.title)
    );
    for part in study.about.split("\n\n").filter(|part| !part.trim().is_empty()) {
        paragraph(&mut html, "p", part);
    }
    measured(&mut html, study, plan, rows);
    failures(&mut html, rows);
    doubts::list(&mut html, rows);
    html.push_str("<h2>Pictures</h2>\n<div class=\"pictures\">\n");
    for picture in pictures {
        let _ = writeln!(html, "<figure id=\"{}\">{}</figure>", picture.name, inlined(picture));
    }
    html.push_str("</div>\n");
    table(&mut html, plan, rows);
    sources(&mut html, study, rows);
    settings::table(&mut html, plan);
    html.push_str("</body></html>\n");
    html
}

// Writing to a string does not fail: its results are not looked at on this page.

fn paragraph(html: &mut String, tag: &str, text: &str) {
    let _ = writeln!(html, "<{tag}>{}</{tag}>", escaped(text.trim()));
}

/// An SVG inside the page, with a name for who does not see it.
fn inlined(picture: &Picture) -> String {
    let start = picture.svg.find("<svg").unwrap_or(0);
    let svg = picture.svg.get(start..).unwrap_or_default();
    let head = format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(&picture.title));
    svg.replacen("<svg ", &head, 1)
}

fn measured(html: &mut String, study: &Study, plan: &Plan, rows: &[Row]) {
    let measuring = &plan.measuring;
    html.push_str("<h2>How it was measured</h2>\n");
    if study.is_quick {
        html.push_str(
            "<p class=\"doubt\">This is the quick form of the study (<code>--quick</code>): fewer values, shorter \
             runs. It shows that the study works, and is not to be quoted.</p>\n",
        );
    }
    let _ = writeln!(
        html,
        "<p>{} permutations, {} of {} runs (repeats asked for: {}) in random order (seed {}), each in its own \
         processes with clean homes: {:?} measured, at least {:?} of load before, intervals of {:?}. Latency counts \
         from the time at which a command was to be submitted. Ranges are 95 % confidence intervals of the mean \
         over the repeats, by Student's t distribution; no range is shown of a single run.</p>",
        plan.settings.len(),
        rows.len(),
        plan.runs.len(),
        measuring.repeats,
        measuring.seed,
        measuring.duration,
        measuring.warm_up,
        measuring.interval,
    );
    programs(html, rows);
    let Some(row) = rows.first() else { return };
    let context = &row.context;
    let foreign = rows.iter().filter_map(|row| row.foreign_cores).fold(0.0, f64::max);
    let load = rows.iter().filter_map(|row| Some(row.load_before?[0])).fold(0.0, f64::max);
    let _ = writeln!(
        html,
        "<p>{} with {} cores that replicas, clients and measuring share, {:.0} GiB of memory, Linux {}. Other \
         processes took up to {foreign:.2} cores while something was measured; the load average before a run was \
         up to {load:.1}.</p>",
        escaped(&context.processor),
        context.cores,
        context.memory_mib as f64 / 1024.0,
        escaped(&context.kernel),
    );
}

/// What was measured: one program, or which runs are whose.
fn programs(html: &mut String, rows: &[Row]) {
    let mut programs: Vec<(String, usize)> = Vec::new();
    for row in rows {
        let words = row.context.program_in_words();
        match programs.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => programs.push((words, 1)),
        }
    }
    let part = |(words, count): &(String, usize)| format!("{count} runs of {}", escaped(words));
    let parts: Vec<String> = programs.iter().map(part).collect();
    let _ = writeln!(html, "<p>Measured: {}.</p>", parts.join("; "));
}

fn failures(html: &mut String, rows: &[Row]) {
    let failed: Vec<&Row> = rows.iter().filter(|row| row.failure.is_some()).collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(html, "<h2>Runs that failed</h2>\n<ul class=\"doubt\">");
    for row in failed {
        let words = row.failure.as_deref().unwrap_or_default();
        let point = serde_json::to_string(&row.settings.point).unwrap_or_default();
        let _ = writeln!(
            html,
            "<li>{} <code>{}</code>, repeat {}</li>",
            escaped(words),
            escaped(&point),
            row.repeat + 1
        );
    }
    html.push_str("</ul>\n");
}

fn table(html: &mut String, plan: &Plan, rows: &[Row]) {
    let axes = plan.varying();
    html.push_str("<h2>Figures</h2>\n<div class=\"wide\"><table><tr>");
    for axis in &axes {
        let _ = write!(html, "<th>{}</th>", escaped(axis));
    }
    html.push_str("<th class=\"n\">runs</th>");
    for (_, head, _) in COLUMNS {
        let _ = write!(html, "<th class=\"n\">{head}</th>");
    }
    html.push_str("</tr>\n");
    for settings in &plan.settings {
        let runs = group::rows(rows, &[settings]);
        html.push_str("<tr>");
        for axis in &axes {
            let _ = write!(
                html,
                "<td>{}</td>",
                escaped(&settings.point.text(axis).unwrap_or_default())
            );
        }
        let _ = write!(html, "<td class=\"n\">{}</td>", runs.len());
        for (name, _, digits) in COLUMNS {
            let text = group::estimate(&runs, name).map_or_else(String::new, |estimate| {
                match estimate.half_width {
                    Some(half) => format!("{:.digits$} ± {half:.digits$}", estimate.mean),
                    None => format!("{:.digits$}", estimate.mean),
                }
            });
            let _ = write!(html, "<td class=\"n\">{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}

fn sources(html: &mut String, study: &Study, rows: &[Row]) {
    if study.source.is_empty() {
        return;
    }
    html.push_str("<h2>Beside what others measured</h2>\n");
    for source in &study.source {
        let _ = writeln!(
            html,
            "<p><b>{}, {}.</b> {}</p>",
            escaped(&source.document),
            escaped(&source.figure),
            escaped(source.says.trim())
        );
        if source.number.is_empty() {
            continue;
        }
        html.push_str(
            "<table><tr><th>what</th><th class=\"n\">there</th><th class=\"n\">here</th>\
             <th class=\"n\">here : there</th></tr>\n",
        );
        for number in &source.number {
            let ours = ours(number, rows);
            // Where theirs is words, the words stand.
            let ratio = ours.zip(value_of(&number.theirs)).map(|(ours, theirs)| ours / theirs);
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escaped(&number.what),
                escaped(&number.theirs),
                ours.map_or_else(|| "not measured".to_owned(), quorate_plot::number),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            );
        }
        html.push_str("</table>\n");
    }
}

/// Ours beside a document's number: the mean of the permutation that has most (or least) of it, of
/// those that fit.
fn ours(number: &SourceNumber, rows: &[Row]) -> Option<f64> {
    let fits = |row: &&Row| {
        let point = &row.settings.point;
        number.at.iter().all(|(axis, value)| point.text(axis) == Some(value.to_string()))
    };
    let fitting: Vec<&Row> = rows.iter().filter(fits).collect();
    let means = fitting.iter().filter_map(|row| {
        let same: Vec<&Row> =
            fitting.iter().filter(|other| other.settings == row.settings).copied().collect();
        Some(group::estimate(&same, &number.figure)?.mean)
    });
    match number.least {
        true => means.reduce(f64::min),
        false => means.reduce(f64::max),
    }
}

/// The number that a document's words begin with, above 0: 1300 of "about 1,300".
fn value_of(words: &str) -> Option<f64> {
    let first = words.trim_start_matches("about ").split([' ', ';']).next()?;
    let value: f64 = first.trim_end_matches(',').replace(',', "").parse().ok()?;
    (value > 0.0).then_some(value)
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
