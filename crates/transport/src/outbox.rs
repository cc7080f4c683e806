//! What waits to be sent to one other side. Any thread puts in; one connection takes out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;

use super::budget::Meter;
use super::framing::FrameWriter;
use quorate_core::planted;

/// What is kept for a peer while it is not connected: the newest, so that one that comes back is
/// met with what is said now instead of what was said while it was away.
const DISCONNECTED_BYTES: usize = 64 << 10;
const DISCONNECTED_MESSAGES: usize = 64;

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) bytes: usize,
    pub(super) messages: usize,
}

pub(super) struct Outbox {
    room: Room,
    state: Mutex<State>,
    /// Counts connections and their ends, of all outboxes that share it.
    changes: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes that were taken out last, and may not have left.
    leaving: usize,
    /// Counts both.
    meter: Meter,
    /// Of the connection's task, when it has nothing left to write.
    waker: Option<Waker>,
    /// Of senders that wait for room.
    senders: Vec<Waker>,
    /// Counts the connections this outbox had. Only the latest may take out.
    connection: u64,
    connected: bool,
    /// No more is put in; the connection ends once all is taken out.
    closing: bool,
    /// The connection is to end at once.
    broken: bool,
}

/// What the connection finds when it asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// So many frames of so many bytes were moved to the writer, and so many are left.
    Some { frames: u64, bytes: u64, left: u64 },
    /// Nothing is there; the waker is kept.
    Nothing,
    /// Nothing is there and nothing will come.
    Finished,
    /// The queue overflowed.
    Overflowed,
    /// There is a newer connection.
    Replaced,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too much waits to be sent already.
    #[error("too much waits to be sent already")]
    Full,
    /// The connection has ended or is about to.
    #[error("the connection has ended")]
    Closed,
}

impl Outbox {
    pub(super) fn new(room: Room) -> Self {
        Self::telling(room, Arc::default())
    }

    /// One that counts in `changes` when it is connected or no longer is.
    pub(super) fn telling(room: Room, changes: Arc<AtomicU64>) -> Self {
        Self { room, state: Mutex::default(), changes }
    }

    /// One whose messages `meter` counts.
    pub(super) fn metered(room: Room, meter: Meter) -> Self {
        let outbox = Self::new(room);
        outbox.lock().meter = meter;
        outbox
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `message` in and drops the oldest if there is no room. How many were dropped.
    pub(super) fn push_dropping(&self, message: Bytes) -> u64 {
        let mut state = self.lock();
        if state.closing {
            return 1;
        }
        state.push(message);
        let room = if state.connected { self.room } else { Room::disconnected(self.room) };
        let dropped = state.trim(room);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        dropped
    }

    /// Puts `message` in if there is room.
    pub(super) fn push(&self, message: Bytes) -> Result<(), SendError> {
        let mut state = self.lock();
        state.accept(&message, self.room)?;
        state.push(message);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Puts `message` in; without room, ends the connection: whoever does not read is let go.
    pub(super) fn push_or_break(&self, message: Bytes) -> Result<(), SendError> {
        let result = self.push(message);
        if result == Err(SendError::Full) {
            self.stop(|state| state.broken = true);
        }
        result
    }

    /// The same, for the task that polls the connection: it is not woken.
    pub(super) fn put_or_break(&self, message: Bytes) -> Result<(), SendError> {
        let mut state = self.lock();
        let result = state.accept(&message, self.room);
        match result {
            Ok(()) => state.push(message),
            Err(SendError::Full) => state.broken = true,
            Err(SendError::Closed) => {}
        }
        result
    }

    /// Whether there is room; if not, `waker` is woken when there may be.
    pub(super) fn poll_room(&self, message: &Bytes, waker: &Waker) -> Result<(), SendError> {
        let mut state = self.lock();
        let result = state.accept(message, self.room);
        if result == Err(SendError::Full) {
            state.senders.push(waker.clone());
        }
        result
    }

    /// Lets what is there be sent, then ends the connection.
    pub(super) fn close(&self) {
        self.stop(|state| state.closing = true);
    }

    /// The connection has ended and none will follow.
    pub(super) fn fail(&self) {
        self.stop(|state| {
            state.broken = true;
            state.queue.clear();
            state.bytes = 0;
        });
    }

    fn stop(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers: Vec<_> =
            state.waker.take().into_iter().chain(state.senders.drain(..)).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A new connection takes over. Its number.
    pub(super) fn connect(&self) -> u64 {
        let mut number = 0;
        self.stop(|state| {
            state.connection += 1;
            state.connected = true;
            number = state.connection;
        });
        self.changes.fetch_add(1, Ordering::Release);
        number
    }

    /// Connection `number` has ended. How many messages are given up.
    pub(super) fn disconnect(&self, number: u64) -> u64 {
        let mut dropped = 0;
        self.stop(|state| {
            if state.connection == number {
                state.connected = false;
                dropped = state.trim(Room::disconnected(self.room));
            }
        });
        self.changes.fetch_add(1, Ordering::Release);
        dropped
    }

    pub(super) fn is_connected(&self) -> bool {
        self.lock().connected
    }

    /// Moves to `writer` what it can hold, for connection `number`.
    pub(super) fn take(&self, number: u64, writer: &mut FrameWriter, waker: &Waker) -> Taken {
        let mut state = self.lock();
        if state.connection != number {
            return Taken::Replaced;
        }
        if state.broken {
            return Taken::Overflowed;
        }
        let (mut frames, mut bytes) = (0, 0);
        while !writer.is_full()
            && let Some(message) = state.queue.pop_front()
        {
            state.bytes -= planted!("outbox-never-empties", 0, message.len());
            frames += 1;
            bytes += message.len() as u64;
            writer.push(message);
        }
        state.leaving = bytes as usize;
        state.weigh();
        if frames == 0 {
            if state.closing {
                return Taken::Finished;
            }
            match &mut state.waker {
                Some(kept) => kept.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return Taken::Nothing;
        }
        let left = state.queue.len() as u64;
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        senders.into_iter().for_each(Waker::wake);
        Taken::Some { frames, bytes, left }
    }
}

impl Room {
    fn disconnected(self) -> Self {
        Self {
            bytes: self.bytes.min(DISCONNECTED_BYTES),
            messages: self.messages.min(DISCONNECTED_MESSAGES),
        }
    }
}

impl State {
    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.queue.push_back(message);
        self.weigh();
    }

    fn weigh(&mut self) {
        self.meter.set(self.bytes + self.leaving);
    }

    /// A message longer than the room is let through alone.
    fn accept(&self, message: &Bytes, room: Room) -> Result<(), SendError> {
        if self.closing || self.broken {
            return Err(SendError::Closed);
        }
        let fits = self.bytes + message.len() <= room.bytes && self.queue.len() < room.messages;
        if fits || self.queue.is_empty() { Ok(()) } else { Err(SendError::Full) }
    }

    fn trim(&mut self, room: Room) -> u64 {
        let mut dropped = 0;
        while self.queue.len() > 1
            && (self.bytes > room.bytes || self.queue.len() > room.messages)
            && let Some(oldest) = self.queue.pop_front()
        {
            self.bytes -= oldest.len();
            dropped += 1;
        }
        dropped
    }
}
