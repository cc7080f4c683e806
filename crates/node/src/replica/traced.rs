//! Frames that are [traced](crate::traces), on their way through this replica.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use quorate_core::client::message::{Outcome, Response};
use quorate_core::ledger::block::{Content, SharedBlock, Summary as _};
use quorate_core::ledger::frame::{FrameId, SharedFrame};
use quorate_core::protocols::protocol::Event;
use quorate_core::replica::drive;
use quorate_core::{Height, ReplicaId, Sequence, SessionId, View};

use super::inbox::FromClient;
use crate::traces::{COMMAND, FOLLOWED, Span, Traces};

/// Frames whose spans were told lately, at most: a client that sends one again begins none anew.
const TOLD: usize = 256;
/// Votes whose blocks' commit is still to come, at most.
const VIEWS: usize = 256;

/// From when to when.
type Time = (Instant, Instant);

/// The clients' stages of traced frames.
#[derive(Debug)]
pub struct Received {
    traces: Arc<Traces>,
    told: VecDeque<FrameId>,
}

/// Follows traced frames through the deciding thread.
#[derive(Debug)]
pub struct Tracer {
    traces: Arc<Traces>,
    /// The oldest first, at most [`FOLLOWED`].
    frames: VecDeque<Traced>,
    told: VecDeque<FrameId>,
    /// What the thread is at, and since when.
    stage: Option<(drive::Stage, Instant)>,
    /// The last time that it wrote to the log, and executed.
    persisted: Option<Time>,
    executed: Option<Time>,
    /// When the log was written before this replica voted in a view.
    views: VecDeque<(View, Time)>,
}

#[derive(Debug)]
struct Traced {
    id: FrameId,
    /// When it came from its client, if that was before its block.
    arrived: Option<Instant>,
    taken: Instant,
    ordered: Option<Ordered>,
    executed: Option<Executed>,
}

#[derive(Clone, Copy, Debug)]
struct Ordered {
    at: Instant,
    persisted: Option<Time>,
    height: Height,
    view: View,
    proposer: Option<ReplicaId>,
}

#[derive(Clone, Copy, Debug)]
struct Executed {
    time: Time,
    session: SessionId,
    first: Sequence,
    commands: u32,
}

fn keep(told: &mut VecDeque<FrameId>, id: FrameId) {
    if told.len() == TOLD {
        told.pop_front();
    }
    told.push_back(id);
}

impl Received {
    pub fn new(traces: Arc<Traces>) -> Self {
        Self { traces, told: VecDeque::new() }
    }

    /// These were read at `arrived`, and verified between two moments.
    pub fn note(&mut self, ready: &[FromClient], arrived: Instant, verified: Time) {
        for one in ready {
            let FromClient::Frame { frame, .. } = one else { continue };
            let id = frame.id();
            if !self.traces.samples(&id) || frame.is_open() || self.told.contains(&id) {
                continue;
            }
            let parent = Some(self.traces.command(&id));
            for (name, (begin, end)) in [("receive", (arrived, verified.0)), ("verify", verified)] {
                let attributes = Vec::new();
                self.traces.tell(Span { frame: id, name, parent, begin, end, attributes });
            }
            keep(&mut self.told, id);
        }
    }
}

impl Tracer {
    pub fn new(traces: Arc<Traces>) -> Self {
        Self {
            traces,
            frames: VecDeque::new(),
            told: VecDeque::new(),
            stage: None,
            persisted: None,
            executed: None,
            views: VecDeque::new(),
        }
    }

    fn of(&mut self, id: &FrameId) -> Option<&mut Traced> {
        self.frames.iter_mut().find(|traced| traced.id == *id)
    }

    fn follow(&mut self, id: FrameId, arrived: Option<Instant>) {
        if self.frames.len() == FOLLOWED {
            self.frames.pop_front();
            self.traces.lost();
        }
        let (taken, ordered, executed) = (Instant::now(), None, None);
        self.frames.push_back(Traced { id, arrived, taken, ordered, executed });
    }

    /// A frame came from its client.
    pub fn taken(&mut self, frame: &SharedFrame, arrived: Instant) {
        let id = frame.id();
        if self.traces.samples(&id)
            && !frame.is_open()
            && !self.told.contains(&id)
            && self.of(&id).is_none()
        {
            self.follow(id, Some(arrived));
        }
    }

