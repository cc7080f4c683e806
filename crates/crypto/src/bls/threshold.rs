//! Threshold BLS signatures: any quorum of the replicas can make the committee's one signature of
//! 48 bytes.
//!
//! A dealer, or the members together ([`generation`]), draws a polynomial f of degree t − 1 over
//! the numbers modulo r, where t is the quorum. Replica i (from 0) gets the share f(i + 1). The
//! committee's key is f(0)·g₂. Replica i signs with its share. Any t signatures of one message are
//! points of the curve x ↦ f(x)·H(m) of degree t − 1, so by Lagrange they determine f(0)·H(m), the
//! one signature of the committee. (Boldyreva, "Threshold Signatures, Multisignatures and Blind
//! Signatures Based on the Gap-Diffie-Hellman-Group Signature Scheme", PKC 2003.) Fewer than t
//! determine nothing.
//!
//! Votes are joined in this way. Other messages (time-outs, which differ in content) are signed
//! with the same shares, verified under f(i + 1)·g₂, and joined by a weighted sum.
//!
//! # Why the sum has weights
//!
//! The keys are not independent: any t + 1 of them, and any t + 1 signatures of one message,
//! satisfy a public linear equation. It could be used to forge a plain sum. With five replicas and
//! t = 4,
//!
//! f(1) + f(5) = 4f(2) − 6f(3) + 4f(4),
//!
//! so *three* signatures of one message give the sum of the *four* of replicas 0, 1, 3 and 4, two
//! of which never signed. Therefore a joined signature is Σ aᵢσᵢ, verified under Σ aᵢXᵢ. The aᵢ
//! have 128 bits and are hashed from the list of all signers and their messages, in the order of
//! the signers (as in Boneh, Drijvers, Neven, "Compact Multi-Signatures for Smaller Blockchains",
//! ASIACRYPT 2018). Suppose that a replica on the list did not sign, and fewer than t did. The
//! signers can compute the sum only if the aᵢ satisfy an equation that nobody could choose: once in
//! 2¹²⁸ lists.
//!
//! # Why no proof of possession is needed
//!
//! A replica does not choose its key. The dealer chooses all of them, so no key is derived from
//! others' keys, which is the attack that [`super::possession`] prevents. A dishonest dealer needs
//! no such attack: it knows every share. Where the members generate the key together, each proves
//! that it knows what it adds to the committee's secret. That says nothing about the members' keys:
//! each member has to sign once with its share before the keys are used ([`generation`], "What is
//! not"). When the committee is loaded, [`Committee::read`] checks that all keys lie on one
//! polynomial of degree t − 1 exactly. Keys mixed from two runs would make valid signatures but
//! invalid certificates. With a smaller degree, fewer than t replicas could sign.
//!
//! # What a share does not prove
//!
//! From t shares of one message, anybody can compute the shares of all others. So a valid share
//! proves that its replica signed, or that t others did. Certificates lose nothing by that. But two
//! shares of one replica for contradictory statements are *no proof* that it lied.

mod committee;
mod dealer;
mod dealing;
pub mod generation;
mod lagrange;

#[cfg(test)]
mod tests;

pub use committee::Committee;
pub use dealer::{Deal, DealError, deal};

/// The tag of statements.
pub const SIGNATURE_DOMAIN: &[u8] = b"QUORATE_V1_THRESHOLD_BLS12381G1_XMD:SHA-256_SSWU_RO_";
