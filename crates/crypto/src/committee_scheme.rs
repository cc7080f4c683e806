//! The signature scheme of a committee and its clients: it implements
//! [`quorate_core::base::crypto::Scheme`] for every scheme that a committee can choose.

use quorate_core::ReplicaId;
use quorate_core::base::crypto::{Check, Form, Scheme, Share, Signature, Signers};

use crate::bls::{self, threshold};
use crate::committee_keys::{CommitteeKeyError, GroupKey, KeyProblem, MemberKey};
use crate::ecdsa::{p256, secp256k1};
use crate::ed25519::{self, Ed25519};
use crate::scheme_name::SchemeName;

/// Verifies signatures of clients and of one committee's replicas, and joins those of replicas.
/// Threads share it by reference.
///
/// Clients always sign with Ed25519. All Ed25519 signatures of a list of checks form one batch; all
/// BLS signatures and certificates form another.
pub struct CommitteeScheme {
    ed25519: Ed25519,
    replicas: Replicas,
}

enum Replicas {
    /// The keys are in [`CommitteeScheme::ed25519`].
    Ed25519,
    EcdsaSecp256k1(Vec<secp256k1::PublicKey>),
    EcdsaP256(Vec<p256::PublicKey>),
    Bls(bls::Committee),
    BlsThreshold(threshold::Committee),
    /// The number of replicas.
    None(usize),
}

impl CommitteeScheme {
    /// The scheme `scheme` for a committee. `members` is in the order of their ids; `group` is
    /// given if the keys were dealt. Every key is checked.
    ///
    /// # Errors
    /// [`CommitteeKeyError`] names the key that cannot be trusted, the reason and the remedy.
    pub fn new(
        scheme: SchemeName,
        members: &[MemberKey<'_>],
        group: Option<GroupKey<'_>>,
    ) -> Result<Self, CommitteeKeyError> {
        if group.is_some() != scheme.is_dealt() {
            return Err(CommitteeKeyError::GroupPresence { scheme });
        }
        refuse_shared(members)?;
        let in_member =
            |(replica, problem)| CommitteeKeyError::Replica { replica, scheme, problem };
        if !scheme.needs_possession()
            && let Some(replica) = members.iter().position(|member| member.possession.is_some())
        {
            return Err(in_member((replica, KeyProblem::UselessPossession)));
        }
        let mut ed25519 = Ed25519::default();
        let replicas = match scheme {
            SchemeName::Ed25519 => {
                ed25519 = Ed25519::new(&read(members, ed25519::read_key).map_err(in_member)?);
                Replicas::Ed25519
            }
            SchemeName::EcdsaSecp256k1 => Replicas::EcdsaSecp256k1(
                read(members, secp256k1::PublicKey::read).map_err(in_member)?,
            ),
            SchemeName::EcdsaP256 => {
                Replicas::EcdsaP256(read(members, p256::PublicKey::read).map_err(in_member)?)
            }
            SchemeName::Bls => Replicas::Bls(bls::Committee::read(members).map_err(in_member)?),
            SchemeName::BlsThreshold => {
                let keys: Vec<&[u8]> = members.iter().map(|member| member.key).collect();
                let group = group.ok_or(CommitteeKeyError::GroupPresence { scheme })?;
                Replicas::BlsThreshold(threshold::Committee::read(&keys, group)?)
            }
            SchemeName::None => {
                let length = |key: &[u8]| match key.len() {
                    32 => Ok(()),
                    found => Err(KeyProblem::Length { expected: 32, found }),
                };
                Replicas::None(read(members, length).map_err(in_member)?.len())
            }
        };
        Ok(Self { ed25519, replicas })
    }

    /// The scheme of the replicas.
    #[must_use]
    pub fn name(&self) -> SchemeName {
        match &self.replicas {
            Replicas::Ed25519 => SchemeName::Ed25519,
            Replicas::EcdsaSecp256k1(_) => SchemeName::EcdsaSecp256k1,
            Replicas::EcdsaP256(_) => SchemeName::EcdsaP256,
            Replicas::Bls(_) => SchemeName::Bls,
            Replicas::BlsThreshold(_) => SchemeName::BlsThreshold,
            Replicas::None(_) => SchemeName::None,
        }
    }
}

impl Scheme for CommitteeScheme {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        // With another scheme this verifier has no members, so it accepts no check of a replica.
        let mut verdicts = self.ed25519.verify(checks);
        match &self.replicas {
            Replicas::Ed25519 => {}
            Replicas::EcdsaSecp256k1(keys) => each(checks, &mut verdicts, |share| {
                let (message, signature) = (share.statement.as_bytes(), share.signature.as_bytes());
                keys.get(share.signer.index()).is_some_and(|key| key.verify(message, signature))
            }),
            Replicas::EcdsaP256(keys) => each(checks, &mut verdicts, |share| {
                let (message, signature) = (share.statement.as_bytes(), share.signature.as_bytes());
                keys.get(share.signer.index()).is_some_and(|key| key.verify(message, signature))
            }),
            Replicas::Bls(committee) => {
                verify_bls(committee.claims(), all(checks), &by_id, &mut verdicts);
            }
            Replicas::BlsThreshold(committee) => {
                verify_bls(committee.claims(), all(checks), &by_id, &mut verdicts);
            }
            Replicas::None(members) => each(checks, &mut verdicts, |share| {
                share.signer.index() < *members && share.signature == Signature::NONE
            }),
        }
        verdicts
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        if shares.iter().map(|share| share.signer).collect::<Signers>().len() != shares.len() {
            return None;
        }
        match &self.replicas {
            Replicas::Bls(committee) if form == Form::Aggregate => {
                let signatures = shares.iter().map(|share| share.signature.as_bytes());
                Signature::new(&committee.join(signatures)?)
            }
            Replicas::BlsThreshold(committee) => {
                join_shares(committee, form, shares, &|signer| Some(signer.index()))
            }
            _ => None,
        }
    }
}

