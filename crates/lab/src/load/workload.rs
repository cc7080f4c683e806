//! What is submitted: batches of commands, made before the clock runs.

use quorate_core::client::Packed;

use crate::random::Random;

/// Most bytes of commands that a workload prepares.
const POOL_BYTES: usize = 32 << 20;
/// Most batches that a workload prepares.
const POOL_BATCHES: usize = 256;

/// Batches that are submitted one after the other, over and over. Kept packed, so that submitting
/// one copies nothing.
#[derive(Clone, Debug)]
pub struct Workload {
    batches: Vec<Prepared>,
    batch_commands: usize,
    payload_bytes: usize,
}

#[derive(Clone, Debug)]
struct Prepared {
    commands: Packed,
    /// The replies, if all are predictable.
    replies: Option<Packed>,
}

/// A command, and the only right reply to it if that is predictable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// What is submitted.
    pub command: Vec<u8>,
    /// What must be answered.
    pub reply: Option<Vec<u8>>,
}

/// Commands that fit in no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{commands} commands with {payload_bytes} bytes of payload do not fit in a frame")]
pub struct WorkloadError {
    /// Commands in a batch.
    pub commands: usize,
    /// Payload of each.
    pub payload_bytes: usize,
}

impl Workload {
    /// Batches of `batch_commands` commands that `next` makes. `payload_bytes` is what the report
    /// calls the payload of a command. Of small commands 256 batches are made, of large ones as
    /// many as fit in 32 MiB, but at least one.
    ///
    /// # Errors
    /// [`WorkloadError`] if a batch is empty or does not fit in a frame.
    pub fn new(
        batch_commands: usize,
        payload_bytes: usize,
        mut next: impl FnMut() -> Command,
    ) -> Result<Self, WorkloadError> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while bytes < POOL_BYTES && batches.len() < POOL_BATCHES {
            let commands = (0..batch_commands).map(|_| next()).collect::<Vec<_>>();
            let prepared = Prepared::new(&commands)
                .ok_or(WorkloadError { commands: batch_commands, payload_bytes })?;
            bytes += prepared.commands.body().len();
            batches.push(prepared);
        }
        Ok(Self { batches, batch_commands, payload_bytes })
    }

    /// Commands without a byte, each answered by `reply`.
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn noop(batch_commands: usize, reply: &[u8]) -> Result<Self, WorkloadError> {
        let noop = Command { command: Vec::new(), reply: Some(reply.to_vec()) };
        Self::new(batch_commands, 0, || noop.clone())
    }

    /// Commands that `put` makes of a key and a value of `payload_bytes` bytes, each answered by
    /// `reply`. The keys are random ones of `key_space`; the same `seed` gives the same commands.
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn put(
        batch_commands: usize,
        payload_bytes: usize,
        key_space: u64,
        seed: u64,
        reply: &[u8],
        mut put: impl FnMut(&[u8], &[u8]) -> Vec<u8>,
    ) -> Result<Self, WorkloadError> {
        let mut random = Random(seed);
        let mut value = vec![0; payload_bytes];
        Self::new(batch_commands, payload_bytes, || {
            let key = format!("key-{:012}", random.next() % key_space.max(1));
            for chunk in value.chunks_mut(8) {
                let bytes = random.next().to_le_bytes();
                chunk.copy_from_slice(&bytes[..chunk.len()]);
            }
            Command { command: put(key.as_bytes(), &value), reply: Some(reply.to_vec()) }
        })
    }

    /// Commands in a batch.
    #[must_use]
    pub fn batch_commands(&self) -> usize {
        self.batch_commands
    }

    /// The payload of a command, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// The first `count` commands of the batch number `turn`.
    pub(super) fn commands(&self, turn: usize, count: usize) -> Packed {
        self.prepared(turn).commands.clone().split_to(count)
    }

    /// Whether these are right replies to [`Workload::commands`] of the same `turn`.
    pub(super) fn accepts(&self, turn: usize, replies: &Packed) -> bool {
        match self.prepared(turn).replies.clone() {
            Some(mut expected) => expected.split_to(replies.len()).body() == replies.body(),
            None => true,
        }
    }

    fn prepared(&self, turn: usize) -> &Prepared {
        &self.batches[turn % self.batches.len()]
    }
}

impl Prepared {
    fn new(commands: &[Command]) -> Option<Self> {
        let replies = commands.iter().map(|command| command.reply.as_deref());
        let replies = replies.collect::<Option<Vec<_>>>();
        Some(Self {
            commands: Packed::commands(commands.iter().map(|command| &command.command)).ok()?,
            replies: replies.and_then(|replies| Packed::commands(replies).ok()),
        })
    }
}
