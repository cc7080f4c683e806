//! Tests of key files from an operator's point of view.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::bls::threshold::{self, generation::DecryptionKey};
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};

const GOOD: &str =
    "quorate-secret-key/1 ed25519 9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

fn put(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_written_is_read_back_and_is_the_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consensus.key");
    let key = SecretKey::generate().unwrap();
    key_file::write(&path, &key).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(key_file::read(&path).unwrap().public_key(), key.public_key());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the draft is gone");
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
}

#[test]
fn a_key_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    let first = SecretKey::generate().unwrap();
    key_file::write(&path, &first).unwrap();
    let error = key_file::write(&path, &SecretKey::generate().unwrap()).unwrap_err();
    assert!(matches!(error, KeyFileError::Exists { .. }), "{error}");
    assert_eq!(key_file::read(&path).unwrap().public_key(), first.public_key());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_others_may_read_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.key");
    for mode in [0o640, 0o604, 0o644, 0o620, 0o700, 0o666] {
        put(&path, GOOD, mode);
        let text = key_file::read(&path).unwrap_err().to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains(&format!("{mode:04o}")), "{text}");
        assert!(text.contains(&format!("chmod 600 {}", path.display())), "{text}");
        assert!(!text.contains("9d61b19d"), "{text}");
    }
    for mode in [0o600, 0o400] {
        put(&path, GOOD, mode);
        key_file::read(&path).unwrap();
    }
}

#[test]
fn malformed_files_are_named_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.key");
    let cases = [
        (String::new(), 1),
        ("\n".to_owned(), 1),
        (GOOD.replace("/1", "/0"), 1),
        (GOOD.replace("/1", "/2"), 1),
        (GOOD.replace("/1", "/10"), 1),
        (GOOD.replace("ed25519", "bls"), 1),
        (GOOD[..GOOD.len() - 1].to_owned(), 1),
        (format!("{GOOD}0"), 1),
        (format!("{GOOD}\r\n"), 1),
        (GOOD.replace("9d61", "9g61"), 1),
        (format!("{GOOD}\n\n"), 2),
        (format!("{GOOD}\n{GOOD}\n"), 2),
        ("x".repeat(100_000), 1),
    ];
    for (text, expected) in cases {
        put(&path, &text, 0o600);
        match key_file::read(&path).unwrap_err() {
            KeyFileError::Malformed { line, .. } => assert_eq!(line, expected, "{text:?}"),
            other => panic!("{other}"),
        }
    }
    put(&path, &format!("{GOOD}\n"), 0o600);
    key_file::read(&path).unwrap();
}

#[test]
fn what_is_no_file_is_refused_without_hanging() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(key_file::read(&folder.path().join("missing")), Err(KeyFileError::Io { .. })));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(key_file::read(folder.path()).is_err());
    assert!(
        key_file::write(&folder.path().join("no/such/x.key"), &SecretKey::from_seed(&[1; 32]))
            .is_err()
    );
}

#[test]
fn keys_of_every_scheme_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let shares = threshold::deal(4, 3).unwrap().shares.into_iter().map(ConsensusKey::dealt);
    let others = SchemeName::ALL.into_iter().filter(|scheme| !scheme.is_dealt());
    let keys = others.map(|scheme| ConsensusKey::generate(scheme).unwrap()).chain(shares.take(1));
    for key in keys {
        let path = folder.path().join(key.scheme().as_str());
        key_file::write_consensus(&path, &key).unwrap();
        let line = fs::read_to_string(&path).unwrap();
        assert!(line.starts_with(&format!("quorate-secret-key/1 {} ", key.scheme())), "{line}");
        let read = key_file::read_consensus(&path, key.scheme()).unwrap();
        assert_eq!((read.scheme(), read.public_key()), (key.scheme(), key.public_key()));
        assert_eq!(read.public_key().len(), key.scheme().public_key_bytes());
        assert_eq!(read.proof_of_possession(), key.proof_of_possession());
        assert_eq!(read.proof_of_possession().is_some(), key.scheme().needs_possession());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), SchemeName::ALL.len());
}

