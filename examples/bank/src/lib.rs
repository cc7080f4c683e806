//! A bank: accounts and transfers, replicated. A small service as one would write it.
//!
//! Commands and questions are lines of text:
//!
//! | command | reply |
//! |---|---|
//! | `open NAME` | `ok 1000`: the account begins with the bank's opening balance |
//! | `transfer FROM TO AMOUNT` | `ok 990`: what FROM has left |
//! | `balance NAME` | `ok 990`; as a command it reads the newest state, as a question a recent one |
//! | `total` | `ok 2000`: all money there is |
//!
//! Anything else is answered with `error:` and the reason, and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_service::{Bytes, Decided, Digest, Replies, RestoreError, Snapshot, StateMachine};

/// Most accounts: the state of a replicated service must not grow without bound.
pub const MAX_ACCOUNTS: usize = 100_000;
/// Longest name of an account, bytes.
pub const MAX_NAME_BYTES: usize = 32;

/// Accounts are kept in so many drawers. A command touches two of them at most, so that a new root
/// and the copy that a snapshot forces cost a small part of the state.
const DRAWERS: usize = 256;
/// Bytes of a snapshot's chunk, about.
const CHUNK_BYTES: usize = 64 << 10;

/// Some of the accounts, by name.
type Accounts = Arc<BTreeMap<String, u64>>;

/// The bank.
#[derive(Clone, Debug)]
pub struct Bank {
    opening_balance: u64,
    drawers: Vec<Accounts>,
    /// The digest of each drawer; `None` if it has changed since.
    digests: Vec<Option<Digest>>,
    count: usize,
}

impl Bank {
    /// A bank without accounts. Each account that is opened begins with this much.
    #[must_use]
    pub fn new(opening_balance: u64) -> Self {
        Self {
            opening_balance,
            drawers: vec![Accounts::default(); DRAWERS],
            digests: vec![None; DRAWERS],
            count: 0,
        }
    }

    /// Opens an account.
    ///
    /// # Errors
    /// Why not.
    pub fn open(&mut self, name: &str) -> Result<u64, &'static str> {
        let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !fits {
            return Err("a name has 1 to 32 letters, digits or '-'");
        }
        if self.balance(name).is_ok() {
            return Err("there is such an account already");
        }
        if self.count == MAX_ACCOUNTS {
            return Err("the bank has no room for more accounts");
        }
        self.count += 1;
        self.set(name, self.opening_balance);
        Ok(self.opening_balance)
    }

    /// Moves money. What the giver has left.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn transfer(&mut self, from: &str, to: &str, amount: u64) -> Result<u64, &'static str> {
        let left = self.balance(from)?.checked_sub(amount).ok_or("too little is left")?;
        let taken = self.balance(to)?.checked_add(amount).ok_or("nobody can have so much")?;
        if from == to {
            return Ok(left + amount);
        }
        self.set(from, left);
        self.set(to, taken);
        Ok(left)
    }

    /// What an account has.
    ///
    /// # Errors
    /// There is no such account.
    pub fn balance(&self, name: &str) -> Result<u64, &'static str> {
        self.drawers[drawer(name)].get(name).copied().ok_or("there is no such account")
    }

    /// Sets what an account has.
    pub fn set(&mut self, name: &str, balance: u64) {
        let drawer = drawer(name);
        Arc::make_mut(&mut self.drawers[drawer]).insert(name.to_owned(), balance);
        self.digests[drawer] = None;
    }

    /// All money there is.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.drawers.iter().flat_map(|drawer| drawer.values()).map(|one| u128::from(*one)).sum()
    }

    /// All money there ought to be.
    #[must_use]
    pub fn issued(&self) -> u128 {
        self.count as u128 * u128::from(self.opening_balance)
    }

    fn execute(&mut self, line: &str) -> Result<u64, &'static str> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["open", name] => self.open(name),
            ["transfer", from, to, amount] => {
                let amount = amount.parse().map_err(|_| "the amount is no whole number")?;
                self.transfer(from, to, amount)
            }
            _ => self.read(&words),
        }
    }

    fn read(&self, words: &[&str]) -> Result<u64, &'static str> {
        match *words {
            ["balance", name] => self.balance(name),
            ["total"] => u64::try_from(self.total()).map_err(|_| "more than can be told"),
            _ => Err("expected open, transfer, balance or total"),
        }
    }
}

/// Where the account of this name is. Of the name alone: every replica must find the same place.
fn drawer(name: &str) -> usize {
    usize::from(Digest::of("bank drawer", name.as_bytes()).0[0])
}

fn told(outcome: Result<u64, &str>) -> String {
    match outcome {
        Ok(amount) => format!("ok {amount}"),
        Err(reason) => format!("error: {reason}"),
    }
}

impl StateMachine for Bank {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        for command in block.commands {
            let outcome = match std::str::from_utf8(command) {
                Ok(line) => self.execute(line),
                Err(_) => Err("the command is no text"),
            };
            replies.push(told(outcome).as_bytes());
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        let answer = match std::str::from_utf8(question) {
            Ok(line) => self.read(&line.split(' ').collect::<Vec<_>>()),
            Err(_) => Err("the question is no text"),
        };
        told(answer).into()
    }

    fn root(&mut self) -> Digest {
        let mut all = Vec::with_capacity(32 * DRAWERS);
        for (drawer, digest) in self.drawers.iter().zip(&mut self.digests) {
            let digest = digest.get_or_insert_with(|| {
                let lines: String = drawer.iter().map(line).collect();
                Digest::of("bank accounts", lines.as_bytes())
            });
            all.extend_from_slice(&digest.0);
        }
        Digest::of("bank", &all)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen(self.drawers.clone()))
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        *self = Self::new(self.opening_balance);
        for (chunk, bytes) in chunks.enumerate() {
            let refused = |reason: &str| RestoreError { chunk, reason: reason.to_owned() };
            let text = std::str::from_utf8(&bytes).map_err(|_| refused("no text"))?;
            for line in text.lines() {
                let (name, balance) = line.split_once(' ').ok_or_else(|| refused("no account"))?;
                let balance = balance.parse().map_err(|_| refused("no balance"))?;
                self.open(name).map_err(refused)?;
                self.set(name, balance);
            }
        }
        Ok(())
    }
}

fn line((name, balance): (&String, &u64)) -> String {
    format!("{name} {balance}\n")
}

/// The accounts at some moment. It shares them with the bank until the bank changes them.
struct Frozen(Vec<Accounts>);

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let mut chunk = String::new();
        for account in self.0.iter().flat_map(|drawer| drawer.iter()) {
            chunk.push_str(&line(account));
            if chunk.len() >= CHUNK_BYTES {
                if !sink(chunk.as_bytes()) {
                    return;
                }
                chunk.clear();
            }
        }
        if !chunk.is_empty() {
            sink(chunk.as_bytes());
        }
    }
}
