//! Tests of key generation: the same keys as a dealer's, dealers that cheat, members that complain
//! for nothing, and dealings made of others' dealings.

use curve25519_dalek::RistrettoPoint;
use proptest::prelude::*;
use quorate_core::base::membership;

use super::complaint::{REVEALED, message};
use super::dealing::value;
use super::encryption::{BASE, prove};
use super::*;
use crate::bls::curve::Scalar;
use crate::bls::threshold::dealer::share_out;
use crate::bls::threshold::{Committee, SIGNATURE_DOMAIN};
use crate::bls::{SIGNATURE_BYTES, SecretKey};
use crate::committee_keys::GroupKey;

type DalekScalar = curve25519_dalek::Scalar;

/// Members with their keys, and the round that they agreed on.
struct Members {
    keys: Vec<DecryptionKey>,
    round: Round,
}

fn seed(number: usize) -> [u8; 32] {
    *blake3::hash(&number.to_le_bytes()).as_bytes()
}

impl Members {
    fn new(count: usize) -> Self {
        Self::in_context(count, [7; 32])
    }

    fn in_context(count: usize, context: [u8; 32]) -> Self {
        let keys: Vec<_> = (0..count).map(|at| DecryptionKey::from_seed(&seed(at))).collect();
        let public: Vec<_> = keys.iter().map(|key| key.public_key().to_bytes()).collect();
        let round = Round::new(context, &public, membership::quorum(count)).unwrap();
        Self { keys, round }
    }

    fn deal(&self, dealer: usize) -> Vec<u8> {
        self.round.deal(dealer, &seed(1000 + dealer)).unwrap()
    }

    fn polynomial(&self, dealer: usize) -> Vec<Scalar> {
        self.round.polynomial(dealer, &seed(1000 + dealer), 0).to_vec()
    }

    /// A dealing with wrong shares for some members.
    fn deal_badly(&self, dealer: usize, victims: &[usize]) -> Vec<u8> {
        self.round.deal_wrongly(dealer, &seed(1000 + dealer), victims).unwrap()
    }

    fn generation(&self, dealings: &[Vec<u8>]) -> Generation {
        let mut generation = Generation::new(self.round.clone());
        for (dealer, bytes) in dealings.iter().enumerate() {
            assert_eq!(generation.take_dealing(dealer, bytes), Ok(true));
        }
        generation
    }

    fn honest(&self) -> Generation {
        self.generation(&(0..self.keys.len()).map(|at| self.deal(at)).collect::<Vec<_>>())
    }

    /// Everybody complains of what does not fit; all complaints are taken.
    fn complain(&self, generation: &mut Generation) -> usize {
        let keys = self.keys.iter().enumerate();
        let complaints = keys.flat_map(|(at, key)| generation.complaints(at, key).unwrap());
        let complaints: Vec<_> = complaints.collect();
        complaints.iter().for_each(|it| generation.take_complaint(it).unwrap());
        complaints.len()
    }

    fn shares(&self, generation: &Generation) -> Vec<SecretKey> {
        let keys = self.keys.iter().enumerate();
        keys.map(|(at, key)| generation.share(at, key).unwrap()).collect()
    }

    /// The quorum that ends with the last member signs, and the committee's key verifies.
    fn sign(&self, generation: &Generation) {
        let (outcome, quorum) = (generation.outcome().unwrap(), self.round.quorum());
        let keys: Vec<&[u8]> = outcome.members.iter().map(|key| key.as_slice()).collect();
        let group = GroupKey { key: &outcome.group, quorum };
        let committee = Committee::read(&keys, group).unwrap();
        let signed: Vec<(usize, [u8; SIGNATURE_BYTES])> = self
            .shares(generation)
            .iter()
            .enumerate()
            .inspect(|(at, share)| assert_eq!(share.public_key(), outcome.members[*at]))
            .map(|(at, share)| (at, share.sign(b"m", SIGNATURE_DOMAIN)))
            .collect();
        let last = &signed[signed.len() - quorum..];
        let last: Vec<_> = last.iter().map(|(at, one)| (*at, one.as_slice())).collect();
        let joined = committee.join_quorum(&last).unwrap();
        let mut claims = committee.claims();
        claims.group(0, b"m", &joined);
        let mut verdicts = [false];
        claims.settle(&mut verdicts);
        assert_eq!(verdicts, [true]);
    }
}

