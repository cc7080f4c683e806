//! What one replica says of itself: its decided blocks and its answers to unordered questions.

use std::time::Duration;

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::FullBlock;
use quorate_transport::{Limits, ReceiveHalf, SendHalf, dial};

use super::{Cluster, wait_until};

/// For a handshake, and for an answer. On a machine under load both may take seconds. A replica
/// that is not there refuses at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// More empty blocks than a cluster ends with.
const EMPTY_AT_THE_END: u64 = 200;

/// What a replica can show of its log.
struct Shown {
    first: u64,
    full: Option<(u64, BlockId)>,
}

/// A connection to one replica.
pub struct Probe {
    send: SendHalf,
    receive: ReceiveHalf,
}

impl Probe {
    /// Connects; `None` if the replica is not there.
    pub async fn connect(cluster: &Cluster, replica: usize) -> Option<Self> {
        let member = &cluster.agreed.members[replica];
        let address = member.client_address.to_string();
        let limits = Limits { frame_bytes: 32 << 20, handshake: PATIENCE, ..Limits::clients() };
        let chain = cluster.agreed.chain_digest();
        let (send, receive) = dial(&address, member.transport_key, chain, limits).await.ok()?;
        Some(Self { send, receive })
    }

    /// Asks, and waits for the answer; `None` if the replica does not give one.
    pub async fn ask(&mut self, request: &Request) -> Option<Response> {
        self.send.try_send(request.to_bytes().into()).ok()?;
        let answer = tokio::time::timeout(PATIENCE, self.receive.receive()).await.ok()??;
        Response::from_bytes(answer).ok()
    }

    /// Decided blocks from `from` on, in about `budget_bytes`.
    pub async fn pull(&mut self, from: u64, budget_bytes: u32) -> Option<Vec<FullBlock>> {
        match self.ask(&Request::Pull { from: Height(from), budget_bytes }).await? {
            Response::Blocks { blocks, .. } => {
                blocks.into_iter().map(|block| FullBlock::from_bytes(block).ok()).collect()
            }
            _ => None,
        }
    }

    /// The heights of the first and the last decided block that can be had. The search for the last
    /// one begins at `known`; at the first one if that is not there, as after a loss of data.
    pub async fn span(&mut self, known: u64) -> Option<(u64, u64)> {
        let first = self.pull(1, 1).await?.first()?.block.height.0;
        let mut has = async |height: u64| Some(!self.pull(height, 1).await?.is_empty());
        let from = if known > first && has(known).await? { known } else { first };
        Some((first, last_from(from, has).await?))
    }
}

/// The last height that has a block, by what `has` says of single heights; `first` has one. The
/// genesis of an epoch is in no log, so a height without a block may be followed by one with a
/// block, and never by another without one.
pub async fn last_from(first: u64, mut has: impl AsyncFnMut(u64) -> Option<bool>) -> Option<u64> {
    let mut is_reached = async |height: u64| Some(has(height).await? || has(height + 1).await?);
    let (mut low, mut step) = (first, 1);
    while is_reached(low + step).await? {
        low += step;
        step *= 2;
    }
    // There is a block at `low` or behind it, and none from `low + step` on.
    while step > 1 {
        step /= 2;
        if is_reached(low + step).await? {
            low += step;
        }
    }
    Some(low)
}

impl Cluster {
    /// The highest block that `replica` has decided and can show, once it answers: under load it
    /// may be late.
    pub fn height(&self, replica: usize) -> u64 {
        let mut height = None;
        wait_until(&format!("replica {replica} says how far it is"), || {
            height = self.span(replica).map(|(_, last)| last);
            height.is_some()
        });
        height.unwrap_or_default()
    }

    /// The first and the last block that `replica` can show. Under load each question takes its
    /// time, so the search goes on where the last one ended.
    pub fn span(&self, replica: usize) -> Option<(u64, u64)> {
        let known = self.heights.lock().unwrap().get(&replica).copied().unwrap_or_default();
        let asked = async { Probe::connect(self, replica).await?.span(known).await };
        let span = self.runtime.block_on(asked)?;
        self.heights.lock().unwrap().insert(replica, span.1);
        Some(span)
    }

