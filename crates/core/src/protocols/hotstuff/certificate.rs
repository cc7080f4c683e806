//! Votes and time-outs, and the certificates that q of them make.
//!
//! Every certificate is checked the same way in every build: enough signers, each once, each a
//! member, in the form the committee's scheme gives it, and every signature over the canonical
//! bytes of what the certificate says. All but the last make a
//! [`Claim`](crate::base::crypto::Claim); the last turns it into a
//! [`Verified`](crate::base::crypto::Verified) one.

mod encoding;

use std::sync::Arc;

use crate::base::crypto::{Check, Form, Kind, Share, Signature, Signers, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId, View};
use crate::base::wire::Encode;
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{Ballot, Malformed};

/// What distinguishes signatures of one protocol instance from all others, and what its
/// certificates look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    committee: Committee,
    protocol: u8,
    phases: u8,
    votes: Form,
    time_outs: Form,
    carries_qcs: bool,
}

impl Domain {
    /// The domain of `protocol` (its number) run by `committee`: one phase a view, and lists of
    /// signatures as certificates.
    #[must_use]
    pub fn new(committee: Committee, protocol: u8) -> Self {
        let (votes, time_outs) = (Form::List, Form::List);
        Self { committee, protocol, phases: 1, votes, time_outs, carries_qcs: false }
    }

    /// The same with other forms of certificates. Time-outs differ in what they say and have no
    /// threshold form.
    #[must_use]
    pub fn with_forms(self, votes: Form, time_outs: Form) -> Self {
        Self { votes, time_outs, ..self }
    }

    /// The same with so many phases a view, each of which has a certificate to build upon.
    #[must_use]
    pub fn with_phases(self, phases: u8) -> Self {
        Self { phases, ..self }
    }

    /// The same with time-out certificates that carry the high QC of every signer (the AggQC of
    /// Fast-HotStuff) rather than the highest one alone.
    #[must_use]
    pub fn with_all_qcs(self) -> Self {
        Self { carries_qcs: true, ..self }
    }

    /// The committee.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// How certificates of votes are kept.
    #[must_use]
    pub fn vote_form(&self) -> Form {
        self.votes
    }

    /// How certificates of time-outs are kept.
    #[must_use]
    pub fn time_out_form(&self) -> Form {
        self.time_outs
    }

    /// Whether time-out certificates carry the high QC of every signer.
    #[must_use]
    pub fn carries_all_qcs(&self) -> bool {
        self.carries_qcs
    }

    /// What a vote for `block` in `phase` of `view` signs. The first phase is 1.
    #[must_use]
    pub fn vote(&self, view: View, phase: u8, block: &BlockId) -> Statement {
        self.statement(Kind::Vote, view, mutant!("phase-not-signed", 1, phase), block)
    }

    /// What a time-out of `view` signs, by a replica whose high QC is of `high_qc_view` and for
    /// `high_qc_block`. The block counts
    /// only where certificates carry every signer's QC: elsewhere they would have to name it.
    #[must_use]
    pub fn time_out(&self, view: View, high_qc_view: View, high_qc_block: &BlockId) -> Statement {
        let mut content = high_qc_view.to_bytes();
        if self.carries_qcs {
            high_qc_block.encode(&mut content);
        }
        let content = Digest::of("quorate time-out", &content);
        self.statement(Kind::TimeOut, view, 0, &content)
    }

    /// What a testimony signs: the answer to `nonce`, with all that it says.
    #[must_use]
    pub fn testimony(&self, view: View, content: &Digest) -> Statement {
        self.statement(Kind::Testimony, view, 0, content)
    }

    fn statement(&self, kind: Kind, view: View, phase: u8, content: &Digest) -> Statement {
        let chain = mutant!("chain-not-signed", Digest::default(), self.committee.chain());
        let epoch = mutant!("epoch-not-signed", Default::default(), self.committee.epoch());
        Statement::new(&chain, epoch, self.protocol, kind, view, phase, content)
    }

    /// The check of one replica's signature.
    ///
    /// # Errors
    /// [`Malformed::UnknownSigner`].
    pub fn check(&self, share: Share) -> Result<Check, Malformed> {
        if self.committee.contains(share.signer) {
            Ok(Check::Replica(share))
        } else {
            Err(Malformed::UnknownSigner)
        }
    }
}

