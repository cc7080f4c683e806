//! A driver with a bug put in on purpose: it does something else with an input, or does more.

use std::ops::Deref;

use quorate_core::base::crypto::{Check, Claim, Statement, Verified};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{
    Ancestry, Capability, Effects, Input, Ledger, Malformed, Missing, Output, Protocol, Record,
    Shown, SnapshotBase, Status,
};
use quorate_core::{Digest, Duration, Height, ReplicaId, Time, View};

use super::steps::Watch;

/// What a step led to.
pub type Fx = Effects<Output<Types>, Record<Types>>;

/// The bug.
pub trait Mutation {
    /// Takes one input in place of the driver it is put into.
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx;
}

/// The driver of a replica, with or without a bug.
pub struct Driver {
    driver: HotStuff,
    mutation: Option<Box<dyn Mutation>>,
    watch: Option<Watch>,
}

impl Driver {
    /// A driver; with a mutation, that gets each input first.
    pub fn new(driver: HotStuff, mutation: Option<Box<dyn Mutation>>) -> Self {
        Self { driver, mutation, watch: None }
    }

    /// The same, and its steps are written down.
    #[must_use]
    pub fn watched(self, watch: Option<Watch>) -> Self {
        Self { watch, ..self }
    }
}

/// Gives up fetching, and takes the newest certified block it holds for the committed head: as if
/// all below were here.
pub struct Skips {
    /// How long it waits for a missing block.
    patience: Duration,
    proposals: Vec<SharedBlock>,
    /// Since when blocks are missing.
    missing_since: Option<Time>,
}

impl Skips {
    /// One that waits for so long.
    #[must_use]
    pub fn after(patience: Duration) -> Self {
        Self { patience, proposals: Vec::new(), missing_since: None }
    }
}

impl Mutation for Skips {
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx {
        if let Input::Message { message, .. } = &input
            && let Message::Proposal { block, .. } = message.get()
        {
            self.proposals.push(SharedBlock::clone(block));
        }
        let mut fx = driver.step(now, input, ledger);
        if driver.missing().is_none() {
            self.missing_since = None;
        } else if now.since(*self.missing_since.get_or_insert(now)) >= self.patience {
            let certificate = driver.high_qc().clone();
            let held = self.proposals.iter().find(|block| block.id() == certificate.block());
            if let Some(root) = held.cloned() {
                let skip = Input::Installed { root, recent: Vec::new(), evidence: certificate };
                fx.merge(driver.step(now, skip, ledger));
            }
        }
        fx
    }
}

/// What somebody makes up and takes for checked without having looked.
pub fn believed(driver: &HotStuff, from: ReplicaId, message: Message) -> Option<Verified<Message>> {
    let claim = driver.claim(from, message).ok()?;
    let verdicts = vec![true; claim.checks().len()];
    claim.settle(&verdicts)
}

impl Deref for Driver {
    type Target = HotStuff;
    fn deref(&self) -> &HotStuff {
        &self.driver
    }
}

impl Protocol for Driver {
    type Types = Types;
    type Verifier = Verifier;

    const CAPABILITIES: &'static [Capability] = HotStuff::CAPABILITIES;
    const TAKES_LATE_PROPOSALS: bool = HotStuff::TAKES_LATE_PROPOSALS;

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        self.driver.claim(from, message)
    }

    fn carried_block(message: &Message) -> Option<&SharedBlock> {
        HotStuff::carried_block(message)
    }

    fn step(&mut self, now: Time, input: Input<Types>, ledger: &mut dyn Ledger) -> Fx {
        let brought = self.watch.as_ref().map(|watch| watch.takes(&self.driver, &input));
        let fx = match &mut self.mutation {
            None => self.driver.step(now, input, ledger),
            Some(mutation) => mutation.step(&mut self.driver, now, input, ledger),
        };
        if let (Some(watch), Some(brought)) = (&self.watch, brought) {
            watch.took(&self.driver, brought, &fx);
        }
        fx
    }

    fn deadline(&self) -> Option<Time> {
        self.driver.deadline()
    }

    fn status(&self) -> Status {
        self.driver.status()
    }

    fn view(&self) -> View {
        self.driver.view()
    }

    fn committed(&self) -> &SharedBlock {
        self.driver.committed()
    }

    fn uncommitted(&self) -> usize {
        self.driver.uncommitted()
    }

    fn holds(&self, block: &BlockId) -> bool {
        self.driver.holds(block)
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        self.driver.height_of(block)
    }

    fn path(&self, tip: &BlockId) -> Vec<SharedBlock> {
        self.driver.path(tip)
    }

    fn missing(&self) -> Option<Missing> {
        self.driver.missing()
    }

    fn claim_block(&self, block: SharedBlock) -> Result<Claim<SharedBlock>, Malformed> {
        self.driver.claim_block(block)
    }

    fn look_back(&self) -> usize {
        self.driver.look_back()
    }

    fn snapshot_base(&self, block: &BlockId) -> Option<SnapshotBase<Types>> {
        self.driver.snapshot_base(block)
    }

    fn verifier(&self) -> Verifier {
        self.driver.verifier()
    }

    fn testimony(&self) -> Testimony {
        self.driver.testimony()
    }

    fn testimony_statement(&self, testimony: &Testimony, content: &Digest) -> Statement {
        self.driver.testimony_statement(testimony, content)
    }

    fn claim_testimony(&self, testimony: &Testimony) -> Result<Vec<Check>, Malformed> {
        self.driver.claim_testimony(testimony)
    }

    fn recollect(&self, testimonies: &[Testimony]) -> Option<Safety> {
        self.driver.recollect(testimonies)
    }

    fn certified(&self, root: &Digest, height: Height) -> Option<Shown<Types>> {
        self.driver.certified(root, height)
    }

    fn newest_certified(&self) -> Option<Shown<Types>> {
        self.driver.newest_certified()
    }

    fn read_index(&self) -> Option<Height> {
        self.driver.read_index()
    }

    fn certified_state(&self) -> Option<Height> {
        self.driver.certified_state()
    }

    fn showing(evidence: quorate_core::protocols::hotstuff::certificate::Qc) -> Option<Message> {
        HotStuff::showing(evidence)
    }

    fn held_block(message: &Message) -> Option<&BlockId> {
        HotStuff::held_block(message)
    }

    fn ancestors(&self, proposal: &SharedBlock, floor: Height) -> Option<Ancestry<Types>> {
        self.driver.ancestors(proposal, floor)
    }
}
