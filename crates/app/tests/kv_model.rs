//! The store against a model that is too simple to be wrong: replies, roots, snapshots.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::{Command, Condition, ErrorKind, KeyValue, Reply};
use quorate_core::ledger::state_machine::StateMachine;
use support::ops::{Op, encode_op, name, op};
use support::{Owned, apply_raw, chunks, error, map_root, one, owned, wrong_type};

#[derive(Clone, Debug)]
enum Held {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

type Result = std::result::Result<Owned, Owned>;

#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<Vec<u8>, Held>);

impl Model {
    fn text(&self, key: u8) -> std::result::Result<Option<Vec<u8>>, Owned> {
        match self.0.get(&name(key)) {
            None => Ok(None),
            Some(Held::Text(text)) => Ok(Some(text.clone())),
            Some(Held::Hash(_)) => Err(wrong_type()),
        }
    }

    fn hash(&self, key: u8) -> std::result::Result<BTreeMap<Vec<u8>, Vec<u8>>, Owned> {
        match self.0.get(&name(key)) {
            None => Ok(BTreeMap::new()),
            Some(Held::Hash(hash)) => Ok(hash.clone()),
            Some(Held::Text(_)) => Err(wrong_type()),
        }
    }

    fn put(&mut self, key: u8, text: Vec<u8>) {
        self.0.insert(name(key), Held::Text(text));
    }

    fn put_hash(&mut self, key: u8, hash: BTreeMap<Vec<u8>, Vec<u8>>) {
        match hash.is_empty() {
            true => self.0.remove(&name(key)),
            false => self.0.insert(name(key), Held::Hash(hash)),
        };
    }

    fn strings(&mut self, op: &Op) -> Result {
        Ok(match op {
            Op::Set(k, v, c, get) => {
                let there = self.0.contains_key(&name(*k));
                let old = if *get { self.text(*k)? } else { None };
                let applies = [true, !there, there][usize::from(*c)];
                if applies {
                    self.put(*k, v.clone());
                }
                match get {
                    true => bulk(old),
                    false if applies => Owned::Ok,
                    false => Owned::Nil,
                }
            }
            Op::Get(k) => bulk(self.text(*k)?),
            Op::GetDel(k) => {
                let old = self.text(*k)?;
                self.0.remove(&name(*k));
                bulk(old)
            }
            Op::MSet(pairs) => {
                pairs.iter().for_each(|(k, v)| self.put(*k, v.clone()));
                Owned::Ok
            }
            Op::MGet(keys) => {
                Owned::Array(keys.iter().map(|k| bulk(self.text(*k).unwrap_or(None))).collect())
            }
            Op::IncrBy(k, by) => {
                let old = self.text(*k)?;
                let sum = add(old, *by, "value is not an integer or out of range")?;
                self.put(*k, sum.to_string().into_bytes());
                Owned::Integer(sum)
            }
            Op::Append(k, v) => {
                let mut text = self.text(*k)?.unwrap_or_default();
                text.extend_from_slice(v);
                self.put(*k, text.clone());
                count(text.len())
            }
            Op::StrLen(k) => count(self.text(*k)?.unwrap_or_default().len()),
            _ => return self.hashes(op),
        })
    }