/// Joins signatures of different members of a threshold committee, each at its place.
pub(crate) fn join_shares(
    committee: &threshold::Committee,
    form: Form,
    shares: &[Share],
    place: &dyn Fn(ReplicaId) -> Option<usize>,
) -> Option<Signature> {
    let list = shares.iter().map(|share| {
        let signature = share.signature.as_bytes();
        Some((place(share.signer)?, share.statement.as_bytes(), signature))
    });
    let list = list.collect::<Option<Vec<_>>>()?;
    let joined = match form {
        Form::List => return None,
        Form::Aggregate => committee.join(&list)?,
        Form::Threshold => {
            if shares.windows(2).any(|pair| pair[0].statement != pair[1].statement) {
                return None;
            }
            let list: Vec<_> =
                list.iter().map(|(place, _, signature)| (*place, *signature)).collect();
            committee.join_quorum(&list)?
        }
    };
    Signature::new(&joined)
}

/// Reads every member's key, or names the first that cannot be read, with the reason.
fn read<K>(
    members: &[MemberKey<'_>],
    one: impl Fn(&[u8]) -> Result<K, KeyProblem>,
) -> Result<Vec<K>, (usize, KeyProblem)> {
    let keys = members.iter().enumerate();
    keys.map(|(place, member)| one(member.key).map_err(|problem| (place, problem))).collect()
}

fn refuse_shared(members: &[MemberKey<'_>]) -> Result<(), CommitteeKeyError> {
    for (second, member) in members.iter().enumerate() {
        if let Some(first) = members[..second].iter().position(|other| other.key == member.key) {
            return Err(CommitteeKeyError::Shared { first, second });
        }
    }
    Ok(())
}

/// Verifies replicas' signatures one by one.
fn each(checks: &[Check], verdicts: &mut [bool], holds: impl Fn(&Share) -> bool) {
    for (check, verdict) in checks.iter().zip(verdicts) {
        if let Check::Replica(share) = check {
            *verdict = holds(share);
        }
    }
}

fn all(checks: &[Check]) -> impl Iterator<Item = (usize, &Check)> {
    checks.iter().enumerate()
}

fn by_id(signer: ReplicaId) -> usize {
    signer.index()
}

/// Verifies replicas' signatures and certificates as one batch. Each check has the index of its
/// verdict. `place` is that of a signer in the committee; beyond it for who is no member.
pub(crate) fn verify_bls<'m>(
    mut claims: bls::Claims<'_, 'm>,
    checks: impl Iterator<Item = (usize, &'m Check)>,
    place: &dyn Fn(ReplicaId) -> usize,
    verdicts: &mut [bool],
) {
    for (index, check) in checks {
        match check {
            Check::Client { .. }
            | Check::Joined { .. }
            | Check::Dealing { .. }
            | Check::Complaint { .. }
            | Check::EncryptionKey { .. } => {}
            Check::Replica(share) => claims.share(
                index,
                place(share.signer),
                share.statement.as_bytes(),
                share.signature.as_bytes(),
            ),
            Check::Aggregate { parts, signature } => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|(statement, signers)| {
                        (statement.as_bytes(), signers.iter().map(place).collect())
                    })
                    .collect();
                claims.aggregate(index, &parts, signature.as_bytes());
            }
            Check::Threshold { statement, signature } => {
                claims.group(index, statement.as_bytes(), signature.as_bytes());
            }
        }
    }
    claims.settle(verdicts);
}
