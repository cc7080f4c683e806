//! The task behind a client: it owns the session, its connections and its timer, and does the
//! driver's duties that [`quorate_core::client`] lists.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::wire::Encode;
use quorate_core::client::message::{Request, Response};
use quorate_core::client::read_index::Voters;
use quorate_core::client::reads::{self, ReadError, ReadId, Reads};
use quorate_core::client::{
    BatchId, ClientError, Input, NotExecuted, Output, Packed, Session, Unknown,
};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::{ReplicaId, Time, planted};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};

use super::link::News;
use super::members::Members;
use super::{Authenticity, State};

/// Who is to be told of a batch's result.
pub(super) type Done = Box<dyn FnOnce(Result<Packed, ClientError>) + Send>;

/// Who is to be told of a read's result.
pub(super) type Answered = Box<dyn FnOnce(Result<Packed, ReadError>) + Send>;

/// What a handle wants done.
pub(super) enum Submission {
    /// Commands on their way to the session.
    Commands { batch: Packed, give_up_after: Option<Duration>, done: Done },
    /// Questions that are not to be ordered.
    Questions { questions: Packed, give_up_after: Option<Duration>, done: Answered },
}

impl Submission {
    /// The client is closed.
    pub(super) fn refuse(self) {
        match self {
            Self::Commands { done, .. } => done(Err(NotExecuted::Closed.into())),
            Self::Questions { done, .. } => done(Err(ReadError::Closed)),
        }
    }
}

/// Reads that are under way.
struct Reading {
    reads: Reads,
    under_way: HashMap<ReadId, Answered>,
    next: ReadId,
    inputs: Vec<reads::Input>,
    outputs: Vec<reads::Output>,
}

/// While something waits, members are asked this often whether there are others.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most responses of one replica taken in before the others have their turn.
const RESPONSES_PER_TURN: usize = 64;

/// The task's future. Completes when every handle is gone.
pub(super) struct Driver {
    session: Session,
    /// By what outcomes are believed, and the key of the client that they are for.
    authenticity: (Authenticity, PublicKey),
    members: Members,
    /// When the members are asked next whether they have changed.
    look: Pin<Box<Sleep>>,
    submissions: mpsc::UnboundedReceiver<Submission>,
    state: watch::Sender<State>,
    under_way: HashMap<BatchId, Done>,
    next_batch: BatchId,
    start: Instant,
    timer: Pin<Box<Sleep>>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    reading: Reading,
    /// What has come in and is not verified yet.
    heard: Vec<(ReplicaId, Response)>,
}

impl Driver {
    /// Drives `session`, which begins at time 0, over links to its replicas.
    pub(super) fn new(
        session: Session,
        authenticity: (Authenticity, PublicKey),
        members: Members,
        submissions: mpsc::UnboundedReceiver<Submission>,
        state: watch::Sender<State>,
    ) -> Self {
        let start = Instant::now();
        let replicas = members.size();
        let voters = members.committee().map_or_else(|| Voters::equal(replicas), Voters::of);
        let reading = Reading {
            reads: Reads::new(voters),
            under_way: HashMap::new(),
            next: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Self {
            session,
            authenticity,
            members,
            look: Box::pin(tokio::time::sleep_until(start + LOOK_EVERY)),
            submissions,
            state,
            under_way: HashMap::new(),
            next_batch: 0,
            start,
            timer: Box::pin(tokio::time::sleep_until(start)),
            inputs: Vec::new(),
            outputs: Vec::new(),
            reading,
            heard: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        Time(0).after(self.start.elapsed())
    }

    /// Takes in what was submitted. `false` if there are no handles any more.
    fn take_submissions(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(submission) = self.submissions.poll_recv(cx) {
            match submission {
                None => return false,
                Some(Submission::Commands { batch, give_up_after, done }) => {
                    let id = self.next_batch;
                    self.next_batch += 1;
                    let give_up = give_up_after.map(|span| self.now().after(span));
                    self.under_way.insert(id, done);
                    self.inputs.push(Input::Submit { id, batch, give_up });
                }
                Some(Submission::Questions { questions, give_up_after, done }) => {
                    let id = self.reading.next;
                    self.reading.next += 1;
                    self.reading.under_way.insert(id, done);
                    let give_up = give_up_after.map(|span| self.now().after(span));
                    self.reading.inputs.push(reads::Input::Read { id, questions, give_up });
                }
            }
        }
        true
    }

    fn take_news(&mut self, cx: &mut Context<'_>) {
        let (mut reached, mut handovers) = (Vec::new(), Vec::new());
        let mut seeks = false;
        for (from, link) in self.members.links() {
            for _ in 0..RESPONSES_PER_TURN {
                let Poll::Ready(news) = link.poll(cx) else { break };
                match news {
                    News::Connected => {
                        reached.push(from);
                        self.inputs.push(Input::Connected(from));
                    }
                    News::OtherKey => seeks = true,
                    News::Disconnected => self.inputs.push(Input::Disconnected(from)),
                    News::Response(Response::Handovers { handovers: ends, .. }) => {
                        handovers.push(ends);
                    }
                    News::Response(
                        response @ (Response::ReadIndex { .. }
                        | Response::Reads { .. }
                        | Response::Unproven { .. }),
                    ) => self.reading.inputs.push(reads::Input::Response { from, response }),
                    News::Response(response) => self.heard.push((from, response)),
                }
            }
        }
        if seeks {
            self.members.seek();
        }
        handovers.extend(self.members.found(cx));
        self.take_heard();
        let has_news = !(reached.is_empty() && handovers.is_empty());
        let now = self.now();
        reached.into_iter().for_each(|replica| self.members.ask(Some(replica)));
        for ends in handovers {
            self.members.follow(now, ends, &mut self.session);
        }
        self.reading.follow(now, &self.members);
        if has_news {
            self.members.write(cx);
            // Links that are new are to be polled as well.
            cx.waker().wake_by_ref();
        }
    }

    /// Takes in what is authentic of what has come.
    fn take_heard(&mut self) {
        let (authenticity, key) = &self.authenticity;
        let verdicts = authenticity.verify(key, &self.heard);
        for ((from, response), is_authentic) in self.heard.drain(..).zip(verdicts) {
            if !is_authentic {
                if let Some(link) = self.members.link(from) {
                    link.refused();
                }
                continue;
            }
            let response = match response {
                Response::Signed { outcome, .. } => Response::Outcome(outcome),
                response => response,
            };
            self.inputs.push(Input::Response { from, response });
        }
    }

    fn act(&mut self, cx: &mut Context<'_>) {
        let mut sent = false;
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Send { to, relay, frame } => {
                    self.send(to, relay, frame);
                    sent = true;
                }
                Output::Done { id, result } => {
                    if let Some(done) = self.under_way.remove(&id) {
                        done(result);
                    }
                }
                Output::Opened(session) => drop(self.state.send_replace(State::Open(session))),
                Output::Ended(fatal) => drop(self.state.send_replace(State::Ended(fatal))),
            }
        }
        self.outputs = outputs;
        if sent {
            // Before anything else is read.
            self.members.write(cx);
        }
    }