    fn hashes(&mut self, op: &Op) -> Result {
        Ok(match op {
            Op::HSet(k, pairs) => {
                let mut hash = self.hash(*k)?;
                let new = pairs.iter().filter(|(f, v)| hash.insert(name(*f), v.clone()).is_none());
                let new = count(new.count());
                self.put_hash(*k, hash);
                new
            }
            Op::HGet(k, f) => bulk(self.hash(*k)?.remove(&name(*f))),
            Op::HGetAll(k) => {
                let hash = self.hash(*k)?;
                Owned::Array(
                    hash.into_iter().flat_map(|(f, v)| [Owned::Bulk(f), Owned::Bulk(v)]).collect(),
                )
            }
            Op::HDel(k, fields) => {
                let mut hash = self.hash(*k)?;
                let gone = fields.iter().filter(|f| hash.remove(&name(**f)).is_some()).count();
                self.put_hash(*k, hash);
                count(gone)
            }
            Op::HLen(k) => count(self.hash(*k)?.len()),
            Op::HExists(k, f) => count(usize::from(self.hash(*k)?.contains_key(&name(*f)))),
            Op::HMGet(k, fields) => {
                let hash = self.hash(*k)?;
                Owned::Array(fields.iter().map(|f| bulk(hash.get(&name(*f)).cloned())).collect())
            }
            Op::HIncrBy(k, f, by) => {
                let mut hash = self.hash(*k)?;
                let sum = add(hash.get(&name(*f)).cloned(), *by, "hash value is not an integer")?;
                hash.insert(name(*f), sum.to_string().into_bytes());
                self.put_hash(*k, hash);
                Owned::Integer(sum)
            }
            _ => self.keys(op),
        })
    }

    fn keys(&mut self, op: &Op) -> Owned {
        match op {
            Op::Del(keys) => {
                count(keys.iter().filter(|k| self.0.remove(&name(**k)).is_some()).count())
            }
            Op::Exists(keys) => {
                count(keys.iter().filter(|k| self.0.contains_key(&name(**k))).count())
            }
            Op::Type(k) => Owned::Status(
                match self.0.get(&name(*k)) {
                    None => "none",
                    Some(Held::Text(_)) => "string",
                    Some(Held::Hash(_)) => "hash",
                }
                .to_owned(),
            ),
            Op::DbSize => count(self.0.len()),
            Op::Keys => Owned::Array(self.0.keys().cloned().map(Owned::Bulk).collect()),
            Op::FlushAll => {
                self.0.clear();
                Owned::Ok
            }
            _ => Owned::Empty,
        }
    }

    fn apply(&mut self, op: &Op) -> Owned {
        self.strings(op).unwrap_or_else(|error| error)
    }

