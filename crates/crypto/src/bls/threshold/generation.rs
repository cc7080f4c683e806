//! Distributed key generation: a threshold key that nobody ever knows as a whole.
//!
//! Every member is a dealer. Dealer d draws a polynomial f_d of degree t − 1, where t is the
//! quorum, and publishes one *dealing*:
//!
//! | part | for |
//! |---|---|
//! | the commitments a₀·g₂, …, a_{t−1}·g₂ to the coefficients of f_d | checking shares (Feldman, FOCS 1987) |
//! | the share f_d(i + 1) of each member i, encrypted to that member | the members |
//! | a proof that the dealer knows a₀ | no key is made up of other dealers' commitments |
//! | a proof that the dealer knows the randomness of the encryption | nobody reuses another's ciphertexts |
//!
//! A member decrypts its share and checks it against the commitments. If the share does not fit, it
//! publishes a *complaint*: the shared secret of this one encryption, with a proof that it is the
//! right one. So everybody can decrypt that share and see who lies. One valid complaint
//! disqualifies its dealer. The committee's key is the sum over the qualified dealers: the secret
//! is Σ f_d(0), the share of member i is Σ f_d(i + 1). (Pedersen, "A Threshold Cryptosystem without
//! a Trusted Party", EUROCRYPT 1991; called Joint-Feldman by Gennaro, Jarecki, Krawczyk, Rabin,
//! "Secure Distributed Key Generation for Discrete-Log Based Cryptosystems", Journal of Cryptology
//! 2007.)
//!
//! Everybody who has the same dealings and complaints gets the same result, whether it holds a
//! share or not. Nothing here reads a clock or the system's randomness.
//!
//! # What is guaranteed
//!
//! * **Secrecy.** At least t dealers must qualify. So fewer than t members that share all they know
//!   lack the polynomial of one qualified dealer, and have fewer than t of its values.
//! * **Progress.** A correct dealer whose dealing was taken always qualifies, as no valid complaint
//!   against it exists. So the n − f = t correct ones are enough. All members must take the same
//!   dealings: who deals twice, or to some only, leaves it to the members to agree which counts.
//!   The last dealer can make its own share nothing, so that there is no key. Once all have
//!   complained, nobody but the member without a share can have done so ([`Failed::OwnShare`]):
//!   the next key generation goes on without it.
//! * **Every correct member has its share.** It complains of every share that does not fit.
//!
//! # What is not
//!
//! Only a₀ is proved. The commitments to the other coefficients may be any points. While fewer than
//! t members collude that does no harm to signatures under the committee's key. It matters for sums
//! under the *members'* keys (time-outs): of n = 7, four that collude can choose a coefficient with
//! which one of them has a key that cancels others' in a weighted sum. That member then has no
//! share, and can sign nothing. So whoever uses the keys asks every member to sign once with its
//! share, and begins only when all have. The genesis ceremony does: its signatures are the proof of
//! possession of the members' keys. Another user of [`Generation`] must do the same.
//!
//! The key is not uniform. The last dealer sees the other commitments, and may choose its own, or
//! provoke its own disqualification, to set some bits of the public key (Gennaro et al., section
//! 3). For BLS signatures under the committee's key this is harmless: whoever forges under the
//! biased key can forge under a uniform one (Gurkan, Jovanovic, Maller, Meiklejohn, Stern, Tomescu,
//! "Aggregatable Distributed Key Generation", EUROCRYPT 2021, which proves it for Pedersen's key
//! generation). The proof does not cover sums under members' keys.
//!
//! # Encryption
//!
//! Each member has a key pair of ristretto255 for this purpose alone ([`DecryptionKey`]). A share
//! is hidden by a hash of the Diffie-Hellman secret r·X, where X is the member's key and R = r·B is
//! in the dealing. The hash covers the round, the dealer and the member, so one R serves all
//! members (Kurosawa, "Multi-recipient Public-Key Encryption with Shortened Ciphertext", PKC 2002).
//!
//! The proof of r is essential. Without it, a liar copies R from a correct dealing and encrypts
//! nonsense with it. The complaints about the liar then reveal the secrets r·X of the *correct*
//! dealing, and with them all its shares.

mod complaint;
mod dealing;
mod encryption;
mod outcome;

#[cfg(test)]
mod tests;

use quorate_core::base::membership::MAX_REPLICAS;

pub use complaint::{COMPLAINT_BYTES, Complaint, ComplaintProblem};
pub use dealing::{Dealing, DealingFault};
pub use encryption::{DecryptionKey, ENCRYPTION_KEY_BYTES, EncryptionKey, PROOF_BYTES};
pub use outcome::{Failed, Generation, Outcome, ShareError};

/// What all members agree on before they deal: who they are, how many sign, and what the key is
/// for.
#[derive(Clone, Debug)]
pub struct Round {
    context: [u8; 32],
    keys: Vec<EncryptionKey>,
    quorum: usize,
}

/// The reason why members cannot generate a key together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// The quorum is impossible for this number of members.
    #[error(
        "{quorum} of {members} members cannot be the quorum: it is 1 to {members}, of at most \
         {MAX_REPLICAS} members"
    )]
    Size {
        /// The requested quorum.
        quorum: usize,
        /// The number of members.
        members: usize,
    },
    /// A member's encryption key is no point, or the neutral element.
    #[error("the encryption key of member {0} is no key: take it again from the member")]
    Key(usize),
    /// Two members have one encryption key.
    #[error("members {0} and {1} have one encryption key: one of them makes another")]
    Shared(usize, usize),
}

impl Round {
    /// A round for the members with these encryption keys, in the order of their ids. `quorum` of
    /// them sign for the committee. `context` is a digest of all else that the members agree on. A
    /// dealing counts in the round with exactly these values.
    ///
    /// # Errors
    /// [`RoundError`].
    pub fn new(
        context: [u8; 32],
        keys: &[[u8; ENCRYPTION_KEY_BYTES]],
        quorum: usize,
    ) -> Result<Self, RoundError> {
        let members = keys.len();
        if quorum == 0 || quorum > members || members > MAX_REPLICAS {
            return Err(RoundError::Size { quorum, members });
        }
        let read = keys.iter().enumerate();
        let read = read.map(|(at, key)| EncryptionKey::read(key).ok_or(RoundError::Key(at)));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        for (second, key) in read.iter().enumerate() {
            if let Some(first) = read[..second].iter().position(|other| other == key) {
                return Err(RoundError::Shared(first, second));
            }
        }
        let mut hasher = blake3::Hasher::new_derive_key("quorate bls12-381 generation round 1");
        hasher.update(&context);
        hasher.update(&(quorum as u64).to_le_bytes());
        hasher.update(keys.as_flattened());
        Ok(Self { context: *hasher.finalize().as_bytes(), keys: read, quorum })
    }

    /// The number of members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.keys.len()
    }

    /// The encryption key of a member.
    #[must_use]
    pub fn key(&self, member: usize) -> Option<EncryptionKey> {
        self.keys.get(member).copied()
    }

    /// The number of members that sign for the committee, and of dealers that must qualify.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }
}
