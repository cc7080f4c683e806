//! What must hold after every step, judged from what replicas sign, send, commit and answer, by
//! code that shares no predicate with production.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::base::crypto::{PublicKey, Signature, Statement};
use quorate_core::client::message::{Outcome, Rejection};
use quorate_core::ledger::block::{self, BlockId, Content};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::pbft::words::NewView;
use quorate_core::protocols::protocol::Handover;
use quorate_core::protocols::{hotstuff, pbft, two_delay};
use quorate_core::{Committee, Digest, Epoch, Height, Time};

use super::config::Config;
use super::family::{Decided, Epochs, Said, SaidOfTwoDelays};
use super::strict::{Strict, quorum_of};

/// A view and its epoch in one number, which grows from epoch to epoch.
fn in_epoch(epoch: u64, view: u64) -> u64 {
    epoch << 40 | view
}

/// The history of all correct replicas, across their crashes.
#[derive(Debug, Default)]
pub struct Oracles {
    /// By correct replica: view and phase → what its vote was for.
    votes: BTreeMap<usize, BTreeMap<(u64, u8), [u8; 32]>>,
    /// What a wrong vote leads to is to be seen, rather than the vote.
    pub ignores_votes: bool,
    /// By correct replica: the highest view given up.
    given_up: BTreeMap<usize, u64>,
    /// By view: how many correct replicas gave it up.
    givers: BTreeMap<u64, usize>,
    proposals: BTreeMap<(usize, u64), BlockId>,
    /// The one chain.
    chain: BTreeMap<u64, BlockId>,
    /// The heights of the geneses of epochs.
    openings: BTreeSet<u64>,
    /// The members of epochs: their digest.
    committees: BTreeMap<Epoch, Digest>,
    /// The views of its blocks.
    views: BTreeSet<u64>,
    /// By replica: the highest block it committed.
    committed: BTreeMap<usize, u64>,
    roots: BTreeMap<u64, Digest>,
    /// The one list of commands.
    pub commands: Vec<Arc<[u8]>>,
    /// By client: the highest command number executed.
    executed: BTreeMap<String, u64>,
    outcomes: BTreeMap<(PublicKey, u64, u64), Outcome>,
    /// Commands that clients believe to be executed, and that no correct replica has executed: by
    /// their places. A client that takes tentative answers may be the first to know.
    pub awaited: BTreeMap<usize, Vec<String>>,
    /// How many commands there are, as far as clients know.
    pub answered: u64,
    /// By client: how many commands it asked for.
    pub asked: BTreeMap<String, u64>,
    /// Of PBFT: what correct replicas have said, by epoch.
    said: BTreeMap<Epoch, Said>,
    /// Of the protocol of two delays: the same.
    said_of_two_delays: BTreeMap<Epoch, SaidOfTwoDelays>,
    /// How many replicas there are.
    replicas: usize,
    /// Of Snowman: what correct replicas have said of epochs.
    pub epochs: Epochs,
    /// What else is looked at.
    pub strict: Option<Strict>,
}

impl Oracles {
    /// Of so many replicas that have said nothing yet.
    pub fn of(replicas: usize) -> Self {
        Self { epochs: Epochs::of(replicas), replicas, ..Self::default() }
    }

