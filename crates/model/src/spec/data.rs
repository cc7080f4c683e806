//! Recorded runs as a TLA+ module.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorate_sim::steps::Step;

use super::file::{GENESIS, Run};

/// Runs that one call of TLC can look at: of one variant and as many replicas, as many of them
/// faulty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The variant.
    pub protocol: String,
    /// Replicas.
    pub replicas: usize,
    /// Faulty ones: they are the last ones, in the module.
    pub faulty: usize,
}

impl Group {
    /// That of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let Run { head, .. } = run;
        Self { protocol: head.protocol.clone(), replicas: head.replicas, faulty: head.faulty.len() }
    }
}

/// The module TraceData with these runs, each with the name that TLC shall call it by.
#[must_use]
pub fn module(runs: &[(String, &Run)]) -> String {
    let mut table = Vec::new();
    let mut traces = Vec::new();
    for (name, run) in runs {
        let mut numbers = Numbers::of(run, table.len());
        let steps: Vec<String> = run.steps.iter().map(|step| numbers.tuple(step)).collect();
        table.append(&mut numbers.table);
        traces.push(format!("<<\"{name}\", <<\n{}\n>> >>", steps.join(",\n")));
    }
    if table.is_empty() {
        table.push("<<0, 0>>".into());
    }
    let mut text = String::from("---- MODULE TraceData ----\nEXTENDS Integers\n");
    let _ = writeln!(text, "Table == <<\n{}\n>>", table.join(",\n"));
    let _ = writeln!(text, "Traces == <<\n{}\n>>\n====", traces.join(",\n"));
    text
}

/// Blocks and replicas of one run, as numbers.
struct Numbers {
    blocks: BTreeMap<String, usize>,
    replicas: Vec<usize>,
    before: usize,
    table: Vec<String>,
}

impl Numbers {
    fn of(run: &Run, before: usize) -> Self {
        let is_faulty = |replica: &usize| run.head.faulty.contains(replica);
        let mut order: Vec<usize> = (0..run.head.replicas).collect();
        order.sort_by_key(is_faulty);
        let place = |replica| order.iter().position(|other| *other == replica).unwrap_or(0);
        Self {
            blocks: BTreeMap::from([(GENESIS.to_owned(), 0)]),
            replicas: (0..run.head.replicas).map(place).collect(),
            before,
            table: Vec::new(),
        }
    }

    fn block(&self, name: &str) -> usize {
        self.blocks.get(name).copied().unwrap_or(0)
    }

    fn tuple(&mut self, step: &Step) -> String {
        if let Step::Propose { block, view, parent, .. } = step {
            self.table.push(format!("<<{view}, {}>>", self.block(parent)));
            self.blocks.insert(block.clone(), self.before + self.table.len());
        }
        let r = self.replicas.get(step.replica()).copied().unwrap_or(0);
        let of = |what: &str, block: &String| format!("<<\"{what}\", {r}, {}>>", self.block(block));
        match step {
            Step::Start { voted, gave_up, high_qc, lock, high_tc, committed, .. } => {
                let voted = voted.as_ref().map_or(0, |block| self.block(block));
                let (high, lock) = (self.block(high_qc), self.block(lock));
                let (tc, head) = (high_tc.unwrap_or(0), self.block(committed));
                format!("<<\"start\", {r}, {voted}, {gave_up}, {high}, {lock}, {tc}, {head}>>")
            }
            Step::Propose { block, .. } => of("propose", block),
            Step::Qc { block, .. } => of("qc", block),
            Step::Tc { view, high, .. } => format!("<<\"tc\", {r}, {view}, {high}>>"),
            Step::Lock { block, .. } => of("lock", block),
            Step::Commit { block, .. } => of("commit", block),
            Step::Install { block, .. } => of("install", block),
            Step::Vote { block, .. } => of("vote", block),
            Step::TimeOut { view, high_qc, .. } => {
                format!("<<\"time-out\", {r}, {view}, {}>>", self.block(high_qc))
            }
            Step::SignVote { block, .. } => of("sign-vote", block),
            Step::SignTimeOut { view, high_qc, .. } => {
                format!("<<\"sign-time-out\", {r}, {view}, {}>>", self.block(high_qc))
            }
        }
    }
}

/// The configuration of a call of TLC on runs of `group`.
#[must_use]
pub fn configuration(group: &Group) -> String {
    let set = |from: usize, to: usize| {
        let names: Vec<String> = (from..to).map(|replica| replica.to_string()).collect();
        format!("{{{}}}", names.join(", "))
    };
    let (all, correct) = (group.replicas, group.replicas - group.faulty);
    format!(
        "INIT Begin\nNEXT Follow\nCHECK_DEADLOCK FALSE\nINVARIANT AgreedInTheEnd\nCONSTANTS\n\
         \x20 Replicas = {}\n  Faulty = {}\n  Genesis <- Root\n  ViewOf <- TableView\n\
         \x20 ParentOf <- TableParent\n  MayVote <- RuleMayVote\n  LockOf <- RuleLockOf\n\
         \x20 CommitOf <- RuleCommitOf\n",
        set(0, all),
        set(correct, all)
    )
}

/// The root module that traces of a variant are checked with, or that it is explored with.
#[must_use]
pub fn root(kind: &str, protocol: &str) -> String {
    let chain = if protocol == "hotstuff-chained" { "Three" } else { "Two" };
    format!("{kind}{chain}Chain")
}
