//! The application of the tests: it appends every command to a list, and its replies say where.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::ledger::state_machine::{Decided, Replies, RestoreError, Snapshot, StateMachine};

/// Commands in a chunk of a snapshot.
const CHUNK_COMMANDS: usize = 16;

/// The state machine of simulated clusters: it keeps all it was told, and replies with each
/// command's place.
#[derive(Clone, Debug, Default)]
pub struct Register {
    /// The commands executed, in order.
    pub commands: Vec<Arc<[u8]>>,
    /// The hash of them all: the state's root.
    pub head: Digest,
    /// Computes another state from this command on, as a broken machine would.
    pub breaks_at: Option<usize>,
}

impl Register {
    fn append(&mut self, command: &[u8]) {
        let mut bytes = self.head.0.to_vec();
        bytes.extend_from_slice(command);
        if self.breaks_at == Some(self.commands.len()) {
            bytes.push(0);
        }
        self.head = Digest::of("test register", &bytes);
        self.commands.push(command.into());
    }
}

impl StateMachine for Register {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        for command in block.commands {
            replies.push(&(self.commands.len() as u64).to_le_bytes());
            self.append(command);
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        Bytes::copy_from_slice(question)
    }

    fn root(&mut self) -> Digest {
        self.head
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen(self.commands.clone()))
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        *self = Self { breaks_at: self.breaks_at, ..Self::default() };
        for chunk in chunks {
            let mut rest: &[u8] = &chunk;
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let (command, after) = after
                    .split_at_checked(u32::from_le_bytes(*length) as usize)
                    .ok_or_else(|| RestoreError { chunk: 0, reason: "cut off".into() })?;
                self.append(command);
                rest = after;
            }
        }
        Ok(())
    }
}

struct Frozen(Vec<Arc<[u8]>>);

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        for commands in self.0.chunks(CHUNK_COMMANDS) {
            let mut chunk = Vec::new();
            for command in commands {
                chunk.extend_from_slice(&(command.len() as u32).to_le_bytes());
                chunk.extend_from_slice(command);
            }
            if !sink(&chunk) {
                return;
            }
        }
    }
}
