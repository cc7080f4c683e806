//! A snapshot on its way in, chunk by chunk.
//!
//! The first chunk is a header, whose content has the root that a quorum signed; so what follows
//! can be told from anything else as it comes: the session table when it is whole, the
//! application's chunks one by one, where the application
//! [can](crate::ledger::state_machine::Restorer), or else at the end.

use std::sync::Arc;

use bytes::Bytes;

use super::members::{Members, decode_generations, digest_of, encode_generations};
use super::{Execution, STATE_TAG, SnapshotError, StateSummary, panics, rules};
use crate::base::format::Tag;
use crate::base::membership::{Committee, Rules};
use crate::base::types::{Digest, Height};
use crate::base::wire::{Decode as _, DecodeError, Encode as _, Reader};
use crate::ledger::clients::Clients;
use crate::ledger::generation::Generations;
use crate::ledger::sessions::{Limits, Sessions};
use crate::ledger::state_machine::{MAX_CHUNK_BYTES, RestoreError, StateMachine};

/// What the chunks of a snapshot begin with, integers little-endian: magic 16 ‖ height u64 ‖ block
/// id 32 ‖ root of the application 32 ‖ root of the session table 32 ‖ digest of the members 32 ‖
/// digest of the list of clients 32 ‖ chunks of the session table u32 ‖ the committee, behind a
/// byte that says whether there is one ‖ the list of clients ‖ under rules from
/// [`Rules::GENERATED_KEYS`] on, the key generations of the epoch. The session table's chunks
/// follow, and then the application's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The state, whose root follows.
    pub summary: StateSummary,
    /// How many chunks of the session table there are.
    pub session_chunks: u32,
    /// The members, where they may change.
    pub committee: Option<Committee>,
    /// Who may send commands.
    pub clients: Arc<Clients>,
    /// The key generations of the epoch.
    pub generations: Arc<Generations>,
}

impl Header {
    /// Its bytes: the first chunk of a snapshot.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.encode(STATE_TAG)
    }

    pub(super) fn encode(&self, magic: &Tag) -> Bytes {
        let mut bytes = magic.to_vec();
        self.summary.encode(&mut bytes);
        self.session_chunks.encode(&mut bytes);
        self.committee.encode(&mut bytes);
        self.clients.encode(&mut bytes);
        encode_generations(self.rules(), &self.generations, &mut bytes);
        bytes.into()
    }

    fn rules(&self) -> Rules {
        self.committee.as_ref().map(Committee::rules).unwrap_or_default()
    }

    /// The header of these bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::decode(bytes, STATE_TAG)
    }

    pub(super) fn decode(bytes: Bytes, magic: &'static Tag) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.tag(magic)?;
        let summary = StateSummary::decode(&mut reader)?;
        let session_chunks = reader.u32()?;
        let committee: Option<Committee> = reader.option("whether members may change")?;
        let clients = Clients::decode(&mut reader)?;
        let rules = committee.as_ref().map(Committee::rules).unwrap_or_default();
        let generations = decode_generations(rules, &mut reader)?;
        reader.finish()?;
        if summary.members != digest_of(committee.as_ref(), &generations) {
            return Err(DecodeError::Invalid { field: "members: not those of this state" });
        }
        if summary.clients != clients.digest() {
            return Err(DecodeError::Invalid { field: "clients: not those of this state" });
        }
        let (clients, generations) = (Arc::new(clients), Arc::new(generations));
        Ok(Self { summary, session_chunks, committee, clients, generations })
    }
}

/// A state that is being taken over from a snapshot.
#[derive(Debug)]
pub struct Restoring<S> {
    application: S,
    limits: Limits,
    expected: Digest,
    /// The block that the state shall stand behind, if that is known.
    block: Option<(Height, Digest)>,
    header: Option<Header>,
    /// Of the session table, as long as it is not whole.
    session_chunks: Vec<Bytes>,
    session_bytes: u64,
    sessions: Option<Sessions>,
    /// Of an application that wants all at once.
    collected: Vec<Bytes>,
}

impl<S: StateMachine> Execution<S> {
    /// The application alone: for a state that another chain begins with.
    #[must_use]
    pub fn into_application(self) -> S {
        self.application
    }
}

impl<S: StateMachine> Restoring<S> {
    /// Takes over a state with the root `expected`, which the caller knows from a quorum, or wrote
    /// down itself. `application` is fresh.
    #[must_use]
    pub fn new(application: S, limits: Limits, expected: Digest) -> Self {
        Self {
            application,
            limits,
            expected,
            block: None,
            header: None,
            session_chunks: Vec::new(),
            session_bytes: 0,
            sessions: None,
            collected: Vec::new(),
        }
    }

    /// The state shall stand behind this block.
    #[must_use]
    pub fn behind(self, block: (Height, Digest)) -> Self {
        Self { block: Some(block), ..self }
    }

