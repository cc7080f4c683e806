//! Addresses: whom an output belongs to, and how people write that down.
//!
//! An address is the digest of an Ed25519 key. People write it in Bech32m (BIP 350): the prefix
//! `pay`, the separator `1`, 52 digits of five bits each, and a checksum of six. The checksum finds
//! every mistake in up to four characters, and others but for one in 10⁹. Upper and lower case mean
//! the same; a mix of both is refused.

use std::fmt;
use std::str::FromStr;

use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader};

/// Whom an output belongs to: whoever signs with the key that this is the digest of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub [u8; Address::BYTES]);

impl Address {
    /// Bytes of an address.
    pub const BYTES: usize = 32;

    /// The address of a key.
    #[must_use]
    pub fn of(key: &PublicKey) -> Self {
        Self(Digest::of("quorate address 1", &key.0).0)
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has another length.
    #[error("an address has {LENGTH} characters, this has {0}: was all of it copied?")]
    Length(usize),
    /// It begins otherwise.
    #[error("an address begins with \"{PREFIX}1\"")]
    Prefix,
    /// A character is none of those that addresses are written with.
    #[error("no address has the character {0:?}")]
    Character(char),
    /// Upper and lower case are mixed.
    #[error("upper and lower case are mixed: copy the address again")]
    Case,
    /// The checksum does not match.
    #[error("the checksum does not match: a character is wrong, copy the address again")]
    Checksum,
}

const PREFIX: &str = "pay";
const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// Digits of the 256 bits; the last has four bits that are zero.
const DATA: usize = (8 * Address::BYTES).div_ceil(5);
const CHECKSUM: usize = 6;
const LENGTH: usize = PREFIX.len() + 1 + DATA + CHECKSUM;
/// What sets Bech32m apart from Bech32 (BIP 350).
const BECH32M: u32 = 0x2bc8_30a3;

/// The checksum's polynomial division (BIP 173), one digit further.
fn step(state: u32, digit: u8) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let top = state >> 25;
    let shifted = (state & 0x01ff_ffff) << 5 ^ u32::from(digit);
    let taken = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
    taken.fold(shifted, |state, (_, generator)| state ^ generator)
}

/// The state after the prefix (BIP 173: high bits, a zero, low bits) and some digits.
fn checked(digits: impl Iterator<Item = u8>) -> u32 {
    let high = PREFIX.bytes().map(|byte| byte >> 5);
    let low = PREFIX.bytes().map(|byte| byte & 31);
    high.chain([0]).chain(low).chain(digits).fold(1, step)
}

/// Takes bits in pieces of another size; what is left over is filled up with zeros.
fn regrouped(input: &[u8], from: u32, to: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len() * from as usize / to as usize + 1);
    let (mut bits, mut held) = (0u32, 0);
    for piece in input {
        bits = (bits << from | u32::from(*piece)) & 0xfff;
        held += from;
        while held >= to {
            held -= to;
            out.push((bits >> held & ((1 << to) - 1)) as u8);
        }
    }
    if held > 0 && from > to {
        out.push((bits << (to - held) & ((1 << to) - 1)) as u8);
    }
    out
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = regrouped(&self.0, 8, 5);
        let checksum = checked(digits.iter().copied().chain([0; CHECKSUM])) ^ BECH32M;
        digits.extend((0..CHECKSUM as u32).rev().map(|place| (checksum >> (5 * place) & 31) as u8));
        let written = digits.iter().map(|digit| char::from(DIGITS[usize::from(*digit)]));
        let text: String = PREFIX.chars().chain(['1']).chain(written).collect();
        f.pad(&text)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        f.write_str(&text[..PREFIX.len() + 9])
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let lower = text.to_ascii_lowercase();
        if text != lower && text != text.to_ascii_uppercase() {
            return Err(AddressError::Case);
        }
        let rest = lower.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('1'));
        let rest = rest.ok_or(AddressError::Prefix)?;
        let digit = |character: char| {
            let place = DIGITS.iter().position(|digit| char::from(*digit) == character);
            place.map(|place| place as u8).ok_or(AddressError::Character(character))
        };
        let digits = rest.chars().map(digit).collect::<Result<Vec<u8>, _>>()?;
        if digits.len() != DATA + CHECKSUM {
            return Err(AddressError::Length(text.chars().count()));
        }
        if checked(digits.iter().copied()) != BECH32M {
            return Err(AddressError::Checksum);
        }
        let data = &digits[..DATA];
        let bytes: [u8; Self::BYTES] =
            regrouped(data, 5, 8).try_into().map_err(|_| AddressError::Checksum)?;
        // Whoever computed a checksum over other bits at the end wrote no address.
        match regrouped(&bytes, 8, 5) == data {
            true => Ok(Self(bytes)),
            false => Err(AddressError::Checksum),
        }
    }
}

impl Encode for Address {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for Address {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError, step};

    /// BIP 350 gives `a1lqfn3a` as the shortest valid string: no data, the prefix `a`.
    #[test]
    fn the_checksum_is_that_of_bip_350() {
        let digit = |c: u8| super::DIGITS.iter().position(|digit| *digit == c).unwrap() as u8;
        let digits = b"lqfn3a".map(digit);
        let state = [b'a' >> 5, 0, b'a' & 31].into_iter().chain(digits).fold(1, step);
        assert_eq!(state, super::BECH32M);
    }

    #[test]
    fn an_address_is_read_back_and_every_mistake_in_two_characters_is_found() {
        let address = Address(std::array::from_fn(|place| (place * 37 + 5) as u8));
        let text = address.to_string();
        assert_eq!(text.len(), super::LENGTH);
        assert_eq!(text.parse(), Ok(address));
        assert_eq!(text.to_uppercase().parse(), Ok(address));
        for first in 4..text.len() {
            for second in first..text.len() {
                let mut wrong = text.clone().into_bytes();
                for place in [first, second] {
                    wrong[place] = if wrong[place] == b'q' { b'p' } else { b'q' };
                }
                let wrong = String::from_utf8(wrong).unwrap();
                if wrong != text {
                    assert_eq!(wrong.parse::<Address>(), Err(AddressError::Checksum), "{wrong}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        let text = Address([7; 32]).to_string();
        let parse = |text: &str| text.parse::<Address>().unwrap_err();
        assert_eq!(parse(&text[1..]), AddressError::Prefix);
        assert_eq!(parse(&text[..60]), AddressError::Length(60));
        assert_eq!(parse(&text.replace("pay1", "pay1b")), AddressError::Character('b'));
        assert_eq!(parse(&text.replace("pay", "Pay")), AddressError::Case);
        assert_eq!(parse(""), AddressError::Prefix);
    }
}
