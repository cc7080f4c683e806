//! One run of the real protocol through a scenario, on virtual time.
//!
//! It drives `HotStuff` itself, without mempool, sessions and codec: those are the simulator's
//! affair, and scenarios are run by the million. A block carries one made-up frame, so that no two
//! are equal, and its state is its own identity. Blocks that a replica lacks are fetched, as in
//! production, from those who voted for them.
//!
//! **Who hears whom.** A message belongs to the view that it is about, or to the one its sender
//! lives in if that is later; the script of that view says who hears it. A replica lives in the
//! view that it has entered, and in the next one, and the next, for each time that it has waited in
//! vain again: a time-out that nobody answers is said again, to those whom the next view lets hear
//! it. (Else a view in which no quorum is together would never end.) Before and behind the script
//! everybody hears everybody.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use quorate_core::base::crypto::{Signature, Statement};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::{Block, SharedBlock};
use quorate_core::protocols::hotstuff::leader::Schedule;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{
    Ballot, Decision, Event, Input, Ledger, Output, Protocol as _, Recovered,
};
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time, View};

use super::run::Plan;
use super::scenario::{MAX_SLOTS, Phase, Scenario, Shape};
use super::signatures::Known;
use super::variant::DELAY_NS;
use super::watch::Watch;
use crate::keys::CHAIN;
use crate::mutant::Driver;

/// How long a voter has to send a block, in nanoseconds.
const PATIENCE_NS: u64 = 5 * DELAY_NS;

/// What happens, for those who want to see it.
pub trait Observer {
    /// Something happened in a slot.
    fn event(&mut self, now: Time, slot: usize, event: &Event);
    /// A message reaches a slot, or (`false`) does not.
    fn message(&mut self, now: Time, from: usize, to: usize, message: &Message, arrives: bool);
    /// A slot asks another for blocks (`None`), or is sent so many.
    fn fetch(&mut self, now: Time, from: usize, to: usize, blocks: Option<usize>);
}

/// Nobody wants to see it.
impl Observer for () {
    fn event(&mut self, _: Time, _: usize, _: &Event) {}
    fn message(&mut self, _: Time, _: usize, _: usize, _: &Message, _: bool) {}
    fn fetch(&mut self, _: Time, _: usize, _: usize, _: Option<usize>) {}
}

/// A block that was proposed.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// The block.
    pub block: SharedBlock,
    /// The slot that made it.
    pub by: usize,
    /// A correct replica heard of it.
    pub heard: bool,
}

/// A run.
pub(super) struct World<'a, O> {
    plan: &'a Plan,
    shape: Shape,
    hears: Vec<Hears>,
    now: Time,
    slots: Vec<Slot>,
    /// All messages take the same time, so that they arrive in the order in which they left.
    posts: VecDeque<Post>,
    known: Known,
    pub(super) watch: Watch,
    pub(super) observer: O,
    pub(super) proposed: Vec<Proposed>,
    pub(super) certified: Vec<Ballot>,
    /// Slots and what they committed, with the view they lived in.
    pub(super) committed: Vec<(usize, BlockId, View)>,
    pub(super) noticed: bool,
    pub(super) delivered: u64,
}

/// By phase and sender: the slots that hear it, a bit each.
type Hears = [[u32; MAX_SLOTS]; 3];

struct Slot {
    id: ReplicaId,
    core: Driver,
    ledger: Book,
    faulty: bool,
    view: View,
    /// How often it gave up on that view.
    expired: u64,
    deadline: Option<Time>,
    fetch: Option<Fetch>,
    /// The view of the last block it committed.
    committed: View,
}

/// What is fetched, and until when the one who was asked may answer.
struct Fetch {
    tip: BlockId,
    asked: usize,
    deadline: Time,
}

struct Post {
    at: Time,
    from: usize,
    to: usize,
    what: What,
}

#[derive(Clone)]
enum What {
    Message(Rc<Message>),
    Ask { tip: BlockId, above: Height },
    Blocks(Vec<SharedBlock>),
}

/// The ledger of a slot: there is always something to propose, and all that is committed has been
/// executed.
struct Book {
    slot: u8,
    made: u64,
    /// By height.
    roots: Vec<Digest>,
    waiting: bool,
}

impl Ledger for Book {
    fn has_pending(&self) -> bool {
        true
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = Digest>) -> Vec<Digest> {
        self.made += 1;
        let mut frame = [self.slot; 32];
        frame[..8].copy_from_slice(&self.made.to_le_bytes());
        vec![Digest(frame)]
    }

    fn executed(&self) -> Height {
        Height(self.roots.len() as u64 - 1)
    }

    fn state_root(&self, height: Height) -> Option<Digest> {
        self.roots.get(height.0 as usize).copied()
    }
}

