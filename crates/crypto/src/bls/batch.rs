//! Batch verification: many signatures are verified by one product of pairings. A batch that fails
//! is halved.
//!
//! A *claim* is the equation e(σ, g₂) = Π e(H(mⱼ), Xⱼ). A replica's signature has one part (m, X);
//! an aggregate has a part for every message in it. A batch of claims holds if
//!
//! e(Σ zᵢσᵢ, −g₂) · Π over messages m of e(H(m), Σ zᵢXᵢₘ) = 1.
//!
//! So a thousand signatures of one message cost two pairings and two multiplications of many
//! points. Each message is hashed once, however many claims and halvings include it.
//!
//! The zᵢ have 128 bits and are hashed from the whole content of the batch. Without them, two false
//! signatures σ₁ + Δ and σ₂ − Δ would pass together. With them, an attacker needs 2¹²⁸ attempts,
//! since each attempt changes all zᵢ. (Bellare, Garay, Rabin, "Fast Batch Verification for Modular
//! Exponentiation and Digital Signatures", EUROCRYPT 1998.) 64 bits would suffice if the zᵢ were
//! drawn at random after the claims are known. But the author of the claims can compute these zᵢ,
//! and try without limit.
//!
//! The zᵢ do not cover the parts of a point outside the groups of prime order, so every signature
//! is checked to be inside.

use std::collections::HashMap;
use std::ops::Range;

use blst::blst_fp12;

use super::curve::{
    G1, G2, combine_g1, combine_g2, hash, is_infinity_g1, is_infinity_g2, key_bytes,
    minus_generator, read_signature,
};
use quorate_core::planted;

/// The length of a zᵢ, in bytes.
const COEFFICIENT_BYTES: usize = 16;

type Coefficient = [u8; COEFFICIENT_BYTES];

/// Claims to be verified together.
pub(super) struct Batch<'m> {
    domain: &'static [u8],
    /// The index of each message in `hashes`.
    messages: HashMap<&'m [u8], usize>,
    hashes: Vec<G1>,
    claims: Vec<Claim>,
    /// The parts of all claims, claim by claim.
    parts: Vec<Part>,
}

struct Claim {
    /// The index of its verdict.
    index: usize,
    signature: G1,
    /// The range of its parts in [`Batch::parts`].
    parts: Range<usize>,
    /// A hash of the claim's whole content.
    binding: [u8; 32],
}

struct Part {
    /// The index of the message in [`Batch::hashes`].
    message: usize,
    key: G2,
}

impl<'m> Batch<'m> {
    /// An empty batch. Messages are hashed under the tag `domain`.
    pub(super) fn new(domain: &'static [u8]) -> Self {
        Self {
            domain,
            messages: HashMap::new(),
            hashes: Vec::new(),
            claims: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Adds the claim that `signature` joins one signature for each of `parts`. If the bytes cannot
    /// be a signature, nothing is added and the verdict stays `false`.
    pub(super) fn claim(
        &mut self,
        index: usize,
        signature: &[u8],
        parts: impl IntoIterator<Item = (&'m [u8], G2)>,
    ) {
        let Some(point) = read_signature(signature) else { return };
        let mut binding = blake3::Hasher::new();
        binding.update(planted!("bls-batch-without-signatures", &[], signature));
        let first = self.parts.len();
        for (message, key) in parts {
            binding.update(&(message.len() as u64).to_le_bytes());
            binding.update(message);
            binding.update(&key_bytes(key));
            let message = *self.messages.entry(message).or_insert_with(|| {
                self.hashes.push(hash(message, self.domain));
                self.hashes.len() - 1
            });
            self.parts.push(Part { message, key });
        }
        self.claims.push(Claim {
            index,
            signature: point,
            parts: first..self.parts.len(),
            binding: *binding.finalize().as_bytes(),
        });
    }

    #[cfg(test)]
    pub(super) fn coefficients(&self) -> Vec<[u8; COEFFICIENT_BYTES]> {
        coefficients(&self.claims)
    }

    /// Sets the verdicts of all valid claims.
    pub(super) fn settle(&self, verdicts: &mut [bool]) {
        self.settle_some(&self.claims, false, verdicts);
    }

    /// Halves the batch until every part passes as a batch or is a single claim. If `guilty`, some
    /// of these claims are known to be false, so they are not tried together.
    fn settle_some(&self, claims: &[Claim], guilty: bool, verdicts: &mut [bool]) -> bool {
        let holds = !guilty && self.hold(claims);
        if holds {
            for claim in claims {
                if let Some(verdict) = verdicts.get_mut(claim.index) {
                    *verdict = true;
                }
            }
        } else if claims.len() > 1 {
            let (left, right) = claims.split_at(claims.len() / 2);
            let left_holds = self.settle_some(left, false, verdicts);
            self.settle_some(right, left_holds, verdicts);
        }
        holds
    }

    fn hold(&self, claims: &[Claim]) -> bool {
        let coefficients = coefficients(claims);
        let signatures: Vec<G1> = claims.iter().map(|claim| claim.signature).collect();
        let sum = match signatures.as_slice() {
            [] => return true,
            [only] => *only,
            many => combine_g1(many, &coefficients),
        };
        let mut points = Vec::with_capacity(2);
        let mut keys = Vec::with_capacity(2);
        let mut pair = |point: G1, key: G2| {
            // e(O, X) = e(P, O) = 1, but the library's loop cannot compute it.
            if !is_infinity_g1(&point) && !is_infinity_g2(&key) {
                points.push(point);
                keys.push(key);
            }
        };
        pair(sum, minus_generator());
        let mut parts: Vec<(&Part, Coefficient)> = claims
            .iter()
            .zip(&coefficients)
            .flat_map(|(claim, z)| self.parts[claim.parts.clone()].iter().map(|part| (part, *z)))
            .collect();
        parts.sort_by_key(|(part, _)| part.message);
        for group in parts.chunk_by(|(one, _), (next, _)| one.message == next.message) {
            let (point, key) = self.joined(group, claims.len() == 1);
            pair(point, key);
        }
        points.is_empty()
            || blst_fp12::finalverify(
                &blst_fp12::miller_loop_n(&keys, &points),
                &blst_fp12::default(),
            )
    }

    /// The pair for the parts of one message: zH(m) and X for a single part (a multiplication in G1
    /// costs less than half of one in G2), H(m) and Σ zᵢXᵢ otherwise.
    fn joined(&self, group: &[(&Part, Coefficient)], alone: bool) -> (G1, G2) {
        let [(first, z), rest @ ..] = group else { return (G1::default(), G2::default()) };
        let point = self.hashes[first.message];
        match rest {
            [] if alone || *z == ONE => (point, first.key),
            [] => (combine_g1(&[point], &[*z]), first.key),
            _ => {
                let keys: Vec<G2> = group.iter().map(|(part, _)| part.key).collect();
                let scalars: Vec<Coefficient> = group.iter().map(|(_, z)| *z).collect();
                (point, combine_g2(&keys, &scalars))
            }
        }
    }
}

/// The coefficient 1.
const ONE: Coefficient = 1u128.to_le_bytes();

/// The zᵢ: 1 for the first, because scaling the whole equation changes nothing, and 128 bits each
/// for the others.
fn coefficients(claims: &[Claim]) -> Vec<Coefficient> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"quorate/bls12-381/batch/1");
    for claim in claims {
        hasher.update(&claim.binding);
    }
    let mut stream = hasher.finalize_xof();
    let mut coefficients = vec![ONE; claims.len()];
    for z in coefficients.iter_mut().skip(1) {
        stream.fill(z);
    }
    coefficients
}
