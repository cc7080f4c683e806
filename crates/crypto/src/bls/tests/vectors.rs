//! Test vectors from other implementations.

use blst::min_sig::Signature;
use sha2::{Digest as _, Sha256};

use crate::bls::batch::Batch;
use crate::bls::curve::{hash, read_key};
use crate::test_bytes::{hex, hex_array};

/// RFC 9380, J.9.1.
#[test]
fn hashing_to_the_curve_is_that_of_rfc_9380() {
    let domain = b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
    let vectors = [
        (
            "",
            "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4e8cf62d9c09db0fac349612b759e79a1\
             08ba738453bfed09cb546dbb0783dbb3a5f1f566ed67bb6be0e8c67e2e81a4cc68ee29813bb7994998f3eae0c9c6a265",
        ),
        (
            "abc",
            "03567bc5ef9c690c2ab2ecdf6a96ef1c139cc0b2f284dca0a9a7943388a49a3aee664ba5379a7655d3c68900be2f6903\
             0b9c15f3fe6e5cf4211f346271d7b01c8f3b28be689c8429c85b67af215533311f0b8dfaaa154fa6b88176c229f2885d",
        ),
        (
            "abcdef0123456789",
            "11e0b079dea29a68f0383ee94fed1b940995272407e3bb916bbf268c263ddd57a6a27200a784cbc248e84f357ce82d98\
             03a87ae2caf14e8ee52e51fa2ed8eefe80f02457004ba4d486d6aa1f517c0889501dc7413753f9599b099ebcbbd2d709",
        ),
    ];
    for (message, point) in vectors {
        let hashed = Signature::from(hash(message.as_bytes(), domain)).serialize();
        assert_eq!(hashed.to_vec(), hex(point), "{message:?}");
    }
}

/// Round 1000 of drand's network quicknet: a threshold signature in G1 under a key in G2, made by
/// other programs. Its message is SHA-256 of the round's number; its tag is that of the draft's
/// basic scheme.
#[test]
fn a_signature_of_the_league_of_entropy_holds() {
    let key = read_key(&hex("83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c\
         8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb\
         5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"))
    .unwrap();
    let signature: [u8; 48] = hex_array(
        "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b1957\
         6350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
    );
    let holds = |round: u64| {
        let message = Sha256::digest(round.to_be_bytes());
        let mut batch = Batch::new(b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_");
        batch.claim(0, &signature, [(message.as_slice(), key)]);
        let mut verdicts = [false];
        batch.settle(&mut verdicts);
        verdicts[0]
    };
    assert!(holds(1000));
    assert!(!holds(1001));
}
