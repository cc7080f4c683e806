//! What nodes send each other: frames over the mesh of `quorate-transport`.
//!
//! ```text
//! frame   0 ‖ messages of the protocol, each behind its length u32: all that a turn had for a peer
//!         1 ‖ number u64            which vertices did you accept before this number?
//!         2 ‖ first u64 ‖ list      these, from `first` on
//!         3 ‖ list                  send me these vertices
//!         4 ‖ vertices, each behind its length u32
//! ```

use bytes::Bytes;
use quorate_core::base::wire::{DecodeError, Encode, Reader, put_bytes, put_list};
use quorate_core::protocols::snow::avalanche::VertexId;

/// Most vertices that a page names.
pub const PAGE: usize = 2048;
/// Most vertices asked for at once.
pub const FETCH: usize = 64;
/// A batch of messages is sent when it has so many bytes.
pub const BATCH_BYTES: usize = 1 << 20;
/// Most bytes of fetched vertices in a frame, but for one vertex.
pub const FETCHED_BYTES: usize = 4 << 20;
/// Most messages in a frame.
const MAX_MESSAGES: usize = 65_536;
/// Most bytes of one message.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// A frame of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Messages of the protocol, encoded.
    Messages(Vec<Bytes>),
    /// Which vertices were accepted before this number?
    AskPage(u64),
    /// These, the first of them with this number.
    Page(u64, Vec<VertexId>),
    /// Vertices that are wanted.
    Fetch(Vec<VertexId>),
    /// Vertices, encoded.
    Fetched(Vec<Bytes>),
}

/// Messages for one peer, gathered.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Adds a message.
    pub fn add(&mut self, message: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.push(0);
        }
        put_bytes(&mut self.bytes, message);
    }

    /// Whether it should leave now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES
    }

    /// The frame, if there is anything in it.
    #[must_use]
    pub fn take(&mut self) -> Option<Bytes> {
        let bytes = std::mem::take(&mut self.bytes);
        (!bytes.is_empty()).then(|| Bytes::from(bytes))
    }
}

impl Encode for Frame {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Messages(messages) => {
                out.push(0);
                messages.iter().for_each(|message| put_bytes(out, message));
            }
            Self::AskPage(before) => {
                out.push(1);
                before.encode(out);
            }
            Self::Page(first, vertices) => {
                out.push(2);
                first.encode(out);
                put_list(out, vertices);
            }
            Self::Fetch(vertices) => {
                out.push(3);
                put_list(out, vertices);
            }
            Self::Fetched(vertices) => {
                out.push(4);
                vertices.iter().for_each(|vertex| put_bytes(out, vertex));
            }
        }
    }
}

fn strings(reader: &mut Reader, cap: usize) -> Result<Vec<Bytes>, DecodeError> {
    let mut strings = Vec::new();
    while reader.remaining() > 0 {
        if strings.len() == cap {
            let length = cap + 1;
            return Err(DecodeError::TooLong { field: "messages", length, cap });
        }
        strings.push(reader.byte_string("message", MAX_MESSAGE_BYTES)?);
    }
    Ok(strings)
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn read(frame: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        let read = match reader.u8()? {
            0 => Self::Messages(strings(&mut reader, MAX_MESSAGES)?),
            1 => Self::AskPage(reader.u64()?),
            2 => Self::Page(reader.u64()?, reader.list("page", PAGE)?),
            3 => Self::Fetch(reader.list("vertices", FETCH)?),
            4 => Self::Fetched(strings(&mut reader, FETCH)?),
            _ => return Err(DecodeError::Invalid { field: "frame" }),
        };
        reader.finish()?;
        Ok(read)
    }
}
