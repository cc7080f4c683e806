//! What an adversary knows and may do at one moment.

use quorate_core::base::crypto::{Form, Scheme, Share, Signature, Signer, Signers, Statement};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, TimeOut, Vote};
use quorate_core::protocols::hotstuff::rules::Facts;
use quorate_core::{ReplicaId, Time, View};

use crate::{Seen, forge};

/// What an adversary knows and may do at one moment.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The driver's time.
    pub now: Time,
    /// The replica it is.
    pub me: ReplicaId,
    /// What signatures are bound to, and among whom.
    pub domain: &'a Domain,
    /// The variant that is run.
    pub facts: &'static Facts,
    /// What it has seen go by.
    pub seen: &'a Seen,
    pub(crate) signer: &'a dyn Signer,
    pub(crate) scheme: &'a dyn Scheme,
}

impl Context<'_> {
    /// Signs whatever it is, with the replica's own key.
    #[must_use]
    pub fn sign(&self, statement: &Statement) -> Signature {
        self.signer.sign(statement)
    }

    /// Joins signatures, as anybody can; nothing if the scheme knows no such joining, or if they
    /// are too few for the committee's. (A scheme is not asked what it makes of those: real ones
    /// make nothing that holds, and the simulator's, which only plays at signing, does not count.)
    #[must_use]
    pub fn join(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        let signers: Signers = shares.iter().map(|share| share.signer).collect();
        if form == Form::Threshold && signers.len() < self.domain.committee().quorum() {
            return None;
        }
        match self.domain.committee().shares() {
            Some(keys) => self.scheme.combine_by(keys, form, shares),
            None => self.scheme.combine(form, shares),
        }
    }

    /// The other replicas, ascending.
    pub fn others(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let me = self.me;
        self.domain.committee().replicas().filter(move |id| *id != me)
    }

    /// The place of `replica` among the others, from 0.
    #[must_use]
    pub fn place(&self, replica: ReplicaId) -> usize {
        replica.index() - usize::from(replica > self.me)
    }

    /// n.
    #[must_use]
    pub fn size(&self) -> usize {
        self.domain.committee().size()
    }

    /// Its vote.
    #[must_use]
    pub fn vote(&self, view: View, phase: u8, block: BlockId) -> Vote {
        forge::vote(self.domain, self.me, self.signer, (view, phase, block))
    }

    /// Its time-out.
    #[must_use]
    pub fn time_out(&self, view: View, high_qc: &Qc) -> TimeOut {
        forge::time_out(self.domain, self.me, self.signer, view, high_qc)
    }

    /// The identity of the genesis block.
    #[must_use]
    pub fn genesis(&self) -> BlockId {
        genesis(self.domain)
    }

    /// The highest certificate it has seen; that of the genesis block if it has seen none.
    #[must_use]
    pub fn high_qc(&self) -> Qc {
        self.seen.high_qc().cloned().unwrap_or_else(|| Qc::genesis(self.genesis()))
    }
}

/// The identity of the genesis block of a domain.
pub(crate) fn genesis(domain: &Domain) -> BlockId {
    let committee = domain.committee();
    Block::genesis(committee.chain(), committee.epoch()).id()
}
