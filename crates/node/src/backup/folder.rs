//! The files of a backup.
//!
//! ```text
//! FOLDER/<height>.state     the state of a height
//! FOLDER/<height>.blocks    decided blocks, the first of this height
//! ```
//! Both are snapshot files ([`quorate_store::snapshot`]): each chunk has a checksum and all have a
//! hash, so one flipped bit is found, with its offset. A file gets its name when it is whole and
//! durable.
//!
//! The metadata is a [`Head`], integers little-endian: version u32 ‖ seconds since 1970 u64 ‖ epoch
//! u64 ‖ first height u64 ‖ last height u64 ‖ id of the block below the first 32 ‖ id of the last
//! block 32 ‖ `cluster.toml` behind its length. The content is items, each a tag (u8) and its bytes
//! behind their length (u32).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use quorate_core::client::message::MAX_REPLY_BYTES;
use quorate_core::{Digest, Epoch, Height};
use quorate_store::disk::FileDisk;
use quorate_store::lock::FolderLock;
use quorate_store::snapshot::{METADATA_LIMIT_BYTES, SnapshotError, SnapshotWriter, Snapshots};

use super::BackupError;
use crate::config::{Cluster, parse_cluster};

const IDENTITY: &[u8; 16] = b"quorate backup 1";
/// The version of the files' format.
pub const VERSION: u32 = 1;
const CHUNK_BYTES: u32 = 1 << 20;
const TAG_AND_LENGTH_BYTES: usize = 5;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The state of a height.
    State,
    /// Decided blocks.
    Blocks,
}

impl Kind {
    const ALL: [Self; 2] = [Self::State, Self::Blocks];

    /// The suffix of the files, and what people call them.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Blocks => "blocks",
        }
    }
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// How an epoch ended.
    Handover = 1,
    /// The offer of the state.
    Offer = 2,
    /// A chunk of the state.
    Chunk = 3,
    /// A decided block.
    Block = 4,
    /// A block above the last one, that proves it.
    Following = 5,
    /// The newest evidence, where the last block needs it.
    Newest = 6,
}

impl Tag {
    fn of(byte: u8) -> Option<Self> {
        let all =
            [Self::Handover, Self::Offer, Self::Chunk, Self::Block, Self::Following, Self::Newest];
        all.into_iter().find(|tag| *tag as u8 == byte)
    }
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// The epoch whose committee proves it.
    pub epoch: Epoch,
    /// The first height in it.
    pub first: Height,
    /// The last one.
    pub last: Height,
    /// The block below the first.
    pub parent: Digest,
    /// The last block.
    pub block: Digest,
    /// The `cluster.toml` of the chain.
    pub cluster: String,
}

/// The second it is now, since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Encode for Head {
    fn encode(&self, out: &mut Vec<u8>) {
        VERSION.encode(out);
        self.made_at.encode(out);
        self.epoch.encode(out);
        self.first.encode(out);
        self.last.encode(out);
        self.parent.encode(out);
        self.block.encode(out);
        put_bytes(out, self.cluster.as_bytes());
    }
}

impl Decode for Head {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let found = reader.u32()?;
        if found != VERSION {
            return Err(DecodeError::Version { format: "backup", found, supported: VERSION });
        }
        let (made_at, epoch) = (reader.u64()?, Epoch::decode(reader)?);
        let (first, last) = (Height::decode(reader)?, Height::decode(reader)?);
        let (parent, block) = (Digest::decode(reader)?, Digest::decode(reader)?);
        let text = reader.byte_string("cluster.toml", METADATA_LIMIT_BYTES as usize)?;
        let cluster = String::from_utf8(text.to_vec())
            .map_err(|_| DecodeError::Invalid { field: "cluster.toml" })?;
        Ok(Self { made_at, epoch, first, last, parent, block, cluster })
    }
}

/// A file of a backup.
#[derive(Clone)]
pub struct Part {
    /// What it holds.
    pub kind: Kind,
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub head: Head,
    /// The bytes of its content.
    pub bytes: u64,
    disk: Arc<FileDisk>,
}

impl Part {
    /// Passes on its items, in order, each checked.
    pub(super) fn items(
        &self,
        mut each: impl FnMut(Tag, Bytes) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        enum Ended {
            File(SnapshotError),
            Other(BackupError),
        }
        impl From<SnapshotError> for Ended {
            fn from(error: SnapshotError) -> Self {
                Self::File(error)
            }
        }
        let files = Snapshots::reading(self.disk.clone(), *IDENTITY, self.kind.name());
        let read = files.read(self.head.first.0);
        let reader = read.map_err(|error| BackupError::of_file(&error, &self.path))?;
        let odd = |what: &str| Ended::Other(BackupError::damaged(what, &self.path));
        let mut pending: Vec<u8> = Vec::new();
        let streamed = reader.stream::<Ended>(|bytes| {
            pending.extend_from_slice(bytes);
            let mut at = 0;
            while let Some(head) = pending[at..].first_chunk::<TAG_AND_LENGTH_BYTES>() {
                let [tag, length @ ..] = *head;
                let length = u32::from_le_bytes(length) as usize;
                if length > MAX_REPLY_BYTES {
                    return Err(odd("an item in it is longer than any may be"));
                }
                let from = at + TAG_AND_LENGTH_BYTES;
                let Some(item) = pending.get(from..from + length) else { break };
                let tag = Tag::of(tag).ok_or_else(|| odd("an item in it is of no known kind"))?;
                each(tag, Bytes::copy_from_slice(item)).map_err(Ended::Other)?;
                at = from + length;
            }
            pending.drain(..at);
            Ok(())
        });
        match streamed {
            Ok(()) if pending.is_empty() => Ok(()),
            Ok(()) => Err(BackupError::damaged("its last item ends early", &self.path)),
            Err(Ended::File(error)) => Err(BackupError::of_file(&error, &self.path)),
            Err(Ended::Other(error)) => Err(error),
        }
    }
}