impl<'a, O: Observer> World<'a, O> {
    pub(super) fn new(plan: &'a Plan, scenario: &Scenario, observer: O) -> Self {
        let shape = scenario.shape;
        let schedule = plan.schedule(scenario);
        let settings = plan.variant.settings(schedule);
        let slot = |slot: usize| {
            let id = ReplicaId(shape.replica_in(slot) as u16);
            let committee = plan.signatures.committee().clone();
            let driver = HotStuff::new(committee, id, settings.clone());
            Slot {
                id,
                core: Driver::new(driver, (plan.variant.mutation)(id.index())),
                ledger: Book {
                    slot: slot as u8,
                    made: 0,
                    roots: vec![Digest::default()],
                    waiting: false,
                },
                faulty: shape.is_twin(slot),
                view: View(0),
                expired: 0,
                deadline: None,
                fetch: None,
                committed: View(0),
            }
        };
        Self {
            plan,
            shape,
            hears: scenario.views.iter().map(|view| hears(shape, view)).collect(),
            now: Time(0),
            slots: (0..shape.slots()).map(slot).collect(),
            posts: VecDeque::with_capacity(128),
            known: Known::default(),
            watch: Watch::new(shape.replicas()),
            observer,
            proposed: Vec::with_capacity(64),
            certified: Vec::with_capacity(64),
            committed: Vec::with_capacity(128),
            noticed: false,
            delivered: 0,
        }
    }

    /// Whether the replica in a slot runs once only.
    pub(super) fn is_correct(&self, slot: usize) -> bool {
        !self.slots[slot].faulty
    }

    /// The last scripted view.
    pub(super) fn last(&self) -> View {
        View(self.plan.prefix + self.hears.len() as u64)
    }

    /// Runs until all correct replicas have committed a block from behind the script, or something
    /// went wrong. The views behind the script that this took.
    pub(super) fn run(&mut self) -> u64 {
        let genesis = Arc::new(Block::genesis(CHAIN, Epoch(0)));
        for slot in 0..self.slots.len() {
            let recovered = Recovered {
                memory: None,
                root: Arc::clone(&genesis),
                root_committed: Height(0),
                recent: Vec::new(),
                blocks: Vec::new(),
            };
            self.turn(slot, Input::Start(Box::new(recovered)));
        }
        let last = self.last();
        while self.watch.violation.is_none() {
            let correct = || self.slots.iter().filter(|slot| !slot.faulty);
            if correct().all(|slot| slot.committed > last) {
                break;
            }
            let highest = correct().map(|slot| slot.view).max().unwrap_or_default();
            let late = highest.0 > last.0 + self.plan.suffix;
            if late || self.delivered > self.plan.max_messages || !self.step() {
                self.watch.violated("liveness", || {
                    format!("in view {highest}, with the script over after {last}, somebody lags")
                });
            }
        }
        let highest = self.slots.iter().filter(|slot| !slot.faulty).map(|slot| slot.view).max();
        highest.unwrap_or_default().0.saturating_sub(last.0)
    }

    /// What happens next. `false`: nothing ever will.
    fn step(&mut self) -> bool {
        let timers = self.slots.iter().enumerate().filter_map(|(slot, place)| {
            let fetch = place.fetch.as_ref().map(|fetch| fetch.deadline);
            Some((place.deadline.into_iter().chain(fetch).min()?, slot))
        });
        let timer = timers.min();
        match (timer, self.posts.front()) {
            (Some((at, slot)), post) if post.is_none_or(|post| at < post.at) => {
                self.now = self.now.max(at);
                self.expire(slot);
            }
            (_, Some(_)) => {
                let Some(post) = self.posts.pop_front() else { return false };
                self.now = post.at;
                self.deliver(post);
            }
            _ => return false,
        }
        true
    }

    fn expire(&mut self, slot: usize) {
        let now = self.now;
        let place = &mut self.slots[slot];
        if place.deadline.is_some_and(|deadline| deadline <= now) {
            self.turn(slot, Input::Timeout);
        } else if place.fetch.as_ref().is_some_and(|fetch| fetch.deadline <= now) {
            self.ask_for_block(slot);
        }
    }

    fn deliver(&mut self, post: Post) {
        let Post { from, to, what, .. } = post;
        self.delivered += 1;
        match what {
            What::Message(message) => self.hear(from, to, message),
            What::Ask { tip, above } => {
                let tree = self.slots[to].core.tree();
                let mut blocks: Vec<SharedBlock> =
                    tree.blocks_above(above, &tip).cloned().collect();
                if !blocks.is_empty() {
                    blocks.reverse();
                    self.post(to, from, Phase::ViewChange, View(0), What::Blocks(blocks));
                }
            }
            What::Blocks(blocks) => {
                self.observer.fetch(self.now, from, to, Some(blocks.len()));
                for block in blocks {
                    let Ok(claim) = self.slots[to].core.claim_block(block) else { continue };
                    let verdicts = self.plan.signatures.verify(&self.known, claim.checks());
                    if let Some(block) = claim.settle(&verdicts) {
                        let from = self.slots[from].id;
                        self.turn(to, Input::Fetched { from, block });
                    }
                }
            }
        }
    }

