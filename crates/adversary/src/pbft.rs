//! Byzantine replicas of PBFT, as those of HotStuff are: a layer between a correct replica and its
//! links. It signs with the replica's own key and with no other.

mod bad_view_changes;
mod crawling_primary;
mod double_voter;
mod equivocating_primary;
mod layer;
mod lying_checkpoints;
mod lying_sets;
mod partial_primary;
mod scheduled;
mod wrong_new_views;

use std::fmt::Debug;
use std::sync::Arc;

use quorate_core::base::crypto::{Signature, Signer, Statement};
use quorate_core::protocols::pbft::words::{Content, SignedChange, ViewChange};
use quorate_core::protocols::pbft::{Domain, Message, Types};
use quorate_core::protocols::protocol::BlockOf;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Duration, ReplicaId, Time};

pub use bad_view_changes::{FLAWS, Flaw};
pub use crawling_primary::crawling;
pub use layer::{Layer, Seen};
pub(crate) use scheduled::scheduled;
pub use wrong_new_views::{WRONGS, Wrong};

/// What replicas send each other.
pub type Peer = PeerMessage<Types>;
/// A block.
pub(crate) type Block = quorate_core::ledger::block::Block<Content>;

/// A message that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// To whom.
    pub to: ReplicaId,
    /// How much later than now.
    pub delay: Duration,
    /// What.
    pub message: Peer,
}

impl Sent {
    /// A message of the protocol that leaves at once.
    #[must_use]
    pub fn of(to: ReplicaId, message: Message) -> Self {
        Self { to, delay: Duration::ZERO, message: PeerMessage::of(message) }
    }

    /// Whatever it is, at once.
    #[must_use]
    pub fn now(to: ReplicaId, message: Peer) -> Self {
        Self { to, delay: Duration::ZERO, message }
    }
}

/// What an adversary knows and may do at one moment.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The driver's time.
    pub now: Time,
    /// The replica it is.
    pub me: ReplicaId,
    /// What signatures are bound to, and among whom.
    pub domain: &'a Domain,
    /// What it has seen go by.
    pub seen: &'a Seen,
    pub(crate) signer: &'a dyn Signer,
}

impl Context<'_> {
    /// Signs whatever it is, with the replica's own key.
    #[must_use]
    pub fn sign(&self, statement: &Statement) -> Signature {
        self.signer.sign(statement)
    }

    /// Signs a message that is signed only where all are.
    #[must_use]
    pub fn sign_direct(&self, statement: &Statement) -> Signature {
        if self.domain.signs() { self.sign(statement) } else { Signature::NONE }
    }

    /// Its view change.
    #[must_use]
    pub fn change(&self, change: ViewChange) -> Message {
        let signature = self.sign(&self.domain.view_change(&change));
        Message::ViewChange(Box::new(SignedChange { from: self.me, change, signature }))
    }

    /// Its pre-prepare of a block.
    #[must_use]
    pub fn pre_prepare(&self, block: &BlockOf<Types>) -> Message {
        let statement = self.domain.pre_prepare(block.view, block.height, &block.id());
        let signature = self.sign_direct(&statement);
        Message::PrePrepare { block: Arc::clone(block), signature }
    }

    /// The other replicas, ascending.
    pub fn others(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let me = self.me;
        self.domain.committee().replicas().filter(move |id| *id != me)
    }

    /// Whether a replica belongs to the second half of the others.
    #[must_use]
    pub fn is_second(&self, replica: ReplicaId) -> bool {
        let place = replica.index() - usize::from(replica > self.me);
        2 * place >= self.domain.committee().size() - 1
    }
}

/// The same block with something else in it.
pub(crate) fn changed(block: &BlockOf<Types>, change: impl FnOnce(&mut Content)) -> BlockOf<Types> {
    let mut content: Content = (***block).clone();
    change(&mut content);
    Arc::new(Block::new(content))
}

/// The identity of no block.
pub(crate) fn made_up(number: u64) -> Digest {
    Digest::of("made up", &number.to_le_bytes())
}

/// What a Byzantine replica does to what the replica inside it sends.
pub trait Adversary: Debug + Send {
    /// The replica sends `message` to `to` (a broadcast is one call for each receiver): what leaves
    /// instead goes to `out`.
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>);

    /// It is time to send what nobody asked for.
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let _ = (cx, out);
    }

    /// How often [`tick`](Self::tick) is called; `None`: never.
    fn wants_tick(&self) -> Option<Duration> {
        None
    }
}

/// Makes an adversary from a seed.
pub type Make = fn(u64) -> Box<dyn Adversary>;

/// Every adversary by its name.
pub const ALL: [(&str, Make); 8] = [
    ("equivocating-primary", equivocating_primary::make),
    ("crawling-primary", crawling_primary::make),
    ("partial-primary", partial_primary::make),
    ("lying-checkpoints", lying_checkpoints::make),
    ("lying-sets", lying_sets::make),
    ("bad-view-changes", bad_view_changes::make),
    ("wrong-new-views", wrong_new_views::make),
    ("double-voter", double_voter::make),
];

/// The adversary of this name.
#[must_use]
pub fn named(name: &str) -> Option<Make> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, make)| *make)
}
