//! The opening of a store: the last checkpoint, then the later batches of the log.

use super::apart::Apart;
use super::checkpoint;
use super::compact;
use super::entry::Address;
use super::error::Error;
use super::head::{HEAD_NAME, Head, HeadFile, LOG_TO_BEGIN};
use super::lanes::Lanes;
use super::ledger;
use super::memory::{Buffer, Memory};
use super::options::{Options, WriteOut};
use super::readers::Readers;
use super::recover::{self, Start};
use super::regions::{Geometry, Region, region_index, region_name};
use super::slab::Use;
use super::space::{Space, check_sealed};
use super::store::{Counters, Gathered, Shared, Signal, Store, lock};
use super::versions::Versions;
use super::wish::Wish;
use crate::disk::{Disk, FileDisk};
use crate::lock::FolderLock;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

/// The version of an empty store.
pub(super) const FIRST_VERSION: u64 = 1;

/// The result of opening a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The folder was empty, and the store was created.
    pub created: bool,
    /// Batches of the log beyond the last checkpoint.
    pub replayed_batches: u64,
    /// The damage that ended the reading of the log
    /// ([`Recovery::BestEffort`](super::Recovery::BestEffort)).
    pub lost: Option<String>,
}

impl Store {
    /// Opens the store in a folder, or creates one if the folder is empty or missing.
    ///
    /// # Errors
    /// [`Error::Lock`] if another process has it; [`Error::Options`]; or an unusable folder:
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Damaged`], [`Error::Missing`],
    /// [`Error::Log`], [`Error::Io`].
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<(Store, Recovered), Error> {
        let folder = folder.as_ref();
        let lock = FolderLock::acquire(folder)?;
        let disk = FileDisk::open(folder).map_err(Error::io("the folder", "open"))?;
        let (mut store, recovered) = Store::open_on(Arc::new(disk), options)?;
        store._lock = Some(lock);
        Ok((store, recovered))
    }

    /// Whether the store in a folder was created as an authenticated one; `None` if there is no
    /// store.
    ///
    /// # Errors
    /// As [`Store::open`], for the head alone.
    pub fn is_authenticated(folder: impl AsRef<Path>) -> Result<Option<bool>, Error> {
        if !folder.as_ref().is_dir() {
            return Ok(None);
        }
        let disk = FileDisk::open(folder.as_ref()).map_err(Error::io("the folder", "open"))?;
        Ok(HeadFile::open(&disk)?.map(|(file, _)| file.authenticated))
    }

    /// [`Store::open`] on any disk, which must not be in use otherwise.
    ///
    /// # Errors
    /// As [`Store::open`], but for the lock.
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<(Store, Recovered), Error> {
        options.check()?;
        compact::settle(&*disk)?;
        let mut recovered = Recovered::default();
        let (head_file, head) = match HeadFile::open(&*disk)? {
            Some(found) => found,
            None => {
                recovered.created = true;
                create(&*disk, &options)?
            }
        };
        if head_file.authenticated != options.authenticated {
            let reason = if head_file.authenticated {
                "this store is authenticated: open it so"
            } else {
                "this store is not authenticated: open it so, or copy it into a new one that is"
            };
            return Err(Error::Options { field: "authenticated", reason: reason.to_string() });
        }
        if options.authenticated && head_file.by_owner != options.value_digest.is_some() {
            let reason = if head_file.by_owner {
                "the digests of this store's values are its owner's: only the program that made \
                 it can open it"
            } else {
                "the digests of this store's values are BLAKE3"
            };
            return Err(Error::Options { field: "value_digest", reason: reason.to_string() });
        }
        let Start { memory, writer, log: mut log_side } =
            recover::recover(&disk, &options, head_file, head, &mut recovered)?;
        log_side.settled = writer.version;
        let (from, to) = (log_side.head.log_position, log_side.log.end().0);
        let shared = Arc::new(Shared {
            memory,
            readers: Readers::new(writer.version, writer.shown()),
            versions: Versions::new(options.kept_versions, writer.version, writer.shown()),
            gathered: Apart(Gathered {
                log_from: AtomicU64::new(from),
                log_to: AtomicU64::new(to),
                shadow_bytes: AtomicU64::new(writer.space.shadow_bytes),
                changed_bytes: AtomicU64::new(0),
            }),
            lanes: options.writes_side_by_side().then(|| Lanes::new(&options)),
            halted: Apart::default(),
            log: Apart(Mutex::new(Apart(log_side))),
            writer: Apart(Mutex::new(Apart(writer))),
            queue: Apart::default(),
            signal: Mutex::new(Signal::default()),
            signalled: Condvar::new(),
            wish: Apart(Wish::new()),
            counters: Counters::default(),
            options,
        });
        let thread = match shared.options.write_out {
            WriteOut::Inline => None,
            WriteOut::Background => {
                let shared = Arc::clone(&shared);
                let builder = std::thread::Builder::new().name("store-write-out".to_string());
                let thread = builder.spawn(move || checkpoint::work(&shared));
                Some(thread.map_err(Error::io("a thread", "start"))?)
            }
        };
        Ok((Store { shared, thread, _lock: None }, recovered))
    }
}

/// Creates an empty store, whose log is not begun yet.
fn create(disk: &dyn Disk, options: &Options) -> Result<(HeadFile, Head), Error> {
    let names = disk.list().map_err(Error::io("the folder", "list"))?;
    if names.iter().any(|name| region_index(name).is_some() || name.ends_with(".wal")) {
        return Err(Error::Missing {
            file: HEAD_NAME.to_string(),
            hint: "; or move the other files away to begin an empty store",
        });
    }
    let identity = options.identity.unwrap_or_else(|| {
        let part = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
        let mut identity = [0; 16];
        identity.iter_mut().zip(part().into_iter().chain(part())).for_each(|(to, from)| *to = from);
        identity
    });
    let geometry =
        Geometry { identity, slab_bytes: options.slab_bytes, region_bytes: options.region_bytes };
    let head =
        Head { number: 1, version: FIRST_VERSION, log_position: LOG_TO_BEGIN, ..Head::default() };
    HeadFile::create(disk, &geometry, options, &head)?;
    HeadFile::open(disk)?.ok_or_else(|| Error::Missing { file: HEAD_NAME.to_string(), hint: "" })
}

/// Maps the regions and reads the ledger.
pub(super) fn open_space(
    disk: &Arc<dyn Disk>,
    geometry: &Geometry,
    head: &Head,
    options: &Options,
) -> Result<(Arc<Memory>, Space), Error> {
    let limit = options.limit_bytes.max(u64::from(head.regions) * geometry.region_bytes);
    // The ledger of a checkpoint may exceed the limit.
    let memory = Memory::new(geometry.slab_bytes, geometry.region_slabs(), limit)
        .map_err(Error::io("the table of slabs", "map"))?;
    let memory = Arc::new(memory);
    let buffer = options.write_buffer_bytes;
    let mut space = Space::new(Arc::clone(&memory), Arc::clone(disk), *geometry, limit, buffer);
    for index in 0..head.regions as usize {
        let region = Region::open(&**disk, geometry, index)?;
        space.map_region(&region, index)?;
        space.regions.push(region);
    }
    for name in disk.list().map_err(Error::io("the folder", "list"))? {
        // A region that no checkpoint knows.
        if region_index(&name).is_some_and(|index| index >= head.regions as usize) {
            disk.remove(&name).map_err(Error::io(&name, "remove"))?;
        }
    }
    space.newest = head.version;
    restore(&mut space, head)?;
    if !space.mapped {
        load(&mut space, memory.slab_of(Address(head.ledger_address)))?;
    }
    Ok((memory, space))
}

/// Reads the ledger.
fn restore(space: &mut Space, head: &Head) -> Result<(), Error> {
    let count = space.regions.len() * space.geometry.region_slabs() as usize;
    if count == 0 {
        return Ok(());
    }
    let address = Address(head.ledger_address);
    let slab = space.memory.slab_of(address) as usize;
    let region_slabs = space.geometry.region_slabs() as usize;
    let at = (slab % region_slabs) as u64 * u64::from(space.geometry.slab_bytes);
    let name = region_name(slab / region_slabs);
    let damaged = |what| Error::Damaged { file: name.clone(), offset: at, what };
    let region = space.regions.get(slab / region_slabs).ok_or_else(|| damaged("no such region"))?;
    if head.ledger_bytes > space.geometry.region_bytes - at {
        return Err(damaged("the length of the ledger"));
    }
    let mut bytes = vec![0; usize::try_from(head.ledger_bytes).unwrap_or(0)];
    region.file.read_at(at, &mut bytes).map_err(Error::io(&name, "read"))?;
    if crc32c::crc32c(&bytes) != head.ledger_checksum {
        return Err(damaged("the checksum of the ledger"));
    }
    let mut slabs = ledger::decode(&bytes, &space.classes, space.geometry.slab_bytes, count)
        .ok_or_else(|| damaged("the ledger"))?;
    let own = slabs.get_mut(slab).filter(|own| {
        let room = u64::from(own.span) * u64::from(space.geometry.slab_bytes);
        own.usage == Use::Run && head.ledger_bytes <= room && space.memory.offset_of(address) == 0
    });
    // The next checkpoint releases it when it counts; nothing else does.
    own.ok_or_else(|| damaged("the ledger: its own place"))?.leaving.set(0);
    for (index, slab) in slabs.into_iter().enumerate() {
        let expected = index % region_slabs == 0;
        if (slab.usage == Use::Header) != expected {
            return Err(damaged("the ledger: a region without a header"));
        }
        if slab.usage == Use::Run {
            space.memory.show_map(index as u32, slab.span, false);
        }
        space.restore(index as u32, slab);
    }
    Ok(())
}

/// If files cannot be mapped: reads all used slots, except the ledger's.
fn load(space: &mut Space, ledger: u32) -> Result<(), Error> {
    let slab_bytes = space.memory.slab_bytes();
    for index in 0..space.slabs.len() as u32 {
        let Some(slab) = space.slabs.get(index as usize) else { continue };
        if !matches!(slab.usage, Use::Slots(_) | Use::Run) || index == ledger {
            continue;
        }
        let span = slab.span;
        let mut buffer = Buffer::zeroed(slab_bytes * span as usize)
            .map_err(Error::io("the write buffer", "grow"))?;
        let region_slabs = space.geometry.region_slabs();
        let region = &space.regions[(index / region_slabs) as usize];
        let at = u64::from(index % region_slabs) * slab_bytes as u64;
        region.file.read_at(at, buffer.bytes_mut()).map_err(Error::io(&region.name, "read"))?;
        space.memory.show_buffer(index, span, false, &buffer);
        space.slabs[index as usize].shadow = Some(buffer);
    }
    Ok(())
}

/// Checks the nodes and digest blocks that existed at the opening, slab by slab, so that readers
/// need not check them each time. Damage is left for readers to find.
pub(super) fn check_opened(shared: &Shared) {
    let mut index = 0;
    loop {
        // The lock is held for one slab at a time.
        let writer = lock(&shared.writer);
        let space = &writer.space;
        let Some(slab) = space.slabs.get(index) else { return };
        let number = index as u32;
        index += 1;
        let Use::Slots(usage) = slab.usage else { continue };
        if !usage.is_sealed_late() || space.memory.is_trusted(number) {
            continue;
        }
        let seen = space.memory.seen(number);
        let slot_bytes = space.classes.size(slab.class);
        if check_sealed(space.view(), number, usage, &slab.used, slot_bytes).is_ok() {
            space.memory.trust(number, seen);
        }
    }
}
