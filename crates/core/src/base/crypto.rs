//! What the core knows of signatures: what is signed, and that somebody else does the arithmetic.
//!
//! The core never computes a signature. It says *what* is to be signed ([`Statement`]), *which*
//! signatures must hold ([`Check`]) and which are to be joined ([`Share`]); a [`Scheme`] in
//! `quorate-crypto` does it, on whatever thread the driver likes. What passed is wrapped in
//! [`Verified`], which nothing else can make.
//!
//! Replicas are named by their ids: their keys are the scheme's affair, and differ in kind from one
//! scheme to another. Clients sign with Ed25519 whatever the replicas use, and are named by their
//! [`PublicKey`].

mod round;
mod shares;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::types::{Digest, Epoch, MAX_REPLICAS, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

pub use round::{COMPLAINT_BYTES, ENCRYPTION_KEY_BYTES, ENCRYPTION_PROOF_BYTES, Round};
pub use shares::{SHARE_KEY_BYTES, ShareKeys};

/// A client's public key (Ed25519).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl Encode for PublicKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for PublicKey {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}

/// A signature, of whatever scheme made it: up to [`Signature::MAX_BYTES`] bytes. Ed25519 and ECDSA
/// have 64, BLS12-381 has 48, and where nothing is signed there are none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    length: u8,
    /// Zero beyond `length`, so that equality is that of the signatures.
    bytes: [u8; Self::MAX_BYTES],
}

impl Signature {
    /// The longest signature of any scheme.
    pub const MAX_BYTES: usize = 64;

    /// The signature of schemes that sign nothing.
    pub const NONE: Self = Self { length: 0, bytes: [0; Self::MAX_BYTES] };

    /// A signature of these bytes; `None` if they are too many.
    #[must_use]
    pub fn new(signature: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..signature.len())?.copy_from_slice(signature);
        Some(Self { length: signature.len() as u8, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<[u8; 64]> for Signature {
    fn from(bytes: [u8; 64]) -> Self {
        Self { length: 64, bytes }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sig {:02x}{:02x}", self.bytes[0], self.bytes[1])
    }
}

impl Encode for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.length);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Decode for Signature {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let length = usize::from(reader.u8()?);
        if length > Self::MAX_BYTES {
            return Err(DecodeError::Invalid { field: "length of a signature" });
        }
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..length].copy_from_slice(&reader.take(length)?);
        Ok(Self { length: length as u8, bytes })
    }
}

/// A set of replicas: one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signers {
    words: [u64; MAX_REPLICAS / 64],
}

impl Signers {
    /// Adds a replica. Says whether it is new; a place beyond [`MAX_REPLICAS`] never is.
    pub fn insert(&mut self, replica: ReplicaId) -> bool {
        let Some(word) = self.words.get_mut(replica.index() / 64) else { return false };
        let bit = 1 << (replica.index() % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether a replica is among them.
    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        let word = self.words.get(replica.index() / 64).copied().unwrap_or(0);
        word >> (replica.index() % 64) & 1 == 1
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The replicas, ascending. Costs what there are, not what there may be: certificates that
    /// name their signers otherwise ask this of an empty set.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        self.words.into_iter().enumerate().flat_map(|(place, word)| {
            let bits = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            let ids = bits.take_while(|rest| *rest != 0).map(u64::trailing_zeros);
            ids.map(move |bit| ReplicaId(place as u16 * 64 + bit as u16))
        })
    }
}

impl FromIterator<ReplicaId> for Signers {
    fn from_iter<I: IntoIterator<Item = ReplicaId>>(replicas: I) -> Self {
        let mut signers = Self::default();
        for replica in replicas {
            signers.insert(replica);
        }
        signers
    }
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Signers {
    /// The number of bytes up to the last one that is not zero, and these bytes: bit i of byte k
    /// is replica 8k + i.
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = self.words.map(u64::to_le_bytes);
        let bytes = bytes.as_flattened();
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.push(length as u8);
        out.extend_from_slice(&bytes[..length]);
    }
}

