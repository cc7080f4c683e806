//! Avalanche: payments agreed on by sampling, over a DAG (white paper, section 3).
//!
//! **What is probabilistic.** Of two transactions that spend one output, two correct nodes may
//! accept different ones, with a probability that α, β₁ and β₂ make small. A transaction without a
//! rival is accepted by all in about a second. One whose owner spends an output twice may stay
//! pending for ever: nobody is promised that a double spender's payments end.
//!
//! ```text
//! T comes in: it joins a conflict set for each of its inputs; the first one there is preferred
//! pick a vertex that was not asked about yet; ask k seats whether they strongly prefer it
//! α yes:  chit; for every ancestor T': d(T')++; if d(T') > d(pref of its set): pref = T'
//!         if T' ≠ last: last = T', count = 1 else count++
//! else:   count = 0 for every ancestor             (Glacier: for those that the answers name)
//! accept: `dag::accepting`
//! ```
//!
//! A *vertex* carries some transactions and its parents. Deviations from the white paper, which has
//! one transaction a vertex and leaves much open:
//! - Transactions with a rival are issued alone, so that they spoil no other one's vertex.
//! - A poll ends as soon as its outcome is certain. One that ends without enough *answers* is
//!   repeated with another sample: silence is no vote.
//! - A transaction is accepted after those whose outputs it spends.
//! - Only the node that a client gave a transaction to issues it again, with new parents, when it
//!   is stuck: at once if an ancestor was rejected, else after a time that doubles.
//! - No-ops are issued while something strongly preferred is pending and no vertex comes: soon by
//!   nodes with pending transactions of their own, later by others. They stop while they do not
//!   help.
//! - Parents are up to [`Settings::parents`] of the frontier, drawn. Payments vouch for a
//!   pending transaction with a rival only after β₁ successful polls of it in a row; until then
//!   no-ops bring the preferred one its chits.
//! - A rival is forgotten when memory is short; its set stays contested, so that β₂ still applies.
//!
//! The driver verifies transactions before they come in, keeps what was accepted ([`Past`]), and
//! carries messages. Nothing is signed but transactions: a vote convinces nobody else.

mod answering;
mod dag;
pub mod interface;
mod issuing;
mod knowledge;
pub mod message;
pub mod names;
mod own;
mod polling;
mod polls;
pub mod settings;
mod slab;
mod state;
pub mod vertex;
mod waiting;
pub mod why;

use std::collections::{BTreeSet, VecDeque};

use dag::{Dag, Decision};
pub use interface::{Conflict, Effects, Input, NotTaken, Output, Past, Record, Rule, SeenVertex};
pub use message::{Message, Vote};
pub use names::{InputId, TransactionId, VertexId};
use own::Own;
use polls::Polls;
pub use settings::{Counters, Limits, Settings};
use state::Dropped;
pub use vertex::{Malformed, Transaction, Vertex};
use waiting::Waiting;
pub use why::{LastPoll, Reason, SetWhy, VertexWhy, Why};

use super::parameters::Invalid;
use super::random::Random;
use super::sampling::{Electorate, Sampler};
use crate::base::types::{ReplicaId, Time};

/// A node.
#[derive(Clone, Debug)]
pub struct Avalanche<T> {
    settings: Settings,
    sampler: Sampler,
    electorate: Electorate,
    random: Random,
    dag: Dag<T>,
    polls: Polls,
    own: Own<T>,
    waiting: Waiting<T>,
    /// Peers that are not asked, with their stake in sum.
    silent: (BTreeSet<ReplicaId>, u64),
    /// Names of rejected vertices, the oldest first.
    rejected: (BTreeSet<VertexId>, VecDeque<VertexId>),
    counts: Counts,
}

/// What happened so far, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vertices issued, without no-ops.
    pub issued: u64,
    /// No-ops issued.
    pub no_ops: u64,
    /// Transactions issued again.
    pub reissued: u64,
    /// Polls with α in favour.
    pub polls_won: u64,
    /// Polls without.
    pub polls_lost: u64,
    /// Polls repeated for want of answers.
    pub polls_repeated: u64,
    /// Questions answered.
    pub answered: u64,
    /// Transactions accepted.
    pub accepted: u64,
    /// Transactions rejected.
    pub rejected: u64,
    /// Vertices refused: malformed, spending what does not exist, or beyond a bound.
    pub refused: u64,
    /// Answers to questions that were not asked, and vertices that were not wanted.
    pub unasked: u64,
    /// Vertices forgotten for want of room.
    pub forgotten: u64,
}

/// What a node holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Vertices in memory.
    pub vertices: usize,
    /// Of these, pending ones.
    pub pending: usize,
    /// The [weight](Vertex::weight) of all.
    pub weight: usize,
    /// Places in the queue of vertices to ask about.
    pub queued: usize,
    /// Transactions of pending vertices and lately decided ones.
    pub transactions: usize,
    /// Polls under way.
    pub polls: usize,
    /// Vertices that wait for a parent.
    pub orphans: usize,
    /// Pending transactions of this node's clients.
    pub own: usize,
}

impl<T: Transaction> Avalanche<T> {
    /// Node `me` of those with these stakes. The seed decides whom it asks: no peer may know it.
    ///
    /// # Errors
    /// [`Invalid`] says what to change.
    pub fn new(
        settings: Settings,
        me: ReplicaId,
        stakes: &[u64],
        seed: u64,
    ) -> Result<Self, Invalid> {
        Self::of(settings, me, &Electorate::new(stakes)?, seed)
    }

