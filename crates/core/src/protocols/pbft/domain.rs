//! What signatures of PBFT are bound to, and which of them a message needs.

use super::words::{NewView, SignedChange, ViewChange, Vote};
use crate::base::crypto::{Check, Kind, Share, Signature, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, ReplicaId, View};
use crate::base::wire::Encode as _;
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::Malformed;

/// Tells this protocol's signatures from those of others.
const NUMBER: u8 = 16;
const PRE_PREPARE: u8 = 0;
const CHECKPOINT: u8 = 3;
const VIEW_CHANGE: u8 = 0;
const NEW_VIEW: u8 = 1;

/// How replicas know who says what (*Towards Improving the Performance of BFT Consensus For Future
/// Permissioned Blockchains*, section IV). What has to convince a third party is signed in either
/// case: clients' frames, checkpoints and view changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Authentication {
    /// Every message between replicas is signed.
    #[default]
    Signatures,
    /// Messages that go straight to their receiver are authenticated by the channel: the record of
    /// TLS or DTLS is the MAC.
    Macs,
}

/// A committee, and how it is sure of who speaks.
#[derive(Clone, Debug)]
pub struct Domain {
    committee: Committee,
    authentication: Authentication,
}

fn place(height: Height, block: &BlockId) -> Digest {
    let mut bytes = height.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&block.0);
    Digest::of("quorate pbft place", &bytes)
}

impl Domain {
    /// Of a committee.
    #[must_use]
    pub fn new(committee: Committee, authentication: Authentication) -> Self {
        Self { committee, authentication }
    }

    /// Who takes part.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Whether messages between replicas are signed.
    #[must_use]
    pub fn signs(&self) -> bool {
        self.authentication == Authentication::Signatures
    }

    /// The primary of a view: the replicas in turn (section 4 of the paper), each as often as it
    /// weighs.
    #[must_use]
    pub fn primary(&self, view: View) -> ReplicaId {
        self.committee.turn(view.0.saturating_sub(1))
    }

    fn statement(&self, kind: Kind, view: View, phase: u8, content: &Digest) -> Statement {
        let (chain, epoch) = (self.committee.chain(), self.committee.epoch());
        Statement::new(&chain, epoch, NUMBER, kind, view, phase, content)
    }

    /// What the primary signs of a block.
    #[must_use]
    pub fn pre_prepare(&self, view: View, height: Height, block: &BlockId) -> Statement {
        self.statement(Kind::Vote, view, PRE_PREPARE, &place(height, block))
    }

    /// What is signed of a vote.
    #[must_use]
    pub fn vote(&self, vote: &Vote) -> Statement {
        let content = place(vote.height, &vote.block);
        self.statement(Kind::Vote, vote.view, vote.phase as u8, &content)
    }

    /// What is signed of a checkpoint. No view is part of it.
    #[must_use]
    pub fn checkpoint(&self, checkpoint: &Checkpoint) -> Statement {
        let content = Digest::of("quorate pbft checkpoint", &checkpoint.to_bytes());
        self.statement(Kind::Vote, View(0), CHECKPOINT, &content)
    }

    /// What is signed of a view change.
    #[must_use]
    pub fn view_change(&self, change: &ViewChange) -> Statement {
        let content = Digest::of("quorate pbft view change", &change.to_bytes());
        self.statement(Kind::TimeOut, change.view, VIEW_CHANGE, &content)
    }

    /// What the primary signs of a new view.
    #[must_use]
    pub fn new_view(&self, new_view: &NewView) -> Statement {
        let content = Digest::of("quorate pbft new view", &new_view.to_bytes());
        self.statement(Kind::TimeOut, new_view.view, NEW_VIEW, &content)
    }

    /// What a testimony signs: `content` binds it to the question. Its checkpoint proves itself.
    #[must_use]
    pub fn testimony(&self, view: View, content: &Digest) -> Statement {
        self.statement(Kind::Testimony, view, 0, content)
    }

    /// What has to hold of a message that is signed only where all are.
    ///
    /// # Errors
    /// [`Malformed`] if it is signed where none is.
    pub fn direct(
        &self,
        signer: ReplicaId,
        statement: Statement,
        signature: Signature,
    ) -> Result<Vec<Check>, Malformed> {
        match (self.signs(), signature == Signature::NONE) {
            (true, _) => {
                let check = Check::Replica(Share { signer, statement, signature });
                Ok(mutant!("pbft-words-unsigned", Vec::new(), vec![check]))
            }
            (false, true) => Ok(Vec::new()),
            (false, false) => Err(Malformed::WrongForm),
        }
    }

    /// What has to hold of a stable checkpoint.
    ///
    /// # Errors
    /// [`Malformed`] if fewer than q members signed it, or its signers are not in order.
    pub fn stable(&self, stable: &Stable) -> Result<Vec<Check>, Malformed> {
        let statement = self.checkpoint(&stable.checkpoint);
        if mutant!("pbft-checkpoint-unproved", true, false) {
            return Ok(Vec::new());
        }
        stable.checks(&self.committee, self.committee.quorum(), statement)
    }

    /// What has to hold of a view change whose entries fit a window of so many blocks.
    ///
    /// # Errors
    /// [`Malformed`] if its sets contradict themselves or reach beyond the water marks.
    pub fn change(&self, signed: &SignedChange, window: u64) -> Result<Vec<Check>, Malformed> {
        let SignedChange { from, change, signature } = signed;
        let genesis = self.committee.opening().height;
        let low = change.stable.as_ref().map_or(genesis, |stable| stable.checkpoint.height);
        let is_inside = |height: Height| height > low && height <= low.plus(window);
        let ascends = change.prepared.windows(2).all(|pair| match pair {
            [one, next] => one.height < next.height,
            _ => true,
        }) && change.pre_prepared.windows(2).all(|pair| pair[0] < pair[1]);
        let mut entries = change.prepared.iter().chain(&change.pre_prepared);
        if !ascends || !entries.all(|entry| is_inside(entry.height) && entry.view < change.view) {
            return Err(Malformed::Contradiction);
        }
        if !self.committee.contains(*from) {
            return Err(Malformed::UnknownSigner);
        }
        let mut checks = match &change.stable {
            Some(stable) => self.stable(stable)?,
            None => Vec::new(),
        };
        let (statement, signature) = (self.view_change(change), *signature);
        let check = Check::Replica(Share { signer: *from, statement, signature });
        checks.extend(mutant!("pbft-view-changes-unsigned", None, Some(check)));
        Ok(checks)
    }
}
