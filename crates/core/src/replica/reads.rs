//! A replica's part in reads that are not ordered ([`read_index`](crate::client::read_index)).
//!
//! It says which height a read must not miss, from memory. A read at a height waits here until the
//! state has come so far: a bounded number of reads, for a bounded time.

use std::collections::VecDeque;

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
    /// [`Unproven::Epoch`] if it is not in that epoch, or the epoch ends; [`Unproven::Forgotten`] if
    /// it may have helped to commit what it does not know.
    pub fn read_index(&self, epoch: Epoch) -> Result<Height, Unproven> {
        if self.membership.latest().epoch() != epoch || self.epochs.sealed().is_some() {
            return Err(Unproven::Epoch);
        }
        let remembers = !self.amnesia.is_own() && self.epochs.speaks();
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
    /// [`Unproven::Epoch`]: it never may, for it is of a later epoch, or its epoch ends.
    pub fn covers(&self, epoch: Epoch, index: Height) -> Result<bool, Unproven> {
        let current = self.membership.latest().epoch();
        if epoch < current || epoch == current && self.epochs.sealed().is_some() {
            return Err(Unproven::Epoch);
        }
        let has_come_so_far = epoch == current && self.execution.height() >= index;
        Ok(mutant!("reads-do-not-wait", true, has_come_so_far))
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

impl<C: Copy + PartialEq> Reads<C> {
    /// Takes a read in; gives it back if too many wait. One of the same client and id gives way.
    pub fn push(&mut self, now: Time, read: Read<C>) -> Option<Read<C>> {
        self.retain(|other| (other.client, other.id) != (read.client, read.id));
        let of_one = self.waiting.iter().filter(|(_, other)| other.client == read.client).count();
        let bytes = self.bytes + read.questions.body().len();
        if self.waiting.len() >= MAX_WAITING
            || of_one >= MAX_WAITING_OF_ONE
            || bytes > MAX_WAITING_BYTES
        {
            return Some(read);
        }
        self.bytes = bytes;
        self.waiting.push_back((now.after(PATIENCE), read));
        None
    }

    /// Takes out what waits no longer, each with whether it may be answered now. `covers` says that
    /// of an epoch and an index, as [`Replica::covers`] does.
    pub fn take_due(
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
