//! What the simulator has to know of a family of protocols: how one of its replicas is made, what
//! judges it beyond what must hold of every protocol, and who lies in it.

use quorate_adversary::Schedule;
use quorate_core::base::crypto::Statement;
use quorate_core::client::message::Response;
use quorate_core::protocols::protocol::{Event, Origin, Protocol, Types};
use quorate_core::{Committee, Epoch, Time, View};

use super::cluster::{Cluster, Core, Peer};
use super::config::Config;
use super::oracles::Oracles;
use super::rng::Rng;
use super::trace::Trace;

mod hotstuff;
mod pbft;
mod sequencer;
mod snowman;
mod two_delay;

pub use hotstuff::HotStuffs;
pub use pbft::Pbfts;
pub(crate) use pbft::domain as pbft_domain;
pub(crate) use pbft::said::{Decided, Said};
pub use sequencer::Sequencers;
pub use snowman::epochs::Epochs;
pub use snowman::{Frosties, ODD_EPOCH, Sampled, Snowmans};
pub use two_delay::TwoDelays;
pub(crate) use two_delay::said::Said as SaidOfTwoDelays;

/// A message of a family's protocol.
pub type MessageOf<F> = <<F as Family>::Types as Types>::Message;
/// A testimony of a family's protocol.
pub type TestimonyOf<F> = <<F as Family>::Types as Types>::Testimony;

/// What makes a protocol for an epoch's committee.
pub type Make<P> = Box<dyn Fn(&Committee) -> P + Send>;

/// A family of protocols.
pub trait Family: Sized + 'static {
    /// Its words.
    type Types: Types;
    /// What each replica runs.
    type Protocol: Protocol<Types = Self::Types>;

    /// What a replica's data begins with.
    fn origin(config: &Config) -> Origin<Self::Types>;

    /// What makes the protocol of the replica in a slot, for each epoch.
    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Make<Self::Protocol>;

    /// A message in words.
    fn words(trace: &mut Trace, message: &MessageOf<Self>) -> String;

    /// A testimony in words.
    fn testimony(trace: &mut Trace, testimony: &TestimonyOf<Self>) -> String;

    /// How a trace calls things in this cluster.
    fn set_up(trace: &mut Trace, config: &Config) {
        let _ = (trace, config);
    }

    /// A correct replica signs.
    fn signs(oracles: &mut Oracles, replica: usize, statement: &Statement) {
        let _ = (oracles, replica, statement);
    }

    /// A correct replica wants all others to be told.
    fn tells(oracles: &mut Oracles, replica: usize, epoch: Epoch, message: &MessageOf<Self>) {
        let _ = (oracles, replica, epoch, message);
    }

    /// A correct replica sends, in an epoch, at an instant.
    fn sends(oracles: &mut Oracles, replica: usize, at: (Epoch, Time), message: &MessageOf<Self>) {
        let _ = (oracles, replica, at, message);
    }

    /// A message has arrived.
    fn delivered(oracles: &mut Oracles, from: usize, to: usize, message: &MessageOf<Self>) {
        let _ = (oracles, from, to, message);
    }

    /// A replica says that something happened.
    fn happened(oracles: &mut Oracles, replica: usize, event: &Event, now: Time) {
        let _ = (oracles, replica, event, now);
    }

    /// What a correct replica holds between two turns.
    fn holds(oracles: &mut Oracles, replica: usize, core: &Core<Self>) {
        let _ = (oracles, replica, core);
    }

    /// A correct replica has begun an epoch.
    fn epoch_began(cluster: &Cluster<Self>, slot: usize, epoch: Epoch) {
        let _ = (cluster, slot, epoch);
    }

    /// A turn is over that began when the trace had so many lines.
    fn turned(cluster: &mut Cluster<Self>, slot: usize, line: usize) {
        let _ = (cluster, slot, line);
    }

    /// A message arrives at a replica that may be a liar.
    fn overhear(cluster: &mut Cluster<Self>, to: usize, from: usize, message: &Peer<Self>) {
        let _ = (cluster, to, from, message);
    }

    /// A liar sends.
    fn post_bent(cluster: &mut Cluster<Self>, from: usize, to: usize, message: &Peer<Self>) {
        let _ = (cluster, from, to, message);
    }

    /// What a replica that may be a liar answers a client instead.
    fn answers(cluster: &mut Cluster<Self>, from: usize, response: Response) -> Vec<Response> {
        let _ = (cluster, from);
        vec![response]
    }

    /// From now on the oracles look at what replicas hold as well, where there are such oracles.
    fn watch_strictly(cluster: &mut Cluster<Self>) {
        let _ = cluster;
    }

    /// What a swarm's cluster is made of besides, drawn from its seed.
    fn draw(config: &mut Config) {
        let _ = config;
    }

    /// Those that lie get an adversary each: the one that is wanted, or one that is drawn.
    fn lies(cluster: &mut Cluster<Self>, rng: &mut Rng, wanted: Option<&Schedule>) {
        let _ = (cluster, rng, wanted);
    }

    /// Whether all correct replicas have what it takes to commit, and a reason to.
    fn found_together(cluster: &Cluster<Self>) -> bool {
        cluster.correct().all(|core| !core.mempool().is_empty())
    }

    /// How many views after `healed` the next commit may take.
    fn views(cluster: &Cluster<Self>, healed: View) -> u64;

    /// Whether its members may change from epoch to epoch.
    const CHANGES_MEMBERS: bool = false;

    /// Events for each pair of replicas in each view, block or round, at most. Ordinary runs have
    /// one or two.
    fn events_a_round(config: &Config) -> u64 {
        let _ = config;
        10
    }

    /// The time of a liar has come.
    fn tick(cluster: &mut Cluster<Self>, slot: usize) {
        let _ = (cluster, slot);
    }
}
