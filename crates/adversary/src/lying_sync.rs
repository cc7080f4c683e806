//! A replica that helps those who lack something with lies: chains that are empty, tampered with,
//! out of order, cut off or made up; bodies nobody asked for; snapshots offered under a wrong block
//! or root; chunks with a flipped byte, without end, or of nothing; testimonies of no view or the
//! last one.
//!
//! Poisoned sync and `expect` on a peer's data.
//!
//! Answered by using nothing that no certificate vouches for (a block by its child's justify, a
//! snapshot by a root in a certified block, each chunk checked when it comes, where the application
//! can), a deadline for every request, the next peer in turn, caps on what is kept, and for
//! testimonies by the certificates they carry.

use bytes::Bytes;
use quorate_core::base::crypto::Signature;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::FullBlock;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_core::{Digest, Height, ReplicaId, View};

use crate::{Adversary, Context, Peer, Rng, Sent, forge};

#[derive(Debug)]
struct LyingSync {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(LyingSync { rng: Rng::new(seed) })
}

/// The certificate that a made-up block would have, signed by the liar alone.
fn own_certificate(cx: &Context<'_>, view: View, block: BlockId) -> Option<Qc> {
    let ballot = Ballot { view, phase: 1, block };
    let signature = cx.vote(view, 1, block).signature;
    let committee = cx.domain.committee();
    let signers = committee.replicas().take(committee.quorum());
    forge::qc(
        ballot,
        &quorate_core::protocols::hotstuff::certificate::Proof::List(
            signers.map(|id| (id, signature)).collect(),
        ),
    )
}

impl LyingSync {
    fn chain(&mut self, cx: &Context<'_>, mut blocks: Vec<FullBlock>) -> Option<Peer> {
        match self.rng.below(7) {
            0 => return None,
            1 => blocks.clear(),
            2 => blocks.reverse(),
            3 => blocks.truncate(1),
            4 => self.tamper(&mut blocks),
            5 => blocks = made_up(cx, &blocks),
            // Bodies that are not those the block names: no receiver can even decode it.
            _ => blocks.iter_mut().for_each(|full| full.frames.clear()),
        }
        Some(PeerMessage::Chain(blocks))
    }

    /// Changes one block, so that it fits neither its parent nor its child.
    fn tamper(&mut self, blocks: &mut [FullBlock]) {
        let at = self.rng.below(blocks.len() as u64) as usize;
        if let Some(full) = blocks.get_mut(at) {
            full.block = forge::changed(&full.block, |content| content.state_root.0[0] ^= 1);
        }
    }

    fn offer(&mut self, mut offer: Box<Offer<Types>>) -> Option<Peer> {
        match self.rng.below(5) {
            0 => return None,
            1 => offer.block = forge::changed(&offer.block, |content| content.state_root.0[0] ^= 1),
            2 => {
                let wrong = |content: &mut quorate_core::protocols::hotstuff::block::Content| {
                    content.state_root.0[0] ^= 1
                };
                offer.shown.block = forge::changed(&offer.shown.block, wrong);
            }
            3 => offer.recent.clear(),
            _ => std::mem::swap(&mut offer.block, &mut offer.shown.block),
        }
        Some(PeerMessage::Behind(offer))
    }

    fn chunk(&mut self, height: Height, (chunk, last): (u32, bool), bytes: Bytes) -> Option<Peer> {
        let (mut chunk, mut last, mut bytes) = (chunk, last, bytes.to_vec());
        match self.rng.below(5) {
            0 => return None,
            1 => {
                let at = self.rng.below(bytes.len() as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1;
                }
            }
            2 => last = !last,
            3 => bytes.clear(),
            _ => chunk = chunk.wrapping_add(1),
        }
        Some(PeerMessage::Chunk { height, chunk, last, bytes: bytes.into() })
    }

    /// A word for a replica without memory, signed as it should be, of a view that is none.
    fn testimony(&mut self, cx: &Context<'_>, to: ReplicaId, nonce: Digest, high_qc: Qc) -> Peer {
        // Low ones above all: certificates disprove the high ones.
        let views = [View(0), View(0), View(1), View(1), View(u64::MAX), cx.seen.view()];
        let view = self.rng.pick(&views).copied().unwrap_or_default();
        let mut content = nonce.0.to_vec();
        content.extend_from_slice(&to.0.to_le_bytes());
        let content = Digest::of("quorate testimony", &content);
        let signature = cx.sign(&cx.domain.testimony(view, &content));
        let signature = if self.rng.percent(20) { Signature::NONE } else { signature };
        let high_qc = if self.rng.percent(80) { Qc::genesis(cx.genesis()) } else { high_qc };
        let testimony = Testimony { view, high_qc, high_tc: None };
        PeerMessage::Testimony { nonce, testimony, signature }
    }
}

/// A chain as long as the one asked for, of empty blocks on certificates that the liar alone
/// signed.
fn made_up(cx: &Context<'_>, blocks: &[FullBlock]) -> Vec<FullBlock> {
    let mut parent: Option<(View, BlockId)> = None;
    let made = |full: &FullBlock| {
        let justify = match parent {
            None => full.block.justify.clone(),
            Some((view, block)) => own_certificate(cx, view, block)?,
        };
        let block = forge::changed(&full.block, |content| {
            content.justify = justify;
            content.frames.clear();
        });
        parent = Some((block.view, block.id()));
        Some(FullBlock { block, frames: Vec::new() })
    };
    blocks.iter().map_while(made).collect()
}

impl Adversary for LyingSync {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let lie = match message {
            PeerMessage::Chain(blocks) => self.chain(cx, blocks),
            PeerMessage::Behind(offer) => self.offer(offer),
            PeerMessage::Chunk { height, chunk, last, bytes } => {
                self.chunk(height, (chunk, last), bytes)
            }
            PeerMessage::Testimony { nonce, testimony, .. } => {
                Some(self.testimony(cx, to, nonce, testimony.high_qc))
            }
            PeerMessage::Frames(_) if self.rng.percent(50) => None,
            PeerMessage::Frames(asked) => {
                let other = |frame: &&_| !asked.contains(frame);
                Some(PeerMessage::Frames(cx.seen.frames().filter(other).take(8).cloned().collect()))
            }
            message => Some(message),
        };
        out.extend(lie.map(|lie| Sent::now(to, lie)));
    }
}
