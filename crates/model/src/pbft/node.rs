//! A correct replica: production's, and what the world around it does at once.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::base::crypto::{Claim, Scheme, Signature, Signer, Verified};
use quorate_core::base::types::{Digest, Height, ReplicaId, Time, View};
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::pbft::words::{Entry, Memory, Phase, SignedChange, Types, Vote};
use quorate_core::protocols::pbft::{self, Authentication, Domain, Message, Pbft, Settings};
use quorate_core::protocols::protocol::{BlockOf, Input, Ledger, Output, Protocol, Recovered};
use quorate_sim::keys::{Key, Mock, committee};

use super::choosing::LIAR;

/// A ledger that always waits for the primary, and never proposes.
struct Waiting;

impl Ledger for Waiting {
    fn has_pending(&self) -> bool {
        true
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        Vec::new()
    }

    fn executed(&self) -> Height {
        Height(0)
    }

    fn state_root(&self, _: Height) -> Option<Digest> {
        None
    }
}

/// A correct replica.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, which stays.
    pub me: ReplicaId,
    protocol: Pbft,
    /// The votes it cast, with its signatures.
    votes: Vec<(Vote, Signature)>,
    /// Its last view change.
    pub change: Option<SignedChange>,
    /// The last new view that it showed to one other.
    pub shown: Option<Message>,
}

impl Node {
    /// A replica that comes to `view` without having ordered anything.
    pub fn new(me: ReplicaId, view: View, authentication: Authentication) -> Self {
        let settings = Settings { authentication, ..Settings::default() };
        let protocol = Pbft::new(committee(4), me, settings);
        let (votes, change, shown) = (Vec::new(), None, None);
        let mut node = Self { me, protocol, votes, change, shown };
        let recovered = Recovered {
            memory: Some(Memory { view, ..Memory::default() }),
            root: pbft::origin(&committee(4), settings.window).genesis,
            root_committed: Height(0),
            recent: Vec::new(),
            blocks: Vec::new(),
        };
        node.feed(Time(0), Input::Start(Box::new(recovered)));
        node
    }

    /// The view it is in, if that has begun.
    pub fn view(&self) -> Option<View> {
        let status = self.protocol.status();
        let is_changing = status.details.contains(&("view_change", 1));
        (!is_changing).then_some(status.view)
    }

    /// What it knows to be committed.
    pub fn head(&self) -> (Height, BlockId) {
        let head = self.protocol.committed();
        (head.height(), head.id())
    }

    /// Somebody says something. Whether it was listened to.
    pub fn hear(&mut self, now: Time, from: ReplicaId, message: Message) -> bool {
        let Ok(claim) = self.protocol.claim(from, message) else { return false };
        let Some(message) = checked(claim) else { return false };
        self.feed(now, Input::Message { from, message });
        true
    }

    /// A block is fetched, if it is needed.
    pub fn fetch(&mut self, now: Time, block: &BlockOf<Types>) {
        if self.protocol.holds(&block.id()) {
            return;
        }
        let block = self.protocol.claim_block(Arc::clone(block)).ok().and_then(checked);
        if let Some(block) = block {
            self.feed(now, Input::Fetched { from: LIAR, block });
        }
    }

    /// Its timer runs out.
    pub fn time_out(&mut self, now: Time) {
        self.feed(now, Input::Timeout);
    }

    /// The views in which it cast a vote for a block, each once.
    pub fn views(&self, phase: Phase, block: &BlockId) -> BTreeSet<View> {
        let votes = self.votes.iter().map(|(vote, _)| vote);
        let votes = votes.filter(|vote| vote.phase == phase && vote.block == *block);
        votes.map(|vote| vote.view).collect()
    }

    /// A vote it cast, as a message.
    pub fn vote(&self, phase: Phase, view: View, block: &BlockId) -> Option<Message> {
        let mut votes = self.votes.iter();
        let (vote, signature) =
            votes.find(|(vote, _)| (vote.phase, vote.view, vote.block) == (phase, view, *block))?;
        Some(Message::Vote { vote: *vote, signature: *signature })
    }

    /// The sets P and Q of its last view change.
    pub fn sets(&self) -> Option<(View, &[Entry], &[Entry])> {
        let change = &self.change.as_ref()?.change;
        Some((change.view, &change.prepared, &change.pre_prepared))
    }

    fn feed(&mut self, now: Time, input: Input<Types>) {
        let fx = self.protocol.step(now, input, &mut Waiting);
        let Ok(outputs) = fx.persist(|_| Ok::<(), Infallible>(()));
        for output in outputs {
            match output {
                Output::Sign(statement) => {
                    let signature = Key::of_replica(self.me.index()).sign(&statement);
                    self.feed(now, Input::Signed { statement, signature });
                }
                Output::Broadcast(Message::Vote { vote, signature }) => {
                    self.votes.push((vote, signature));
                }
                Output::Broadcast(Message::ViewChange(signed)) => self.change = Some(*signed),
                Output::Send { message, .. } if matches!(message, Message::NewView { .. }) => {
                    self.shown = Some(message);
                }
                _ => {}
            }
        }
    }
}

fn checked<T>(claim: Claim<T>) -> Option<Verified<T>> {
    let verdicts = Mock.verify(claim.checks());
    claim.settle(&verdicts)
}

/// What the liar signs.
pub struct Liar {
    pub domain: Domain,
}

impl Liar {
    fn sign(&self, statement: &quorate_core::base::crypto::Statement) -> Signature {
        Key::of_replica(LIAR.index()).sign(statement)
    }

    fn direct(&self, statement: &quorate_core::base::crypto::Statement) -> Signature {
        if self.domain.signs() { self.sign(statement) } else { Signature::NONE }
    }

    pub fn pre_prepare(&self, block: &BlockOf<Types>) -> Message {
        let statement = self.domain.pre_prepare(block.view(), block.height(), &block.id());
        Message::PrePrepare { block: Arc::clone(block), signature: self.direct(&statement) }
    }

    pub fn vote(&self, vote: Vote) -> Message {
        Message::Vote { vote, signature: self.direct(&self.domain.vote(&vote)) }
    }

    pub fn change(&self, mut signed: SignedChange) -> SignedChange {
        signed.signature = self.sign(&self.domain.view_change(&signed.change));
        signed
    }

    pub fn new_view(&self, new_view: pbft::words::NewView) -> Message {
        let signature = self.sign(&self.domain.new_view(&new_view));
        Message::NewView { new_view: Box::new(new_view), signature }
    }
}
