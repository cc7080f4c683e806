//! Fuzz targets for private items of this crate. `crates/fuzz` lists them with all others.

use bytes::Bytes;
use quorate_core::Digest;

use super::framing::{FrameReader, FrameWriter};
use super::hello::{Hello, MAX_HELLO_BYTES, Met, Role, Versions};

pub use super::udp::fuzz::{channel, door, exchange};

/// Decisions drawn from an input; all are zero once it is used up.
pub(super) struct Draw<'a>(pub(super) &'a [u8]);

impl Draw<'_> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// A number up to 65,535.
    pub(super) fn number(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

/// Frames do not depend on the pieces in which they arrive, and none is longer than the limit.
/// Written frames are the bytes that they were read from.
pub fn frames(input: &[u8]) {
    const LONGEST: usize = 3000;
    let mut draw = Draw(input);
    let pieces: Vec<usize> = (0..4).map(|_| usize::from(draw.byte()) + 1).collect();
    let bytes = draw.0;
    let read = |pieces: &[usize]| {
        let (mut reader, mut frames, mut rest) = (FrameReader::new(LONGEST), Vec::new(), bytes);
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            reader.extend(now);
            rest = later;
            loop {
                match reader.next() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => return (frames, true),
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        (frames, false)
    };
    let (frames, refused) = read(&[usize::MAX]);
    assert_eq!((&frames, refused), (&read(&pieces).0, read(&pieces).1), "pieces {pieces:?}");
    assert!(frames.iter().all(|frame| frame.len() <= LONGEST));
    let (mut writer, mut written) = (FrameWriter::default(), Vec::new());
    for (frame, piece) in frames.into_iter().zip(pieces.iter().cycle()) {
        writer.push(frame);
        while writer.is_full() || (written.len() % 3 == 0 && !writer.is_empty()) {
            drain(&mut writer, *piece, &mut written);
        }
    }
    while !writer.is_empty() {
        drain(&mut writer, 700, &mut written);
    }
    assert_eq!(bytes.get(..written.len()), Some(&written[..]));
}

/// Takes at most `count` bytes, as a socket does.
fn drain(writer: &mut FrameWriter, count: usize, out: &mut Vec<u8>) {
    let (stage, large) = writer.parts();
    let before = out.len();
    out.extend(stage.iter().chain(large.iter()).take(count));
    let taken = out.len() - before;
    writer.advance(taken);
}

/// An accepted hello is for this chain, names a common version, and is the only encoding of its
/// content, but for what a later program adds.
pub fn hello(input: &[u8]) {
    let chain = Digest([7; 32]);
    let client = Hello { versions: Versions::PROGRAM, chain, role: Role::Client };
    // Otherwise hardly any input passes the first fields.
    let mut bytes = input.to_vec();
    if let Some((b'!', rest)) = input.split_first() {
        bytes = client.encode().to_vec();
        for (at, byte) in rest.iter().enumerate() {
            match bytes.get_mut(at) {
                Some(place) => *place ^= byte,
                None => bytes.push(*byte),
            }
        }
    }
    if let Ok(Met { role, version }) = client.meet(Bytes::from(bytes.clone())) {
        assert_eq!(version, Versions::PROGRAM.newest());
        let newest = u16::from_le_bytes([bytes[8], bytes[9]]);
        let oldest = u16::from_le_bytes([bytes[10], bytes[11]]);
        let versions = Versions::new(oldest, newest).expect("a range");
        let encoded = Hello { versions, chain, role }.encode();
        assert!(bytes.starts_with(&encoded) && encoded.len() <= MAX_HELLO_BYTES);
        // Only a later program may say more.
        assert!(bytes.len() == encoded.len() || newest > version);
    }
}
