//! A run and what came of it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use quorate_core::ledger::block::BlockId;

use super::Signatures;
use super::scenario::{MAX_PREFIX, Scenario};
use super::variant::Variant;
use super::watch::Violation;
use super::world::{Observer, Proposed, World};

/// How scenarios are run.
#[derive(Clone)]
pub struct Plan {
    /// The protocol.
    pub variant: Variant,
    /// What is signed with: of as many replicas as the scenarios have.
    pub signatures: Signatures,
    /// Views before the script in which everybody hears everybody and correct replicas lead.
    pub prefix: u64,
    /// Views behind the script, at most, until all correct replicas commit what was proposed there.
    pub suffix: u64,
    /// Messages in a run, at most.
    pub max_messages: u64,
}

impl Plan {
    /// A plan with three views before the script, and behind it as many as the protocol is given to
    /// get going again.
    #[must_use]
    pub fn new(variant: Variant, signatures: Signatures) -> Self {
        let replicas = signatures.committee().size() as u64;
        let suffix = 4 * replicas + 4 * variant.rules.facts().chain_length;
        Self { variant, signatures, prefix: 3, suffix, max_messages: 1_000_000 }
    }

    /// The same with so many views before the script, at most [`MAX_PREFIX`].
    #[must_use]
    pub fn with_prefix(self, views: u64) -> Self {
        Self { prefix: views.min(MAX_PREFIX as u64), ..self }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What must not happen and did.
    pub violation: Option<Violation>,
    /// A correct replica committed a block of the script before it left the script.
    pub committed: bool,
    /// Two certified blocks, neither of which is an ancestor of the other.
    pub forked: bool,
    /// Correct replicas heard two proposals of one leader in one view.
    pub equivocated: bool,
    /// One of them heard both of a scripted view.
    pub noticed: bool,
    /// Views behind the script until all correct replicas had committed what was proposed there.
    pub suffix_views: u64,
    /// Messages that arrived.
    pub delivered: u64,
}

/// Runs a scenario. A panic of the protocol is a [`Violation`] like any other.
#[must_use]
pub fn run(plan: &Plan, scenario: &Scenario) -> Outcome {
    observe(plan, scenario, ()).0
}

/// What there is to see of a run besides its outcome.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The blocks, in the order in which they were proposed.
    pub proposed: Vec<Proposed>,
    /// Those that were certified.
    pub certified: Vec<BlockId>,
    /// Slots and what they committed.
    pub committed: Vec<(usize, BlockId)>,
}

/// Runs a scenario under the eyes of `observer`, which comes back unless the protocol panicked.
pub fn observe<O: Observer>(
    plan: &Plan,
    scenario: &Scenario,
    observer: O,
) -> (Outcome, Seen, Option<O>) {
    let ran = quietly(|| {
        let mut world = World::new(plan, scenario, observer);
        let suffix_views = world.run();
        (judge(plan, &world, suffix_views), seen(&world), world.observer)
    });
    match ran {
        Ok((outcome, seen, observer)) => (outcome, seen, Some(observer)),
        Err(panic) => {
            let violation = Some(Violation { oracle: "panic".to_owned(), what: words_of(&*panic) });
            (Outcome { violation, ..Outcome::default() }, Seen::default(), None)
        }
    }
}

fn judge<O: Observer>(plan: &Plan, world: &World<'_, O>, suffix_views: u64) -> Outcome {
    let last = world.last();
    let in_script = |view: quorate_core::View| view.0 > plan.prefix && view <= last;
    let view_of = |id: &BlockId| {
        let known = world.proposed.iter().find(|known| known.block.id() == *id);
        known.map(|known| known.block.view).unwrap_or_default()
    };
    let correct = |slot: usize| world.is_correct(slot);
    let mut commits = world.committed.iter();
    let committed = commits.any(|(slot, block, lived_in)| {
        correct(*slot) && *lived_in <= last.next() && in_script(view_of(block))
    });
    let heard: Vec<&Proposed> = world.proposed.iter().filter(|known| known.heard).collect();
    let equivocated = heard.iter().enumerate().any(|(at, one)| {
        let same = |two: &&&Proposed| {
            (two.block.view, two.block.proposer) == (one.block.view, one.block.proposer)
                && in_script(one.block.view)
        };
        heard[..at].iter().any(|two| same(&two) && two.block.id() != one.block.id())
    });
    Outcome {
        violation: world.watch.violation.clone(),
        committed,
        forked: is_forked(world),
        equivocated,
        noticed: world.noticed,
        suffix_views,
        delivered: world.delivered,
    }
}

/// Whether certified blocks are on different branches.
fn is_forked<O: Observer>(world: &World<'_, O>) -> bool {
    let block = |id: &BlockId| world.proposed.iter().find(|known| known.block.id() == *id);
    let mut certified: Vec<&Proposed> =
        world.certified.iter().filter_map(|ballot| block(&ballot.block)).collect();
    certified.sort_by_key(|known| known.block.height);
    certified.dedup_by_key(|known| known.block.id());
    // Along one chain each is an ancestor of the next.
    certified.windows(2).any(|pair| {
        let [low, high] = pair else { return false };
        let mut at = Some(*high);
        while let Some(above) = at.filter(|known| known.block.height > low.block.height) {
            at = block(&above.block.parent());
        }
        at.is_none_or(|known| known.block.id() != low.block.id())
    })
}

fn seen<O: Observer>(world: &World<'_, O>) -> Seen {
    let mut certified: Vec<BlockId> = Vec::new();
    for ballot in &world.certified {
        if !certified.contains(&ballot.block) {
            certified.push(ballot.block);
        }
    }
    Seen {
        proposed: world.proposed.clone(),
        certified,
        committed: world.committed.iter().map(|(slot, block, _)| (*slot, *block)).collect(),
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something whose panics are results, without a word on standard error.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(before);
    ran
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    words.and_then(|words| words.lines().next()).unwrap_or("without words").to_owned()
}
