//! Tests that memory of a secret key is wiped before it is freed, so that neither its next user nor
//! a core dump or swap file contains the key.
//!
//! An allocator examines each block that is freed. It sees only the heap of Rust: not the stack,
//! and not the memory that AWS-LC allocates itself (and wipes).
#![expect(unsafe_code, reason = "an allocator is unsafe, and so is a look into what is freed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io::Write as _;

use quorate_crypto::bls::threshold::{
    self,
    generation::{DecryptionKey, Generation, Round},
};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey, key_file};

/// Half of a key counts as found.
const PART: usize = 16;

thread_local! {
    /// The secrets to search for: keys in either order of their bytes, and in hexadecimal.
    static SECRETS: RefCell<Vec<[u8; PART]>> = const { RefCell::new(Vec::new()) };
    static FOUND: Cell<usize> = const { Cell::new(0) };
}

struct Looking;

#[global_allocator]
static LOOKING: Looking = Looking;

fn look(block: &[u8]) {
    // There is no search while a thread ends or the list itself changes.
    let _ = SECRETS.try_with(|secrets| {
        let Ok(secrets) = secrets.try_borrow() else { return };
        let holds = |secret: &[u8; PART]| block.windows(PART).any(|window| window == secret);
        if secrets.iter().any(holds) {
            let _ = FOUND.try_with(|found| found.set(found.get() + 1));
        }
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged. Blocks begin as zeros, so
// all of a freed block may be read.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the block still belongs to the caller, and has this length.
        look(unsafe { std::slice::from_raw_parts(pointer, layout.size()) });
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The number of blocks with one of `secrets` that `work` frees.
fn found<const N: usize>(secrets: &[[u8; N]], work: impl FnOnce()) -> usize {
    let hex = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
    };
    let mut parts = Vec::new();
    for secret in secrets {
        let reversed: Vec<u8> = secret.iter().rev().copied().collect();
        for bytes in [secret.to_vec(), reversed, hex(secret)] {
            parts
                .extend(bytes.chunks_exact(PART).map(|part| <[u8; PART]>::try_from(part).unwrap()));
        }
    }
    SECRETS.with(|secrets| *secrets.borrow_mut() = parts);
    FOUND.set(0);
    work();
    SECRETS.with(|secrets| secrets.borrow_mut().clear());
    FOUND.get()
}

/// A key of every scheme. No part of it is zeros or other likely content of memory.
fn secret(scheme: SchemeName) -> [u8; 32] {
    let mut secret = *blake3::hash(scheme.as_str().as_bytes()).as_bytes();
    // Below each group's order.
    secret[0] &= 0x3f;
    secret
}

#[test]
fn a_block_that_was_not_wiped_is_found() {
    let secret = secret(SchemeName::Ed25519);
    let boxed = Box::new(secret);
    assert_eq!(found(&[secret], || drop(boxed)), 1);
    let mut reversed = secret.to_vec();
    reversed.reverse();
    assert_eq!(found(&[secret], || drop(reversed)), 1);
    let line = format!("{secret:02x?}").replace([',', ' '], "");
    assert_eq!(found(&[secret], || drop(line)), 1);
    assert_eq!(found(&[secret], || drop(vec![7; 1000])), 0);
}

#[test]
fn keys_are_wiped_when_they_are_dropped() {
    for scheme in SchemeName::ALL {
        let secret = secret(scheme);
        let key = Box::new(ConsensusKey::from_bytes(scheme, &secret).unwrap());
        let bytes = Box::new(key.to_bytes());
        assert_eq!(**bytes, secret, "{scheme}");
        assert_eq!(found(&[secret], || drop((key, bytes))), 0, "{scheme}");
    }
    let secret = secret(SchemeName::Ed25519);
    let key = Box::new(SecretKey::from_seed(&secret));
    let copy = key.clone();
    assert_eq!(found(&[secret], || drop((key, copy))), 0);
}

#[test]
fn files_of_keys_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    for scheme in SchemeName::ALL {
        let secret = secret(scheme);
        let key = ConsensusKey::from_bytes(scheme, &secret).unwrap();
        let path = folder.path().join(scheme.as_str());
        let work = || {
            key_file::write_consensus(&path, &key).unwrap();
            drop(Box::new(key_file::read_consensus(&path, scheme).unwrap()));
            // Nor does a file that is refused.
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
            key_file::read_consensus(&path, scheme).unwrap_err();
        };
        assert_eq!(found(&[secret], work), 0, "{scheme}");
    }
}

/// The shares of a dealt key.
#[test]
fn shares_are_wiped_when_they_are_dropped() {
    let deal = threshold::deal(4, 3).unwrap();
    let secrets: Vec<[u8; 32]> = deal.shares.iter().map(|share| *share.to_bytes()).collect();
    assert_eq!(found(&secrets, || drop(deal)), 0);
}

/// What a member of a key generation computes: its dealing, and its share. A quorum of five is more
/// than a small vector holds before it grows.
#[test]
fn a_key_generation_leaves_nothing_behind() {
    let seeds: Vec<[u8; 32]> = (0..7u8).map(|at| *blake3::hash(&[at]).as_bytes()).collect();
    let keys: Vec<_> = seeds.iter().map(DecryptionKey::from_seed).collect();
    let public: Vec<_> = keys.iter().map(|key| key.public_key().to_bytes()).collect();
    let round = Round::new([7; 32], &public, 5).unwrap();
    let mut generation = Generation::new(round.clone());
    for (dealer, seed) in seeds.iter().enumerate() {
        generation.take_dealing(dealer, &round.deal(dealer, seed).unwrap()).unwrap();
    }
    let share = *generation.share(0, &keys[0]).unwrap().to_bytes();
    let coefficients = round.coefficients(0, &seeds[0]);
    assert_eq!(coefficients.len(), 5);
    let secrets = [&[seeds[0], share][..], &coefficients].concat();
    let work = || {
        let key = Box::new(DecryptionKey::from_seed(&seeds[0]));
        drop(round.deal(0, &seeds[0]));
        drop(Box::new(generation.share(0, &key).unwrap()));
    };
    assert_eq!(found(&secrets, work), 0);
}
