//! Operations, crashes and restarts against a model: what is there is what was committed, and after
//! a crash a prefix of it.

use crate::input::Input;
use crate::random::{Model, Owned, assert_holds, content, small_options};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::lazy_trie::{Batch, Durability, Hash, Options, Proofs, Store};
use std::sync::Arc;

/// An input has no more operations than this; longer ones only cost time.
const OPERATIONS: usize = 120;

/// A store, and what it has been.
struct Life {
    options: Options,
    crash: CrashDisk,
    /// `begin_checkpoint` wants it shared.
    store: Option<Arc<Store>>,
    model: Model,
    /// After the first opening, and after each commit.
    models: Vec<Model>,
    points: Vec<Point>,
}

/// When the disk had recorded so many operations, so many commits had returned, and so many were
/// promised to survive.
struct Point {
    operations: usize,
    done: usize,
    durable: usize,
}

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let durability = if kind & 1 == 0 { Durability::Sync } else { Durability::Os };
    let log_commits = kind & 6 < 6;
    let bucket_items = [1, 2, 4, 16][usize::from(input.byte() & 3)];
    let checkpoint_bytes = [2 << 10, 6 << 10, 24 << 10, 1 << 20][usize::from(input.byte() & 3)];
    let options = Options {
        durability,
        log_commits,
        bucket_items,
        checkpoint_bytes,
        authenticated: kind & 16 == 16,
        proofs: if kind & 8 == 0 { Proofs::EachCommit } else { Proofs::WhenAsked },
        // Six blocks: they are written and forgotten in between.
        digest_memory_bytes: 8 << 10,
        ..small_options()
    };
    let mut life = Life::new(options, &MemoryDisk::new(), Model::new());
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        life.step(&mut input);
    }
    assert_holds(life.store(), &life.model);
    life.restart();
    assert_holds(life.store(), &life.model);
}

fn name(input: &mut Input<'_>) -> Owned {
    let number = input.byte();
    match number & 7 {
        0 => Owned::Hash(Hash::of(&[b'k', number >> 3])),
        1 | 2 => {
            let mut hash = [0x5a; 32];
            // Differences early, late, and in the bits that make the tag.
            hash[[0, 1, 7, 30, 31][usize::from(number >> 3) % 5]] = input.byte();
            Owned::Hash(Hash(hash))
        }
        3 => Owned::Key(input.bytes(usize::from(number >> 3))),
        _ => Owned::Key(vec![b'k', number >> 3]),
    }
}

fn value(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.byte();
    let length = match kind & 7 {
        0 => 0,
        1..=4 => usize::from(kind),
        5 | 6 => usize::from(kind) * 12,
        // Several slabs.
        _ => usize::from(kind) * 60,
    };
    vec![input.byte(); length]
}

impl Life {
    fn new(options: Options, start: &MemoryDisk, model: Model) -> Life {
        let crash = CrashDisk::over(start).unwrap();
        let models = vec![model.clone()];
        let mut life = Life { options, crash, store: None, model, models, points: Vec::new() };
        life.open();
        life
    }

    fn store(&self) -> &Arc<Store> {
        self.store.as_ref().expect("an open store")
    }

    /// What opening finds, it makes durable.
    fn open(&mut self) {
        let disk: Arc<dyn Disk> = Arc::new(self.crash.clone());
        self.store = Some(Arc::new(Store::open_on(disk, self.options.clone()).unwrap().0));
        self.note(true);
    }

    /// Without a log, the store is again what the last checkpoint has, and what may be lost from
    /// then on is counted from there.
    fn restart(&mut self) {
        self.store = None;
        if self.options.log_commits {
            return self.open();
        }
        let left = self.crash.materialise(self.crash.operations(), Fate::Kept);
        let durable = self.points.last().map_or(0, |point| point.durable);
        let model = self.models.swap_remove(durable);
        *self = Life::new(self.options.clone(), &left, model);
    }

    fn note(&mut self, durable: bool) {
        let before = self.points.last().map_or(0, |point| point.durable);
        self.note_up_to(if durable { self.models.len() - 1 } else { before });
    }

    fn note_up_to(&mut self, durable: usize) {
        let done = self.models.len() - 1;
        self.points.push(Point { operations: self.crash.operations(), done, durable });
    }

