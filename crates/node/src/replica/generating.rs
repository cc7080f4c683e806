//! The replica's part in the generation of a threshold key, as its threads share it.
//!
//! The deciding thread notes how the generation stands in the executed state, and what was dealt in
//! the blocks that it executes. A task ([`crate::generation`]) deals, complains, and comes to the
//! replica's share. Clients' requests are answered from here, and so is the question whether the
//! replica is ready for a change.
//!
//! Dealings are in memory alone. The state holds their digests. Each dealer makes its own again
//! from its key, and any member is asked for those that are missing here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quorate_core::base::crypto::{PublicKey, ShareKeys};
use quorate_core::client::message::{Generating, OfferedKey, Response};
use quorate_core::ledger::execution::{Execution, Members};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::generation::{Dealer, Generation, Generations, Step, dealing_digest};
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::bls::threshold::generation::DecryptionKey;
use tokio::sync::Notify;

use super::keyring::Keyring;

/// Why nothing is told of a key generation.
const NO_KEY: &[u8] = b"its members have no threshold key";

/// How it stands in the executed state.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The members, as a part of the state.
    members: Members,
    /// The members of the epoch.
    pub committee: Committee,
    /// The key generations of the epoch.
    pub generations: Arc<Generations>,
}

/// The key that this replica came to, with its share on disk.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The generation as it stood then.
    pub generation: Digest,
    /// The public shares.
    pub keys: ShareKeys,
}

/// What the threads share.
pub struct Board {
    me: ReplicaId,
    keyring: Arc<Keyring>,
    height: AtomicU64,
    noted: Mutex<Noted>,
    changed: Notify,
}

#[derive(Default)]
struct Noted {
    /// `None` where the members have no threshold key.
    seen: Option<Seen>,
    /// What was dealt in the latest generation, by dealer: only what the state has the digest of.
    dealings: BTreeMap<ReplicaId, Bytes>,
    prepared: Option<Prepared>,
    waits_for: String,
    /// The key for the next generation, and what was offered of it last.
    offered: Option<Offered>,
}

/// The key for the generation of this serial.
struct Offered {
    place: (Epoch, u64),
    secret: DecryptionKey,
    /// For the own key that a client named.
    last: Option<(PublicKey, OfferedKey)>,
}

impl Offered {
    /// It with its proof, for who deals by this key. Clients ask for the same one again and again.
    fn to(&mut self, id: ReplicaId, key: PublicKey, chain: &Digest) -> OfferedKey {
        if let Some((_, offered)) = self.last.filter(|(last, _)| *last == key) {
            return offered;
        }
        let encryption = self.secret.public_key().to_bytes();
        let (ends, serial) = self.place;
        let statement = Dealer { id, key, encryption }.possession(chain, ends, serial);
        let offered = OfferedKey { key: encryption, proof: self.secret.prove(&statement.0) };
        self.last = Some((key, offered));
        offered
    }
}

impl Noted {
    fn generation(&self) -> Option<&Generation> {
        self.seen.as_ref()?.generations.current()
    }

    fn keep(&mut self, dealer: ReplicaId, dealing: Bytes) -> bool {
        let counts = self
            .generation()
            .is_some_and(|it| it.dealt().get(&dealer) == Some(&dealing_digest(&dealing)));
        if counts {
            self.dealings.insert(dealer, dealing);
        }
        counts
    }
}

impl Board {
    /// Before anything is known.
    #[must_use]
    pub fn new(me: ReplicaId, keyring: Arc<Keyring>) -> Self {
        let (height, noted) = (AtomicU64::new(0), Mutex::default());
        Self { me, keyring, height, noted, changed: Notify::new() }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This replica.
    pub(crate) fn me(&self) -> ReplicaId {
        self.me
    }

    /// Its keys.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The height of the executed state.
    pub(crate) fn height(&self) -> Height {
        Height(self.height.load(Ordering::Relaxed))
    }

    /// This is the state, behind blocks of these frames.
    pub(super) fn note<S: StateMachine>(&self, state: &Execution<S>, executed: &[SharedFrame]) {
        let (members, height) = (state.members(), state.height());
        let Some(committee) = members.committee().filter(|it| it.shares().is_some()) else {
            return;
        };
        self.height.store(height.0, Ordering::Relaxed);
        let (mut noted, generations) = (self.noted(), members.generations());
        let is_same = |seen: &Seen| {
            Arc::ptr_eq(&seen.generations, generations)
                && seen.committee.epoch() == committee.epoch()
        };
        if noted.seen.as_ref().is_some_and(is_same) {
            return;
        }
        let plan = |generation: Option<&Generation>| generation.map(|it| it.plan().clone());
        if plan(noted.generation()) != plan(generations.current()) {
            noted.dealings.clear();
            noted.prepared = None;
            noted.waits_for.clear();
        }
        noted.seen = Some(Seen {
            members: members.clone(),
            committee: committee.clone(),
            generations: Arc::clone(generations),
        });
        for frame in executed {
            if let Some(Ok(Step::Deal { dealer, dealing, .. })) = frame.step(committee.rules()) {
                noted.keep(dealer, dealing);
            }
        }
        drop(noted);
        self.changed.notify_one();
    }

    /// Waits until something was noted since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How the generation stands; `None` where members have no threshold key.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.noted().seen.clone()
    }

