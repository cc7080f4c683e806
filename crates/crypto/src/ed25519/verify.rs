//! Ed25519 verification: one rule, for single signatures and for batches.

use curve25519_dalek::edwards::{CompressedEdwardsY, VartimeEdwardsPrecomputation};
use curve25519_dalek::traits::{Identity, IsIdentity, VartimePrecomputedMultiscalarMul};
use curve25519_dalek::{EdwardsPoint, Scalar, constants::ED25519_BASEPOINT_POINT};
use quorate_core::base::crypto::{Check, Form, PublicKey, Scheme, Share, Signature};

use super::known_keys::KnownKeys;
use super::{challenge, challenge_bytes};
use crate::committee_keys::KeyProblem;
use quorate_core::planted;

/// The signatures that one equation sums. With more, the tables of a sum (1.3 kB for each point)
/// leave the first-level cache: measured, a batch of 64 costs more for each signature than two of
/// 32.
const BATCH: usize = 32;

/// The verifier. It holds tables of the committee's keys, and remembers keys of clients. Threads
/// share it by reference.
pub struct Ed25519 {
    members: Vec<Member>,
    /// Odd multiples of the base point, then of each of `members`.
    tables: VartimeEdwardsPrecomputation,
    known: KnownKeys,
}

struct Member {
    key: [u8; 32],
    /// `None`: the key is not a point of the curve, so its signatures are never valid.
    point: Option<EdwardsPoint>,
}

/// The claimed signer of a signature.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// The committee's member with this index.
    Member(usize),
    /// The owner of this key.
    Anybody(&'a [u8; 32]),
}

/// The source of a key's multiples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Committee(usize),
    Elsewhere,
}

/// A signature with its parsed parts.
struct Parsed<'a> {
    /// The index in the caller's list.
    index: usize,
    key: &'a [u8; 32],
    place: Place,
    a: EdwardsPoint,
    /// Whether `a` was not among the known keys.
    new: bool,
    r: EdwardsPoint,
    s: Scalar,
    k: Scalar,
    /// The whole input: SHA-512(R ‖ A ‖ message) and s.
    binding: [u8; 96],
}

impl Default for Ed25519 {
    /// A verifier without a committee, for clients and tests.
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Ed25519 {
    /// A verifier with tables of the keys in `members` (10 kB each), which make their signatures
    /// cheaper. The verdicts do not depend on the tables.
    #[must_use]
    pub fn new(members: &[PublicKey]) -> Self {
        let members: Vec<_> = members
            .iter()
            .map(|key| Member { key: key.0, point: CompressedEdwardsY(key.0).decompress() })
            .collect();
        let points = members.iter().map(|member| member.point);
        let tables = VartimeEdwardsPrecomputation::new(
            std::iter::once(ED25519_BASEPOINT_POINT)
                .chain(points.map(|point| point.unwrap_or_else(EdwardsPoint::identity))),
        );
        Self { members, tables, known: KnownKeys::default() }
    }

    /// Verifies signatures of any messages as one batch. Each comes with the index of its verdict,
    /// its signer and its message. Sets the verdicts of valid signatures and leaves the others
    /// alone.
    pub fn settle_all<'a>(
        &'a self,
        inputs: impl Iterator<Item = (usize, Whose<'a>, &'a [u8], &'a [u8])>,
        verdicts: &mut [bool],
    ) {
        let parsed: Vec<_> = inputs
            .filter_map(|(index, whose, message, signature)| {
                self.parse(index, whose, message, signature)
            })
            .collect();
        for batch in parsed.chunks(BATCH) {
            self.settle(batch, verdicts);
        }
        for signature in parsed.iter().filter(|signature| signature.new) {
            if verdicts.get(signature.index) == Some(&true) {
                self.known.insert(*signature.key, signature.a);
            }
        }
    }

    /// Parses a signature. `None` if no rule could accept it.
    fn parse<'a>(
        &'a self,
        index: usize,
        whose: Whose<'a>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<Parsed<'a>> {
        let signature: &[u8; 64] = signature.try_into().ok()?;
        let (r_bytes, s_bytes) = signature.split_first_chunk::<32>()?;
        let s_bytes = *s_bytes.first_chunk::<32>()?;
        let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s_bytes))?;
        let (key, place, a, new) = self.point(whose)?;
        let r = CompressedEdwardsY(*r_bytes).decompress()?;
        let hash = challenge_bytes(r_bytes, key, message);
        let mut binding = [0; 96];
        binding[..64].copy_from_slice(&hash);
        binding[64..].copy_from_slice(planted!("ed25519-batch-without-s", &[0; 32], &s_bytes));
        let k = challenge(&hash);
        Some(Parsed { index, key, place, a, new, r, s, k, binding })
    }

    /// The key, the source of its multiples, its point, and whether the point had to be computed.
    fn point<'a>(&'a self, whose: Whose<'a>) -> Option<(&'a [u8; 32], Place, EdwardsPoint, bool)> {
        let key = match whose {
            Whose::Member(place) => {
                let member = self.members.get(place)?;
                return Some((&member.key, Place::Committee(place), member.point?, false));
            }
            Whose::Anybody(key) => key,
        };
        if let Some(point) = self.known.get(key) {
            return Some((key, Place::Elsewhere, point, false));
        }
        Some((key, Place::Elsewhere, CompressedEdwardsY(*key).decompress()?, true))
    }

    /// Halves the batch until every part passes as a batch or is a single signature.
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

    /// \[8\](Σ zᵢkᵢAᵢ + Σ zᵢRᵢ − (Σ zᵢsᵢ)B) = 0. The zᵢkᵢ of equal keys are summed first.
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
        // The first coefficient is 1: its R needs no multiples.
        let Some((first, others)) = batch.split_first() else { return true };
        scalars.extend(coefficients.iter().skip(1));
        points.extend(others.iter().map(|signature| signature.r));
        let sum = self.tables.vartime_mixed_multiscalar_mul(&fixed, &scalars, &points);
        (sum + first.r).mul_by_cofactor().is_identity()
    }

    /// The number of the committee's tables to use. Each costs a little even if its scalar is 0, so
    /// a few signatures of a large committee are summed without them.
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