/// A replica's vote for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// For what.
    pub ballot: Ballot,
    /// Who votes.
    pub voter: ReplicaId,
    /// Over [`Domain::vote`].
    pub signature: Signature,
}

impl std::ops::Deref for Vote {
    type Target = Ballot;
    fn deref(&self) -> &Ballot {
        &self.ballot
    }
}

impl Vote {
    /// The vote as a share of its certificate.
    #[must_use]
    pub fn share(&self, domain: &Domain) -> Share {
        let statement = domain.vote(self.view, self.phase, &self.block);
        Share { signer: self.voter, statement, signature: self.signature }
    }

    /// The signature to be checked.
    ///
    /// # Errors
    /// [`Malformed::UnknownSigner`].
    pub fn check(&self, domain: &Domain) -> Result<Check, Malformed> {
        domain.check(self.share(domain))
    }
}

/// What a certificate of votes rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The signatures one by one, beside their signers, ascending. Empty for the genesis
    /// certificate alone.
    List(Vec<(ReplicaId, Signature)>),
    /// The signatures joined into one, beside the signers.
    Aggregate(Signers, Signature),
    /// The signature of the committee.
    Threshold(Signature),
}

/// A quorum certificate: q votes of one view and phase for one block. Clones share it: it is in
/// messages, safety records and blocks at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qc(Arc<QcParts>);

#[derive(Debug, PartialEq, Eq)]
struct QcParts {
    ballot: Ballot,
    proof: Proof,
}

impl Qc {
    fn new(ballot: Ballot, proof: Proof) -> Self {
        Self(Arc::new(QcParts { ballot, proof }))
    }

    /// The certificate of view 0 for `block`, true by definition for the genesis block alone.
    #[must_use]
    pub fn genesis(block: BlockId) -> Self {
        Self::new(Ballot { view: View(0), phase: 0, block }, Proof::List(Vec::new()))
    }

    /// A certificate of votes that are all for `ballot`, and were joined into `signature` where the
    /// form is no list.
    #[must_use]
    pub(crate) fn of_votes(
        form: Form,
        ballot: Ballot,
        votes: &[Vote],
        signature: Signature,
    ) -> Self {
        let proof = match form {
            Form::List => {
                let mut signatures: Vec<_> =
                    votes.iter().map(|vote| (vote.voter, vote.signature)).collect();
                signatures.sort_unstable_by_key(|(voter, _)| *voter);
                Proof::List(signatures)
            }
            Form::Aggregate => {
                Proof::Aggregate(votes.iter().map(|vote| vote.voter).collect(), signature)
            }
            Form::Threshold => Proof::Threshold(signature),
        };
        Self::new(ballot, proof)
    }

    /// The certificate that `ballot` would have: for asking what it would lead to.
    pub(crate) fn supposed(ballot: Ballot) -> Self {
        Self::new(ballot, Proof::List(Vec::new()))
    }

