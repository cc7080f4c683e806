//! What happened, in words: for transcripts, and for looking at a seed that fails.

use std::collections::BTreeMap;

use quorate_core::ledger::block::{Block, BlockId, Content};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::protocol::{Ballot, Event};
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Time, View};

use super::Peer;
use super::family::Family;
use super::lines::{Kind, Line, apart, together};
use super::steps::Steps;

/// What happened, line by line, while it is on.
#[derive(Debug, Default)]
pub struct Trace {
    /// Nothing is written down unless this is set.
    pub on: bool,
    /// Whether it is ever set: blocks get names all the time then.
    names_blocks: bool,
    lines: Vec<Line>,
    /// Blocks are called after their heights, not after their views: many are of one view.
    pub by_height: bool,
    /// Phases a view.
    pub phases: u8,
    /// Time-out certificates carry the QCs of all who signed them.
    pub carries_all_qcs: bool,
    /// Certificates in proposals tell their signers.
    pub tells_signers: bool,
    /// Locks are shown: where they are not simply the newest certificate.
    pub shows_locks: bool,
    /// By slot: the view of its lock.
    locks: BTreeMap<usize, View>,
    names: BTreeMap<BlockId, String>,
    /// How many blocks of a view, or of a height, have a name.
    by_number: BTreeMap<u64, usize>,
    /// Where the steps of correct replicas are written down.
    pub steps: Option<Steps>,
}

impl Trace {
    /// A trace that is on.
    pub fn on() -> Self {
        Self { on: true, names_blocks: true, ..Self::default() }
    }

    /// Only the steps of the protocol are written down.
    #[must_use]
    pub fn of_steps(steps: &Steps) -> Self {
        Self { steps: Some(steps.clone()), ..Self::default() }
    }

    /// Whether anything is ever written down.
    pub fn is_used(&self) -> bool {
        self.names_blocks
    }

    /// What happened since this was last asked, a line each.
    pub fn take(&mut self) -> Vec<String> {
        apart(&std::mem::take(&mut self.lines))
    }

    /// What happened since this was last asked, for who draws it.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The same for those who read it: what several did alike at one instant is one line.
    pub fn take_together(&mut self) -> Vec<String> {
        together(std::mem::take(&mut self.lines))
    }

    /// Something that a replica did; the words are made up only if they are wanted.
    pub fn note(&mut self, now: Time, slot: usize, words: impl FnOnce() -> String) {
        if self.on {
            self.lines.push(Line::event(now, slot, words()));
        }
    }

    /// How many lines there are.
    pub fn length(&self) -> usize {
        self.lines.len()
    }

    /// Where a replica's lock is after the turn that began with so many lines. It locks upon the
    /// certificate that it has got, before it does anything else.
    pub fn locked(&mut self, now: Time, slot: usize, lock: &Qc, turn: usize) {
        let known = self.locks.entry(slot).or_default();
        if std::mem::replace(known, lock.view()) >= lock.view() || !self.shows_locks || !self.on {
            return;
        }
        let words = format!("locks on {}", self.qc(lock));
        let has = self.lines.iter().skip(turn).rposition(|line| line.words.starts_with("has "));
        let at = turn + has.map_or(0, |has| has + 1);
        self.lines.insert(at, Line::event(now, slot, words));
    }

    /// A replica refused a message.
    pub fn refused(&mut self, now: Time, slot: usize, from: usize, reason: Refused) {
        if self.on {
            let kind = Kind::Refusal(from, reason);
            self.lines.push(Line { at: now, sent: None, who: slot, kind, words: String::new() });
        }
    }

    /// Blocks are called after their view, or their height; a second one of it gets a prime.
    fn learn<C: Content>(&mut self, block: &Block<C>) {
        let number = if self.by_height { block.height().0 } else { block.view().0 };
        self.learn_as(block.id(), number);
    }

    pub(crate) fn learn_as(&mut self, id: BlockId, number: u64) {
        if self.names.contains_key(&id) {
            return;
        }
        let count = self.by_number.entry(number).or_default();
        let which = if *count < 4 { "'".repeat(*count) } else { format!("'{count}") };
        let name = format!("b{number}{which}");
        *count += 1;
        self.names.insert(id, name);
    }

