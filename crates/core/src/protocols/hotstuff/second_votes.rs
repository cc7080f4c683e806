//! Second votes: an option of the two-chain rule, with votes broadcast.
//!
//! A replica that sees the certificate of b tells all that it has, if
//! [`Rules::may_vote_again`](super::rules::Rules::may_vote_again) allows it, and b is committed
//! where q such words are heard. They bear no signature. Each is between two replicas: the channel
//! says whose it is, f of the q may lie, and the others have the certificate of b in every time-out
//! of its view or a later one. Nobody has to show them to a third, as the chain behind b shows the
//! same in the end.

use super::rules::SECOND_VOTE;
use super::{Fx, HotStuff, Message};
use crate::base::crypto::Signature;
use crate::base::types::ReplicaId;
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::certificate::{Qc, Vote};
use crate::protocols::protocol::Ballot;
use crate::protocols::protocol::{Event, Output};

/// So many blocks may be committed by words above what the chain shows. Roots of so many states are
/// kept, after a restart as well (`replica::MAX_ROOTS`), and elections look back so far. It is
/// reached only where for as long no two views in a row have certificates; then what is above waits
/// for the chain, as it does without words.
const MOST_AHEAD: u64 = 32;

impl HotStuff {
    /// Whether votes for `ballot` are second votes: behind the last phase that has certificates.
    pub(super) fn is_second(&self, ballot: &Ballot) -> bool {
        ballot.phase > self.facts().phases
    }

    /// Says to all that this replica has seen the certificate of a block, if the rules allow it.
    pub(super) fn vote_again(&mut self, qc: &Qc, fx: &mut Fx) {
        let ballot = Ballot { phase: SECOND_VOTE, ..qc.ballot() };
        let may = self.settings.second_vote
            && self.settings.rules.may_vote_again(ballot.view, self.safety.timed_out)
            && planted!("abstains-from-first-votes-alone", true, !self.abstains(ballot.view))
            && self.safety.voted.is_none_or(|voted| voted.rank() < ballot.rank());
        if may {
            self.vote(ballot, fx);
        }
    }

    /// Sends the second vote that is on record.
    pub(super) fn tell_again(&mut self, ballot: Ballot, fx: &mut Fx) {
        let vote = Vote { ballot, voter: self.me, signature: Signature::NONE };
        fx.output(Output::Broadcast(Message::Vote(vote)));
        self.on_second_vote(vote, fx);
    }

    /// Sends the second vote that is on record to a peer whose channel opened. A certificate shows
    /// commands to be committed; the empty block behind them may be committed by second votes
    /// alone, and an idle cluster orders nothing by which a replica that missed them would learn of
    /// it.
    pub(super) fn repeat_second_vote(&self, peer: ReplicaId, fx: &mut Fx) {
        if let Some(ballot) = self.safety.voted.filter(|ballot| self.is_second(ballot)) {
            let vote = Vote { ballot, voter: self.me, signature: Signature::NONE };
            fx.output(Output::Send { to: peer, message: Message::Vote(vote) });
        }
    }

    /// Takes in a second vote, in the name of whoever sent it.
    pub(super) fn on_second_vote(&mut self, vote: Vote, fx: &mut Fx) {
        if self.is_late(&vote) {
            return;
        }
        if self.collecting.votes.contradict(&vote) {
            fx.event(Event::DoubleVote { voter: vote.voter, view: vote.view });
            return;
        }
        if self.collecting.votes.add(vote).is_some() {
            self.decisions.tell(vote.ballot);
            self.commit_if_told(&vote.block, fx);
        }
    }

    /// Commits the block if it is here, and q second votes for it are the last that were heard.
    pub(super) fn commit_if_told(&mut self, block: &BlockId, fx: &mut Fx) {
        let told = self.decisions.is_told(block);
        if let Some(height) = self.tree.get(block).map(|block| block.height).filter(|_| told) {
            let shown = self.tree.committed_by(block).unwrap_or(self.tree.root().height);
            if height.0 <= shown.0 + MOST_AHEAD {
                self.commit(block, fx);
            }
        }
    }
}
