//! Files that hold one secret key each: a replica's consensus key, its transport key, a client's,
//! or the key that others encrypt a member's share to.
//!
//! A key file is one line of text: the format's name and version, the scheme's name, and 32 bytes.
//! [`ConsensusKey::from_bytes`] gives their meaning for each scheme.
//!
//! ```text
//! quorate-secret-key/1 ed25519 9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60
//! ```
//!
//! The reader names the expected scheme: Ed25519 for clients and transport, the committee's scheme
//! for a replica's consensus key, `ristretto255` for a [`DecryptionKey`]. A file of another scheme
//! is refused, and the error names both.
//!
//! A file is created as a whole, for its owner alone (mode 0600), and never replaces another. A
//! file that others can read is refused, since they may know its key already.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::bls::threshold::generation::DecryptionKey;
use crate::consensus_key::ConsensusKey;
use crate::ed25519::SecretKey;
use crate::scheme_name::SchemeName;
use quorate_core::planted;

const FORMAT: &str = "quorate-secret-key/1";
/// The name of a [`DecryptionKey`]'s scheme.
const ENCRYPTION: &str = "ristretto255";
/// The limit for reading; every key file is shorter.
const MAX_BYTES: u64 = 256;

/// The reason why a key file could not be read or written. It never includes the file's content.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file could not be opened, read or written.
    #[error("key file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of that name exists. A key is never overwritten: it may be the only copy.
    #[error("key file {}: exists already; move it away first if its key is not needed", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Other users can read or write the file.
    #[error(
        "key file {p}: mode {mode:04o} lets others at it; if nobody has read it, run: chmod 600 {p}; \
         otherwise make a new key",
        p = path.display()
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The content is not a key.
    #[error("key file {}, line {line}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem, and the expected content.
        problem: String,
    },
    /// The file holds a key of another scheme.
    #[error(
        "key file {}: holds a key of the scheme {found} where one of {expected} is expected; \
         name the file of that key, or make one", path.display()
    )]
    Scheme {
        /// The file.
        path: PathBuf,
        /// The scheme of the key in the file.
        found: SchemeName,
        /// The name of the expected scheme.
        expected: &'static str,
    },
}

/// Reads the Ed25519 key of a client or of the transport from the file at `path`. Links are
/// followed; the file itself must be a regular one.
///
/// # Errors
/// [`KeyFileError`], also if the mode grants more than 0600.
pub fn read(path: &Path) -> Result<SecretKey, KeyFileError> {
    read_bytes(path, SchemeName::Ed25519.as_str()).map(|seed| SecretKey::from_seed(&seed))
}

/// As [`read`], for the key that a member's share is encrypted to.
///
/// # Errors
/// [`KeyFileError`], also if the mode grants more than 0600.
pub fn read_decryption(path: &Path) -> Result<DecryptionKey, KeyFileError> {
    read_bytes(path, ENCRYPTION).map(|seed| DecryptionKey::from_seed(&seed))
}

/// As [`read`], for a replica's key of its committee's scheme.
///
/// # Errors
/// [`KeyFileError`], also if the mode grants more than 0600.
pub fn read_consensus(path: &Path, scheme: SchemeName) -> Result<ConsensusKey, KeyFileError> {
    let bytes = read_bytes(path, scheme.as_str())?;
    ConsensusKey::from_bytes(scheme, &bytes).ok_or_else(|| KeyFileError::Malformed {
        path: path.to_owned(),
        line: 1,
        problem: format!("the key is 0 or too large: the scheme {scheme} has none such"),
    })
}

fn read_bytes(
    path: &Path,
    scheme: &'static str,
) -> Result<Zeroizing<[u8; SchemeName::SECRET_KEY_BYTES]>, KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
    // Not blocking: a pipe in place of the file must not block the start.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & !0o600 != 0 {
        return Err(KeyFileError::Mode { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize));
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    parse(&bytes, scheme).map_err(|fault| match fault {
        Fault::Scheme(found) => {
            KeyFileError::Scheme { path: path.to_owned(), found, expected: scheme }
        }
        Fault::Malformed(line, problem) => {
            KeyFileError::Malformed { path: path.to_owned(), line, problem }
        }
    })
}

