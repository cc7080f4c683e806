//! What a cluster is made of.

use quorate_core::base::crypto::{Check, Form, Scheme};
use quorate_core::ledger::mempool::Limits;
use quorate_core::protocols::hotstuff;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::{Kind, Timing, Waits};
use quorate_core::protocols::hotstuff::rules::{Chained, Rules};
use quorate_core::protocols::pbft;
use quorate_core::protocols::snow::snowman;
use quorate_core::replica::{Ancestors, Dissemination};
use quorate_core::{Committee, Duration};

use super::keys::{self, Keys, Mock};
use super::mutant::Mutation;
use super::network::Link;
use super::planted;
use super::service::Hosting;

/// What a cluster is made of. Times in microseconds.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many there are.
    pub replicas: usize,
    /// So many of them are the members at first, and an administrator may change that; `None`: all
    /// are, for ever. Where votes are joined into the committee's signature, they have a threshold
    /// key.
    pub members: Option<usize>,
    /// From this epoch on all members have other keys, where members change.
    pub second_keys_from: Option<u64>,
    /// The variant of HotStuff.
    pub rules: &'static dyn Rules,
    /// Whom replicas tell that they gave up on a view.
    pub pacemaker: Kind,
    /// Who leads.
    pub election: Election,
    /// Votes go to all.
    pub broadcast_votes: bool,
    /// Votes go to all, and a second one is cast.
    pub second_vote: bool,
    /// Proposals leave out what ancestors hold.
    pub filtering: bool,
    /// What is sent ahead of proposals.
    pub ancestors: Ancestors,
    /// How the payload reaches the other replicas.
    pub dissemination: Dissemination,
    /// Within this time messages arrive, as replicas believe.
    pub delta: u64,
    /// How certificates of votes and of time-outs are kept.
    pub forms: (Form, Form),
    /// How PBFT is run, where that is run.
    pub pbft: pbft::Settings,
    /// How Snowman is run, where that is run.
    pub snowman: snowman::Settings,
    /// Each of these replicas runs twice with one key: the second copies are slots `replicas ..`.
    pub twins: Vec<usize>,
    /// Where all that is left to chance comes from.
    pub seed: u64,
    /// How many there are.
    pub clients: usize,
    /// What all links are like at first.
    pub link: Link,
    /// Verdicts come after this long; `None`: at once.
    pub verify_delay: Option<(u64, u64)>,
    /// Most bytes of bodies sent with a proposal.
    pub inline_bytes: usize,
    /// Most commands of a block.
    pub batch_commands: usize,
    /// Blocks from one snapshot to the next.
    pub snapshot_blocks: u64,
    /// A snapshot takes this long to be written.
    pub snapshot_micros: u64,
    /// Logs are cut at snapshots.
    pub retire: bool,
    /// Bytes of records that a segment of a log has room for: the largest block must fit, and what
    /// is cut are whole segments.
    pub log_room_bytes: u64,
    /// A sync takes this long, from ... to.
    pub sync_micros: (u64, u64),
    /// Clients send again what was not answered for this long.
    pub client_patience: u64,
    /// What a client sent and is in no block after this long is passed on.
    pub relay_after: u64,
    /// The first wait for a view.
    pub base_timeout: u64,
    /// The longest wait is so many times the first (or 100 ms, if that is longer).
    pub longest_timeout: u64,
    /// Waits follow what views take.
    pub adaptive: bool,
    /// The bounds of each mempool.
    pub mempool: Limits,
    /// Messages cross the network as their bytes, and are read again.
    pub encodes: bool,
    /// The bug in the driver of this replica, if it has one.
    pub mutation: fn(usize) -> Option<Box<dyn Mutation>>,
    /// The service that is tested, instead of the register alone.
    pub service: Option<Hosting>,
    /// How a replica checks signatures.
    pub verify: fn(usize, &[Check]) -> Vec<bool>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            replicas: 4,
            members: None,
            second_keys_from: None,
            rules: &Chained,
            pacemaker: Kind::TimeoutCertificates,
            election: Election::RoundRobin,
            broadcast_votes: false,
            second_vote: false,
            filtering: true,
            ancestors: Ancestors::None,
            dissemination: Dissemination::Direct,
            delta: 50_000,
            forms: (Form::List, Form::List),
            pbft: pbft::Settings::default(),
            snowman: snowman::Settings::default(),
            twins: Vec::new(),
            seed: 1,
            clients: 1,
            link: Link::steady(1_000),
            verify_delay: None,
            inline_bytes: 4096,
            batch_commands: 100,
            snapshot_blocks: 1_000_000,
            snapshot_micros: 5_000,
            retire: false,
            log_room_bytes: 32 << 10,
            sync_micros: (0, 0),
            client_patience: 500_000,
            relay_after: 50_000,
            base_timeout: 100_000,
            longest_timeout: 20,
            adaptive: false,
            mempool: Limits::default(),
            encodes: true,
            mutation: |_| None,
            service: None,
            verify: |_, checks| Mock.verify(checks),
        }
    }
}

impl Config {
    /// What each replica runs.
    pub fn protocol(&self) -> hotstuff::Settings {
        hotstuff::Settings {
            pacemaker: self.pacemaker,
            election: self.election,
            timing: self.timing(),
            vote_form: self.forms.0,
            time_out_form: self.forms.1,
            broadcast_votes: self.broadcast_votes || self.second_vote,
            second_vote: self.second_vote,
            delta: Duration::from_micros(self.delta),
            ..hotstuff::Settings::new(planted::rules(self.rules))
        }
    }

    fn timing(&self) -> Timing {
        let longest = self.base_timeout.max(100_000) * self.longest_timeout;
        let waits = Waits {
            base: Duration::from_micros(self.base_timeout),
            floor: Duration::from_micros(self.base_timeout / 10),
            max: Duration::from_micros(longest),
            ..Waits::default()
        };
        let Waits { base, multiplier_percent, max, .. } = waits;
        if self.adaptive {
            Timing::Adaptive(waits)
        } else {
            Timing::Exponential { base, multiplier_percent, max }
        }
    }

    /// What replicas' signatures are bound to.
    pub fn domain(&self) -> Domain {
        self.protocol().domain(self.committee())
    }

    /// What a replica signs with.
    pub fn keys(&self, id: usize) -> Keys {
        let have_shares = self.members.is_some() && self.forms.0 == Form::Threshold;
        Keys { id, second_from: self.second_keys_from, have_shares }
    }

    /// The first committee.
    pub fn committee(&self) -> Committee {
        match self.members {
            None => keys::committee(self.replicas),
            Some(members) if self.forms.0 == Form::Threshold => keys::governed_by_shares(members),
            Some(members) => keys::governed(members),
        }
    }
}
