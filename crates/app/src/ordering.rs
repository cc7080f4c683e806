//! An application that executes nothing: it orders blobs for someone else to execute.
//!
//! Every command is an opaque blob, and its reply is its position: how many blobs were ordered
//! before it (u64, little-endian). Executors pull the decided blocks from the replicas, with the
//! certificates that prove them, and run whatever the blobs mean. What is kept here is the
//! [`Tally`], enough for replicas to agree that they ordered the same.

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader};
use quorate_core::ledger::state_machine::{Decided, Replies, RestoreError, Snapshot, StateMachine};
use quorate_merkle::hashes::Kind;

/// What was ordered so far. The whole state, and the answer to any query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many blobs.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// A hash over all of them: for each block that holds any, the BLAKE3 hash of the hash before
    /// (32 zero bytes at first), the block's height (u64) and the BLAKE3 hash of every blob, keyed
    /// with the domain `quorate ordering v1: history    `.
    pub history: Digest,
}

const HISTORY: &[u8; 32] = b"quorate ordering v1: history    ";

impl Encode for Tally {
    fn encode(&self, out: &mut Vec<u8>) {
        self.count.encode(out);
        self.bytes.encode(out);
        self.history.encode(out);
    }
}

impl Decode for Tally {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { count: reader.u64()?, bytes: reader.u64()?, history: Digest::decode(reader)? })
    }
}

/// The ordering application, a replicated [`StateMachine`].
#[derive(Debug, Default)]
pub struct Ordering {
    tally: Tally,
    /// As it was marked.
    marked: Option<Tally>,
}

impl Ordering {
    /// Nothing was ordered yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was ordered so far.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }
}

impl StateMachine for Ordering {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        if block.commands.is_empty() {
            return;
        }
        let tally = &mut self.tally;
        let mut history = blake3::Hasher::new_keyed(HISTORY);
        history.update(&tally.history.0);
        history.update(&block.height.0.to_le_bytes());
        let mut hashes = vec![[0; 32]; block.commands.len()];
        Kind::plain().of(block.commands, &mut hashes);
        history.update(hashes.as_flattened());
        for blob in block.commands {
            replies.push(&tally.count.to_le_bytes());
            // Saturating, as every counter here: at a billion a second the end is 584 years away.
            tally.count = tally.count.saturating_add(1);
            tally.bytes = tally.bytes.saturating_add(blob.len() as u64);
        }
        tally.history = Digest(*history.finalize().as_bytes());
    }

    /// The [`Tally`], whatever the question.
    fn query(&self, _question: &[u8]) -> Bytes {
        self.marked.unwrap_or(self.tally).to_bytes().into()
    }

    fn root(&mut self) -> Digest {
        Digest::of("quorate ordering root", &self.tally.to_bytes())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(self.marked.unwrap_or(self.tally))
    }

    fn mark(&mut self) -> bool {
        self.marked = Some(self.tally);
        true
    }

    fn keep(&mut self) {
        self.marked = None;
    }

    fn undo(&mut self) {
        self.tally = self.marked.take().unwrap_or(self.tally);
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let error = |chunk, reason: &str| RestoreError { chunk, reason: reason.to_owned() };
        let chunk = chunks.next().ok_or_else(|| error(0, "there is none"))?;
        self.tally = Tally::from_bytes(chunk).map_err(|cause| error(0, &cause.to_string()))?;
        match chunks.next() {
            None => Ok(()),
            Some(_) => Err(error(1, "there must be only one")),
        }
    }
}

impl Snapshot for Tally {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        sink(&self.to_bytes());
    }
}
