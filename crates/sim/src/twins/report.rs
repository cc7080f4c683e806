//! What happened in a scenario: a line for each thing that did, and a picture of the block tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::protocol::{Ballot, Event};
use quorate_core::{Time, View};

use super::run::{Outcome, Plan, Seen, observe};
use super::scenario::{Scenario, Shape};
use super::world::Observer;

/// A run told: what came of it, its trace, and a picture of its blocks.
#[derive(Clone, Debug)]
pub struct Told {
    /// What came of it.
    pub outcome: Outcome,
    /// What happened, in order. Empty if the protocol panicked.
    pub trace: Vec<String>,
    /// The block tree.
    pub picture: String,
}

/// Runs a scenario and tells of it.
#[must_use]
pub fn tell(plan: &Plan, scenario: &Scenario) -> Told {
    let story = Story {
        shape: scenario.shape,
        phases: plan.variant.rules.facts().phases,
        names: Names::default(),
        lines: Vec::new(),
    };
    let (outcome, seen, story) = observe(plan, scenario, story);
    let trace = story.map(|story| story.lines).unwrap_or_default();
    let last = plan.prefix + scenario.views.len() as u64;
    let picture = picture(scenario.shape, &seen, (plan.prefix + 1, last));
    Told { outcome, trace, picture }
}

/// Blocks are called after their view; a second one of a view gets a prime.
#[derive(Default)]
struct Names {
    by_id: BTreeMap<BlockId, String>,
    by_view: BTreeMap<View, usize>,
}

impl Names {
    fn learn(&mut self, id: BlockId, view: View) {
        let count = self.by_view.entry(view).or_default();
        self.by_id.entry(id).or_insert_with(|| {
            *count += 1;
            format!("b{view}{}", "'".repeat(*count - 1))
        });
    }

    fn of(&self, id: &BlockId) -> &str {
        self.by_id.get(id).map_or("b0", String::as_str)
    }
}

struct Story {
    shape: Shape,
    phases: u8,
    names: Names,
    lines: Vec<String>,
}

impl Story {
    fn line(&mut self, now: Time, words: &str) {
        self.lines.push(format!("{:>7.1}  {words}", now.0 as f64 / 1e6));
    }

    fn slot(&self, slot: usize) -> String {
        format!("r{}", self.shape.name(slot))
    }

    fn ballot(&self, ballot: &Ballot) -> String {
        let name = self.names.of(&ballot.block);
        if self.phases > 1 || ballot.phase > 1 {
            format!("{name} in phase {}", ballot.phase)
        } else {
            name.to_owned()
        }
    }

    fn qc(&self, qc: &Qc) -> String {
        format!("QC({})", self.ballot(&qc.ballot()))
    }

    fn tc(tc: Option<&Tc>) -> String {
        tc.map_or_else(String::new, |tc| format!(", TC({})", tc.view()))
    }

    fn words(&self, message: &Message) -> String {
        match message {
            Message::Proposal { block, tc } => {
                let (name, qc) = (self.names.of(&block.id()), self.qc(&block.justify));
                format!("proposal {name} ({qc}{})", Self::tc(tc.as_ref()))
            }
            Message::Vote(vote) => format!("vote {}", self.ballot(&vote.ballot)),
            Message::Certificate(qc) => self.qc(qc),
            Message::NewView { view, high_qc } => format!("new-view {view} ({})", self.qc(high_qc)),
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                let vote = last_vote.as_ref().map_or_else(String::new, |vote| {
                    format!(", vote {}", self.ballot(&vote.ballot))
                });
                let (qc, tc) = (self.qc(high_qc), Self::tc(high_tc.as_ref()));
                format!("time-out of view {} ({qc}{tc}{vote})", time_out.view)
            }
            Message::Advance { high_qc, high_tc, .. } => {
                format!("knows {}{}", self.qc(high_qc), Self::tc(high_tc.as_ref()))
            }
        }
    }
}

impl Observer for Story {
    fn event(&mut self, now: Time, slot: usize, event: &Event) {
        if let Event::Proposed { view, block, .. } = event {
            self.names.learn(*block, *view);
        }
        let words = match event {
            Event::Entered(view) => format!("enters view {view}"),
            Event::Proposed { block, .. } => format!("proposes {}", self.names.of(block)),
            Event::Voted(ballot) => format!("votes for {}", self.ballot(ballot)),
            Event::Declined { view, reason } => format!("does not vote in view {view}: {reason:?}"),
            // Told by the vote that is not cast.
            Event::RootDiffers { .. } => return,
            Event::Certified(ballot) => format!("has QC({})", self.ballot(ballot)),
            Event::TimedOut(view) => format!("gives up view {view}"),
            Event::TooSlow { view, leader } => format!("finds {leader} too slow in view {view}"),
            Event::GaveUp(view) => format!("has TC({view})"),
            Event::Committed { height, block, .. } => {
                format!("commits {} at height {height}", self.names.of(block))
            }
            Event::Pruned(count) => format!("prunes {count} blocks"),
            Event::Equivocation { proposer, view } => {
                format!("sees {proposer} equivocate in view {view}")
            }
            Event::DoubleVote { voter, view } => {
                format!("sees {voter} vote for two blocks in view {view}")
            }
            Event::BadVote { voter, view } => format!("drops a bad vote of {voter} in view {view}"),
        };
        let who = self.slot(slot);
        self.line(now, &format!("{who} {words}"));
    }

