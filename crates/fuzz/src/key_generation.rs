//! Members who generate a threshold key together, of whom some lie: whatever they deal and claim,
//! those who do not lie stay in the key and get shares of one key, or no key is made at all.

use quorate_crypto::bls::threshold::generation::{
    COMPLAINT_BYTES, Complaint, DecryptionKey, Generation, Round, ShareError,
};

use crate::input::Input;

const MEMBERS: usize = 4;
const QUORUM: usize = 3;

/// Member 3 deals anything, and member 2 complains of anything; 0 and 1 do as they should.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let keys: Vec<_> =
        (1..=MEMBERS as u8).map(|seed| DecryptionKey::from_seed(&[seed; 32])).collect();
    let public: Vec<_> = keys.iter().map(|key| key.public_key().to_bytes()).collect();
    let Ok(round) = Round::new([input.byte(); 32], &public, QUORUM) else { return };
    let mut generation = Generation::new(round.clone());
    for (dealer, key) in keys.iter().enumerate().take(MEMBERS - 1) {
        let dealing = round.deal(dealer, key.seed()).unwrap_or_default();
        assert_eq!(generation.take_dealing(dealer, &dealing), Ok(true));
    }
    let lie = dealing(&round, &keys[3], &mut input);
    let is_taken = generation.take_dealing(3, &lie).is_ok();
    for (member, key) in keys.iter().enumerate().take(2) {
        for complaint in generation.complaints(member, key).unwrap_or_default() {
            assert_eq!(complaint.dealer, 3, "only the liar is complained of");
            assert_eq!(generation.take_complaint(&complaint), Ok(()));
        }
    }
    let valid = generation.complaints(2, &keys[2]).ok().and_then(|all| all.first().copied());
    for _ in 0..input.byte() % 4 {
        let mut evidence = valid.map_or([0; COMPLAINT_BYTES], |complaint| complaint.evidence);
        for _ in 0..input.byte() % 3 {
            evidence[usize::from(input.byte()) % COMPLAINT_BYTES] ^= input.byte();
        }
        let dealer = usize::from(input.byte()) % (MEMBERS + 1);
        let recipient = usize::from(input.byte()) % (MEMBERS + 1);
        // Whether it holds is seen below: nobody but the liar may be disqualified.
        let _ = generation.take_complaint(&Complaint { dealer, recipient, evidence });
    }
    assert!(generation.disqualified().keys().all(|dealer| *dealer == 3), "an honest dealer");
    let Ok(outcome) = generation.outcome() else { panic!("three honest dealers make a key") };
    assert!(outcome.qualified.starts_with(&[0, 1, 2]));
    assert!(is_taken || outcome.qualified.len() == 3);
    for (member, key) in keys.iter().enumerate().take(3) {
        match generation.share(member, key) {
            Ok(share) => assert_eq!(share.public_key(), outcome.members[member]),
            // Member 2 may not have complained.
            Err(error) => assert_eq!((member, error), (2, ShareError::DoesNotFit(3))),
        }
    }
}

/// A dealing with wrong shares, changed, or any bytes.
fn dealing(round: &Round, key: &DecryptionKey, input: &mut Input<'_>) -> Vec<u8> {
    let mask = input.byte();
    let victims: Vec<usize> = (0..MEMBERS).filter(|at| mask >> at & 1 == 1).collect();
    let mut bytes = round.deal_wrongly(3, key.seed(), &victims).unwrap_or_default();
    match input.byte() % 4 {
        0 | 1 => {}
        2 => {
            let at = input.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= input.byte();
            }
        }
        _ => {
            let length = input.below(2 * bytes.len() as u64 + 1) as usize;
            bytes = input.bytes(length);
        }
    }
    bytes
}
