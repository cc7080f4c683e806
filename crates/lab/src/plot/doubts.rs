//! What makes a study's figures doubtful, as a list.

use std::fmt::Write as _;

use super::page::escaped;
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
    let all = rows.len();
    let others = |row: &&Row| !row.context.has_program_of(&rows[0].context);
    let others = rows.iter().skip(1).filter(others).count();
    if others > 0 {
        doubts.push(format!(
            "{others} of {all} runs were measured with another program than the first: the figures of this \
             page are of different programs and do not compare"
        ));
    }
    let changed = rows.iter().filter(|row| !row.context.is_of_a_commit()).count();
    if changed > 0 {
        doubts.push(format!(
            "{changed} of {all} runs were measured with changes that no commit holds, or without a commit: \
             nobody can build that program again"
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
            "the machine was not equally fast in all runs: a signature took {least:.0} to {most:.0} µs"
        ));
    }
    let stolen = rows.iter().filter_map(|row| row.stolen_cores).fold(0.0, f64::max);
    if stolen > 0.1 {
        doubts.push(format!("the machine's host took up to {stolen:.2} cores of it for others"));
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
        .map(|kind| format!("{} of {} runs: {}", kind.count, rows.len(), kind.text()))
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
        for words in &self.words {
            text.push_str(words);
            match ranges.next() {
                Some((least, most)) if least == most => text.push_str(least),
                Some((least, most)) => text.push_str(&format!("{least} – {most}")),
                None => {}
            }
        }
        text
    }
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
}
