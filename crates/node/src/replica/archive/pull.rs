//! Decided blocks for executors, read by a thread that gives way to all others: anybody may ask.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use quorate_core::Height;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{MAX_REPLY_BYTES, Response};
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::message::MAX_BLOCKS_SENT;
use quorate_journal::BlockIndex;
use quorate_transport::{ClientListener, ConnectionId};

use super::{Asker, Busy};

/// A question for decided blocks.
#[derive(Clone, Copy, Debug)]
pub struct Pull {
    /// Whose.
    pub connection: ConnectionId,
    /// From which height on.
    pub from: Height,
    /// About so many bytes.
    pub budget_bytes: u32,
}

/// What the thread works with.
pub struct Puller {
    /// Where blocks are.
    pub index: Arc<BlockIndex>,
    /// The way to clients.
    pub listener: Arc<ClientListener>,
    /// Who is being served.
    pub busy: Busy,
}

impl Puller {
    /// Works until nobody can ask any more.
    pub fn run<T: Types>(&self, queue: &Receiver<Pull>) {
        while let Ok(Pull { connection, from, budget_bytes }) = queue.recv() {
            let response = self.pulled::<T>(from, budget_bytes);
            self.busy.done(Asker::Client(connection));
            // The executor may be gone; it asks again elsewhere.
            let _ = self.listener.send(connection, response.to_bytes().into());
        }
    }

    fn pulled<T: Types>(&self, from: Height, budget_bytes: u32) -> Response {
        let from = from.max(self.index.first());
        let budget = (budget_bytes as usize).min(MAX_REPLY_BYTES / 2);
        let mut blocks = Vec::new();
        let mut bytes = 0;
        let mut height = from;
        while let Some(block) = self.index.read(height) {
            bytes += block.len();
            if !blocks.is_empty() && bytes > budget || blocks.len() >= MAX_BLOCKS_SENT {
                break;
            }
            blocks.push(block);
            height = height.next();
        }
        if bytes <= budget && blocks.len() < MAX_BLOCKS_SENT {
            // Up to the head: what proves it goes along. An idle cluster would never send it.
            for (above, block) in self.index.tail::<T::Content>() {
                bytes += block.len();
                if above == height && bytes <= MAX_REPLY_BYTES {
                    blocks.push(block);
                    height = height.next();
                }
            }
        }
        Response::Blocks { from, blocks }
    }
}
