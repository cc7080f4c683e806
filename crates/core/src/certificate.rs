//! Votes and time-outs, and the certificates that q of them make.
//!
//! Every certificate is checked the same way in every build: enough signers, each once, each a
//! member, and every signature over the canonical bytes of what the certificate says. The first
//! three make a [`Claim`]; the last turns it into a [`Verified`](crate::crypto::Verified) one.

use crate::block::BlockId;
use crate::committee::{Committee, MAX_REPLICAS};
use crate::crypto::{Check, Claim, Kind, PublicKey, Signature, Statement};
use crate::types::{Digest, ReplicaId, View};
use crate::wire::{Decode, DecodeError, Encode, Reader};

/// What distinguishes signatures of one protocol instance from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    committee: Committee,
    protocol: u8,
}

impl Domain {
    /// The domain of `protocol` (its number) run by `committee`.
    #[must_use]
    pub fn new(committee: Committee, protocol: u8) -> Self {
        Self { committee, protocol }
    }

    /// The committee.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// What a vote for `block` in `view` signs. Protocols with one phase a view use phase 0.
    #[must_use]
    pub fn vote(&self, view: View, block: &BlockId) -> Statement {
        self.statement(Kind::Vote, view, block)
    }

    /// What a time-out of `view` signs, by a replica whose high QC is of `high_qc_view`
    /// (protocols.md section 1, "Time-outs in the two-chain rule").
    #[must_use]
    pub fn time_out(&self, view: View, high_qc_view: View) -> Statement {
        let content = Digest::of("quorate time-out", &high_qc_view.0.to_le_bytes());
        self.statement(Kind::TimeOut, view, &content)
    }

    /// What a testimony signs: the answer to `nonce`, with all that it says.
    #[must_use]
    pub fn testimony(&self, view: View, content: &Digest) -> Statement {
        self.statement(Kind::Testimony, view, content)
    }

    fn statement(&self, kind: Kind, view: View, content: &Digest) -> Statement {
        Statement::new(
            &self.committee.chain(),
            self.committee.epoch(),
            self.protocol,
            kind,
            view,
            0,
            content,
        )
    }

    fn key(&self, replica: ReplicaId) -> Result<PublicKey, Malformed> {
        self.committee.key(replica).copied().ok_or(Malformed::UnknownSigner)
    }
}

/// Why a message was refused before any signature was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Malformed {
    /// A signer outside the committee.
    #[error("a signer is not a member of the committee")]
    UnknownSigner,
    /// A signer counted twice, or out of order.
    #[error("signers are not in strictly ascending order")]
    UnorderedSigners,
    /// Fewer than q signers.
    #[error("fewer signers than a quorum")]
    NoQuorum,
    /// A certificate of view 0 that is not the genesis certificate.
    #[error("not the genesis certificate")]
    NotGenesis,
    /// Fields that contradict each other.
    #[error("fields contradict each other")]
    Contradiction,
    /// Sent by somebody who may not send it.
    #[error("the sender may not send this")]
    WrongSender,
    /// Of another epoch.
    #[error("of another epoch")]
    WrongEpoch,
    /// Too old to matter.
    #[error("too old to matter")]
    Stale,
}

/// A replica's vote for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The block's view.
    pub view: View,
    /// The block.
    pub block: BlockId,
    /// Who votes.
    pub voter: ReplicaId,
    /// Over [`Domain::vote`].
    pub signature: Signature,
}

impl Vote {
    /// The signature to be checked.
    ///
    /// # Errors
    /// [`Malformed::UnknownSigner`].
    pub fn check(&self, domain: &Domain) -> Result<Check, Malformed> {
        Ok(Check {
            key: domain.key(self.voter)?,
            statement: domain.vote(self.view, &self.block),
            signature: self.signature,
        })
    }
}

/// A quorum certificate: q votes of one view for one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qc {
    view: View,
    block: BlockId,
    signatures: Vec<(ReplicaId, Signature)>,
}

impl Qc {
    /// The certificate of view 0 for `block`, true by definition for the genesis block alone.
    #[must_use]
    pub fn genesis(block: BlockId) -> Self {
        Self { view: View(0), block, signatures: Vec::new() }
    }

    /// A certificate of votes that were all checked and are all for (`view`, `block`).
    #[must_use]
    pub(crate) fn of_votes(view: View, block: BlockId, votes: &[Vote]) -> Self {
        let mut signatures: Vec<_> =
            votes.iter().map(|vote| (vote.voter, vote.signature)).collect();
        signatures.sort_unstable_by_key(|(voter, _)| *voter);
        Self { view, block, signatures }
    }

    /// The view the votes were cast in.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// The block they are for. (For view 0: the parent of the genesis block, which is named
    /// after the chain.)
    #[must_use]
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Who voted, ascending.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> {
        self.signatures.iter().map(|(signer, _)| *signer)
    }

    /// What counts of this certificate for the identity of the block it justifies.
    pub(crate) fn encode_identity(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.block.encode(out);
        (self.signatures.len() as u32).encode(out);
        for signer in self.signers() {
            signer.encode(out);
        }
    }

    /// The votes that have to hold; none for the genesis certificate, which is true as it is.
    ///
    /// # Errors
    /// [`Malformed`] if it could not be true whatever the signatures are.
    pub fn checks(&self, domain: &Domain, genesis: &BlockId) -> Result<Vec<Check>, Malformed> {
        if self.view == View(0) {
            let true_by_definition = self.block == *genesis && self.signatures.is_empty();
            return if true_by_definition { Ok(Vec::new()) } else { Err(Malformed::NotGenesis) };
        }
        quorum_of(domain, self.signers())?;
        let statement = domain.vote(self.view, &self.block);
        self.signatures
            .iter()
            .map(|&(signer, signature)| {
                Ok(Check { key: domain.key(signer)?, statement, signature })
            })
            .collect()
    }

