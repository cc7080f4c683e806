//! The members that order the blocks, as a part of the replicated state, and the threshold key that
//! they generate for the next epoch.

use std::sync::Arc;

use crate::base::crypto::PublicKey;
use crate::base::membership::{Committee, Opening, Rules};
use crate::base::types::{Digest, Height};
use crate::base::wire::{DecodeError, Encode as _, Reader};
use crate::ledger::approvals;
use crate::ledger::change::{self, SignedChange};
use crate::ledger::frame::Frame;
use crate::ledger::generation::{self, Generations, Step};

/// The members of the current epoch, and those of the next once this one is sealed. Nobody where
/// members are fixed: they are part of the chain's identity then, and need be in no root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    current: Option<Committee>,
    next: Option<Committee>,
    generations: Arc<Generations>,
    /// Of the members and their key generations.
    digest: Digest,
}

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Change(#[from] change::Refusal),
    #[error(transparent)]
    Key(#[from] generation::Refusal),
}

impl Members {
    /// Members that never change.
    #[must_use]
    pub fn fixed() -> Self {
        Self::default()
    }

    /// The members of an epoch that is not sealed.
    pub(super) fn of(committee: Option<Committee>) -> Self {
        Self::with(committee, Arc::default())
    }

    /// The same, and the key generations of the epoch.
    pub(super) fn with(committee: Option<Committee>, generations: Arc<Generations>) -> Self {
        let governed = |committee: &Committee| !committee.governance().administrators.is_empty();
        let current = committee.filter(governed);
        let digest = digest_of(current.as_ref(), &generations);
        Self { current, next: None, generations, digest }
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

    /// The key generations of the current epoch.
    #[must_use]
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// The rules that the current epoch executes by.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.current.as_ref().map(Committee::rules).unwrap_or_default()
    }

    /// The digest of those that order the next block.
    pub(super) fn digest(&self) -> Digest {
        self.digest
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
            self.generations = Arc::default();
            self.digest = next.digest();
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
        let Some(current) = &self.current else { return Err(change::Refusal::NotGoverned.into()) };
        if let Some(next) = &self.next {
            return Err(change::Refusal::UnderWay(next.epoch()).into());
        }
        if !is_alone {
            return Err(change::Refusal::NotAlone.into());
        }
        let signed = SignedChange::of_command_under(command, current.rules());
        let signed = signed.map_err(change::Refusal::Unreadable)?;
        self.judge_signed(&signed, current, opening)
    }

    fn judge_signed(
        &self,
        signed: &SignedChange,
        current: &Committee,
        opening: Opening,
    ) -> Result<Committee, Refusal> {
        let next = signed.judge(current, opening)?;
        if let Some(shares) = &signed.shares {
            // The block of the change is below the one that opens the next epoch.
            let height = Height(opening.height.0.saturating_sub(1));
            self.generations.allow(signed, shares, &next, height)?;
        }
        Ok(next)
    }

    /// Whether a frame is worth the proofs that it rests on, as far as the state of height `height`
    /// tells: a step of a key generation, or a change that brings shares, must be one that could be
    /// carried out next. Any other frame is worth its signatures. It costs no cryptography.
    ///
    /// Peers and clients can make up proofs that hold, at their leisure, for generations that
    /// nobody has begun, and each costs replicas hundreds of signatures.
    #[must_use]
    pub fn expects(&self, frame: &Frame, height: Height) -> bool {
        let Some(current) = self.current.as_ref().filter(|it| it.shares().is_some()) else {
            return true;
        };
        let next = height.next();
        if let Some(Ok(step)) = frame.step(current.rules()) {
            return self.next.is_none()
                && step.is_of_administrators(current)
                && self.after(&step, &frame.key(), current, next).is_ok();
        }
        let Some(Ok(change)) = frame.change(current.rules()) else { return true };
        let opening = Opening { height: next.next(), ..current.opening() };
        change.shares.is_none()
            || self.next.is_none()
                && change.is_of_administrators(current)
                && self.judge_signed(&change, current, opening).is_ok()
    }

    /// Executes a step of a key generation, which came in a frame of the key `by`, in the block of
    /// height `height`. Returns the reply.
    pub(super) fn step(
        &mut self,
        command: &[u8],
        by: &PublicKey,
        is_alone: bool,
        height: Height,
    ) -> Vec<u8> {
        let after = self.judge_step(command, by, is_alone, height);
        let reply = approvals::reply(after.as_ref().map(|(_, told)| *told));
        if let Ok((after, _)) = after {
            self.digest = digest_of(self.current.as_ref(), &after);
            self.generations = Arc::new(after);
        }
        reply
    }

    fn judge_step(
        &self,
        command: &[u8],
        by: &PublicKey,
        is_alone: bool,
        height: Height,
    ) -> Result<(Generations, u64), generation::Refusal> {
        let current = self.current.as_ref().ok_or(generation::Refusal::NoThresholdKey)?;
        if let Some(next) = &self.next {
            return Err(generation::Refusal::UnderWay(next.epoch()));
        }
        if !is_alone {
            return Err(generation::Refusal::NotAlone);
        }
        let step = Step::of_command(command).map_err(generation::Refusal::Unreadable)?;
        self.after(&step, by, current, height)
    }

    /// The generations after a step in a frame of the key `by`. Proofs cost hundreds of signatures:
    /// only members that deal may have others verify theirs.
    fn after(
        &self,
        step: &Step,
        by: &PublicKey,
        current: &Committee,
        height: Height,
    ) -> Result<(Generations, u64), generation::Refusal> {
        if !planted!("steps-by-strangers", true, step.may_be_sent_by(by)) {
            return Err(generation::Refusal::Stranger);
        }
        self.generations.after(step, current, height)
    }
}

/// The digest of members, and of the key generations of their epoch, if there were any.
pub(super) fn digest_of(committee: Option<&Committee>, generations: &Generations) -> Digest {
    let members = committee.map(Committee::digest).unwrap_or_default();
    if generations.is_empty() {
        return members;
    }
    let mut bytes = members.to_bytes();
    generations.encode(&mut bytes);
    Digest::of("quorate members", &bytes)
}

/// Writes the key generations of an epoch with these rules: nothing before the rules that know any.
pub(super) fn encode_generations(rules: Rules, generations: &Generations, out: &mut Vec<u8>) {
    if rules.core >= Rules::GENERATED_KEYS {
        generations.encode(out);
    }
}

/// Reads them.
pub(super) fn decode_generations(
    rules: Rules,
    reader: &mut Reader,
) -> Result<Generations, DecodeError> {
    use crate::base::wire::Decode as _;
    match rules.core {
        Rules::GENERATED_KEYS.. => Generations::decode(reader),
        _ => Ok(Generations::default()),
    }
}
