//! What makes a study's figures doubtful, as a list.

use std::fmt::Write as _;

use quorate_plot::number;

use super::page::{counted, escaped};
use crate::experiment::Row;

/// Writes the list, if there are doubts.
pub(super) fn list(html: &mut String, rows: &[Row]) {
    let mut doubts = of_programs(rows);
    doubts.extend(of_machine(rows));
    doubts.extend(of_runs(rows));
    if doubts.is_empty() {
        return;
    }
    html.push_str("<h2>Doubts</h2>\n<ul class=\"doubt\">\n");
    for doubt in doubts {
        // Writing to a string does not fail.
        let _ = writeln!(html, "<li>{}</li>", escaped(&doubt));
    }
    html.push_str("</ul>\n");
}

/// Rows of several programs, or of one that no commit holds.
fn of_programs(rows: &[Row]) -> Vec<String> {
    let mut doubts = Vec::new();
    let all = counted(rows.len(), "run");
    let were = |count: usize| if count == 1 { "was" } else { "were" };
    let others = |row: &&Row| !row.context.has_program_of(&rows[0].context);
    let others = rows.iter().skip(1).filter(others).count();
    if others > 0 {
        doubts.push(format!(
            "{others} of {all} {} measured with another program than the first: the figures of this page are \
             of different programs and do not compare",
            were(others)
        ));
    }
    let changed = rows.iter().filter(|row| !row.context.is_of_a_commit()).count();
    if changed > 0 {
        doubts.push(format!(
            "{changed} of {all} {} measured with changes that no commit holds, or without a commit: nobody can \
             build that program again",
            were(changed)
        ));
    }
    doubts
}

/// A machine that was faster in some runs than in others, or had to wait for its host.
fn of_machine(rows: &[Row]) -> Vec<String> {
    let mut doubts = Vec::new();
    let speeds = || rows.iter().filter_map(|row| row.signature_us);
    let (least, most) = (speeds().fold(f64::MAX, f64::min), speeds().fold(0.0, f64::max));
    if most > 1.1 * least {
        doubts.push(format!(
            "the machine was not equally fast in all runs: a signature took {least:.1} to {most:.1} µs"
        ));
    }
    let stolen = rows.iter().filter_map(|row| row.stolen_cores).fold(0.0, f64::max);
    if stolen > 0.1 {
        let stolen = number(stolen);
        doubts.push(format!("the machine's host took up to {stolen} cores of it for others"));
    }
    doubts
}

/// The warnings of runs, those of one kind together.
fn of_runs(rows: &[Row]) -> Vec<String> {
    let mut kinds: Vec<Kind> = Vec::new();
    let figures = rows.iter().filter_map(|row| row.figures.as_ref());
    for warning in figures.flat_map(|figures| &figures.warnings) {
        let (words, numbers) = parts(warning);
        match kinds.iter_mut().find(|kind| kind.words == words) {
            Some(kind) => kind.add(&numbers),
            None => kinds.push(Kind::new(words, &numbers)),
        }
    }
    kinds
        .iter()
        .map(|kind| format!("{} of {}: {}", kind.count, counted(rows.len(), "run"), kind.text()))
        .collect()
}

/// Warnings that differ in numbers alone.
struct Kind {
    /// What stands around the numbers.
    words: Vec<String>,
    /// The least and the most of each number, as they were written.
    ranges: Vec<(String, String)>,
    count: usize,
}

impl Kind {
    fn new(words: Vec<String>, numbers: &[String]) -> Self {
        let ranges = numbers.iter().map(|number| (number.clone(), number.clone())).collect();
        Self { words, ranges, count: 1 }
    }

