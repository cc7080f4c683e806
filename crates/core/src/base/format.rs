//! Versions of what is kept on disk. A reader of another version refuses it and names both.

use super::wire::{DecodeError, Reader};

/// A format's tag: its name, and behind it the version in decimal digits.
pub type Tag = [u8; 16];

/// The version that a tag ends with.
#[must_use]
pub const fn version_of(tag: &Tag) -> u32 {
    let (mut version, mut at) = (0_u32, name_bytes(tag));
    while at < tag.len() {
        // At most sixteen digits, of which a format of ours has five: it does not overflow.
        version = version.wrapping_mul(10).wrapping_add((tag[at] - b'0') as u32);
        at += 1;
    }
    version
}

/// How many bytes are before the version.
const fn name_bytes(tag: &Tag) -> usize {
    let mut end = tag.len();
    while end > 0 && tag[end - 1].is_ascii_digit() {
        end -= 1;
    }
    end
}

impl Reader {
    /// Reads this tag.
    ///
    /// # Errors
    /// [`DecodeError::Version`] if another version follows the name, [`DecodeError::Invalid`] if it
    /// is another name.
    pub fn tag(&mut self, expected: &'static Tag) -> Result<(), DecodeError> {
        let found = self.array()?;
        let name = name_bytes(expected);
        if found == *expected {
            return Ok(());
        }
        let format = std::str::from_utf8(&expected[..name]).unwrap_or_default().trim_end();
        if name_bytes(&found) == name && found[..name] == expected[..name] {
            let (found, supported) = (version_of(&found), version_of(expected));
            return Err(DecodeError::Version { format, found, supported });
        }
        Err(DecodeError::Invalid { field: format })
    }

    /// Reads a version of one byte.
    ///
    /// # Errors
    /// [`DecodeError::Version`] if it is another one.
    pub fn version(&mut self, format: &'static str, supported: u8) -> Result<(), DecodeError> {
        match self.u8()? {
            found if found == supported => Ok(()),
            found => Err(DecodeError::Version {
                format,
                found: found.into(),
                supported: supported.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &Tag = b"quorate state 05";

    fn read(bytes: &[u8]) -> Result<(), DecodeError> {
        Reader::new(bytes.to_vec().into()).tag(STATE)
    }

    #[test]
    fn another_version_is_named_with_the_own_one() {
        assert_eq!((version_of(STATE), version_of(b"quorate kv 00013")), (5, 13));
        assert_eq!(read(STATE), Ok(()));
        let later = read(b"quorate state 12").unwrap_err();
        assert_eq!(later.to_string(), "quorate state is of version 12, and this program reads 5");
        let other = read(b"quorate beside05").unwrap_err();
        assert_eq!(other.to_string(), "invalid quorate state");
        assert!(matches!(read(b"quorate"), Err(DecodeError::Truncated { .. })));
        let mut reader = Reader::new(vec![3].into());
        let earlier = reader.version("safety record", 4).unwrap_err();
        assert_eq!(earlier.to_string(), "safety record is of version 3, and this program reads 4");
    }
}
