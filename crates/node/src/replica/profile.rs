//! Where the time of a command goes: counted in classes, without a lock or an allocation where it
//! is hot.
//!
//! Two views of it. **Stages** are what threads do: how long each visit of the deciding thread to a
//! stage took, and each batch of the clients' stage. **Lives** are what a frame waits for, from the
//! socket to the answer: one frame at a time is followed, the next begins when that one was
//! answered, and counts as led where this replica proposed its block.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::client::message::{Outcome, Response};
use quorate_core::ledger::block::{Content, SharedBlock};
use quorate_core::ledger::frame::{FrameId, SharedFrame};
use quorate_core::protocols::protocol::Event;
use quorate_core::replica::drive;
use quorate_core::{Sequence, SessionId, View};
use quorate_transport::Counters;
use quorate_transport::measure::{Histogram, Measure};

use super::metrics::Number;
use super::traced::Tracer;

/// A stage of the pipeline that every protocol's messages and every client's frames go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Stage {
    /// Reading a socket, opening what the transport sealed, cutting frames. A task a connection, on
    /// the threads of the network.
    Receive,
    /// Reading what a message says. Peers' messages: the deciding thread (and what they carry is
    /// hashed with it), in the order of each channel. Clients' frames: one thread, as they are
    /// grouped there by the standing of their connections.
    Decode,
    /// The identities of clients' frames, each byte once. As wide as `pipeline.requests`.
    Hash,
    /// Signatures: of clients' frames, as wide as `pipeline.requests`; of the protocol, as wide as
    /// `pipeline.verify`, but for the few that the deciding thread checks when nothing else waits.
    Verify,
    /// The protocol, the mempool, the answers. One thread: it is the state machine, and one state
    /// has one order of inputs.
    Decide,
    /// Records to the log, with one sync for all of a turn. One thread: nothing that rests on them
    /// leaves before.
    Persist,
    /// Committed blocks. One thread, the deciding one: the next vote needs the state's root.
    Execute,
    /// Messages and answers into bytes, once for all who get them. One thread, the deciding one: it
    /// costs less than handing the message over would.
    Encode,
    /// Signing what this replica says (the channels' own authentication is part of receive and
    /// send). One thread, the deciding one: a vote waits for nothing else, and there is one a view
    /// and phase.
    Authenticate,
    /// Queueing, sealing, writing to the socket. A task a connection, on the threads of the
    /// network; to queue and to wake that task is the deciding thread's.
    Send,
}

impl Stage {
    /// All, in the order in which a command meets them.
    pub const ALL: [Self; STAGES.len()] = [
        Self::Receive,
        Self::Decode,
        Self::Hash,
        Self::Verify,
        Self::Decide,
        Self::Persist,
        Self::Execute,
        Self::Encode,
        Self::Authenticate,
        Self::Send,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        STAGES[self as usize]
    }
}

/// The names of [`Stage::ALL`].
pub const STAGES: [&str; 10] = [
    "receive",
    "decode",
    "hash",
    "verify",
    "decide",
    "persist",
    "execute",
    "encode",
    "authenticate",
    "send",
];

/// What a frame waits for: the check of its signature and the deciding thread; a block; the block's
/// commit; its execution and the answer on its way out.
pub const WAITS: [&str; 4] = ["requests", "mempool", "ordering", "execution"];

/// All that is counted.
#[derive(Debug, Default)]
pub struct Profile {
    /// By [`Stage::ALL`]; the first and the last are the transport's.
    stages: [Arc<Measure>; STAGES.len()],
    /// Threads that may be in each at once.
    threads: [Number; STAGES.len()],
    /// By [`WAITS`], of frames in blocks that this replica proposed.
    pub led: [Histogram; 4],
    /// The same of others' blocks.
    pub followed: [Histogram; 4],
    /// From the arrival of a followed frame to its answer.
    pub answered: Histogram,
}

impl Profile {
    /// Beside a transport that counts in `counters`.
    #[must_use]
    pub fn beside(counters: &Counters) -> Self {
        let mut profile = Self::default();
        profile.stages[Stage::Receive as usize] = Arc::clone(&counters.receive);
        profile.stages[Stage::Send as usize] = Arc::clone(&counters.send);
        profile
    }

