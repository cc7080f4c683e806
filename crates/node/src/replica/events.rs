//! What happens in the protocol, counted and told.

use std::time::{Duration, Instant};

use quorate_core::ledger::execution::ExecutionError;
use quorate_core::protocols::protocol::{BlockOf, Event, Types};
use quorate_core::replica::Halt;
use quorate_core::{Height, View};

use super::decide::{End, Reach};

/// State roots that differ are told again after this.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Proposals that carry another state root than this replica computed, since blocks were committed
/// last.
#[derive(Debug, Default)]
pub struct OtherRoot {
    /// In which view the last one was.
    view: View,
    /// In how many views there were some.
    pub views: u64,
    /// Of which state a line of the log has told, and when.
    told: Option<(Height, Instant)>,
}

/// What failed of late, for those who look for the cause.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Proposals that carry another state root than this replica computed.
    pub other_root: OtherRoot,
    /// When this replica gave up on a view, if it has not voted since.
    gave_up_at: Option<Instant>,
}

impl OtherRoot {
    /// Notes one more. Whether it is worth a line in the log: no height has two, and there is some
    /// time between them.
    fn note(&mut self, view: View, height: Height) -> bool {
        if self.views == 0 || view != self.view {
            self.views += 1;
        }
        self.view = view;
        let new = self.told.is_none_or(|(of, at)| of != height && at.elapsed() >= TOLD_AGAIN_AFTER);
        if new {
            self.told = Some((height, Instant::now()));
        }
        new
    }
}

impl<T: Types> Reach<T> {
    /// How to end when the replica halts.
    pub(super) fn end_of(&self, halt: &Halt) -> End {
        let named = format!("application `{}`: {halt}", self.application);
        match halt {
            Halt::Execution(ExecutionError::Kept { .. }) => End::Storage(named),
            Halt::Execution(
                ExecutionError::Panicked { .. }
                | ExecutionError::ReplyCount { .. }
                | ExecutionError::ReplyTooLong { .. },
            ) => End::Application(named),
            Halt::Execution(_) | Halt::StateRoot { .. } => End::Safety(named),
            _ => End::Safety(halt.to_string()),
        }
    }

    /// How to end when the application broke its contract in another way.
    pub(super) fn unfit(&self, what: &str) -> End {
        End::Application(format!("application `{}`: {what}", self.application))
    }

    /// Something happened in the protocol.
    pub fn note(&mut self, event: &Event) {
        let metrics = &self.metrics;
        match event {
            Event::Proposed { .. } => metrics.proposals_total.add(1),
            Event::Voted { .. } => {
                metrics.votes_total.add(1);
                if let Some(gave_up_at) = self.trouble.gave_up_at.take() {
                    let nanoseconds = gave_up_at.elapsed().as_nanos() as u64;
                    metrics.failed_views_left_total.add(1);
                    metrics.failed_views_left_nanoseconds_total.add(nanoseconds);
                }
            }
            Event::TimedOut(view) => {
                metrics.timeouts_total.add(1);
                self.trouble.gave_up_at = Some(Instant::now());
                tracing::debug!(%view, "gave up on a view");
            }
            Event::TooSlow { view, leader } => {
                tracing::warn!(
                    %view, %leader,
                    "the primary lets the replicas wait much longer for a block than they take for \
                     it, and I give up its view: it is faulty, overloaded or far away"
                );
            }
            Event::RootDiffers { view, proposer, height, ours, theirs } => {
                metrics.state_root_differences_total.add(1);
                if self.trouble.other_root.note(*view, *height) {
                    tracing::warn!(
                        application = self.application, %height, ours = %ours, proposed = %theirs, %proposer,
                        "my state root differs from the proposal's at this height, and I do not vote for it: \
                         the application is not deterministic, or its state is damaged at one of us. If \
                         nothing is committed any more, compare this line at all replicas; see \
                         \"State roots that differ\" in docs/operations.md"
                    );
                }
                metrics.state_root_differs_at.set(height.0);
                metrics.state_root_differs_views.set(self.trouble.other_root.views);
            }
            Event::Equivocation { proposer, view } => {
                let is_worth_a_line = metrics.equivocations_total.note();
                if is_worth_a_line {
                    tracing::warn!(
                        %proposer, %view,
                        "a replica proposed two blocks in one view: it is faulty or runs twice; \
                         check that no second process uses its key"
                    );
                }
            }
            Event::DoubleVote { voter, view } => {
                let is_worth_a_line = metrics.double_votes_total.note();
                if is_worth_a_line {
                    tracing::warn!(
                        %voter, %view,
                        "a replica voted for two blocks in one view: it is faulty or runs twice; \
                         check that no second process uses its key"
                    );
                }
            }
            Event::BadVote { voter, view } => {
                metrics.refuse("bad_vote");
                tracing::warn!(%voter, %view, "a vote's signature does not hold; its sender is ignored for the view");
            }
            _ => {}
        }
    }

    /// Notes what is committed, for peers that ask for it and for people.
    pub(super) fn committed(&mut self, blocks: &[BlockOf<T>]) {
        if !blocks.is_empty() && std::mem::take(&mut self.trouble.other_root.views) > 0 {
            self.metrics.state_root_differs_at.set(0);
            self.metrics.state_root_differs_views.set(0);
        }
        self.settle_epoch(blocks);
        self.index.committed(blocks);
        self.follower.committed(blocks);
        self.metrics.recent.committed(blocks);
        let full = blocks.iter().filter(|block| !block.is_empty()).count();
        self.metrics.committed_blocks_total.add(blocks.len() as u64);
        self.metrics.committed_full_blocks_total.add(full as u64);
    }
}
