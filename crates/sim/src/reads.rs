//! Reads that are not ordered, on virtual time: the machine of production at the client, replicas
//! that say what they say in production, and an oracle.
//!
//! A read asks how many commands were executed. Reads and writes of that list are linearizable if
//! each read sees all that was acknowledged to anybody, or seen by another read, before it began;
//! and nothing that no correct replica has executed.

use std::collections::BTreeMap;

use quorate_core::client::Packed;
use quorate_core::client::message::{Request, Response};
use quorate_core::client::read_index::Voters;
use quorate_core::client::reads::{Input, Output, ReadError, ReadId, Reads};
use quorate_core::replica::reads::Read;
use quorate_core::{Committee, Duration, Height, ReplicaId, Time};

use super::cluster::Cluster;
use super::events::Event;
use super::family::Family;
use super::rng::Rng;

/// So many of a hundred messages of reads are lost.
const LOST_PERCENT: u64 = 3;

/// A client that reads, and what it was told.
pub struct Reader {
    reads: Reads,
    /// What its messages meet with. The other numbers of a run are not touched.
    rng: Rng,
    next: ReadId,
    /// Reads under way: what each must see at least.
    under_way: BTreeMap<ReadId, u64>,
    /// The most that was seen.
    seen: u64,
    wakes: Option<Time>,
    outputs: Vec<Output>,
    /// Reads that were answered.
    pub answered: u64,
    /// Reads that were given up, by the reason.
    pub given_up: BTreeMap<String, u64>,
}

impl Reader {
    fn new(committee: &Committee, seed: u64) -> Self {
        Self {
            reads: Reads::new(Voters::of(committee)),
            rng: Rng::new(seed.rotate_left(17)),
            next: 0,
            under_way: BTreeMap::new(),
            seen: 0,
            wakes: None,
            outputs: Vec::new(),
            answered: 0,
            given_up: BTreeMap::new(),
        }
    }

    /// Whether no read is under way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.under_way.is_empty()
    }

    fn done(&mut self, id: ReadId, result: Result<Packed, ReadError>, executed: u64) {
        let least = self.under_way.remove(&id);
        let least = least.unwrap_or_else(|| panic!("exactly once: read {id} is over twice"));
        let answers = match result {
            Ok(answers) => answers,
            Err(error) => return *self.given_up.entry(error.to_string()).or_default() += 1,
        };
        let seen = answers.iter().map(|answer| answer.first_chunk().copied());
        for seen in seen.map(|bytes| bytes.map_or(u64::MAX, u64::from_le_bytes)) {
            assert!(
                (least..=executed).contains(&seen),
                "linearizable: a read sees {seen} commands; {least} were known when it began, and \
                 {executed} are executed"
            );
            self.seen = self.seen.max(seen);
        }
        self.answered += 1;
    }
}

impl<F: Family> Cluster<F> {
    /// From now on every request comes with a read.
    pub fn watch_reads(&mut self) {
        self.reader = Some(Reader::new(&self.config.committee(), self.config.seed));
    }

    /// Begins a read.
    pub fn read(&mut self) {
        let known = self.oracles.answered;
        let Some(reader) = &mut self.reader else { return };
        let id = reader.next;
        reader.next += 1;
        reader.under_way.insert(id, known.max(reader.seen));
        let questions = Packed::commands(["how many?"]).expect("it fits");
        self.step_reads(Input::Read { id, questions, give_up: None });
    }

    /// Begins a read, and says whether it was answered.
    pub fn read_now(&mut self, micros: u64) -> bool {
        let answered = |cluster: &Self| cluster.reader.as_ref().map_or(0, |it| it.answered);
        let before = answered(self);
        self.read();
        let is_done = |cluster: &Self| cluster.reader.as_ref().is_none_or(Reader::is_done);
        self.run_until(micros, is_done) && answered(self) > before
    }

    fn step_reads(&mut self, input: Input) {
        let now = self.now;
        let Some(mut reader) = self.reader.take() else { return };
        reader.reads.step(now, input, &mut reader.outputs);
        self.reader = Some(reader);
        self.act_for_reads();
    }

