//! The replica's part in the generation of a threshold key, as its threads share it.
//!
//! The deciding thread notes how the generation stands in the executed state, and what was dealt in
//! the blocks that it executes. A task (`generation`) deals, complains, and comes to the
//! replica's share. Clients' requests are answered from here, and so is the question whether the
//! replica is ready for a change.
//!
//! The deciding thread takes the lock of what is noted in every turn, so nothing is computed, read
//! or written under it. Keys are offered under a lock of their own, and only to a client that names
//! a key which is this replica's own: for any other there is nothing to prove.
//!
//! Dealings are in memory alone. The state holds their digests. Each dealer makes its own again
//! from its key, and any member is asked for those that are missing here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::crypto::{PublicKey, ShareKeys};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::client::message::{Generating, OfferedKey, Response};
use quorate_core::ledger::execution::{Execution, Members};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::generation::{Dealer, Generation, Generations, Step, dealing_digest};
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::ConsensusKey;
use quorate_crypto::bls::threshold::generation::DecryptionKey;
use tokio::sync::Notify;

use super::keyring::Keyring;

/// Why nothing is told of a key generation.
const NO_KEY: &[u8] = b"its members have no threshold key";
/// The same, before it knows its members.
const STARTS: &[u8] = b"it has just started; try again";
/// Why a member has not come to its share.
const WORKS: &str = "it works out its share; try again";
/// What a member says whose votes count for nothing.
const NO_SHARE: &str = "its share of the threshold key is not in use: its log says why";
/// Why no key is offered.
const OTHER_KEY: &str = "the change gives it another key than it has";
/// How many proofs of the key for the next generation are kept.
const MOST_PROVED: usize = 2;
/// What failed, or was not there, is looked for again behind so long a time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

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
    /// The own share, of a dealer.
    pub share: Option<Arc<ConsensusKey>>,
}

/// What the threads share.
pub struct Board {
    me: ReplicaId,
    keyring: Arc<Keyring>,
    /// Whether a state was noted yet.
    has_begun: AtomicBool,
    height: AtomicU64,
    noted: Mutex<Noted>,
    offers: Mutex<Offers>,
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
}

/// The key for the next generation, and what was proved of it.
#[derive(Default)]
struct Offers {
    /// Which generation it is for.
    place: (Epoch, u64),
    secret: Option<DecryptionKey>,
    /// By own key that a client named: the one in use and the next one, at most [`MOST_PROVED`].
    proved: Vec<(PublicKey, OfferedKey)>,
    /// The next own key, and when it was looked for.
    next: Option<(Instant, Option<ReplicaKey>)>,
    /// Why there is no secret, and since when.
    failed: Option<(Instant, String)>,
}

impl Offers {
    /// The key with its proof, for who deals by the own key `own`. Clients ask for the same one
    /// again and again, and strangers for others.
    fn to(
        &mut self,
        own: PublicKey,
        place: (Epoch, u64),
        board: &Board,
        chain: &Digest,
    ) -> Result<OfferedKey, String> {
        let now = Instant::now();
        if self.place != place {
            let next = self.next.take();
            *self = Self { place, next, ..Self::default() };
        }
        if let Some((_, offered)) = self.proved.iter().find(|(proved, _)| *proved == own) {
            return Ok(*offered);
        }
        if !self.is_own(own, board, now) {
            return Err(OTHER_KEY.to_owned());
        }
        let secret = self.secret(board, now)?;
        let encryption = secret.public_key().to_bytes();
        let statement = Dealer { id: board.me, key: own, encryption };
        let statement = statement.possession(chain, place.0, place.1);
        let offered = OfferedKey { key: encryption, proof: secret.prove(&statement.0) };
        if self.proved.len() == MOST_PROVED {
            self.proved.remove(0);
        }
        self.proved.push((own, offered));
        Ok(offered)
    }

    /// Whether a key is this replica's own. The file of the next one is read at most once in
    /// [`AGAIN_AFTER`].
    fn is_own(&mut self, own: PublicKey, board: &Board, now: Instant) -> bool {
        let own = ReplicaKey::from(own.0);
        if board.keyring.public() == own {
            return true;
        }
        if self.next.as_ref().is_none_or(|(at, _)| now.duration_since(*at) >= AGAIN_AFTER) {
            self.next = Some((now, board.keyring.next_public()));
        }
        self.next.as_ref().is_some_and(|(_, next)| next.as_ref() == Some(&own))
    }

