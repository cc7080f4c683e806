//! What each replica said in the current view and those around it. All signatures were checked.

use std::collections::BTreeMap;

use super::certificate::{GaveUp, Phase, Qc, Signed};
use super::words::{MAX_FALLBACKS, Vote};
use crate::base::crypto::Signature;
use crate::base::per_peer::PerPeer;
use crate::base::types::{ReplicaId, View};
use crate::ledger::block::BlockId;

/// So many views back, votes are still of use: they may commit a block.
pub const BACK: u64 = 3;
/// So many views ahead, words are kept: their sender may have entered by what is still to come.
pub const AHEAD: u64 = 4;

/// What one replica said in one view.
#[derive(Clone, Debug, Default)]
struct Words {
    /// Its first vote: the block with the leader's signature, or blank; and its signature.
    first: Option<(Option<(BlockId, Signature)>, Signature)>,
    fallbacks: Vec<(BlockId, Signature, Signature)>,
    second: Option<(BlockId, Signature)>,
    time_out: Option<(Qc, Signature)>,
}

/// What a vote was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heeded {
    /// A new one.
    New,
    /// One that is known.
    Known,
    /// Another one than its sender said before.
    Contradicts,
}

/// What all replicas said.
#[derive(Clone, Debug)]
pub struct Heard(PerPeer<BTreeMap<View, Words>>);

impl Heard {
    /// Nothing yet.
    pub fn new(replicas: usize) -> Self {
        Self(PerPeer::new(replicas))
    }

    /// Whether words of a view are kept by a replica in view `current`.
    pub fn is_near(view: View, current: View) -> bool {
        view.plus(BACK) >= current && view <= current.plus(AHEAD)
    }

    /// Forgets views that are too far behind `current`.
    pub fn forget_behind(&mut self, current: View) {
        self.0.iter_mut().for_each(|views| views.retain(|view, _| Self::is_near(*view, current)));
    }

    fn words(&mut self, peer: ReplicaId, view: View) -> Option<&mut Words> {
        Some(self.0.get_mut(peer)?.entry(view).or_default())
    }

    /// Takes in a vote of a view that [is near](Self::is_near).
    pub fn vote(&mut self, from: ReplicaId, vote: &Vote) -> Heeded {
        let Some(words) = self.words(from, vote.view) else { return Heeded::Known };
        let id = vote.block.map(|(id, _)| id);
        match (vote.phase, vote.block) {
            (Phase::First, block) => match &words.first {
                None => words.first = Some((block, vote.signature)),
                Some((known, _)) if known.map(|(id, _)| id) == id => return Heeded::Known,
                Some(_) => return Heeded::Contradicts,
            },
            (Phase::Fallback, Some((block, leaders))) => {
                let is_known = words.fallbacks.iter().any(|(known, ..)| *known == block);
                if is_known || words.fallbacks.len() == MAX_FALLBACKS {
                    return Heeded::Known;
                }
                words.fallbacks.push((block, leaders, vote.signature));
            }
            (Phase::Second, Some((block, _))) => match &words.second {
                None => words.second = Some((block, vote.signature)),
                Some((known, _)) if *known == block => return Heeded::Known,
                Some(_) => return Heeded::Contradicts,
            },
            (Phase::Fallback | Phase::Second, None) => return Heeded::Known,
        }
        Heeded::New
    }

    /// Takes in a time-out.
    pub fn time_out(&mut self, from: ReplicaId, view: View, high_qc: Qc, signature: Signature) {
        if let Some(words) = self.words(from, view) {
            words.time_out.get_or_insert((high_qc, signature));
        }
    }

    fn of(&self, view: View) -> impl Iterator<Item = (ReplicaId, &Words)> {
        self.0.of_each().filter_map(move |(peer, views)| Some((peer, views.get(&view)?)))
    }

    /// The first votes of a view.
    pub fn firsts(&self, view: View) -> Vec<(ReplicaId, Option<BlockId>)> {
        let first = |(peer, words): (ReplicaId, &Words)| {
            Some((peer, words.first.as_ref()?.0.map(|(block, _)| block)))
        };
        self.of(view).filter_map(first).collect()
    }

    /// The leader's signature under its first vote for a block, as a first vote brought it.
    pub fn leaders(&self, view: View, block: &BlockId) -> Option<Signature> {
        let found = |words: &Words| words.first.and_then(|(vote, _)| vote);
        let mut all = self.of(view).filter_map(|(_, words)| found(words));
        all.find(|(voted, _)| voted == block).map(|(_, signature)| signature)
    }

    /// The votes of one kind for a block, ascending by their senders.
    pub fn votes(&self, phase: Phase, view: View, block: &BlockId) -> Vec<Signed> {
        let vote = |words: &Words| match phase {
            Phase::First => {
                let (vote, signature) = words.first?;
                vote.filter(|(voted, _)| voted == block).map(|_| signature)
            }
            Phase::Fallback => {
                let found = words.fallbacks.iter().find(|(voted, ..)| voted == block);
                found.map(|(.., signature)| *signature)
            }
            Phase::Second => {
                words.second.filter(|(voted, _)| voted == block).map(|(_, signature)| signature)
            }
        };
        self.of(view).filter_map(|(peer, words)| Some((peer, vote(words)?))).collect()
    }

    /// The time-outs of a view, ascending by their senders, and the highest QC that they name.
    pub fn time_outs(&self, view: View) -> (Vec<GaveUp>, Option<Qc>) {
        let all = || self.of(view).filter_map(|(peer, it)| Some((peer, it.time_out.as_ref()?)));
        let entry = |(replica, (qc, signature)): (ReplicaId, &(Qc, Signature))| GaveUp {
            replica,
            high: qc.view,
            signature: *signature,
        };
        let high_qc = all().map(|(_, (qc, _))| qc).max_by_key(|qc| qc.view).cloned();
        (all().map(entry).collect(), high_qc)
    }

    /// What a replica said in a view, as it said it.
    pub fn said(&self, peer: ReplicaId, view: View) -> (Vec<Vote>, Option<(Qc, Signature)>) {
        let words = self.0.get(peer).and_then(|views| views.get(&view));
        let Some(words) = words else { return (Vec::new(), None) };
        let vote = |phase, block, signature| Vote { phase, view, block, signature };
        let mut votes = Vec::new();
        if let Some((block, signature)) = words.first {
            votes.push(vote(Phase::First, block, signature));
        }
        for (block, leaders, signature) in &words.fallbacks {
            votes.push(vote(Phase::Fallback, Some((*block, *leaders)), *signature));
        }
        if let Some((block, signature)) = words.second {
            votes.push(vote(Phase::Second, Some((block, Signature::NONE)), signature));
        }
        (votes, words.time_out.clone())
    }
}
