//! Tests of the files that wait to become segments: no commit waits for them, and a power cut may
//! leave them in any state.

mod common;

use common::{live, open, options, replay};
use quorate_store::disk::{CrashDisk, Disk, DiskFile, Fate, MemoryDisk};
use quorate_store::wal::{Durability, Error, Log, Options, Preparation};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

const SEGMENT: u64 = 40 << 10;
/// The least piece by which a spare grows: a page more than an eighth of the segment.
const PIECE: u64 = 8 << 10;

/// The lengths of the spares in a folder.
fn spares(disk: &dyn Disk) -> Vec<u64> {
    let names = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".spare"));
    names.map(|name| disk.open(&name).unwrap().size().unwrap()).collect()
}

#[test]
fn a_spare_grows_twice_as_fast_as_the_segment_fills() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let mut whole = 0;
    while log.statistics().rotations < 3 {
        log.append(1, &[&[7; 500]]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
        let written = SEGMENT - log.room_in_segment();
        let [spare] = spares(&disk)[..] else { panic!("one spare") };
        assert!(spare <= 2 * written + PIECE, "{spare} at {written}");
        assert!(spare + PIECE > (2 * written).min(SEGMENT), "{spare} at {written}");
        whole += usize::from(spare == SEGMENT);
    }
    assert!(whole > 30, "{whole}");
}

#[test]
fn a_retired_segment_is_used_again_and_spares_have_a_bound() {
    let disk = MemoryDisk::new();
    let options = Options { most_spares: 3, ..options() };
    let (mut log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    let mut most = 0;
    for n in 0..200u8 {
        log.append(1, &[&[n; 3000]]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
        if n % 60 == 59 {
            log.retire_before(log.end()).unwrap();
            // Whole ones, beside one that had been begun.
            let whole = spares(&disk).into_iter().filter(|size| *size == SEGMENT).count();
            assert_eq!(whole, 3);
        }
        most = most.max(log.bytes());
    }
    // Sixty records fill ten segments; one more is being written, and one may be ready.
    assert!(most <= 12 * SEGMENT, "{most}");
}

#[test]
fn a_power_cut_meets_spares_of_every_length_and_leaves_only_whole_ones() {
    let mut found = BTreeSet::new();
    for seed in 0..3 {
        let crash = CrashDisk::new();
        let history = live(&crash, seed, 60);
        for cut in 0..=crash.operations() {
            for fate in [Fate::Kept, Fate::ContentLost, Fate::Mixed { seed: cut as u64 }] {
                let disk = crash.materialise(cut, fate);
                found.extend(spares(&disk));
                let (log, _) = open(&disk).unwrap();
                let records = replay(&log).unwrap();
                let known: Vec<_> = history.records.iter().map(|record| record.position).collect();
                assert!(records.iter().all(|record| known.contains(&record.position)));
                let mut left = spares(&disk);
                left.retain(|size| *size < SEGMENT);
                // The one that is being made for this log.
                assert!(left.len() <= 1, "seed {seed}, cut {cut}, {fate:?}: {left:?}");
            }
        }
    }
    let half_made = found.iter().filter(|size| (1..SEGMENT).contains(*size)).count();
    assert!(found.contains(&0) && found.contains(&SEGMENT) && half_made > 2, "{found:?}");
}

/// A folder in memory that notes which thread does what to files. On request it has no room for
/// new files, or fails syncs of the folder, or its next renaming.
#[derive(Clone, Default)]
struct Noted {
    disk: MemoryDisk,
    done: Arc<Mutex<Vec<(&'static str, ThreadId)>>>,
    fails_to_sync: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
    fails_to_rename: Arc<AtomicBool>,
}

impl Noted {
    fn note(&self, what: &'static str) {
        self.done.lock().unwrap().push((what, thread::current().id()));
    }

    fn by(&self, thread: ThreadId) -> BTreeSet<&'static str> {
        let done = self.done.lock().unwrap();
        done.iter().filter(|(_, by)| *by == thread).map(|(what, _)| *what).collect()
    }
}

impl Disk for Noted {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.note("create");
        if self.is_full.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "injected full disk"));
        }
        self.disk.create(name, size)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.note(if to.ends_with(".wal") { "begin" } else { "retire" });
        if self.fails_to_rename.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("injected error of a renaming"));
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.note("remove");
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self.fails_to_sync.load(Ordering::SeqCst) {
            true => Err(io::Error::other("injected sync error")),
            false => self.disk.sync_dir(),
        }
    }
}

