//! What TLC says of each run.

use std::collections::BTreeMap;

use super::tlc::Answer;

/// About one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every step is allowed.
    Accepted {
        /// How many.
        steps: usize,
        /// Blocks made in it.
        blocks: usize,
    },
    /// This step, from 1, is the first that is not.
    Rejected {
        /// Which.
        step: usize,
        /// Why.
        why: String,
    },
}

/// What a run was to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is a run of the core.
    Accepted,
    /// Its step of this number, from 1, was made to be wrong.
    RejectedAt(usize),
}

/// The verdicts in TLC's words, by the name of the run. Long ones it breaks into lines.
#[must_use]
pub fn verdicts(answer: &Answer) -> BTreeMap<String, Verdict> {
    let words: Vec<&str> = answer.text.split_whitespace().collect();
    let text = words.join(" ");
    let tuples = text.split("<<").skip(1).filter_map(|tuple| tuple.split(">>").next());
    tuples.filter_map(verdict).collect()
}

fn verdict(tuple: &str) -> Option<(String, Verdict)> {
    let mut fields = tuple.trim().splitn(4, ", ").map(|field| field.trim_matches('"').to_owned());
    let (what, name) = (fields.next()?, fields.next()?);
    let (number, rest) = (fields.next()?.parse().ok()?, fields.next()?);
    match what.as_str() {
        "ACCEPTED" => Some((name, Verdict::Accepted { steps: number, blocks: rest.parse().ok()? })),
        "REJECTED" => Some((name, Verdict::Rejected { step: number, why: rest })),
        _ => None,
    }
}

/// Whether the verdict is what it was to be.
///
/// # Errors
/// What else it is.
pub fn compare(expected: Expected, verdict: Option<&Verdict>) -> Result<(), String> {
    match (expected, verdict) {
        (_, None) => Err("TLC says nothing about it".into()),
        (Expected::Accepted, Some(Verdict::Accepted { .. })) => Ok(()),
        (Expected::Accepted, Some(Verdict::Rejected { step, why })) => {
            Err(format!("step {step} is not allowed: {why}"))
        }
        (Expected::RejectedAt(wrong), Some(Verdict::Accepted { .. })) => {
            Err(format!("step {wrong} is wrong, and all was accepted"))
        }
        (Expected::RejectedAt(wrong), Some(Verdict::Rejected { step, .. })) if *step == wrong => {
            Ok(())
        }
        (Expected::RejectedAt(wrong), Some(Verdict::Rejected { step, why })) => {
            Err(format!("step {wrong} is wrong, and step {step} was rejected: {why}"))
        }
    }
}
