//! One session: where it stands, what it has answered, what waits.

use std::sync::Arc;

use bytes::Bytes;

use super::answers::Answers;
use super::limits::Limits;
use crate::base::crypto::PublicKey;
use crate::base::types::{Digest, Height, Sequence, SessionId};
use crate::base::wire::{Decode, DecodeError, Encode};
use crate::ledger::frame::{Frame, FrameId, SharedFrame};

/// Bytes of a frame's encoding that are its signature.
const SIGNATURE_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) key: PublicKey,
    pub(super) incarnation: u64,
    /// The number of the next command to execute.
    pub(super) next: Sequence,
    /// The last block that opened it, executed one of its commands, or let a frame wait.
    pub(super) active: Height,
    pub(super) answers: Answers,
    pub(super) waiting: Window,
}

impl Session {
    pub(super) fn new(id: SessionId, key: PublicKey, incarnation: u64, active: Height) -> Self {
        let (answers, waiting) = (Answers::default(), Window::default());
        Self { id, key, incarnation, next: Sequence(1), active, answers, waiting }
    }

    /// Its key in the table's Merkle map.
    pub(super) fn place(id: SessionId) -> quorate_merkle::Hash {
        Digest::of("quorate session place", &id.0.to_le_bytes()).0
    }
}

impl quorate_merkle::Leaf for Session {
    fn digest(&self) -> quorate_merkle::Hash {
        let mut bytes = Vec::with_capacity(128 + 32 * self.waiting.frames.len());
        self.id.encode(&mut bytes);
        self.key.encode(&mut bytes);
        self.incarnation.encode(&mut bytes);
        self.next.encode(&mut bytes);
        self.active.encode(&mut bytes);
        (self.answers.len() as u64).encode(&mut bytes);
        self.answers.head().encode(&mut bytes);
        for frame in &self.waiting.frames {
            frame.id().encode(&mut bytes);
        }
        Digest::of("quorate session", &bytes).0
    }
}

/// The frames of a session that wait for the numbers before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// In order of first number, then of id.
    frames: Vec<SharedFrame>,
    bytes: usize,
}

impl Window {
    pub(super) fn frames(&self) -> &[SharedFrame] {
        &self.frames
    }

    pub(super) fn contains(&self, frame: &Frame) -> bool {
        self.position(frame).is_ok()
    }

    fn position(&self, frame: &Frame) -> Result<usize, usize> {
        self.frames.binary_search_by_key(&order(frame), |other| order(other))
    }

    /// Lets `frame` wait. `None` if the window has no room for it; `Some(false)` if it was there.
    pub(super) fn insert(
        &mut self,
        frame: &Frame,
        next: Sequence,
        limits: &Limits,
    ) -> Option<bool> {
        let Err(at) = self.position(frame) else { return Some(false) };
        let bytes = self.bytes + frame.encoded_bytes().len();
        let ahead = frame.first().0.saturating_sub(next.0);
        let full = self.frames.len() >= limits.window_frames as usize
            || bytes > limits.window_bytes as usize
            || ahead >= limits.window_commands;
        if full {
            return None;
        }
        let frame = without_signature(unsigned_bytes(frame)).ok()?;
        self.frames.insert(at, Arc::new(frame));
        self.bytes = bytes;
        Some(true)
    }

    /// Lets go of the frames of which this holds.
    pub(super) fn drop_where(&mut self, is_dropped: impl Fn(&Frame) -> bool) {
        self.frames.retain(|frame| !is_dropped(frame));
        self.bytes = self.frames.iter().map(|frame| frame.encoded_bytes().len()).sum();
    }

    /// Takes out the first frame, if it begins at `next` or before.
    pub(super) fn next_ready(&mut self, next: Sequence) -> Option<SharedFrame> {
        self.frames.first().filter(|frame| frame.first() <= next)?;
        let frame = self.frames.remove(0);
        self.bytes -= frame.encoded_bytes().len();
        Some(frame)
    }
}

fn order(frame: &Frame) -> (Sequence, FrameId) {
    (frame.first(), frame.id())
}

/// A frame's encoding up to its signature.
pub(super) fn unsigned_bytes(frame: &Frame) -> &[u8] {
    let encoded = frame.encoded_bytes();
    &encoded[..encoded.len() - SIGNATURE_BYTES]
}

/// A frame in a buffer of its own, its signature zeroed. Replicas may have one frame under
/// different signatures, which must not show in replicated state; and a frame that waits must not
/// hold on to the buffer it arrived in.
pub(super) fn without_signature(unsigned: &[u8]) -> Result<Frame, DecodeError> {
    let mut encoded = Vec::with_capacity(unsigned.len() + SIGNATURE_BYTES);
    encoded.extend_from_slice(unsigned);
    encoded.resize(unsigned.len() + SIGNATURE_BYTES, 0);
    Frame::from_bytes(Bytes::from(encoded))
}