    /// Takes what reads wait for, and does what they want.
    fn read(&mut self, now: Time, cx: &mut Context<'_>) {
        let Reading { reads, inputs, outputs, under_way, .. } = &mut self.reading;
        inputs.drain(..).for_each(|input| reads.step(now, input, outputs));
        if outputs.is_empty() {
            return;
        }
        for output in outputs.drain(..) {
            match output {
                reads::Output::Send { to, request } => {
                    let message = Bytes::from(request.to_bytes());
                    let is_meant = |id: ReplicaId| to.is_none_or(|to| to == id);
                    let links = self.members.links().filter(|(id, _)| is_meant(*id));
                    links.for_each(|(_, link)| link.send(&message));
                }
                reads::Output::Done { id, result } => {
                    if let Some(done) = under_way.remove(&id) {
                        done(result);
                    }
                }
                reads::Output::Look => self.members.ask(None),
            }
        }
        self.members.write(cx);
    }

    /// Encodes a `Request::Submit` once, for all that it goes to.
    fn send(&mut self, to: Option<ReplicaId>, relay: bool, frame: SharedFrame) {
        let mut message = Vec::with_capacity(1 + frame.encoded_bytes().len());
        Request::Submit { relay, frame }.encode(&mut message);
        let message = Bytes::from(message);
        match to {
            Some(replica) => {
                if let Some(link) = self.members.link(replica) {
                    link.send(&message);
                }
            }
            None => self.members.links().for_each(|(_, link)| link.send(&message)),
        }
    }

    /// Looks for other members from time to time while something waits: those that are known may be
    /// none any more.
    fn poll_look(&mut self, cx: &mut Context<'_>) {
        while self.members.may_change() && self.look.as_mut().poll(cx).is_ready() {
            self.look.as_mut().reset(Instant::now() + LOOK_EVERY);
            if self.deadline().is_some() {
                self.members.ask(None);
                self.members.write(cx);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.session.deadline().into_iter().chain(self.reading.reads.deadline()).min()
    }

    /// Sets the timer. Returns whether the deadline has passed already. The timer may be early,
    /// so that it is not set anew whenever a deadline moves away.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline() else { return false };
        let deadline = self.start + Duration::from_nanos(deadline.0);
        loop {
            if deadline <= Instant::now() {
                return true;
            }
            if deadline < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
        }
    }
}

impl Reading {
    /// Counts by the newest committee that is known.
    fn follow(&mut self, now: Time, members: &Members) {
        if let Some(committee) = members.committee()
            && committee.epoch() != self.reads.epoch()
        {
            self.reads.change_members(now, Voters::of(committee), &mut self.outputs);
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut listens = true;
        loop {
            let wanted = this.take_submissions(cx);
            // What an answer led to goes out before others are looked for.
            listens = this.inputs.is_empty() && this.reading.inputs.is_empty() || !listens;
            if listens {
                this.take_news(cx);
            }
            this.poll_look(cx);
            if this.poll_timer(cx) {
                this.inputs.push(Input::Timeout);
                this.reading.inputs.push(reads::Input::Timeout);
            }
            let now = this.now();
            let idle = this.inputs.is_empty() && this.reading.inputs.is_empty();
            this.read(now, cx);
            this.session.step(now, this.inputs.drain(..), &mut this.outputs);
            this.act(cx);
            if !wanted {
                return Poll::Ready(());
            }
            if idle {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Driver {
    /// Nobody is left waiting, even if the runtime stops.
    fn drop(&mut self) {
        self.session.close(&mut self.outputs);
        for output in std::mem::take(&mut self.outputs) {
            if let Output::Done { id, result } = output
                && let Some(done) = self.under_way.remove(&id)
            {
                done(planted!("sent-and-not-executed", Err(NotExecuted::Closed.into()), result,));
            }
        }
        for (_, done) in self.under_way.drain() {
            done(Err(Unknown::Closed.into()));
        }
        for (_, done) in self.reading.under_way.drain() {
            done(Err(ReadError::Closed));
        }
        self.submissions.close();
        while let Ok(submission) = self.submissions.try_recv() {
            submission.refuse();
        }
    }
}
