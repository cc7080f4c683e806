//! Tests with keys derived from others' keys, and the proofs that prevent them.

use blst::BLST_ERROR;
use blst::min_sig::{AggregatePublicKey, PublicKey, Signature};

use super::{aggregate_holds, committee, opposite, secret, sign, sum, verdicts};
use crate::bls::{Committee, POSSESSION_DOMAIN, SIGNATURE_DOMAIN, possession};
use crate::committee_keys::{KeyProblem, MemberKey};

/// X' = x'·g₂ − X: the owner of x' signs for both.
fn rogue(own: &[u8], victim: &[u8]) -> [u8; 96] {
    let [own, victim] = [own, victim]
        .map(|bytes| AggregatePublicKey::from_public_key(&PublicKey::from_bytes(bytes).unwrap()));
    let mut rogue = own;
    rogue.sub_aggregate(&victim);
    rogue.to_public_key().compress()
}

#[test]
fn a_rogue_key_signs_for_its_victim_and_finds_no_proof() {
    let (victim, own) = (secret(1), secret(2));
    let rogue = rogue(&own.public_key(), &victim.public_key());
    // The purpose of the attack: a signature of the attacker alone is valid for both.
    let forged = sign(&own, b"never seen by the victim");
    let keys = [victim.public_key(), rogue].map(|bytes| PublicKey::key_validate(&bytes).unwrap());
    let verdict = Signature::from_bytes(&forged).unwrap().fast_aggregate_verify(
        true,
        b"never seen by the victim",
        SIGNATURE_DOMAIN,
        &[&keys[0], &keys[1]],
    );
    assert_eq!(verdict, BLST_ERROR::BLST_SUCCESS);
    // These proofs do not help: none, a proof of another key, or the victim's signature of the key
    // as if it were a message.
    let victims = possession::prove(&victim);
    let read = |proof: Option<&[u8]>| {
        let members = [
            MemberKey { key: &victim.public_key(), possession: Some(&victims) },
            MemberKey { key: &rogue, possession: proof },
        ];
        Committee::read(&members).map(drop)
    };
    assert_eq!(read(None), Err((1, KeyProblem::NoPossession)));
    let own_of_rogue = own.sign(&rogue, POSSESSION_DOMAIN);
    let attempts = [
        victims,
        possession::prove(&own),
        own_of_rogue,
        sum(&[&own_of_rogue, &victim.sign(&rogue, SIGNATURE_DOMAIN)]),
    ];
    for attempt in attempts {
        assert_eq!(read(Some(&attempt)), Err((1, KeyProblem::FalsePossession)));
    }
    // If victims proved possession of any key they are shown, this would be the proof.
    let minus_victim = opposite(&victim).sign(&rogue, POSSESSION_DOMAIN);
    assert_eq!(read(Some(&sum(&[&own_of_rogue, &minus_victim]))), Ok(()));
}

#[test]
fn every_proof_is_found_false_by_itself() {
    let keys: Vec<_> = (1..=7).map(secret).collect();
    for wrong in 0..7 {
        let parts: Vec<_> = (0..7)
            .map(|at| {
                let prover = if at == wrong { 9 } else { at as u32 + 1 };
                (keys[at].public_key(), possession::prove(&secret(prover)))
            })
            .collect();
        let members: Vec<_> = parts
            .iter()
            .map(|(key, proof)| MemberKey { key, possession: Some(proof.as_slice()) })
            .collect();
        assert_eq!(Committee::read(&members).map(drop), Err((wrong, KeyProblem::FalsePossession)));
    }
}

#[test]
fn a_proof_is_no_signature_and_a_signature_no_proof() {
    let key = secret(1);
    let committee = committee(&[secret(1)]);
    let proof = possession::prove(&key);
    let statement = key.public_key();
    assert_eq!(verdicts(&committee, &[(0, &statement, &proof)]), [false]);
    let signature = sign(&key, &statement);
    let members = [MemberKey { key: &statement, possession: Some(&signature) }];
    assert_eq!(Committee::read(&members).map(drop), Err((0, KeyProblem::FalsePossession)));
}

/// Two replicas that made their keys X and −X together prove possession of both. Their time-outs
/// add up to infinity; a certificate that includes them must still be valid.
#[test]
fn keys_that_cancel_out_do_not_spoil_a_certificate() {
    let keys = [secret(1), opposite(&secret(1)), secret(3), secret(4)];
    let committee = committee(&keys);
    let shares = [
        (0, sign(&keys[0], b"high QC 7")),
        (1, sign(&keys[1], b"high QC 7")),
        (2, sign(&keys[2], b"high QC 8")),
    ];
    let said: [&[u8]; 3] = [b"high QC 7", b"high QC 7", b"high QC 8"];
    let checks: Vec<_> =
        shares.iter().zip(said).map(|((who, sig), what)| (*who, what, sig.as_slice())).collect();
    assert_eq!(verdicts(&committee, &checks), [true; 3]);
    let joined = committee.join(shares.iter().map(|(_, share)| share.as_slice())).unwrap();
    let parts = [(said[0], vec![0, 1]), (said[2], vec![2])];
    assert!(aggregate_holds(&committee, &parts, &joined));
    assert!(!aggregate_holds(&committee, &[(said[0], vec![0, 1]), (said[2], vec![3])], &joined));
    // Their sum alone is infinity, which is refused.
    let both = shares[..2].iter().map(|(_, share)| share.as_slice());
    assert_eq!(committee.join(both), None);
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    assert!(!aggregate_holds(&committee, &[(said[0], vec![0, 1])], &infinity));
}
