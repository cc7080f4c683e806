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
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::base::crypto::{PublicKey, ShareKeys, Signature};
    use crate::base::membership::{Governance, Member, Opening, ReplicaKey};
    use crate::base::types::{Digest, Epoch, Height, ReplicaId, Sequence, SessionId, Time};
    use crate::ledger::frame::FrameId;
    use crate::ledger::generation::{Dealer, Plan, Step};
    use crate::ledger::mempool::{Limits, Mempool, Origin};
    use crate::ledger::sessions::{self, Sessions};

    const ADMINISTRATOR: PublicKey = PublicKey([200; 32]);

    fn committee() -> Committee {
        let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from([id + 1; 32]))));
        let governance = Governance { administrators: vec![ADMINISTRATOR], approvals: 1 };
        let opening = Opening { after: Digest::default(), height: Height(0) };
        let (chain, members) = (Digest::default(), members.collect());
        let own = Committee::with_members(chain, Epoch(1), opening, members, governance);
        let keys = (0..4).map(|id| (ReplicaId(id.into()), [id + 1; 96])).collect();
        let keys = ShareKeys::new(3, keys).expect("ascending");
        let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
        let committee = own.expect("four members").under(rules);
        committee.with_shares(keys).expect("a share each")
    }

    /// A frame of this kind: a plain one, a dealing in a generation of so many dealers that
    /// somebody made up, or its beginning in this epoch or the next.
    fn frame(number: u64, (kind, dealers): (u8, u16)) -> SharedFrame {
        let dealer = |id: u16| {
            let bytes = [id as u8 + 1; 32];
            Dealer { id: ReplicaId(id), key: PublicKey(bytes), encryption: bytes }
        };
        let ends = Epoch(if kind == 3 { 2 } else { 1 });
        let (change, dealers) = (Digest::default(), (0..dealers).map(dealer).collect());
        let plan = Plan { ends, serial: number, change, open_blocks: 9, dealers };
        let command = match kind {
            0 => b"plain".to_vec(),
            1 => {
                let (dealer, dealing) = (ReplicaId(0), Bytes::from_static(b"dealt"));
                Step::Deal { plan, dealer, dealing, signature: Signature::NONE }.to_command()
            }
            _ => {
                let proofs = plan.dealers.iter().map(|_| [0; 64]).collect();
                let approvals = vec![(ADMINISTRATOR, Signature::NONE)];
                Step::Begin { plan, proofs, approvals }.to_command()
            }
        };
        let (key, session, first) = (PublicKey([1; 32]), SessionId(number), Sequence(1));
        let (commands, chain) = ([&command[..]], Digest::default());
        let frame = Frame::build(key, session, first, commands, &chain, |_| Signature::NONE);
        Arc::new(frame.expect("a frame"))
    }

    proptest! {
        /// What a correct leader makes of its mempool, all others take; and all that is fit has its
        /// turn.
        #[test]
        fn blocks_that_are_made_are_blocks_that_are_taken(
            kinds in prop::collection::vec((0u8..4, 1u16..100), 1..40),
        ) {
            let committee = committee();
            let frames = (1..).zip(kinds).map(|(number, kind)| frame(number, kind));
            let frames: Vec<SharedFrame> = frames.collect();
            let mut pool = Mempool::new(Limits::default());
            let sessions = Sessions::new(sessions::Limits::default()).expect("limits of use");
            for frame in &frames {
                pool.insert(Arc::clone(frame), Origin::Client, Time(0), &sessions);
            }
            let mut proposed: BTreeSet<FrameId> = BTreeSet::new();
            loop {
                let is_taken = |id: &FrameId| proposed.contains(id);
                let proofs_of = |frame: &Frame| {
                    Some(proofs_of(frame, &committee)).filter(|proofs| *proofs != UNFIT)
                };
                let block = pool.ready_batch(&is_taken, &proofs_of, usize::MAX, usize::MAX);
                if block.is_empty() {
                    break;
                }
                prop_assert!(may_be_in_a_block(&block, &committee));
                proposed.extend(block.iter().map(|frame| frame.id()));
            }
            let fit = frames.iter().filter(|frame| proofs_of(frame, &committee) != UNFIT);
            prop_assert_eq!(proposed.len(), fit.count());
        }
    }

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