/// Writes `key` to a new file at `path` with mode 0600. When this returns, the file is on disk. If
/// the machine stops earlier, there is no file of that name.
///
/// # Errors
/// [`KeyFileError::Exists`] if there is a file at `path`, [`KeyFileError::Io`] for other errors.
pub fn write(path: &Path, key: &SecretKey) -> Result<(), KeyFileError> {
    write_line(path, &format(SchemeName::Ed25519.as_str(), key.seed()))
}

/// As [`write()`], for the key that a member's share is encrypted to.
///
/// # Errors
/// [`KeyFileError::Exists`] if there is a file at `path`, [`KeyFileError::Io`] for other errors.
pub fn write_decryption(path: &Path, key: &DecryptionKey) -> Result<(), KeyFileError> {
    write_line(path, &format(ENCRYPTION, key.seed()))
}

/// As [`write()`], for a replica's key of any scheme.
///
/// # Errors
/// [`KeyFileError::Exists`] if there is a file at `path`, [`KeyFileError::Io`] for other errors.
pub fn write_consensus(path: &Path, key: &ConsensusKey) -> Result<(), KeyFileError> {
    write_line(path, &format(key.scheme().as_str(), &key.to_bytes()))
}

fn write_line(path: &Path, line: &str) -> Result<(), KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let mut draft_name = name.to_owned();
    draft_name.push(format!(".draft-{}", std::process::id()));
    let draft = folder.join(draft_name);
    let result = write_draft(&draft, line).and_then(|()| std::fs::hard_link(&draft, path));
    // The draft may not exist: its creation may be what failed.
    let removed = std::fs::remove_file(&draft);
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeyFileError::Exists { path: path.to_owned() });
        }
        other => other.and(removed).map_err(failed)?,
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn write_draft(draft: &Path, line: &str) -> io::Result<()> {
    // An interrupted process with the same id may have left one.
    match std::fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

fn format(scheme: &str, key: &[u8; SchemeName::SECRET_KEY_BYTES]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = Zeroizing::new(String::with_capacity(MAX_BYTES as usize));
    for word in [FORMAT, " ", scheme, " "] {
        line.push_str(word);
    }
    for byte in key {
        line.push(char::from(DIGITS[usize::from(byte >> 4)]));
        line.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    line.push('\n');
    line
}

/// The fault in a file's content. It never includes any of the content.
enum Fault {
    Scheme(SchemeName),
    /// The line, and the fault in it.
    Malformed(usize, String),
}

fn parse(
    bytes: &[u8],
    scheme: &str,
) -> Result<Zeroizing<[u8; SchemeName::SECRET_KEY_BYTES]>, Fault> {
    let wrong = |problem: &str| Fault::Malformed(1, problem.to_owned());
    let (line, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let no_header = || wrong(&format!("does not begin with `{FORMAT} {scheme} `"));
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let format = words.next().unwrap_or_default();
    if planted!(
        "key-file-of-any-version",
        !format.starts_with(b"quorate-secret-key/"),
        format != FORMAT.as_bytes(),
    ) {
        return Err(no_header());
    }
    let name = words.next().and_then(|name| std::str::from_utf8(name).ok());
    if name == Some(ENCRYPTION) && scheme != ENCRYPTION {
        let owner = "a key that others encrypt shares to";
        return Err(wrong(&format!(
            "holds a key of {ENCRYPTION}, {owner}, where one of {scheme} is expected"
        )));
    }
    if name != Some(scheme) {
        let found = name.and_then(|name| name.parse().ok());
        return Err(found.map_or_else(no_header, Fault::Scheme));
    }
    let (pairs, odd) = words.next().ok_or_else(no_header)?.as_chunks::<2>();
    if pairs.len() != SchemeName::SECRET_KEY_BYTES || !odd.is_empty() {
        return Err(wrong("the key is not 64 hexadecimal digits"));
    }
    let mut key = Zeroizing::new([0; SchemeName::SECRET_KEY_BYTES]);
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        let digit = |character: &u8| {
            let digit = char::from(*character).to_digit(16);
            digit.ok_or_else(|| wrong("the key has a character that is no hexadecimal digit"))
        };
        *byte = (digit(high)? * 16 + digit(low)?) as u8;
    }
    if !rest.is_empty() {
        return Err(Fault::Malformed(2, "nothing may follow the key".to_owned()));
    }
    Ok(key)
}