    /// What the votes were for.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.0.ballot
    }

    /// The view the votes were cast in.
    #[must_use]
    pub fn view(&self) -> View {
        self.0.ballot.view
    }

    /// The phase the votes were cast in, from 1; 0 for the genesis certificate.
    #[must_use]
    pub fn phase(&self) -> u8 {
        self.0.ballot.phase
    }

    /// The block they are for. (For view 0: the parent of the genesis block, which is named
    /// after the chain.)
    #[must_use]
    pub fn block(&self) -> BlockId {
        self.0.ballot.block
    }

    /// What certificates are ordered by: view, then phase.
    #[must_use]
    pub fn rank(&self) -> (View, u8) {
        self.0.ballot.rank()
    }

    /// Who voted, ascending. A threshold certificate does not tell.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> {
        let (list, set) = match &self.0.proof {
            Proof::List(signatures) => (signatures.as_slice(), Signers::default()),
            Proof::Aggregate(signers, _) => (&[][..], *signers),
            Proof::Threshold(_) => (&[][..], Signers::default()),
        };
        list.iter().map(|(signer, _)| *signer).chain(set.iter())
    }

    /// The votes that have to hold; none for the genesis certificate, which is true as it is.
    ///
    /// # Errors
    /// [`Malformed`] if it could not be true whatever the signatures are.
    pub fn checks(&self, domain: &Domain, genesis: &BlockId) -> Result<Vec<Check>, Malformed> {
        if self.view() == View(0) {
            let is_genesis = *self == Self::genesis(*genesis);
            let true_by_definition = mutant!("genesis-unchecked", true, is_genesis);
            return if true_by_definition { Ok(Vec::new()) } else { Err(Malformed::NotGenesis) };
        }
        if !(1..=domain.phases).contains(&self.phase()) {
            return Err(Malformed::WrongPhase);
        }
        let statement = domain.vote(self.view(), self.phase(), &self.block());
        match (&self.0.proof, domain.votes) {
            (Proof::List(signatures), Form::List) => {
                quorum_of(domain, self.signers())?;
                let check =
                    |&(signer, signature)| Check::Replica(Share { signer, statement, signature });
                Ok(signatures.iter().map(check).collect())
            }
            (Proof::Aggregate(signers, signature), Form::Aggregate) => {
                quorum_of(domain, signers.iter())?;
                let parts = Arc::new([(statement, *signers)]);
                Ok(vec![Check::Aggregate { parts, signature: *signature }])
            }
            (Proof::Threshold(signature), Form::Threshold) => {
                Ok(vec![Check::Threshold { statement, signature: *signature }])
            }
            _ => Err(Malformed::WrongForm),
        }
    }
}