fn noted() -> (Noted, Log) {
    let disk = Noted::default();
    let options = Options { preparation: Preparation::Ahead, ..options() };
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    (disk, log)
}

#[test]
fn the_thread_that_commits_makes_and_retires_no_file() {
    let (disk, mut log) = noted();
    for n in 0..100u8 {
        log.append(1, &[&[n; 3000]]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
        if n % 40 == 39 {
            log.retire_before(log.end()).unwrap();
        }
    }
    let expected = replay(&log).unwrap();
    drop(log);
    assert_eq!(disk.by(thread::current().id()), BTreeSet::from(["begin"]));
    let all: BTreeSet<_> = disk.done.lock().unwrap().iter().map(|(what, _)| *what).collect();
    assert_eq!(all, BTreeSet::from(["begin", "create", "remove", "retire"]));
    // What was to be retired when the log was closed is.
    let (log, _) = open(&disk.disk).unwrap();
    assert_eq!(replay(&log).unwrap(), expected);
}

/// Retires all that can be; the error that this ends the log with.
fn ended(log: &mut Log) -> Error {
    let mut done = log.retire_before(log.end());
    loop {
        match done {
            Ok(()) => thread::yield_now(),
            Err(error) => return error,
        }
        done = log.commit(None, Durability::Sync);
    }
}

#[test]
fn a_sync_that_fails_beside_the_log_ends_it() {
    let (disk, mut log) = noted();
    while log.statistics().rotations < 2 {
        log.append(1, &[&[1; 3000]]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
    }
    disk.fails_to_sync.store(true, Ordering::SeqCst);
    let error = ended(&mut log);
    assert!(matches!(&error, Error::Io { file, action: "sync", .. } if file == "the folder"));
    disk.fails_to_sync.store(false, Ordering::SeqCst);
    assert!(matches!(log.commit(None, Durability::Sync), Err(Error::Poisoned { .. })));
}

/// Segments go oldest first, and nothing more is done once one could not be retired: a gap between
/// them would keep the log from being opened.
#[test]
fn a_segment_that_cannot_be_retired_keeps_all_later_ones() {
    let (disk, mut log) = noted();
    while log.statistics().rotations < 6 {
        log.append(1, &[&[1; 3000]]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
    }
    let expected = replay(&log).unwrap();
    disk.fails_to_rename.store(true, Ordering::SeqCst);
    ended(&mut log);
    drop(log);
    let (log, _) = open(&disk.disk).unwrap();
    assert_eq!(replay(&log).unwrap(), expected);
}

#[test]
fn a_full_disk_ends_the_log_where_it_needs_a_file_and_not_before() {
    for has_room_again in [true, false] {
        let disk = Noted::default();
        let (mut log, _) = Log::open(Arc::new(disk.clone()), options()).unwrap();
        let step = |log: &mut Log| {
            log.append(1, &[&[3; 3000]])?;
            log.commit(None, Durability::Sync)
        };
        // The first spare is being made already. The second one cannot be.
        disk.is_full.store(true, Ordering::SeqCst);
        while log.statistics().rotations < 1 || log.room_in_segment() >= 3009 {
            step(&mut log).unwrap();
        }
        assert_eq!(spares(&disk), [0; 0]);
        disk.is_full.store(!has_room_again, Ordering::SeqCst);
        match step(&mut log) {
            Ok(()) => assert!(has_room_again && log.statistics().rotations == 2),
            Err(error) => assert!(!has_room_again && error.to_string().contains("full"), "{error}"),
        }
    }
}
