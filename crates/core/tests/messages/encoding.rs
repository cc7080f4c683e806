//! The encodings of what replicas say and keep.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::{Block, FullBlock};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_core::{Digest, Epoch};

use crate::strategies::{full_block, peer_message, safety};

/// Decodes what was encoded, nothing of what was cut off, and survives every change of a byte.
fn holds_up<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T, at: usize, byte: u8) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(bytes.clone().into()).as_ref(), Ok(value));
    let cut = at % bytes.len();
    assert!(T::from_bytes(bytes[..cut].to_vec().into()).is_err(), "cut off at {cut}");
    let mut changed = bytes.clone();
    changed[cut] = byte;
    if let Ok(other) = T::from_bytes(changed.clone().into()) {
        assert_eq!(other.to_bytes(), changed, "one encoding a value");
    }
    let mut longer = bytes;
    longer.push(byte);
    assert!(T::from_bytes(longer.into()).is_err());
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(1024)
    })]

    #[test]
    fn peer_messages_are_read_back(value in peer_message(), at: usize, byte: u8) {
        holds_up(&value, at, byte);
    }

    #[test]
    fn records_are_read_back(safety in safety(), full in full_block(), at: usize, byte: u8) {
        holds_up(&safety, at, byte);
        holds_up(&full, at, byte);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(kind in 0u8..18, bytes in vec(any::<u8>(), 0..400)) {
        let mut input = vec![kind];
        input.extend(&bytes);
        let _ = PeerMessage::<Types>::from_bytes(input.into());
        let _ = Safety::from_bytes(bytes.clone().into());
        let _ = FullBlock::from_bytes(bytes.clone().into());
        let _ = Offer::<Types>::from_bytes(bytes.into());
    }
}

#[test]
fn a_block_is_shown_by_its_place() {
    let genesis = Block::genesis(Digest([7; 32]), Epoch(0));
    let shown = format!("{genesis:?}");
    assert_eq!(shown, format!("block {:?} v0 h0 on 07070707", genesis.id()));
}
