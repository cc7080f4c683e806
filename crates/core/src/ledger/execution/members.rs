//! The members that order the blocks, as a part of the replicated state.

use crate::base::membership::{Committee, Opening, Rules};
use crate::base::types::Digest;
use crate::ledger::approvals;
use crate::ledger::change::{Refusal, SignedChange};

/// The members of the current epoch, and those of the next once this one is sealed. Nobody where
/// members are fixed: they are part of the chain's identity then, and need be in no root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    current: Option<Committee>,
    next: Option<Committee>,
}

impl Members {
    /// Members that never change.
    #[must_use]
    pub fn fixed() -> Self {
        Self::default()
    }

    /// The members of an epoch that is not sealed.
    pub(super) fn of(committee: Option<Committee>) -> Self {
        let governed = |committee: &Committee| !committee.governance().administrators.is_empty();
        Self { current: committee.filter(governed), next: None }
    }

    /// The committee of the current epoch; `None` where members are fixed.
    #[must_use]
    pub fn committee(&self) -> Option<&Committee> {
        self.current.as_ref()
    }

    /// The committee of the next epoch, if the current one is sealed.
    #[must_use]
    pub fn sealed(&self) -> Option<&Committee> {
        self.next.as_ref()
    }

    /// The rules that the current epoch executes by.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.current.as_ref().map(Committee::rules).unwrap_or_default()
    }

    /// The digest of those that order the next block.
    pub(super) fn digest(&self) -> Digest {
        let committee = self.next.as_ref().or(self.current.as_ref());
        committee.map(Committee::digest).unwrap_or_default()
    }

    /// The next epoch begins, if the current one is sealed.
    pub(super) fn begin(&mut self) {
        if let Some(next) = self.next.take() {
            *self = Self::of(Some(next));
        }
    }

    /// Executes a change. `opening` is where the next epoch begins if this seals the current one.
    /// Returns the reply.
    pub(super) fn change(&mut self, command: &[u8], is_alone: bool, opening: Opening) -> Vec<u8> {
        let next = self.judge(command, is_alone, opening);
        let reply = approvals::reply(next.as_ref().map(|next| next.epoch().0));
        if let Ok(next) = next {
            self.next = Some(next);
        }
        reply
    }

    fn judge(
        &self,
        command: &[u8],
        is_alone: bool,
        opening: Opening,
    ) -> Result<Committee, Refusal> {
        let Some(current) = &self.current else { return Err(Refusal::NotGoverned) };
        if let Some(next) = &self.next {
            return Err(Refusal::UnderWay(next.epoch()));
        }
        if !is_alone {
            return Err(Refusal::NotAlone);
        }
        SignedChange::of_command(command).map_err(Refusal::Unreadable)?.judge(current, opening)
    }
}
