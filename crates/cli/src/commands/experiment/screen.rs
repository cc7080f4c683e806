//! What is on the screen while a study runs, and the table in its end.

use std::io::Write as _;
use std::time::Duration;

use quorate_lab::experiment::{Estimate, Plan, Point, Progress, Row};

use crate::output::table;

/// Characters of the bar.
const BAR: usize = 24;

/// The line of how far it is; `since`: what has passed since the last run was done.
pub fn draw(progress: &Progress, since: Duration) {
    let Progress { runs, done, failed, .. } = progress;
    let filled = (BAR * done).checked_div(*runs).unwrap_or(BAR);
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(BAR - filled));
    let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    let left = span(progress.left().saturating_sub(since));
    let line = format!("[{bar}] {done}/{runs} runs{failed}, {left} left");
    // Whoever closed standard error does not want to see it.
    let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    let _ = std::io::stderr().flush();
}

/// Clears it.
pub fn clear() {
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

/// Tells of a run that is done.
pub fn tell(plan: &Plan, progress: &Progress, row: &Row, live: bool) {
    if live {
        clear();
    }
    let what = described(&row.settings.point, &plan.varying());
    let result = match (&row.figures, &row.failure) {
        (Some(figures), _) => format!(
            "{:.0}/s, p50 {:.2} ms, p99 {:.2} ms",
            figures.goodput, figures.p50_ms, figures.p99_ms
        ),
        (None, failure) => {
            format!("FAILED: {}", failure.as_deref().unwrap_or("no reason is known"))
        }
    };
    eprintln!(
        "[{}/{}] {what}, repeat {}: {result}; {} left",
        progress.done,
        progress.runs,
        row.repeat + 1,
        span(progress.left())
    );
}

fn described(point: &Point, axes: &[String]) -> String {
    let part = |axis: &String| Some(format!("{axis} {}", point.text(axis)?));
    let parts: Vec<String> = axes.iter().filter_map(part).collect();
    if parts.is_empty() { "the one permutation".to_owned() } else { parts.join(", ") }
}

fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A line a permutation: means of the repeats, with their 95 % confidence ranges.
pub fn for_people(plan: &Plan, rows: &[Row]) -> String {
    let axes = plan.varying();
    let head =
        ["PERMUTATION", "RUNS", "GOODPUT/S", "P50 MS", "P99 MS", "MEMORY MIB", "FOREIGN CORES"];
    let mut cells = Vec::new();
    for settings in &plan.settings {
        let runs: Vec<&Row> = rows.iter().filter(|row| row.settings == *settings).collect();
        let figure = |name: &str, digits: usize| {
            let values: Vec<f64> =
                runs.iter().filter_map(|row| row.figures.as_ref()?.number(name)).collect();
            Estimate::of(&values).map_or_else(String::new, |estimate| match estimate.half_width {
                Some(half) => format!("{:.digits$} ± {half:.digits$}", estimate.mean),
                None => format!("{:.digits$}", estimate.mean),
            })
        };
        let foreign: Vec<f64> = runs.iter().filter_map(|row| row.foreign_cores).collect();
        cells.push([
            described(&settings.point, &axes),
            runs.iter().filter(|row| row.figures.is_some()).count().to_string(),
            figure("goodput", 0),
            figure("p50_ms", 2),
            figure("p99_ms", 2),
            figure("memory_mib", 0),
            Estimate::of(&foreign).map_or_else(String::new, |one| format!("{:.2}", one.mean)),
        ]);
    }
    table(head, &cells)
}