    /// What a block is called.
    pub fn name(&self, id: &BlockId) -> String {
        self.names.get(id).cloned().unwrap_or_else(|| "b0".into())
    }

    /// What a certificate of this ballot is called: as the papers do, where there are several
    /// kinds.
    fn certificate(&self, ballot: &Ballot) -> String {
        let kind = match (self.phases, ballot.phase) {
            (1, _) | (_, 0) => "",
            (_, 1) => "prepare-",
            (_, 2) => "pre-commit-",
            (_, _) => "commit-",
        };
        format!("{kind}QC({})", self.name(&ballot.block))
    }

    fn vote(&self, ballot: &Ballot) -> String {
        let kind = match (self.phases, ballot.phase) {
            (1, 1) => "",
            (1, _) => "a second time for ",
            (_, 1) => "prepare ",
            (2, _) => "commit ",
            (_, 2) => "pre-commit ",
            (_, _) => "commit ",
        };
        format!("{kind}{}", self.name(&ballot.block))
    }

    pub(crate) fn qc(&self, qc: &Qc) -> String {
        self.certificate(&qc.ballot())
    }

    fn tc(&self, tc: Option<&Tc>) -> String {
        tc.map_or_else(String::new, |tc| format!(", {}", self.time_outs(tc.view())))
    }

    /// What a certificate of time-outs is called.
    fn time_outs(&self, view: View) -> String {
        format!("{}({view})", if self.carries_all_qcs { "AggQC" } else { "TC" })
    }

    fn signers(&self, qc: &Qc) -> String {
        if !self.tells_signers || qc.view() == View(0) {
            return String::new();
        }
        let names: Vec<String> =
            qc.signers().map(|signer| format!("r{}", signer.index())).collect();
        format!(" of {}", names.join(" "))
    }

    /// A message arrives.
    pub fn delivered<F: Family>(
        &mut self,
        now: Time,
        sent: Time,
        (from, to): (usize, usize),
        message: &Peer<F>,
    ) {
        if !self.on {
            if self.names_blocks && self.by_height {
                // For the names of blocks that are spoken of later.
                drop(self.words::<F>(message));
            }
            return;
        }
        let words = self.words::<F>(message);
        let kind = Kind::Delivery(from);
        self.lines.push(Line { at: now, sent: Some(sent), who: to, kind, words });
    }

    fn words<F: Family>(&mut self, message: &Peer<F>) -> String {
        match message {
            PeerMessage::Protocol { message, frames, .. } => {
                let bodies = if frames.is_empty() {
                    String::new()
                } else {
                    format!(" + {} bodies", frames.len())
                };
                format!("{}{bodies}", F::words(self, message))
            }
            PeerMessage::Relay(frames) => format!("passes on {} frames", frames.len()),
            PeerMessage::Held(ids) => format!("holds {} frames", ids.len()),
            PeerMessage::Show(height) => format!("asks for a block with the root of {height:?}"),
            PeerMessage::NeedFrames(ids) => format!("asks for {} frames", ids.len()),
            PeerMessage::Frames(frames) => format!("sends {} frames", frames.len()),
            PeerMessage::FetchChain { tip, above, .. } => {
                format!("asks for blocks above height {above}, up to {}", self.name(tip))
            }
            PeerMessage::Chain(blocks) => {
                for full in blocks {
                    self.learn(&full.block);
                }
                let names: Vec<_> = blocks.iter().map(|f| self.name(&f.block.id())).collect();
                format!("sends blocks {}", names.join(" "))
            }
            PeerMessage::Ancestors { blocks, .. } => {
                let names: Vec<_> = blocks.iter().map(|f| self.name(&f.block.id())).collect();
                format!("sends ancestors {}", names.join(" "))
            }
            PeerMessage::Behind(offer) => {
                format!("offers a snapshot of height {}", offer.block.height())
            }
            PeerMessage::FetchChunk { height, chunk } => {
                format!("asks for chunk {chunk} of the snapshot of height {height}")
            }
            PeerMessage::Chunk { height, chunk, last, .. } => {
                let last = if *last { ", the last" } else { "" };
                format!("sends chunk {chunk} of the snapshot of height {height}{last}")
            }
            PeerMessage::AskHandover(epoch) => format!("asks how epoch {epoch} ended"),
            PeerMessage::Handover(end) => format!("tells how epoch {} ended", end.ended()),
            PeerMessage::AskTestimony { .. } => "asks for a testimony".into(),
            PeerMessage::Testimony { testimony, .. } => F::testimony(self, testimony),
        }
    }

