//! Files that hold one secret key each: a replica's consensus key, its transport key, a client's.
//!
//! One line of text, the format's name and version first:
//!
//! ```text
//! quorate-secret-key/1 ed25519 9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60
//! ```
//!
//! A file is created whole and for its owner alone (mode 0600), never over another; one that
//! others could read is refused, since its key may already be known to them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::ed25519::SecretKey;

const HEADER: &str = "quorate-secret-key/1 ed25519 ";
/// More than a key file ever holds, so that no more than this is read.
const MAX_BYTES: u64 = 256;

/// Why a key file could not be read or written. Never holds what the file contains.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file could not be opened, read or written.
    #[error("key file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a file of that name. A key is not written over: it may be the only copy.
    #[error("key file {}: exists already; move it away first if its key is not needed", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Others than the owner may read or write the file.
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
        /// What is wrong, and what is expected.
        problem: &'static str,
    },
}

/// Reads the key in the file at `path`. Links are followed; the file itself must be a regular one.
///
/// # Errors
/// [`KeyFileError`], also if the mode is wider than 0600.
pub fn read(path: &Path) -> Result<SecretKey, KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
    // Not blocking: a pipe in the file's place must not hang the start.
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
    parse(&bytes)
        .map(|seed| SecretKey::from_seed(&seed))
        .map_err(|(line, problem)| KeyFileError::Malformed { path: path.to_owned(), line, problem })
}

/// Writes `key` to a new file at `path` with mode 0600. When this returns the file is on disk;
/// if the machine stops in between there is no file of that name.
///
/// # Errors
/// [`KeyFileError::Exists`] if there is a file at `path`, [`KeyFileError::Io`] for the rest.
pub fn write(path: &Path, key: &SecretKey) -> Result<(), KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let mut draft_name = name.to_owned();
    draft_name.push(format!(".draft-{}", std::process::id()));
    let draft = folder.join(draft_name);
    let result = write_draft(&draft, key).and_then(|()| std::fs::hard_link(&draft, path));
    // The draft may be missing because creating it is what failed.
    let removed = std::fs::remove_file(&draft);
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeyFileError::Exists { path: path.to_owned() });
        }
        other => other.and(removed).map_err(failed)?,
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn write_draft(draft: &Path, key: &SecretKey) -> io::Result<()> {
    // What a process of the same number left when it was stopped half-way.
    match std::fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(format(key).as_bytes())?;
    file.sync_all()
}

fn format(key: &SecretKey) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = Zeroizing::new(String::with_capacity(HEADER.len() + 65));
    line.push_str(HEADER);
    for byte in key.seed() {
        line.push(char::from(DIGITS[usize::from(byte >> 4)]));
        line.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    line.push('\n');
    line
}

fn parse(bytes: &[u8]) -> Result<Zeroizing<[u8; 32]>, (usize, &'static str)> {
    let (line, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let digits = line
        .strip_prefix(HEADER.as_bytes())
        .ok_or((1, "does not begin with `quorate-secret-key/1 ed25519 `"))?;
    let (pairs, odd) = digits.as_chunks::<2>();
    if pairs.len() != 32 || !odd.is_empty() {
        return Err((1, "the key is not 64 hexadecimal digits"));
    }
    let mut seed = Zeroizing::new([0; 32]);
    for (byte, [high, low]) in seed.iter_mut().zip(pairs) {
        let digit = |character: &u8| {
            let digit = char::from(*character).to_digit(16);
            digit.ok_or((1, "the key has a character that is no hexadecimal digit"))
        };
        *byte = (digit(high)? * 16 + digit(low)?) as u8;
    }
    if !rest.is_empty() {
        return Err((2, "nothing may follow the key"));
    }
    Ok(seed)
}
