//! The YCSB core workloads (Cooper et al. 2010, table 2) over the replicated key-value store.
//!
//! A record is a key and one value. What YCSB does with several requests is one command here: a
//! read-modify-write is a write that answers what was there (`SET … GET`), and a scan reads up to a
//! hundred keys that follow each other by number (`MGET`), as the store keeps keys in no order. All
//! of it is ordered.
//!
//! The beginning of a value follows from its key, so that what is read is checked.

use quorate_app::kv::{Condition, Reply, command};

use super::popularity::{Keys, Popularity};
use super::workload::{Answer, Command};
use crate::random::Random;

/// Which of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of what was inserted last, 5 % inserts.
    D,
    /// 95 % scans of up to a hundred records, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// Most records of a scan.
const SCAN: u64 = 100;
/// Bytes of a value that follow from its key, at most.
const TAG: usize = 16;

impl Mix {
    /// Reads (or scans) of a hundred commands.
    const fn reads(self) -> u64 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 95,
            Self::C => 100,
        }
    }

    /// Which keys the workload asks for, as YCSB defines it.
    #[must_use]
    pub const fn usual(self) -> Popularity {
        match self {
            Self::D => Popularity::Latest,
            _ => Popularity::Zipfian,
        }
    }
}

/// Makes records and commands.
#[derive(Clone, Debug)]
pub struct Records {
    random: Random,
    payload: usize,
    /// Records there are when the load begins.
    loaded: u64,
    /// Records there are when all inserts so far are done.
    now: u64,
}

impl Records {
    /// So many to begin with, at least one, with values of `payload` bytes.
    #[must_use]
    pub fn new(loaded: u64, payload: usize, seed: u64) -> Self {
        let loaded = loaded.max(1);
        Self { random: Random(seed), payload, loaded, now: loaded }
    }

    /// A command of a workload, with its answer.
    pub(super) fn next(&mut self, mix: Mix, keys: &Keys) -> Command {
        if self.random.below(100) < mix.reads() {
            let key = keys.choose(self.now, &mut self.random);
            return match mix {
                Mix::E => self.scan(key),
                _ => self.read(key),
            };
        }
        match mix {
            Mix::D | Mix::E => {
                let key = self.now;
                self.now += 1;
                self.write(key, false)
            }
            _ => {
                let key = keys.choose(self.now, &mut self.random);
                self.write(key, mix == Mix::F)
            }
        }
    }

    /// A write that answers with what was there.
    pub(super) fn exchange(&mut self) -> Command {
        let key = self.random.below(self.loaded);
        self.write(key, true)
    }

    /// The writes that make the records, in order.
    pub fn load(mut self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.loaded).map(move |key| self.write(key, false).command)
    }

    fn read(&mut self, key: u64) -> Command {
        let mut command = Vec::new();
        command::encode::get(&mut command, name(key).as_bytes());
        Command { command, answer: Answer::Value(self.expected(key)) }
    }

    fn scan(&mut self, first: u64) -> Command {
        let count = 1 + self.random.below(SCAN);
        let names: Vec<String> =
            (first..self.now.min(first.saturating_add(count))).map(name).collect();
        let mut command = Vec::new();
        command::encode::m_get(&mut command, names.iter().map(String::as_bytes));
        let values = (first..first + names.len() as u64).map(|key| self.expected(key)).collect();
        Command { command, answer: Answer::Values(values) }
    }

    fn write(&mut self, key: u64, get: bool) -> Command {
        let mut value = tag(key).to_vec();
        value.truncate(self.payload);
        while value.len() < self.payload {
            let bytes = self.random.next().to_le_bytes();
            let left = self.payload - value.len();
            value.extend_from_slice(&bytes[..left.min(bytes.len())]);
        }
        let mut command = Vec::with_capacity(value.len() + 32);
        let name = name(key);
        command::encode::set(&mut command, name.as_bytes(), &value, Condition::Always, get);
        let answer = if get { Answer::Value(self.expected(key)) } else { Answer::Ok };
        Command { command, answer }
    }

    fn expected(&self, key: u64) -> Expected {
        let mut tag = tag(key).to_vec();
        tag.truncate(self.payload);
        // What is inserted under way may not be there yet.
        Expected { tag, length: self.payload, may_lack: key >= self.loaded }
    }
}

fn name(key: u64) -> String {
    format!("user{key:012}")
}

fn tag(key: u64) -> [u8; TAG] {
    let mut random = Random(!key);
    let (a, b) = (random.next().to_le_bytes(), random.next().to_le_bytes());
    let mut tag = [0; TAG];
    tag[..8].copy_from_slice(&a);
    tag[8..].copy_from_slice(&b);
    tag
}

/// What a read must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    tag: Vec<u8>,
    length: usize,
    may_lack: bool,
}

impl Expected {
    /// Whether this is it.
    #[must_use]
    pub fn fits(&self, reply: &Reply<'_>) -> bool {
        match reply {
            Reply::Bulk(value) => value.len() == self.length && value.starts_with(&self.tag),
            Reply::Nil => self.may_lack,
            _ => false,
        }
    }
}
