//! A queue of received messages. It is bounded by messages and by bytes, because one message may be
//! as long as thousands of others. Both bounds push back: while there is no room a socket is not
//! read.

use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The share of a queue's bytes that messages still take after they left the queue. Dropping it
/// releases the share. A consumer that keeps it while it works bounds waiting and working messages
/// together.
#[derive(Debug, Default)]
pub struct Room(Option<OwnedSemaphorePermit>);

impl Room {
    /// The bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Splits off the part that a message of `bytes` bytes takes, or the rest if that is less.
    fn part(&mut self, bytes: usize) -> Self {
        let part = |room: &mut OwnedSemaphorePermit| room.split(bytes.min(room.num_permits()));
        Self(self.0.as_mut().and_then(part))
    }

    /// Adds the share of another message of the same queue.
    fn join(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(room), Some(other)) => room.merge(other),
            (room, other) => *room = room.take().or(other),
        }
    }
}

/// The sending end of a queue.
#[derive(Debug)]
pub struct Inbound<T> {
    messages: mpsc::Sender<(T, Room)>,
    bytes: Arc<Semaphore>,
    most_bytes: u32,
}

/// The receiving end of a queue.
#[derive(Debug)]
pub struct Arrivals<T> {
    messages: mpsc::Receiver<(T, Room)>,
    bytes: Arc<Semaphore>,
    most_bytes: u32,
}

/// A queue of at most `messages` messages, of `bytes` bytes together. A longer message is not
/// refused: it waits until it is alone, and takes all of the bytes.
///
/// # Panics
/// If `messages` is 0.
#[must_use]
pub fn inbound<T>(messages: usize, bytes: u32) -> (Inbound<T>, Arrivals<T>) {
    let (sender, receiver) = mpsc::channel(messages);
    let room = Arc::new(Semaphore::new(bytes as usize));
    let inbound = Inbound { messages: sender, bytes: Arc::clone(&room), most_bytes: bytes };
    (inbound, Arrivals { messages: receiver, bytes: room, most_bytes: bytes })
}

impl<T> Inbound<T> {
    /// The bytes of the queue that a message takes.
    fn taken_by(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).map_or(self.most_bytes, |bytes| bytes.min(self.most_bytes))
    }

    /// Puts a message of `bytes` bytes, if there is room.
    ///
    /// # Errors
    /// Returns the message if there is no room, or if the receiver is gone.
    pub fn try_send(&self, message: T, bytes: usize) -> Result<(), TrySendError<T>> {
        let room = Arc::clone(&self.bytes).try_acquire_many_owned(self.taken_by(bytes));
        // The semaphore is never closed, so an error means that no permit is left.
        let Ok(room) = room else { return Err(TrySendError::Full(message)) };
        self.messages.try_send((message, Room(Some(room)))).map_err(|error| match error {
            TrySendError::Full((message, _)) => TrySendError::Full(message),
            TrySendError::Closed((message, _)) => TrySendError::Closed(message),
        })
    }

    /// Waits for room for `messages` messages of `bytes` bytes together. Returns `None` if the
    /// receiver is gone.
    pub(super) async fn reserve(&self, messages: usize, bytes: usize) -> Option<Places<'_, T>> {
        // The order matters: the holder of places for messages then waits for nothing else.
        let room = Arc::clone(&self.bytes).acquire_many_owned(self.taken_by(bytes)).await.ok()?;
        let messages = self.messages.reserve_many(messages).await.ok()?;
        Some(Places { messages, room: Room(Some(room)) })
    }

    /// How many of the following messages to reserve room for together with a message of `bytes`
    /// bytes, and the bytes of all of them. At most half of the queue.
    pub(super) fn together(
        &self,
        first: usize,
        following: impl Iterator<Item = usize>,
    ) -> (usize, usize) {
        let (mut others, mut all) = (0, first);
        for bytes in following.take((self.messages.max_capacity() / 2).saturating_sub(1)) {
            if all + bytes > self.most_bytes as usize {
                break;
            }
            (others, all) = (others + 1, all + bytes);
        }
        (others, all)
    }
}

/// Reserved room for messages.
pub(super) struct Places<'a, T> {
    messages: mpsc::PermitIterator<'a, (T, Room)>,
    room: Room,
}

