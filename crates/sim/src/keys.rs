//! Signatures for tests: a keyed hash. Whoever does not know the secret is caught as with a real
//! scheme, because the adversaries here never compute one for another's key.

use std::collections::BTreeMap;

use quorate_core::base::crypto::{
    Check, ClientSigner, ENCRYPTION_KEY_BYTES, ENCRYPTION_PROOF_BYTES, Form, PublicKey, Round,
    SHARE_KEY_BYTES, Scheme, Share, ShareKeys, Signature, Signer, Signers, Statement,
};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules, quorum};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};

/// The chain that all signatures are bound to.
pub const CHAIN: Digest = Digest([0xC4; 32]);

/// A secret key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    public: PublicKey,
}

impl Key {
    fn new(kind: u64, id: usize) -> Self {
        let mut bytes = [0; 32];
        for (at, part) in bytes.chunks_mut(8).enumerate() {
            part.copy_from_slice(&mix(mix(kind + at as u64).wrapping_add(id as u64)).to_le_bytes());
        }
        Self { public: PublicKey(bytes) }
    }

    /// The key of a replica.
    pub fn of_replica(id: usize) -> Self {
        Self::new(0x100, id)
    }

    /// The key of a replica in an epoch, where all have other keys from one epoch on.
    pub fn of_replica_in(id: usize, epoch: Epoch, second_from: Option<u64>) -> Self {
        match second_from {
            Some(first) if epoch.0 >= first => Self::new(0x400, id),
            _ => Self::of_replica(id),
        }
    }

    /// The share of a replica in the threshold key of an epoch: no key of its own, nor its share in
    /// any other epoch.
    pub fn of_share(id: usize, epoch: Epoch) -> Self {
        Self::new(mix(0x500 + epoch.0), id)
    }

    /// The key of a client.
    pub fn of_client(id: usize) -> Self {
        Self::new(0x200, id)
    }
}

impl ClientSigner for Key {
    fn public_key(&self) -> PublicKey {
        self.public
    }
}

impl Signer for Key {
    fn sign(&self, statement: &Statement) -> Signature {
        seal(&self.public_key(), statement.as_bytes())
    }
}

/// All that a replica signs with, epoch after epoch.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Whose they are.
    pub id: usize,
    /// The epoch from which on it has another key of its own.
    pub second_from: Option<u64>,
    /// Whether members have threshold keys.
    pub have_shares: bool,
}

impl Signer for Keys {
    fn sign(&self, statement: &Statement) -> Signature {
        let (id, epoch) = (self.id, statement.epoch());
        match self.have_shares && statement.is_joined() {
            true => Key::of_share(id, epoch).sign(statement),
            false => Key::of_replica_in(id, epoch, self.second_from).sign(statement),
        }
    }
}

/// A keyed mix of 64 bits at a time: as good as a signature among those who do not compute one for
/// another's key, and a hundred times faster.
fn seal(key: &PublicKey, statement: &[u8]) -> Signature {
    let (words, rest) = statement.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(&last);
    let mut lanes = [0x9E37_79B9_7F4A_7C15_u64, 0xC2B2_AE3D_27D4_EB4F];
    for (at, word) in key.0.as_chunks::<8>().0.iter().chain(words).chain(last).enumerate() {
        let lane = &mut lanes[at % 2];
        let product = u128::from(*lane ^ u64::from_le_bytes(*word)) * 0xD6E8_FEB8_6659_FD93;
        *lane = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
    }
    let mut signature = [0; 64];
    for (at, part) in signature.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *part = mix(lanes[0] ^ mix(lanes[1].wrapping_add(at as u64))).to_le_bytes();
    }
    Signature::from(signature)
}

