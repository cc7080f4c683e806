//! One page with everything: it needs no other file and no network.

use std::fmt::Write as _;

use super::charts::Picture;
use super::{doubts, group, settings};
use crate::experiment::{Plan, Row, SourceNumber, Study};
use quorate_plot::number;

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
.wide { overflow-x: auto; font-size: .82rem; } .wide th, .wide td { padding-right: .6rem; }
.wide th { vertical-align: bottom; }
";

/// The figures of the table: name, and what stands in its head, which may break at a `<wbr>`.
const COLUMNS: [(&str, &str); 8] = [
    ("throughput", "offered<wbr>/s"),
    ("goodput", "goodput<wbr>/s"),
    ("mean_ms", "mean ms"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("max_ms", "max ms"),
    ("commands_per_block", "commands<wbr>/block"),
    ("memory_mib", "MiB"),
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
    let _ = writeln!(html, "<{tag}>{}</{tag}>", marked(text.trim()));
}

/// Text of a study with its Markdown: code between backticks, emphasis between asterisks. Other
/// signs stand for themselves.
fn marked(text: &str) -> String {
    let text = escaped(text);
    let (mut html, mut rest) = (String::new(), text.as_str());
    while let Some((before, sign, after)) = split_at_sign(rest) {
        html.push_str(before);
        let tag = if sign == '`' { "code" } else { "em" };
        match after.split_once(sign) {
            Some((inside, behind)) if !inside.is_empty() && inside == inside.trim() => {
                let _ = write!(html, "<{tag}>{inside}</{tag}>");
                rest = behind;
            }
            _ => {
                html.push(sign);
                rest = after;
            }
        }
    }
    html.push_str(rest);
    html
}

fn split_at_sign(text: &str) -> Option<(&str, char, &str)> {
    let at = text.find(['`', '*'])?;
    let (before, from) = text.split_at(at);
    let sign = from.chars().next()?;
    Some((before, sign, from.get(1..)?))
}

/// "1 run", "1,200 runs".
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count as f64))
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
             runs. It shows that the study works, and is not to be quoted. The description above is of the full \
             study.</p>\n",
        );
    }
    let _ = writeln!(
        html,
        "<p>{}, {} of {} (repeats asked for: {}) in random order (seed {}), each in its own \
         processes with clean homes: {:?} measured, at least {:?} of load before, intervals of {:?}. Latency counts \
         from the time at which a command was to be submitted. Ranges are 95 % confidence intervals of the mean \
         over the repeats, by Student's t distribution; no range is shown of a single run.</p>",
        counted(plan.settings.len(), "permutation"),
        number(rows.len() as f64),
        counted(plan.runs.len(), "run"),
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
        "<p>{} with {} that replicas, clients and measuring share, {:.0} GiB of memory, Linux {}. Other processes \
         took up to {} cores while something was measured; the load average before a run was up to {load:.1}.</p>",
        escaped(&context.processor),
        counted(context.cores, "core"),
        context.memory_mib as f64 / 1024.0,
        escaped(&context.kernel),
        number(foreign),
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
    let part = |(words, count): &(String, usize)| {
        format!("{} of {}", counted(*count, "run"), escaped(words))
    };
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
    for (_, head) in COLUMNS {
        let _ = write!(html, "<th class=\"n\">{head}</th>");
    }
    html.push_str("</tr>\n");
    for settings in &plan.settings {
        let runs = group::rows(rows, &[settings]);
        html.push_str("<tr>");
        for axis in &axes {
            let value = group::shown(&settings.point, axis).unwrap_or_default();
            let _ = write!(html, "<td>{}</td>", escaped(&value));
        }
        let _ = write!(html, "<td class=\"n\">{}</td>", runs.len());
        for (name, _) in COLUMNS {
            let text = group::estimate(&runs, name).map_or_else(String::new, |estimate| {
                let mean = number(estimate.mean);
                let half = estimate.half_width.map(number);
                half.map_or(mean.clone(), |half| format!("{mean} ± {half}"))
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
            marked(source.says.trim())
        );
        numbers(html, &source.number, rows);
    }
}

/// The numbers of a document beside ours.
fn numbers(html: &mut String, of_source: &[SourceNumber], rows: &[Row]) {
    if of_source.is_empty() {
        return;
    }
    let found: Vec<Result<f64, &str>> = of_source.iter().map(|one| ours(one, rows)).collect();
    // Where theirs is words, the words stand.
    let ratio = |(number, ours): (&SourceNumber, &Result<f64, &str>)| {
        Some(ours.ok()? / value_of(&number.theirs)?)
    };
    let ratios: Vec<Option<f64>> = of_source.iter().zip(&found).map(ratio).collect();
    let has_ratios = ratios.iter().any(Option::is_some);
    let head = if has_ratios { "<th class=\"n\">here : there</th>" } else { "" };
    let _ = writeln!(
        html,
        "<table><tr><th>what</th><th class=\"n\">there</th><th class=\"n\">here</th>{head}</tr>"
    );
    for ((one, ours), ratio) in of_source.iter().zip(found).zip(ratios) {
        let ratio = ratio.map_or_else(String::new, number);
        let last = if has_ratios { format!("<td class=\"n\">{ratio}</td>") } else { String::new() };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{last}</tr>",
            escaped(&one.what),
            escaped(&one.theirs),
            ours.map_or_else(str::to_owned, number),
        );
    }
    html.push_str("</table>\n");
}

/// Ours beside a document's number: the mean of the permutation that has most (or least) of it, of
/// those that fit. Or why there is none: the study may have been cut short, or have failed there.
fn ours(number: &SourceNumber, rows: &[Row]) -> Result<f64, &'static str> {
    let fits = |row: &&Row| {
        let point = &row.settings.point;
        number.at.iter().all(|(axis, value)| point.text(axis) == Some(value.to_string()))
    };
    let fitting: Vec<&Row> = rows.iter().filter(fits).collect();
    if fitting.is_empty() {
        return Err("not in these runs");
    }
    let means = fitting.iter().filter_map(|row| {
        let same: Vec<&Row> =
            fitting.iter().filter(|other| other.settings == row.settings).copied().collect();
        Some(group::estimate(&same, &number.figure)?.mean)
    });
    let most = match number.least {
        true => means.reduce(f64::min),
        false => means.reduce(f64::max),
    };
    most.ok_or("not measured")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_code_and_emphasis_are_not_shown_but_obeyed() {
        for (text, html) in [
            ("`a_b` has *slow* leaders", "<code>a_b</code> has <em>slow</em> leaders"),
            ("`a<b` & c", "<code>a&lt;b</code> &amp; c"),
            ("3 * 4 * 5, and 2*3", "3 * 4 * 5, and 2*3"),
            ("one ` alone", "one ` alone"),
        ] {
            assert_eq!(marked(text), html);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(
            (counted(0, "run"), counted(1200, "run")),
            ("0 runs".into(), "1,200 runs".into())
        );
    }
}
