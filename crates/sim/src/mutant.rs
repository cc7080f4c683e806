//! A driver with a bug put in on purpose: it does something else with an input, or does more.

use std::ops::Deref;

use quorate_core::base::crypto::{Claim, Verified};
use quorate_core::ledger::block::{BlockId, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Malformed, Qc, Tc};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::hotstuff::{HotStuff, Message};
use quorate_core::protocols::protocol::{Effects, Input, Ledger, Output, Protocol, Status};
use quorate_core::{ReplicaId, Time, View};

use super::steps::Watch;

/// What a step led to.
pub type Fx = Effects<Output<Message>>;

/// The bug.
pub trait Mutation {
    /// Takes one input in place of the driver it is put into.
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Message>,
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
    type Message = Message;

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        self.driver.claim(from, message)
    }

    fn claim_block(&self, block: SharedBlock) -> Result<Claim<SharedBlock>, Malformed> {
        self.driver.claim_block(block)
    }

    fn carried_block(message: &Message) -> Option<&SharedBlock> {
        HotStuff::carried_block(message)
    }

    fn held_block(message: &Message) -> Option<&BlockId> {
        HotStuff::held_block(message)
    }

    fn step(&mut self, now: Time, input: Input<Message>, ledger: &mut dyn Ledger) -> Fx {
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

    fn holds(&self, block: &BlockId) -> bool {
        self.driver.holds(block)
    }

    fn high_qc(&self) -> &Qc {
        self.driver.high_qc()
    }

    fn high_tc(&self) -> Option<&Tc> {
        self.driver.high_tc()
    }

    fn missing(&self) -> Option<&Qc> {
        self.driver.missing()
    }

    fn look_back(&self) -> usize {
        self.driver.look_back()
    }

    fn status(&self) -> Status {
        self.driver.status()
    }

    fn view(&self) -> View {
        self.driver.view()
    }

    fn tree(&self) -> &BlockTree {
        self.driver.tree()
    }
}
