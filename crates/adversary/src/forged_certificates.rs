//! Certificates that are none, in every message that carries one: a signer twice, out of order,
//! unknown, too few, none at all (an empty bitmap beside the point at infinity), the liar's own
//! signature for everybody, another form, phase, view, block, epoch or genesis; time-out
//! certificates of mixed views.
//!
//! Duplicate signers were checked in debug builds only, and an empty bitmap with the point at
//! infinity verified, in public implementations.
//!
//! Answered by one check for every certificate in every build ([`Qc::checks`], [`Tc::checks`]),
//! before any signature is looked at, and by `Verified`, which only that check makes.

use quorate_core::base::crypto::{Form, Kind, Share, Signature, Signers, Statement};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Domain, Proof, Qc, Tc};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Duration, Epoch, ReplicaId, View};

use crate::{Adversary, Context, Rng, Sent, forge};

/// How often one is sent to everybody.
const EVERY: Duration = Duration::from_millis(20);

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    SignerTwice,
    OutOfOrder,
    UnknownSigner,
    TooFew,
    Nobody,
    OwnSignatures,
    OtherForm,
    NoPhase,
    PhaseBeyond,
    LaterView,
    OtherBlock,
    OtherEpoch,
    OtherGenesis,
}

const FLAWS: [Flaw; 13] = [
    Flaw::SignerTwice,
    Flaw::OutOfOrder,
    Flaw::UnknownSigner,
    Flaw::TooFew,
    Flaw::Nobody,
    Flaw::OwnSignatures,
    Flaw::OtherForm,
    Flaw::NoPhase,
    Flaw::PhaseBeyond,
    Flaw::LaterView,
    Flaw::OtherBlock,
    Flaw::OtherEpoch,
    Flaw::OtherGenesis,
];

#[derive(Debug)]
struct ForgedCertificates {
    rng: Rng,
    turn: usize,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(ForgedCertificates { rng: Rng::new(seed), turn: 0 })
}

/// The encoding of the point at infinity in the G1 of BLS12-381.
fn infinity() -> Signature {
    let mut bytes = [0; 48];
    bytes[0] = 0xC0;
    Signature::new(&bytes).unwrap_or(Signature::NONE)
}

/// A certificate of `ballot` by `signers`, each of whom "signed" what the liar did.
fn own_signatures(
    cx: &Context<'_>,
    domain: &Domain,
    ballot: Ballot,
    signers: Vec<ReplicaId>,
) -> Proof {
    let statement = domain.vote(ballot.view, ballot.phase, &ballot.block);
    in_form(cx, cx.domain.vote_form(), statement, signers)
}

fn in_form(cx: &Context<'_>, form: Form, statement: Statement, signers: Vec<ReplicaId>) -> Proof {
    let signature = cx.sign(&statement);
    let share = |signer: &ReplicaId| Share { signer: *signer, statement, signature };
    let shares: Vec<Share> = signers.iter().map(share).collect();
    match form {
        Form::List => Proof::List(signers.into_iter().map(|signer| (signer, signature)).collect()),
        Form::Aggregate => {
            let joined = cx.join(form, &shares).unwrap_or(signature);
            Proof::Aggregate(signers.into_iter().collect(), joined)
        }
        Form::Threshold => Proof::Threshold(cx.join(form, &shares).unwrap_or(signature)),
    }
}

fn quorum(cx: &Context<'_>) -> Vec<ReplicaId> {
    let committee = cx.domain.committee();
    committee.replicas().take(committee.quorum()).collect()
}

/// A certificate above `high` (or of its rank) with this flaw.
fn forge_qc(cx: &Context<'_>, high: &Qc, flaw: Flaw) -> Option<Qc> {
    let ballot = Ballot { view: high.view().next(), phase: 1, block: high.block() };
    let true_proof = forge::proof(high)?;
    let with = |signers: Vec<ReplicaId>| own_signatures(cx, cx.domain, ballot, signers);
    let mut signers = quorum(cx);
    let (ballot, proof) = match flaw {
        Flaw::SignerTwice => {
            let first = *signers.first()?;
            *signers.get_mut(1)? = first;
            (ballot, with(signers))
        }
        Flaw::OutOfOrder => {
            signers.reverse();
            (ballot, with(signers))
        }
        Flaw::UnknownSigner => {
            *signers.last_mut()? = ReplicaId(cx.size() as u16);
            (ballot, with(signers))
        }
        Flaw::TooFew => {
            signers.truncate(cx.domain.committee().faults().max(1));
            (ballot, with(signers))
        }
        Flaw::Nobody => match cx.domain.vote_form() {
            Form::List => (ballot, Proof::List(Vec::new())),
            Form::Aggregate => (ballot, Proof::Aggregate(Signers::default(), infinity())),
            Form::Threshold => (ballot, Proof::Threshold(infinity())),
        },
        Flaw::OwnSignatures => (ballot, with(signers)),
        Flaw::OtherForm => {
            let other = match cx.domain.vote_form() {
                Form::List => Form::Threshold,
                _ => Form::List,
            };
            let statement = cx.domain.vote(ballot.view, ballot.phase, &ballot.block);
            (ballot, in_form(cx, other, statement, signers))
        }
        Flaw::NoPhase => (Ballot { phase: 0, ..ballot }, true_proof),
        Flaw::PhaseBeyond => (Ballot { phase: cx.facts.phases + 2, ..ballot }, true_proof),
        Flaw::LaterView => (ballot, true_proof),
        Flaw::OtherBlock => {
            let block = Digest::of("another block", &ballot.block.0);
            (Ballot { block, ..high.ballot() }, true_proof)
        }
        Flaw::OtherEpoch => {
            let committee = cx.domain.committee();
            let (chain, epoch) = (committee.chain(), committee.epoch().next());
            let protocol = cx.facts.number;
            let Ballot { view, phase, block } = ballot;
            let vote = Statement::new(&chain, epoch, protocol, Kind::Vote, view, phase, &block);
            (ballot, in_form(cx, cx.domain.vote_form(), vote, signers))
        }
        Flaw::OtherGenesis => {
            return Some(Qc::genesis(Digest::of("another genesis", &ballot.block.0)));
        }
    };
    forge::qc(ballot, &proof)
}

