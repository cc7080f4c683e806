//! The chunks of a snapshot, while peers may ask for them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_store::disk::{Disk, DiskFile};
use quorate_store::snapshot::{SnapshotError, SnapshotReader};

/// The name of the file, which it has only for a moment.
pub(crate) const SPOOL_FILE: &str = "spool";

/// Free bytes that stay on the disk: a request of a peer must not take the room that the replica's
/// own log needs.
const KEPT_FREE_BYTES: u64 = 256 << 20;

/// The chunks of a snapshot by number, for peers. They are in the snapshot's own file if it has
/// one. Otherwise they are in a file without a name, which disappears when this is dropped or the
/// process ends. That file has no checksums: peers check received chunks.
pub struct Spool {
    place: Place,
    /// Offset and length of each chunk.
    chunks: Vec<(u64, u64)>,
    bytes: u64,
}

#[derive(Clone)]
enum Place {
    /// The snapshot's own file: each chunk follows its length.
    Snapshot(SnapshotReader),
    Unnamed(Arc<dyn DiskFile>),
}

impl Spool {
    pub(crate) fn begin(disk: &dyn Disk) -> io::Result<Self> {
        // The file is left over if the process ended between the next two calls.
        match disk.remove(SPOOL_FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(SPOOL_FILE, 0)?;
        disk.remove(SPOOL_FILE)?;
        Ok(Self::at(Place::Unnamed(file)))
    }

    pub(crate) fn of(reader: SnapshotReader) -> Self {
        Self::at(Place::Snapshot(reader))
    }

    fn at(place: Place) -> Self {
        Self { place, chunks: Vec::new(), bytes: 0 }
    }

    /// A place for the next chunk. The caller [writes](Spooled::write) the chunk there and then
    /// [adds](Self::add) it.
    #[must_use]
    pub fn next(&self, length: usize) -> Spooled {
        let (from, length) = (self.bytes, length as u64);
        Spooled { place: self.place.clone(), from, length }
    }

    /// Records that the chunk was written.
    pub fn add(&mut self, written: &Spooled) {
        self.chunks.push((written.from, written.length));
        self.bytes = written.end();
    }

    /// The number of chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there is no chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The length of all chunks, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The place of a chunk, if there is one.
    #[must_use]
    pub fn chunk(&self, index: usize) -> Option<Spooled> {
        let (from, length) = *self.chunks.get(index)?;
        Some(Spooled { place: self.place.clone(), from, length })
    }
}

/// The place of a chunk. It can be read and written without the spool.
pub struct Spooled {
    place: Place,
    from: u64,
    length: u64,
}

/// The length field in front of a chunk in a snapshot's file.
const LENGTH_BYTES: u64 = 4;

impl Spooled {
    fn end(&self) -> u64 {
        match self.place {
            Place::Snapshot(_) => self.from + LENGTH_BYTES + self.length,
            Place::Unnamed(_) => self.from + self.length,
        }
    }

    /// Writes the chunk, unless it is in a snapshot's file.
    ///
    /// # Errors
    /// The disk's error. `StorageFull` also if the disk would be nearly full afterwards.
    pub fn write(&self, chunk: &[u8]) -> io::Result<()> {
        match &self.place {
            Place::Snapshot(_) => Ok(()),
            Place::Unnamed(file) => {
                let needed = KEPT_FREE_BYTES + chunk.len() as u64;
                if let Some(free) = file.free_bytes().ok().flatten().filter(|free| *free < needed) {
                    let (free, kept) = (free >> 20, KEPT_FREE_BYTES >> 20);
                    let told = format!(
                        "{free} MiB of the disk are free, of which {kept} MiB stay for the replica's \
                         own log"
                    );
                    return Err(io::Error::new(io::ErrorKind::StorageFull, told));
                }
                file.write_at(self.from, chunk)
            }
        }
    }

    /// Reads the chunk.
    ///
    /// # Errors
    /// [`SnapshotError`] if it cannot be read or is damaged.
    pub fn read(&self) -> Result<Bytes, SnapshotError> {
        match &self.place {
            Place::Snapshot(reader) => {
                reader.read_range(self.from + LENGTH_BYTES, self.length).map(Bytes::from)
            }
            Place::Unnamed(file) => {
                let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(0)];
                let read = file.read_at(self.from, &mut bytes);
                let file = || SPOOL_FILE.to_owned();
                read.map_err(|source| SnapshotError::Io { file: file(), action: "read", source })?;
                Ok(bytes.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_store::disk::MemoryDisk;

    fn push(spool: &mut Spool, chunk: &[u8]) {
        let place = spool.next(chunk.len());
        place.write(chunk).unwrap();
        spool.add(&place);
    }

    /// A disk with this many bytes free.
    struct On(u64);

    impl DiskFile for On {
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn free_bytes(&self) -> io::Result<Option<u64>> {
            Ok(Some(self.0))
        }
    }

    #[test]
    fn the_room_for_the_log_is_not_taken() {
        let write = |free| Spool::at(Place::Unnamed(Arc::new(On(free)))).next(100).write(&[0; 100]);
        write(KEPT_FREE_BYTES + 100).unwrap();
        let refused = write(KEPT_FREE_BYTES + 99).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().starts_with("256 MiB of the disk are free"), "{refused}");
    }

    #[test]
    fn chunks_are_what_they_were_and_leave_nothing() {
        let disk = MemoryDisk::new();
        // As after the end of a process at the worst moment.
        disk.create(SPOOL_FILE, 10).unwrap();
        let mut spools = [Spool::begin(&disk).unwrap(), Spool::begin(&disk).unwrap()];
        assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        let lengths = [1, 0, 5000, 3];
        for length in lengths {
            for (tag, spool) in (1..).zip(&mut spools) {
                push(spool, &vec![tag; length]);
            }
        }
        for (tag, spool) in (1..).zip(&spools) {
            assert_eq!((spool.len(), spool.bytes()), (4, 5004));
            for (index, length) in lengths.into_iter().enumerate() {
                let chunk = spool.chunk(index).unwrap().read().unwrap();
                assert_eq!(chunk, vec![tag; length]);
            }
            assert!(spool.chunk(4).is_none());
        }
    }
}