fn mix(word: u64) -> u64 {
    let mixed = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Signatures joined into one: the exclusive or of all.
fn join(signatures: impl Iterator<Item = Signature>) -> Signature {
    let mut joined = [0; 64];
    for signature in signatures {
        joined.iter_mut().zip(signature.as_bytes()).for_each(|(byte, other)| *byte ^= other);
    }
    Signature::from(joined)
}

/// What the committee signs as one. The adversaries here never compute it.
fn seal_of_all(statement: &Statement) -> Signature {
    seal(&PublicKey([0xA1; 32]), statement.as_bytes())
}

/// What `signer` makes of these bytes.
pub fn replica_seal(signer: ReplicaId, statement: &[u8]) -> Signature {
    seal(&Key::of_replica(signer.index()).public_key(), statement)
}

fn holds(check: &Check) -> bool {
    match check {
        Check::Client { key, statement, signature } => {
            seal(key, statement.as_bytes()) == *signature
        }
        Check::Replica(Share { signer, statement, signature }) => {
            replica_seal(*signer, statement.as_bytes()) == *signature
        }
        Check::Aggregate { parts, signature } => {
            let seals = parts.iter().flat_map(|(statement, signers)| {
                signers.iter().map(move |signer| replica_seal(signer, statement.as_bytes()))
            });
            join(seals) == *signature
        }
        Check::Threshold { statement, signature } => seal_of_all(statement) == *signature,
        Check::Joined { keys, check } => holds_by(keys, check),
        Check::Dealing { round, dealer, dealing } => is_dealt(round, *dealer, dealing),
        Check::Complaint { round, dealer, dealing, .. } => {
            is_dealt(round, *dealer, dealing) && dealing.ends_with(DOES_NOT_FIT)
        }
        Check::EncryptionKey { context, key, proof } => encryption_proof(key, context) == *proof,
    }
}

/// The same by the shares of a threshold key. A committee's signature is of its own key alone, and
/// a member's of its share alone: not of the key that it has for itself.
fn holds_by(keys: &ShareKeys, check: &Check) -> bool {
    let seal_of = |signer: ReplicaId, statement: &Statement| {
        let name = keys.keys().nth(keys.place(signer)?)?.first_chunk()?;
        Some(seal(&PublicKey(*name), statement.as_bytes()))
    };
    match check {
        Check::Threshold { statement, signature } => seal_by(keys, statement) == *signature,
        Check::Replica(Share { signer, statement, signature }) => {
            seal_of(*signer, statement) == Some(*signature)
        }
        Check::Aggregate { parts, signature } => {
            let signed = |(statement, signers): &(Statement, Signers)| -> Option<Vec<_>> {
                signers.iter().map(|signer| seal_of(signer, statement)).collect()
            };
            let seals: Option<Vec<_>> = parts.iter().map(signed).collect();
            seals.is_some_and(|seals| join(seals.into_iter().flatten()) == *signature)
        }
        _ => false,
    }
}

/// What a committee with this threshold key signs as one.
fn seal_by(keys: &ShareKeys, statement: &Statement) -> Signature {
    let bytes = [&keys.digest().0[..], statement.as_bytes()].concat();
    seal(&PublicKey([0xA2; 32]), &bytes)
}

/// Signatures joined, by these shares of a threshold key if there are any.
pub fn combined(form: Form, shares: &[Share], keys: Option<&ShareKeys>) -> Option<Signature> {
    match keys {
        Some(keys) => Mock.combine_by(keys, form, shares),
        None => Mock.combine(form, shares),
    }
}

/// What a replica makes of signatures where clients' requests carry MACs only: of a client's
/// signature it can check the eight bytes that are meant for it. For the laboratory; no replica
/// that people run has such a mode.
pub fn with_authenticators(replica: usize, checks: &[Check]) -> Vec<bool> {
    let holds = |check: &Check| match check {
        Check::Client { key, statement, signature } => {
            let expected = seal(key, statement.as_bytes());
            let own = 8 * replica..8 * replica + 8;
            let (found, expected) =
                (signature.as_bytes().get(own.clone()), expected.as_bytes().get(own));
            found.is_some() && found == expected
        }
        other => holds(other),
    };
    checks.iter().map(holds).collect()
}

/// An authenticator of a client's of which these replicas alone find their part right.
pub fn authenticator_for(client: &Key, statement: &Statement, replicas: &[usize]) -> Signature {
    let mut bytes = [0; 64];
    bytes.copy_from_slice(client.sign(statement).as_bytes());
    for (replica, part) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        if !replicas.contains(&replica) {
            part.iter_mut().for_each(|byte| *byte ^= 0xFF);
        }
    }
    Signature::from(bytes)
}

/// The scheme of [`Key`].
pub struct Mock;

impl Scheme for Mock {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        checks.iter().map(holds).collect()
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        match form {
            Form::List => None,
            Form::Aggregate => Some(join(shares.iter().map(|share| share.signature))),
            // A share that is none spoils the whole.
            Form::Threshold if shares.iter().all(|share| holds(&Check::Replica(*share))) => {
                shares.first().map(|share| seal_of_all(&share.statement))
            }
            Form::Threshold => Some(join(shares.iter().map(|share| share.signature))),
        }
    }

    fn combine_by(&self, keys: &ShareKeys, form: Form, shares: &[Share]) -> Option<Signature> {
        let is_share = |share: &Share| holds_by(keys, &Check::Replica(*share));
        match form {
            Form::Threshold if shares.len() >= keys.quorum() && shares.iter().all(is_share) => {
                shares.first().map(|share| seal_by(keys, &share.statement))
            }
            _ => self.combine(form, shares),
        }
    }
}

