//! Many signatures verified as one: one product of pairings, halved if it does not come out.
//!
//! A *claim* is that e(σ, g₂) = Π e(H(mⱼ), Xⱼ): a replica's signature has one part (m, X), an
//! aggregate one a part for every message in it. A batch of claims holds if
//!
//! e(Σ zᵢσᵢ, −g₂) · Π over messages m of e(H(m), Σ zᵢXᵢₘ) = 1,
//!
//! so that a thousand signatures of one message cost two pairings and two multiplications of many
//! points. Each message is hashed once, however many claims and halvings it is in.
//!
//! The zᵢ have 128 bits and are hashed from everything the batch consists of. Without them two false
//! signatures σ₁ + Δ and σ₂ − Δ would pass together; with them, false claims that pass are found by
//! 2¹²⁸ attempts and not by fewer, since each attempt changes all zᵢ. (Bellare, Garay, Rabin, "Fast
//! Batch Verification for Modular Exponentiation and Digital Signatures", EUROCRYPT 1998.) 64 bits
//! would do if they were drawn at random after the claims are known; these can be computed by whoever
//! makes up the claims, who may try for as long as they like.
//!
//! The zᵢ say nothing of the parts of a point outside the groups of prime order, so every signature
//! is checked to be inside.

use std::collections::HashMap;
use std::ops::Range;

use blst::blst_fp12;

use super::curve::{
    G1, G2, combine_g1, combine_g2, hash, is_infinity_g1, is_infinity_g2, key_bytes,
    minus_generator, read_signature,
};
use quorate_core::planted;

/// Bytes in a zᵢ.
const COEFFICIENT_BYTES: usize = 16;

type Coefficient = [u8; COEFFICIENT_BYTES];

/// Claims to be verified together.
pub(super) struct Batch<'m> {
    domain: &'static [u8],
    /// Where in `hashes` a message is.
    messages: HashMap<&'m [u8], usize>,
    hashes: Vec<G1>,
    claims: Vec<Claim>,
    /// The parts of all claims, one claim's after another's.
    parts: Vec<Part>,
}

struct Claim {
    /// Its place among the caller's verdicts.
    index: usize,
    signature: G1,
    /// Where in [`Batch::parts`] its own are.
    parts: Range<usize>,
    /// A hash of all it consists of.
    binding: [u8; 32],
}

struct Part {
    /// Where in [`Batch::hashes`] the message is.
    message: usize,
    key: G2,
}

impl<'m> Batch<'m> {
    /// No claims yet; messages are hashed under the tag `domain`.
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
    /// be a signature at all nothing is added: the verdict stays `false`.
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

    /// Sets the verdicts of all claims that hold.
    pub(super) fn settle(&self, verdicts: &mut [bool]) {
        self.settle_some(&self.claims, false, verdicts);
    }

    /// Halves until every part passes as a batch or is a single claim. `guilty`: it is known that
    /// not all of these hold, so that they need not be tried together.
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
            // e(O, X) = e(P, O) = 1, which the library's loop cannot compute.
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

    /// One pair for parts of one message: zH(m) and X if it is a single part (multiplying in G1 costs
    /// less than half of what it costs in G2), H(m) and Σ zᵢXᵢ otherwise.
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

/// 1 as a coefficient.
const ONE: Coefficient = 1u128.to_le_bytes();

/// The zᵢ: 1 for the first (scaling the equation as a whole changes nothing), and 128 bits each for
/// the others.
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