/// A file that is being written. It exists once it is finished.
pub(super) struct Writer {
    writer: SnapshotWriter,
    path: PathBuf,
    bytes: u64,
}

impl Writer {
    pub fn add(&mut self, tag: Tag, item: &[u8]) -> Result<(), BackupError> {
        let mut head = vec![tag as u8];
        (item.len() as u32).encode(&mut head);
        self.bytes += (head.len() + item.len()) as u64;
        let written = self.writer.write(&head).and_then(|()| self.writer.write(item));
        written.map_err(|error| BackupError::of_file(&error, &self.path))
    }

    /// Makes it durable under its name. Returns the bytes of its content.
    pub fn finish(self) -> Result<u64, BackupError> {
        let Self { writer, path, bytes } = self;
        writer.finish().map_err(|error| BackupError::of_file(&error, &path))?;
        Ok(bytes)
    }
}

/// The folder of a backup.
pub struct Folder {
    path: PathBuf,
    disk: Arc<FileDisk>,
    /// Held to write.
    _lock: Option<FolderLock>,
}

impl Folder {
    /// A folder to read, which must be there.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn read(path: &Path) -> Result<Self, BackupError> {
        if !path.is_dir() {
            let remedy = "name the folder that `quorate backup create` wrote";
            return Err(BackupError::refused("there is no such folder", path, remedy));
        }
        Ok(Self { disk: disk(path)?, path: path.to_owned(), _lock: None })
    }

    /// A folder to write, which is made if need be. Unfinished files of an earlier run are removed.
    ///
    /// # Errors
    /// [`BackupError`]: also if another process writes it.
    pub fn write(path: &Path) -> Result<Self, BackupError> {
        let lock = FolderLock::acquire(path).map_err(|error| BackupError::locked(&error, path))?;
        let disk = disk(path)?;
        for kind in Kind::ALL {
            Snapshots::open_kind(disk.clone(), *IDENTITY, kind.name())
                .map_err(|error| BackupError::of_file(&error, path))?;
        }
        Ok(Self { disk, path: path.to_owned(), _lock: Some(lock) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files, by their first heights, with their heads checked.
    ///
    /// # Errors
    /// [`BackupError`], which names the file.
    pub fn parts(&self) -> Result<Vec<Part>, BackupError> {
        let mut parts = Vec::new();
        for kind in Kind::ALL {
            let files = Snapshots::reading(self.disk.clone(), *IDENTITY, kind.name());
            let numbers =
                files.numbers().map_err(|error| BackupError::of_file(&error, &self.path))?;
            for number in numbers {
                let path = self.path.join(format!("{number:020}.{}", kind.name()));
                let read = files.read(number);
                let reader = read.map_err(|error| BackupError::of_file(&error, &path))?;
                let metadata = Bytes::copy_from_slice(&reader.info().metadata);
                let head = Head::from_bytes(metadata)
                    .map_err(|error| BackupError::damaged(format!("its head: {error}"), &path))?;
                if head.first.0 != number || head.last < head.first {
                    return Err(BackupError::damaged("its heights are not its name's", &path));
                }
                let bytes = reader.info().total_bytes;
                let disk = Arc::clone(&self.disk);
                parts.push(Part { kind, path, head, bytes, disk });
            }
        }
        parts.sort_by_key(|part| (part.head.first, part.kind));
        Ok(parts)
    }

    /// The chain that all files are of, by the `cluster.toml` in them. `None`: there is no file.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if files are of several chains.
    pub fn cluster(&self, parts: &[Part]) -> Result<Option<Cluster>, BackupError> {
        let Some(first) = parts.first() else { return Ok(None) };
        let of = |part: &Part| {
            parse_cluster(&part.path, &part.head.cluster)
                .map_err(|error| BackupError::damaged(error, &part.path))
        };
        let cluster = of(first)?;
        for part in parts.iter().filter(|part| part.head.cluster != first.head.cluster) {
            let (found, expected) = (of(part)?.chain_digest(), cluster.chain_digest());
            if found != expected {
                let what = format!("it is of the chain {found}, and others are of {expected}");
                return Err(BackupError::damaged(what, &part.path));
            }
        }
        Ok(Some(cluster))
    }

    /// Begins a file.
    pub(super) fn begin(&self, kind: Kind, head: &Head) -> Result<Writer, BackupError> {
        let path = self.path.join(format!("{:020}.{}", head.first.0, kind.name()));
        let files = Snapshots::reading(self.disk.clone(), *IDENTITY, kind.name());
        let writer = files
            .write(head.first.0, &head.to_bytes(), CHUNK_BYTES)
            .map_err(|error| BackupError::of_file(&error, &path))?;
        Ok(Writer { writer, path, bytes: 0 })
    }
}

fn disk(path: &Path) -> Result<Arc<FileDisk>, BackupError> {
    let opened = FileDisk::open(path);
    let disk = opened.map_err(|error| {
        BackupError::failed(error, path, "see to the folder's permissions and the disk")
    })?;
    Ok(Arc::new(disk))
}
