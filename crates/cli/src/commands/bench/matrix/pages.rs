//! The rows of a matrix as text: a line while it runs, a table in the end, a page in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use quorate_lab::bench::matrix::{Figures, MatrixRow};
use quorate_node::config::Combination;

use crate::output::table;

const COLUMNS: usize = 13;

/// Above this a pause is pointed out, in milliseconds: three time-outs in a row.
const SLOW_MS: f64 = 1000.0;

const HEAD: [&str; COLUMNS] = [
    "PACEMAKER",
    "LEADER",
    "SIGNATURES",
    "GOODPUT/S",
    "P50 MS",
    "P99 MS",
    "KILLED",
    "RECOVERY MS",
    "GOODPUT/S",
    "P50 MS",
    "P99 MS",
    "GAP MS",
    "RESULT",
];

const MARKDOWN_HEAD: &str = "\
| pacemaker | leader | signatures | commands/s | p50 ms | p99 ms | killed | recovery ms | commands/s | p50 ms | p99 ms | gap ms | |
|---|---|---|--:|--:|--:|---|--:|--:|--:|--:|--:|---|
";

const MARKDOWN_INTRODUCTION: &str = "\
# Every combination, measured

`make bench-matrix ARGS=\"--markdown docs/protocols/matrix.md\"` writes this page. Each row is a fresh cluster of processes under a
closed loop of checked increments: first with all replicas, then with one killed for good. *Recovery* is the time from the kill
to the answer to a command submitted right after; *gap* the longest time without any answer, of all clients together, from the
kill on. Every answer was compared with the only right one, and all counters were read back in the end, the killed replica
still dead. Where the leader is fixed another replica is killed (*not the leader*): its own death stops the cluster. What is
[allowed](combinations.md) is here; short runs on a shared machine tell combinations apart by factors, not by percents.

";

/// What came of a row, while others are to follow.
pub(super) fn one_line(row: &MatrixRow) -> String {
    let figures = |figures: Option<Figures>| {
        figures.map_or_else(
            || "not measured".to_owned(),
            |of| format!("{:.0}/s, p50 {:.1} ms, p99 {:.1} ms", of.goodput, of.p50_ms, of.p99_ms),
        )
    };
    let mut text =
        format!("{}: {}; one dead: {}", row.combination.0, figures(row.all), figures(row.one_dead));
    if let Some(failure) = &row.failure {
        let _ = write!(text, "; FAILED: {failure}");
    }
    if let Some(kept) = &row.kept {
        let _ = write!(text, ", see {}", kept.display());
    }
    text
}

/// How long something takes, roughly.
pub(super) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// All rows in columns, those of a protocol under its name.
pub(super) fn for_people(rows: &[MatrixRow]) -> String {
    let text = table(HEAD, &rows.iter().map(cells).collect::<Vec<_>>());
    let mut lines = text.lines();
    let mut out = format!("{}\n", lines.next().unwrap_or_default());
    let mut last = None;
    for (row, line) in rows.iter().zip(lines) {
        let protocol = protocol_of(row);
        if last != Some(protocol) {
            let _ = writeln!(out, "\n{protocol}");
            last = Some(protocol);
        }
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n{}", conditions(rows));
    out
}

/// A page with a table a protocol.
pub(super) fn markdown(rows: &[MatrixRow]) -> String {
    let mut out = MARKDOWN_INTRODUCTION.to_owned();
    let _ = writeln!(out, "{}", conditions(rows));
    let mut last = None;
    for row in rows {
        let protocol = protocol_of(row);
        if last != Some(protocol) {
            let _ = write!(out, "\n## {protocol}\n\n{MARKDOWN_HEAD}");
            last = Some(protocol);
        }
        // A reason may hold anything, a cell neither a bar nor a line's end.
        let cell = |cell: String| cell.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(out, "| {} |", cells(row).map(cell).join(" | "));
    }
    out
}

/// The combination without what the columns tell.
fn protocol_of(row: &MatrixRow) -> Combination {
    let Combination { protocol, votes, second_vote, .. } = row.combination.0;
    Combination { protocol, votes, second_vote, ..Combination::default() }
}

fn cells(row: &MatrixRow) -> [String; COLUMNS] {
    let combination = &row.combination.0;
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let (all, dead) = (row.all, row.one_dead);
    let killed = match (row.killed, row.killed_led) {
        (Some(id), Some(true)) => format!("{id}, the leader"),
        (Some(id), _) if row.note.is_some() => format!("{id}, not the leader"),
        (Some(id), _) => id.to_string(),
        (None, _) => String::new(),
    };
    [
        combination.pacemaker.to_string(),
        combination.leader.to_string(),
        combination.signatures.as_str().to_owned(),
        number(all.map(|of| of.goodput), 0),
        number(all.map(|of| of.p50_ms), 1),
        number(all.map(|of| of.p99_ms), 1),
        killed,
        number(row.recovery_ms, 0),
        number(dead.map(|of| of.goodput), 0),
        number(dead.map(|of| of.p50_ms), 1),
        number(dead.map(|of| of.p99_ms), 1),
        number(dead.map(|of| of.gap_ms), 0),
        result(row),
    ]
}

fn result(row: &MatrixRow) -> String {
    let recovery_ms = row.recovery_ms.unwrap_or(0.0);
    let gap_ms = row.one_dead.map_or(0.0, |of| of.gap_ms).max(recovery_ms);
    match &row.failure {
        Some(why) => format!("FAILED: {why}"),
        None if gap_ms >= SLOW_MS => format!("ok, but stood still for {:.1} s", gap_ms / 1e3),
        None => "ok".to_owned(),
    }
}

/// Of how many rows this is, and with what they were measured; it is the same for all.
fn conditions(rows: &[MatrixRow]) -> String {
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    let passed = rows.len() - failed;
    let Some(settings) = rows.first().map(|row| &row.settings) else {
        return "nothing was measured".to_owned();
    };
    format!(
        "{passed} combinations passed, {failed} failed: {} replicas, durability {}, {} commands under \
         way, {} s with all and {} s with one dead, {} cores shared by replicas, clients and measuring",
        settings.replicas,
        settings.durability,
        settings.in_flight,
        settings.seconds,
        2.0 * settings.seconds,
        settings.cores
    )
}
