//! Collecting votes until they make a certificate.
//!
//! Votes are not verified one by one: once q of them agree they are verified as one batch (second
//! votes are not signed, and are collected here as well). A vote whose signature fails is dropped
//! and its sender ignored for that view. Votes may arrive before the block, and before this replica
//! has entered their view; each peer may hold a few places only, so that nothing a peer chooses
//! makes this grow.

use crate::base::membership::Committee;
use crate::base::per_peer::PerPeer;
use crate::base::types::View;
use crate::protocols::hotstuff::certificate::Vote;
use crate::protocols::protocol::Ballot;

/// Places for votes a peer has: the phases of the view being collected, the next view, and one
/// beyond, for peers that are ahead.
const PLACES: usize = 6;

/// The votes at hand.
#[derive(Clone, Debug)]
pub struct VoteCollector {
    peers: PerPeer<Peer>,
    committee: Committee,
}

#[derive(Clone, Debug, Default)]
struct Peer {
    /// At most [`PLACES`] votes of different ranks, ascending.
    votes: Vec<Vote>,
    /// Nothing of this view or an earlier one is listened to: a signature of it was bad.
    ignored: View,
}

impl VoteCollector {
    /// An empty collector for `committee`.
    #[must_use]
    pub fn new(committee: &Committee) -> Self {
        Self { peers: PerPeer::new(committee.size()), committee: committee.clone() }
    }

    /// Takes a vote in. Returns the votes for the same if they are q now: they are to be
    /// verified, and the bad ones [refused](Self::refuse).
    pub fn add(&mut self, vote: Vote) -> Option<Vec<Vote>> {
        if self.committee.weight(vote.voter) == 0 {
            return None;
        }
        let peer = self.peers.get_mut(vote.voter)?;
        if vote.view <= peer.ignored {
            return None;
        }
        match peer.votes.iter().position(|held| held.rank() >= vote.rank()) {
            // The first vote of a view and phase counts. A second one, for another block, is
            // equivocation and changes nothing here.
            Some(at) if peer.votes[at].rank() == vote.rank() => return None,
            Some(at) => peer.votes.insert(at, vote),
            None => peer.votes.push(vote),
        }
        if mutant!("future-votes-unbounded", false, peer.votes.len() > PLACES) {
            peer.votes.remove(0);
        }
        self.quorum_for(&vote.ballot)
    }

    /// Whether its voter's vote for another block in the same view and phase is at hand.
    #[must_use]
    pub fn contradict(&self, vote: &Vote) -> bool {
        let held = self.peers.get(vote.voter).map_or(&[][..], |peer| &peer.votes);
        held.iter().any(|held| held.rank() == vote.rank() && held.block != vote.block)
    }

    /// The votes for `ballot`, if they are at least q.
    #[must_use]
    pub fn quorum_for(&self, ballot: &Ballot) -> Option<Vec<Vote>> {
        let held = self.peers.iter().flat_map(|peer| &peer.votes);
        let votes = held.filter(|vote| vote.ballot == *ballot);
        self.committee.quorum_among(votes.clone().map(|vote| vote.voter))?;
        Some(votes.copied().collect())
    }

    /// How many votes are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.peers.iter().map(|peer| peer.votes.len()).sum()
    }

    /// Drops a vote whose signature failed and ignores its sender for that view.
    pub fn refuse(&mut self, vote: &Vote) {
        if let Some(peer) = self.peers.get_mut(vote.voter) {
            peer.votes.retain(|held| held != vote);
            peer.ignored = peer.ignored.max(vote.view);
        }
    }

    /// Forgets votes below `view`.
    pub fn forget_below(&mut self, view: View) {
        for peer in &mut self.peers {
            peer.votes.retain(|vote| vote.view >= view);
        }
    }
}
