//! Votes, time-outs and certificates as a liar can make them: signed with its own key where they
//! hold, and put together byte by byte where they do not.

use std::sync::Arc;

use quorate_core::base::crypto::{Signature, Signer};
use quorate_core::base::wire::{Decode as _, Encode as _, put_list};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Proof, Qc, Tc, TimeOut, Vote};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{ReplicaId, View};

/// Bytes of a certificate before its [`Proof`]: those of its [`Ballot`].
const BALLOT_BYTES: usize = 8 + 1 + 32;

/// A vote of `me` for a block in a view and phase.
#[must_use]
pub fn vote(
    domain: &Domain,
    me: ReplicaId,
    signer: &dyn Signer,
    (view, phase, block): (View, u8, BlockId),
) -> Vote {
    let signature = signer.sign(&domain.vote(view, phase, &block));
    Vote { ballot: Ballot { view, phase, block }, voter: me, signature }
}

/// A time-out of `view` by `me`, whose high QC is said to be `high_qc`.
#[must_use]
pub fn time_out(
    domain: &Domain,
    me: ReplicaId,
    signer: &dyn Signer,
    view: View,
    high_qc: &Qc,
) -> TimeOut {
    let high_qc_view = high_qc.view();
    let signature = signer.sign(&domain.time_out(view, high_qc_view, &high_qc.block()));
    TimeOut { view, high_qc_view, replica: me, signature }
}

/// A certificate that says `ballot` and rests on `proof`, whatever that is. `None` if not even its
/// encoding is one.
#[must_use]
pub fn qc(ballot: Ballot, proof: &Proof) -> Option<Qc> {
    let mut bytes = ballot.to_bytes();
    proof.encode(&mut bytes);
    Qc::from_bytes(bytes.into()).ok()
}

/// What a certificate rests on.
#[must_use]
pub fn proof(qc: &Qc) -> Option<Proof> {
    let bytes = bytes::Bytes::from(qc.to_bytes());
    Proof::from_bytes(bytes.slice(BALLOT_BYTES..)).ok()
}

/// A time-out certificate of these fields, whatever they are.
#[must_use]
pub fn tc(
    view: View,
    entries: &[(ReplicaId, View)],
    signatures: &[Signature],
    qcs: &[Qc],
) -> Option<Tc> {
    let mut bytes = view.to_bytes();
    put_list(&mut bytes, entries);
    put_list(&mut bytes, signatures);
    put_list(&mut bytes, qcs);
    Tc::from_bytes(bytes.into()).ok()
}

/// `block` with something else in it, under the identity that this makes.
#[must_use]
pub fn changed(block: &Block, change: impl FnOnce(&mut Content)) -> SharedBlock {
    let mut content: Content = (**block).clone();
    change(&mut content);
    Arc::new(Block::new(content))
}