    fn committed(&mut self) {
        self.models.push(self.model.clone());
        self.note(self.options.durability == Durability::Sync && self.options.log_commits);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=4 => {
                let (name, value) = (name(input), value(input));
                self.store().put(name.name(), &value).unwrap();
                self.model.insert(name.hash(), value);
                self.committed();
            }
            5 | 6 => {
                let name = name(input);
                let removed = self.store().delete(name.name()).unwrap();
                assert_eq!(removed, self.model.remove(&name.hash()).is_some());
                self.committed();
            }
            7 => self.merge(input),
            8 | 9 => self.batch(input),
            10 if self.options.log_commits => {
                self.store().sync().unwrap();
                self.note(true);
            }
            10 => self.checkpoint_beside_a_change(input),
            11 => {
                self.store().checkpoint().unwrap();
                self.note(true);
            }
            12 => self.restart(),
            13 => self.look(input),
            14 => self.compact(),
            _ => self.lose_power(input),
        }
    }

    fn checkpoint_beside_a_change(&mut self, input: &mut Input<'_>) {
        let begun = self.store().begin_checkpoint().unwrap();
        let of = self.models.len() - 1;
        self.batch(input);
        begun.finish().unwrap();
        self.note_up_to(of);
    }

    fn merge(&mut self, input: &mut Input<'_>) {
        let name = name(input);
        let old = self.model.get(&name.hash()).cloned();
        let new = (input.byte() & 3 > 0).then(|| value(input));
        let change = |there: Option<&[u8]>| {
            assert_eq!(there, old.as_deref());
            new.clone()
        };
        self.store().merge(name.name(), change).unwrap();
        match new {
            Some(value) => self.model.insert(name.hash(), value),
            None => self.model.remove(&name.hash()),
        };
        self.committed();
    }

    fn batch(&mut self, input: &mut Input<'_>) {
        let mut batch = Batch::new();
        for _ in 0..input.byte() % 24 {
            let name = name(input);
            if input.byte().is_multiple_of(3) {
                batch.delete(name.name()).unwrap();
                self.model.remove(&name.hash());
            } else {
                let value = value(input);
                batch.put(name.name(), &value).unwrap();
                self.model.insert(name.hash(), value);
            }
        }
        self.store().write(&batch).unwrap();
        self.committed();
    }

    /// Reads around a change: a snapshot stays as it is, and iteration begins anywhere.
    fn look(&mut self, input: &mut Input<'_>) {
        let before = self.model.clone();
        let store = self.store.take().expect("an open store");
        let proves = self.options.authenticated;
        let asked = || if proves { store.provable_snapshot() } else { store.snapshot() };
        let snapshot = asked().unwrap();
        let (name, value) = (name(input), value(input));
        store.put(name.name(), &value).unwrap();
        store.checkpoint().unwrap();
        self.model.insert(name.hash(), value);
        let from = Hash::of(&[input.byte()]);
        let found: Model = snapshot
            .iter_from(&from)
            .map(|item| item.map(|(hash, item)| (hash, item.value.to_vec())).unwrap())
            .collect();
        let expected = before.range(from..).map(|(hash, value)| (*hash, value.clone()));
        assert!(found == expected.collect::<Model>(), "a snapshot from {from:?}");
        assert_eq!(snapshot.get(&name.hash()).unwrap(), before.get(&name.hash()).cloned());
        if proves {
            let (proof, there) = snapshot.get_proved(name.name()).unwrap();
            let there = there.map(<[u8]>::to_vec);
            assert_eq!(there, before.get(&name.hash()).cloned());
            let verified =
                proof.verify_value(&snapshot.root().unwrap(), &name.hash().0, there.as_deref());
            verified.unwrap();
        }
        drop(snapshot);
        self.store = Some(store);
        self.models.push(self.model.clone());
        self.note(true);
    }

    fn compact(&mut self) {
        self.restart();
        self.store = None;
        let disk: Arc<dyn Disk> = Arc::new(self.crash.clone());
        let compacted = Store::compact_on(disk, self.options.clone()).unwrap();
        assert_eq!(compacted.items, self.model.len() as u64);
        self.open();
    }

    /// The power goes now, or went a moment ago.
    fn lose_power(&mut self, input: &mut Input<'_>) {
        self.store = None;
        let ago = usize::from(input.byte() % 64);
        let cut = self.crash.operations().saturating_sub(ago);
        let fate = match input.byte() % 6 {
            0 => Fate::Kept,
            1 => Fate::Lost,
            2 => Fate::ContentLost,
            3 => Fate::NamesLost,
            4 => Fate::Torn { sectors: input.below(8) },
            _ => Fate::Mixed { seed: input.number() },
        };
        let kept = fate == Fate::Kept && self.options.log_commits;
        let passed = self.points.iter().rev().find(|point| point.operations <= cut);
        let next = self.points.iter().find(|point| point.operations > cut);
        let least = passed.map_or(0, |p| if kept { p.done } else { p.durable });
        let most = next.or(passed).map_or(0, |point| point.done);
        let left = self.crash.materialise(cut, fate);
        let opened = Store::open_on(Arc::new(left.fork()), self.options.clone());
        let found = content(&opened.unwrap().0).unwrap();
        let index = (least..=most).rev().find(|index| self.models[*index] == found);
        assert!(index.is_some(), "cut {cut}, {fate:?}: not a commit within {least} ..= {most}");
        *self = Life::new(self.options.clone(), &left, found);
        assert_holds(self.store(), &self.model);
    }
}
