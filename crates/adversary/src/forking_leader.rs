//! A leader that extends the grandparent: its block's justify is that of the block it should have
//! extended, so that this one is left out of the chain.
//!
//! The forking attack (Niu, Gai, Jalalzai, Feng 2020; Bamboo, ICDCS 2021): where votes need a
//! justify no older than the lock, blocks that nobody is locked on yet can be overwritten, and
//! their commands have to be ordered again. The fork is otherwise faultless: heights, root and
//! bodies are right.
//!
//! Answered by the entry rule (a view is entered by the certificate of the view before it or by a
//! time-out certificate, so that a fork in the good case is malformed: `contradiction`), then by
//! the vote rules; what is overwritten behind a time-out certificate was not committed, and its
//! frames wait in the mempools.

use quorate_core::ReplicaId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, SharedBlock};
use quorate_core::replica::message::PeerMessage;

use crate::{Adversary, Context, Peer, Sent, forge};

#[derive(Debug)]
struct ForkingLeader;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(ForkingLeader)
}

/// `block` on the parent of its parent. The state root is the one of the block left out, for it had
/// the same parent.
fn fork(cx: &Context<'_>, block: &Block) -> Option<SharedBlock> {
    let parent = cx.seen.block(&block.parent())?;
    Some(forge::changed(block, |content| {
        content.justify = parent.justify.clone();
        content.height = parent.height;
        content.state_root = parent.state_root;
    }))
}

impl Adversary for ForkingLeader {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let forked = match &message {
            PeerMessage::Protocol { epoch, message: Message::Proposal { block, tc }, frames } => {
                fork(cx, block).map(|block| PeerMessage::Protocol {
                    epoch: *epoch,
                    message: Message::Proposal { block, tc: tc.clone() },
                    frames: frames.clone(),
                })
            }
            _ => None,
        };
        out.push(Sent::now(to, forked.unwrap_or(message)));
    }
}
