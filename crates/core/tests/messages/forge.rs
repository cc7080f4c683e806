//! Certificates as their signers would make them, in fields that anybody can change.

use quorate_core::base::crypto::{Check, Form, Scheme, Share, Signature, Signer, Statement};
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Tc, Vote};
use quorate_core::protocols::protocol::{Ballot, Malformed};
use quorate_core::{Digest, Epoch, ReplicaId, View};

use crate::cluster::keys::{CHAIN, Key, Mock, committee};

/// The forms a committee's scheme may give its certificates: of votes, and of time-outs.
pub const FORMS: [(Form, Form); 3] = [
    (Form::List, Form::List),
    (Form::Aggregate, Form::Aggregate),
    (Form::Threshold, Form::Aggregate),
];

/// The domain of protocol 1 run by `n` replicas.
pub fn domain(n: usize, forms: (Form, Form)) -> Domain {
    Domain::new(committee(n), 1).with_forms(forms.0, forms.1)
}

pub fn genesis() -> Digest {
    Block::genesis(CHAIN, Epoch(0)).id()
}

pub fn sign(signer: u16, statement: &Statement) -> Signature {
    Key::of_replica(usize::from(signer)).sign(statement)
}

fn share((signer, statement): (u16, Statement)) -> Share {
    Share { signer: ReplicaId(signer), statement, signature: sign(signer, &statement) }
}

/// The signature of all of them.
fn joined(form: Form, signed: impl Iterator<Item = (u16, Statement)>) -> Signature {
    let shares: Vec<Share> = signed.map(share).collect();
    Mock.combine(form, &shares).unwrap_or(Signature::NONE)
}

pub fn vote(domain: &Domain, voter: u16, view: u64, phase: u8, block: Digest) -> Vote {
    let signature = sign(voter, &domain.vote(View(view), phase, &block));
    Vote { ballot: Ballot { view: View(view), phase, block }, voter: ReplicaId(voter), signature }
}

/// What a QC rests on, by its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawProof {
    List(Vec<(u16, Signature)>),
    /// A bit a signer, as bytes.
    Aggregate(Vec<u8>, Signature),
    Threshold(Signature),
}

/// A QC whose every field can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawQc {
    pub view: u64,
    pub phase: u8,
    pub block: Digest,
    pub proof: RawProof,
}

pub fn bitmap(signers: &[u16]) -> Vec<u8> {
    let length = signers.iter().map(|signer| usize::from(*signer) / 8 + 1).max().unwrap_or(0);
    let mut bytes = vec![0; length];
    for signer in signers {
        bytes[usize::from(*signer) / 8] |= 1 << (signer % 8);
    }
    bytes
}

impl RawQc {
    /// As `signers` would make it, in the form of `domain`.
    pub fn signed(domain: &Domain, ballot: (u64, u8, Digest), signers: &[u16]) -> Self {
        Self::in_form(domain.vote_form(), domain, ballot, signers)
    }

    /// The same, in another form.
    pub fn in_form(
        form: Form,
        domain: &Domain,
        (view, phase, block): (u64, u8, Digest),
        signers: &[u16],
    ) -> Self {
        let statement = domain.vote(View(view), phase, &block);
        let signed = || signers.iter().map(|signer| (*signer, statement));
        let proof = match form {
            Form::List => RawProof::List(
                signers.iter().map(|signer| (*signer, sign(*signer, &statement))).collect(),
            ),
            Form::Aggregate => {
                RawProof::Aggregate(bitmap(signers), joined(Form::Aggregate, signed()))
            }
            Form::Threshold => RawProof::Threshold(joined(Form::Threshold, signed())),
        };
        Self { view, phase, block, proof }
    }

    /// The certificate of view 0.
    pub fn genesis() -> Self {
        Self { view: 0, phase: 0, block: genesis(), proof: RawProof::List(Vec::new()) }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let ballot = Ballot { view: View(self.view), phase: self.phase, block: self.block };
        let mut bytes = ballot.to_bytes();
        match &self.proof {
            RawProof::List(signatures) => {
                bytes.push(1);
                (signatures.len() as u32).encode(&mut bytes);
                for (signer, signature) in signatures {
                    (ReplicaId(*signer), *signature).encode(&mut bytes);
                }
            }
            RawProof::Aggregate(signers, signature) => {
                bytes.push(2);
                bytes.push(signers.len() as u8);
                bytes.extend_from_slice(signers);
                signature.encode(&mut bytes);
            }
            RawProof::Threshold(signature) => {
                bytes.push(3);
                signature.encode(&mut bytes);
            }
        }
        bytes
    }

    pub fn build(&self) -> Qc {
        Qc::from_bytes(self.bytes().into()).expect("well encoded")
    }
}

/// A TC whose every field can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTc {
    pub view: u64,
    pub entries: Vec<(u16, u64)>,
    pub signatures: Vec<Signature>,
    pub qcs: Vec<RawQc>,
}

impl RawTc {
    /// As those would make it who gave up on these views with these high QCs.
    pub fn signed(domain: &Domain, view: u64, time_outs: &[(u16, u64, RawQc)]) -> Self {
        let signed = || {
            time_outs.iter().map(|(signer, view, qc)| {
                (*signer, domain.time_out(View(*view), View(qc.view), &qc.block))
            })
        };
        let signatures = if domain.time_out_form() == Form::Aggregate {
            vec![joined(Form::Aggregate, signed())]
        } else {
            signed().map(|(signer, statement)| sign(signer, &statement)).collect()
        };
        let mut qcs: Vec<RawQc> = time_outs.iter().map(|(.., qc)| qc.clone()).collect();
        if !domain.carries_all_qcs() {
            qcs.sort_by_key(|qc| (qc.view, qc.phase));
            qcs.drain(..time_outs.len() - 1);
        }
        let entries = time_outs.iter().map(|(signer, _, qc)| (*signer, qc.view)).collect();
        Self { view, entries, signatures, qcs }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let entries: Vec<(ReplicaId, View)> =
            self.entries.iter().map(|(signer, view)| (ReplicaId(*signer), View(*view))).collect();
        let mut bytes = self.view.to_le_bytes().to_vec();
        put_list(&mut bytes, &entries);
        put_list(&mut bytes, &self.signatures);
        (self.qcs.len() as u32).encode(&mut bytes);
        for qc in &self.qcs {
            bytes.extend(qc.bytes());
        }
        bytes
    }

    pub fn build(&self) -> Tc {
        Tc::from_bytes(self.bytes().into()).expect("well encoded")
    }
}

/// What is wrong with a certificate: found unread, or by its signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Unread(Malformed),
    BadSignature,
}

impl Verdict {
    pub fn of(checks: Result<Vec<Check>, Malformed>) -> Self {
        match checks {
            Err(reason) => Self::Unread(reason),
            Ok(checks) if Mock.verify(&checks).iter().all(|holds| *holds) => Self::Good,
            Ok(_) => Self::BadSignature,
        }
    }

    pub fn of_qc(domain: &Domain, qc: &RawQc) -> Self {
        Self::of(qc.build().checks(domain, &genesis()))
    }

    pub fn of_tc(domain: &Domain, tc: &RawTc) -> Self {
        Self::of(tc.build().checks(domain, &genesis()))
    }
}