impl<T> Places<'_, T> {
    /// Puts a message into reserved room.
    pub(super) fn put(&mut self, message: T, bytes: usize) {
        if let Some(place) = self.messages.next() {
            place.send((message, self.room.part(bytes)));
        }
    }
}

impl<T> Arrivals<T> {
    /// The next message, or `None` once all senders are gone.
    pub async fn recv(&mut self) -> Option<T> {
        self.messages.recv().await.map(|(message, _)| message)
    }

    /// Like [`recv`](Self::recv), for threads.
    ///
    /// # Panics
    /// Within an asynchronous task.
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.messages.blocking_recv().map(|(message, _)| message)
    }

    /// The next message and its room, if one waits.
    pub fn try_recv(&mut self) -> Option<(T, Room)> {
        self.messages.try_recv().ok()
    }

    /// Takes waiting messages, at most `most`, and returns their room.
    pub fn try_recv_many(&mut self, messages: &mut Vec<T>, most: usize) -> Room {
        let mut all = Room::default();
        for _ in 0..most {
            let Some((message, room)) = self.try_recv() else { break };
            messages.push(message);
            all.join(room);
        }
        all
    }

    /// The number of waiting messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// The bytes of the messages that wait or are being worked on.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.most_bytes as usize).saturating_sub(self.bytes.available_permits())
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Room, inbound};
    use tokio::sync::mpsc::error::TrySendError;

    #[test]
    fn what_was_taken_counts_until_its_room_is_dropped() {
        let (inbound, mut arrivals) = inbound(8, 100);
        inbound.try_send("long", 60).unwrap();
        inbound.try_send("short", 40).unwrap();
        assert_eq!(inbound.try_send("one byte", 1), Err(TrySendError::Full("one byte")));
        let (message, room) = arrivals.try_recv().unwrap();
        assert_eq!(message, "long");
        assert_eq!(inbound.try_send("one byte", 1), Err(TrySendError::Full("one byte")));
        drop(room);
        inbound.try_send("one byte", 1).unwrap();
        let mut messages = Vec::new();
        let room = arrivals.try_recv_many(&mut messages, 8);
        assert_eq!(messages, ["short", "one byte"]);
        assert_eq!(inbound.try_send("again", 100), Err(TrySendError::Full("again")));
        drop(room);
        inbound.try_send("again", 100).unwrap();
    }

    #[test]
    fn what_takes_no_bytes_is_bounded_by_its_number() {
        let (inbound, mut arrivals) = inbound(2, 1);
        inbound.try_send(1, 0).unwrap();
        inbound.try_send(2, 0).unwrap();
        assert_eq!(inbound.try_send(3, 0), Err(TrySendError::Full(3)));
        arrivals.try_recv().unwrap();
        inbound.try_send(3, 0).unwrap();
        drop(arrivals);
        assert_eq!(inbound.try_send(4, 0), Err(TrySendError::Closed(4)));
    }

    #[tokio::test]
    async fn a_message_longer_than_all_waits_until_it_is_alone() {
        let (inbound, mut arrivals) = inbound(8, 100);
        inbound.try_send("first", 1).unwrap();
        assert_eq!(inbound.try_send("too long", 101), Err(TrySendError::Full("too long")));
        assert_eq!(arrivals.recv().await, Some("first"));
        inbound.try_send("too long", usize::MAX).unwrap();
        assert_eq!(inbound.try_send("last", 1), Err(TrySendError::Full("last")));
        assert_eq!(arrivals.recv().await, Some("too long"));
        inbound.try_send("last", 1).unwrap();
    }

    #[tokio::test]
    async fn places_for_many_take_the_room_of_each_and_give_back_the_rest() {
        let (inbound, mut arrivals) = inbound(8, 100);
        let mut places = inbound.reserve(3, 90).await.unwrap();
        places.put("first", 50);
        places.put("second", 20);
        drop(places);
        let rooms: Vec<Room> =
            std::iter::from_fn(|| arrivals.try_recv()).map(|(_, room)| room).collect();
        assert_eq!(rooms.len(), 2);
        inbound.try_send("what is left", 30).unwrap();
        assert!(inbound.try_send("more", 1).is_err());
        drop(arrivals);
        drop(rooms);
        assert!(inbound.reserve(1, 100).await.is_none());
    }
}
