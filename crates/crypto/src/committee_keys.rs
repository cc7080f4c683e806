//! The public keys of a committee, as read from its configuration file, and the errors in them.

use crate::scheme_name::SchemeName;

/// The file's entry for one replica's key.
#[derive(Clone, Copy, Debug)]
pub struct MemberKey<'a> {
    /// The public key.
    pub key: &'a [u8],
    /// The proof of possession, for schemes that need one.
    pub possession: Option<&'a [u8]>,
}

/// The file's entry for a group key.
#[derive(Clone, Copy, Debug)]
pub struct GroupKey<'a> {
    /// The committee's public key.
    pub key: &'a [u8],
    /// The number of shares that make a signature. Only the quorum is safe.
    pub quorum: usize,
}

/// The reason why a list of keys is not valid for a committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteeKeyError {
    /// One replica's key cannot be trusted.
    #[error("replica {replica}: its {scheme} public key {problem}")]
    Replica {
        /// The replica's id.
        replica: usize,
        /// The committee's scheme.
        scheme: SchemeName,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// Two replicas have one key, so its owner would count twice.
    #[error(
        "replicas {first} and {second} have the same public key: \
         make a new key for one of them"
    )]
    Shared {
        /// The first replica with the key.
        first: usize,
        /// The second one.
        second: usize,
    },
    /// The committee's group key cannot be trusted.
    #[error("the committee's {scheme} group key {problem}")]
    Group {
        /// The committee's scheme.
        scheme: SchemeName,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// A group key is missing, or the scheme has none.
    #[error(
        "the scheme {scheme} {}",
        if scheme.is_dealt() {
            "needs the committee's group key: add the one the dealer printed"
        } else {
            "has no group key: take it out, or name the scheme the keys were dealt for"
        }
    )]
    GroupPresence {
        /// The committee's scheme.
        scheme: SchemeName,
    },
    /// The quorum is impossible for this number of replicas.
    #[error(
        "{quorum} of {members} shares cannot be asked for: \
         deal the keys again for a quorum between 1 and {members}"
    )]
    Quorum {
        /// The requested quorum.
        quorum: usize,
        /// The number of replicas.
        members: usize,
    },
    /// The dealt keys do not come from one run of the dealer.
    #[error("the dealt keys do not belong together: {0}")]
    Dealing(DealingProblem),
}

/// The way in which dealt keys fail to lie on one polynomial of degree quorum − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealingProblem {
    /// One share does not fit; all others do.
    #[error(
        "replica {0}'s does not fit the others: copy it again from the dealer's output, \
         and see that the replicas are in the dealer's order"
    )]
    Replica(usize),
    /// The group key does not fit; all shares do.
    #[error("the group key does not fit the shares: copy it again from the dealer's output")]
    Group,
    /// Several keys do not fit, or there are too few to tell which.
    #[error(
        "it cannot be told which are wrong: copy all of them again from one run of the dealer, in \
         its order, or deal again for this number of replicas"
    )]
    Several,
    /// All keys lie on a polynomial of smaller degree, so fewer than a quorum could sign.
    #[error("fewer than a quorum of them can sign: deal again for this number of replicas")]
    Degree,
}

/// The reason why bytes are not a trustworthy public key. The text continues "the public key of
/// replica 3", and ends with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// The length is wrong.
    #[error(
        "has {found} bytes where the scheme's keys have {expected}: \
         it was cut short or made for another scheme"
    )]
    Length {
        /// The length of the scheme's keys, in bytes.
        expected: usize,
        /// The length found, in bytes.
        found: usize,
    },
    /// Not a point of the curve, or not in its only valid encoding.
    #[error("is no point of the scheme's curve: copy it again from where the key was made")]
    NotOnCurve,
    /// The neutral element.
    #[error("is the point at infinity, for which anybody can sign: make a new key")]
    Infinity,
    /// On the curve, but not in the group of prime order.
    #[error("lies outside the group of prime order, so no key generator made it: make a new key")]
    OutsideSubgroup,
    /// The scheme requires a proof of possession and there is none.
    #[error(
        "comes without a proof of possession, so it may be made up of the others' keys: \
         add the proof that was printed when the key was made"
    )]
    NoPossession,
    /// The proof of possession does not belong to this key.
    #[error(
        "comes with a proof of possession that does not hold for it: \
         copy both again from where the key was made"
    )]
    FalsePossession,
    /// There is a proof, but the scheme has none.
    #[error(
        "comes with a proof of possession, which the scheme does not have: \
         the key was made for another scheme, or the proof has to go"
    )]
    UselessPossession,
}
