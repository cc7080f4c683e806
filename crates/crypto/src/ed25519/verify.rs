//! The verifying half: one rule, single and in batches.

use std::collections::HashMap;

use curve25519_dalek::edwards::{CompressedEdwardsY, VartimeEdwardsPrecomputation};
use curve25519_dalek::traits::{Identity, IsIdentity, VartimePrecomputedMultiscalarMul};
use curve25519_dalek::{EdwardsPoint, Scalar, constants::ED25519_BASEPOINT_POINT};
use quorate_core::crypto::{Check, Form, PublicKey, Scheme, Share, Signature};

use super::known_keys::KnownKeys;
use super::{challenge, challenge_bytes};

/// Signatures summed into one equation. More would push the tables of a sum (1.3 kB a point) out
/// of the first-level cache: measured, 64 at once cost more a signature than 2 × 32.
const BATCH: usize = 32;

/// The verifier. Holds tables of the committee's keys and remembers keys of clients; shared
/// between threads by reference.
pub struct Ed25519 {
    /// The committee's keys, in the order of their ids.
    keys: Vec<PublicKey>,
    /// Where in `committee` a key is.
    places: HashMap<[u8; 32], usize>,
    /// `None`: the key is no point of the curve, so nothing signed by it holds.
    committee: Vec<Option<EdwardsPoint>>,
    /// Odd multiples of the base point, then of each of `committee`.
    tables: VartimeEdwardsPrecomputation,
    known: KnownKeys,
}

/// Where the multiples of a key come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Committee(usize),
    Elsewhere,
}

/// A signature whose parts could be read.
struct Parsed<'a> {
    /// Its place in the caller's list.
    index: usize,
    key: &'a [u8; 32],
    place: Place,
    a: EdwardsPoint,
    /// Whether `a` was not among the known keys.
    new: bool,
    r: EdwardsPoint,
    s: Scalar,
    k: Scalar,
    /// All of the input: SHA-512(R ‖ A ‖ message) and s.
    binding: [u8; 96],
}

