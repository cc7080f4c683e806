//! Runs on a recording disk, and every state that a power failure may leave of them.

use crate::random::{Model, Random, assert_root, change, content, small_options};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::lazy_trie::{Durability, Options, Proofs, Store};
use std::sync::Arc;

/// The commits at the time when the disk had recorded this many operations.
struct Point {
    operations: usize,
    /// The number of commits that had returned.
    done: usize,
    /// The number of commits that were guaranteed to survive.
    durable: usize,
}

/// The kind of a store.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Set for an authenticated store.
    proofs: Option<Proofs>,
    /// Whether commits are in the log; otherwise only checkpoints survive.
    logged: bool,
}

/// One run: the model after each commit, and the time of the commits.
struct Life {
    kind: Kind,
    crash: CrashDisk,
    /// The model before the first commit, and after each.
    models: Vec<Model>,
    points: Vec<Point>,
}

fn options(durability: Durability, kind: Kind) -> Options {
    let authenticated = kind.proofs.is_some();
    let proofs = kind.proofs.unwrap_or(Proofs::EachCommit);
    let (log_commits, checkpoint_bytes) = (kind.logged, 6 << 10);
    Options { durability, authenticated, proofs, log_commits, checkpoint_bytes, ..small_options() }
}

/// Runs a store from `start` for some commits, with checkpoints, syncs and a restart now and then.
fn live(start: &MemoryDisk, before: &Model, random: &mut Random, steps: u64, kind: Kind) -> Life {
    let crash = CrashDisk::over(start).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crash.clone());
    let mut model = before.clone();
    let mut life = Life { kind, crash, models: vec![model.clone()], points: Vec::new() };
    let durability = if random.below(2) == 0 { Durability::Sync } else { Durability::Os };
    let options = options(durability, kind);
    let open = || Arc::new(Store::open_on(Arc::clone(&disk), options.clone()).unwrap().0);
    let mut store = open();
    life.note(true);
    for _ in 0..steps {
        change(&store, &mut model, random, 60).unwrap();
        life.models.push(model.clone());
        life.note(durability == Durability::Sync && kind.logged);
        match random.below(12) {
            0 if kind.logged => {
                store.sync().unwrap();
                life.note(true);
            }
            1 => {
                store.checkpoint().unwrap();
                life.note(true);
            }
            0 => {
                // Commits continue while one is written.
                let begun = store.begin_checkpoint().unwrap();
                let of = life.models.len() - 1;
                change(&store, &mut model, random, 60).unwrap();
                life.models.push(model.clone());
                life.note(false);
                begun.finish().unwrap();
                life.note_up_to(of);
            }
            2 => {
                if !kind.logged {
                    store.checkpoint().unwrap();
                    life.note(true);
                }
                drop(store);
                store = open();
                // Opening makes recovered data durable.
                life.note(true);
            }
            _ => {}
        }
    }
    life
}

impl Life {
    fn note(&mut self, durable: bool) {
        let done = self.models.len() - 1;
        self.note_up_to(if durable { done } else { 0 });
    }

    /// Records that `durable` commits are durable, or as many as before.
    fn note_up_to(&mut self, durable: usize) {
        let done = self.models.len() - 1;
        let before = self.points.last().map_or(0, |point| point.durable);
        let durable = durable.max(before);
        self.points.push(Point { operations: self.crash.operations(), done, durable });
    }

    /// The number of commits that must exist after a crash behind `cut` operations, and the
    /// greatest number that may.
    fn bounds(&self, cut: usize, fate: Fate) -> (usize, usize) {
        let passed = self.points.iter().rev().find(|point| point.operations <= cut);
        let next = self.points.iter().find(|point| point.operations > cut);
        let survives = fate == Fate::Kept && self.kind.logged;
        let least = passed.map_or(0, |p| if survives { p.done } else { p.durable });
        // A commit in progress may exist.
        (least, next.or(passed).map_or(0, |point| point.done))
    }
}

