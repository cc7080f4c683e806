//! Oracles that must know how the cluster is made: who lies, which rules run, what was asked for.
//!
//! Certificates are not verified here, but held against what correct replicas have signed: those
//! that a certificate says and those who lie must make a quorum, whatever its bytes look like.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ledger::execution::SnapshotError;
use quorate_core::ledger::frame::FrameId;
use quorate_core::ledger::mempool::Limits;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;
use quorate_core::{Height, Time, View};

use super::config::Config;
use super::{Core, status_of};

/// Votes that one peer may have waiting: three views' worth, of two phases each.
const VOTES_OF_A_PEER: usize = 6;
/// Verifications of one peer's messages.
const VERIFICATIONS_OF_A_PEER: usize = 64;
/// Signatures remembered of each replica, and at most.
const SIGNATURES: (usize, usize) = (64, 4096);

/// Counted here, and not by the membership that it judges.
pub(super) fn quorum_of(n: usize) -> usize {
    n - (n - 1) / 3
}

/// What was signed by whom, and what follows for certificates; how much a replica may hold.
#[derive(Debug)]
pub struct Strict {
    replicas: usize,
    liars: BTreeSet<usize>,
    phases: u8,
    in_turn: bool,
    filtering: bool,
    mempool: Limits,
    /// How long a leader waits for locks, in nanoseconds, if the rules say so.
    delta: Option<u64>,
    /// Who signed a vote: by view, phase and block.
    votes: BTreeMap<(u64, u8, [u8; 32]), BTreeSet<usize>>,
    /// Who signed that it gave up on a view, and with which contents.
    gave_up: BTreeMap<u64, BTreeMap<usize, BTreeSet<[u8; 32]>>>,
    /// The lowest QC with which a replica told that it gave up on a view.
    knew: BTreeMap<(u64, usize), u64>,
    /// Certificates that are in order.
    sound: BTreeSet<(u64, u8, [u8; 32])>,
    sound_time_outs: BTreeSet<(u64, u64)>,
    /// By replica: its view, and since when.
    in_view: BTreeMap<usize, (u64, Time)>,
    /// These have stopped once: they may repeat what they proposed.
    restarted: BTreeSet<usize>,
    /// From whom a replica has heard that it is in a view.
    heard: BTreeMap<(usize, u64), BTreeSet<usize>>,
    /// The frames of the chain, and the height up to which they were looked at.
    frames: BTreeSet<FrameId>,
    looked: Height,
}

impl Strict {
    /// Of a cluster like this.
    pub fn new(config: &Config) -> Self {
        let facts = config.rules.facts();
        Self {
            replicas: config.replicas,
            liars: config.twins.iter().copied().collect(),
            phases: facts.phases,
            in_turn: config.election == Election::RoundRobin,
            filtering: config.filtering,
            mempool: config.mempool,
            delta: facts.waits_for_locks.then_some(config.delta * 1_000),
            votes: BTreeMap::new(),
            gave_up: BTreeMap::new(),
            knew: BTreeMap::new(),
            sound: BTreeSet::new(),
            sound_time_outs: BTreeSet::new(),
            in_view: BTreeMap::new(),
            restarted: BTreeSet::new(),
            heard: BTreeMap::new(),
            frames: BTreeSet::new(),
            looked: Height(0),
        }
    }

    /// The oracles do not believe this replica.
    pub fn is_a_liar(&mut self, replica: usize) {
        self.liars.insert(replica);
    }

    fn quorum(&self) -> usize {
        quorum_of(self.replicas)
    }

    /// A correct replica votes.
    pub fn votes(&mut self, replica: usize, (view, phase): (u64, u8), block: [u8; 32]) {
        let known = self.in_view.get(&replica).map_or(0, |(view, _)| *view);
        let fresh = self.votes.entry((view, phase, block)).or_default().insert(replica);
        // A second vote is about a certificate, and may come later.
        assert!(
            !fresh || phase > self.phases || view >= known,
            "votes: r{replica} voted in view {view}, which it has left for {known}"
        );
    }

