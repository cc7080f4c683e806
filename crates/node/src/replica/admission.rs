//! Who may send commands, at the door: frames of others are turned away before anything of them is
//! hashed or verified.
//!
//! The list of clients is replicated state ([`quorate_core::ledger::clients`]), and the state has
//! the last word. The deciding thread publishes the list whenever it has changed ([`Published`]);
//! the clients' stage looks at it once a batch. Members that are to deal in a key generation come
//! in without being listed, as administrators do: else none could deal where clients are listed.
//!
//! # What a client is told
//! A replica may be behind, and not know yet that a client was allowed. So it says that a frame is
//! rejected only if that will stay true: the frame asks for a session (its client may ask again),
//! or it is of a session whose number is below that of any session that a key without rights could
//! have opened since. Of other frames it says that it is not ready, and clients ask again.
//!
//! # Rates
//! A key with a rate has a bucket of tokens, one a command; a second's worth fits. Each replica has
//! buckets of its own. A frame is taken as long as there is a token, and takes as many as it has
//! commands, so a bucket may be in debt for a while. It pays when its signature has held: nobody
//! can use up the tokens of another. A client beyond its rate hears that the replica is busy.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use quorate_core::base::crypto::PublicKey;
use quorate_core::client::message::{Outcome, Refusal, Rejection, Response};
use quorate_core::ledger::clients::Clients;
use quorate_core::ledger::frame::Unnamed;
use quorate_core::ledger::sessions::Sessions;
use quorate_core::{Digest, SessionId, planted};

use super::epochs::Epochs;

/// How often the log names a client that is refused, for each reason.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The list of clients, as it was executed last.
#[derive(Debug, Default)]
pub struct Published(RwLock<Known>);

/// What is known of clients.
#[derive(Clone, Debug, Default)]
struct Known {
    clients: Arc<Clients>,
    /// The members that are to deal, by their own keys.
    dealers: Arc<BTreeSet<PublicKey>>,
    /// When this list came into force, keys without rights had no session below this number.
    next_session: SessionId,
}

impl Published {
    /// Publishes the list of a state and its dealers, if they are others.
    pub fn note(&self, sessions: &Sessions) {
        let (clients, dealers) = (Arc::clone(sessions.clients()), Arc::clone(sessions.dealers()));
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_same_list = Arc::ptr_eq(&known.clients, &clients);
        if is_same_list && Arc::ptr_eq(&known.dealers, &dealers) {
            return;
        }
        let next_session = match is_same_list {
            true => known.next_session,
            false => sessions.next_session(),
        };
        drop(known);
        let known = Known { clients, dealers, next_session };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> Known {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The door.
#[derive(Debug)]
pub struct Admission {
    epochs: Arc<Epochs>,
    known: Known,
    /// Of keys with a rate that have sent something.
    buckets: BTreeMap<PublicKey, Bucket>,
    told: BTreeMap<&'static str, Told>,
}

/// Tokens.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: NonZeroU32,
    /// In billionths.
    tokens: i128,
    since: Instant,
}

/// What the log was told of refusals for one reason.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    untold: u64,
}

const BILLION: i128 = 1_000_000_000;

impl Bucket {
    fn full(rate: NonZeroU32, now: Instant) -> Self {
        Self { rate, tokens: i128::from(rate.get()) * BILLION, since: now }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_nanos();
        let rate = i128::from(self.rate.get());
        let more = i128::try_from(passed).unwrap_or(i128::MAX).saturating_mul(rate);
        self.tokens = self.tokens.saturating_add(more).min(rate * BILLION);
        self.since = self.since.max(now);
    }
}

impl Admission {
    /// The door of a replica that publishes there who its members and clients are.
    #[must_use]
    pub fn new(epochs: Arc<Epochs>) -> Self {
        let known = epochs.clients.known();
        Self { epochs, known, buckets: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// Looks at the list that is in force.
    pub fn look(&mut self) {
        let known = self.epochs.clients.known();
        if !Arc::ptr_eq(&known.clients, &self.known.clients) {
            let rate = |key: &PublicKey| known.clients.grant(key)?.commands_per_second;
            self.buckets.retain(|key, bucket| rate(key) == Some(bucket.rate));
        }
        self.known = known;
    }

    /// The list that is in force.
    #[must_use]
    pub fn clients(&self) -> &Arc<Clients> {
        &self.known.clients
    }

    /// Why a frame is turned away, if it is. What administrators send is for the state to judge, as
    /// is what members send that are to deal.
    #[must_use]
    pub fn refuses(&self, frame: &Unnamed) -> Option<Rejection> {
        let key = frame.key();
        let reason = self.known.clients.admits(&key).err()?;
        let is_administrator =
            || self.epochs.committee().governance().administrators.contains(&key);
        let deals = planted!("dealers-turned-away", false, self.known.dealers.contains(&key));
        (!deals && !is_administrator()).then_some(reason)
    }

    /// What the client is told of a frame that is turned away.
    #[must_use]
    pub fn answer(&self, frame: &Unnamed, reason: Rejection) -> Response {
        let (session, first) = (frame.session(), frame.first());
        if session < self.known.next_session {
            return Response::Outcome(Outcome::Rejected { session, first, reason });
        }
        Response::Refused { session, first, reason: Refusal::Unavailable }
    }

    /// Whether a key has used up its rate.
    pub fn is_beyond_rate(&mut self, key: &PublicKey, now: Instant) -> bool {
        self.bucket(key, now).is_some_and(|bucket| bucket.tokens < BILLION)
    }

    /// Takes a key's tokens for so many commands, whose signature holds. Says whether there was
    /// one.
    pub fn pay(&mut self, key: &PublicKey, commands: u32, now: Instant) -> bool {
        let Some(bucket) = self.bucket(key, now) else { return true };
        let has_one = bucket.tokens >= BILLION;
        if has_one {
            bucket.tokens -= i128::from(commands) * BILLION;
        }
        has_one
    }

    fn bucket(&mut self, key: &PublicKey, now: Instant) -> Option<&mut Bucket> {
        let rate = self.known.clients.grant(key)?.commands_per_second?;
        let bucket = self.buckets.entry(*key).or_insert_with(|| Bucket::full(rate, now));
        bucket.fill(now);
        Some(bucket)
    }

    /// Tells the log that a client was refused, unless it was told lately of another.
    pub fn tell(&mut self, key: &PublicKey, reason: &'static str, now: Instant) {
        let told = self.told.get(reason).copied();
        let is_due = told.is_none_or(|told| now.saturating_duration_since(told.at) >= TOLD_EVERY);
        if !is_due {
            self.told.entry(reason).and_modify(|told| told.untold += 1);
            return;
        }
        let others = told.map_or(0, |told| told.untold);
        let key = Digest(key.0);
        tracing::warn!(%key, reason, others, "a client was refused (others: since the last such line)");
        self.told.insert(reason, Told { at: now, untold: 0 });
    }
}

/// What the metrics call a reason.
#[must_use]
pub fn label(reason: Rejection) -> &'static str {
    match reason {
        Rejection::Revoked => "client_revoked",
        Rejection::ReadOnly => "client_read_only",
        _ => "client_not_listed",
    }
}

/// What the metrics call it that a key has used up its rate.
pub const BEYOND_RATE: &str = "client_beyond_rate";
