//! Frames on a stream: a length of four bytes (little-endian), then that many bytes. Length 0 is a
//! ping.

use bytes::{Buf as _, Bytes, BytesMut};
use quorate_core::planted;

/// Frames below this length are copied out of the receive buffer. A slice would keep the whole
/// buffer alive as long as the frame, so small frames could hold a multiple of their size.
const COPY_BELOW_BYTES: usize = 2048;
/// Payloads below this length are copied one behind the other into one write.
const STAGE_BELOW_BYTES: usize = 16 << 10;
/// The bytes that are staged before a write.
pub(super) const STAGE_BYTES: usize = 128 << 10;

const HEADER: usize = 4;

/// The other side announced a frame longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oversized;

/// Cuts a byte stream into frames. Its memory grows with the bytes that arrived, never with an
/// announced length.
pub(super) struct FrameReader {
    buffer: BytesMut,
    max_bytes: usize,
}

impl FrameReader {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), max_bytes }
    }

    pub(super) fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The bytes held of a frame that has not arrived completely.
    pub(super) fn held(&self) -> usize {
        if self.buffer.is_empty() { 0 } else { self.buffer.capacity() }
    }

    /// The length, prefix included, of the frame whose beginning has arrived.
    pub(super) fn announced(&self) -> Option<usize> {
        let header = self.buffer.first_chunk::<HEADER>()?;
        Some((u32::from_le_bytes(*header) as usize).saturating_add(HEADER))
    }

    /// The next whole frame, if there is one. A ping is an empty frame.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Oversized> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header) as usize;
        if planted!("frame-limit-one-short", length >= self.max_bytes, length > self.max_bytes) {
            return Err(Oversized);
        }
        let Some(payload) = self.buffer.get(HEADER..HEADER + length) else { return Ok(None) };
        if length < COPY_BELOW_BYTES {
            let frame = Bytes::copy_from_slice(payload);
            self.buffer.advance(HEADER + length);
            return Ok(Some(frame));
        }
        self.buffer.advance(HEADER);
        let frame = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // The empty rest would keep the whole buffer alive until the next frame.
            self.buffer = BytesMut::new();
        }
        Ok(Some(frame))
    }
}

/// Joins frames into a byte stream. Small frames are copied one behind the other; a large one
/// follows without a copy.
#[derive(Default)]
pub(super) struct FrameWriter {
    stage: Vec<u8>,
    /// The payload whose header is the end of the stage.
    large: Bytes,
    /// The bytes of the stage that are written.
    written: usize,
}

impl FrameWriter {
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.stage.len() && self.large.is_empty()
    }

    /// Whether a write should come before the next frame is added.
    pub(super) fn is_full(&self) -> bool {
        self.stage.len() >= STAGE_BYTES || !self.large.is_empty()
    }

    /// Adds a frame. The writer must not be full.
    pub(super) fn push(&mut self, payload: Bytes) {
        // No reader accepts a longer one: every reader's limit is below 4 GiB.
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.stage.extend_from_slice(&length.to_le_bytes());
        if payload.len() < STAGE_BELOW_BYTES {
            self.stage.extend_from_slice(&payload);
        } else {
            self.large = payload;
        }
    }

    /// The bytes to write next: the rest of the stage, and the payload behind it.
    pub(super) fn parts(&self) -> (&[u8], &Bytes) {
        (self.stage.get(self.written..).unwrap_or_default(), &self.large)
    }

    /// Notes that `count` bytes of [`FrameWriter::parts`] were written.
    pub(super) fn advance(&mut self, count: usize) {
        let staged = count.min(self.stage.len() - self.written);
        self.written += staged;
        self.large.advance(count - staged);
        if self.large.is_empty() {
            // An empty rest would keep the whole message alive until the next large one.
            self.large = Bytes::new();
        }
        if self.is_empty() {
            self.stage.clear();
            self.written = 0;
        }
    }
}