    fn hear(&mut self, from: usize, to: usize, message: Rc<Message>) {
        self.observer.message(self.now, from, to, &message, true);
        if let Message::Proposal { block, .. } = &*message
            && !self.slots[to].faulty
        {
            let id = block.id();
            if let Some(known) = self.proposed.iter_mut().rfind(|known| known.block.id() == id) {
                known.heard = true;
            }
        }
        let sender = self.slots[from].id;
        let message = Rc::try_unwrap(message).unwrap_or_else(|shared| (*shared).clone());
        let Ok(claim) = self.slots[to].core.claim(sender, message) else { return };
        let verdicts = self.plan.signatures.verify(&self.known, claim.checks());
        if let Some(message) = claim.settle(&verdicts) {
            self.turn(to, Input::Message { from: sender, message });
        }
    }

    /// One turn of a replica's loop: what production does in `replica::drive::turn`.
    fn turn(&mut self, slot: usize, input: Input<Types>) {
        let expires = matches!(input, Input::Timeout);
        let mut inputs = VecDeque::from([input]);
        let mut gave_up = false;
        loop {
            let place = &mut self.slots[slot];
            let input = match inputs.pop_front() {
                Some(input) => input,
                None if std::mem::take(&mut place.ledger.waiting) => Input::Wake,
                None => break,
            };
            let fx = place.core.step(self.now, input, &mut place.ledger);
            let Ok(outputs) = fx.persist(|_| Ok::<(), Infallible>(()));
            for output in outputs {
                if expires && !gave_up && gives_up(&output) {
                    gave_up = true;
                    self.slots[slot].expired += 1;
                }
                if let Some(answer) = self.perform(slot, output) {
                    inputs.push_back(answer);
                }
            }
        }
        let place = &mut self.slots[slot];
        place.deadline = place.core.deadline();
        self.look_for_block(slot);
    }

    /// Does what a replica wants done; an answer that comes at once is returned.
    fn perform(&mut self, slot: usize, output: Output<Types>) -> Option<Input<Types>> {
        let place = &mut self.slots[slot];
        match output {
            Output::Send { to, message } => self.send(slot, Some(to), message),
            Output::Broadcast(message) => self.send(slot, None, message),
            Output::Sign(statement) => {
                if !place.faulty {
                    self.watch.signs(place.id.index(), &statement);
                }
                let signature = self.plan.signatures.sign(place.id, &statement);
                return Some(Input::Signed { statement, signature });
            }
            Output::Verify { ask, checks } => {
                let verdicts = self.plan.signatures.verify(&self.known, &checks);
                return Some(Input::Checked { ask, verdicts });
            }
            // Certificates are lists.
            Output::Combine { ask, .. } => return Some(Input::Combined { ask, signature: None }),
            Output::Commit(decisions) => {
                for block in decisions.iter().filter_map(Decision::block) {
                    let place = &mut self.slots[slot];
                    place.ledger.roots.push(block.id());
                    place.ledger.waiting = true;
                    place.committed = block.view;
                    self.committed.push((slot, block.id(), place.view));
                    if !place.faulty {
                        self.watch.commits(place.id.index(), block);
                    }
                }
            }
            Output::Event(event) => self.note(slot, &event),
            // HotStuff does not ask for it.
            Output::PassOn { .. } | Output::Prepared { .. } | Output::RollBack => {}
        }
        None
    }

    fn note(&mut self, slot: usize, event: &Event) {
        let script = View(self.plan.prefix)..self.last();
        let place = &mut self.slots[slot];
        match event {
            Event::Entered(view) => (place.view, place.expired) = (*view, 0),
            Event::Certified(ballot) if !self.certified.contains(ballot) => {
                self.certified.push(*ballot);
            }
            Event::Equivocation { view, .. } if *view > script.start && *view <= script.end => {
                self.noticed |= !place.faulty;
            }
            _ => {}
        }
        self.observer.event(self.now, slot, event);
    }

