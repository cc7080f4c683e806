//! A replica's part in reads that are not ordered ([`read_index`](crate::client::read_index)).
//!
//! It says which height a read must not miss, from memory. A read at a height waits here until the
//! state has come so far: a bounded number of reads, for a bounded time.

use std::collections::{BTreeMap, VecDeque};

use super::Replica;
use crate::base::types::{Duration, Epoch, Height, Time};
use crate::ledger::message::Unproven;
use crate::ledger::packed::Packed;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{Decision, Protocol};

/// Most reads that wait, in all and of one client, and the bytes of their questions.
pub const MAX_WAITING: usize = 256;
/// See [`MAX_WAITING`].
pub const MAX_WAITING_OF_ONE: usize = 16;
/// See [`MAX_WAITING`].
pub const MAX_WAITING_BYTES: usize = 16 << 20;
/// A read waits no longer than this.
pub const PATIENCE: Duration = Duration::from_secs(2);

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// The height of the highest block with commands that this replica knows may be committed.
    ///
    /// # Errors
    /// [`Unproven::Epoch`] if it is not in that epoch, or the epoch ends; [`Unproven::Forgotten`]
    /// if it may have helped to commit what it does not know; [`Unproven::Restricted`] if keys have
    /// prefixes.
    pub fn read_index(&self, epoch: Epoch) -> Result<Height, Unproven> {
        if self.membership.latest().epoch() != epoch || self.epochs.sealed().is_some() {
            return Err(Unproven::Epoch);
        }
        let remembers = !self.amnesia.is_own() && self.epochs.speaks();
        self.may_ask()?;
        if self.halted || !planted!("reads-ask-the-mute", true, remembers) {
            return Err(Unproven::Forgotten);
        }
        let certified = self.protocol.read_index().ok_or(Unproven::Forgotten)?;
        // What is committed and not executed yet.
        let decided = self.to_execute.iter().filter_map(Decision::block);
        let decided = decided.filter(|block| !block.is_empty()).map(|block| block.height());
        Ok(decided.fold(certified.max(self.execution.written()), Height::max))
    }

    /// Whether the state as it is now may answer a read at `index`.
    ///
    /// # Errors
    /// It never may: [`Unproven::Epoch`] if it is of a later epoch, or its epoch ends;
    /// [`Unproven::Restricted`] if keys have prefixes.
    pub fn covers(&self, epoch: Epoch, index: Height) -> Result<bool, Unproven> {
        let current = self.membership.latest().epoch();
        if epoch < current || epoch == current && self.epochs.sealed().is_some() {
            return Err(Unproven::Epoch);
        }
        let has_come_so_far = epoch == current && self.execution.height() >= index;
        if mutant!("reads-do-not-wait", true, has_come_so_far) {
            return self.may_ask().map(|()| true);
        }
        Ok(false)
    }

    /// Who asks is not known, and is denied nothing. As soon as a key may not touch all of the
    /// application's keys, reads are for the order to judge. The state that answers says so, and
    /// holds every list that was answered for before the read began.
    fn may_ask(&self) -> Result<(), Unproven> {
        match self.execution.sessions().clients().has_prefixes() {
            true => Err(Unproven::Restricted),
            false => Ok(()),
        }
    }
}

/// A read at a height, of a client that is named by `C`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<C> {
    /// Who asks.
    pub client: C,
    /// The client's number for it.
    pub id: u64,
    /// The epoch by whose committee the client counts.
    pub epoch: Epoch,
    /// The lowest height of a state that may answer.
    pub index: Height,
    /// What the application is asked.
    pub questions: Packed,
}

/// Reads that wait for the state.
#[derive(Debug)]
pub struct Reads<C> {
    /// Oldest first, each with the time at which it is refused.
    waiting: VecDeque<(Time, Read<C>)>,
    bytes: usize,
}

impl<C> Default for Reads<C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0 }
    }
}

impl<C: Copy + Ord> Reads<C> {
    /// Takes reads in, and gives back what waits no longer, each with whether it may be answered
    /// now. `covers` says that of an epoch and an index, as [`Replica::covers`] does. What may be
    /// answered at once takes up no place. One of the same client and id gives way.
    pub fn take_in(
        &mut self,
        now: Time,
        fresh: Vec<Read<C>>,
        covers: impl Fn(Epoch, Height) -> Result<bool, Unproven>,
    ) -> Vec<(Read<C>, Result<(), Unproven>)> {
        let mut due = self.take_due(now, &covers);
        for read in fresh {
            match covers(read.epoch, read.index) {
                Ok(true) => due.push((read, Ok(()))),
                Err(reason) => due.push((read, Err(reason))),
                Ok(false) => {
                    let left_out = self.push(now, read);
                    due.extend(left_out.into_iter().map(|read| (read, Err(Unproven::Busy))));
                }
            }
        }
        due
    }

    /// Has a read wait. Gives back those that there is no room for.
    fn push(&mut self, now: Time, read: Read<C>) -> Vec<Read<C>> {
        self.retain(|other| (other.client, other.id) != (read.client, read.id));
        let of_one = self.waiting.iter().filter(|(_, other)| other.client == read.client).count();
        if of_one >= MAX_WAITING_OF_ONE {
            return vec![read];
        }
        self.bytes += read.questions.body().len();
        self.waiting.push_back((now.after(PATIENCE), read));
        let mut left_out = Vec::new();
        while self.waiting.len() > MAX_WAITING || self.bytes > MAX_WAITING_BYTES {
            left_out.extend(self.give_way());
        }
        left_out
    }

    /// Takes out the read that gives way: what will wait longest, at the highest index; among these
    /// one of the client that most of all reads are of. So a stranger who names heights that no
    /// state comes to keeps nobody else out.
    fn give_way(&mut self) -> Option<Read<C>> {
        let mut lines = BTreeMap::<C, usize>::new();
        for (_, read) in &self.waiting {
            *lines.entry(read.client).or_default() += 1;
        }
        let rank = |(_, (_, read)): &(usize, &(Time, Read<C>))| {
            (read.epoch, read.index, lines.get(&read.client).copied())
        };
        let (at, _) = self.waiting.iter().enumerate().max_by_key(rank)?;
        let (_, read) = self.waiting.remove(at)?;
        self.bytes -= read.questions.body().len();
        Some(read)
    }

    fn take_due(
        &mut self,
        now: Time,
        covers: impl Fn(Epoch, Height) -> Result<bool, Unproven>,
    ) -> Vec<(Read<C>, Result<(), Unproven>)> {
        let mut due = Vec::new();
        for (until, read) in std::mem::take(&mut self.waiting) {
            match covers(read.epoch, read.index) {
                Ok(true) => due.push((read, Ok(()))),
                Err(reason) => due.push((read, Err(reason))),
                Ok(false) if now >= until => due.push((read, Err(Unproven::Late))),
                Ok(false) => self.waiting.push_back((until, read)),
            }
        }
        self.count();
        due
    }

    /// The client is gone.
    pub fn forget(&mut self, client: C) {
        self.retain(|read| read.client != client);
    }

    /// When the oldest read is to be refused.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.front().map(|(until, _)| *until)
    }

    /// How many reads wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn retain(&mut self, keep: impl Fn(&Read<C>) -> bool) {
        self.waiting.retain(|(_, read)| keep(read));
        self.count();
    }

    fn count(&mut self) {
        self.bytes = self.waiting.iter().map(|(_, read)| read.questions.body().len()).sum();
    }
}