/// A quorum of distinct members, in strictly ascending order.
fn quorum_of(domain: &Domain, signers: impl Iterator<Item = ReplicaId>) -> Result<(), Malformed> {
    let mut weight = 0;
    let mut last = None;
    for signer in signers {
        if mutant!("duplicate-signers", last > Some(signer), last >= Some(signer)) {
            return Err(Malformed::UnorderedSigners);
        }
        if mutant!("unknown-signers", false, !domain.committee.contains(signer)) {
            return Err(Malformed::UnknownSigner);
        }
        last = Some(signer);
        weight += mutant!("unknown-signers", 1, domain.committee.weight(signer));
    }
    let quorum = domain.committee.quorum();
    if mutant!("empty-certificate", (1..quorum).contains(&weight), weight < quorum) {
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
    /// The time-out as a share of its certificate; `high_qc` is the one that came with it.
    #[must_use]
    pub fn share(&self, domain: &Domain, high_qc: &Qc) -> Share {
        let statement = domain.time_out(self.view, self.high_qc_view, &high_qc.block());
        Share { signer: self.replica, statement, signature: self.signature }
    }

    /// The signature to be checked; `high_qc` is the one that came with it.
    ///
    /// # Errors
    /// [`Malformed::UnknownSigner`].
    pub fn check(&self, domain: &Domain, high_qc: &Qc) -> Result<Check, Malformed> {
        domain.check(self.share(domain, high_qc))
    }
}

/// A time-out certificate: q time-outs **of one view**, and the highest QC among their senders'.
/// Collected from different views they would prove nothing. With [`Domain::with_all_qcs`] it
/// carries the QC of every signer: the AggQC of Fast-HotStuff.
///
/// Clones share it, as those of a [`Qc`] do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tc(Arc<TcParts>);

#[derive(Debug, PartialEq, Eq)]
struct TcParts {
    view: View,
    /// Who gave up, ascending, and the view of each one's high QC.
    entries: Vec<(ReplicaId, View)>,
    /// One an entry, or all joined into one.
    signatures: Vec<Signature>,
    /// The highest of the signers' QCs; or each signer's, in the order of the entries.
    qcs: Vec<Qc>,
}

impl Tc {
    /// A certificate of time-outs that were all checked, all of `view`, each with the QC that came
    /// with it; `joined` is their joint signature where the scheme has one. `None` without any.
    #[must_use]
    pub(crate) fn of_time_outs(
        domain: &Domain,
        mut time_outs: Vec<(TimeOut, Qc)>,
        joined: Option<Signature>,
    ) -> Option<Self> {
        time_outs.sort_unstable_by_key(|(time_out, _)| time_out.replica);
        let view = time_outs.first()?.0.view;
        let entries = time_outs.iter().map(|(t, _)| (t.replica, t.high_qc_view)).collect();
        let signatures = match joined {
            Some(signature) => vec![signature],
            None => time_outs.iter().map(|(time_out, _)| time_out.signature).collect(),
        };
        let qcs = time_outs.into_iter().map(|(_, qc)| qc);
        let qcs = if domain.carries_qcs {
            qcs.collect()
        } else {
            qcs.max_by_key(Qc::rank).into_iter().collect()
        };
        Some(Self(Arc::new(TcParts { view, entries, signatures, qcs })))
    }

    /// The view given up.
    #[must_use]
    pub fn view(&self) -> View {
        self.0.view
    }

    /// The highest QC among the signers'.
    ///
    /// # Panics
    /// Never: no certificate is made or decoded without a QC.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a decoded or made TC has at least one QC")]
    pub fn high_qc(&self) -> &Qc {
        self.0.qcs.iter().max_by_key(|qc| qc.rank()).expect("at least one QC")
    }

    /// The view of the highest QC that its signers hold, by their signatures.
    #[must_use]
    pub fn high_qc_view(&self) -> View {
        self.0.entries.iter().map(|(_, view)| *view).max().unwrap_or_default()
    }

    /// Who gave up, ascending.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> {
        self.0.entries.iter().map(|(replica, _)| *replica)
    }

    /// The time-outs that have to hold, and the votes of the highest QC. The other QCs of an AggQC
    /// must be well formed, and their votes need no check: a signer vouches for its own, and only
    /// the highest is built upon.
    ///
    /// # Errors
    /// [`Malformed`] if it could not be true whatever the signatures are.
    pub fn checks(&self, domain: &Domain, genesis: &BlockId) -> Result<Vec<Check>, Malformed> {
        quorum_of(domain, self.signers())?;
        let named = if domain.carries_qcs { self.0.entries.len() } else { 1 };
        let each_its_own = !domain.carries_qcs
            || self.0.qcs.iter().zip(&self.0.entries).all(|(qc, (_, view))| qc.view() == *view);
        let high_qc = self.high_qc();
        let honest = each_its_own && high_qc.view() == self.high_qc_view();
        if self.0.qcs.len() != named
            || !mutant!("tc-high-qc-unchecked", true, honest)
            || high_qc.view() > self.0.view
        {
            return Err(Malformed::Contradiction);
        }
        let mut checks = Vec::new();
        for qc in &self.0.qcs {
            let votes = qc.checks(domain, genesis)?;
            let highest = std::ptr::eq(qc, high_qc);
            if mutant!("agg-qc-votes-unchecked", highest && !domain.carries_qcs, highest) {
                checks = votes;
            }
        }
        // Most say the same as the one before.
        let mut last: Option<(View, BlockId, Statement)> = None;
        let statements = self.0.entries.iter().enumerate().map(|(at, (_, high_qc_view))| {
            let (view, block) = (*high_qc_view, self.0.qcs.get(at).unwrap_or(high_qc).block());
            match last {
                Some((last_view, last_block, said)) if (last_view, last_block) == (view, block) => {
                    said
                }
                _ => {
                    let said = domain.time_out(self.0.view, view, &block);
                    last = Some((view, block, said));
                    said
                }
            }
        });
        let signed = statements.zip(self.signers());
        match (domain.time_outs, self.0.signatures.as_slice()) {
            (Form::Aggregate, [signature]) => {
                checks.push(Check::Aggregate { parts: parts_of(signed), signature: *signature });
            }
            (Form::List, signatures) if signatures.len() == self.0.entries.len() => {
                let check = |((statement, signer), signature): ((_, _), &Signature)| {
                    Check::Replica(Share { signer, statement, signature: *signature })
                };
                checks.extend(signed.zip(signatures).map(check));
            }
            _ => return Err(Malformed::WrongForm),
        }
        Ok(checks)
    }
}

/// Each statement once, with all who signed it.
fn parts_of(signed: impl Iterator<Item = (Statement, ReplicaId)>) -> Arc<[(Statement, Signers)]> {
    let mut parts: Vec<(Statement, Signers)> = Vec::new();
    for (statement, signer) in signed {
        match parts.iter_mut().find(|(known, _)| *known == statement) {
            Some((_, signers)) => {
                signers.insert(signer);
            }
            None => parts.push((statement, Signers::from_iter([signer]))),
        }
    }
    parts.into()
}
