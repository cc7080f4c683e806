//! The state as chunks, each of which can be checked when it comes.
//!
//! Integers are little-endian. The first chunk begins with: format tag 16 ‖ root of the Merkle map
//! 32 ‖ head of the change feed 40 (height u64 ‖ digest 32). Each has
//!
//! ```text
//! count of entries u32 | for each, in the order of the hashes of their keys: length u32, entry
//! … the proof of the last entry (docs/store.md, "Authenticated mode"), if there is an entry
//! ```
//!
//! An entry is length of the key u32 ‖ key ‖ kind u8 (1 a string, 2 a hash; 3 and 4 the same with
//! an owner) ‖ the owner's key 32, if it has one ‖ the string, or each field's name and value
//! behind their lengths (u32), names ascending. What a key has stored of its
//! [quota](super::quotas) is the sum over the entries that it owns, and stands nowhere else. A
//! chunk has as many whole
//! entries as fit, and one at least unless there is none at all, so that one state has one list of
//! chunks. The proof shows that the entries so far are those the map begins with ([`Prefix`]): each
//! entry is where it belongs, and none is missing or too many.

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::format::Tag;
use quorate_core::base::wire::Reader;
use quorate_core::ledger::state_machine::{MAX_CHUNK_BYTES, RestoreError};
use quorate_merkle::Hash;
use quorate_merkle::{PROOF_LIMIT_BYTES, Prefix, Proof, ProofError};

use super::feed::Head;
use super::proof::root_of;
use super::value::{OWNER_BYTES, place, split_byte_string, written_text};
use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES, entry};

/// What the first chunk begins with.
pub const TAG: &Tag = b"quorate kv 00003";
const HEAD_BYTES: usize = TAG.len() + 32 + Head::BYTES;
const COUNT_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;

/// Entries fill a chunk up to this, unless one alone is longer.
const FULL_BYTES: usize = 1 << 20;
/// The key's length, the kind and the owner come on top of the key and the value.
const MAX_ENTRY_BYTES: usize = 4 + MAX_KEY_BYTES + 1 + OWNER_BYTES + MAX_VALUE_BYTES;
const _: () = assert!(
    HEAD_BYTES + COUNT_BYTES + LENGTH_BYTES + MAX_ENTRY_BYTES + PROOF_LIMIT_BYTES
        <= MAX_CHUNK_BYTES
);

/// The entry at a place is proven, encoded; `None`: that failed, and the chunks end.
pub(super) type Prove<'a> = &'a mut dyn FnMut(&Hash) -> Option<Vec<u8>>;

/// Cuts a state into chunks.
pub(super) struct Cutter<'a> {
    chunk: Vec<u8>,
    /// Where the chunk has its count, and what that is.
    count: (usize, u32),
    last: Hash,
    prove: Prove<'a>,
    sink: &'a mut dyn FnMut(&[u8]) -> bool,
}

impl<'a> Cutter<'a> {
    /// Begins the chunks of a state whose map has this root, with this head of the change feed.
    pub(super) fn new(
        (root, head): (&Hash, Head),
        prove: Prove<'a>,
        sink: &'a mut dyn FnMut(&[u8]) -> bool,
    ) -> Self {
        let mut chunk = Vec::with_capacity(FULL_BYTES + PROOF_LIMIT_BYTES);
        chunk.extend_from_slice(TAG);
        chunk.extend_from_slice(root);
        chunk.extend_from_slice(&head.to_array());
        let mut cutter = Self { chunk, count: (0, 0), last: Hash::default(), prove, sink };
        cutter.begin();
        cutter
    }

    fn begin(&mut self) {
        self.count = (self.chunk.len(), 0);
        self.chunk.extend_from_slice(&[0; COUNT_BYTES]);
    }

    /// Adds the next entry; says whether more are wanted.
    pub(super) fn entry(&mut self, place: &Hash, entry: &[u8]) -> bool {
        let full = self.chunk.len() + LENGTH_BYTES + entry.len() > FULL_BYTES;
        if full && self.count.1 > 0 {
            if !self.cut() {
                return false;
            }
            self.begin();
        }
        self.chunk.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        self.chunk.extend_from_slice(entry);
        self.count.1 += 1;
        self.last = *place;
        true
    }

    fn cut(&mut self) -> bool {
        let (at, count) = self.count;
        self.chunk[at..at + COUNT_BYTES].copy_from_slice(&count.to_le_bytes());
        if count > 0 {
            let Some(proof) = (self.prove)(&self.last) else { return false };
            self.chunk.extend_from_slice(&proof);
        }
        let wants_more = (self.sink)(&self.chunk);
        self.chunk.clear();
        wants_more
    }

    pub(super) fn finish(mut self) {
        self.cut();
    }
}

