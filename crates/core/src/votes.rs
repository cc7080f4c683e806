//! Collecting votes until they make a certificate.
//!
//! Votes are not verified one by one: once q of them agree they are verified as one batch. A vote
//! whose signature fails is dropped and its sender ignored for that view. Votes may arrive before
//! the block, and before this replica has entered their view; each peer may hold a few places
//! only, so that nothing a peer chooses makes this grow.

use crate::block::BlockId;
use crate::certificate::{Qc, Vote};
use crate::committee::Committee;
use crate::types::{ReplicaId, View};

/// Places for votes a peer has: the view being collected, the next, and one beyond each, for
/// peers that are ahead.
const PLACES: usize = 4;

/// The votes at hand.
#[derive(Clone, Debug)]
pub struct VoteCollector {
    peers: Vec<Peer>,
    quorum: usize,
}

#[derive(Clone, Debug, Default)]
struct Peer {
    /// At most [`PLACES`] votes, of different views, ascending by view.
    votes: Vec<Vote>,
    /// Nothing of this view or an earlier one is listened to: a signature of it was bad.
    ignored: View,
}

impl VoteCollector {
    /// An empty collector for `committee`.
    #[must_use]
    pub fn new(committee: &Committee) -> Self {
        Self { peers: vec![Peer::default(); committee.size()], quorum: committee.quorum() }
    }

    /// Takes a vote in. Returns the votes for its block if they are q now: they are to be
    /// verified, and then either [`certify`](Self::certify) or [`refuse`](Self::refuse) called.
    pub fn add(&mut self, vote: Vote) -> Option<Vec<Vote>> {
        let peer = self.peers.get_mut(vote.voter.index())?;
        if vote.view <= peer.ignored {
            return None;
        }
        match peer.votes.iter().position(|held| held.view >= vote.view) {
            // The first vote of a view counts. A second one, for another block, is equivocation
            // and changes nothing here.
            Some(at) if peer.votes[at].view == vote.view => return None,
            Some(at) => peer.votes.insert(at, vote),
            None => peer.votes.push(vote),
        }
        if peer.votes.len() > PLACES {
            peer.votes.remove(0);
        }
        self.quorum_for(vote.view, &vote.block)
    }

    /// The votes for `block` in `view`, if they are at least q.
    #[must_use]
    pub fn quorum_for(&self, view: View, block: &BlockId) -> Option<Vec<Vote>> {
        let votes: Vec<Vote> = self
            .peers
            .iter()
            .flat_map(|peer| &peer.votes)
            .filter(|vote| vote.view == view && vote.block == *block)
            .copied()
            .collect();
        (votes.len() >= self.quorum).then_some(votes)
    }

    /// Drops votes whose signatures failed and ignores their senders for that view.
    pub fn refuse(&mut self, vote: &Vote) {
        if let Some(peer) = self.peers.get_mut(vote.voter.index()) {
            peer.votes.retain(|held| held != vote);
            peer.ignored = peer.ignored.max(vote.view);
        }
    }

    /// The certificate of `votes`, all of which were verified: q of them, the lowest ids first.
    #[must_use]
    pub fn certify(&self, votes: &[Vote]) -> Option<Qc> {
        let first = votes.first()?;
        (votes.len() >= self.quorum)
            .then(|| Qc::of_votes(first.view, first.block, &votes[..self.quorum]))
    }

    /// Forgets votes below `view`.
    pub fn forget_below(&mut self, view: View) {
        for peer in &mut self.peers {
            peer.votes.retain(|vote| vote.view >= view);
        }
    }

    /// Who voted in `view`, for transcripts.
    pub fn voters(&self, view: View) -> impl Iterator<Item = ReplicaId> {
        self.peers
            .iter()
            .flat_map(|peer| &peer.votes)
            .filter(move |vote| vote.view == view)
            .map(|vote| vote.voter)
    }
}