    fn add(&mut self, numbers: &[String]) {
        self.count += 1;
        let value = |text: &String| text.parse::<f64>().unwrap_or(0.0);
        for ((least, most), number) in self.ranges.iter_mut().zip(numbers) {
            if value(number) < value(least) {
                least.clone_from(number);
            }
            if value(number) > value(most) {
                most.clone_from(number);
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut ranges = self.ranges.iter();
        let mut before: Option<&(String, String)> = None;
        for (index, words) in self.words.iter().enumerate() {
            let one = before.is_some_and(|(least, most)| least == "1" && most == "1");
            let mut words = if one { singular(words) } else { words.clone() };
            let range = ranges.next();
            // A set of replicas is written in braces, also if it has one.
            let ends = self.words.get(index + 1).is_some_and(|next| next.starts_with('}'));
            if ends && range.is_some_and(|(least, most)| least == most) {
                words = words.replace("replicas {", "replica ");
            }
            text.push_str(&words.replace(['{', '}'], ""));
            match range {
                Some((least, most)) if least == most => text.push_str(&shown(least)),
                Some((least, most)) => {
                    text.push_str(&format!("{} – {}", shown(least), shown(most)));
                }
                None => {}
            }
            before = range;
        }
        text
    }
}

/// What stands behind a number, if that is 1.
fn singular(words: &str) -> String {
    for (many, one) in [
        (" frames were", " frame was"),
        (" commands were", " command was"),
        (" commands", " command"),
        (" packets", " packet"),
    ] {
        if let Some(rest) = words.strip_prefix(many) {
            return format!("{one}{rest}");
        }
    }
    words.to_owned()
}

/// A number of a warning as numbers are shown; what is none, like a version, as it is.
fn shown(text: &str) -> String {
    let is_part = text.len() > 1 && text.starts_with('0') && !text.starts_with("0.");
    let value = text.parse::<f64>().ok().filter(|_| !is_part);
    value.map_or_else(|| text.to_owned(), number)
}

/// A warning taken apart: the words before, between and behind its numbers, and the numbers.
fn parts(warning: &str) -> (Vec<String>, Vec<String>) {
    let (mut words, mut numbers) = (vec![String::new()], Vec::new());
    let mut rest = warning;
    while let Some(letter) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches('.');
        if letter.is_ascii_digit() {
            numbers.push(number.to_owned());
            words.push(String::new());
            rest = &rest[number.len()..];
        } else {
            words.last_mut().into_iter().for_each(|last| last.push(letter));
            rest = &rest[letter.len_utf8()..];
        }
    }
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_told_with_the_range_of_their_numbers() {
        let warnings = [
            "took 0.12 cores in 3 runs.",
            "took 0.54 cores in 3 runs.",
            "took 0.3 cores in 3 runs.",
        ];
        let (words, numbers) = parts(warnings[0]);
        assert_eq!(words, ["took ", " cores in ", " runs."]);
        assert_eq!(numbers, ["0.12", "3"]);
        let mut kind = Kind::new(words.clone(), &numbers);
        for warning in &warnings[1..] {
            let (same, numbers) = parts(warning);
            assert_eq!(same, words);
            kind.add(&numbers);
        }
        assert_eq!((kind.count, kind.text().as_str()), (3, "took 0.12 – 0.54 cores in 3 runs."));
        assert_eq!(parts("none").0, ["none"]);
    }

    #[test]
    fn warnings_are_told_in_words_and_numbers_that_people_write() {
        let text = |warning: &str| {
            let (words, numbers) = parts(warning);
            Kind::new(words, &numbers).text()
        };
        for (warning, told) in [
            (
                "28598 frames were not answered within 10s",
                "28,598 frames were not answered within 10s",
            ),
            ("1 frames were not answered", "1 frame was not answered"),
            ("1 commands failed", "1 command failed"),
            ("replicas {7} did not answer", "replica 7 did not answer"),
            ("replicas {0, 2, 10} did not answer", "replicas 0, 2, 10 did not answer"),
            ("took 0.10 cores", "took 0.1 cores"),
            ("version 0.1.0, 1,050 in all", "version 0.1.0, 1,050 in all"),
        ] {
            assert_eq!(text(warning), told);
        }
    }
}