    fn act_for_reads(&mut self) {
        let executed = self.oracles.commands.len() as u64;
        let mut looks = false;
        let Some(reader) = &mut self.reader else { return };
        for output in std::mem::take(&mut reader.outputs) {
            match output {
                Output::Send { to, request } => {
                    for slot in 0..self.slots.len() {
                        let id = self.slots[slot].id;
                        if to.is_none_or(|to| to.index() == id) && !reader.rng.percent(LOST_PERCENT)
                        {
                            let delay = reader.rng.between(self.config.link.delay);
                            let at = self.now.after(Duration::from_micros(delay));
                            let request = request.clone();
                            self.events.push(at, Event::Ask { to: slot, request });
                        }
                    }
                }
                Output::Done { id, result } => reader.done(id, result, executed),
                Output::Look => looks = true,
            }
        }
        if let Some(deadline) = reader.reads.deadline()
            && reader.wakes.is_none_or(|wakes| wakes > deadline)
        {
            reader.wakes = Some(deadline);
            self.events.push(deadline, Event::WakeReader);
        }
        if looks {
            self.look_for_members();
        }
    }

    /// A client follows the ends of epochs by their signatures; here correct replicas are asked.
    fn look_for_members(&mut self) {
        let handovers = self.correct().filter_map(|core| core.handovers().last());
        let newest = handovers.map(|handover| &handover.next).max_by_key(|next| next.epoch());
        let Some(voters) = newest.map(Voters::of) else { return };
        let now = self.now;
        if let Some(reader) = &mut self.reader
            && voters.epoch > reader.reads.epoch()
        {
            reader.reads.change_members(now, voters, &mut reader.outputs);
            self.act_for_reads();
        }
    }

    pub(crate) fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.as_mut().filter(|it| it.wakes == Some(self.now)) {
            reader.wakes = None;
            self.step_reads(Input::Timeout);
        }
    }

    pub(crate) fn told_reader(&mut self, from: usize, response: Response) {
        self.step_reads(Input::Response { from: ReplicaId(from as u16), response });
    }

    /// A replica is asked.
    pub(crate) fn asked(&mut self, slot: usize, request: Request) {
        let place = &mut self.slots[slot];
        let Some(core) = &place.core else { return };
        if place.faulty {
            return self.lie_to_reader(slot, &request);
        }
        match request {
            Request::ReadIndex { id, epoch } => {
                let response = match core.read_index(epoch) {
                    Ok(index) => Response::ReadIndex { id, index },
                    Err(reason) => Response::Unproven { id, reason },
                };
                self.tell_reader(slot, response);
            }
            Request::ReadAt { id, epoch, index, questions } => {
                let read = Read { client: 0, id, epoch, index, questions };
                self.serve_reads(slot, vec![read]);
            }
            _ => {}
        }
    }

    /// Answers the reads that have waited for a replica's state.
    pub(crate) fn serve_reads(&mut self, slot: usize, fresh: Vec<Read<u64>>) {
        let place = &mut self.slots[slot];
        let idle = place.reads.is_empty() && fresh.is_empty();
        let Some(core) = place.core.as_ref().filter(|_| !idle) else { return };
        let count = core.execution().application().committed().len() as u64;
        let covers = |epoch, index| core.covers(epoch, index);
        let due = place.reads.take_in(self.now, fresh, covers);
        for (Read { id, questions, .. }, due) in due {
            let response = match due {
                Ok(()) => Response::Reads { id, answers: counts(count, questions.len()) },
                Err(reason) => Response::Unproven { id, reason },
            };
            self.tell_reader(slot, response);
        }
    }

    fn tell_reader(&mut self, slot: usize, response: Response) {
        let Some(reader) = &mut self.reader else { return };
        if reader.rng.percent(LOST_PERCENT) {
            return;
        }
        let delay = reader.rng.between(self.config.link.delay);
        let (at, from) = (self.now.after(Duration::from_micros(delay)), self.slots[slot].id);
        self.events.push(at, Event::Told { from, response });
    }

    /// A liar names any height, answers from any state, or is silent.
    fn lie_to_reader(&mut self, slot: usize, request: &Request) {
        let height = self.oracles.height();
        let Some(reader) = &mut self.reader else { return };
        let lie = reader.rng.below(4);
        let response = match request {
            Request::ReadIndex { id, .. } => {
                let heights = [0, height, height + 1_000_000, reader.rng.number()];
                Response::ReadIndex { id: *id, index: Height(heights[lie as usize]) }
            }
            Request::ReadAt { id, questions, .. } => {
                let seen = [0, reader.seen, reader.seen.saturating_sub(1), reader.seen + 1];
                Response::Reads { id: *id, answers: counts(seen[lie as usize], questions.len()) }
            }
            _ => return,
        };
        if !reader.rng.percent(20) {
            self.tell_reader(slot, response);
        }
    }
}

/// The same answer to so many questions.
fn counts(count: u64, questions: usize) -> Packed {
    Packed::commands(vec![count.to_le_bytes(); questions]).expect("they fit")
}