    /// Sends to a replica (to both its copies), or to all others.
    fn send(&mut self, slot: usize, to: Option<ReplicaId>, message: Message) {
        let (own, view, phase) = (self.slots[slot].id, message.view(), phase_of(&message));
        if let Message::Proposal { block, .. } = &message
            && block.proposer == own
        {
            if !self.slots[slot].faulty {
                self.watch.proposes(own.index(), block);
            }
            self.proposed.push(Proposed { block: Arc::clone(block), by: slot, heard: false });
        }
        if let Message::Vote(vote) = &message
            && vote.signature == Signature::NONE
            && !self.slots[slot].faulty
        {
            self.watch.votes(own.index(), (vote.view.0, vote.phase), vote.block.0);
        }
        let message = Rc::new(message);
        for peer in 0..self.slots.len() {
            let id = self.slots[peer].id;
            if id != own && to.is_none_or(|to| to == id) {
                self.post(slot, peer, phase, view, What::Message(Rc::clone(&message)));
            }
        }
    }

    fn post(&mut self, from: usize, to: usize, phase: Phase, view: View, what: What) {
        let place = &self.slots[from];
        let lives_in = place.view.plus(place.expired.saturating_sub(1));
        let view = view.max(lives_in);
        let script = view.0.checked_sub(self.plan.prefix + 1);
        let script = script.and_then(|at| self.hears.get(at as usize));
        let arrives = script.is_none_or(|hears| hears[phase as usize][from] >> to & 1 == 1);
        if arrives {
            let at = self.now.after(Duration::from_nanos(DELAY_NS));
            self.posts.push_back(Post { at, from, to, what });
        } else if let What::Message(message) = &what {
            self.observer.message(self.now, from, to, message, false);
        }
    }

    /// Asks for a block that is missing, unless one was asked who may still answer.
    fn look_for_block(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let missing = place.core.missing().map(|missing| missing.block);
        match (missing, &place.fetch) {
            (None, None) => {}
            (None, Some(_)) => place.fetch = None,
            (Some(tip), Some(fetch)) if fetch.tip == tip => {}
            (Some(tip), _) => {
                place.fetch = Some(Fetch { tip, asked: 0, deadline: self.now });
                self.ask_for_block(slot);
            }
        }
    }

    /// Asks the next of those who voted for the block that is missing.
    fn ask_for_block(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let (Some(fetch), Some(missing)) = (&mut place.fetch, place.core.missing()) else { return };
        let mut voters = missing.holders;
        voters.retain(|voter| *voter != place.id);
        let turn = fetch.asked % voters.len().max(1);
        fetch.asked += 1;
        fetch.deadline = self.now.after(Duration::from_nanos(PATIENCE_NS));
        let (tip, above) = (fetch.tip, place.core.tree().root().height);
        let Some(voter) = voters.get(turn).copied() else { return };
        let shape = self.shape;
        let copies = (0..shape.slots()).filter(|peer| shape.replica_in(*peer) == voter.index());
        for peer in copies {
            self.observer.fetch(self.now, slot, peer, None);
            self.post(slot, peer, Phase::ViewChange, View(0), What::Ask { tip, above });
        }
    }
}

fn hears(shape: Shape, view: &super::ViewScript) -> Hears {
    let mut hears = [[0; MAX_SLOTS]; 3];
    for phase in Phase::ALL {
        for (from, mask) in hears[phase as usize].iter_mut().enumerate().take(shape.slots()) {
            let heard = (0..shape.slots()).filter(|to| view.hears(phase, from, *to));
            *mask = heard.fold(0, |mask, to| mask | 1 << to);
        }
    }
    hears
}

fn phase_of(message: &Message) -> Phase {
    match message {
        Message::Proposal { .. } => Phase::Proposal,
        Message::Vote(_) | Message::Certificate(_) => Phase::Vote,
        Message::TimeOut { .. } | Message::NewView { .. } | Message::Advance { .. } => {
            Phase::ViewChange
        }
    }
}

/// Whether this says (again) that a view is given up.
fn gives_up(output: &Output<Types>) -> bool {
    let is_time_out = |statement: &Statement| statement.as_bytes()[57] == 2;
    match output {
        Output::Sign(statement) => is_time_out(statement),
        Output::Send { message, .. } | Output::Broadcast(message) => {
            matches!(message, Message::TimeOut { .. })
        }
        _ => false,
    }
}

impl Plan {
    /// Who leads: correct replicas in turn before the script, then whom it names.
    fn schedule(&self, scenario: &Scenario) -> Schedule {
        let (twins, correct) =
            (scenario.shape.twins(), scenario.shape.replicas() - scenario.shape.twins());
        let before = (0..self.prefix as usize).map(|view| (twins + view % correct) as u8);
        let leaders: Vec<u8> =
            before.chain(scenario.views.iter().map(|view| view.leader)).collect();
        Schedule::new(&leaders).unwrap_or_else(|| unreachable!("a plan has checked the length"))
    }
}