    /// A correct replica signs that it gave up on a view.
    pub fn gives_up(&mut self, replica: usize, view: u64, content: [u8; 32]) {
        self.gave_up.entry(view).or_default().entry(replica).or_default().insert(content);
    }

    /// A correct replica has entered a view.
    pub fn entered(&mut self, replica: usize, view: View, now: Time) {
        self.in_view.insert(replica, (view.0, now));
    }

    /// A replica stops: it will enter a view anew.
    pub fn stopped(&mut self, replica: usize) {
        self.in_view.remove(&replica);
        self.restarted.insert(replica);
    }

    /// A message reaches a replica.
    pub fn delivered(&mut self, from: usize, to: usize, message: &Message) {
        if self.delta.is_some()
            && let Message::NewView { view, .. } = message
        {
            self.heard.entry((to, view.0)).or_default().insert(from);
        }
    }

    /// A correct replica sends a message: what it passes on is in order.
    pub fn sends(&mut self, replica: usize, message: &Message) {
        match message {
            Message::Proposal { block, tc } => {
                self.certificate(replica, &block.justify);
                self.time_outs(replica, tc.as_ref());
            }
            Message::Vote(_) => {}
            Message::Certificate(qc) | Message::NewView { high_qc: qc, .. } => {
                self.certificate(replica, qc);
            }
            Message::TimeOut { time_out, high_qc, high_tc, .. } => {
                let knew = self.knew.entry((time_out.view.0, replica));
                let knew = knew.or_insert(high_qc.view().0);
                *knew = high_qc.view().0.min(*knew);
                self.certificate(replica, high_qc);
                self.time_outs(replica, high_tc.as_ref());
            }
            Message::Advance { high_qc, high_tc, decided, .. } => {
                self.certificate(replica, high_qc);
                self.time_outs(replica, high_tc.as_ref());
                if let Some(qc) = decided {
                    self.certificate(replica, qc);
                }
            }
        }
    }

    /// A correct replica proposes for the first time in `view`, which it entered by time-outs.
    pub fn leads_after_time_outs(&self, replica: usize, view: View, now: Time) {
        let Some(delta) = self.delta else { return };
        let heard = self.heard.get(&(replica, view.0)).map_or(0, BTreeSet::len);
        let since = self.in_view.get(&replica).filter(|(entered, _)| *entered == view.0);
        let waited = since.map_or(0, |(_, since)| now.0.saturating_sub(since.0));
        // Its clock may run too fast.
        assert!(
            self.restarted.contains(&replica)
                || heard + 1 >= self.replicas
                || waited * 100 >= delta * 90,
            "patience: r{replica} leads view {view} after {waited} ns, having heard {heard} others"
        );
    }

    /// What a correct replica has after a turn.
    pub fn holds(&mut self, replica: usize, core: &Core) {
        let Safety { high_qc, lock, high_tc, voted, timed_out, .. } = core.protocol().safety();
        self.certificate(replica, high_qc);
        self.certificate(replica, lock);
        self.time_outs(replica, high_tc.as_ref());
        let ends = high_qc.view().0 + u64::from(high_qc.phase() >= self.phases);
        let ends = high_tc.as_ref().map_or(ends, |tc| ends.max(tc.view().0 + 1));
        // What it testifies to one that lost its data covers all that it signed.
        let spoke_in = voted.map_or(*timed_out, |ballot| ballot.view.max(*timed_out)).0;
        let shown = high_tc.as_ref().map_or(0, |tc| tc.view().0).max(high_qc.view().0) + 1;
        assert!(spoke_in <= shown, "views: r{replica} spoke in {spoke_in}, and can show {shown}");
        let view = status_of(core).view.0;
        assert!(view >= ends, "views: r{replica} is in view {view}, and could be in {ends}");
        let held = [
            ("votes", core.protocol().held_votes(), VOTES_OF_A_PEER * self.replicas),
            ("messages", core.held_verifications(), VERIFICATIONS_OF_A_PEER * self.replicas),
            (
                "signatures",
                core.held_signatures(),
                (SIGNATURES.0 * self.replicas).min(SIGNATURES.1),
            ),
            (
                "frames",
                core.mempool().len(),
                self.mempool.submitted.frames + self.mempool.learnt.frames,
            ),
        ];
        for (what, count, most) in held {
            assert!(count <= most, "memory: r{replica} holds {count} {what}, {most} at most");
        }
        if self.in_turn || self.filtering {
            self.chain(core);
        }
    }

