//! BLS signatures of a committee as a whole: any quorum of its replicas can make one, and it is 48
//! bytes whoever they were.
//!
//! A dealer draws a polynomial f of degree t − 1 over the numbers modulo r, t being the quorum, and
//! gives replica i (from 0) the share f(i + 1). The committee's key is f(0)·g₂. Replica i signs
//! with its share; t signatures of one message, of whichever replicas, are points of the curve
//! x ↦ f(x)·H(m) of degree t − 1, so by Lagrange they determine f(0)·H(m), the one signature of
//! the committee. (Boldyreva, "Threshold Signatures, Multisignatures and Blind Signatures Based on
//! the Gap-Diffie-Hellman-Group Signature Scheme", PKC 2003.) Fewer than t determine nothing.
//!
//! Votes are joined so. Everything else (time-outs differ in what they say) is signed with the same
//! shares, verified under f(i + 1)·g₂, and joined by addition, with weights.
//!
//! # Why the sum has weights
//!
//! The keys are not independent: any t + 1 of them, and any t + 1 signatures of one message, satisfy a
//! linear equation that everybody knows. A plain sum would be forged by it. With five replicas and
//! t = 4,
//!
//! f(1) + f(5) = 4f(2) − 6f(3) + 4f(4),
//!
//! so *three* signatures of one message make the sum of the *four* of replicas 0, 1, 3 and 4, two of
//! whom never signed. Therefore a joined signature is Σ aᵢσᵢ, verified under Σ aᵢXᵢ, where the aᵢ
//! have 128 bits and are hashed from the list of all signers and their messages, in the order of
//! the signers (as in Boneh, Drijvers, Neven, "Compact Multi-Signatures for Smaller Blockchains",
//! ASIACRYPT 2018). If somebody on the list did not sign and fewer than t did, the sum is known to
//! those who did only if the aᵢ hit an equation nobody could choose: once in 2¹²⁸ lists.
//!
//! # What needs no proof of possession
//!
//! A replica does not choose its key: the dealer chose all of them, so none is made up of others',
//! which is what the proofs of [`super::possession`] are against. A dealer who wants to cheat need
//! not: it knows every share. What is checked when the committee is loaded is that all keys lie on
//! one polynomial of degree t − 1 exactly ([`Committee::read`]): keys mixed from two runs
//! would make signatures that hold and certificates that do not, and a smaller degree would let
//! fewer than t sign.
//!
//! # What a share does not prove
//!
//! From t shares of one message, everybody can compute those of all others. So a share that holds
//! proves that its replica signed, or that t others did. Certificates lose nothing by it. But two
//! shares of one replica for statements that exclude each other are *no proof* that it lied.

mod committee;
mod dealer;
mod dealing;
mod lagrange;

#[cfg(test)]
mod tests;

pub use committee::Committee;
pub use dealer::{Deal, DealError, deal};

/// The tag of statements.
pub const SIGNATURE_DOMAIN: &[u8] = b"QUORATE_V1_THRESHOLD_BLS12381G1_XMD:SHA-256_SSWU_RO_";