    /// The deciding thread turns to another stage.
    pub fn enter(&mut self, stage: drive::Stage) {
        let now = Instant::now();
        match self.stage.replace((stage, now)) {
            Some((drive::Stage::Persist, since)) => self.persisted = Some((since, now)),
            Some((drive::Stage::Execute, since)) => self.executed = Some((since, now)),
            _ => {}
        }
    }

    /// Something happened in the protocol. A vote is told once what it rests on is durable.
    pub fn note(&mut self, event: &Event) {
        let Event::Voted(ballot) = event else { return };
        let is_later = self.views.back().is_none_or(|(view, _)| *view < ballot.view);
        if let Some(persisted) = self.persisted.filter(|_| is_later) {
            if self.views.len() == VIEWS {
                self.views.pop_front();
            }
            self.views.push_back((ballot.view, persisted));
        }
    }

    /// These blocks were committed.
    pub fn committed<C: Content>(&mut self, blocks: &[SharedBlock<C>]) {
        for block in blocks {
            for id in block.frames() {
                if self.traces.samples(id) {
                    self.ordered(id, block);
                }
            }
        }
    }

    fn ordered<C: Content>(&mut self, id: &FrameId, block: &SharedBlock<C>) {
        let (view, now) = (block.view(), Instant::now());
        let voted = self.views.iter().find(|(of, _)| *of == view).map(|(_, time)| *time);
        let ordered = Ordered {
            at: now,
            persisted: voted.or(self.persisted),
            height: block.height(),
            view,
            proposer: block.header().proposer(),
        };
        // A replica that is behind learns of frames long after they were ordered.
        if self.of(id).is_none() && voted.is_some() && !self.told.contains(id) {
            self.follow(*id, None);
        }
        if let Some(traced) = self.of(id).filter(|traced| traced.ordered.is_none()) {
            traced.ordered = Some(ordered);
        }
    }

    /// These frames were executed just now.
    pub fn executed(&mut self, frames: &[SharedFrame]) {
        let Some(time) = self.executed else { return };
        let traces = Arc::clone(&self.traces);
        for frame in frames.iter().filter(|frame| traces.samples(&frame.id())) {
            let (session, first, commands) = (frame.session(), frame.first(), frame.count());
            if let Some(traced) = self.of(&frame.id()).filter(|traced| traced.executed.is_none()) {
                traced.executed = Some(Executed { time, session, first, commands });
            }
        }
    }

    /// A client is answered.
    pub fn answered(&mut self, response: &Response) {
        let Response::Outcome(Outcome::Executed { session, first, count, .. }) = response else {
            return;
        };
        let numbers = first.0..first.0.saturating_add(u64::from(*count));
        let is_it = |traced: &Traced| {
            traced.executed.is_some_and(|executed| {
                executed.session == *session && numbers.contains(&executed.first.0)
            })
        };
        let Some(at) = self.frames.iter().position(is_it) else { return };
        if let Some(traced) = self.frames.remove(at) {
            self.tell(&traced);
            keep(&mut self.told, traced.id);
        }
    }

    fn tell(&self, traced: &Traced) {
        let (Some(ordered), Some(executed)) = (traced.ordered, traced.executed) else { return };
        let (frame, now) = (traced.id, Instant::now());
        let own = self.traces.command(&frame);
        let stages = [
            ("order", Some((traced.taken, ordered.at))),
            ("persist", ordered.persisted),
            ("execute", Some(executed.time)),
            ("reply", Some((executed.time.1, now))),
        ];
        for (name, time) in stages {
            let Some((begin, end)) = time else { continue };
            let (parent, attributes) = (Some(own), Vec::new());
            self.traces.tell(Span { frame, name, parent, begin, end, attributes });
        }
        let attributes = vec![
            ("quorate.session", executed.session.0),
            ("quorate.first", executed.first.0),
            ("quorate.commands", u64::from(executed.commands)),
            ("quorate.height", ordered.height.0),
            ("quorate.view", ordered.view.0),
        ];
        let parent = self.traces.above(&frame, ordered.proposer);
        let begin = traced.arrived.unwrap_or(traced.taken);
        self.traces.tell(Span { frame, name: COMMAND, parent, begin, end: now, attributes });
    }
}