impl Decode for Signers {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let length = usize::from(reader.u8()?);
        if length > MAX_REPLICAS / 8 {
            return Err(DecodeError::Invalid { field: "length of a set of signers" });
        }
        let bytes = reader.take(length)?;
        if bytes.last() == Some(&0) {
            return Err(DecodeError::Invalid { field: "zero at the end of a set of signers" });
        }
        let mut words = [0; MAX_REPLICAS / 64];
        for (at, byte) in bytes.iter().enumerate() {
            words[at / 8] |= u64::from(*byte) << (8 * (at % 8));
        }
        Ok(Self { words })
    }
}

/// What kind of thing a signature is about. Part of every signed message, so that none can be
/// passed off as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A vote for a block.
    Vote = 1,
    /// A time-out of a view, with the view of the signer's high QC.
    TimeOut = 2,
    /// A client's frame of commands.
    Frame = 3,
    /// A replica's answer to another that lost its data folder (highest view it may have seen).
    Testimony = 4,
    /// What became of a client's frame, as a replica tells the client.
    Outcome = 5,
    /// An administrator's signature under a change of the members.
    Approval = 6,
    /// A next member's word that it has caught up, and holds its key of the next epoch.
    Readiness = 7,
    /// An administrator's signature under a directive on clients.
    Directive = 8,
    /// An owner's signature in a genesis ceremony, before the chain has its identity.
    Genesis = 9,
    /// An administrator's signature under the beginning of a key generation.
    Generation = 10,
    /// A next member's signature under what it deals in a key generation.
    Dealing = 11,
    /// The owner of an output that a payment spends.
    Payment = 16,
}

/// The exact bytes of a signed message: domain, chain, epoch, protocol, kind, view, phase, content.
/// The chain's identity covers the scheme, so that no signature serves under another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    bytes: [u8; Statement::LENGTH],
}

impl Statement {
    /// Bytes in a statement.
    pub const LENGTH: usize = 16 + 32 + 8 + 1 + 1 + 8 + 1 + 32;

