//! What refusals cost a client: a replica stops listening to a client that does not listen.
//!
//! A frame that is turned away at the door was received, decrypted and decoded, and its refusal is
//! encrypted and sent. A client that ignores refusals, and goes on sending, makes much of this
//! little. So refusals are billed. A client that has used up its allowance gets no answer, and the
//! replica does not read its connection until the debt is earned back, for [`LONGEST`] at most. The
//! client then finds its socket full: it is held to the pace of what it is refused.
//!
//! A client of Quorate hardly comes there: a refusal halves what it has under way, and it sends a
//! frame again after a pause that doubles. At a low rate that makes some hundred refusals a second.
//!
//! # Who pays
//! The connection. Its key cannot: anybody may write another's key into a frame, and send again
//! what its holder signed once, so the holder would pay for what others do. A connection on which
//! no signature of the key has held has a small allowance: its client has little under way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate_transport::ConnectionId;

/// Refusals that are answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// As many may come at once.
    pub(super) at_once: u32,
    /// As many are earned back a second.
    pub(super) a_second: u32,
}

/// The allowance of a connection on which a signature of the key has held.
pub(super) const PROVEN: Allowance = Allowance { at_once: 1024, a_second: 512 };
/// That of another one: more than a client sends again when it has connected anew.
pub(super) const UNPROVEN: Allowance = Allowance { at_once: 64, a_second: 16 };
/// Longest pause of a connection, and as much may be owed: a client that mends its ways is heard
/// again.
pub(super) const LONGEST: Duration = Duration::from_secs(30);
/// Accounts above which those that owe nothing are looked for, and closed.
const MANY: usize = 1024;

/// Who pays for a refusal: a connection, for frames of a key of which a signature has held on it,
/// or apart from those for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// A signature of the frame's key has held.
    Proven(ConnectionId),
    /// None has.
    Unproven(ConnectionId),
}

/// The accounts of all who were refused lately.
#[derive(Debug)]
pub struct Refusals {
    accounts: BTreeMap<Payer, Account>,
    /// Accounts at which those that owe nothing are closed.
    many: usize,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { accounts: BTreeMap::new(), many: MANY }
    }
}

/// What is left of an allowance.
#[derive(Clone, Copy, Debug)]
struct Account {
    allowance: Allowance,
    /// In billionths of a refusal; below zero it is a debt.
    left: i64,
    since: Instant,
}

const BILLION: i64 = 1_000_000_000;

impl Account {
    fn new(payer: Payer, since: Instant) -> Self {
        let allowance = match payer {
            Payer::Proven(_) => PROVEN,
            Payer::Unproven(_) => UNPROVEN,
        };
        let mut account = Self { allowance, left: 0, since };
        account.left = account.full();
        account
    }

    fn full(&self) -> i64 {
        i64::from(self.allowance.at_once) * BILLION
    }

    fn earn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_nanos();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let earned = passed.saturating_mul(i64::from(self.allowance.a_second));
        self.left = self.left.saturating_add(earned).min(self.full());
        self.since = self.since.max(now);
    }

    /// Takes one. The time until a debt is earned back, if there was none.
    fn take(&mut self) -> Option<Duration> {
        let a_second = i64::from(self.allowance.a_second);
        let deepest = -(LONGEST.as_secs() as i64) * a_second * BILLION;
        let has_one = self.left >= BILLION;
        self.left = (self.left - BILLION).max(deepest);
        let debt = u64::try_from(-self.left).unwrap_or(0);
        (!has_one).then(|| Duration::from_nanos(debt / a_second as u64))
    }
}

impl Refusals {
    /// Bills a refusal. Returns how long the connection that caused it is not to be read, if the
    /// allowance is used up; then there is no answer either.
    pub fn bill(&mut self, payer: Payer, now: Instant) -> Option<Duration> {
        self.close_settled(now);
        let account = self.accounts.entry(payer).or_insert_with(|| Account::new(payer, now));
        account.earn(now);
        account.take()
    }

    /// `connection` is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.accounts.remove(&Payer::Proven(connection));
        self.accounts.remove(&Payer::Unproven(connection));
    }

    /// Closes accounts that owe nothing, whenever there are twice as many as there were left. An
    /// account is full again some seconds after [`LONGEST`], so there are at most twice as many as
    /// were billed within that time.
    fn close_settled(&mut self, now: Instant) {
        if self.accounts.len() < self.many {
            return;
        }
        self.accounts.retain(|_, account| {
            account.earn(now);
            account.left < account.full()
        });
        self.many = (2 * self.accounts.len()).max(MANY);
    }

    /// How many have an account.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }
}

/// What the metrics call a frame that was refused without an answer.
pub const UNANSWERED: &str = "client_unanswered";