    /// A frame was committed, and its session's window had no room for it. So it may be proposed
    /// again, from now on any frame may.
    pub fn found_no_room(&mut self) {
        self.filtering = false;
    }

    /// What was committed since this was last looked at.
    fn chain(&mut self, core: &Core) {
        let tree = core.protocol().tree();
        let root = tree.root();
        if root.height <= self.looked {
            return;
        }
        let looked = std::mem::replace(&mut self.looked, root.height);
        let committed: Vec<_> = tree.blocks_above(looked, &root.id()).collect();
        for block in committed.into_iter().rev() {
            let turn = (block.view.0 % self.replicas as u64) as usize;
            let proposer = block.proposer.index();
            assert!(
                !self.in_turn || proposer == turn,
                "leader: a block of r{proposer} is committed in view {}, which r{turn} leads",
                block.view
            );
            for frame in &block.frames {
                assert!(
                    self.frames.insert(*frame) || !self.filtering || self.liars.contains(&proposer),
                    "filtering: r{proposer} proposed again what is in the chain below"
                );
            }
        }
    }

    /// A certificate that a correct replica holds.
    fn certificate(&mut self, replica: usize, qc: &Qc) {
        let (view, phase, block) = (qc.view().0, qc.phase(), qc.block().0);
        if (view, phase) == (0, 0) || self.sound.contains(&(view, phase, block)) {
            return;
        }
        let voters = self.votes.get(&(view, phase, block)).map_or(0, BTreeSet::len);
        assert!(
            voters + self.liars.len() >= self.quorum(),
            "certificates: r{replica} has one of view {view}, phase {phase}; {voters} correct voted"
        );
        self.sound.insert((view, phase, block));
    }

    /// A time-out certificate that a correct replica holds.
    fn time_outs(&mut self, replica: usize, tc: Option<&Tc>) {
        let Some(tc) = tc else { return };
        let (view, highest) = (tc.view().0, tc.high_qc().view().0);
        if self.sound_time_outs.contains(&(view, highest)) {
            return;
        }
        let signed = self.gave_up.get(&view);
        let gave_up = signed.map_or(0, BTreeMap::len);
        assert!(
            gave_up + self.liars.len() >= self.quorum(),
            "certificates: r{replica} has a TC of view {view}; {gave_up} correct gave up"
        );
        for signer in tc.signers() {
            // Who signed once for a view said there what it told.
            let once =
                signed.and_then(|signed| signed.get(&signer.index())).is_some_and(|s| s.len() == 1);
            let knew =
                self.knew.get(&(view, signer.index())).filter(|_| once).copied().unwrap_or(0);
            assert!(
                self.liars.contains(&signer.index()) || knew <= highest,
                "certificates: r{replica} has a TC of view {view} with a QC of {highest}; r{} knew {knew}",
                signer.index()
            );
        }
        self.certificate(replica, tc.high_qc());
        self.sound_time_outs.insert((view, highest));
    }

    /// A correct replica does not take over the state that another sends.
    pub fn not_taken(&self, replica: usize, from: usize, reason: &SnapshotError) {
        assert!(
            self.liars.contains(&from),
            "refusal: r{replica} does not take the state of r{from}, which is correct: {reason}"
        );
    }

    /// A correct replica refuses a message.
    pub fn refuses(&self, replica: usize, from: usize, reason: Refused) {
        let harmless = match reason {
            // A restarted leader repeats its proposal, and may have a certificate by now that made
            // it forget how it entered the view.
            Refused::Malformed(reason) => {
                matches!(reason, Malformed::Stale | Malformed::Contradiction)
            }
            Refused::BadSignature => false,
            Refused::Unasked | Refused::Unfit | Refused::Flood => true,
        };
        assert!(
            harmless || self.liars.contains(&from),
            "refusal: r{replica} refuses what r{from}, which is correct, sent: {reason:?}"
        );
    }
}