impl Scheme for Ed25519 {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let mut verdicts = vec![false; checks.len()];
        let inputs = checks.iter().enumerate().filter_map(|(index, check)| match check {
            Check::Client { key, statement, signature } => {
                Some((index, Whose::Anybody(&key.0), statement.as_bytes(), signature.as_bytes()))
            }
            Check::Replica(Share { signer, statement, signature }) => {
                let whose = Whose::Member(signer.index());
                Some((index, whose, statement.as_bytes(), signature.as_bytes()))
            }
            _ => None,
        });
        self.settle_all(inputs, &mut verdicts);
        verdicts
    }

    /// Always `None`: Ed25519 signatures cannot be joined.
    fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
        None
    }
}

/// Reads a replica's key from a configuration file. This is stricter than the rule for signatures,
/// which accepts every encoding of every point. Here the encoding must be canonical, and the point
/// must be of prime order, as key generators make it. Anybody can sign for a key of small order,
/// and the sum of a key and a point of small order is a second key of the same owner.
///
/// # Errors
/// [`KeyProblem`].
pub fn read_key(bytes: &[u8]) -> Result<PublicKey, KeyProblem> {
    let key: [u8; 32] =
        bytes.try_into().map_err(|_| KeyProblem::Length { expected: 32, found: bytes.len() })?;
    let point = CompressedEdwardsY(key).decompress().ok_or(KeyProblem::NotOnCurve)?;
    if point.compress().to_bytes() != key {
        return Err(KeyProblem::NotOnCurve);
    }
    if point.is_identity() {
        return Err(KeyProblem::Infinity);
    }
    if !point.is_torsion_free() {
        return Err(KeyProblem::OutsideSubgroup);
    }
    Ok(PublicKey(key))
}

impl Parsed<'_> {
    /// The rule for one signature: \[8\](kA + R − sB) = 0.
    fn holds(&self) -> bool {
        let minus_s = -self.s;
        let sum = EdwardsPoint::vartime_double_scalar_mul_basepoint(&self.k, &self.a, &minus_s);
        (sum + self.r).mul_by_cofactor().is_identity()
    }
}

/// The zᵢ: 1 for the first, because scaling the whole equation changes nothing, and 128 bits each
/// for the others, hashed from the whole content of the batch.
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

    /// The coefficients of a batch of signatures: each a key, a message and a signature.
    pub(super) fn coefficients(&self, inputs: &[([u8; 32], Vec<u8>, [u8; 64])]) -> Vec<Scalar> {
        let parsed: Vec<_> = inputs
            .iter()
            .filter_map(|(key, message, signature)| {
                self.parse(0, Whose::Anybody(key), message, signature)
            })
            .collect();
        coefficients(&parsed)
    }
}
