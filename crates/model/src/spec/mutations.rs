//! A recorded run made wrong at one step, in each of several ways. Each way looks for places where
//! what it does is wrong for certain, by its own count of what replicas have seen and signed.

mod history;

use quorate_core::base::membership;
use quorate_sim::steps::Step;

use super::file::{GENESIS, Run};
use history::History;

/// A way to make a run wrong.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What the run does then.
    pub name: &'static str,
    /// Makes a run wrong at the first fitting place at or behind a step: the run, and the step that
    /// is to be rejected, from 1.
    apply: fn(&Run, usize) -> Option<(Run, usize)>,
}

impl Mutation {
    /// Makes a run wrong, behind step `from` if there is a place, else anywhere.
    #[must_use]
    pub fn apply(&self, run: &Run, from: usize) -> Option<(Run, usize)> {
        (self.apply)(run, from).or_else(|| (self.apply)(run, 0))
    }
}

/// All ways.
pub const ALL: [Mutation; 14] = [
    Mutation { name: "votes twice for one block", apply: votes_again },
    Mutation { name: "votes for a second block of a view", apply: votes_for_another },
    Mutation { name: "votes against the rule", apply: votes_against_the_rule },
    Mutation { name: "votes after its time-out", apply: votes_after_time_out },
    Mutation { name: "commits without the chain", apply: commits_early },
    Mutation { name: "commits and skips the parent", apply: skips_the_parent },
    Mutation { name: "time-out with a lower certificate", apply: tells_less },
    Mutation { name: "certificate without a quorum", apply: certificate_of_too_few },
    Mutation { name: "time-out certificate without a quorum", apply: time_outs_of_too_few },
    Mutation { name: "time-out certificate hides a certificate", apply: hides_a_certificate },
    Mutation { name: "forgets its vote at a restart", apply: forgets_its_vote },
    Mutation { name: "forgets its time-out at a restart", apply: forgets_its_time_out },
    Mutation { name: "proposes twice in a view", apply: proposes_twice },
    Mutation { name: "signs what it did not decide", apply: signs_unasked },
];

/// The run with `steps` in place of the one at `at`, of which the last is the wrong one.
fn replaced(run: &Run, at: usize, steps: Vec<Step>) -> (Run, usize) {
    let mut run = run.clone();
    let wrong = at + steps.len();
    run.steps.splice(at..=at, steps);
    (run, wrong)
}

/// The run with `steps` behind the one at `at`, of which the last is the wrong one.
fn added(run: &Run, at: usize, steps: Vec<Step>) -> (Run, usize) {
    let mut run = run.clone();
    let wrong = at + 1 + steps.len();
    run.steps.splice(at + 1..at + 1, steps);
    (run, wrong)
}

/// The first place behind `from` that fits: `fits` is told its number, what had happened before,
/// and the step.
fn find<T>(
    run: &Run,
    from: usize,
    mut fits: impl FnMut(usize, &History, &Step) -> Option<T>,
) -> Option<T> {
    let mut history = History::default();
    run.steps.iter().enumerate().find_map(|(at, step)| {
        let found = if at < from { None } else { fits(at, &history, step) };
        history.take(step);
        found
    })
}

/// A block that a liar makes now.
fn forged(run: &Run, view: u64, parent: &str) -> Option<Step> {
    let replica = *run.head.faulty.first()?;
    Some(Step::Propose { replica, block: "forged".into(), view, parent: parent.into() })
}

fn votes_again(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, _, step| {
        let Step::SignVote { replica, block } = step.clone() else { return None };
        Some(added(run, at, vec![Step::Vote { replica, block }]))
    })
}

fn votes_for_another(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::SignVote { replica, block } = step else { return None };
        let made = before.blocks.get(block)?;
        let steps = vec![
            forged(run, made.view, &made.parent)?,
            Step::Vote { replica: *replica, block: "forged".into() },
        ];
        Some(added(run, at, steps))
    })
}

/// Upon the first block of all, though it is locked on a later one, or no time-out certificate
/// allows it.
fn votes_against_the_rule(run: &Run, from: usize) -> Option<(Run, usize)> {
    let chained = run.head.protocol == "hotstuff-chained";
    find(run, from, |at, before, step| {
        let Step::Vote { replica, block } = step else { return None };
        let made = before.blocks.get(block)?;
        let locked = before.view(&before.replica(*replica).lock) > 0;
        let skipped = before.time_outs.keys().any(|(_, view, _)| *view + 1 == made.view);
        let wrong = if chained { locked } else { made.view > 1 && !skipped };
        let steps = vec![
            forged(run, made.view, GENESIS)?,
            Step::Vote { replica: *replica, block: "forged".into() },
        ];
        wrong.then(|| replaced(run, at, steps))
    })
}