    /// Whether the application tells of each chunk if it is of that state. If not, a liar is found
    /// out by the last one only.
    #[must_use]
    pub fn checks_chunks(&mut self) -> bool {
        self.application.restorer().is_some()
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// [`SnapshotError`]: it is no chunk of that state. Nothing more can be taken.
    pub fn take(&mut self, chunk: Bytes) -> Result<(), SnapshotError> {
        if chunk.is_empty() {
            return Err(SnapshotError::Empty);
        }
        let Some(header) = &self.header else { return self.begin(chunk) };
        if self.sessions.is_none() {
            self.session_bytes += chunk.len() as u64;
            self.session_chunks.push(chunk);
            let (summary, count) = (header.summary, header.session_chunks);
            return self.take_sessions(&summary, count);
        }
        match self.application.restorer() {
            Some(restorer) => restorer.take(chunk).map_err(SnapshotError::Application),
            None => {
                self.collected.push(chunk);
                Ok(())
            }
        }
    }

    fn begin(&mut self, chunk: Bytes) -> Result<(), SnapshotError> {
        let header = Header::from_bytes(chunk).map_err(SnapshotError::Header)?;
        self.check(&header.summary)?;
        if let Some(committee) = &header.committee {
            rules::known(committee, &self.application)?;
        }
        let (summary, count) = (header.summary, header.session_chunks);
        self.header = Some(header);
        if let Some(restorer) = self.application.restorer() {
            let begun = restorer.begin(Some(summary.application));
            begun.map_err(SnapshotError::Application)?;
        }
        self.take_sessions(&summary, count)
    }

    fn check(&self, summary: &StateSummary) -> Result<(), SnapshotError> {
        if self.block.is_some_and(|block| block != (summary.height, summary.block_id)) {
            return Err(SnapshotError::Other { found: summary.height });
        }
        let (found, expected) = (summary.root(), self.expected);
        if mutant!("snapshot-root-unchecked", true, found == expected) {
            return Ok(());
        }
        Err(SnapshotError::Root { expected, found })
    }

    /// Reads the session table, once it is whole.
    fn take_sessions(&mut self, summary: &StateSummary, count: u32) -> Result<(), SnapshotError> {
        let chunk = self.session_chunks.len().saturating_sub(1);
        let refused = |reason: &str| {
            Err(SnapshotError::Sessions(RestoreError { chunk, reason: reason.to_owned() }))
        };
        // How many chunks there are is the sender's word.
        if self.session_bytes > self.limits.table_bytes() {
            return refused("more than the limits allow");
        }
        if let [.., before, _] = &self.session_chunks[..]
            && before.len() < MAX_CHUNK_BYTES
        {
            return refused("the chunk before it had room for more");
        }
        if self.session_chunks.len() < count as usize {
            return Ok(());
        }
        let mut chunks = std::mem::take(&mut self.session_chunks).into_iter();
        let sessions = Sessions::restore(self.limits, &mut chunks);
        let mut sessions = sessions.map_err(SnapshotError::Sessions)?;
        if chunks.next().is_some() {
            return refused("a chunk is left over behind the sessions");
        }
        let same = sessions.root() == summary.sessions;
        if !mutant!("snapshot-root-unchecked", true, same) {
            return refused("they are not those of this state");
        }
        self.sessions = Some(sessions);
        Ok(())
    }

    /// The state, all chunks having been taken. Only its own root is [known](Execution::root_at)
    /// afterwards.
    ///
    /// # Errors
    /// [`SnapshotError`]: they were not all, or are of another state.
    pub fn finish(mut self) -> Result<Execution<S>, SnapshotError> {
        let header = self.header.ok_or(DecodeError::Truncated { missing: STATE_TAG.len() });
        let header = header.map_err(SnapshotError::Header)?;
        let Header { summary, committee, clients, generations, .. } = header;
        let members = Members::with(committee, generations);
        let place = (summary.height, summary.block_id);
        let Some(sessions) = self.sessions.map(|it| it.with_rights(clients, None)) else {
            let (chunk, reason) = (self.session_chunks.len(), "it ends early".to_owned());
            return Err(SnapshotError::Sessions(RestoreError { chunk, reason }));
        };
        // Chunks of a liar must not stop the replica: an application that panics on them has
        // refused them, and is discarded like any that does.
        let restored = panics::guarded(|| -> Result<_, RestoreError> {
            match self.application.restorer() {
                Some(restorer) => restorer.finish()?,
                None => self.application.restore(&mut self.collected.into_iter())?,
            }
            Ok(Execution::at(self.application, sessions, place, members))
        });
        let restored = restored.unwrap_or_else(|message| {
            let reason = format!("the application panicked: {message}");
            Err(RestoreError { chunk: 0, reason })
        });
        let state = restored.map_err(SnapshotError::Application)?;
        // Whatever the application says of its chunks.
        match state.state_root() {
            found if mutant!("snapshot-root-unchecked", true, found == self.expected) => {
                Ok(mutant!("sessions-lost-at-restart", state.without_sessions(), state))
            }
            found => Err(SnapshotError::Root { expected: self.expected, found }),
        }
    }
}
