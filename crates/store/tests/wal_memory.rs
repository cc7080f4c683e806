//! Tests of a log's use of memory. Whole pages are written, so that none is read first. Written
//! bytes are handed to the disk and released, piece by piece.

mod common;

use common::IDENTITY;
use quorate_store::disk::{Disk, DiskFile, MemoryDisk};
use quorate_store::wal::{Durability, Log, Options, Preparation};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const SLOT: u32 = 4096;
/// The offset behind header, marks and slots.
const RECORDS: u64 = 3 * PAGE + 2 * SLOT as u64;

/// The calls on a file, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Write(Range<u64>),
    WriteOut(Range<u64>),
    Sync,
    Forget(Range<u64>),
}

#[derive(Clone, Default)]
struct Watched {
    disk: MemoryDisk,
    asked: Arc<Mutex<Vec<(String, Asked)>>>,
}

struct WatchedFile {
    name: String,
    file: Arc<dyn DiskFile>,
    asked: Arc<Mutex<Vec<(String, Asked)>>>,
}

impl Watched {
    fn asked(&self) -> MutexGuard<'_, Vec<(String, Asked)>> {
        self.asked.lock().unwrap()
    }

    fn watch(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile { name: name.to_owned(), file, asked: self.asked.clone() })
    }
}

impl Disk for Watched {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watch(name, self.disk.create(name, size)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watch(name, self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

impl WatchedFile {
    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push((self.name.clone(), asked));
    }
}

impl DiskFile for WatchedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(Asked::Write(offset..offset + bytes.len() as u64));
        self.file.write_at(offset, bytes)
    }

    /// Zeros of a spare are no write of the log.
    fn extend(&self, size: u64) -> io::Result<()> {
        self.file.extend(size)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.note(Asked::Sync);
        self.file.sync_data()
    }

    fn begin_to_write_out(&self, bytes: Range<u64>) {
        self.note(Asked::WriteOut(bytes));
    }

    fn forget(&self, bytes: Range<u64>) {
        self.note(Asked::Forget(bytes));
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

fn log(segment_bytes: u64) -> (Watched, Log) {
    let disk = Watched::default();
    let options = Options {
        segment_bytes,
        slot_bytes: SLOT,
        preparation: Preparation::Inline,
        ..Options::new(IDENTITY)
    };
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    (disk, log)
}

#[test]
fn a_page_of_records_is_written_as_a_whole_or_was_written_before() {
    let (disk, mut log) = log(MIB);
    let mut sizes = common::Random(7);
    for turn in 0..2000 {
        let bytes = vec![turn as u8; sizes.below(9000) as usize];
        log.append(1, &[&bytes]).unwrap();
        let slot = (turn % 3 > 0).then_some(&bytes[..bytes.len().min(100)]);
        log.commit(slot, Durability::Os).unwrap();
        log.retire_before(log.end()).unwrap();
    }
    assert!(log.statistics().rotations > 5, "files were used again");
    let mut written = BTreeSet::new();
    let mut life = String::new();
    for (name, asked) in disk.asked().iter() {
        let Asked::Write(bytes) = asked else { continue };
        if bytes.start == 0 {
            // The header: a segment begins in a file, whose old bytes may be in memory or not.
            written.clear();
            life.clone_from(name);
        }
        assert_eq!(*name, life);
        for page in bytes.start / PAGE..bytes.end.div_ceil(PAGE) {
            let whole = bytes.start <= page * PAGE && (page + 1) * PAGE <= bytes.end;
            let is_new = written.insert(page);
            let begins_the_segment = page <= RECORDS / PAGE;
            assert!(whole || !is_new || begins_the_segment, "page {page} by {bytes:?}");
        }
    }
}

#[test]
fn records_are_handed_to_the_disk_and_let_go_piece_by_piece() {
    let (disk, mut log) = log(32 * MIB);
    // The first segment's file, under the name that it was made with.
    let first = disk.asked()[0].0.clone();
    disk.asked().clear();
    let record = vec![1; MIB as usize - 9];
    for _ in 0..40 {
        log.append(1, &[&record]).unwrap();
        log.commit(None, Durability::Os).unwrap();
    }
    assert_eq!(log.statistics().rotations, 1);
    let mut end = RECORDS;
    let (mut handed, mut forgotten) = (RECORDS, RECORDS);
    let asked = disk.asked().clone().into_iter();
    let mut asked = asked.filter(|(name, _)| *name == first).map(|(_, asked)| asked);
    for asked in asked.by_ref() {
        match asked {
            Asked::Write(bytes) if bytes.start >= RECORDS => end = bytes.end,
            Asked::Write(_) => {}
            Asked::WriteOut(piece) => {
                assert_eq!(piece, handed..handed + 4 * MIB);
                assert!(piece.end <= end);
                handed = piece.end;
            }
            Asked::Forget(piece) => {
                assert_eq!(piece.start, forgotten, "slots and marks stay");
                assert!(piece.end + 8 * MIB <= end, "so does the end");
                forgotten = piece.end;
            }
            Asked::Sync => break,
        }
    }
    assert_eq!((handed, forgotten), (RECORDS + 28 * MIB, RECORDS + 20 * MIB));
    // The rotation has synced the segment. Then the rest may be released, except the part that
    // replicas slightly behind will request.
    let Some(Asked::Forget(rest)) = asked.next() else { panic!("nothing is let go of") };
    assert_eq!(rest.start, forgotten);
    assert!((end - 8 * MIB - PAGE..=end - 8 * MIB).contains(&rest.end));
}
