//! The polls under way, and which peers answer.

use std::collections::VecDeque;

use super::tree::Vote;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::snow::sampling::Asked;

/// Questions to a peer that may be answered still, at most.
const OPEN: usize = 64;
/// So many questions in a row without an answer, and a peer is silent ...
const SILENT_AFTER: usize = 16;
/// ... for so long it is not asked. Then it is asked once more.
const BENCHED_FOR: Duration = Duration::from_secs(1);
/// A poll waits so many times as long for answers as those took lately ...
const MARGIN: u32 = 4;
/// ... but at least so long ...
const SHORTEST: Duration = Duration::from_millis(20);
/// ... and at most so long.
const LONGEST: Duration = Duration::from_secs(2);

/// A poll.
#[derive(Clone, Debug)]
pub(super) struct Poll {
    /// Its number.
    pub number: u64,
    /// When it ends whatever is missing.
    pub ends: Time,
    /// Who has not answered.
    pub waiting: Vec<Asked>,
    /// The benched peers: they were not asked.
    benched: Vec<Asked>,
    /// The blocks that were named.
    pub votes: Vec<Vote>,
    /// The seats that answered.
    pub seats: u32,
}

impl Poll {
    /// The seats that may answer still.
    pub fn waiting_seats(&self) -> u32 {
        self.waiting.iter().map(|asked| asked.seats).sum()
    }
}

/// What is known of a peer's answers.
#[derive(Clone, Debug, Default)]
struct Peer {
    /// The polls that it was asked in and has not answered, and when that was.
    open: VecDeque<(u64, Time)>,
    heard: Time,
    /// Its answer to the newest poll: the poll's number, when the peer was asked, the block that it
    /// named if that is known here, and how far it says that it has accepted.
    said: Option<(u64, Time, Option<BlockId>, Height)>,
    benched_until: Option<Time>,
}

/// The polls under way, in the order they began.
#[derive(Clone, Debug)]
pub(super) struct Polls {
    pub open: VecDeque<Poll>,
    next: u64,
    peers: PerPeer<Peer>,
    most_benched: usize,
    /// How long answers took lately: at the longest, and on average.
    slowest: Duration,
    average: Duration,
    /// Polls in a row in which too few answered.
    unanswered: u32,
    /// How many ended.
    pub ended: u64,
}

impl Polls {
    /// None yet.
    pub fn new(replicas: usize, most_benched: usize) -> Self {
        Self {
            open: VecDeque::new(),
            next: 1,
            peers: PerPeer::new(replicas),
            most_benched,
            slowest: Duration::from_millis(125),
            average: Duration::ZERO,
            unanswered: 0,
            ended: 0,
        }
    }

    /// The number of the next poll.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// How long to wait from the beginning of a poll to that of the next.
    pub fn spacing(&self, at_once: usize) -> Duration {
        self.average / at_once.max(1) as u32
    }

    /// Whether this peer has to answer in this poll.
    pub fn is_asked(&self, peer: ReplicaId, poll: u64) -> bool {
        let peer = self.peers.get(peer);
        let is_open = |peer: &Peer| peer.open.iter().any(|(open, _)| *open == poll);
        planted!("snowman-unasked-answer-counts", true, peer.is_some_and(is_open))
    }

    /// Begins a poll of these, whose number is returned. Benched peers are not asked.
    pub fn begin(&mut self, now: Time, mut asked: Vec<Asked>) -> u64 {
        let number = self.next;
        self.next += 1;
        let benched = asked.extract_if(.., |asked| self.is_benched(now, asked.peer)).collect();
        for Asked { peer, .. } in &asked {
            if let Some(peer) = self.peers.get_mut(*peer) {
                peer.open.push_back((number, now));
                if peer.open.len() > OPEN {
                    peer.open.pop_front();
                }
            }
        }
        let ends = now.after(self.patience());
        let (votes, seats) = (Vec::new(), 0);
        self.open.push_back(Poll { number, ends, waiting: asked, benched, votes, seats });
        number
    }

    fn patience(&self) -> Duration {
        let usual = (self.slowest * MARGIN).clamp(SHORTEST, LONGEST);
        (usual * (1 << self.unanswered.min(8))).min(LONGEST)
    }

    /// Whether a peer is not to be asked: it owes many answers.
    fn is_benched(&mut self, now: Time, id: ReplicaId) -> bool {
        let patience = self.patience();
        let benched = self.benched(now);
        let Some(peer) = self.peers.get_mut(id) else { return true };
        if peer.benched_until.is_some_and(|until| now < until) {
            return true;
        }
        peer.benched_until = None;
        let heard = peer.heard;
        let owed = |(_, at): &&(u64, Time)| *at > heard && now.since(*at) > patience;
        if peer.open.iter().filter(owed).count() >= SILENT_AFTER && benched < self.most_benched {
            // This once it is asked.
            peer.benched_until = Some(now.after(BENCHED_FOR));
        }
        false
    }

    /// How many are benched.
    pub fn benched(&self, now: Time) -> usize {
        let until = self.peers.iter().filter_map(|peer| peer.benched_until);
        until.filter(|until| now < *until).count()
    }

    /// A peer that was asked answers, with a block that is known here or with none, and says how
    /// far it has accepted. An answer to a poll that has ended tells how long answers take.
    pub fn answered(
        &mut self,
        now: Time,
        from: ReplicaId,
        number: u64,
        named: Option<BlockId>,
        accepted: Height,
    ) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        let Some(place) = peer.open.iter().position(|(open, _)| *open == number) else { return };
        if let Some((_, at)) = peer.open.remove(place) {
            let took = now.since(at);
            self.slowest = took.max(self.slowest * 7 / 8).min(LONGEST);
            self.average = (self.average * 7 + took.min(LONGEST)) / 8;
            if peer.said.is_none_or(|(newest, ..)| newest < number) {
                peer.said = Some((number, at, named, accepted));
            }
        }
        (peer.heard, peer.benched_until) = (now, None);
        let Some(poll) = self.open.iter_mut().find(|poll| poll.number == number) else { return };
        let Some(place) = poll.waiting.iter().position(|asked| asked.peer == from) else { return };
        let Asked { seats, .. } = poll.waiting.swap_remove(place);
        poll.seats += seats;
        poll.votes.extend(named.map(|block| Vote { block, seats, accepted }));
    }

    /// The last answers of peers that have not answered the first poll under way. Answers to
    /// questions that are older than the longest poll do not count.
    pub fn last_words(&self, now: Time) -> Vec<Vote> {
        let silent = self.open.front().into_iter();
        let silent = silent.flat_map(|poll| poll.waiting.iter().chain(&poll.benched));
        let said = silent.filter_map(|Asked { peer, seats }| {
            let (_, at, named, accepted) = self.peers.get(*peer)?.said?;
            let block = named.filter(|_| now.since(at) <= LONGEST)?;
            Some(Vote { block, seats: *seats, accepted })
        });
        said.collect()
    }

    /// A poll has ended, in which enough have answered or not.
    pub fn ended(&mut self, enough: bool) {
        self.ended += 1;
        self.unanswered = if enough { 0 } else { self.unanswered.saturating_add(1) };
    }
}
