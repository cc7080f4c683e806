//! Certificates and blocks as production's types, made without votes: the scheduler knows whether
//! there would be q of them, and rules never look at signatures.

use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};
use quorate_sim::keys::CHAIN;

/// Whose names stand in every certificate. Which q it is does not matter to any rule.
const SIGNERS: [ReplicaId; 3] = [ReplicaId(0), ReplicaId(1), ReplicaId(2)];

/// The genesis block.
#[must_use]
pub fn genesis() -> SharedBlock {
    Arc::new(Block::genesis(CHAIN, Epoch(0)))
}

/// A block of `view` on the block `parent` of `justify`. Blocks of different `variant`s differ in
/// their payload.
#[must_use]
pub fn block(view: View, parent: &Block, justify: &Qc, variant: u8) -> SharedBlock {
    Arc::new(Block::new(Content {
        epoch: Epoch(0),
        view,
        height: Height(parent.height.0 + 1),
        proposer: ReplicaId(3),
        justify: justify.clone(),
        state_root: Digest::default(),
        frames: vec![Digest([variant; 32])],
    }))
}

/// The certificate of `ballot`.
///
/// # Panics
/// Never: the bytes are those of a certificate.
#[must_use]
#[expect(clippy::expect_used, reason = "what is encoded here is a certificate")]
pub fn qc(ballot: Ballot) -> Qc {
    const LIST: u8 = 1;
    let mut bytes = ballot.to_bytes();
    bytes.push(LIST);
    put_list(&mut bytes, &SIGNERS.map(|signer| (signer, Signature::NONE)));
    Qc::from_bytes(bytes.into()).expect("the bytes of a certificate")
}

/// A certificate that q replicas gave up on `view`, the highest of whose certificates is `high_qc`.
///
/// # Panics
/// Never: the bytes are those of a certificate.
#[must_use]
#[expect(clippy::expect_used, reason = "what is encoded here is a certificate")]
pub fn tc(view: View, high_qc: &Qc) -> Tc {
    let mut bytes = view.to_bytes();
    put_list(&mut bytes, &SIGNERS.map(|signer| (signer, high_qc.view())));
    put_list(&mut bytes, &[Signature::NONE; 3]);
    put_list(&mut bytes, std::slice::from_ref(high_qc));
    Tc::from_bytes(bytes.into()).expect("the bytes of a certificate")
}
