//! Files of recorded runs: a line of JSON that says what was run, then one for each step.

use std::collections::BTreeMap;

use quorate_sim::steps::Step;
use serde::{Deserialize, Serialize};

/// What a file says it is.
pub const FORMAT: &str = "quorate-steps";
/// The version of the format.
pub const VERSION: u64 = 1;
/// The longest file that is read.
pub const MAX_BYTES: u64 = 64 << 20;
/// The name of the first block.
pub const GENESIS: &str = "b0";

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u64,
    /// The variant, as in configuration.
    pub protocol: String,
    /// How many replicas; they are numbered from 0.
    pub replicas: usize,
    /// Those that lied or lost their data: of their steps only the blocks they made are written
    /// down.
    pub faulty: Vec<usize>,
    /// The simulator's seed.
    pub seed: u64,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What was run.
    pub head: Head,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {remedy}")]
pub struct FileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

/// The line of a file that step `index`, from 1, is on.
#[must_use]
pub fn line_of(index: usize) -> usize {
    index + 1
}

impl Run {
    /// The text of its file.
    ///
    /// # Panics
    /// Never: names, numbers and words make JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(&self.head).expect("plain fields") + "\n";
        for step in &self.steps {
            text += &serde_json::to_string(step).expect("plain fields");
            text.push('\n');
        }
        text
    }

    /// Reads a file's text. Whether the run makes sense is for the specification to say; here its
    /// replicas and blocks must be some that it has introduced.
    ///
    /// # Errors
    /// [`FileError`], with the line.
    pub fn from_text(text: &str) -> Result<Self, FileError> {
        let mut lines = text.lines();
        let wrong = |line, what: String| FileError {
            line,
            what,
            remedy: "docs/model.md describes the format; record it anew with `quorate-spec record`",
        };
        let head: Head = serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|error| wrong(1, error.to_string()))?;
        if (head.format.as_str(), head.version) != (FORMAT, VERSION) {
            return Err(wrong(1, format!("not {FORMAT} of version {VERSION}")));
        }
        if !(1..=64).contains(&head.replicas) || head.faulty.iter().any(|r| *r >= head.replicas) {
            return Err(wrong(1, "impossible replicas".into()));
        }
        let mut steps = Vec::new();
        let mut made = BTreeMap::from([(GENESIS.to_owned(), 0)]);
        for (at, line) in lines.enumerate() {
            let step: Step =
                serde_json::from_str(line).map_err(|error| wrong(at + 2, error.to_string()))?;
            if step.replica() >= head.replicas {
                return Err(wrong(at + 2, format!("there is no replica {}", step.replica())));
            }
            if let Some(unknown) = named_in(&step).into_iter().find(|b| !made.contains_key(*b)) {
                return Err(wrong(at + 2, format!("nobody has made a block {unknown}")));
            }
            if let Step::Propose { block, view, parent, .. } = &step {
                let above = made.get(parent).is_some_and(|below| view > below);
                if !above || made.insert(block.clone(), *view).is_some() {
                    let what = format!("{block} is made twice, or not above its parent");
                    return Err(wrong(at + 2, what));
                }
            }
            steps.push(step);
        }
        Ok(Self { head, steps })
    }
}

/// The blocks that a step takes for known.
fn named_in(step: &Step) -> Vec<&String> {
    match step {
        Step::Start { voted, high_qc, lock, committed, .. } => {
            voted.iter().chain([high_qc, lock, committed]).collect()
        }
        Step::Propose { parent, .. } => vec![parent],
        Step::Tc { .. } => Vec::new(),
        Step::TimeOut { high_qc, .. } | Step::SignTimeOut { high_qc, .. } => vec![high_qc],
        Step::Qc { block, .. }
        | Step::Lock { block, .. }
        | Step::Commit { block, .. }
        | Step::Install { block, .. }
        | Step::Vote { block, .. }
        | Step::SignVote { block, .. } => vec![block],
    }
}