    /// What a stage did.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> &Measure {
        &self.stages[stage as usize]
    }

    /// How many threads may be in it at once.
    #[must_use]
    pub fn threads(&self, stage: Stage) -> &Number {
        &self.threads[stage as usize]
    }

    /// Each stage's seconds, for the log.
    #[must_use]
    pub fn seconds(&self) -> String {
        let each = STAGES.iter().zip(&self.stages);
        let each =
            each.map(|(name, stage)| format!("{name} {:.3}", stage.visits.sum_ns() as f64 / 1e9));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Proposals and votes whose blocks' commit is still to come, at most.
const VIEWS: usize = 256;
/// A frame that is not answered for so long is not followed any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows one frame at a time, and those that are traced. Part of the deciding thread.
#[derive(Debug)]
pub struct Follower {
    tracer: Option<Tracer>,
    frame: Option<Followed>,
    /// When each view's block was proposed or voted for here first, and whether it was proposed
    /// here.
    views: VecDeque<(View, Instant, bool)>,
}

#[derive(Debug)]
struct Followed {
    id: FrameId,
    session: SessionId,
    first: Sequence,
    arrived: Instant,
    taken: Instant,
    /// When its block was proposed or voted for, when committed, and whether this replica proposed
    /// it.
    ordered: Option<(Instant, Instant, bool)>,
}

impl Follower {
    /// Nothing has come yet.
    pub fn new(tracer: Option<Tracer>) -> Self {
        Self { tracer, frame: None, views: VecDeque::with_capacity(VIEWS) }
    }

    /// The deciding thread turns to another stage.
    pub fn enter(&mut self, stage: drive::Stage) {
        if let Some(tracer) = &mut self.tracer {
            tracer.enter(stage);
        }
    }

    /// These frames were executed.
    pub fn executed(&mut self, frames: &[SharedFrame]) {
        if let Some(tracer) = &mut self.tracer {
            tracer.executed(frames);
        }
    }

    /// A frame came, read from its socket at `arrived`.
    pub fn taken(&mut self, frame: &SharedFrame, arrived: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.taken(frame, arrived);
        }
        let follows = self.frame.as_ref();
        // What opens a session is no command.
        if frame.is_open() || follows.is_some_and(|one| one.arrived.elapsed() < PATIENCE) {
            return;
        }
        self.frame = Some(Followed {
            id: frame.id(),
            session: frame.session(),
            first: frame.first(),
            arrived,
            taken: Instant::now(),
            ordered: None,
        });
    }

    /// Something happened in the protocol.
    pub fn note(&mut self, event: &Event) {
        if let Some(tracer) = &mut self.tracer {
            tracer.note(event);
        }
        let (view, is_mine) = match event {
            Event::Proposed { view, .. } => (*view, true),
            Event::Voted(ballot) => (ballot.view, false),
            _ => return,
        };
        if self.views.back().is_some_and(|(last, ..)| *last >= view) {
            return;
        }
        if self.views.len() == VIEWS {
            self.views.pop_front();
        }
        self.views.push_back((view, Instant::now(), is_mine));
    }

    /// These blocks were committed.
    pub fn committed<C: Content>(&mut self, blocks: &[SharedBlock<C>]) {
        if let Some(tracer) = &mut self.tracer {
            tracer.committed(blocks);
        }
        let Some(followed) = self.frame.as_mut().filter(|followed| followed.ordered.is_none())
        else {
            return;
        };
        let Some(block) = blocks.iter().find(|block| block.frames().contains(&followed.id)) else {
            return;
        };
        match self.views.iter().find(|(view, ..)| *view == block.view()) {
            Some((_, began, is_mine)) => {
                followed.ordered = Some((*began, Instant::now(), *is_mine));
            }
            // It neither made the block nor voted for it: there is nothing to tell.
            None => self.frame = None,
        }
    }

    /// A client is answered.
    pub fn answered(&mut self, response: &Response, profile: &Profile) {
        if let Some(tracer) = &mut self.tracer {
            tracer.answered(response);
        }
        let Some(followed) = &self.frame else { return };
        let Response::Outcome(Outcome::Executed { session, first, count, .. }) = response else {
            return;
        };
        let end = first.0.saturating_add(u64::from(*count));
        if *session != followed.session || !(first.0..end).contains(&followed.first.0) {
            return;
        }
        if let Some((began, committed, is_mine)) = followed.ordered {
            let waits = if is_mine { &profile.led } else { &profile.followed };
            // A block may have come before the frame did.
            let began = began.max(followed.taken);
            let committed = committed.max(began);
            let points = [followed.arrived, followed.taken, began, committed, Instant::now()];
            for (wait, ends) in waits.iter().zip(points.windows(2)) {
                if let [from, to] = ends {
                    wait.record(to.saturating_duration_since(*from));
                }
            }
            profile.answered.record(followed.arrived.elapsed());
        }
        self.frame = None;
    }
}