/// Takes the chunks of a state, each checked when it comes.
pub(super) struct Taker {
    /// What the application's root shall be.
    root: Option<Digest>,
    /// That of the map, and the head of the change feed, once the first chunk has said them.
    map: Option<(Hash, Head)>,
    prefix: Prefix,
    chunks: usize,
    /// How far the last chunk was filled, without its proof.
    filled: usize,
    whole: bool,
}

/// Entries of a chunk and their places.
pub(super) type Entries<'a> = Vec<(Hash, &'a [u8])>;

impl Taker {
    /// Of the state with this root of the application, if that is known.
    pub(super) fn new(root: Option<Digest>) -> Self {
        Self { root, map: None, prefix: Prefix::default(), chunks: 0, filled: 0, whole: false }
    }

    /// The entries of the next chunk: they are of the state.
    pub(super) fn take<'a>(&mut self, chunk: &'a [u8]) -> Result<Entries<'a>, RestoreError> {
        let taken = self.read(chunk).map_err(|reason| self.error(&reason));
        self.chunks += 1;
        taken
    }

    fn read<'a>(&mut self, chunk: &'a [u8]) -> Result<Entries<'a>, String> {
        if self.whole {
            return Err("the state was whole before".to_owned());
        }
        let ((map, head), rest) = match self.map {
            Some(map) => (map, chunk),
            None => self.begun(chunk)?,
        };
        self.map = Some((map, head));
        let (entries, proof) = entries(rest)?;
        self.check_cut(&entries, chunk.len() - proof.len())?;
        let refused = |error: ProofError| error.to_string();
        let written: Vec<&[u8]> = entries.iter().map(|(_, entry)| *entry).collect();
        let mut digests = vec![Hash::default(); written.len()];
        entry::digests(&written, &mut digests);
        for ((place, _), digest) in entries.iter().zip(&digests) {
            self.prefix.push(*place, *digest).map_err(refused)?;
        }
        self.whole = if entries.is_empty() {
            if !proof.is_empty() || !self.prefix.is_all_of_none(&map) {
                return Err("a chunk without entries".to_owned());
            }
            true
        } else {
            let proof = Proof::decode(proof).map_err(refused)?;
            self.prefix.verify(&map, &proof).map_err(refused)?
        };
        Ok(entries)
    }

    /// Chunks are as full as they can be: who sends them one entry at a time does not keep others
    /// from being asked.
    fn check_cut(&mut self, entries: &Entries<'_>, filled: usize) -> Result<(), String> {
        let first = entries.first().map_or(0, |(_, entry)| LENGTH_BYTES + entry.len());
        if self.chunks > 0 && self.filled + first <= FULL_BYTES {
            return Err("the chunk before it had room for more".to_owned());
        }
        if filled > FULL_BYTES && entries.len() > 1 {
            return Err("more entries than a chunk has".to_owned());
        }
        self.filled = filled;
        Ok(())
    }

    /// Reads what the first chunk begins with.
    fn begun<'a>(&self, chunk: &'a [u8]) -> Result<((Hash, Head), &'a [u8]), String> {
        let early = "it ends early";
        let (tag, rest) = chunk.split_first_chunk::<{ TAG.len() }>().ok_or(early)?;
        Reader::new(Bytes::copy_from_slice(tag)).tag(TAG).map_err(|error| error.to_string())?;
        let (map, rest) = rest.split_first_chunk::<32>().ok_or(early)?;
        let (head, rest) = rest.split_first_chunk().ok_or(early)?;
        let (map, head) = (*map, Head::from_array(head));
        if self.root.is_some_and(|root| root != root_of(&map, &head)) {
            return Err("it is of a state with another root".into());
        }
        Ok(((map, head), rest))
    }

    /// The head of the change feed in the state that was taken.
    pub(super) fn head(&self) -> Head {
        self.map.map(|(_, head)| head).unwrap_or_default()
    }

    /// How many chunks were taken.
    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }

    /// All chunks were taken.
    pub(super) fn finish(&self) -> Result<(), RestoreError> {
        if self.whole { Ok(()) } else { Err(self.error("the state ends early")) }
    }

    pub(super) fn error(&self, reason: &str) -> RestoreError {
        RestoreError { chunk: self.chunks, reason: reason.to_owned() }
    }
}

/// The entries of a chunk, and its proof.
fn entries(chunk: &[u8]) -> Result<(Entries<'_>, &[u8]), String> {
    let early = "it ends early";
    let (count, mut rest) = chunk.split_first_chunk::<COUNT_BYTES>().ok_or(early)?;
    let mut entries = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (entry, behind) = split_byte_string(rest).ok_or(early)?;
        let (key, written) = split_byte_string(entry).ok_or("an entry without a key")?;
        // The digest of a value knows of four kinds; the rest of it is bound by the proof.
        let _ = written_text(written).ok_or("a value of an unknown kind")?;
        entries.push((place(key), entry));
        rest = behind;
    }
    Ok((entries, rest))
}