fn votes_after_time_out(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::SignTimeOut { replica, view, .. } = step else { return None };
        let own = before.replica(*replica);
        let fits = before.view(&own.voted) < *view && own.view(before) == *view;
        let steps = vec![
            forged(run, *view, &own.high)?,
            Step::Vote { replica: *replica, block: "forged".into() },
        ];
        fits.then(|| added(run, at, steps))
    })
}

/// The child of the last committed block, when the highest certificate is the one that committed
/// that.
fn commits_early(run: &Run, from: usize) -> Option<(Run, usize)> {
    let chained = run.head.protocol == "hotstuff-chained";
    find(run, from, |at, before, step| {
        let Step::Commit { replica, block } = step else { return None };
        let high = before.replica(*replica).high.clone();
        let parent = before.parent(&high)?;
        let next = if chained { parent.clone() } else { high };
        let fits = before.parent(&next)? == *block;
        fits.then(|| added(run, at, vec![Step::Commit { replica: *replica, block: next }]))
    })
}

fn skips_the_parent(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::Commit { replica, block } = step else { return None };
        let behind = || run.steps.iter().skip(at + 1);
        let next = behind().position(|next| next.replica() == *replica)?;
        let Some(Step::Commit { block: child, .. }) = behind().nth(next) else { return None };
        if before.parent(child).as_ref() != Some(block) {
            return None;
        }
        let mut run = run.clone();
        run.steps.remove(at);
        Some((run, at + next + 1))
    })
}

fn tells_less(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::TimeOut { replica, view, high_qc } = step else { return None };
        let high_qc = before.parent(high_qc)?;
        Some(replaced(run, at, vec![Step::TimeOut { replica: *replica, view: *view, high_qc }]))
    })
}

/// The step at `at` without so many of the steps that it rests on that too few are left.
fn without(run: &Run, at: usize, rests_on: impl Fn(&Step) -> bool) -> (Run, usize) {
    let gone = run.steps.iter().take(at).filter(|step| rests_on(step)).count();
    let mut run = run.clone();
    let mut place = 0;
    run.steps.retain(|step| {
        place += 1;
        place > at || !rests_on(step)
    });
    (run, at - gone + 1)
}

fn certificate_of_too_few(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::Qc { block, .. } = step else { return None };
        // Nothing before rests on it, and nobody was restarted since: that would tell of the votes.
        let fresh = !before.certified.contains(block) && before.quiet_since(block);
        fresh.then(|| {
            without(run, at, |s| matches!(s, Step::SignVote { block: b, .. } if b == block))
        })
    })
}

fn time_outs_of_too_few(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let Step::Tc { view, .. } = step else { return None };
        let fresh = !before.skipped.contains(view);
        fresh.then(|| {
            without(run, at, |s| matches!(s, Step::SignTimeOut { view: v, .. } if v == view))
        })
    })
}

fn hides_a_certificate(run: &Run, from: usize) -> Option<(Run, usize)> {
    let needed = membership::quorum(run.head.replicas) - run.head.faulty.len();
    find(run, from, |at, before, step| {
        let Step::Tc { replica, view, high } = step else { return None };
        let high = high.checked_sub(1)?;
        let told = |replica: &usize| {
            before.time_outs.keys().any(|(r, v, h)| (r, v) == (replica, view) && *h <= high)
        };
        let few = (0..run.head.replicas).filter(told).count() < needed;
        few.then(|| replaced(run, at, vec![Step::Tc { replica: *replica, view: *view, high }]))
    })
}

fn forgets_its_vote(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let mut wrong = step.clone();
        let Step::Start { replica, voted, .. } = &mut wrong else { return None };
        let signed = before.replica(*replica).signed;
        *voted = None;
        signed.then(|| replaced(run, at, vec![wrong]))
    })
}

fn forgets_its_time_out(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, before, step| {
        let mut wrong = step.clone();
        let Step::Start { replica, gave_up, .. } = &mut wrong else { return None };
        let last =
            before.time_outs.keys().filter(|(r, ..)| r == replica).map(|(_, v, _)| *v).max()?;
        *gave_up = last - 1;
        Some(replaced(run, at, vec![wrong]))
    })
}

fn proposes_twice(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, _, step| {
        let mut again = step.clone();
        let Step::Propose { replica, block, .. } = &mut again else { return None };
        *block = "forged".into();
        let correct = !run.head.faulty.contains(replica);
        correct.then(|| added(run, at, vec![again]))
    })
}

fn signs_unasked(run: &Run, from: usize) -> Option<(Run, usize)> {
    find(run, from, |at, _, step| {
        let Step::SignVote { replica: signer, block } = step else { return None };
        let decided = |who: usize| {
            let vote = Step::Vote { replica: who, block: block.clone() };
            run.steps.iter().take(at).any(|step| *step == vote)
        };
        let correct = |who: &usize| who != signer && !run.head.faulty.contains(who);
        let replica = (0..run.head.replicas).filter(correct).find(|who| !decided(*who))?;
        Some(added(run, at, vec![Step::SignVote { replica, block: block.clone() }]))
    })
}
