//! Where a member is reached, as the committee carries it: the core passes these bytes on and never
//! reads them.

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use quorate_transport as transport;

use super::quantity::HostPort;

/// The version of the encoding.
const VERSION: u8 = 1;
/// The longest address: a host of 253 bytes, a colon, and a port.
const MAX_ADDRESS_BYTES: usize = 259;

/// Where a member is reached, and by which key it proves itself there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// What it proves itself with when others connect.
    pub transport_key: PublicKey,
    /// Where other replicas reach it.
    pub peer_address: HostPort,
    /// Where clients reach it.
    pub client_address: HostPort,
}

impl Contact {
    /// That of a member, if it says where it is.
    ///
    /// # Errors
    /// [`DecodeError`]: this version cannot reach it.
    pub fn of(member: &membership::Member) -> Result<Self, DecodeError> {
        Self::from_bytes(bytes::Bytes::copy_from_slice(&member.contact))
    }

    /// As the transport among replicas knows it.
    #[must_use]
    pub fn as_peer(&self) -> transport::Member {
        let (key, address) = (self.transport_key, self.peer_address.to_string());
        transport::Member { key, former: None, address }
    }
}

/// The members of a committee as the transport knows them, by id. A member whose contact cannot be
/// read is none: a change with such a one is not prepared by any correct replica, and if it comes
/// all the same, nobody knows where to reach it.
#[must_use]
pub fn peers(committee: &membership::Committee) -> Vec<Option<transport::Member>> {
    let peer = |member: &Option<membership::Member>| {
        Contact::of(member.as_ref()?).ok().map(|contact| contact.as_peer())
    };
    committee.members().iter().map(peer).collect()
}

impl Encode for Contact {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.transport_key.encode(out);
        put_bytes(out, self.peer_address.to_string().as_bytes());
        put_bytes(out, self.client_address.to_string().as_bytes());
    }
}

impl Decode for Contact {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.version("contact", VERSION)?;
        let transport_key = PublicKey::decode(reader)?;
        Ok(Self { transport_key, peer_address: address(reader)?, client_address: address(reader)? })
    }
}

fn address(reader: &mut Reader) -> Result<HostPort, DecodeError> {
    let text = reader.byte_string("an address", MAX_ADDRESS_BYTES)?;
    let address = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<HostPort>().ok());
    // One encoding for each contact.
    let address = address.filter(|it| it.port() > 0 && it.to_string().as_bytes() == &text[..]);
    address.ok_or(DecodeError::Invalid { field: "an address" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact() -> Contact {
        Contact {
            transport_key: PublicKey([7; 32]),
            peer_address: "replica.example:7000".parse().unwrap(),
            client_address: "[::1]:7001".parse().unwrap(),
        }
    }

    #[test]
    fn a_contact_comes_back_as_it_was_and_nothing_else_is_one() {
        let bytes = contact().to_bytes();
        assert_eq!(Contact::from_bytes(bytes.clone().into()), Ok(contact()));
        for length in 0..bytes.len() {
            assert!(Contact::from_bytes(bytes[..length].to_vec().into()).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Contact::from_bytes(longer.into()).is_err());
        let other_version = [&[2], &bytes[1..]].concat();
        assert!(Contact::from_bytes(other_version.into()).is_err());
        for address in ["nowhere", "host:0", "host:070", "a b:1", ""] {
            let mut bytes = bytes[..33].to_vec();
            put_bytes(&mut bytes, address.as_bytes());
            put_bytes(&mut bytes, b"host:1");
            assert!(Contact::from_bytes(bytes.into()).is_err(), "{address}");
        }
    }

    #[test]
    fn the_longest_contact_fits_into_a_member() {
        let label = "a".repeat(63);
        let host = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        let address: HostPort = format!("{host}:65535").parse().unwrap();
        let contact =
            Contact { peer_address: address.clone(), client_address: address, ..contact() };
        assert!(contact.to_bytes().len() <= membership::Member::MAX_CONTACT_BYTES);
        assert_eq!(Contact::from_bytes(contact.to_bytes().into()), Ok(contact));
    }
}
