//! The public keys of a committee as a person's file has them, and what may be wrong with them.

use crate::scheme_name::SchemeName;

/// What the file says of one replica's key.
#[derive(Clone, Copy, Debug)]
pub struct MemberKey<'a> {
    /// The public key.
    pub key: &'a [u8],
    /// The proof of possession, for schemes that need one.
    pub possession: Option<&'a [u8]>,
}

/// What the file says of a key that was shared out.
#[derive(Clone, Copy, Debug)]
pub struct GroupKey<'a> {
    /// The committee's public key.
    pub key: &'a [u8],
    /// How many shares make a signature: the quorum, and nothing else is safe.
    pub quorum: usize,
}

/// Why a list of keys is none of a committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteeKeyError {
    /// One replica's key is not to be trusted.
    #[error("replica {replica}: its {scheme} public key {problem}")]
    Replica {
        /// Which, from 0.
        replica: usize,
        /// The committee's scheme.
        scheme: SchemeName,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// Two replicas with one key would count twice for one will.
    #[error(
        "replicas {first} and {second} have the same public key: \
         make a new key for one of them"
    )]
    Shared {
        /// The one that has it first.
        first: usize,
        /// The other.
        second: usize,
    },
    /// The committee's key is not to be trusted.
    #[error("the committee's {scheme} group key {problem}")]
    Group {
        /// The committee's scheme.
        scheme: SchemeName,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// The scheme needs a key of the committee, or has none.
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
    /// No such number of shares can be asked for.
    #[error(
        "{quorum} of {members} shares cannot be asked for: \
         deal the keys again for a quorum between 1 and {members}"
    )]
    Quorum {
        /// What was asked for.
        quorum: usize,
        /// How many replicas there are.
        members: usize,
    },
    /// The dealt keys do not belong together.
    #[error("the dealt keys do not belong together: {0}")]
    Dealing(DealingProblem),
}

/// How dealt keys fail to lie on one polynomial of degree quorum − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealingProblem {
    /// All others do.
    #[error(
        "replica {0}'s does not fit the others: copy it again from the dealer's output, \
         and see that the replicas are in the dealer's order"
    )]
    Replica(usize),
    /// All shares do.
    #[error("the group key does not fit the shares: copy it again from the dealer's output")]
    Group,
    /// Several do not, or there are too few to tell which.
    #[error(
        "it cannot be told which are wrong: copy all of them again from one run of the dealer, in \
         its order, or deal again for this number of replicas"
    )]
    Several,
    /// All lie on one of a smaller degree, so that fewer than a quorum could sign.
    #[error("fewer than a quorum of them can sign: deal again for this number of replicas")]
    Degree,
}

/// Why bytes are no public key one may trust. The text goes on after "the public key of replica 3",
/// and ends with what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// Too many bytes, or too few.
    #[error(
        "has {found} bytes where the scheme's keys have {expected}: \
         it was cut short or made for another scheme"
    )]
    Length {
        /// Bytes a key of the scheme has.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// No point of the curve, or one in an encoding that is not the only one.
    #[error("is no point of the scheme's curve: copy it again from where the key was made")]
    NotOnCurve,
    /// The neutral element.
    #[error("is the point at infinity, for which anybody can sign: make a new key")]
    Infinity,
    /// On the curve, but not in the group of prime order.
    #[error("lies outside the group of prime order, so no key generator made it: make a new key")]
    OutsideSubgroup,
    /// The scheme asks for a proof of possession and there is none.
    #[error(
        "comes without a proof of possession, so it may be made up of the others' keys: \
         add the proof that was printed when the key was made"
    )]
    NoPossession,
    /// The proof of possession is none of this key.
    #[error(
        "comes with a proof of possession that does not hold for it: \
         copy both again from where the key was made"
    )]
    FalsePossession,
    /// There is a proof where the scheme has none.
    #[error(
        "comes with a proof of possession, which the scheme does not have: \
         the key was made for another scheme, or the proof has to go"
    )]
    UselessPossession,
}
