//! By which transport keys members are known, while the epochs change.

use quorate_core::base::crypto::{ClientSigner as _, PublicKey};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey};
use quorate_core::base::wire::Encode as _;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::{SecretKey, key_file};

use crate::config::{Contact, HostPort};
use crate::replica::epochs::Epochs;
use crate::replica::keyring::beside;
use crate::replica::transport_key::TransportKey;

fn key(number: u8) -> PublicKey {
    SecretKey::from_seed(&[number; 32]).public_key()
}

/// Four members; these are the numbers of their transport keys.
fn committee(epoch: u64, transport: [u8; 4]) -> Committee {
    let member = |id: usize| {
        let (peer, client) = (7000 + id as u16, 8000 + id as u16);
        let contact = Contact {
            transport_key: key(transport[id]),
            peer_address: HostPort::loopback(peer),
            client_address: HostPort::loopback(client),
        };
        let member = Member::new(ReplicaKey::from(key(100 + id as u8).0));
        Some(Member { contact: contact.to_bytes().into(), ..member })
    };
    let members = (0..4).map(member).collect();
    let governance = Governance { administrators: vec![key(200)], approvals: 1 };
    let opening = Opening { after: Digest([7; 32]), height: Height(100 * epoch) };
    let chain = Digest([7; 32]);
    Committee::with_members(chain, Epoch(epoch), opening, members, governance).unwrap()
}

/// The key and the former key of a member, as the transport knows them.
fn known(epochs: &Epochs, id: usize) -> (PublicKey, Option<PublicKey>) {
    let member = epochs.peers()[id].clone().unwrap();
    (member.key, member.former)
}

#[test]
fn a_former_transport_key_is_accepted_until_its_epoch_is_settled() {
    let me = ReplicaId(1);
    let epochs = Epochs::new(committee(0, [0, 1, 2, 3]));
    assert!(epochs.is_settled(), "the first epoch needs no certificate");
    assert_eq!(known(&epochs, 3), (key(3), None));

    epochs.begin(committee(1, [0, 11, 2, 13]));
    assert_eq!(known(&epochs, 3), (key(13), Some(key(3))));
    assert_eq!(known(&epochs, 2), (key(2), None), "it has no other key");
    assert_eq!(epochs.transport_key(me), Some(key(11)));
    epochs.settle();
    assert_eq!(known(&epochs, 3), (key(13), None));

    // Somebody proves a later epoch, to which this replica has not come: of its own epoch it knows
    // that it is settled, and of that one nothing.
    epochs.is_ahead(committee(2, [0, 21, 2, 23]));
    assert_eq!(known(&epochs, 3), (key(23), Some(key(13))));
    assert_eq!(epochs.transport_key(me), Some(key(21)));
    epochs.begin(committee(2, [0, 21, 2, 23]));
    assert!(!epochs.is_settled());
    assert_eq!(known(&epochs, 3), (key(23), Some(key(13))));
    epochs.settle();
    assert_eq!(known(&epochs, 3), (key(23), None));
}

/// A replica that is behind proves the key of a later epoch, of which others told it. If it stops,
/// it comes back to the epoch that it was in.
#[test]
fn a_former_transport_key_is_kept_while_the_replica_s_own_epoch_names_it() {
    let (folder, me) = (tempfile::tempdir().unwrap(), ReplicaId(1));
    let file = folder.path().join("transport.key");
    let secret = |number: u8| SecretKey::from_seed(&[number; 32]);
    key_file::write(&file, &secret(1)).unwrap();
    key_file::write(&beside(&file, "next"), &secret(11)).unwrap();
    let keys = TransportKey::new(&file, &secret(1)).unwrap();
    assert!(keys.enter(key(11)));
    assert!(!keys.has_former(&committee(0, [0, 1, 2, 3]), me), "it would come back to this epoch");
    assert!(keys.has_former(&committee(1, [0, 11, 2, 3]), me));
}
