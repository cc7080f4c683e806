//! Byzantine replicas: a layer between a real replica and its links.
//!
//! The replica inside runs the protocol as written. What it sends, the [`Adversary`] around it
//! withholds, delays, bends or adds to; what it receives, the adversary reads along and learns
//! from. It can sign anything with the replica's own key, and nothing with another's. The same code
//! runs in the simulator and, in laboratory mode, in a real node (`quorate start --adversary
//! NAME`).
//!
//! [`Layer`] is what a driver puts around a replica; [`Schedule`] says which adversary acts when;
//! [`ALL`] and [`FLOODS`] name them. One file each; its head says what the attack is, where it
//! happened, and which defence answers it. Everything is a pure function of a seed, the time and
//! the messages.
#![forbid(unsafe_code)]

mod block_requests;
mod certificate_withholder;
mod context;
mod double_voter;
mod equivocating_leader;
pub mod forge;
mod forged_certificates;
mod forking_leader;
mod future_views;
mod junk_to_verify;
mod layer;
pub mod lying_client;
mod lying_replies;
mod lying_sync;
pub mod pbft;
mod proposal_withholder;
mod replayer;
mod rng;
mod schedule;
mod seen;
mod silent_leader;
mod slow_leader;
mod small_scope;
mod stale_certificates;
mod time_out_spammer;
mod unsolicited_chunks;
mod vote_withholder;

use std::fmt::Debug;

use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::{Message, Types};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId};

pub use context::Context;
pub use layer::{Deeds, Layer, Own};
pub use rng::Rng;
pub use schedule::{Foreign, Schedule, ScheduleError, Window};
pub use seen::Seen;

/// What replicas send each other.
pub type Peer = PeerMessage<Types>;

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
    /// A message that leaves at once.
    #[must_use]
    pub fn now(to: ReplicaId, message: Peer) -> Self {
        Self { to, delay: Duration::ZERO, message }
    }

    /// A message of the protocol, without bodies, that leaves at once.
    #[must_use]
    pub fn of(to: ReplicaId, message: Message) -> Self {
        Self::now(to, PeerMessage::of(message))
    }
}

/// What a Byzantine replica does to what the replica inside it sends. Every method but the first
/// does by default what an honest replica does.
pub trait Adversary: Debug + Send {
    /// The replica sends `message` to `to` (a broadcast is one call for each receiver): what leaves
    /// instead goes to `out`.
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let _ = cx;
        out.push(Sent::now(to, message));
    }

    /// A message arrives, which the replica gets as well. What anybody may learn of it is in
    /// [`Context::seen`] already.
    fn receives(&mut self, cx: &Context<'_>, from: ReplicaId, message: &Peer) {
        let _ = (cx, from, message);
    }

    /// The replica answers a client: what is answered instead goes to `out`.
    fn responds(&mut self, cx: &Context<'_>, response: Response, out: &mut Vec<Response>) {
        let _ = cx;
        out.push(response);
    }

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
pub const ALL: [(&str, Make); 16] = [
    ("silent-leader", silent_leader::make),
    ("slow-leader", slow_leader::make),
    ("forking-leader", forking_leader::make),
    ("equivocating-leader", equivocating_leader::make),
    ("double-voter", double_voter::make),
    ("proposal-withholder", proposal_withholder::make),
    ("certificate-withholder", certificate_withholder::make),
    ("vote-withholder", vote_withholder::make),
    ("stale-certificates", stale_certificates::make),
    ("forged-certificates", forged_certificates::make),
    ("future-views", future_views::make),
    ("time-out-spammer", time_out_spammer::make),
    ("lying-sync", lying_sync::make),
    ("replayer", replayer::make),
    ("small-scope", small_scope::make),
    ("lying-replies", lying_replies::make),
];

/// Adversaries that attack time and memory and nothing else, by their names. They are for real
/// nodes: a simulated machine has all the time there is.
pub const FLOODS: [(&str, Make); 3] = [
    ("junk-to-verify", junk_to_verify::make),
    ("block-requests", block_requests::make),
    ("unsolicited-chunks", unsolicited_chunks::make),
];

/// Every name of HotStuff's with what it makes, those of [`ALL`] first.
pub fn names() -> impl Iterator<Item = &'static (&'static str, Make)> {
    ALL.iter().chain(&FLOODS)
}

/// The names of the adversaries of any protocol: HotStuff's, then what [PBFT](pbft) has besides.
#[must_use]
pub fn all_names() -> Vec<&'static str> {
    let mut all: Vec<_> = names().map(|(name, _)| *name).collect();
    let besides = pbft::ALL.iter().map(|(name, _)| *name).filter(|name| named(name).is_none());
    all.extend(besides);
    all
}

/// The adversary of this name.
#[must_use]
pub fn named(name: &str) -> Option<Make> {
    names().find(|(known, _)| *known == name).map(|(_, make)| *make)
}
