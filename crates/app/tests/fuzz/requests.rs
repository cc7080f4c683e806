//! Commands and queries made of arbitrary bytes, to a store in memory and one on disk.
//!
//! Neither ever panics; every answer and every query keeps its budget, and the state its limit;
//! both stores give the same answers, take the same steps, and come to the same root, and so does a
//! third that takes over their snapshot.

use bytes::Bytes;
use quorate_app::kv::command::encode;
use quorate_app::kv::{
    COMMAND_STEPS, Command, Condition, KeyValue, MAX_REPLY_BYTES, Reply, Scan, ValueKind,
};
use quorate_core::ledger::state_machine::{Decided, Replies, StateMachine as _};
use quorate_core::{Height, View};

use crate::folders::InMemory;

/// What a reply may be longer than its limit: its head, and the last key of a scan.
const HEAD_BYTES: usize = 128 << 10;

/// The rest of the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn raw(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    /// A short name among few, now and then a long one.
    fn name(&mut self) -> Vec<u8> {
        match self.byte() {
            byte @ 0..=239 => vec![b'a'; usize::from(byte % 8)],
            byte => vec![b'a'; usize::from(byte - 239) << 12],
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.byte() {
            0..=99 => self.raw(),
            100..=179 => i64::from(self.byte()).to_string().into_bytes(),
            byte => vec![byte; usize::from(byte - 179) << 14],
        }
    }

    fn pattern(&mut self) -> Vec<u8> {
        match self.byte() % 4 {
            0 => self.raw(),
            1 => b"*a".repeat(usize::from(self.byte())),
            2 => [b"*".to_vec(), vec![b'a'; usize::from(self.byte()) * 4], b"b".to_vec()].concat(),
            _ => b"*".to_vec(),
        }
    }

    fn names(&mut self) -> Vec<Vec<u8>> {
        let count = 1 + usize::from(self.byte() % 5);
        let names: Vec<_> = (0..count).map(|_| self.name()).collect();
        let times = if self.byte() == 255 { 1000 } else { 1 };
        std::iter::repeat_n(names, times).flatten().collect()
    }

    fn pairs(&mut self) -> Vec<Vec<u8>> {
        let count = 1 + usize::from(self.byte() % 5);
        (0..count).flat_map(|_| [self.name(), self.value()]).collect()
    }

    fn command(&mut self) -> Vec<u8> {
        let (kind, mut bytes) = (self.byte(), Vec::new());
        let out = &mut bytes;
        match kind % 26 {
            0 => return self.raw(),
            1 => {
                let conditions = [Condition::Always, Condition::Absent, Condition::Present];
                let flags = self.byte();
                let condition = conditions[usize::from(flags % 3)];
                encode::set(out, &self.name(), &self.value(), condition, flags >= 128);
            }
            2 => encode::get(out, &self.name()),
            3 => encode::get_del(out, &self.name()),
            4 => encode::m_set(out, slices(&self.pairs())),
            5 => encode::m_get(out, slices(&self.names())),
            6 => encode::del(out, slices(&self.names())),
            7 => encode::exists(out, slices(&self.names())),
            8 => encode::incr_by(out, &self.name(), i64::from(self.byte())),
            9 | 10 => encode::append(out, &self.name(), &self.value()),
            11 => encode::str_len(out, &self.name()),
            12 | 13 => encode::h_set(out, &self.name(), slices(&self.pairs())),
            14 => encode::h_get(out, &self.name(), &self.name()),
            15 => encode::h_get_all(out, &self.name()),
            16 => encode::h_del(out, &self.name(), slices(&self.names())),
            17 => encode::h_len(out, &self.name()),
            18 => encode::h_exists(out, &self.name(), &self.name()),
            19 => encode::h_m_get(out, &self.name(), slices(&self.names())),
            20 => encode::h_incr_by(out, &self.name(), &self.name(), i64::from(self.byte())),
            21 => encode::kind(out, &self.name()),
            22 => encode::db_size(out),
            23 => encode::keys(out, &self.pattern()),
            24 => {
                let (cursor, count) = (u64::from(self.byte()) << 56, u32::from(self.byte()));
                let kind = [None, Some(ValueKind::Text), Some(ValueKind::Hash)];
                let kind = kind[usize::from(self.byte() % 3)];
                let pattern = self.pattern();
                encode::scan(out, &Scan { cursor, count, kind, pattern: Some(&pattern) });
            }
            _ if self.byte() < 32 => encode::flush_all(out),
            _ => {}
        }
        bytes
    }
}

fn slices(list: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    list.iter().map(Vec::as_slice)
}

/// Properties that every reply has.
fn check(reply: &[u8]) {
    assert!(reply.len() <= MAX_REPLY_BYTES + HEAD_BYTES, "a reply of {} bytes", reply.len());
    Reply::decode(reply).expect("a reply");
}

/// Runs what the bytes say.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    // From no room at all to more than one input fills.
    let limit = 1u64 << (input.byte() % 28);
    let folders = InMemory::default();
    let mut memory = KeyValue::new().limited_to(limit);
    let mut disk = KeyValue::on_disk(&folders.roomy_shelf()).limited_to(limit);
    let mut height = 0;
    while !input.0.is_empty() {
        height += 1;
        let count = 1 + input.byte() % 8;
        let commands: Vec<_> = (0..count).map(|_| input.command()).collect();
        let commands: Vec<_> = slices(&commands).collect();
        let block = Decided {
            height: Height(height),
            view: View(height),
            commands: &commands,
            rules: 1,
            callers: &[],
        };
        let (mut here, mut there) = (Replies::default(), Replies::default());
        memory.apply(&block, &mut here);
        disk.apply(&block, &mut there);
        assert!(here.body() == there.body(), "memory and disk answer differently");
        assert_eq!(here.len(), commands.len());
        here.iter().for_each(check);
        disk.keeper().expect("it keeps").check().expect("it is written");
        assert_eq!(memory.root(), disk.root());
        assert_eq!(memory.usage(), disk.usage());
        assert!(memory.usage().expect("it counts").used_bytes <= limit);
        let frozen = (memory.reader().expect("memory"), disk.reader().expect("disk"));
        for command in commands {
            let (answer, steps) = memory.billed_query(command);
            check(&answer);
            assert!(steps <= COMMAND_STEPS, "{steps} steps");
            assert_eq!((answer.clone(), steps), disk.billed_query(command));
            assert_eq!(frozen.0.answer(command).as_ref(), Ok(&answer));
            assert_eq!(frozen.1.answer(command).as_ref(), Ok(&answer));
            if Command::decode(command).is_ok_and(|command| command.is_read_only()) {
                // What is copied was paid for, but for heads and one word.
                assert!(steps + 64 >= answer.len() as u64 / 16, "{} bytes", answer.len());
            }
        }
    }
    let mut chunks = Vec::new();
    memory.snapshot().chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    let mut third = KeyValue::new().limited_to(limit);
    third.restore(&mut chunks.into_iter()).expect("a snapshot");
    assert_eq!(third.root(), memory.root());
    assert_eq!(third.usage(), memory.usage());
}