    /// The block that `replica` has decided at `height`.
    pub fn block(&self, replica: usize, height: u64) -> Option<FullBlock> {
        self.runtime.block_on(async {
            let mut probe = Probe::connect(self, replica).await?;
            let block = probe.pull(height, 1).await?.into_iter().next()?;
            (block.block.height == Height(height)).then_some(block)
        })
    }

    /// How many keys `replica` holds, by its own word.
    pub fn keys(&self, replica: usize) -> Option<Bytes> {
        let mut size = Vec::new();
        quorate_app::kv::command::encode::db_size(&mut size);
        self.query(replica, size)
    }

    /// The same, once it answers: under load it may be late.
    pub fn keys_held(&self, replica: usize) -> Bytes {
        let mut keys = None;
        wait_until(&format!("replica {replica} says how many keys it holds"), || {
            keys = self.keys(replica);
            keys.is_some()
        });
        keys.unwrap_or_default()
    }

    /// The answer of `replica` alone to an unordered question.
    pub fn query(&self, replica: usize, question: Vec<u8>) -> Option<Bytes> {
        self.runtime.block_on(async {
            let mut probe = Probe::connect(self, replica).await?;
            match probe.ask(&Request::Query { id: 7, question: question.into() }).await? {
                Response::Answer { id: 7, answer } => Some(answer),
                _ => None,
            }
        })
    }

    /// Waits until `replica` has decided the block at `height`.
    pub fn wait_for_height(&self, replica: usize, height: u64) {
        wait_until(&format!("replica {replica} has decided height {height}"), || {
            self.span(replica).is_some_and(|(_, last)| last >= height)
        });
    }

    /// The last block with commands that `replica` can show, and where what it shows begins; `None`
    /// if it does not answer.
    fn shown(&self, replica: usize) -> Option<Shown> {
        let (first, last) = self.span(replica)?;
        self.runtime.block_on(async {
            let mut probe = Probe::connect(self, replica).await?;
            for height in (first.max(last.saturating_sub(EMPTY_AT_THE_END))..=last).rev() {
                // The genesis of an epoch cannot be had.
                let full = probe.pull(height, 1).await?.into_iter().next();
                if let Some(full) = full.filter(|full| !full.block.is_empty()) {
                    return Some(Shown {
                        first,
                        full: Some((full.block.height.0, full.block.id())),
                    });
                }
            }
            Some(Shown { first, full: None })
        })
    }

    /// Waits until `replicas` have decided the same and are in the same state, once nothing is
    /// submitted any more. An idle cluster does not tell everybody of the last empty blocks; and
    /// who took over a snapshot of a state behind the last command has empty blocks alone to show.
    pub fn wait_until_equal(&self, replicas: &[usize]) {
        wait_until(&format!("replicas {replicas:?} are equal"), || {
            let found = |replica: &usize| Some((self.shown(*replica)?, self.keys(*replica)?));
            let Some(found) = replicas.iter().map(found).collect::<Option<Vec<_>>>() else {
                return false;
            };
            let last = found.iter().filter_map(|(shown, _)| shown.full).max();
            let has_last = |shown: &Shown| match (shown.full, last) {
                (None, Some((height, _))) => shown.first > height,
                (full, last) => full == last,
            };
            found.iter().all(|(shown, _)| has_last(shown))
                && found.windows(2).all(|pair| pair[0].1 == pair[1].1)
        });
    }

    /// Decided blocks at one height are equal wherever they can be had. The last few that a replica
    /// shows are proof of those below, and may be given up yet.
    pub fn assert_agreement(&self, replicas: &[usize]) {
        let spans: Vec<_> = replicas.iter().filter_map(|replica| self.span(*replica)).collect();
        let (Some(low), Some(high)) =
            (spans.iter().map(|span| span.0).max(), spans.iter().map(|span| span.1).min())
        else {
            return;
        };
        let high = high.saturating_sub(4);
        let step = ((high.saturating_sub(low)) / 20).max(1);
        for height in (low..=high).step_by(step as usize) {
            let ids: Vec<_> = replicas
                .iter()
                .filter_map(|replica| Some(self.block(*replica, height)?.block.id()))
                .collect();
            assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "two blocks at height {height}");
        }
    }
}
