//! Many runs recorded, made wrong, and judged.

use std::collections::BTreeMap;

use quorate_sim::steps::Step;

use super::data::{self, Group};
use super::file::{Run, line_of};
pub use super::judge::Verdict;
use super::judge::{Expected, compare, verdicts};
use super::mutations;
use super::run::record;
use super::tlc::{Call, Tlc, TlcError};

/// So many runs are made wrong in each way.
const WRONG: usize = 3;

/// A run, and what the specification is to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name, without spaces.
    pub name: String,
    /// What was done to it.
    pub mutation: Option<&'static str>,
    /// It.
    pub run: Run,
    /// What is to come of it.
    pub expected: Expected,
}

/// A case with what came of it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case.
    pub case: Case,
    /// What the specification says.
    pub verdict: Option<Verdict>,
    /// Whether that was expected; if not, what is wrong.
    pub outcome: Result<(), String>,
}

/// So many runs of a variant, from seed `first` on: those that the specification covers.
///
/// # Errors
/// What an oracle of the simulator found.
pub fn runs(protocol: &str, first: u64, count: usize) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut seed = first;
    while cases.len() < count {
        if let Some(run) = record(protocol, seed)? {
            cases.push(Case::of(format!("{protocol}-{seed}"), run));
        }
        seed += 1;
    }
    Ok(cases)
}

impl Case {
    /// A run as it was recorded.
    #[must_use]
    pub fn of(name: String, run: Run) -> Self {
        Self { name, mutation: None, run, expected: Expected::Accepted }
    }
}

/// Some of the runs made wrong, in every way; each ends at the step that is wrong.
///
/// # Errors
/// A way that fits none of the runs.
pub fn wrong(cases: &[Case]) -> Result<Vec<Case>, String> {
    let mut all = Vec::new();
    for (number, mutation) in mutations::ALL.iter().enumerate() {
        let before = all.len();
        for (at, case) in cases.iter().cycle().skip(number * 5).take(cases.len()).enumerate() {
            if all.len() == before + WRONG {
                break;
            }
            let from = case.run.steps.len() * (at % 4) / 5;
            if let Some((mut run, step)) = mutation.apply(&case.run, from) {
                run.steps.truncate(step);
                all.push(Case {
                    name: format!("{}-wrong-{number}", case.name),
                    mutation: Some(mutation.name),
                    run,
                    expected: Expected::RejectedAt(step),
                });
            }
        }
        if all.len() == before {
            return Err(format!("none of the runs can be made wrong so that it {}", mutation.name));
        }
    }
    Ok(all)
}

/// What the specification says of all of them.
///
/// # Errors
/// [`TlcError`].
pub fn judge(tlc: &Tlc, cases: Vec<Case>) -> Result<Vec<Judged>, TlcError> {
    let mut groups: BTreeMap<Group, Vec<Case>> = BTreeMap::new();
    for case in cases {
        groups.entry(Group::of(&case.run)).or_default().push(case);
    }
    let mut all = Vec::new();
    for (group, cases) in groups {
        let runs: Vec<(String, &Run)> =
            cases.iter().map(|case| (case.name.clone(), &case.run)).collect();
        let name = format!("{}-{}-{}", group.protocol, group.replicas, group.faulty);
        let answer = tlc.ask(&Call {
            name: &name,
            root: &data::root("Trace", &group.protocol),
            configuration: &data::configuration(&group),
            workers: 2,
            options: &[],
            module: Some(("TraceData", &data::module(&runs))),
        })?;
        let mut said = verdicts(&answer);
        all.extend(cases.into_iter().map(|case| {
            let verdict = said.remove(&case.name);
            let mut outcome = compare(case.expected, verdict.as_ref());
            if let Some(invariant) = &answer.violated {
                outcome = Err(format!("{invariant} is violated, by this run or another of {name}"));
            }
            Judged { case, verdict, outcome }
        }));
    }
    Ok(all)
}

impl Judged {
    /// What was found, in a line: of a wrong step with its line in the run's file.
    #[must_use]
    pub fn told(&self) -> String {
        let name = &self.case.name;
        match (&self.outcome, &self.verdict) {
            (Err(what), _) => format!("{name}: {what}"),
            (Ok(()), Some(Verdict::Rejected { step, why })) => {
                let line = line_of(*step);
                let text = self.case.run.steps.get(step - 1).map(words).unwrap_or_default();
                format!("{name}: line {line}: {text}: {why}")
            }
            (Ok(()), Some(Verdict::Accepted { steps, blocks })) => {
                format!("{name}: accepted, {steps} steps, {blocks} blocks")
            }
            (Ok(()), None) => name.clone(),
        }
    }
}

fn words(step: &Step) -> String {
    serde_json::to_string(step).unwrap_or_default()
}

/// How many steps of each kind.
#[must_use]
pub fn kinds<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for step in runs.flat_map(|run| &run.steps) {
        let value = serde_json::to_value(step).unwrap_or_default();
        let kind = value.get("step").and_then(|kind| kind.as_str()).unwrap_or("?").to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}
