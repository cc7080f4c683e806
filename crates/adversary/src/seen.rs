//! What went by: the certificates, blocks, bodies and votes an adversary builds its lies from. All
//! of it bounded, for other adversaries may speak to this one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::base::crypto::Scheme;
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::frame::{FrameId, SharedFrame};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{FullBlock, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Tc, Vote};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};

use crate::Peer;
use crate::context::genesis;

const BLOCKS: usize = 256;
const FRAMES: usize = 128;
const QCS: usize = 128;
const VOTES: usize = 64;

/// The last few of something, by what names them.
#[derive(Debug)]
struct Kept<K, V> {
    by_key: BTreeMap<K, V>,
    order: VecDeque<K>,
    cap: usize,
}

impl<K: Ord + Copy, V> Kept<K, V> {
    fn new(cap: usize) -> Self {
        Self { by_key: BTreeMap::new(), order: VecDeque::new(), cap }
    }

    fn keep(&mut self, key: K, value: V) {
        if self.by_key.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > self.cap
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }
}

/// What went by.
#[derive(Debug)]
pub struct Seen {
    view: View,
    blocks: Kept<BlockId, SharedBlock>,
    frames: Kept<FrameId, SharedFrame>,
    /// Certificates whose votes hold, by rank.
    qcs: BTreeMap<(View, u8), Qc>,
    tc: Option<Tc>,
    votes: VecDeque<Vote>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            view: View(0),
            blocks: Kept::new(BLOCKS),
            frames: Kept::new(FRAMES),
            qcs: BTreeMap::new(),
            tc: None,
            votes: VecDeque::new(),
        }
    }
}

impl Seen {
    /// The highest view the replica has acted in, or that a certificate has led to.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// The block of this identity, if it went by of late.
    #[must_use]
    pub fn block(&self, id: &BlockId) -> Option<&SharedBlock> {
        self.blocks.by_key.get(id)
    }

    /// A block that extends this one, if one went by of late: it says what root belongs to such a
    /// block.
    #[must_use]
    pub fn child_of(&self, parent: &BlockId) -> Option<&SharedBlock> {
        self.blocks.by_key.values().find(|block| block.parent() == *parent)
    }

    /// The bodies of these frames, as far as they went by.
    #[must_use]
    pub fn bodies(&self, ids: &[FrameId]) -> Vec<SharedFrame> {
        ids.iter().filter_map(|id| self.frames.by_key.get(id)).map(Arc::clone).collect()
    }

    /// The frames that went by, oldest first.
    pub fn frames(&self) -> impl Iterator<Item = &SharedFrame> {
        self.frames.order.iter().filter_map(|id| self.frames.by_key.get(id))
    }

    /// The certificates that went by and hold, lowest first.
    pub fn qcs(&self) -> impl DoubleEndedIterator<Item = &Qc> {
        self.qcs.values()
    }

    /// The highest of them.
    #[must_use]
    pub fn high_qc(&self) -> Option<&Qc> {
        self.qcs.values().next_back()
    }

    /// Whether a block of this view was certified.
    #[must_use]
    pub fn certified(&self, view: View) -> bool {
        self.qcs.keys().any(|(certified, _)| *certified == view)
    }

    /// The last time-out certificate that the replica itself passed on.
    #[must_use]
    pub fn tc(&self) -> Option<&Tc> {
        self.tc.as_ref()
    }

    /// Votes of others, oldest first.
    pub fn votes(&self) -> impl Iterator<Item = &Vote> {
        self.votes.iter()
    }

    /// Learns from a message that the replica sends.
    pub(crate) fn own(&mut self, message: &Peer) {
        self.keep_bodies(message);
        let PeerMessage::Protocol { message, .. } = message else { return };
        self.view = self.view.max(match message {
            Message::Advance { .. } | Message::Certificate(_) => View(0),
            acted => acted.view(),
        });
        for qc in certificates(message) {
            self.certified_by(qc);
        }
        if let Some(tc) = time_out_certificate(message) {
            self.view = self.view.max(tc.view().next());
            self.tc = Some(tc.clone());
        }
    }

    /// Learns from a message that another sent: what it signs is checked first.
    pub(crate) fn heard(
        &mut self,
        domain: &Domain,
        scheme: &dyn Scheme,
        from: ReplicaId,
        message: &Peer,
    ) {
        self.keep_bodies(message);
        let PeerMessage::Protocol { message, .. } = message else { return };
        if let Message::Vote(vote) = message
            && vote.voter == from
        {
            self.votes.push_back(*vote);
            if self.votes.len() > VOTES {
                self.votes.pop_front();
            }
        }
        for qc in certificates(message) {
            if self.qcs.contains_key(&qc.rank()) || qc.view() == View(0) {
                continue;
            }
            let Ok(checks) = qc.checks(domain, &genesis(domain)) else { continue };
            if scheme.verify(&checks).iter().all(|holds| *holds) {
                self.certified_by(qc);
            }
        }
    }

    fn certified_by(&mut self, qc: &Qc) {
        if qc.view() == View(0) {
            return;
        }
        self.view = self.view.max(qc.view());
        self.qcs.entry(qc.rank()).or_insert_with(|| qc.clone());
        if self.qcs.len() > QCS {
            self.qcs.pop_first();
        }
    }

    fn keep_bodies(&mut self, message: &Peer) {
        match message {
            PeerMessage::Protocol { message, frames, .. } => {
                if let Message::Proposal { block, .. } = message {
                    self.blocks.keep(block.id(), Arc::clone(block));
                }
                self.keep_frames(frames);
            }
            PeerMessage::Relay(frames) | PeerMessage::Frames(frames) => self.keep_frames(frames),
            PeerMessage::Chain(blocks) | PeerMessage::Ancestors { blocks, .. } => {
                for FullBlock { block, frames } in blocks.iter().rev().take(BLOCKS) {
                    self.blocks.keep(block.id(), Arc::clone(block));
                    self.keep_frames(frames);
                }
            }
            _ => {}
        }
    }

    fn keep_frames(&mut self, frames: &[SharedFrame]) {
        for frame in frames.iter().take(FRAMES) {
            self.frames.keep(frame.id(), Arc::clone(frame));
        }
    }
}

/// The certificates of votes in a message.
fn certificates(message: &Message) -> impl Iterator<Item = &Qc> {
    let (qc, tc) = match message {
        Message::Proposal { block, tc } => (Some(&block.justify), tc.as_ref()),
        Message::Vote(_) => (None, None),
        Message::Certificate(qc) => (Some(qc), None),
        Message::TimeOut { high_qc, high_tc, .. } => (Some(high_qc), high_tc.as_ref()),
        Message::NewView { high_qc, .. } => (Some(high_qc), None),
        Message::Advance { high_qc, high_tc, .. } => (Some(high_qc), high_tc.as_ref()),
    };
    qc.into_iter().chain(tc.map(Tc::high_qc))
}

fn time_out_certificate(message: &Message) -> Option<&Tc> {
    match message {
        Message::Proposal { tc, .. } => tc.as_ref(),
        Message::TimeOut { high_tc, .. } | Message::Advance { high_tc, .. } => high_tc.as_ref(),
        _ => None,
    }
}
