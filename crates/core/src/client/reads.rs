//! Reads by an index: rounds, and what is asked again. The argument is at
//! [`read_index`](super::read_index).
//!
//! A state machine without clock or sockets, as the [`Session`](super::Session) is. All reads that
//! wait share the next round: one question for the index to every replica, and one message with all
//! questions to f + 1 of them. The other replicas are asked if that is not enough. Nothing is held
//! back to fill a round; what comes while a round is under way *is* the next one.
//!
//! Where answers differ, since blocks are committed meanwhile, the reads that are not settled are
//! read once more at a later index. Then they are given up, and the caller orders them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use super::error::ReadError;
use super::read_index::Voters;
use crate::base::types::{Digest, Duration, Epoch, Height, ReplicaId, Time};
use crate::ledger::message::{MAX_READS, MAX_READS_BYTES, Request, Response, Unproven};
use crate::ledger::packed::Packed;

/// Names a read; chosen by the driver, never twice.
pub type ReadId = u64;

/// Rounds in which a read is tried.
const TRIES: u32 = 2;
/// Rounds that have their index and wait for answers, at most.
const MOST_READING: usize = 8;
/// Bytes of questions that may wait for a round.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// After so long without an answer, the other replicas are asked as well, or the same ones again.
const ASK_OTHERS_AFTER: Duration = Duration::from_millis(50);
/// How long a round may take, for its index and for its answers.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// What happened to the client.
#[derive(Clone, Debug)]
pub enum Input {
    /// These questions are to be answered, all from one state.
    Read {
        /// Names the read.
        id: ReadId,
        /// The questions.
        questions: Packed,
        /// When it is given up; `None`: when its rounds are.
        give_up: Option<Time>,
    },
    /// A replica answers.
    Response {
        /// The replica, known by its channel.
        from: ReplicaId,
        /// Its answer.
        response: Response,
    },
    /// The deadline may have passed.
    Timeout,
}

/// What the client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this, if the replica can be reached.
    Send {
        /// To whom; `None`: to all.
        to: Option<ReplicaId>,
        /// What.
        request: Request,
    },
    /// A read is over.
    Done {
        /// Which.
        id: ReadId,
        /// The answers, one for each question.
        result: Result<Packed, ReadError>,
    },
    /// The members may be others by now: look for them.
    Look,
}

/// A read that is not settled.
#[derive(Clone, Debug)]
struct Wanted {
    id: ReadId,
    questions: Packed,
    give_up: Option<Time>,
    tries: u32,
}

/// A round that has no index yet.
#[derive(Debug)]
struct Asking {
    round: u64,
    reads: Vec<Wanted>,
    said: BTreeMap<ReplicaId, Height>,
    refused: BTreeMap<ReplicaId, Unproven>,
    since: Time,
    again: Time,
}

/// A read that has its index.
#[derive(Debug)]
struct Asked {
    read: Wanted,
    /// The digest of each answer, and who gave it: liars fill no more memory than others.
    answers: Vec<(Digest, BTreeSet<ReplicaId>)>,
    /// Replicas whose answers end before this read.
    cut: BTreeSet<ReplicaId>,
    is_done: bool,
}

/// A round that has its index.
#[derive(Debug)]
struct Reading {
    round: u64,
    index: Height,
    reads: Vec<Asked>,
    /// Those of all reads, in their order.
    questions: Packed,
    said: BTreeMap<ReplicaId, Height>,
    asked: BTreeSet<ReplicaId>,
    heard: BTreeSet<ReplicaId>,
    since: Time,
    again: Time,
}

/// The reads of one client.
#[derive(Debug)]
pub struct Reads {
    voters: Voters,
    waiting: VecDeque<Wanted>,
    waiting_bytes: usize,
    asking: Option<Asking>,
    reading: Vec<Reading>,
    rounds: u64,
    /// Replicas that did not answer in time: others are asked first, until they do.
    silent: BTreeSet<ReplicaId>,
    /// The latest round in which a replica said that the members are others.
    looked_in: u64,
}