    /// The same, for many nodes that share an electorate.
    ///
    /// # Errors
    /// [`Invalid`] says what to change.
    pub fn of(
        settings: Settings,
        me: ReplicaId,
        electorate: &Electorate,
        seed: u64,
    ) -> Result<Self, Invalid> {
        let settings = settings.checked()?;
        Ok(Self {
            sampler: electorate.sampler(me, settings.parameters.sample)?,
            electorate: electorate.clone(),
            random: Random::new(seed),
            dag: Dag::new(settings.limits, settings.parameters.early),
            polls: Polls::default(),
            own: Own::new(settings.no_op_after),
            waiting: Waiting::default(),
            silent: (BTreeSet::new(), 0),
            rejected: (BTreeSet::new(), VecDeque::new()),
            counts: Counts::default(),
            settings,
        })
    }

    /// The same in the place of an earlier one of this node: late answers to the polls of that one
    /// count for none of this.
    #[must_use]
    pub fn in_place_of(mut self, earlier: &Self) -> Self {
        self.polls.go_on_from(&earlier.polls);
        self
    }

    /// Takes one input. `past` has all records of earlier steps.
    pub fn step(&mut self, now: Time, input: Input<T>, past: &dyn Past) -> Effects<T> {
        let mut fx = Effects::default();
        let dropped = self.dag.sweep(self.settings.limits.frontier);
        self.note_dropped(dropped);
        match input {
            Input::Submit(transactions) => self.submit(transactions, past, &mut fx),
            Input::Message { from, message } => self.on_message(now, from, message, past, &mut fx),
            Input::Unreachable(peer) => self.silence(now, peer, past, &mut fx),
            Input::Reachable(peer) => self.unsilence(peer),
            Input::Timeout => self.on_timeout(now, past, &mut fx),
        }
        self.issue(now, past, &mut fx);
        self.ask(now, &mut fx);
        fx
    }

    /// When [`Input::Timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let no_op = self.own.no_op_at.filter(|_| self.dag.pending > 0);
        [self.polls.deadline(), self.own.deadline(), no_op, self.waiting.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn on_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: Message<T>,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        match message {
            Message::Query { poll, vertex } => self.on_query(now, from, poll, &vertex, past, fx),
            Message::Answer { poll, vote } => self.on_answer(now, from, poll, vote, past, fx),
            Message::Want(vertex) => self.on_want(from, vertex, past, fx),
            Message::Have(vertex) => self.on_have(now, from, &vertex, past, fx),
        }
    }

    fn on_timeout(&mut self, now: Time, past: &dyn Past, fx: &mut Effects<T>) {
        for poll in self.polls.take_expired(now) {
            self.expire(now, poll, past, fx);
        }
        for (peer, poll) in self.waiting.expire(now) {
            self.refuse(peer, Some(poll), fx);
        }
        self.wake_stuck(now, past);
        self.no_op(now, past, fx);
    }

    /// Tells what was decided, its record first, and keeps the books of own transactions.
    fn tell(&mut self, decided: Vec<Decision<T>>, fx: &mut Effects<T>) {
        for decision in decided {
            match decision {
                Decision::Accepted(transaction, rule) => {
                    self.counts.accepted += 1;
                    self.own.decided(&transaction.id());
                    self.own.no_op_wait = self.settings.no_op_after;
                    fx.record(Record::Transaction(transaction.clone()));
                    fx.output(Output::Accepted { transaction, rule });
                }
                Decision::Vertex(vertex) => fx.record(Record::Vertex(vertex)),
                Decision::Rejected(transaction, reason) => self.reject(transaction, reason, fx),
            }
        }
    }

    /// Tells of a rejected transaction, and of those own ones outside of the graph that rest on it:
    /// they wait for a vertex. [`Dag`] has found the others.
    fn reject(&mut self, transaction: TransactionId, reason: Conflict, fx: &mut Effects<T>) {
        let mut open = vec![(transaction, reason)];
        while let Some((transaction, reason)) = open.pop() {
            self.counts.rejected += 1;
            self.own.decided(&transaction);
            fx.output(Output::Rejected { transaction, reason });
            // Each once, however many of its inputs are gone.
            loop {
                let mut resting = self.own.resting_on(&transaction);
                let Some(of) = resting.find(|of| self.dag.fate(of).is_none()) else { break };
                drop(resting);
                self.own.decided(&of);
                open.push((of, Conflict::Unfounded(transaction)));
            }
        }
    }

    fn note_dropped(&mut self, dropped: Dropped) {
        for vertex in dropped.rejected {
            if self.rejected.0.insert(vertex) {
                self.rejected.1.push_back(vertex);
            }
            if self.rejected.1.len() > self.settings.limits.rejected
                && let Some(oldest) = self.rejected.1.pop_front()
            {
                self.rejected.0.remove(&oldest);
            }
        }
        dropped.homeless.iter().for_each(|transaction| self.own.again(transaction));
    }

    fn silence(&mut self, now: Time, peer: ReplicaId, past: &dyn Past, fx: &mut Effects<T>) {
        let stake = self.electorate.stake(peer);
        let permille = u128::from(self.settings.parameters.most_benched_permille());
        let most = (u128::from(self.electorate.total()) * permille / 1000) as u64;
        if self.silent.1 + stake > most || !self.silent.0.insert(peer) {
            return;
        }
        self.silent.1 += stake;
        for poll in self.polls.all_of(peer) {
            self.unanswered(now, peer, poll, past, fx);
        }
    }

    fn unsilence(&mut self, peer: ReplicaId) {
        if self.silent.0.remove(&peer) {
            self.silent.1 -= self.electorate.stake(peer);
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