    /// A store that was given this content and nothing else.
    fn rebuilt(&self) -> KeyValue {
        let mut store = KeyValue::new();
        for (key, held) in &self.0 {
            let reply = match held {
                Held::Text(text) => {
                    one(&mut store, |out| encode::set(out, key, text, Condition::Always, false))
                }
                Held::Hash(hash) => {
                    let pairs = hash.iter().flat_map(|(f, v)| [f.as_slice(), v.as_slice()]);
                    one(&mut store, |out| encode::h_set(out, key, pairs))
                }
            };
            assert!(!matches!(reply, Owned::Error(_)), "{reply:?}");
        }
        store
    }
}

fn bulk(text: Option<Vec<u8>>) -> Owned {
    text.map_or(Owned::Nil, Owned::Bulk)
}

fn count(count: usize) -> Owned {
    Owned::Integer(count as i64)
}

fn add(old: Option<Vec<u8>>, by: i64, complaint: &str) -> std::result::Result<i64, Owned> {
    let old = old.unwrap_or_else(|| b"0".to_vec());
    let text = String::from_utf8(old).unwrap_or_default();
    // What Redis takes for an integer is what prints back as it was read.
    let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let number = number.ok_or_else(|| error(ErrorKind::General, complaint))?;
    number
        .checked_add(by)
        .ok_or_else(|| error(ErrorKind::General, "increment or decrement would overflow"))
}

fn sorted(op: &Op, reply: Owned) -> Owned {
    match (op, reply) {
        // KEYS promises no order.
        (Op::Keys, Owned::Array(mut keys)) => {
            keys.sort();
            Owned::Array(keys)
        }
        (_, reply) => reply,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn replies_roots_and_snapshots_are_the_models(blocks in vec(vec(op(), 0..12), 1..12)) {
        let (mut model, mut store, mut twin) = (Model::default(), KeyValue::new(), KeyValue::new());
        for (height, ops) in blocks.iter().enumerate() {
            let commands: Vec<_> = ops.iter().map(encode_op).collect();
            let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
            // One has its root asked for and a snapshot held at every block, the other neither.
            let root_before = store.root();
            let held = store.snapshot();
            let replies = apply_raw(&mut store, height as u64, &commands);
            prop_assert_eq!(&apply_raw(&mut twin, height as u64, &commands), &replies);
            for (op, reply) in ops.iter().zip(&replies) {
                let reply = owned(&Reply::decode(reply).expect("a reply"));
                prop_assert_eq!(sorted(op, reply), model.apply(op), "{:?}", op);
            }
            for command in &commands {
                let command = Command::decode(command).expect("a command");
                prop_assert_eq!(command.is_read_only(), is_read_only(&command));
            }
            let mut past = KeyValue::new();
            past.restore(&mut chunks(&*held).into_iter()).expect("a snapshot");
            prop_assert_eq!(past.root(), root_before);
        }
        prop_assert_eq!(store.root(), twin.root());
        store.root();
        let mut rebuilt = model.rebuilt();
        rebuilt.root();
        prop_assert_eq!(map_root(&store), map_root(&rebuilt));
        prop_assert_eq!(store.len(), model.0.len());
    }

    #[test]
    fn queries_answer_as_ordered_commands_do(
        writes in vec(op(), 0..30),
        question in op(),
    ) {
        let mut store = KeyValue::new();
        for op in &writes {
            apply_raw(&mut store, 1, &[&encode_op(op)]);
        }
        let question = encode_op(&question);
        let root = store.root();
        let answer = store.query(&question);
        prop_assert_eq!(store.root(), root);
        if Command::decode(&question).expect("a command").is_read_only() {
            prop_assert_eq!(&answer, &apply_raw(&mut store, 2, &[&question])[0]);
            prop_assert_eq!(store.root(), root);
        } else {
            let reply = Reply::decode(&answer).expect("a reply");
            prop_assert!(matches!(reply, Reply::Error(ErrorKind::General, _)), "{:?}", reply);
        }
    }

    #[test]
    fn arbitrary_bytes_are_answered(mut command in vec(any::<u8>(), 0..80), code in 0u8..26) {
        let mut store = KeyValue::new();
        one(&mut store, |out| encode::set(out, b"k", b"v", Condition::Always, false));
        for bytes in [command.clone(), { command.insert(0, code); command }] {
            let reply = apply_raw(&mut store, 1, &[&bytes]).remove(0);
            let reply = Reply::decode(&reply).expect("a reply");
            if Command::decode(&bytes).is_err() {
                prop_assert!(matches!(reply, Reply::Error(ErrorKind::General, _)));
            }
            prop_assert!(Reply::decode(&store.query(&bytes)).is_ok());
            // Arbitrary bytes may be no reply and no snapshot, but never a panic.
            let _ = Reply::decode(&bytes);
            prop_assert!(KeyValue::new().restore(&mut std::iter::once(bytes.into())).is_err());
        }
    }

    #[test]
    fn a_cut_or_longer_command_is_refused(op in op(), cut in any::<prop::sample::Index>()) {
        let whole = encode_op(&op);
        prop_assume!(!whole.is_empty());
        let cut = &whole[..1 + cut.index(whole.len())];
        prop_assert_eq!(Command::decode(cut).is_ok(), cut.len() == whole.len());
        prop_assert!(Command::decode(&[&whole[..], &[0]].concat()).is_err());
    }
}

fn is_read_only(command: &Command<'_>) -> bool {
    // Decided by the first word of the command's name, apart from the list in the source.
    let name = format!("{command:?}");
    ["Set", "GetDel", "MSet", "Del", "Incr", "Append", "HSet", "HDel", "HIncr", "Flush"]
        .iter()
        .all(|writer| !name.starts_with(writer))
}
