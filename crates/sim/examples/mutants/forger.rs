//! Liars that know what went over the network: they extend old certificates, propose in others'
//! views, and put together proposals that are right in all but one thing.

use std::sync::Arc;

use quorate_core::base::crypto::Signer as _;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Tc, Vote};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};
use quorate_sim::Peer;
use quorate_sim::keys::Key;
use quorate_sim::network::Fate;
use quorate_sim::rng::Rng;

/// Proposals remembered.
const MEMORY: usize = 64;

/// What a liar remembers.
pub struct Forger {
    rng: Rng,
    /// By slot: whether it lies.
    faulty: Vec<bool>,
    /// It bends no other messages than proposals after a time-out.
    only_forks: Option<Domain>,
    /// What it told of the last view in which it forked.
    last_fork: Option<(View, Fate)>,
    /// The last proposals, with how their views were entered.
    seen: Vec<(SharedBlock, Option<Tc>)>,
}

impl Forger {
    /// Forges what these slots send.
    pub fn new(seed: u64, faulty: Vec<bool>) -> Self {
        Self { rng: Rng::new(seed), faulty, only_forks: None, last_fork: None, seen: Vec::new() }
    }

    /// Forks whenever time-outs let it, votes for its forks, and does nothing else.
    pub fn who_always_forks(self, domain: Domain) -> Self {
        Self { only_forks: Some(domain), ..self }
    }

    /// What becomes of a message.
    pub fn meddle(&mut self, from: usize, _to: usize, message: &Peer) -> Fate {
        let PeerMessage::Protocol { message: inner, .. } = message else { return Fate::Goes };
        if let Message::Proposal { block, tc } = inner
            && !self.seen.iter().any(|(seen, _)| seen.id() == block.id())
        {
            self.seen.push((Arc::clone(block), tc.clone()));
            if self.seen.len() > MEMORY {
                self.seen.remove(0);
            }
        }
        if !self.faulty[from] {
            return Fate::Goes;
        }
        if let Some(domain) = &self.only_forks {
            return match inner {
                Message::Proposal { block, tc: Some(tc) } => self.fork_alike(block, tc),
                Message::Vote(vote) => self.vote_for_the_fork(domain, from, vote),
                _ => Fate::Goes,
            };
        }
        if self.rng.percent(50) {
            return Fate::Goes;
        }
        match inner {
            Message::Proposal { block, tc } => self.fork(block, tc.as_ref()),
            Message::Vote(vote) => self.impersonate(vote.voter, vote.view),
            Message::TimeOut { time_out, .. } => self.impersonate(time_out.replica, time_out.view),
            _ => Fate::Goes,
        }
    }

    /// The same proposal on an older certificate.
    fn fork(&mut self, block: &SharedBlock, tc: Option<&Tc>) -> Fate {
        let older: Vec<&SharedBlock> = self
            .seen
            .iter()
            .map(|(seen, _)| seen)
            .filter(|seen| seen.justify.view() < block.justify.view())
            .collect();
        let back = self.rng.below(older.len().min(4) as u64) as usize;
        let Some(sibling) = older.len().checked_sub(back + 1).and_then(|at| older.get(at)) else {
            return Fate::Goes;
        };
        let mut content: Content = Content::clone(sibling);
        (content.view, content.proposer) = (block.view, block.proposer);
        let with_frames = self.rng.percent(50);
        if !with_frames {
            content.frames.clear();
        }
        propose(content, tc.cloned())
    }

    /// The same, to all alike.
    fn fork_alike(&mut self, block: &SharedBlock, tc: &Tc) -> Fate {
        if self.last_fork.as_ref().is_none_or(|(view, _)| *view != block.view) {
            self.last_fork = Some((block.view, self.fork(block, Some(tc))));
        }
        self.last_fork.as_ref().map_or(Fate::Goes, |(_, fate)| fate.clone())
    }

    /// What it voted for was the block that it told nobody of.
    fn vote_for_the_fork(&self, domain: &Domain, from: usize, vote: &Vote) -> Fate {
        let forked = self.last_fork.as_ref().filter(|(view, _)| *view == vote.view);
        let Some((_, Fate::Bent(told))) = forked else { return Fate::Goes };
        let PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. } = &**told else {
            return Fate::Goes;
        };
        let ballot = Ballot { block: block.id(), ..vote.ballot };
        let statement = domain.vote(ballot.view, ballot.phase, &ballot.block);
        let signature = Key::of_replica(from).sign(&statement);
        let vote = Vote { ballot, signature, ..*vote };
        Fate::Bent(Box::new(PeerMessage::of(Message::Vote(vote))))
    }

    /// Another's proposal as its own.
    fn impersonate(&mut self, liar: ReplicaId, view: View) -> Fate {
        let seen = self.seen.iter().rev().find(|(block, _)| block.view == view);
        let Some((block, tc)) = seen else { return Fate::Goes };
        let mut content: Content = Content::clone(block);
        content.proposer = liar;
        content.frames.clear();
        let (content, tc) = (content, tc.clone());
        propose(content, tc)
    }
}

fn propose(content: Content, tc: Option<Tc>) -> Fate {
    let block = Arc::new(Block::new(content));
    Fate::Bent(Box::new(PeerMessage::of(Message::Proposal { block, tc })))
}