/// The committee of the first `n` replicas.
pub fn committee(n: usize) -> Committee {
    let keys = (0..n).map(|id| ReplicaKey::from(Key::of_replica(id).public_key().0)).collect();
    let committee = Committee::new(CHAIN, Epoch(0), keys).expect("a committee of distinct keys");
    crate::planted::committee(committee)
}

/// The administrator's key.
pub fn administrator() -> Key {
    Key::new(0x300, 0)
}

/// A member of this weight with the key that the replica has in all epochs.
pub fn member(id: usize, weight: u16) -> Member {
    member_with(&Key::of_replica(id), weight)
}

/// A member of this weight with this key.
pub fn member_with(key: &Key, weight: u16) -> Member {
    let key = ReplicaKey::from(key.public_key().0);
    Member { weight, ..Member::new(key) }
}

/// The first committee of `n` replicas that an administrator may change.
pub fn governed(n: usize) -> Committee {
    let members = (0..n).map(|id| Some(member(id, 1))).collect();
    let opening = Opening { after: CHAIN, height: Height(0) };
    Committee::with_members(CHAIN, Epoch(0), opening, members, governance())
        .expect("a committee of distinct keys")
}

/// The same, whose members sign with shares of a threshold key.
pub fn governed_by_shares(n: usize) -> Committee {
    let committee = governed(n).under(RULES_OF_SHARES);
    let shares = shares_of(committee.members(), Epoch(0), &Digest::default());
    committee.with_shares(shares).expect("one share for each member that counts")
}

/// The first rules by which members have a threshold key.
pub const RULES_OF_SHARES: Rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };

/// The shares of the members that count, of the key of an epoch, which came of this generation. The
/// arithmetic is left out: a share is the epoch's, whatever was dealt. What members join is sealed
/// with the name of the key, which names the generation.
pub fn shares_of(members: &[Option<Member>], epoch: Epoch, generation: &Digest) -> ShareKeys {
    let counts = |member: &Option<Member>| member.as_ref().is_some_and(|it| !it.is_learner());
    let voters = (0..members.len()).filter(|id| counts(&members[*id]));
    let name = |id: usize| {
        let mut bytes = [0; SHARE_KEY_BYTES];
        bytes[..32].copy_from_slice(&Key::of_share(id, epoch).public.0);
        bytes[32..64].copy_from_slice(&generation.0);
        (ReplicaId(id as u16), bytes)
    };
    let keys: Vec<_> = voters.map(name).collect();
    ShareKeys::new(quorum(keys.len()), keys).expect("members that count")
}

/// The key that shares are encrypted to, of a replica in one plan alone.
pub fn encryption_key(id: usize, ends: Epoch, serial: u64) -> [u8; ENCRYPTION_KEY_BYTES] {
    Key::new(mix(0x600 + (ends.0 << 16) + serial), id).public.0
}

/// The proof that its owner has it.
pub fn encryption_proof(
    key: &[u8; ENCRYPTION_KEY_BYTES],
    context: &Digest,
) -> [u8; ENCRYPTION_PROOF_BYTES] {
    let mut proof = [0; ENCRYPTION_PROOF_BYTES];
    proof.copy_from_slice(seal(&PublicKey(*key), &context.0).as_bytes());
    proof
}

/// What a dealer deals in this round, or what no member can read its share of.
pub fn dealing(round: &Round, dealer: usize, fits: bool) -> Vec<u8> {
    let fits: &[u8] = if fits { b"fits" } else { DOES_NOT_FIT };
    [&round.context.0[..], &dealer.to_le_bytes(), fits].concat()
}

/// What a dealing ends with that cheats.
const DOES_NOT_FIT: &[u8] = b"does not fit";

/// Whether this was dealt in this round by this dealer.
fn is_dealt(round: &Round, dealer: usize, dealing: &[u8]) -> bool {
    [true, false].iter().any(|fits| self::dealing(round, dealer, *fits) == dealing)
}

/// One administrator, who may change the members alone.
pub fn governance() -> Governance {
    Governance { administrators: vec![administrator().public_key()], approvals: 1 }
}

/// Which client a public key belongs to.
pub fn clients_by_key(count: usize) -> BTreeMap<PublicKey, usize> {
    (0..count).map(|id| (Key::of_client(id).public_key(), id)).collect()
}