/// The key that a member's share is encrypted to is no key of a committee, and the other way round.
#[test]
fn a_decryption_key_is_read_back_and_is_of_no_committee() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encryption.key");
    let key = DecryptionKey::generate().unwrap();
    key_file::write_decryption(&path, &key).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(key_file::read_decryption(&path).unwrap().public_key(), key.public_key());
    let error = key_file::write_decryption(&path, &key).unwrap_err();
    assert!(matches!(error, KeyFileError::Exists { .. }), "{error}");
    for scheme in SchemeName::ALL {
        let text = key_file::read_consensus(&path, scheme).unwrap_err().to_string();
        assert!(text.contains(&format!("where one of {scheme} is expected")), "{text}");
    }
    let other = folder.path().join("transport.key");
    key_file::write(&other, &SecretKey::generate().unwrap()).unwrap();
    let text = key_file::read_decryption(&other).unwrap_err().to_string();
    assert!(text.contains("scheme ed25519") && text.contains("one of ristretto255 "), "{text}");
}

#[test]
fn a_key_of_another_scheme_is_refused_and_both_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.key");
    put(&path, GOOD, 0o600);
    let error = key_file::read_consensus(&path, SchemeName::Bls).unwrap_err();
    assert!(
        matches!(
            error,
            KeyFileError::Scheme { found: SchemeName::Ed25519, expected: "bls12-381", .. }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("scheme ed25519") && text.contains("one of bls12-381 "), "{text}");
    assert!(!text.contains("9d61b19d"), "{text}");
    put(&path, &GOOD.replace("ed25519", "bls12-381-threshold"), 0o600);
    assert!(matches!(key_file::read(&path), Err(KeyFileError::Scheme { .. })));
    // As where `encryption.key` is in the place of `consensus.key`.
    put(&path, &GOOD.replace("ed25519", "ristretto255"), 0o600);
    let text = key_file::read_consensus(&path, SchemeName::BlsThreshold).unwrap_err().to_string();
    let both = ["holds a key of ristretto255", "one of bls12-381-threshold is expected"];
    assert!(both.iter().all(|part| text.contains(part)), "{text}");
    assert!(!text.contains("9d61b19d"), "{text}");
    // An unknown scheme name is not repeated: it may be the key, in the wrong place.
    put(&path, &GOOD.replace(" ed25519", ""), 0o600);
    let text = key_file::read(&path).unwrap_err().to_string();
    assert!(text.contains("quorate-secret-key/1 ed25519 "), "{text}");
    assert!(!text.contains("9d61b19d"), "{text}");
}

#[test]
fn numbers_that_are_no_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.key");
    for scheme in SchemeName::ALL {
        let any_bytes_will_do = matches!(scheme, SchemeName::Ed25519 | SchemeName::None);
        for digit in ["0", "f"] {
            put(&path, &format!("quorate-secret-key/1 {scheme} {}\n", digit.repeat(64)), 0o600);
            match key_file::read_consensus(&path, scheme) {
                Ok(_) => assert!(any_bytes_will_do, "{scheme}"),
                Err(error) => {
                    assert!(!any_bytes_will_do, "{scheme}");
                    assert!(error.to_string().contains(scheme.as_str()), "{error}");
                }
            }
        }
    }
}

#[test]
fn consensus_keys_are_not_printed_and_dealt_ones_not_generated() {
    for scheme in SchemeName::ALL {
        let key = ConsensusKey::from_bytes(scheme, &[0x1b; 32]).unwrap();
        let printed = format!("{key:?}");
        assert!(printed.contains(scheme.as_str()), "{printed}");
        assert!(!printed.contains("1b1b") && !printed.contains("27, 27"), "{printed}");
        assert_eq!(ConsensusKey::generate(scheme).is_err(), scheme.is_dealt());
        assert_eq!(scheme.as_str().parse(), Ok(scheme));
    }
    let error = "rsa".parse::<SchemeName>().unwrap_err().to_string();
    assert!(error.contains("rsa") && error.contains("bls12-381-threshold"), "{error}");
}