impl Reads {
    /// None yet.
    #[must_use]
    pub fn new(voters: Voters) -> Self {
        let (waiting, reading) = (VecDeque::new(), Vec::new());
        Self {
            voters,
            waiting,
            waiting_bytes: 0,
            asking: None,
            reading,
            rounds: 0,
            silent: BTreeSet::new(),
            looked_in: 0,
        }
    }

    /// The epoch by whose committee it counts.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.voters.epoch
    }

    /// Takes an input.
    pub fn step(&mut self, now: Time, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Read { id, questions, give_up } => {
                self.take(Wanted { id, questions, give_up, tries: 0 }, outputs);
            }
            Input::Response { from, response } => self.respond(now, from, response, outputs),
            Input::Timeout => self.on_time(now, outputs),
        }
        self.begin(now, outputs);
    }

    /// From now on these count. What is under way begins anew: what was said by the members before
    /// does not count.
    pub fn change_members(&mut self, now: Time, voters: Voters, outputs: &mut Vec<Output>) {
        self.voters = voters;
        self.silent.clear();
        let under_way = self.drain();
        self.put_back(under_way);
        self.begin(now, outputs);
    }

    /// Gives up all reads.
    pub fn close(&mut self, outputs: &mut Vec<Output>) {
        let under_way = self.drain();
        for read in under_way.into_iter().chain(std::mem::take(&mut self.waiting)) {
            fail(&read, ReadError::Closed, outputs);
        }
        self.waiting_bytes = 0;
    }

    /// Takes out the reads of all rounds.
    fn drain(&mut self) -> Vec<Wanted> {
        let reading = std::mem::take(&mut self.reading).into_iter().flat_map(Reading::unsettled);
        let asking = self.asking.take().into_iter().flat_map(|asking| asking.reads);
        reading.chain(asking).collect()
    }

    /// When [`Input::Timeout`] is due. Of the reads that stand together only the first is looked
    /// at: it came first, and all of a client's reads have the same patience.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let asking = self.asking.iter().flat_map(|asking| {
            [Some(asking.again), asking.reads.first().and_then(|read| read.give_up)]
        });
        let reading = self.reading.iter().flat_map(|reading| {
            let mut unsettled = reading.reads.iter().filter(|asked| !asked.is_done);
            [Some(reading.again), unsettled.next().and_then(|asked| asked.read.give_up)]
        });
        let waiting = self.waiting.front().map(|read| read.give_up);
        asking.chain(reading).chain(waiting).flatten().min()
    }

    fn take(&mut self, read: Wanted, outputs: &mut Vec<Output>) {
        let bytes = read.questions.body().len();
        let fits = !read.questions.is_empty()
            && read.questions.len() <= MAX_READS
            && bytes <= MAX_READS_BYTES
            && self.waiting_bytes + bytes <= MAX_WAITING_BYTES;
        if !fits {
            return fail(&read, ReadError::DoesNotFit, outputs);
        }
        // What the replicas have said already may be older than a write that was answered before
        // this read began.
        let begun = planted!("read-joins-a-begun-round", self.asking.as_mut(), None::<&mut Asking>);
        match begun {
            Some(asking) => asking.reads.push(read),
            None => {
                self.waiting_bytes += bytes;
                self.waiting.push_back(read);
            }
        }
    }

    /// Puts reads before those that wait.
    fn put_back(&mut self, reads: Vec<Wanted>) {
        for read in reads.into_iter().rev() {
            self.waiting_bytes += read.questions.body().len();
            self.waiting.push_front(read);
        }
    }

    /// Begins a round with what waits, unless one is to get its index.
    fn begin(&mut self, now: Time, outputs: &mut Vec<Output>) {
        if self.asking.is_some() || self.reading.len() >= MOST_READING {
            return;
        }
        let (mut reads, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(read) = self.waiting.front() {
            count += read.questions.len();
            bytes += read.questions.body().len();
            if count > MAX_READS || bytes > MAX_READS_BYTES {
                break;
            }
            self.waiting_bytes -= read.questions.body().len();
            reads.extend(self.waiting.pop_front());
        }
        if reads.is_empty() {
            return;
        }
        self.rounds += 1;
        let (round, epoch) = (self.rounds, self.voters.epoch);
        let (said, refused) = (BTreeMap::new(), BTreeMap::new());
        let again = now.after(ASK_OTHERS_AFTER);
        self.asking = Some(Asking { round, reads, said, refused, since: now, again });
        outputs.push(Output::Send { to: None, request: Request::ReadIndex { id: round, epoch } });
    }

    fn respond(
        &mut self,
        now: Time,
        from: ReplicaId,
        response: Response,
        outputs: &mut Vec<Output>,
    ) {
        if self.voters.weight([from]) == 0 {
            return;
        }
        match response {
            Response::ReadIndex { id, index } => self.on_index(now, from, (id, index), outputs),
            Response::Reads { id, answers } => self.on_answers(from, id, Some(answers), outputs),
            Response::Unproven { id, reason } => {
                if reason == Unproven::Epoch && self.is_live(id) && self.looked_in < id {
                    self.looked_in = id;
                    outputs.push(Output::Look);
                }
                match self.asking.as_mut().filter(|asking| asking.round == id) {
                    Some(asking) => {
                        asking.refused.insert(from, reason);
                        self.on_refused(outputs);
                    }
                    None => {
                        // Not even the first read.
                        let none = (reason == Unproven::Unavailable).then(Packed::default);
                        self.on_answers(from, id, none, outputs);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a round is under way.
    fn is_live(&self, round: u64) -> bool {
        let reading = self.reading.iter().map(|reading| reading.round);
        reading.chain(self.asking.as_ref().map(|asking| asking.round)).any(|it| it == round)
    }

    /// The first word of a replica stands for the whole round: a liar that names another height
    /// again and again would have the questions be sent anew each time.
    fn on_index(
        &mut self,
        now: Time,
        from: ReplicaId,
        (round, height): (u64, Height),
        outputs: &mut Vec<Output>,
    ) {
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.round == round) {
            asking.said.entry(from).or_insert(height);
            if let Some(index) = self.voters.index(&asking.said)
                && let Some(asking) = self.asking.take()
            {
                self.read(now, asking, index, outputs);
            }
            return;
        }
        // A late answer may show that a height was a liar's.
        let Some(reading) = self.reading.iter_mut().find(|it| it.round == round) else { return };
        reading.said.entry(from).or_insert(height);
        let index = self.voters.index(&reading.said);
        if let Some(index) = index.filter(|index| *index < reading.index) {
            reading.index = index;
            let waits: Vec<_> = reading.asked.difference(&reading.heard).copied().collect();
            for replica in waits {
                outputs.push(ask(&self.voters, reading, replica));
            }
        }
    }

    /// The index is known: asks f + 1 of those who said something, in turn.
    fn read(&mut self, now: Time, asking: Asking, index: Height, outputs: &mut Vec<Output>) {
        let Asking { round, reads, said, .. } = asking;
        let bodies = reads.iter().flat_map(|read| read.questions.iter());
        let Ok(questions) = Packed::commands(bodies) else {
            return reads.iter().for_each(|read| fail(read, ReadError::DoesNotFit, outputs));
        };
        let mut reading = Reading {
            round,
            index,
            reads: reads.into_iter().map(Asked::new).collect(),
            questions,
            said,
            asked: BTreeSet::new(),
            heard: BTreeSet::new(),
            since: now,
            again: now.after(ASK_OTHERS_AFTER),
        };
        let mut in_turn: Vec<_> = reading.said.keys().copied().collect();
        let first = (round % in_turn.len().max(1) as u64) as usize;
        in_turn.rotate_left(first);
        in_turn.sort_by_key(|replica| self.silent.contains(replica));
        for replica in in_turn {
            if !self.voters.has_witness(reading.asked.iter().copied()) {
                reading.asked.insert(replica);
                outputs.push(ask(&self.voters, &reading, replica));
            }
        }
        self.reading.push(reading);
    }

    /// A replica answers at an index, or refuses to.
    fn on_answers(
        &mut self,
        from: ReplicaId,
        round: u64,
        answers: Option<Packed>,
        outputs: &mut Vec<Output>,
    ) {
        let Some(at) = self.reading.iter().position(|it| it.round == round) else { return };
        let reading = &mut self.reading[at];
        if !reading.asked.contains(&from) || !reading.heard.insert(from) {
            return;
        }
        if let Some(answers) = answers {
            self.silent.remove(&from);
            reading.note(&self.voters, from, answers, outputs);
        }
        if reading.reads.iter().all(|asked| asked.is_done) {
            self.reading.remove(at);
        } else if reading.asked.is_subset(&reading.heard) && !self.ask_others(at, outputs) {
            self.try_again(at, outputs);
        }
    }

    /// Asks those of a round who were not asked yet. Says whether there are any.
    fn ask_others(&mut self, at: usize, outputs: &mut Vec<Output>) -> bool {
        let reading = &mut self.reading[at];
        let others: Vec<_> = self.voters.ids().filter(|id| !reading.asked.contains(id)).collect();
        for replica in &others {
            reading.asked.insert(*replica);
            outputs.push(ask(&self.voters, reading, *replica));
        }
        !others.is_empty()
    }

    /// The reads of a round that are not settled wait for another one, or are given up.
    fn try_again(&mut self, at: usize, outputs: &mut Vec<Output>) {
        let reading = self.reading.remove(at);
        let answers = reading.reads.iter().flat_map(|asked| &asked.answers);
        let answered: BTreeSet<_> = answers.flat_map(|(_, by)| by.iter().copied()).collect();
        let error = match self.voters.has_witness(answered) {
            true => ReadError::Unequal,
            false => ReadError::TooFew,
        };
        let mut again = Vec::new();
        for mut read in reading.unsettled() {
            read.tries += 1;
            match read.tries < TRIES {
                true => again.push(read),
                false => fail(&read, error, outputs),
            }
        }
        self.put_back(again);
    }

    /// Gives the round up that asks for its index, if q can no more answer.
    fn on_refused(&mut self, outputs: &mut Vec<Output>) {
        let Some(asking) = &self.asking else { return };
        if self.voters.can_do_without(asking.refused.keys().copied()) {
            return;
        }
        let of = |reason| asking.refused.values().any(|it| *it == reason);
        let error = match () {
            () if of(Unproven::Epoch) => ReadError::Members,
            () if of(Unproven::Forgotten) || of(Unproven::Restricted) => ReadError::NoIndex,
            () => ReadError::TooFew,
        };
        asking.reads.iter().for_each(|read| fail(read, error, outputs));
        self.asking = None;
    }

    /// Fails the reads whose time is up, wherever they are.
    fn give_up(&mut self, now: Time, outputs: &mut Vec<Output>) {
        let mut stays = |read: &Wanted| {
            let is_late = read.give_up.is_some_and(|until| now >= until);
            if is_late {
                fail(read, ReadError::TooFew, outputs);
            }
            !is_late
        };
        let waiting_bytes = &mut self.waiting_bytes;
        self.waiting.retain(|read| {
            let stays = stays(read);
            *waiting_bytes -= if stays { 0 } else { read.questions.body().len() };
            stays
        });
        if let Some(asking) = &mut self.asking {
            asking.reads.retain(&mut stays);
        }
        self.asking.take_if(|asking| asking.reads.is_empty());
        for reading in &mut self.reading {
            let unsettled = reading.reads.iter_mut().filter(|asked| !asked.is_done);
            unsettled.for_each(|asked| asked.is_done = !stays(&asked.read));
        }
        self.reading.retain(|reading| reading.reads.iter().any(|asked| !asked.is_done));
    }

    fn on_time(&mut self, now: Time, outputs: &mut Vec<Output>) {
        self.give_up(now, outputs);
        if let Some(asking) = &mut self.asking
            && now >= asking.again
        {
            if now >= asking.since.after(GIVE_UP_AFTER) {
                // What waits behind it would find no q replicas either.
                let waiting = std::mem::take(&mut self.waiting);
                let reads = asking.reads.iter().chain(&waiting);
                reads.for_each(|read| fail(read, ReadError::TooFew, outputs));
                (self.asking, self.waiting_bytes) = (None, 0);
            } else {
                let twice = now.after(now.since(asking.since));
                asking.again = twice.min(asking.since.after(GIVE_UP_AFTER));
                let request = Request::ReadIndex { id: asking.round, epoch: self.voters.epoch };
                let silent = self.voters.ids().filter(|id| !asking.said.contains_key(id));
                let send = |to| Output::Send { to: Some(to), request: request.clone() };
                outputs.extend(silent.map(send));
            }
        }
        for at in (0..self.reading.len()).rev() {
            if now < self.reading[at].again {
                continue;
            }
            if now >= self.reading[at].since.after(GIVE_UP_AFTER) {
                self.try_again(at, outputs);
                continue;
            }
            let reading = &self.reading[at];
            self.silent.extend(reading.asked.difference(&reading.heard));
            self.ask_others(at, outputs);
            let reading = &mut self.reading[at];
            reading.again = reading.since.after(GIVE_UP_AFTER);
        }
    }
}

impl Asked {
    fn new(read: Wanted) -> Self {
        Self { read, answers: Vec::new(), cut: BTreeSet::new(), is_done: false }
    }

    /// Counts a replica's answers. Whether f + 1 have given the same by now.
    fn is_believed(&mut self, voters: &Voters, from: ReplicaId, answers: &Packed) -> bool {
        let digest = Digest::of("quorate answers", answers.body());
        let at = self.answers.iter().position(|(other, _)| *other == digest);
        let at = at.unwrap_or_else(|| {
            self.answers.push((digest, BTreeSet::new()));
            self.answers.len() - 1
        });
        let (_, by) = &mut self.answers[at];
        by.insert(from);
        voters.has_witness(by.iter().copied())
    }
}

impl Reading {
    /// Notes what a replica answered: to whole reads, from the first one on. Hands out the reads
    /// that f + 1 replicas have answered alike by now. A read that f + 1 leave off at is not tried
    /// again.
    fn note(
        &mut self,
        voters: &Voters,
        from: ReplicaId,
        mut answers: Packed,
        outputs: &mut Vec<Output>,
    ) {
        if answers.len() > self.questions.len() {
            return;
        }
        let is_shared = self.reads.len() > 1;
        for asked in &mut self.reads {
            let count = asked.read.questions.len();
            if answers.len() < count {
                asked.cut.insert(from);
                if !asked.is_done && voters.has_witness(asked.cut.iter().copied()) {
                    fail(&asked.read, ReadError::TooLong, outputs);
                    asked.is_done = true;
                }
                return;
            }
            let own = answers.split_to(count);
            if !asked.is_done && asked.is_believed(voters, from, &own) {
                // The caller may keep it, and must not keep the whole message alive by that.
                let own = if is_shared { own.detached() } else { own };
                outputs.push(Output::Done { id: asked.read.id, result: Ok(own) });
                asked.is_done = true;
            }
        }
    }

    /// The reads that are not settled.
    fn unsettled(self) -> impl Iterator<Item = Wanted> {
        self.reads.into_iter().filter(|asked| !asked.is_done).map(|asked| asked.read)
    }
}

/// The question of a round to a replica.
fn ask(voters: &Voters, reading: &Reading, to: ReplicaId) -> Output {
    let Reading { round, index, questions, .. } = reading;
    let (id, epoch, index, questions) = (*round, voters.epoch, *index, questions.clone());
    Output::Send { to: Some(to), request: Request::ReadAt { id, epoch, index, questions } }
}

fn fail(read: &Wanted, error: ReadError, outputs: &mut Vec<Output>) {
    outputs.push(Output::Done { id: read.id, result: Err(error) });
}
