//! The queue of messages to one other side. Any thread adds messages; one connection takes them
//! out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;

use super::budget::Meter;
use super::framing::FrameWriter;
use quorate_core::planted;

/// The bytes kept for a peer that is not connected. The newest messages are kept, because a
/// returning peer needs the current ones.
const DISCONNECTED_BYTES: usize = 64 << 10;
const DISCONNECTED_MESSAGES: usize = 64;

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) bytes: usize,
    pub(super) messages: usize,
}

pub(super) struct Outbox {
    room: Room,
    state: Mutex<State>,
    /// Counts connections and their ends, over all outboxes that share it.
    changes: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Bytes>,
    /// Messages that are sent when `queue` is empty and the socket has taken everything.
    behind: VecDeque<Bytes>,
    /// The bytes of both.
    bytes: usize,
    /// Bytes that were taken out last and may not have been sent.
    leaving: usize,
    /// Counts queued and leaving bytes.
    meter: Meter,
    /// The waker of the connection's task, while it has nothing to write.
    waker: Option<Waker>,
    /// The wakers of senders that wait for room.
    senders: Vec<Waker>,
    /// The number of the latest connection, which no other has of those that count in the same
    /// `changes`. It alone may take messages out.
    connection: u64,
    connected: bool,
    /// The version of the protocol that the latest connection speaks.
    version: u16,
    /// Nothing more may be added. The connection ends once all is taken out.
    closing: bool,
    /// The connection must end at once.
    broken: bool,
}

/// The answer to a connection that asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// `frames` frames of `bytes` bytes were moved to the writer, and `left` frames are left.
    Some { frames: u64, bytes: u64, left: u64 },
    /// Only messages behind the others are left. Ask again when the socket has taken everything.
    Behind,
    /// The queue is empty. The waker is kept.
    Nothing,
    /// The queue is empty, and nothing more will come.
    Finished,
    /// The queue overflowed.
    Overflowed,
    /// There is a newer connection.
    Replaced,
}

/// The reason why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many messages or bytes wait to be sent.
    #[error("the send queue is full")]
    Full,
    /// The connection has ended or is about to end.
    #[error("the connection has ended")]
    Closed,
}

impl Outbox {
    pub(super) fn new(room: Room) -> Self {
        Self::telling(room, Arc::default())
    }

    /// An outbox that counts in `changes` whenever it is connected or disconnected.
    pub(super) fn telling(room: Room, changes: Arc<AtomicU64>) -> Self {
        Self { room, state: Mutex::default(), changes }
    }

    /// An outbox whose messages `meter` counts.
    pub(super) fn metered(room: Room, meter: Meter) -> Self {
        let outbox = Self::new(room);
        outbox.lock().meter = meter;
        outbox
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `message`, behind the others if `behind`, and drops the oldest messages if there is no
    /// room, those behind first. Returns the number dropped.
    pub(super) fn push_dropping(&self, message: Bytes, behind: bool) -> u64 {
        let mut state = self.lock();
        if state.closing {
            return 1;
        }
        if behind {
            state.bytes += message.len();
            state.behind.push_back(message);
            state.weigh();
        } else {
            state.push(message);
        }
        let room = if state.connected { self.room } else { Room::disconnected(self.room) };
        let dropped = state.trim(room);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        dropped
    }

    /// Adds `message` if there is room.
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

    /// Adds `message`. Without room it ends the connection: a client that does not read is
    /// disconnected.
    pub(super) fn push_or_break(&self, message: Bytes) -> Result<(), SendError> {
        let result = self.push(message);
        if result == Err(SendError::Full) {
            self.stop(|state| state.broken = true);
        }
        result
    }

    /// Like [`push_or_break`](Self::push_or_break), for the task that polls the connection: no
    /// waker is called.
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

    /// Whether there is room. If not, `waker` is woken when there may be.
    pub(super) fn poll_room(&self, message: &Bytes, waker: &Waker) -> Result<(), SendError> {
        let mut state = self.lock();
        let result = state.accept(message, self.room);
        if result == Err(SendError::Full) {
            state.senders.push(waker.clone());
        }
        result
    }

    /// Lets the queued messages be sent, then ends the connection.
    pub(super) fn close(&self) {
        self.stop(|state| state.closing = true);
    }

    /// The connection has ended, and no other will follow.
    pub(super) fn fail(&self) {
        self.stop(|state| {
            state.broken = true;
            state.queue.clear();
            state.behind.clear();
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

    /// A new connection takes over. Returns its number.
    pub(super) fn connect(&self, version: u16) -> u64 {
        let mut number = 0;
        self.stop(|state| {
            number = self.changes.fetch_add(1, Ordering::Release).wrapping_add(1);
            state.connection = number;
            (state.connected, state.version) = (true, version);
        });
        number
    }

    /// Connection `number` has ended. Returns the number of messages that are given up.
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

    /// The number of the connection, if there is one.
    pub(super) fn connection(&self) -> Option<u64> {
        let state = self.lock();
        state.connected.then_some(state.connection)
    }

    /// The version of the protocol that the connection speaks, if there is one.
    pub(super) fn version(&self) -> Option<u16> {
        let state = self.lock();
        state.connected.then_some(state.version)
    }

    /// Moves to `writer` what it can hold, for connection `number`. If nothing else waits and
    /// `is_idle`, one of the messages behind.
    pub(super) fn take(
        &self,
        number: u64,
        writer: &mut FrameWriter,
        waker: &Waker,
        is_idle: bool,
    ) -> Taken {
        let mut state = self.lock();
        if state.connection != number {
            return Taken::Replaced;
        }
        if state.broken {
            return Taken::Overflowed;
        }
        let (mut frames, mut bytes) = (0, 0);
        while !writer.is_full()
            && let Some(message) = state.next(is_idle && frames == 0)
        {
            state.bytes -= planted!("outbox-never-empties", 0, message.len());
            frames += 1;
            bytes += message.len() as u64;
            writer.push(message);
        }
        state.leaving = bytes as usize;
        state.weigh();
        if frames == 0 {
            if !state.behind.is_empty() && !is_idle {
                return Taken::Behind;
            }
            if state.closing {
                return Taken::Finished;
            }
            match &mut state.waker {
                Some(kept) => kept.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return Taken::Nothing;
        }
        let left = (state.queue.len() + state.behind.len()) as u64;
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

    /// A message longer than the whole room is accepted when the queue is empty.
    fn accept(&self, message: &Bytes, room: Room) -> Result<(), SendError> {
        if self.closing || self.broken {
            return Err(SendError::Closed);
        }
        let fits = self.bytes + message.len() <= room.bytes && self.queue.len() < room.messages;
        if fits || self.queue.is_empty() { Ok(()) } else { Err(SendError::Full) }
    }

    /// The next message; one of those behind only if they have their turn.
    fn next(&mut self, behind: bool) -> Option<Bytes> {
        self.queue.pop_front().or_else(|| if behind { self.behind.pop_front() } else { None })
    }

    fn trim(&mut self, room: Room) -> u64 {
        let mut dropped = 0;
        while self.queue.len() + self.behind.len() > 1
            && (self.bytes > room.bytes || self.queue.len() + self.behind.len() > room.messages)
            && let Some(oldest) = self.behind.pop_front().or_else(|| self.queue.pop_front())
        {
            self.bytes -= oldest.len();
            dropped += 1;
        }
        dropped
    }
}
