//! The canonical codec: one encoding a value, little-endian, every length checked against a cap
//! before anything is allocated.
//!
//! Decoding copies no payload: byte strings are slices that share the frame they came in.

use bytes::{Buf as _, Bytes};

/// Why bytes could not be read. Nothing of the input is believed after one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ended inside a value.
    #[error("input ends {missing} bytes early")]
    Truncated {
        /// How many more bytes the value needed.
        missing: usize,
    },
    /// A length or count is above what this field may hold.
    #[error("{field} is {length}, above the cap of {cap}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What the input claims.
        length: usize,
        /// What is allowed.
        cap: usize,
    },
    /// A value outside its type: an unknown kind, an order that is not canonical.
    #[error("invalid {field}")]
    Invalid {
        /// The field.
        field: &'static str,
    },
    /// A version of a format that this program does not read.
    #[error("{format} is of version {found}, and this program reads {supported}")]
    Version {
        /// The format.
        format: &'static str,
        /// The version in the input.
        found: u32,
        /// What is read here.
        supported: u32,
    },
    /// Bytes are left after the value.
    #[error("{count} bytes left over")]
    Trailing {
        /// How many.
        count: usize,
    },
}

/// A value with a canonical encoding.
pub trait Encode {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// The encoding alone.
    fn to_bytes(&self) -> Vec<u8> {
        // Enough for most messages: growing from nothing is several allocations.
        let mut out = Vec::with_capacity(256);
        self.encode(&mut out);
        out
    }
}

/// A value that can be read back from its canonical encoding.
pub trait Decode: Sized {
    /// Reads one value, leaving the reader behind it.
    ///
    /// # Errors
    /// [`DecodeError`] names what is wrong; the reader's position is then of no use.
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError>;

    /// Reads a value that must fill `bytes` exactly.
    ///
    /// # Errors
    /// As [`Decode::decode`], and [`DecodeError::Trailing`].
    fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// A cursor over bytes that are not trusted.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
}

impl Reader {
    /// Starts at the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Everything that is left.
    #[must_use]
    pub fn rest(self) -> Bytes {
        self.bytes
    }

    /// The next `length` bytes, shared with the input.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.bytes.len() {
            return Err(DecodeError::Truncated { missing: length - self.bytes.len() });
        }
        Ok(self.bytes.split_to(length))
    }

    /// The next `N` bytes, copied.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(array) = self.bytes.first_chunk::<N>().copied() else {
            return Err(DecodeError::Truncated { missing: N - self.bytes.len() });
        };
        self.bytes.advance(N);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count or length of four bytes that must not exceed `cap`.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] naming `field`, or [`DecodeError::Truncated`].
    pub fn length(&mut self, field: &'static str, cap: usize) -> Result<usize, DecodeError> {
        let length = self.u32()? as usize;
        if length > cap {
            return Err(DecodeError::TooLong { field, length, cap });
        }
        Ok(length)
    }

    /// A byte string behind its length.
    ///
    /// # Errors
    /// As [`Reader::length`].
    pub fn byte_string(&mut self, field: &'static str, cap: usize) -> Result<Bytes, DecodeError> {
        let length = self.length(field, cap)?;
        self.take(length)
    }

    /// A list behind its count, which is not believed: allocates at first no more bytes than are
    /// left of the input, and then as elements come.
    ///
    /// # Errors
    /// As [`Reader::length`], and what the elements say.
    pub fn list<T: Decode>(
        &mut self,
        field: &'static str,
        cap: usize,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.length(field, cap)?;
        let room = self.remaining() / size_of::<T>().max(1);
        let mut list = Vec::with_capacity(count.min(room));
        for _ in 0..count {
            list.push(T::decode(self)?);
        }
        Ok(list)
    }

    /// An optional value behind a byte that is 0 or 1.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] for any other byte, and what the value says.
    pub fn option<T: Decode>(&mut self, field: &'static str) -> Result<Option<T>, DecodeError> {
        match self.u8()? {
            0 => Ok(None),
            1 => Ok(Some(T::decode(self)?)),
            _ => Err(DecodeError::Invalid { field }),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            count => Err(DecodeError::Trailing { count }),
        }
    }
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

integer!(u8 u16 u32 u64);

/// Appends a byte string behind its length. The lengths this crate writes all fit four bytes; a
/// longer one would be cut off by every reader's cap, so it saturates.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).encode(out);
    out.extend_from_slice(bytes);
}

/// Appends a list behind its count.
pub fn put_list<T: Encode>(out: &mut Vec<u8>, list: &[T]) {
    u32::try_from(list.len()).unwrap_or(u32::MAX).encode(out);
    for value in list {
        value.encode(out);
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }
}