    /// Spells a statement out. `protocol` is the number of the protocol (0 for client frames);
    /// `phase` tells the votes of one view apart where a protocol has several.
    #[must_use]
    pub fn new(
        chain: &Digest,
        epoch: Epoch,
        protocol: u8,
        kind: Kind,
        view: View,
        phase: u8,
        content: &Digest,
    ) -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes[..16].copy_from_slice(b"quorate/signed/1");
        bytes[16..48].copy_from_slice(&chain.0);
        bytes[48..56].copy_from_slice(&epoch.0.to_le_bytes());
        bytes[56] = protocol;
        bytes[57] = kind as u8;
        bytes[58..66].copy_from_slice(&view.0.to_le_bytes());
        bytes[66] = phase;
        bytes[67..].copy_from_slice(&content.0);
        Self { bytes }
    }

    /// What a client signs for a frame whose digest is `frame`. Bound to the chain alone: a
    /// session outlives epochs.
    #[must_use]
    pub fn frame(chain: &Digest, frame: &Digest) -> Self {
        Self::new(chain, Epoch(0), 0, Kind::Frame, View(0), 0, frame)
    }

    /// What the owner of an output signs for a payment whose digest is `payment`. Bound to the
    /// chain alone: an output outlives epochs.
    #[must_use]
    pub fn payment(chain: &Digest, payment: &Digest) -> Self {
        Self::new(chain, Epoch(0), 0, Kind::Payment, View(0), 0, payment)
    }

    /// What an owner signs before the chain begins: `content`, in the part `part` of the ceremony
    /// `ceremony`. That is the digest of what the owners began with, in the place of a chain's
    /// identity: so the signature serves in no other ceremony, and in no chain.
    #[must_use]
    pub fn genesis(ceremony: &Digest, part: u8, content: &Digest) -> Self {
        Self::new(ceremony, Epoch(0), 0, Kind::Genesis, View(0), part, content)
    }

    /// The epoch that it names; of what is bound to the chain alone, the first.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        let mut epoch = [0; 8];
        epoch.copy_from_slice(&self.bytes[48..56]);
        Epoch(u64::from_le_bytes(epoch))
    }

    /// Whether signatures of it are joined into certificates. A member of a committee with a
    /// threshold key signs such a statement with its share, and all others with its own key.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.bytes[57] == Kind::Vote as u8 || self.bytes[57] == Kind::TimeOut as u8
    }

    /// The bytes to sign or verify.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Something that cryptography has to confirm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// A client signed this.
    Client {
        /// Who.
        key: PublicKey,
        /// What.
        statement: Statement,
        /// The signature.
        signature: Signature,
    },
    /// A replica signed this.
    Replica(Share),
    /// Replicas signed these, and their signatures were joined into one.
    Aggregate {
        /// Who signed what: each statement once, each replica once.
        parts: Arc<[(Statement, Signers)]>,
        /// The joined signature.
        signature: Signature,
    },
    /// A quorum signed this, and their signatures were joined into the committee's.
    Threshold {
        /// What.
        statement: Statement,
        /// The committee's signature.
        signature: Signature,
    },
    /// One of the three above, by the shares of this threshold key.
    Joined {
        /// The shares' public keys.
        keys: Arc<ShareKeys>,
        /// What is checked: a [`Self::Joined`] in it never holds.
        check: Box<Check>,
    },
    /// All of a dealing that needs no secret is as it must be.
    Dealing {
        /// What the dealers agreed on.
        round: Arc<Round>,
        /// The dealer's place in it.
        dealer: usize,
        /// The dealing.
        dealing: Bytes,
    },
    /// A dealing hides a share that does not fit.
    Complaint {
        /// What the dealers agreed on.
        round: Arc<Round>,
        /// The dealer's place in it.
        dealer: usize,
        /// The dealing.
        dealing: Bytes,
        /// The place of the dealer that complains.
        recipient: usize,
        /// The secret that shows the share, and its proof.
        evidence: [u8; COMPLAINT_BYTES],
    },
    /// The owner of a key that shares are encrypted to knows its secret half.
    EncryptionKey {
        /// What the proof is made for: it serves nowhere else.
        context: Digest,
        /// The key.
        key: [u8; ENCRYPTION_KEY_BYTES],
        /// The proof.
        proof: [u8; ENCRYPTION_PROOF_BYTES],
    },
}

impl Check {
    /// The signature that has to hold; none of what is proved and not signed.
    #[must_use]
    pub fn signature(&self) -> Option<&Signature> {
        match self {
            Self::Client { signature, .. }
            | Self::Replica(Share { signature, .. })
            | Self::Aggregate { signature, .. }
            | Self::Threshold { signature, .. } => Some(signature),
            Self::Joined { check, .. } => check.signature(),
            Self::Dealing { .. } | Self::Complaint { .. } | Self::EncryptionKey { .. } => None,
        }
    }

    /// What it costs to verify, in signatures of a batch. Limits on checks count this: a dealing
    /// costs hundreds. Reading a point of BLS12-381 in G2, or multiplying one, costs about four.
    #[must_use]
    pub fn weight(&self) -> usize {
        /// A pairing, or a proof over ristretto255.
        const PROOF: usize = 32;
        let read = |round: &Round| PROOF + round.keys.len() / 4 + 4 * round.quorum;
        match self {
            Self::Client { .. }
            | Self::Replica(_)
            | Self::Aggregate { .. }
            | Self::Threshold { .. } => 1,
            // What all members signed with shares that nobody knows yet costs as many keys.
            Self::Joined { .. } => 10,
            Self::Dealing { round, .. } => read(round),
            Self::Complaint { round, .. } => read(round) + PROOF + 4 * round.quorum,
            Self::EncryptionKey { .. } => 4,
        }
    }