    fn message(&mut self, now: Time, from: usize, to: usize, message: &Message, arrives: bool) {
        // A proposal may leave before its leader tells of it.
        if let Message::Proposal { block, .. } = message {
            self.names.learn(block.id(), block.view);
        }
        let (words, arrow) = (self.words(message), if arrives { "→" } else { "✗" });
        let (from, to) = (self.slot(from), self.slot(to));
        self.line(now, &format!("{from} {arrow} {to}  {words}"));
    }

    fn fetch(&mut self, now: Time, from: usize, to: usize, blocks: Option<usize>) {
        let (from, to) = (self.slot(from), self.slot(to));
        match blocks {
            None => self.line(now, &format!("{from} asks {to} for a block")),
            Some(count) => self.line(now, &format!("{from} → {to}  {count} blocks")),
        }
    }
}

/// The block tree, a line a block: `●` certified, `○` not; who committed it. A branch is indented
/// where it leaves the one that goes further.
fn picture(shape: Shape, seen: &Seen, script: (u64, u64)) -> String {
    let mut names = Names::default();
    for known in &seen.proposed {
        names.learn(known.block.id(), known.block.view);
    }
    let mut text = String::from("b0  genesis\n");
    let Some(first) = seen.proposed.first() else { return text };
    let genesis = seen.proposed.iter().find(|known| known.block.height.0 == 1).unwrap_or(first);
    let mut todo = vec![(genesis.block.parent(), 0)];
    let mut drawn: Vec<BlockId> = vec![genesis.block.parent()];
    while let Some((parent, depth)) = todo.pop() {
        let of_parent = seen.proposed.iter().filter(|known| known.block.parent() == parent);
        let mut children: Vec<_> =
            of_parent.filter(|known| !drawn.contains(&known.block.id())).collect();
        // The longest branch is drawn last, without indentation.
        children.sort_by_key(|known| (reach(seen, &known.block.id()), std::cmp::Reverse(known.by)));
        children.dedup_by_key(|known| known.block.id());
        let Some(main) = children.pop() else { continue };
        // Side branches first, each whole.
        if !children.is_empty() {
            todo.push((parent, depth));
            let side = children[0];
            draw(&mut text, shape, seen, &names, (side, depth + 1, script));
            drawn.push(side.block.id());
            todo.push((side.block.id(), depth + 1));
            continue;
        }
        draw(&mut text, shape, seen, &names, (main, depth, script));
        drawn.push(main.block.id());
        todo.push((main.block.id(), depth));
    }
    text
}

/// The height of the highest block above `id`.
fn reach(seen: &Seen, id: &BlockId) -> u64 {
    let mut above = vec![*id];
    let mut highest = 0;
    // Blocks come after their parents.
    for known in &seen.proposed {
        if above.contains(&known.block.parent()) {
            above.push(known.block.id());
        }
        if above.contains(&known.block.id()) {
            highest = highest.max(known.block.height.0);
        }
    }
    highest
}

fn draw(
    text: &mut String,
    shape: Shape,
    seen: &Seen,
    names: &Names,
    (known, depth, script): (&super::world::Proposed, usize, (u64, u64)),
) {
    let (block, by) = (&known.block, known.by);
    let branch = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth)) };
    let mark = if seen.certified.contains(&block.id()) { "●" } else { "○" };
    let (name, parent) = (names.of(&block.id()), names.of(&block.parent()));
    let _ = write!(
        text,
        "{branch}{mark} {name}  on {parent}, height {}, by {}",
        block.height,
        shape.name(by)
    );
    let mut slots: Vec<usize> =
        seen.committed.iter().filter(|(_, id)| *id == block.id()).map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    if !slots.is_empty() {
        let slots: Vec<String> = slots.iter().map(|slot| shape.name(*slot)).collect();
        let _ = write!(text, ", committed by {}", slots.join(" "));
    }
    let scripted = (script.0..=script.1).contains(&block.view.0);
    let _ = writeln!(text, "{}", if scripted { "  (script)" } else { "" });
}
