//! The application of the tests: it appends every command to a list, and its replies say where.
//! Where a service is tested, it hands each command on to that, without its head, and appends the
//! service's reply to its own.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::ledger::state_machine::{Decided, Replies, RestoreError, Snapshot, StateMachine};

use super::service::Hosted;

/// Commands in a chunk of a snapshot.
const CHUNK_COMMANDS: usize = 16;

/// What begins the chunks of a snapshot that are the service's.
const OF_SERVICE: &[u8; 4] = &u32::MAX.to_le_bytes();

/// The state machine of simulated clusters: it keeps all it was told, and replies with each
/// command's place.
#[derive(Default)]
pub struct Register {
    /// The commands executed, in order.
    pub commands: Vec<Arc<[u8]>>,
    /// The hash of them all: the state's root.
    pub head: Digest,
    /// Computes another state from this command on, as a broken machine would.
    pub breaks_at: Option<usize>,
    /// The service under test, if there is one.
    pub(crate) service: Option<Box<dyn Hosted>>,
    /// The newest rules that its program supports; 0: no others than the first.
    pub(crate) newest_rules: u16,
    /// The rules that the last block was executed by.
    pub rules: u16,
    /// How many commands there were, and their hash, when the state was marked.
    pub(crate) marked: Option<(usize, Digest)>,
}

impl Register {
    /// That of a program that supports rules up to `newest_rules`.
    pub(crate) fn of(service: Option<Box<dyn Hosted>>, newest_rules: u16) -> Self {
        Self { service, newest_rules, ..Self::default() }
    }

    fn append(&mut self, command: &[u8]) {
        let mut bytes = self.head.0.to_vec();
        bytes.extend_from_slice(command);
        if self.breaks_at == Some(self.commands.len()) {
            bytes.push(0);
        }
        self.head = Digest::of("test register", &bytes);
        self.commands.push(command.into());
    }

    /// The commands of committed blocks.
    pub fn committed(&self) -> &[Arc<[u8]>] {
        let count = self.marked.map_or(self.commands.len(), |(count, _)| count);
        &self.commands[..count]
    }

    /// Whether what must always hold of the service holds.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.service.as_ref().map_or(Ok(()), |service| service.check())
    }

    /// The service's replies to a block.
    fn serve(&mut self, block: &Decided<'_>) -> Option<Replies> {
        let service = self.service.as_mut()?;
        let commands: Vec<&[u8]> = block.commands.iter().map(|text| body(text)).collect();
        let mut replies = Replies::default();
        service.machine().apply(&Decided { commands: &commands, ..block.clone() }, &mut replies);
        assert_eq!(replies.len(), commands.len(), "the service owes one reply to each command");
        Some(replies)
    }
}

/// A command behind its head, `client:number` and a space.
fn body(command: &[u8]) -> &[u8] {
    let head = command.iter().position(|byte| *byte == b' ');
    head.map_or(&[], |end| &command[end + 1..])
}

impl StateMachine for Register {
    fn newest_rules(&self) -> u16 {
        self.newest_rules.max(1)
    }

    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        self.rules = block.rules;
        let served = self.serve(block);
        let mut served = served.iter().flat_map(Replies::iter);
        for command in block.commands {
            let place = (self.commands.len() as u64).to_le_bytes();
            replies.push_with(|out| {
                out.extend_from_slice(&place);
                out.extend_from_slice(served.next().unwrap_or_default());
            });
            self.append(command);
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        Bytes::copy_from_slice(question)
    }

    fn root(&mut self) -> Digest {
        let Some(service) = &mut self.service else { return self.head };
        let roots = [self.head.0, service.machine().root().0];
        Digest::of("test register and service", &roots.concat())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let service = self.service.as_ref().map(|service| service.snapshot());
        Box::new(Frozen(self.committed().to_vec(), service))
    }

    fn mark(&mut self) -> bool {
        let can = self.service.as_mut().is_none_or(|service| service.machine().mark());
        self.marked = can.then_some((self.commands.len(), self.head));
        can
    }

    fn keep(&mut self) {
        self.marked = None;
        if let Some(service) = &mut self.service {
            service.machine().keep();
        }
    }

    fn undo(&mut self) {
        if let Some((count, head)) = self.marked.take() {
            self.commands.truncate(count);
            self.head = head;
        }
        if let Some(service) = &mut self.service {
            service.machine().undo();
        }
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let service = self.service.take();
        let (breaks_at, newest_rules) = (self.breaks_at, self.newest_rules);
        *self = Self { breaks_at, newest_rules, service, ..Self::default() };
        let mut of_service = Vec::new();
        for chunk in chunks {
            if let Some(inner) = chunk.strip_prefix(OF_SERVICE) {
                of_service.push(chunk.slice_ref(inner));
                continue;
            }
            let mut rest: &[u8] = &chunk;
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let (command, after) = after
                    .split_at_checked(u32::from_le_bytes(*length) as usize)
                    .ok_or_else(|| RestoreError { chunk: 0, reason: "cut off".into() })?;
                self.append(command);
                rest = after;
            }
        }
        match &mut self.service {
            Some(service) => service.machine().restore(&mut of_service.into_iter()),
            None => Ok(()),
        }
    }
}

struct Frozen(Vec<Arc<[u8]>>, Option<Box<dyn Snapshot>>);

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
        if let Some(service) = &self.1 {
            // As in a cluster, where an empty chunk is none.
            service.chunks(&mut |chunk| chunk.is_empty() || sink(&[OF_SERVICE, chunk].concat()));
        }
    }
}