    /// Whether it may be remembered that it holds: it is short, and not of keys that anybody may
    /// have made up.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        match self {
            Self::Client { .. }
            | Self::Replica(_)
            | Self::Aggregate { .. }
            | Self::Threshold { .. } => true,
            Self::Joined { .. }
            | Self::Dealing { .. }
            | Self::Complaint { .. }
            | Self::EncryptionKey { .. } => false,
        }
    }

    /// Whether replicas signed it in this epoch, and it is [joined](Statement::is_joined).
    #[must_use]
    pub fn is_of_joined(&self, epoch: Epoch) -> bool {
        self.is_of_all(|statement| statement.epoch() == epoch && statement.is_joined())
    }

    /// The same in any epoch.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.is_of_all(Statement::is_joined)
    }

    /// Whether replicas signed it, and this is true of each statement.
    fn is_of_all(&self, is: impl Fn(&Statement) -> bool) -> bool {
        match self {
            Self::Replica(Share { statement, .. }) | Self::Threshold { statement, .. } => {
                is(statement)
            }
            Self::Aggregate { parts, .. } => parts.iter().all(|(part, _)| is(part)),
            _ => false,
        }
    }

    /// The epoch in which replicas signed it, if they did.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Replica(Share { statement, .. }) | Self::Threshold { statement, .. } => {
                Some(statement.epoch())
            }
            Self::Aggregate { parts, .. } => parts.first().map(|(part, _)| part.epoch()),
            Self::Joined { check, .. } => check.epoch(),
            _ => None,
        }
    }
}

/// A replica's signature of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// Who signed.
    pub signer: ReplicaId,
    /// What.
    pub statement: Statement,
    /// The signature.
    pub signature: Signature,
}

/// How the signatures of a certificate are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Each by itself, beside its signer.
    List,
    /// Joined into one, beside the set of signers.
    Aggregate,
    /// Joined into the signature of the committee, which does not tell who signed.
    Threshold,
}

/// A signature scheme of a committee, beside the one of its clients. Implementations live in
/// `quorate-crypto`; tests may bring a mock.
pub trait Scheme: Send + Sync {
    /// Which of `checks` hold, in order. An implementation verifies them as one batch and looks
    /// for the bad ones, by bisection, only if the batch fails. The verdict on each must not
    /// depend on the others: single and batch verification agree on every input.
    fn verify(&self, checks: &[Check]) -> Vec<bool>;

    /// Joins signatures that hold, of different replicas: for [`Form::Threshold`] at least q, all
    /// of one statement. `None` if the scheme knows no such joining, or one of them is none of its
    /// signatures.
    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature>;

    /// The same of signatures by the shares of this threshold key. `None` if the scheme knows none.
    fn combine_by(&self, keys: &ShareKeys, form: Form, shares: &[Share]) -> Option<Signature> {
        let _ = (keys, form, shares);
        None
    }
}

/// Somebody who can sign: holds the secret key.
pub trait Signer: Send + Sync {
    /// Signs. Deterministic: the same statement gives the same signature, so that a message sent
    /// again after a restart is the same message.
    fn sign(&self, statement: &Statement) -> Signature;
}

/// A client that can sign.
pub trait ClientSigner: Signer {
    /// The public half of its key.
    fn public_key(&self) -> PublicKey;
}

/// A value all of whose signatures were checked. Made only by [`Claim::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The value, by move.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value that is well formed, beside the signatures it still rests on.
#[derive(Clone, Debug)]
pub struct Claim<T> {
    value: T,
    checks: Vec<Check>,
}

impl<T> Claim<T> {
    /// A claim that `value` holds if all of `checks` do. For the modules that know which
    /// signatures a value needs.
    pub(crate) fn new(value: T, checks: Vec<Check>) -> Self {
        Self { value, checks }
    }

    /// The signatures to be checked.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The value, not to be believed.
    pub fn unverified(&self) -> &T {
        &self.value
    }

    /// Closes the claim with one verdict a check. Anything but `true` for every check refuses it.
    pub fn settle(self, verdicts: &[bool]) -> Option<Verified<T>> {
        let all = verdicts.len() == self.checks.len() && verdicts.iter().all(|verdict| *verdict);
        all.then_some(Verified(self.value))
    }
}