    /// What a member dealt, if it is here.
    pub(crate) fn dealing(&self, dealer: ReplicaId) -> Option<Bytes> {
        self.noted().dealings.get(&dealer).cloned()
    }

    /// Keeps what a member dealt, if it is what the state has the digest of.
    pub(crate) fn keep_dealing(&self, dealer: ReplicaId, dealing: Bytes) -> bool {
        self.noted().keep(dealer, dealing)
    }

    /// The replica has come to this key. It waits for nothing then.
    pub(crate) fn prepare(&self, prepared: Prepared) {
        let mut noted = self.noted();
        noted.prepared = Some(prepared);
        noted.waits_for.clear();
    }

    /// What the replica waits for.
    pub(crate) fn wait_for(&self, what: String) {
        self.noted().waits_for = what;
    }

    /// The key that the generation came to, as it stands.
    ///
    /// # Errors
    /// What the replica waits for.
    pub(super) fn prepared(&self, generation: &Digest) -> Result<Prepared, String> {
        let noted = self.noted();
        match &noted.prepared {
            Some(prepared) if prepared.generation == *generation => Ok(prepared.clone()),
            _ if noted.waits_for.is_empty() => Err("it works out its share; try again".to_owned()),
            _ => Err(noted.waits_for.clone()),
        }
    }

    /// Whether a frame is worth its proofs, as far as the executed state tells
    /// ([`Members::expects`]).
    pub(super) fn expects(&self, frame: &SharedFrame) -> bool {
        let noted = self.noted();
        noted.seen.as_ref().is_none_or(|seen| seen.members.expects(frame, self.height()))
    }

    /// The answer to a client that asks how the generation stands; see [`Self::told`].
    pub(super) fn answer(&self, id: u64, own: Option<PublicKey>) -> Response {
        match self.told(own) {
            Some(generating) => Response::Generation { id, generating: Box::new(generating) },
            None => Response::NotReady { id, reason: Bytes::from_static(NO_KEY) },
        }
    }

    /// What a client is told, and a key for the next generation if this member is to deal by an own
    /// key; `None` where members have no threshold key. The key is made, and on disk, before its
    /// public half is told.
    fn told(&self, own: Option<PublicKey>) -> Option<Generating> {
        let mut noted = self.noted();
        let Seen { committee, generations, .. } = noted.seen.clone()?;
        let (epoch, next_serial) = (committee.epoch(), generations.next_serial());
        let offered = own.map(|own| self.offer(&mut noted, (epoch, next_serial), own, &committee));
        let (encryption, waits_for) = match offered.transpose() {
            Ok(offered) => (offered, noted.waits_for.clone()),
            Err(error) => (None, format!("it cannot make a key for its share: {error}")),
        };
        let (height, current) = (self.height(), generations.current().cloned());
        let waits_for = waits_for.into_bytes().into();
        Some(Generating { epoch, height, next_serial, current, encryption, waits_for })
    }

    fn offer(
        &self,
        noted: &mut Noted,
        place: (Epoch, u64),
        own: PublicKey,
        committee: &Committee,
    ) -> Result<OfferedKey, String> {
        let offered = match noted.offered.take().filter(|offered| offered.place == place) {
            Some(offered) => offered,
            None => {
                let secret = self.keyring.shares().offered(place.0, place.1)?;
                Offered { place, secret, last: None }
            }
        };
        let offered = noted.offered.insert(offered);
        Ok(offered.to(self.me, own, &committee.chain()))
    }
}
