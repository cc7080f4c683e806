//! What is submitted: batches of commands, made before the clock runs.

use quorate_app::kv::{self, Reply, reply};
use quorate_core::client::Packed;

use super::popularity::{Keys, Popularity};
use super::ycsb::{Expected, Mix, Records};
use crate::random::Random;

/// Most bytes of commands that a workload prepares.
const POOL_BYTES: usize = 32 << 20;
/// Most bytes of a frame of records, and what a record takes beside its value.
const FRAME_BYTES: usize = 1 << 20;
const RECORD_OVERHEAD: usize = 64;
/// Most batches that a workload prepares.
const POOL_BATCHES: usize = 256;

/// Batches that are submitted one after the other, over and over. Kept packed, so that submitting
/// one copies nothing.
#[derive(Clone, Debug)]
pub struct Workload {
    batches: Vec<Prepared>,
    batch_commands: usize,
    payload_bytes: usize,
    /// Records that must be there before, and what they are drawn from.
    records: u64,
    seed: u64,
    /// Batches of the key-value store's reads are not ordered.
    reads_by_index: bool,
}

#[derive(Clone, Debug)]
struct Prepared {
    commands: Packed,
    replies: Replies,
}

/// The right replies to a batch.
#[derive(Clone, Debug)]
enum Replies {
    /// These bytes.
    Exactly(Packed),
    /// One by one.
    Each(Vec<Answer>),
}

/// What a right reply is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Whatever it is.
    #[default]
    Any,
    /// That it was done.
    Ok,
    /// These bytes.
    Exactly(Vec<u8>),
    /// A value that fits its key.
    Value(Expected),
    /// Several such values.
    Values(Vec<Expected>),
}

impl Answer {
    /// The bytes, if there is only one right reply.
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Exactly(bytes) => Some(bytes.clone()),
            Self::Ok => {
                let mut ok = Vec::new();
                reply::encode::ok(&mut ok);
                Some(ok)
            }
            Self::Any | Self::Value(_) | Self::Values(_) => None,
        }
    }

    fn accepts(&self, reply: &[u8]) -> bool {
        let (Self::Value(_) | Self::Values(_)) = self else {
            return self.bytes().is_none_or(|bytes| bytes == reply);
        };
        match (self, Reply::decode(reply)) {
            (Self::Value(expected), Ok(found)) => expected.fits(&found),
            (Self::Values(expected), Ok(Reply::Array(found))) => {
                found.len() == expected.len()
                    && found.iter().zip(expected).all(|(found, expected)| expected.fits(&found))
            }
            _ => false,
        }
    }
}

/// A command, and what the right reply to it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// What is submitted.
    pub command: Vec<u8>,
    /// What must be answered.
    pub answer: Answer,
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
            let prepared = Prepared::new(commands)
                .ok_or(WorkloadError { commands: batch_commands, payload_bytes })?;
            bytes += prepared.commands.body().len();
            batches.push(prepared);
        }
        let (records, seed, reads_by_index) = (0, 0, false);
        Ok(Self { batches, batch_commands, payload_bytes, records, seed, reads_by_index })
    }

    /// The same with batches that only read answered by a [read
    /// index](quorate_node::client::Client::read).
    #[must_use]
    pub fn reading_by_index(self) -> Self {
        Self { reads_by_index: true, ..self }
    }

    /// Whether a batch is to be answered by a read index.
    #[must_use]
    pub fn is_read_by_index(&self, batch: &Packed) -> bool {
        let reads = |command: &[u8]| kv::Command::decode(command).is_ok_and(|it| it.is_read_only());
        self.reads_by_index && batch.iter().all(|command| reads(&command))
    }

    /// Commands without a byte, each answered by `reply`.
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn noop(batch_commands: usize, reply: &[u8]) -> Result<Self, WorkloadError> {
        let noop = Command { command: Vec::new(), answer: Answer::Exactly(reply.to_vec()) };
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
            let answer = Answer::Exactly(reply.to_vec());
            Command { command: put(key.as_bytes(), &value), answer }
        })
    }

    /// A YCSB workload over the key-value store, on `records` that are written first
    /// (`LoadConfig::write_records`).
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn ycsb(
        batch_commands: usize,
        payload_bytes: usize,
        mix: Mix,
        popularity: Popularity,
        (records, seed): (u64, u64),
    ) -> Result<Self, WorkloadError> {
        let keys = Keys::new(popularity, records);
        let mut made = Records::new(records, payload_bytes, seed);
        let this = Self::new(batch_commands, payload_bytes, || made.next(mix, &keys))?;
        Ok(Self { records, seed, ..this })
    }

    /// Writes that each answer with the value that was there: replies as large as requests.
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn exchange(
        batch_commands: usize,
        payload_bytes: usize,
        (records, seed): (u64, u64),
    ) -> Result<Self, WorkloadError> {
        let mut made = Records::new(records, payload_bytes, seed);
        let this = Self::new(batch_commands, payload_bytes, || made.exchange())?;
        Ok(Self { records, seed, ..this })
    }

    /// The batches that write the records which must be there before; none if nothing must.
    pub(super) fn loading(&self) -> impl Iterator<Item = Packed> + use<> {
        let fit = FRAME_BYTES / (self.payload_bytes + RECORD_OVERHEAD);
        let most = self.batch_commands.min(fit).max(1);
        let records = (self.records > 0)
            .then(|| Records::new(self.records, self.payload_bytes, self.seed).load());
        let mut commands = records.into_iter().flatten();
        std::iter::from_fn(move || {
            let batch: Vec<Vec<u8>> = commands.by_ref().take(most).collect();
            Packed::commands(&batch).ok()
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
        match &self.prepared(turn).replies {
            Replies::Exactly(expected) => {
                expected.clone().split_to(replies.len()).body() == replies.body()
            }
            Replies::Each(answers) => {
                replies.iter().zip(answers).all(|(reply, answer)| answer.accepts(&reply))
            }
        }
    }

    fn prepared(&self, turn: usize) -> &Prepared {
        &self.batches[turn % self.batches.len()]
    }
}

impl Prepared {
    fn new(commands: Vec<Command>) -> Option<Self> {
        let bytes: Option<Vec<Vec<u8>>> =
            commands.iter().map(|command| command.answer.bytes()).collect();
        let exactly = bytes.and_then(|bytes| Packed::commands(bytes).ok());
        let packed = Packed::commands(commands.iter().map(|command| &command.command)).ok()?;
        let replies = match exactly {
            Some(replies) => Replies::Exactly(replies),
            None => Replies::Each(commands.into_iter().map(|command| command.answer).collect()),
        };
        Some(Self { commands: packed, replies })
    }
}