    pub(crate) fn protocol_words(&mut self, message: &Message) -> String {
        match message {
            Message::Proposal { block, tc } => {
                self.learn(block);
                let (name, qc) = (self.name(&block.id()), self.qc(&block.justify));
                let qc = qc + &self.signers(&block.justify);
                let (frames, tc) = (block.frames.len(), self.tc(tc.as_ref()));
                format!("proposal {name} ({qc}{tc}, {frames} frames)")
            }
            Message::Vote(vote) => format!("vote {}", self.vote(&vote.ballot)),
            Message::Certificate(qc) => self.qc(qc),
            Message::NewView { view, high_qc } => {
                format!("new-view {view} ({})", self.qc(high_qc))
            }
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                let vote = last_vote
                    .as_ref()
                    .map_or_else(String::new, |v| format!(", vote {}", self.vote(&v.ballot)));
                let (qc, tc) = (self.qc(high_qc), self.tc(high_tc.as_ref()));
                format!("time-out of view {} ({qc}{tc}{vote})", time_out.view)
            }
            Message::Advance { high_qc, high_tc, decided, .. } => {
                let decided =
                    decided.as_ref().map_or_else(String::new, |qc| format!(", {}", self.qc(qc)));
                format!("knows {}{}{decided}", self.qc(high_qc), self.tc(high_tc.as_ref()))
            }
        }
    }

    /// The protocol of a replica tells what happened.
    pub fn event(&mut self, now: Time, slot: usize, event: &Event) {
        if let Event::Proposed { view, block, .. } = event
            && self.names_blocks
            && !self.by_height
        {
            self.learn_as(*block, view.0);
        }
        if !self.on {
            return;
        }
        let words = match event {
            Event::Entered(view) => format!("enters view {view}"),
            // Its height is not told: the pre-prepare will do that.
            Event::Proposed { .. } if self.by_height => return,
            Event::Proposed { view, block, frames } => {
                format!("proposes in view {view}, {frames} frames: {}", self.name(block))
            }
            Event::Voted(ballot) if self.phases == 1 && ballot.phase == 1 => {
                format!("votes for {}", self.name(&ballot.block))
            }
            Event::Voted(ballot) => format!("votes {}", self.vote(ballot)),
            Event::Declined { view, reason } => {
                format!("does not vote in view {view}: {reason:?}")
            }
            // Told by the vote that is not cast.
            Event::RootDiffers { .. } => return,
            Event::Certified(ballot) if self.by_height => {
                format!("has prepared {}", self.name(&ballot.block))
            }
            Event::Certified(ballot) => format!("has {}", self.certificate(ballot)),
            Event::TimedOut(view) => format!("gives up view {view}"),
            Event::TooSlow { view, leader } => format!("finds r{leader} too slow in view {view}"),
            Event::GaveUp(view) => format!("has {}", self.time_outs(*view)),
            Event::Committed { height, block, .. } => {
                format!("commits {} at height {height}", self.name(block))
            }
            Event::Pruned(count) => format!("prunes {count} blocks"),
            Event::Equivocation { proposer, view } => {
                format!("sees r{proposer} equivocate in view {view}")
            }
            Event::DoubleVote { voter, view } => {
                format!("sees r{voter} vote twice in view {view}")
            }
            Event::BadVote { voter, view } => {
                format!("drops a bad vote of r{voter} in view {view}")
            }
        };
        self.note(now, slot, || words);
    }
}
