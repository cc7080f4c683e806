//! What the frames of a proposal may rest on, beside the signatures of their clients.
//!
//! All replicas verify what a block rests on before they vote for it. A dealing costs as much as
//! hundreds of signatures, and anybody can make up some that hold, for generations that nobody has
//! begun: they are refused where they execute. So a leader could keep all others busy for seconds,
//! in each of its views. Therefore the proofs of a block may weigh [`MOST_PROOFS`], or it has one
//! frame. All replicas judge alike, since that follows from the block and its epoch. What is sent
//! for a proposal beyond it is not verified.
//!
//! Where members have no threshold key there are no such proofs, and no such bound.

use crate::base::membership::{Committee, Rules};
use crate::ledger::block::MOST_PROOFS;
use crate::ledger::frame::{Frame, SharedFrame};

/// What the proofs of a frame weigh that no block may have.
pub(super) const UNFIT: usize = usize::MAX;

/// What the proofs of a frame weigh in a block of this committee's epoch; [`UNFIT`] if no correct
/// member proposes it.
pub(super) fn proofs_of(frame: &Frame, current: &Committee) -> usize {
    let rules = current.verified_under(current.rules());
    let is_governed = !current.governance().administrators.is_empty();
    if !is_governed || rules.core < Rules::GENERATED_KEYS {
        return 0;
    }
    match frame.step(rules) {
        Some(Ok(step)) if step.is_malformed(current) => UNFIT,
        _ => frame.proofs(rules),
    }
}

/// Whether bodies of these weights may be in one block.
pub(super) fn fit(weights: impl Iterator<Item = usize> + Clone) -> bool {
    let is_alone = weights.clone().count() <= 1;
    let has_unfit = weights.clone().any(|weight| weight == UNFIT);
    let sum = weights.fold(0, usize::saturating_add);
    planted!("proofs-of-a-block-unbounded", true, !has_unfit && (is_alone || sum <= MOST_PROOFS))
}

/// Whether a block of this committee's epoch may have these frames.
pub(super) fn may_be_in_a_block(frames: &[SharedFrame], current: &Committee) -> bool {
    fit(frames.iter().map(|frame| proofs_of(frame, current)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_rests_on_so_much_and_no_more_unless_it_has_one_frame() {
        let fit = |weights: &[usize]| super::fit(weights.iter().copied());
        assert!(fit(&[]) && fit(&[0, 0, MOST_PROOFS, 0]));
        assert!(fit(&[MOST_PROOFS + 1]), "the largest change must fit some block");
        assert!(!fit(&[0, MOST_PROOFS + 1]));
        assert!(!fit(&[MOST_PROOFS, 1]));
        assert!(!fit(&[UNFIT]) && !fit(&[UNFIT, UNFIT]));
    }
}