    /// A correct replica signs. Kinds and offsets as `crypto::Statement` documents its bytes.
    pub fn signs(&mut self, replica: usize, statement: &Statement) {
        let bytes = statement.as_bytes();
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let view = in_epoch(number(48), number(58));
        let content: [u8; 32] = bytes[67..].try_into().expect("32 bytes");
        match bytes[57] {
            1 => self.votes_for(replica, (view, bytes[66]), content),
            2 => {
                if let Some(strict) = &mut self.strict {
                    strict.gives_up(replica, view, content);
                }
                let highest = self.given_up.entry(replica).or_default();
                if view > *highest {
                    *highest = view;
                    *self.givers.entry(view).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// A correct replica tells all of its vote: looked at here if it bears no signature, as second
    /// votes do.
    pub fn votes(&mut self, replica: usize, epoch: Epoch, vote: &Vote) {
        if vote.signature == Signature::NONE {
            let view = in_epoch(epoch.0, vote.view.0);
            self.votes_for(replica, (view, vote.phase), vote.block.0);
        }
    }

    fn votes_for(&mut self, replica: usize, rank: (u64, u8), content: [u8; 32]) {
        if let Some(strict) = &mut self.strict {
            strict.votes(replica, rank, content);
        }
        if self.ignores_votes {
            return;
        }
        let view = rank.0;
        let given_up = self.given_up.get(&replica).copied().unwrap_or(0);
        let votes = self.votes.entry(replica).or_default();
        if let Some(before) = votes.get(&rank) {
            assert_eq!(
                *before, content,
                "votes: r{replica} voted twice in view and phase {rank:?}"
            );
            return;
        }
        let last = votes.last_key_value().map_or((0, 0), |(rank, _)| *rank);
        assert!(rank > last, "votes: r{replica} voted in {rank:?} after its vote in {last:?}");
        assert!(
            view > given_up,
            "votes: r{replica} voted in view {view} after giving up {given_up}"
        );
        votes.insert(rank, content);
    }

    /// A correct replica sends a message.
    pub fn sends(&mut self, replica: usize, now: Time, message: &Message) {
        if let Some(strict) = &mut self.strict {
            strict.sends(replica, message);
            if let Message::Proposal { block, tc: Some(_) } = message
                && !self.proposals.contains_key(&(replica, in_epoch(block.epoch.0, block.view.0)))
            {
                strict.leads_after_time_outs(replica, block.view, now);
            }
        }
        if let Message::Proposal { block, .. } = message {
            self.proposes(replica, block);
        }
    }

    fn proposes(&mut self, replica: usize, block: &SharedBlock) {
        let view = in_epoch(block.epoch.0, block.view.0);
        let before = *self.proposals.entry((replica, view)).or_insert(block.id());
        assert_eq!(
            before,
            block.id(),
            "proposals: r{replica} made two proposals in view {}",
            block.view
        );
    }

    /// A correct replica of the protocol of two delays sends.
    pub fn sends_of_two_delays(
        &mut self,
        replica: usize,
        epoch: Epoch,
        message: &two_delay::Message,
    ) {
        let said = self.said_of_two_delays.entry(epoch).or_default();
        said.sends(replica, self.replicas, message);
    }

    /// A correct replica of PBFT sends a message.
    pub fn sends_of_pbft(&mut self, replica: usize, epoch: Epoch, message: &pbft::Message) {
        let Self { said, chain, openings, .. } = self;
        // What was decided above the end of the epoch is void.
        let end = openings.iter().nth(epoch.0 as usize).copied().unwrap_or(u64::MAX);
        let decided = |height: u64| match height < end {
            true => Decided::Block(chain.get(&height).copied()),
            false => Decided::Void,
        };
        said.entry(epoch).or_default().sends(replica, message, decided);
    }

    /// A correct replica of PBFT is shown a new view by a liar, of the cluster's first epoch.
    pub fn new_view_of_pbft(
        &mut self,
        config: &Config,
        epoch: Epoch,
        new_view: &NewView,
        is_faulty: impl Fn(usize) -> bool,
    ) {
        let committee = config.committee();
        if committee.epoch() == epoch {
            let genesis = pbft::origin(&committee, config.pbft.window).genesis.id();
            let said = self.said.entry(epoch).or_default();
            said.shows((&committee, genesis), new_view, is_faulty);
        }
    }

    /// A correct replica lost its data.
    pub fn forgot(&mut self, replica: usize) {
        self.said.values_mut().for_each(|said| said.forgot(replica));
    }

    /// A correct replica, whose state is that of the height `executed`, commits. (Restarted, it
    /// commits again what it committed before.)
    pub fn commits<C: Content>(
        &mut self,
        replica: usize,
        executed: Height,
        block: &block::SharedBlock<C>,
    ) {
        let height = block.height().0;
        let last = self.committed.entry(replica).or_default();
        let next = executed.0.max(*last) + 1;
        assert!(
            height <= next,
            "agreement: r{replica} committed {height} with a gap: {next} is the next"
        );
        *last = height.max(*last);
        self.views.insert(block.view().0);
        let before = *self.chain.entry(height).or_insert(block.id());
        assert_eq!(before, block.id(), "agreement: r{replica} committed another block at {height}");
        if height > 1 {
            // Nobody says that it committed the genesis of an epoch.
            let opens = self.openings.contains(&(height - 1));
            let below = match self.chain.entry(height - 1) {
                Entry::Occupied(below) => below.into_mut(),
                Entry::Vacant(place) if opens => place.insert(block.parent()),
                Entry::Vacant(_) => panic!("agreement: r{replica} committed {height} on nothing"),
            };
            assert_eq!(
                *below,
                block.parent(),
                "agreement: r{replica} committed a chain with a gap at {height}"
            );
        }
    }

    /// A replica begins an epoch, whose genesis has this height.
    pub fn opens(&mut self, height: Height) {
        self.openings.insert(height.0);
    }

    /// A correct replica begins the epoch of this committee.
    ///
    /// # Panics
    /// If another one began it with another committee.
    pub fn begins_epoch(&mut self, replica: usize, committee: &Committee) {
        let epoch = committee.epoch();
        let before = *self.committees.entry(epoch).or_insert(committee.digest());
        assert_eq!(
            before,
            committee.digest(),
            "agreement: r{replica} begins epoch {epoch} with other members"
        );
    }

    /// A correct replica of HotStuff knows by this that the committee `old` has ended its epoch.
    /// The weight behind it is that of the members that voted, counted without the membership.
    ///
    /// # Panics
    /// If the certificate attests another state, or fewer than a quorum voted.
    pub fn handed_over(
        &self,
        replica: usize,
        old: &Committee,
        handover: &Handover<hotstuff::Types>,
        is_faulty: impl Fn(usize) -> bool,
    ) {
        let (ended, shown) = (handover.ended(), &handover.shown);
        assert_eq!(
            shown.block.state_root,
            handover.state.root(),
            "certificates: r{replica} leaves epoch {ended} by one of another state"
        );
        let ballot = shown.evidence.ballot();
        let rank = (in_epoch(ended.0, ballot.view.0), ballot.phase);
        let voted = |id: &usize| {
            let votes = self.votes.get(id).and_then(|votes| votes.get(&rank));
            is_faulty(*id) || votes == Some(&ballot.block.0)
        };
        let weights = old
            .members()
            .iter()
            .map(|member| member.as_ref().map_or(0, |member| usize::from(member.weight)));
        let weights: Vec<usize> = weights.collect();
        let all: usize = weights.iter().sum();
        let found: usize = (0..weights.len()).filter(voted).map(|id| weights[id]).sum();
        assert!(
            self.ignores_votes || found >= quorum_of(all),
            "certificates: r{replica} leaves epoch {ended} by the votes of a weight of {found} of {all}"
        );
    }

    /// A correct replica has computed a state.
    ///
    /// # Panics
    /// If another one computed another state of that height.
    pub fn has_state(&mut self, replica: usize, height: Height, root: Digest) {
        let before = *self.roots.entry(height.0).or_insert(root);
        assert_eq!(before, root, "state: r{replica} is in another state at {height:?}");
    }

    /// A correct replica has executed `command` as the one at `index`. Commands read
    /// `client:number`, numbered from 1.
    pub fn executed(&mut self, replica: usize, index: usize, command: &Arc<[u8]>) {
        if let Some(known) = self.commands.get(index) {
            assert_eq!(known, command, "agreement: r{replica} executed another command at {index}");
            return;
        }
        assert_eq!(index, self.commands.len(), "agreement: r{replica} left out commands");
        let head = command.split(|byte| *byte == b' ').next().unwrap_or_default();
        let text = std::str::from_utf8(head)
            .unwrap_or_else(|_| panic!("validity: r{replica} executed what no client asked for"));
        let (client, number) = text.split_once(':').expect("client:number");
        let number: u64 = number.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        let asked = self.asked.get(client).copied().unwrap_or(0);
        assert!(number <= asked, "validity: r{replica} executed what {client} did not ask for");
        let last = self.executed.entry(client.to_owned()).or_default();
        assert_eq!(
            number,
            *last + 1,
            "exactly once: r{replica}: client {client} executed out of order or twice"
        );
        *last = number;
        self.commands.push(Arc::clone(command));
        for awaited in self.awaited.remove(&index).unwrap_or_default() {
            self.is_at(&awaited, index);
        }
    }

    /// Client `client` believes that its command `number` was executed as the one at `place`.
    /// `may_wait`: clients take tentative answers.
    pub fn acknowledged(&mut self, client: usize, number: u64, place: u64, may_wait: bool) {
        let (head, place) = (format!("c{client}:{number} "), place as usize);
        if may_wait && place >= self.commands.len() {
            self.awaited.entry(place).or_default().push(head);
        } else {
            self.is_at(&head, place);
        }
    }

    /// The command with this head was executed as the one at `place`.
    fn is_at(&self, head: &str, place: usize) {
        let command = self.commands.get(place);
        let command: &[u8] = command.map_or(&[], |command| command);
        assert!(
            command.starts_with(head.as_bytes()),
            "acknowledged: {head}at {place}, where {:?} was executed",
            String::from_utf8_lossy(command)
        );
    }

    /// A correct replica answers. Two answers about a frame are not final: its session's window had
    /// no room for it where it was ordered, so that it may be executed where it is ordered again;
    /// and the replies to it were forgotten since.
    pub fn answers(&mut self, replica: usize, client: PublicKey, outcome: &Outcome) {
        if let Outcome::Rejected { reason, .. } = outcome
            && matches!(reason, Rejection::BeyondWindow | Rejection::AnswerForgotten)
        {
            if let (Some(strict), Rejection::BeyondWindow) = (&mut self.strict, reason) {
                strict.found_no_room();
            }
            return;
        }
        let (session, first) = match outcome {
            Outcome::Opened { incarnation, .. } => (0, *incarnation),
            Outcome::Executed { session, first, .. } | Outcome::Rejected { session, first, .. } => {
                (session.0, first.0)
            }
        };
        let about = (client, session, first);
        let before = self.outcomes.entry(about).or_insert_with(|| outcome.clone());
        assert_eq!(before, outcome, "exactly once: r{replica} gives another answer");
    }

    /// The view of the highest block that was committed.
    pub fn committed_view(&self) -> u64 {
        self.views.last().copied().unwrap_or(0)
    }

    /// The views behind `after`, up to that of the highest block committed, that were lost: no
    /// block of theirs was committed, or `witness` correct replicas gave them up.
    pub fn lost_views(&self, after: u64, witness: usize) -> Vec<u64> {
        let given_up = |view: &u64| self.givers.get(view).is_some_and(|givers| *givers >= witness);
        let lost = |view: &u64| !self.views.contains(view) || given_up(view);
        (after + 1..=self.committed_view()).filter(lost).collect()
    }

    /// The highest view that any correct replica gave up on.
    pub fn highest_given_up(&self) -> u64 {
        self.given_up.values().copied().max().unwrap_or(0)
    }

    /// The greatest height committed by anybody correct.
    pub fn height(&self) -> u64 {
        self.chain.last_key_value().map_or(0, |(height, _)| *height)
    }

    /// How many commands of `client` were executed.
    pub fn executed_of(&self, client: usize) -> u64 {
        self.executed.get(&format!("c{client}")).copied().unwrap_or(0)
    }
}
