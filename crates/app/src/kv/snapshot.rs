//! The state as a stream of bytes, cut into chunks, and back.
//!
//! The stream is a head (format tag, count of keys u64), then every entry in the order of the
//! hashes of the keys: the key, the kind (u8), and a string, or the count of fields (u32) and each
//! field's name and value; byte strings behind their length (u32). Every chunk but the last is full,
//! so one state has one list of chunks.

use bytes::Bytes;
use quorate_core::merkle::Hash;
use quorate_core::state_machine::{MAX_CHUNK_BYTES, RestoreError};

use super::value::{Entry, FIELD_OVERHEAD_BYTES, Fields, Value, place};
use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

const TAG: &[u8; 16] = b"quorate kv 00001";
const TEXT: u8 = 1;
const HASH: u8 = 2;

/// Cuts a stream into chunks.
pub(super) struct Cutter<'a> {
    chunk: Vec<u8>,
    sink: &'a mut dyn FnMut(&[u8]) -> bool,
    /// Whether the sink wants more.
    open: bool,
}

impl<'a> Cutter<'a> {
    /// Begins the stream of a state of so many keys.
    pub(super) fn new(keys: usize, sink: &'a mut dyn FnMut(&[u8]) -> bool) -> Self {
        let mut cutter = Self { chunk: Vec::with_capacity(MAX_CHUNK_BYTES), sink, open: true };
        cutter.write(TAG);
        cutter.write(&(keys as u64).to_le_bytes());
        cutter
    }

    /// Adds the next entry; says whether the sink wants more.
    pub(super) fn entry(&mut self, entry: &Entry) -> bool {
        self.byte_string(&entry.key);
        match &entry.value {
            Value::Text(text) => {
                self.write(&[TEXT]);
                self.byte_string(text);
            }
            Value::Hash(fields) => {
                self.write(&[HASH]);
                self.write(&(fields.len() as u32).to_le_bytes());
                for (name, value) in fields.iter() {
                    self.byte_string(name);
                    self.byte_string(value);
                }
            }
        }
        self.open
    }

    fn byte_string(&mut self, bytes: &[u8]) {
        self.write(&(bytes.len() as u32).to_le_bytes());
        self.write(bytes);
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while self.open && !bytes.is_empty() {
            let room = MAX_CHUNK_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == MAX_CHUNK_BYTES {
                self.open = (self.sink)(&self.chunk);
                self.chunk.clear();
            }
        }
    }

    pub(super) fn finish(self) {
        if self.open && !self.chunk.is_empty() {
            (self.sink)(&self.chunk);
        }
    }
}

/// Gives `keep` the entries that the chunks describe, in order, and says how many there are. What
/// `keep` says against one is the error.
pub(super) fn restore(
    chunks: &mut dyn Iterator<Item = Bytes>,
    keep: &mut dyn FnMut(Hash, Entry) -> Result<(), String>,
) -> Result<u64, RestoreError> {
    let mut stream = Stream { chunks, chunk: Bytes::new(), number: 0, started: false };
    let mut tag = [0; TAG.len()];
    stream.fill(&mut tag)?;
    if tag != *TAG {
        return Err(stream.error("it does not begin as a snapshot of this store and version does"));
    }
    let mut count = [0; 8];
    stream.fill(&mut count)?;
    let count = u64::from_le_bytes(count);
    let mut last: Option<Hash> = None;
    for _ in 0..count {
        let (hash, entry) = stream.entry()?;
        if last.is_some_and(|last| last >= hash) {
            return Err(stream.error("keys are not in the order of their hashes"));
        }
        last = Some(hash);
        keep(hash, entry).map_err(|reason| stream.error(&reason))?;
    }
    stream.finish()?;
    Ok(count)
}

/// The chunks, read as one stream.
struct Stream<'a> {
    chunks: &'a mut dyn Iterator<Item = Bytes>,
    chunk: Bytes,
    /// The chunk that is being read, from 0.
    number: usize,
    started: bool,
}

impl Stream<'_> {
    fn entry(&mut self) -> Result<(Hash, Entry), RestoreError> {
        let key = self.byte_string("key", MAX_KEY_BYTES)?;
        let mut kind = [0];
        self.fill(&mut kind)?;
        let value = match kind {
            [TEXT] => Value::Text(self.byte_string("value", MAX_VALUE_BYTES)?),
            [HASH] => Value::Hash(Box::new(self.fields()?)),
            _ => return Err(self.error("unknown kind of value")),
        };
        Ok((place(&key), Entry { key: key.into(), value }))
    }

    fn fields(&mut self) -> Result<Fields, RestoreError> {
        let count = self.length("fields of a hash", MAX_VALUE_BYTES / FIELD_OVERHEAD_BYTES)?;
        let mut fields = Fields::default();
        for _ in 0..count {
            let name = self.byte_string("field", MAX_VALUE_BYTES)?;
            let value = self.byte_string("value of a field", MAX_VALUE_BYTES)?;
            if !fields.push(name.into(), value) {
                return Err(self.error("fields of a hash are not ascending"));
            }
            if fields.bytes() > MAX_VALUE_BYTES {
                return Err(self.error("a hash is larger than allowed"));
            }
        }
        match count {
            0 => Err(self.error("a hash without fields")),
            _ => Ok(fields),
        }
    }

    fn length(&mut self, name: &str, cap: usize) -> Result<usize, RestoreError> {
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > cap {
            return Err(self.error(&format!("{name}: {length}, above the cap of {cap}")));
        }
        Ok(length)
    }

    fn byte_string(&mut self, name: &str, cap: usize) -> Result<Vec<u8>, RestoreError> {
        let mut bytes = vec![0; self.length(name, cap)?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, mut target: &mut [u8]) -> Result<(), RestoreError> {
        while !target.is_empty() {
            if self.chunk.is_empty() && !self.advance()? {
                return Err(self.error("the stream ends early"));
            }
            let length = target.len().min(self.chunk.len());
            let (now, later) = target.split_at_mut(length);
            now.copy_from_slice(&self.chunk.split_to(length));
            target = later;
        }
        Ok(())
    }

    /// Goes on to the next chunk; says whether there is one.
    fn advance(&mut self) -> Result<bool, RestoreError> {
        let Some(chunk) = self.chunks.next() else { return Ok(false) };
        self.number += usize::from(self.started);
        self.started = true;
        self.chunk = chunk;
        if self.chunk.is_empty() || self.chunk.len() > MAX_CHUNK_BYTES {
            return Err(self.error(&format!("a chunk of {} bytes", self.chunk.len())));
        }
        Ok(true)
    }

    fn finish(mut self) -> Result<(), RestoreError> {
        if !self.chunk.is_empty() || self.advance()? {
            return Err(self.error("bytes are left behind the last key"));
        }
        Ok(())
    }

    fn error(&self, reason: &str) -> RestoreError {
        RestoreError { chunk: self.number, reason: reason.to_owned() }
    }
}