/// All states of the disk that are possible after operation `cut`.
pub fn fates(crash: &CrashDisk, cut: usize, coins: u64) -> Vec<Fate> {
    let mut fates = vec![Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    fates.extend((0..coins).map(|n| Fate::Mixed { seed: (cut as u64) << 16 | n }));
    if let Some(sectors) = cut.checked_sub(1).and_then(|last| crash.sectors(last)) {
        let step = (sectors / 4).max(1) as usize;
        fates.extend((0..sectors).step_by(step).map(|sectors| Fate::Torn { sectors }));
        fates.extend((0..sectors).step_by(step).map(|sector| Fate::Hole { sector }));
    }
    fates
}

/// Opens the result of a crash. It must hold a prefix of the commits, with all durable ones, and
/// have its root. Then it must continue to work.
fn check(disk: &MemoryDisk, life: &Life, (least, most): (usize, usize), what: &str) -> usize {
    let models = &life.models;
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = options(Durability::Sync, life.kind);
    let opened = Store::open_on(Arc::clone(&disk), options);
    let (store, _) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = content(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    let Some(index) = (least..=most).rev().find(|index| models[*index] == found) else {
        let elsewhere = models.iter().position(|model| *model == found);
        panic!("{what}: the content is of commit {elsewhere:?}, not within {least} ..= {most}");
    };
    assert_eq!(store.root().is_ok(), life.kind.proofs.is_some());
    assert_root(&store, &models[index], what);
    let damage = store.check().unwrap().damage;
    assert!(damage.is_empty(), "{what}: {damage:?}");
    index
}

/// After a recovery the store accepts writes, and keeps them.
fn check_goes_on(disk: &MemoryDisk, model: &Model, kind: Kind, what: &str) {
    let options = options(Durability::Sync, kind);
    let disk: Arc<dyn Disk> = Arc::new(disk.fork());
    let mut random = Random(model.len() as u64);
    let mut model = model.clone();
    for _ in 0..2 {
        let (store, _) = Store::open_on(Arc::clone(&disk), options.clone()).unwrap();
        for _ in 0..6 {
            change(&store, &mut model, &mut random, 60).unwrap();
        }
        if !kind.logged {
            store.checkpoint().unwrap();
        }
    }
    let (store, _) = Store::open_on(disk, options).unwrap();
    assert!(content(&store).unwrap() == model, "{what}: writes after the recovery");
    assert_root(&store, &model, what);
}

/// Stores of all kinds: authenticated, with proofs of each commit or on request, and not; and one
/// without a log of its commits.
pub const KINDS: [Kind; 4] = [
    Kind { proofs: None, logged: true },
    Kind { proofs: Some(Proofs::EachCommit), logged: true },
    Kind { proofs: Some(Proofs::WhenAsked), logged: true },
    Kind { proofs: Some(Proofs::WhenAsked), logged: false },
];

/// Checks crash states of run after run for a kind of store, until there were `states`. Returns
/// their number.
pub fn run(kind: Kind, seed: u64, states: usize, coins: u64) -> usize {
    let mut random = Random(seed);
    let mut disk = MemoryDisk::new();
    let mut model = Model::new();
    let mut checked = 0;
    let mut lives = 0;
    while checked < states {
        let life = live(&disk, &model, &mut random, 14, kind);
        lives += 1;
        for cut in 0..=life.crash.operations() {
            for fate in fates(&life.crash, cut, coins) {
                let what = format!("{kind:?}, seed {seed}, life {lives}, cut {cut}, {fate:?}");
                let left = life.crash.materialise(cut, fate);
                let rare = checked % 61 == 0;
                let again = rare.then(|| left.fork());
                let index = check(&left, &life, life.bounds(cut, fate), &what);
                checked += 1;
                let Some(again) = again else { continue };
                check_goes_on(&left, &life.models[index], kind, &what);
                checked += crash_again(&again, &life, index, cut, fate, &what);
            }
        }
        // The next run begins at the end of this one, or at a crash in the middle of it.
        let cut = life.crash.operations() - random.below(40) as usize;
        let fate = Fate::Mixed { seed: random.next() };
        disk = life.crash.materialise(cut, fate);
        let index = check(&disk, &life, life.bounds(cut, fate), "the next start");
        model = life.models[index].clone();
        if model.len() > 90 {
            (disk, model) = (MemoryDisk::new(), Model::new());
        }
    }
    checked
}

/// The power fails again, during the recovery.
fn crash_again(
    left: &MemoryDisk,
    life: &Life,
    found: usize,
    cut: usize,
    fate: Fate,
    what: &str,
) -> usize {
    let again = CrashDisk::over(left).unwrap();
    let options = options(Durability::Sync, life.kind);
    drop(Store::open_on(Arc::new(again.clone()), options).unwrap());
    let operations = again.operations();
    let mut checked = 0;
    for second in 0..=operations {
        for second_fate in [Fate::Kept, Fate::Lost, Fate::Mixed { seed: second as u64 }] {
            let what = format!("{what}, then cut {second} of {operations}, {second_fate:?}");
            let (least, most) = life.bounds(cut, fate);
            // Data that an opening has returned stays.
            let bounds = if second == operations { (found, found) } else { (least, most) };
            check(&again.materialise(second, second_fate), life, bounds, &what);
            checked += 1;
        }
    }
    checked
}
