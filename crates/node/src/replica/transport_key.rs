//! The transport key of a replica, from one epoch to the next.
//!
//! Where members may change, the committee of each epoch names the key by which this replica proves
//! itself when it connects, to replicas and to clients. A change may name another one (`quorate
//! member rotate-key`). Then both ends of its links go over:
//!
//! 1. **When the epoch begins**, the replica proves the new key on each connection that is made
//!    from then on. Those that are there stay. The others accept both keys of it
//!    ([`Epochs::peers`](super::epochs::Epochs::peers)): some hear of the epoch earlier than
//!    others.
//! 2. **When a certificate of the new epoch is durable at a replica**, that replica accepts the new
//!    key alone. It ends the connection that it has, which is made anew by the new key.
//!
//! One that was away meanwhile knows the others by former keys, or proves its own former one, and
//! reaches them no more as a peer. It asks as a client does, where it finds a proof of the newest
//! members (`scout`), and goes over as well.
//!
//! The files are those of the [keyring](super::keyring), beside `transport.key`. The former key
//! forges nothing of the past, but who holds it could speak in the replica's name to others that
//! have not heard of the change. So it is erased with the former consensus key.

use std::io;
use std::path::Path;

use quorate_core::ReplicaId;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};
use quorate_transport::{Identity, TlsError};

use super::keyring::Keyring;
use crate::config::Contact;

/// The transport keys of a replica, and the identity that proves the one in use.
pub struct TransportKey {
    keyring: Keyring,
    identity: Identity,
}

impl TransportKey {
    /// The keys beside that of `file`, which holds `key`.
    ///
    /// # Errors
    /// [`TlsError`] if the TLS library refuses the key.
    pub fn new(file: &Path, key: &SecretKey) -> Result<Self, TlsError> {
        let identity = Identity::new(key)?;
        let key = ConsensusKey::from_bytes(SchemeName::Ed25519, key.seed());
        let Some(key) = key else { unreachable!("every seed is a key of Ed25519") };
        Ok(Self { keyring: Keyring::new(file, key), identity })
    }

    /// What proves the key in use. All clones go over with it.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Whether the secret half of `key` is here: of the one in use, or of the next.
    #[must_use]
    pub fn holds(&self, key: PublicKey) -> bool {
        self.keyring.signer_of(&ReplicaKey::from(key.0)).is_some()
    }

    /// Those who prove the newest epoch know this replica by `key`: it proves that one from now on.
    /// Returns whether the key is here.
    pub fn enter(&self, key: PublicKey) -> bool {
        if self.identity.key() == key {
            return true;
        }
        if !self.keyring.enter(&ReplicaKey::from(key.0)) {
            return false;
        }
        let secret = SecretKey::from_seed(&self.keyring.secret().to_bytes());
        self.identity.change(&secret).is_ok()
    }

    /// Whether a former key is to be erased once an epoch of this committee is settled. The replica
    /// may prove the key of a later one already, of which others told it: if it came back from its
    /// disk to this epoch, it would need the former key.
    #[must_use]
    pub fn has_former(&self, committee: &Committee, me: ReplicaId) -> bool {
        let named = committee.member(me).and_then(|member| Contact::of(member).ok());
        self.keyring.has_former()
            && named.is_none_or(|contact| contact.transport_key == self.identity.key())
    }

    /// See [`Keyring::erase_former`].
    ///
    /// # Errors
    /// The files could not be changed.
    pub fn erase_former(&self) -> io::Result<()> {
        self.keyring.erase_former()
    }
}