impl Default for Ed25519 {
    /// A verifier that knows no committee: a client's, or a test's.
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Ed25519 {
    /// A verifier that keeps tables of the keys in `committee` (10 kB each), which makes their
    /// signatures cheaper. It verifies everybody's: the verdict does not depend on `committee`.
    #[must_use]
    pub fn new(committee: &[PublicKey]) -> Self {
        let places = committee.iter().enumerate().map(|(i, key)| (key.0, i)).collect();
        let points: Vec<_> =
            committee.iter().map(|key| CompressedEdwardsY(key.0).decompress()).collect();
        let tables = VartimeEdwardsPrecomputation::new(
            std::iter::once(ED25519_BASEPOINT_POINT)
                .chain(points.iter().map(|point| point.unwrap_or_else(EdwardsPoint::identity))),
        );
        Self {
            keys: committee.to_vec(),
            places,
            committee: points,
            tables,
            known: KnownKeys::default(),
        }
    }

    /// The verdicts on `inputs`, in order; what [`Scheme::verify`] does, for any message.
    pub(super) fn verify_all<'a>(
        &self,
        inputs: impl ExactSizeIterator<Item = (&'a PublicKey, &'a [u8], &'a Signature)>,
    ) -> Vec<bool> {
        let mut verdicts = vec![false; inputs.len()];
        let parsed: Vec<_> = inputs
            .enumerate()
            .filter_map(|(index, (key, message, signature))| {
                self.parse(index, key, message, signature)
            })
            .collect();
        for batch in parsed.chunks(BATCH) {
            self.settle(batch, &mut verdicts);
        }
        for signature in parsed.iter().filter(|signature| signature.new) {
            if verdicts.get(signature.index) == Some(&true) {
                self.known.insert(*signature.key, signature.a);
            }
        }
        verdicts
    }

    /// Reads the parts of a signature. `None`: no rule could accept it.
    fn parse<'a>(
        &self,
        index: usize,
        key: &'a PublicKey,
        message: &[u8],
        signature: &Signature,
    ) -> Option<Parsed<'a>> {
        let (r_bytes, s_bytes) = signature.as_bytes().split_first_chunk::<32>()?;
        let s_bytes = <[u8; 32]>::try_from(s_bytes).ok()?;
        let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s_bytes))?;
        let (place, a, new) = self.point(&key.0)?;
        let r = CompressedEdwardsY(*r_bytes).decompress()?;
        let hash = challenge_bytes(r_bytes, &key.0, message);
        let mut binding = [0; 96];
        binding[..64].copy_from_slice(&hash);
        binding[64..].copy_from_slice(&s_bytes);
        let k = challenge(&hash);
        Some(Parsed { index, key: &key.0, place, a, new, r, s, k, binding })
    }

    fn point(&self, key: &[u8; 32]) -> Option<(Place, EdwardsPoint, bool)> {
        if let Some(place) = self.places.get(key) {
            let point = (*self.committee.get(*place)?)?;
            return Some((Place::Committee(*place), point, false));
        }
        if let Some(point) = self.known.get(key) {
            return Some((Place::Elsewhere, point, false));
        }
        Some((Place::Elsewhere, CompressedEdwardsY(*key).decompress()?, true))
    }

    /// Halves until every part passes as a batch or is a single signature.
    fn settle(&self, batch: &[Parsed<'_>], verdicts: &mut [bool]) {
        let holds = match batch {
            [] => return,
            [one] => one.holds(),
            many => self.all_hold(many),
        };
        if holds || batch.len() == 1 {
            for signature in batch {
                if let Some(verdict) = verdicts.get_mut(signature.index) {
                    *verdict = holds;
                }
            }
            return;
        }
        let (left, right) = batch.split_at(batch.len() / 2);
        self.settle(left, verdicts);
        self.settle(right, verdicts);
    }

    /// \[8\](Σ zᵢkᵢAᵢ + Σ zᵢRᵢ − (Σ zᵢsᵢ)B) = 0, the zᵢkᵢ of equal keys added up first.
    fn all_hold(&self, batch: &[Parsed<'_>]) -> bool {
        let columns = self.table_columns(batch);
        let mut fixed = vec![Scalar::ZERO; 1 + columns];
        let mut scalars = Vec::with_capacity(2 * batch.len());
        let mut points = Vec::with_capacity(2 * batch.len());
        let mut keys: Vec<&[u8; 32]> = Vec::new();
        let coefficients = coefficients(batch);
        for (signature, z) in batch.iter().zip(&coefficients) {
            fixed[0] -= z * signature.s;
            let zk = z * signature.k;
            match signature.place {
                Place::Committee(place) if place < columns => fixed[1 + place] += zk,
                _ => match keys.iter().position(|key| *key == signature.key) {
                    Some(at) => scalars[at] += zk,
                    None => {
                        keys.push(signature.key);
                        scalars.push(zk);
                        points.push(signature.a);
                    }
                },
            }
        }
        scalars.extend(coefficients);
        points.extend(batch.iter().map(|signature| signature.r));
        let sum = self.tables.vartime_mixed_multiscalar_mul(&fixed, &scalars, &points);
        sum.mul_by_cofactor().is_identity()
    }

    /// How many of the committee's tables to go through. Each costs a little even where its
    /// scalar is 0, so few signatures of a large committee are better summed without them.
    fn table_columns(&self, batch: &[Parsed<'_>]) -> usize {
        let places = batch.iter().filter_map(|signature| match signature.place {
            Place::Committee(place) => Some(place),
            Place::Elsewhere => None,
        });
        let (used, columns) =
            places.fold((0, 0), |(used, last), place| (used + 1, last.max(place + 1)));
        if columns <= 8 * used { columns } else { 0 }
    }
}

impl Ed25519 {
    /// Key, message and signature of a check, if it can be one of this scheme's.
    fn part<'a>(&'a self, check: &'a Check) -> Option<(&'a PublicKey, &'a [u8], &'a Signature)> {
        match check {
            Check::Client { key, statement, signature } => {
                Some((key, statement.as_bytes(), signature))
            }
            Check::Replica(Share { signer, statement, signature }) => {
                Some((self.keys.get(signer.index())?, statement.as_bytes(), signature))
            }
            Check::Aggregate { .. } | Check::Threshold { .. } => None,
        }
    }
}

impl Scheme for Ed25519 {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let mut verdicts = vec![false; checks.len()];
        let known = |(at, check)| self.part(check).map(|part| (at, part));
        let parts: Vec<_> = checks.iter().enumerate().filter_map(known).collect();
        let found = self.verify_all(parts.iter().map(|(_, part)| *part));
        for ((at, _), verdict) in parts.iter().zip(found) {
            verdicts[*at] = verdict;
        }
        verdicts
    }

    fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
        None
    }
}

impl Parsed<'_> {
    /// The rule for one: \[8\](kA + R − sB) = 0.
    fn holds(&self) -> bool {
        let minus_s = -self.s;
        let sum = EdwardsPoint::vartime_double_scalar_mul_basepoint(&self.k, &self.a, &minus_s);
        (sum + self.r).mul_by_cofactor().is_identity()
    }
}

/// The zᵢ: 1 for the first (scaling the equation as a whole changes nothing), and 128 bits each
/// for the others, hashed from everything the batch consists of.
fn coefficients(batch: &[Parsed<'_>]) -> Vec<Scalar> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"quorate/ed25519/batch/1");
    for signature in batch {
        hasher.update(&signature.binding);
    }
    let mut stream = hasher.finalize_xof();
    let mut coefficients = Vec::with_capacity(batch.len());
    coefficients.push(Scalar::ONE);
    for _ in 1..batch.len() {
        let mut z = [0; 16];
        stream.fill(&mut z);
        coefficients.push(Scalar::from(u128::from_le_bytes(z)));
    }
    coefficients
}

#[cfg(test)]
impl Ed25519 {
    pub(super) fn known_keys(&self) -> usize {
        self.known.len()
    }
}