/// A time-out certificate by the liar alone, of views and signers as `turn` says.
fn forge_tc(cx: &Context<'_>, high: &Qc, turn: usize) -> Option<Tc> {
    let view = cx.seen.view().next();
    let mut entries: Vec<(ReplicaId, View)> =
        quorum(cx).into_iter().map(|signer| (signer, high.view())).collect();
    match turn % 3 {
        0 => *entries.get_mut(1)? = *entries.first()?,
        1 => entries.truncate(1),
        // As if time-outs of different views had been counted together.
        _ => {}
    }
    let mixed = |at: usize| View(view.0 + at as u64);
    let signatures: Vec<Signature> =
        (0..entries.len()).map(|at| cx.time_out(mixed(at), high).signature).collect();
    let signatures = match cx.domain.time_out_form() {
        Form::List => signatures,
        _ => signatures.into_iter().take(1).collect(),
    };
    let named = if cx.domain.carries_all_qcs() { entries.len() } else { 1 };
    forge::tc(view, &entries, &signatures, &vec![high.clone(); named])
}

/// A message that carries the certificate.
fn carrier(cx: &Context<'_>, qc: Qc, high: &Qc, turn: usize) -> Message {
    let view = qc.view().next().max(cx.seen.view());
    match turn % 5 {
        0 => Message::Advance { high_qc: qc, high_tc: None, decided: None, is_answer: false },
        1 => {
            let time_out = cx.time_out(view, &qc);
            Message::TimeOut { time_out, high_qc: qc, high_tc: None, last_vote: None }
        }
        2 => Message::NewView { view, high_qc: qc },
        3 if cx.facts.phases > 1 => Message::Certificate(qc),
        3 => Message::Advance {
            high_qc: high.clone(),
            high_tc: None,
            decided: Some(qc),
            is_answer: false,
        },
        _ => Message::Advance {
            high_qc: high.clone(),
            high_tc: forge_tc(cx, high, turn),
            decided: None,
            is_answer: false,
        },
    }
}

impl ForgedCertificates {
    /// A proposal of another epoch, or one on a forged certificate, in the next view that it would
    /// lead if leaders took turns.
    fn proposal(&mut self, cx: &Context<'_>, high: &Qc, forged: Qc) -> Option<Message> {
        let n = cx.size() as u64;
        let me = u64::from(cx.me.0);
        let next = high.view().next().0;
        let view = View(next + (n + me - next % n) % n);
        let model: &Block = cx.seen.child_of(&high.block()).or(cx.seen.block(&high.block()))?;
        let epoch = if self.rng.percent(50) { Epoch(model.epoch.0 + 1) } else { model.epoch };
        let block = forge::changed(model, |content| {
            (content.view, content.proposer) = (view, cx.me);
            (content.justify, content.epoch) = (forged, epoch);
            content.height = content.height.plus(1);
            content.frames.clear();
        });
        Some(Message::Proposal { block, tc: None })
    }
}

impl Adversary for ForgedCertificates {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let Some(high) = cx.seen.high_qc().cloned() else { return };
        self.turn += 1;
        let flaw = FLAWS[self.turn % FLAWS.len()];
        let Some(forged) = forge_qc(cx, &high, flaw) else { return };
        let carried = carrier(cx, forged.clone(), &high, self.turn);
        let proposal = self.proposal(cx, &high, forged);
        for to in cx.others() {
            out.push(Sent::of(to, carried.clone()));
            out.extend(proposal.clone().map(|proposal| Sent::now(to, PeerMessage::of(proposal))));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
