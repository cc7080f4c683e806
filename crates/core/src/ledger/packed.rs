//! Byte strings one after the other, each behind its length (u32): how a frame carries commands
//! and an outcome their replies.

use bytes::Bytes;

use crate::base::wire::{DecodeError, Encode, Reader, put_bytes};

/// Most commands in one frame.
pub const MAX_COMMANDS: usize = 4096;
/// Most bytes of commands (their length prefixes of four bytes included) in one frame.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// Packed byte strings, walked once when they were made: the count agrees with the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    body: Bytes,
    count: usize,
}

/// Commands that do not fit in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {MAX_COMMANDS} commands or {MAX_BODY_BYTES} bytes, or no command: split the batch"
)]
pub struct DoesNotFit;

impl Packed {
    /// Packs the commands of one batch.
    ///
    /// # Errors
    /// [`DoesNotFit`] if there is none, or they are more than one frame may hold.
    pub fn commands<T: AsRef<[u8]>>(
        commands: impl IntoIterator<Item = T>,
    ) -> Result<Self, DoesNotFit> {
        let mut body = Vec::new();
        let mut count = 0;
        for command in commands {
            count += 1;
            let room = MAX_BODY_BYTES.saturating_sub(body.len());
            if count > MAX_COMMANDS || command.as_ref().len().saturating_add(4) > room {
                return Err(DoesNotFit);
            }
            put_bytes(&mut body, command.as_ref());
        }
        if count == 0 {
            return Err(DoesNotFit);
        }
        Ok(Self { body: body.into(), count })
    }

    /// Takes `body` for exactly `count` packed byte strings; `None` if it is not that.
    #[must_use]
    pub fn parse(body: Bytes, count: usize) -> Option<Self> {
        let mut rest: &[u8] = &body;
        for _ in 0..count {
            rest = split_first(rest)?.1;
        }
        rest.is_empty().then_some(Self { body, count })
    }

    /// Reads what [`encode`](Encode::encode) wrote: at least one byte string, at most `most`, and
    /// at most `most_bytes` of them.
    ///
    /// # Errors
    /// [`DecodeError`] naming the field.
    pub(super) fn decode(
        reader: &mut Reader,
        field: &'static str,
        most: usize,
        most_bytes: usize,
    ) -> Result<Self, DecodeError> {
        let count = reader.u32()? as usize;
        let body = reader.byte_string(field, most_bytes)?;
        let fits = (1..=most).contains(&count);
        fits.then(|| Self::parse(body, count)).flatten().ok_or(DecodeError::Invalid { field })
    }

    /// How many byte strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoding.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The byte strings, each shared with the body.
    pub fn iter(&self) -> impl Iterator<Item = Bytes> + '_ {
        let mut rest = self.body.clone();
        std::iter::from_fn(move || {
            let length = split_first(&rest)?.0.len();
            let string = rest.slice(4..4 + length);
            rest = rest.slice(4 + length..);
            Some(string)
        })
    }

    /// The same in bytes of its own: it holds on to nothing that it was received with.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { body: Bytes::copy_from_slice(&self.body), count: self.count }
    }

    /// Splits the first `count` off, sharing the bytes. All of them if there are fewer.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        if count >= self.count {
            return std::mem::take(self);
        }
        let mut rest: &[u8] = &self.body;
        for _ in 0..count {
            match split_first(rest) {
                Some((_, behind)) => rest = behind,
                None => break,
            }
        }
        let body = self.body.split_to(self.body.len() - rest.len());
        self.count -= count;
        Self { body, count }
    }
}

/// The number of byte strings, and they.
impl Encode for Packed {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.count as u32).encode(out);
        put_bytes(out, &self.body);
    }
}

/// The first byte string, and what is behind it.
fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