    /// This certificate, resting on its votes.
    ///
    /// # Errors
    /// As [`Qc::checks`].
    pub fn claim(self, domain: &Domain, genesis: &BlockId) -> Result<Claim<Self>, Malformed> {
        let checks = self.checks(domain, genesis)?;
        Ok(Claim::new(self, checks))
    }
}

/// A quorum of distinct members, in strictly ascending order.
fn quorum_of(domain: &Domain, signers: impl Iterator<Item = ReplicaId>) -> Result<(), Malformed> {
    let mut count = 0;
    let mut last = None;
    for signer in signers {
        if last >= Some(signer) {
            return Err(Malformed::UnorderedSigners);
        }
        last = Some(signer);
        count += 1;
    }
    if count < domain.committee.quorum() {
        return Err(Malformed::NoQuorum);
    }
    Ok(())
}

/// A replica's word that it gave up on a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOut {
    /// The view.
    pub view: View,
    /// The view of the sender's high QC.
    pub high_qc_view: View,
    /// Who gave up.
    pub replica: ReplicaId,
    /// Over [`Domain::time_out`].
    pub signature: Signature,
}

impl TimeOut {
    /// The signature to be checked.
    ///
    /// # Errors
    /// [`Malformed::UnknownSigner`].
    pub fn check(&self, domain: &Domain) -> Result<Check, Malformed> {
        Ok(Check {
            key: domain.key(self.replica)?,
            statement: domain.time_out(self.view, self.high_qc_view),
            signature: self.signature,
        })
    }
}

/// A time-out certificate: q time-outs **of one view**, and the highest QC among their senders'.
/// Collected from different views they would prove nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tc {
    view: View,
    time_outs: Vec<(ReplicaId, View, Signature)>,
    high_qc: Qc,
}

impl Tc {
    /// A certificate of time-outs that were all checked, all of `view`, with the QC of the
    /// highest view among theirs.
    #[must_use]
    pub(crate) fn of_time_outs(view: View, time_outs: &[TimeOut], high_qc: Qc) -> Self {
        let mut entries: Vec<_> =
            time_outs.iter().map(|t| (t.replica, t.high_qc_view, t.signature)).collect();
        entries.sort_unstable_by_key(|(replica, ..)| *replica);
        Self { view, time_outs: entries, high_qc }
    }

    /// The view given up.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// The highest QC of those who gave up.
    #[must_use]
    pub fn high_qc(&self) -> &Qc {
        &self.high_qc
    }

    /// Who gave up, ascending.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> {
        self.time_outs.iter().map(|(signer, ..)| *signer)
    }

    /// The signatures that have to hold: the time-outs' and the high QC's.
    ///
    /// # Errors
    /// [`Malformed`] if it could not be true whatever the signatures are.
    pub fn checks(&self, domain: &Domain, genesis: &BlockId) -> Result<Vec<Check>, Malformed> {
        quorum_of(domain, self.signers())?;
        let highest = self.time_outs.iter().map(|(_, high_qc_view, _)| *high_qc_view).max();
        if highest != Some(self.high_qc.view) || self.high_qc.view > self.view {
            return Err(Malformed::Contradiction);
        }
        let mut checks = self.high_qc.checks(domain, genesis)?;
        for &(replica, high_qc_view, signature) in &self.time_outs {
            let time_out = TimeOut { view: self.view, high_qc_view, replica, signature };
            checks.push(time_out.check(domain)?);
        }
        Ok(checks)
    }
}

impl Encode for Vote {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.block.encode(out);
        self.voter.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for Vote {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            block: Digest::decode(reader)?,
            voter: ReplicaId::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Qc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.block.encode(out);
        (self.signatures.len() as u32).encode(out);
        for (signer, signature) in &self.signatures {
            signer.encode(out);
            signature.encode(out);
        }
    }
}

impl Decode for Qc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        let block = Digest::decode(reader)?;
        let count = reader.length("signers of a QC", MAX_REPLICAS)?;
        let mut signatures = Vec::with_capacity(count.min(reader.remaining() / 66 + 1));
        for _ in 0..count {
            signatures.push((ReplicaId::decode(reader)?, Signature::decode(reader)?));
        }
        Ok(Self { view, block, signatures })
    }
}

impl Encode for TimeOut {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.high_qc_view.encode(out);
        self.replica.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for TimeOut {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            high_qc_view: View::decode(reader)?,
            replica: ReplicaId::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Tc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        (self.time_outs.len() as u32).encode(out);
        for (replica, high_qc_view, signature) in &self.time_outs {
            replica.encode(out);
            high_qc_view.encode(out);
            signature.encode(out);
        }
        self.high_qc.encode(out);
    }
}

impl Decode for Tc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let view = View::decode(reader)?;
        let count = reader.length("signers of a TC", MAX_REPLICAS)?;
        let mut time_outs = Vec::with_capacity(count.min(reader.remaining() / 74 + 1));
        for _ in 0..count {
            time_outs.push((
                ReplicaId::decode(reader)?,
                View::decode(reader)?,
                Signature::decode(reader)?,
            ));
        }
        Ok(Self { view, time_outs, high_qc: Qc::decode(reader)? })
    }
}