#[test]
fn members_generate_a_key_that_any_quorum_signs_with() {
    for count in [1, 2, 3, 4, 7, 10] {
        let members = Members::new(count);
        let mut generation = members.honest();
        assert_eq!(members.complain(&mut generation), 0);
        assert_eq!(generation.outcome().unwrap().qualified, (0..count).collect::<Vec<_>>());
        members.sign(&generation);
    }
}

/// The last dealer knows all commitments. It takes itself out, and nobody else's key.
#[test]
fn a_dealer_that_chooses_commitments_by_those_of_others_is_shown_by_all() {
    let members = Members::new(4);
    let mut dealings: Vec<_> = (0..4).map(|at| members.deal(at)).collect();
    let read = |at: usize| members.round.read(at, &dealings[at]).unwrap();
    let others: Vec<_> = (0..3).map(read).collect();
    dealings[3] = members.round.deal_against(3, &seed(1003), &others).unwrap();
    let mut generation = members.generation(&dealings);
    assert_eq!(generation.outcome(), Err(Failed::Degenerate));
    assert_eq!(members.complain(&mut generation), 4, "its own one does not fit, either");
    assert_eq!(generation.outcome().unwrap().qualified, [0, 1, 2]);
    members.sign(&generation);
}

/// It knows what was dealt to itself, and its own share is what it says. Nobody can complain.
#[test]
fn a_dealer_that_makes_its_own_share_nothing_is_named() {
    let members = Members::new(4);
    let liar = 3;
    let x = Scalar::from_u64(liar as u64 + 1);
    let at_x = |of: &[Scalar]| of.iter().rev().fold(Scalar::ZERO, |sum, next| sum * x + *next);
    let mut dealings: Vec<_> = (0..4).map(|at| members.deal(at)).collect();
    let mut polynomial = members.polynomial(liar);
    let all = (0..4).map(|at| at_x(&members.polynomial(at)));
    polynomial[0] = polynomial[0] - all.fold(Scalar::ZERO, |sum, next| sum + next);
    let shares: Vec<_> = (0..4).map(|place| value(&polynomial, place)).collect();
    let randomness = DalekScalar::from(5u64);
    dealings[liar] = members.round.write(liar, &polynomial, &randomness, &shares).unwrap();
    let mut generation = members.generation(&dealings);
    assert_eq!(members.complain(&mut generation), 0);
    assert_eq!(generation.outcome(), Err(Failed::OwnShare(liar)));
}

#[test]
fn the_keys_are_those_that_a_dealer_makes_of_the_sum_of_the_polynomials() {
    let members = Members::new(7);
    let generation = members.honest();
    let mut sum = vec![Scalar::ZERO; members.round.quorum()];
    for dealer in 0..7 {
        sum.iter_mut().zip(members.polynomial(dealer)).for_each(|(sum, it)| *sum = *sum + it);
    }
    let dealt = share_out(&sum, 7).unwrap();
    let outcome = generation.outcome().unwrap();
    assert_eq!(outcome.group, dealt.group);
    let (own, dealt) = (members.shares(&generation), dealt.shares);
    let bytes = |shares: &[SecretKey]| shares.iter().map(|it| *it.to_bytes()).collect::<Vec<_>>();
    assert_eq!(bytes(&own), bytes(&dealt));
}