    /// The secret half, which is on disk. A full disk is tried at most once in [`AGAIN_AFTER`].
    fn secret(&mut self, board: &Board, now: Instant) -> Result<&DecryptionKey, String> {
        if let Some((at, why)) = &self.failed
            && now.duration_since(*at) < AGAIN_AFTER
        {
            return Err(why.clone());
        }
        let secret = match self.secret.take() {
            Some(secret) => secret,
            None => {
                board.keyring.shares().offered(self.place.0, self.place.1).map_err(|error| {
                    let why = format!("it cannot make a key for its share: {error}");
                    self.failed = Some((now, why.clone()));
                    why
                })?
            }
        };
        Ok(self.secret.insert(secret))
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
        let (has_begun, height) = (AtomicBool::new(false), AtomicU64::new(0));
        let (noted, offers, changed) = (Mutex::default(), Mutex::default(), Notify::new());
        Self { me, keyring, has_begun, height, noted, offers, changed }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This replica.
    pub(crate) fn me(&self) -> ReplicaId {
        self.me
    }

    /// Its keys.
    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// The height of the executed state.
    pub(crate) fn height(&self) -> Height {
        Height(self.height.load(Ordering::Relaxed))
    }

    /// This is the state, behind blocks of these frames.
    pub(super) fn note<S: StateMachine>(&self, state: &Execution<S>, executed: &[SharedFrame]) {
        let (members, height) = (state.members(), state.height());
        self.has_begun.store(true, Ordering::Relaxed);
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

    /// The generation of this serial is the next one: no earlier key is offered any more, and none
    /// stays in memory.
    pub(crate) fn forget_offers_before(&self, epoch: Epoch, serial: u64) {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.place < (epoch, serial) {
            let next = offers.next.take();
            *offers = Offers { place: (epoch, serial), next, ..Offers::default() };
        }
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

    /// No generation is under way.
    pub(crate) fn rest(&self) {
        let mut noted = self.noted();
        if noted.generation().is_none() {
            noted.prepared = None;
            noted.waits_for.clear();
        }
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
            _ if noted.waits_for.is_empty() => Err(WORKS.to_owned()),
            _ => Err(noted.waits_for.clone()),
        }
    }

    /// Whether a frame is worth its proofs, as far as the executed state tells
    /// ([`Members::expects`]).
    pub(super) fn expects(&self, frame: &SharedFrame) -> bool {
        self.seen().is_none_or(|seen| seen.members.expects(frame, self.height()))
    }

    /// The answer to a client that asks how the generation stands; see [`Self::told`].
    pub(super) fn answer(&self, id: u64, own: Option<PublicKey>) -> Response {
        match self.told(own) {
            Some(generating) => Response::Generation { id, generating: Box::new(generating) },
            None if self.has_begun.load(Ordering::Relaxed) => {
                Response::NotReady { id, reason: Bytes::from_static(NO_KEY) }
            }
            None => Response::NotReady { id, reason: Bytes::from_static(STARTS) },
        }
    }

    /// What a client is told, and a key for the next generation if `own` is a key of this replica;
    /// `None` where members have no threshold key. The key is made, and on disk, before its public
    /// half is told.
    fn told(&self, own: Option<PublicKey>) -> Option<Generating> {
        let noted = self.noted();
        let (seen, mut waits_for) = (noted.seen.clone()?, noted.waits_for.clone());
        let prepared = noted.prepared.as_ref().map(|prepared| prepared.generation);
        drop(noted);
        // Something was dealt since it came to a share, or it has just begun.
        let current = seen.generations.current();
        if waits_for.is_empty() && current.is_some_and(|it| Some(it.digest()) != prepared) {
            waits_for = WORKS.to_owned();
        }
        let Seen { committee, generations, .. } = seen;
        let (epoch, next_serial) = (committee.epoch(), generations.next_serial());
        let mut encryption = None;
        if let Some(own) = own {
            let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
            match offers.to(own, (epoch, next_serial), self, &committee.chain()) {
                Ok(offered) => encryption = Some(offered),
                Err(why) => waits_for = why,
            }
        }
        if waits_for.is_empty() && self.keyring.lacks_share() {
            waits_for = NO_SHARE.to_owned();
        }
        let (height, current) = (self.height(), generations.current().cloned());
        let waits_for = waits_for.into_bytes().into();
        Some(Generating { epoch, height, next_serial, current, encryption, waits_for })
    }
}