/// So a dealer that was interrupted continues with the same dealing, and one key of a member serves
/// many rounds.
#[test]
fn a_dealing_is_a_function_of_its_round_its_dealer_and_its_seed() {
    let (members, others) = (Members::new(4), Members::in_context(4, [8; 32]));
    assert_eq!(members.deal(0), members.deal(0));
    assert_ne!(members.deal(0), others.deal(0));
    assert_ne!(members.round.deal(0, &seed(1)), members.round.deal(1, &seed(1)));
    assert_ne!(members.round.deal(0, &seed(1)), members.round.deal(0, &seed(2)));
    assert_eq!(members.round.deal(4, &seed(1)), None);
    assert_eq!(members.deal(0).len(), members.round.dealing_bytes());
    let ciphertexts = |bytes: Vec<u8>| bytes[bytes.len() - 4 * 32..].to_vec();
    assert_ne!(ciphertexts(members.deal(0)), ciphertexts(others.deal(0)));
}

#[test]
fn a_dealer_of_a_wrong_share_is_disqualified_and_the_others_have_a_key() {
    let members = Members::new(4);
    let mut dealings: Vec<_> = (0..4).map(|at| members.deal(at)).collect();
    dealings[2] = members.deal_badly(2, &[1]);
    let mut generation = members.generation(&dealings);
    // Only the victim can see it, and it gets no share before it complains.
    assert_eq!(generation.complaints(0, &members.keys[0]), Ok(vec![]));
    let share = generation.share(1, &members.keys[1]).map(drop);
    assert_eq!(share, Err(ShareError::DoesNotFit(2)));
    let complaints = generation.complaints(1, &members.keys[1]).unwrap();
    assert_eq!(complaints.iter().map(|it| it.dealer).collect::<Vec<_>>(), [2]);
    let before = generation.outcome().unwrap();
    for _ in 0..2 {
        generation.take_complaint(&complaints[0]).unwrap();
    }
    assert_eq!(generation.disqualified().iter().collect::<Vec<_>>(), [(&2, &1)]);
    let outcome = generation.outcome().unwrap();
    assert_eq!(outcome.qualified, [0, 1, 3]);
    assert_ne!(outcome.group, before.group, "its polynomial is not in the key");
    members.sign(&generation);
}

/// n = 4: three dealers must qualify, or three members could know the key without the fourth.
#[test]
fn too_few_qualified_dealers_make_no_key() {
    let members = Members::new(4);
    let bad = |dealer: usize| members.deal_badly(dealer, &[3]);
    let mut generation = members.generation(&[members.deal(0), bad(1), bad(2), members.deal(3)]);
    assert_eq!(members.complain(&mut generation), 2);
    let failed = Failed::TooFew { qualified: 2, needed: 3 };
    assert_eq!(generation.outcome(), Err(failed));
    let share = generation.share(0, &members.keys[0]).map(drop);
    assert_eq!(share, Err(ShareError::Failed(failed)));
    let mut all = members.generation(&(0..4).map(bad).collect::<Vec<_>>());
    members.complain(&mut all);
    assert_eq!(all.outcome(), Err(Failed::TooFew { qualified: 0, needed: 3 }));
    let none = Generation::new(members.round.clone());
    assert_eq!(none.outcome(), Err(Failed::TooFew { qualified: 0, needed: 3 }));
}

#[test]
fn a_complaint_that_is_false_or_forged_disqualifies_nobody() {
    let members = Members::new(4);
    let bad = members.deal_badly(1, &[3]);
    let mut generation =
        members.generation(&[members.deal(0), bad, members.deal(2), members.deal(3)]);
    let dealing = |generation: &Generation, dealer| generation.dealing(dealer).unwrap().clone();
    // The share fits, and the complaint shows it.
    let honest = dealing(&generation, 0);
    let false_one = members.round.complain(&honest, 3, &members.keys[3]);
    assert_eq!(generation.take_complaint(&false_one), Err(ComplaintProblem::ShareFits));
    // A valid complaint, held against others.
    let valid = generation.complaints(3, &members.keys[3]).unwrap()[0];
    for forged in [
        Complaint { dealer: 0, ..valid },
        Complaint { recipient: 2, ..valid },
        // Another's key decrypts nonsense.
        Complaint { recipient: 3, ..members.round.complain(&honest, 2, &members.keys[2]) },
        Complaint { evidence: [0; COMPLAINT_BYTES], ..valid },
        Complaint { evidence: [0xff; COMPLAINT_BYTES], ..valid },
    ] {
        assert_eq!(generation.take_complaint(&forged), Err(ComplaintProblem::Evidence));
    }
    for stranger in [Complaint { dealer: 4, ..valid }, Complaint { recipient: 4, ..valid }] {
        assert_eq!(generation.take_complaint(&stranger), Err(ComplaintProblem::NoDealing));
    }
    for bit in 0..8 * COMPLAINT_BYTES {
        let mut changed = valid;
        changed.evidence[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(generation.take_complaint(&changed), Err(ComplaintProblem::Evidence), "{bit}");
    }
    assert!(generation.disqualified().is_empty());
    generation.take_complaint(&valid).unwrap();
    assert_eq!(generation.outcome().unwrap().qualified, [0, 2, 3]);
}

/// A member that knows its key, but shows a secret that is not x·R, would decrypt nonsense and
/// disqualify any dealer. Its proof says that x is the same in both pairs.
#[test]
fn a_secret_of_another_exponent_is_no_evidence() {
    let members = Members::new(4);
    let mut generation = members.honest();
    let honest = generation.dealing(0).unwrap().clone();
    let key = &members.keys[3];
    let evidence = |secret: RistrettoPoint| {
        let pairs = [(BASE, key.public_key().point()), (honest.randomness(), secret)];
        let proof = prove(REVEALED, &message(&honest, 3), key.secret(), &pairs);
        [&secret.compress().as_bytes()[..], &proof].concat().try_into().unwrap()
    };
    // With the right secret, this is the complaint that the member's program makes.
    let right = Complaint { dealer: 0, recipient: 3, evidence: evidence(*honest.shared_with(key)) };
    assert_eq!(right, members.round.complain(&honest, 3, key));
    let other = honest.randomness() * DalekScalar::from(5u64);
    let forged = Complaint { evidence: evidence(other), ..right };
    assert_eq!(generation.take_complaint(&forged), Err(ComplaintProblem::Evidence));
    assert!(generation.disqualified().is_empty());
}

/// Evidence from one round does not hold in another one with the same keys.
#[test]
fn a_complaint_counts_in_its_round_alone() {
    let (members, others) = (Members::new(4), Members::in_context(4, [8; 32]));
    let generation = members.generation(&[members.deal_badly(0, &[2])]);
    let complaint = generation.complaints(2, &members.keys[2]).unwrap()[0];
    let mut other = others.generation(&[others.deal_badly(0, &[2])]);
    assert_eq!(other.take_complaint(&complaint), Err(ComplaintProblem::Evidence));
}

#[test]
fn a_dealing_that_was_changed_is_refused() {
    let members = Members::new(4);
    let honest = members.deal(1);
    let read = |bytes: &[u8]| members.round.read(1, bytes).map(drop);
    assert_eq!(read(&honest), Ok(()));
    for at in (0..honest.len()).step_by(7) {
        let mut changed = honest.clone();
        changed[at] ^= 1;
        let fault = read(&changed).unwrap_err();
        match at {
            0..32 => {
                assert!(matches!(fault, DealingFault::Randomness | DealingFault::RandomnessProof))
            }
            96..144 => assert_eq!(fault, DealingFault::SecretProof),
            _ => assert_eq!(fault, DealingFault::RandomnessProof, "{at}"),
        }
    }
    for length in [0, 1, 143, honest.len() - 1] {
        let found = DealingFault::Length { expected: honest.len(), found: length };
        assert_eq!(read(&honest[..length]), Err(found));
    }
    let longer = [&honest[..], &[0]].concat();
    assert!(matches!(read(&longer), Err(DealingFault::Length { .. })));
    // Another dealer's, of another round, and of nobody.
    assert_eq!(members.round.read(2, &honest).unwrap_err(), DealingFault::RandomnessProof);
    let other = Members::in_context(4, [8; 32]);
    assert_eq!(other.round.read(1, &honest).unwrap_err(), DealingFault::RandomnessProof);
    assert_eq!(members.round.read(4, &honest).unwrap_err(), DealingFault::Stranger);
}

/// The first one counts for everybody who has the dealings in the same order.
#[test]
fn a_second_dealing_of_one_dealer_does_not_count() {
    let members = Members::new(4);
    let mut generation = Generation::new(members.round.clone());
    let (first, second) = (members.deal(0), members.round.deal(0, &seed(5)).unwrap());
    assert_eq!(generation.take_dealing(0, &first), Ok(true));
    assert_eq!(generation.take_dealing(0, &first), Ok(true));
    assert_eq!(generation.take_dealing(0, &second), Ok(false));
    assert_eq!(generation.dealing(0).unwrap().as_bytes(), first);
}

/// The module's documentation: with R of a correct dealing, complaints about the liar would reveal
/// the correct dealing's secrets.
#[test]
fn the_randomness_of_another_dealing_cannot_be_reused() {
    let members = Members::new(4);
    let correct = members.round.read(0, &members.deal(0)).unwrap();
    // What all would see if the victim complained: the liar's secret is the correct dealer's.
    let shared = correct.shared_with(&members.keys[3]);
    assert!(members.round.share(&correct, 3, &shared).is_some());
    let copied = |from: &[u8], proof: &[u8]| {
        let mut bytes = members.deal_badly(1, &[3]);
        bytes[..32].copy_from_slice(&from[..32]);
        bytes[32..96].copy_from_slice(proof);
        members.round.read(1, &bytes).map(drop)
    };
    let (theirs, own) = (members.deal(0), members.deal_badly(1, &[3]));
    for proof in [&theirs[32..96], &own[32..96], &[0; 64]] {
        assert_eq!(copied(&theirs, proof), Err(DealingFault::RandomnessProof));
    }
    // Nor shifted by a known number.
    let shifted = correct.randomness() + RistrettoPoint::mul_base(&DalekScalar::from(5u64));
    let refused = copied(shifted.compress().as_bytes(), &theirs[32..96]);
    assert_eq!(refused, Err(DealingFault::RandomnessProof));
}

/// A dealer that commits to X − (the others' sum), to be alone in the key, cannot sign with that.
#[test]
fn a_dealer_that_does_not_know_its_secret_is_refused() {
    let members = Members::new(4);
    let polynomial = members.polynomial(3);
    let shares: Vec<_> = (0..4).map(|place| value(&polynomial, place)).collect();
    let secret = DalekScalar::from(9u64);
    let own = members.round.write(3, &polynomial, &secret, &shares).unwrap();
    // Another's first commitment in place of its own; all that it can prove, it proves anew.
    let others = members.deal(0);
    let content = [&others[144..144 + 96], &own[144 + 96..]].concat();
    let mut bytes = members.round.proved(3, &secret, &content);
    assert_eq!(members.round.read(3, &bytes).unwrap_err(), DealingFault::SecretProof);
    bytes[96..144].copy_from_slice(&others[96..144]);
    assert_eq!(members.round.read(3, &bytes).unwrap_err(), DealingFault::SecretProof);
    // Infinity is no commitment, and neither are other bytes.
    for wrong in [[0xc0].iter().chain(&[0; 95]).copied().collect::<Vec<u8>>(), vec![7; 96]] {
        let content = [&own[144..240], &wrong[..], &own[336..]].concat();
        let bytes = members.round.proved(3, &secret, &content);
        let fault = members.round.read(3, &bytes).unwrap_err();
        assert!(matches!(fault, DealingFault::Commitment { coefficient: 1, .. }), "{fault:?}");
    }
}

#[test]
fn shares_are_for_the_key_they_were_encrypted_to() {
    let members = Members::new(4);
    let generation = members.honest();
    let other = DecryptionKey::from_seed(&seed(99));
    assert_eq!(generation.share(0, &other).map(drop), Err(ShareError::Key));
    assert_eq!(generation.share(1, &members.keys[0]).map(drop), Err(ShareError::Key));
    assert_eq!(generation.complaints(0, &other), Err(ShareError::Key));
    assert_eq!(generation.share(4, &other).map(drop), Err(ShareError::Key));
}

#[test]
fn encryption_keys_are_points_and_their_owners_prove_them() {
    let key = DecryptionKey::from_seed(&seed(0));
    let (public, proof) = (key.public_key(), key.prove(b"m"));
    assert!(public.has_proved(b"m", &proof));
    assert!(!public.has_proved(b"n", &proof));
    let other = DecryptionKey::from_seed(&seed(1)).public_key();
    assert!(!other.has_proved(b"m", &proof));
    assert!(!public.has_proved(b"m", &[0; PROOF_BYTES]));
    assert!(!public.has_proved(b"m", &[0xff; PROOF_BYTES]));
    assert_eq!(EncryptionKey::read(&[0; 32]), None, "the neutral element");
    assert_eq!(EncryptionKey::read(&[0xff; 32]), None);
    assert_eq!(EncryptionKey::read(&public.to_bytes()), Some(public));
    let (a, b) = (public.to_bytes(), other.to_bytes());
    let round = |keys: &[[u8; 32]], quorum| Round::new([0; 32], keys, quorum).map(drop);
    assert_eq!(round(&[a, b], 2), Ok(()));
    assert_eq!(round(&[a, b, a], 2), Err(RoundError::Shared(0, 2)));
    assert_eq!(round(&[a, [0; 32]], 2), Err(RoundError::Key(1)));
    for (keys, quorum) in [(&[a, b][..], 0), (&[a, b], 3), (&[], 0), (&[a; 257], 2)] {
        assert_eq!(round(keys, quorum), Err(RoundError::Size { quorum, members: keys.len() }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whoever cheats whom: with at most f cheats, correct members get one key, in whatever order
    /// the dealings and complaints come, and each has its share.
    #[test]
    fn at_most_f_cheats_change_nothing_for_the_others(
        count in 4..8usize,
        victims in prop::collection::vec(any::<u8>(), 2),
        turned in any::<prop::sample::Index>(),
    ) {
        let members = Members::new(count);
        let dealings: Vec<_> = (0..count)
            .map(|dealer| match victims.get(dealer).filter(|_| dealer < count - members.round.quorum()) {
                None => members.deal(dealer),
                Some(mask) => {
                    let victims: Vec<_> = (0..count).filter(|at| mask >> at & 1 == 1).collect();
                    members.deal_badly(dealer, &victims)
                }
            })
            .collect();
        let mut one = members.generation(&dealings);
        let mut complaints = Vec::new();
        for (at, key) in members.keys.iter().enumerate() {
            complaints.extend(one.complaints(at, key).unwrap());
        }
        complaints.iter().for_each(|it| one.take_complaint(it).unwrap());
        let mut other = Generation::new(members.round.clone());
        for step in 0..count {
            let dealer = (turned.index(count) + step) % count;
            prop_assert_eq!(other.take_dealing(dealer, &dealings[dealer]), Ok(true));
        }
        complaints.iter().rev().for_each(|it| other.take_complaint(it).unwrap());
        prop_assert_eq!(one.outcome(), other.outcome());
        for (dealer, mask) in victims.iter().enumerate() {
            let cheats = dealer < count - members.round.quorum() && (0..count).any(|at| mask >> at & 1 == 1);
            prop_assert_eq!(one.disqualified().contains_key(&dealer), cheats);
        }
        members.sign(&other);
    }

    /// Whatever bytes come, nothing panics and nothing is believed.
    #[test]
    fn bytes_of_strangers_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..800)) {
        let members = Members::new(4);
        prop_assert!(members.round.read(0, &bytes).is_err());
        bytes.resize(members.round.dealing_bytes(), 0);
        prop_assert!(members.round.read(0, &bytes).is_err());
    }
}

/// What the tests above call: a dealing of any content, with the proof of its randomness and one of
/// a secret that is not the first commitment's.
impl Round {
    fn proved(&self, dealer: usize, randomness: &DalekScalar, content: &[u8]) -> Vec<u8> {
        let secret = SecretKey::from_bytes(&[1; 32]).unwrap();
        self.seal(dealer, randomness, content, &secret)
    }
}
