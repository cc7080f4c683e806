//! Atomic replacement of small files: after a crash the file has the old content or the new, never
//! a part.
//!
//! The steps are: write a temporary file, sync it, rename it, sync the folder. The temporary file
//! is `<name>.tmp`; one left by a crash is overwritten.

use crate::disk::{Disk, FileDisk};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Writes `bytes` as the file at `path` with `mode` (Unix permission bits; 0o600 for keys). The
/// folder is created if missing.
///
/// # Errors
/// `InvalidInput` for a path without a file name, or the system's error. The old content is then
/// still there. If the sync of the folder failed, the new one may be there instead.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let no_name =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    replace(&FileDisk::open(folder)?.with_mode(mode), name, bytes)
}

/// Writes `bytes` as the file `name` of `disk`.
///
/// # Errors
/// As [`write()`].
pub fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    match disk.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary, 0)?;
    file.write_at(0, bytes)?;
    file.sync_data()?;
    disk.rename(&temporary, name)?;
    disk.sync_dir()
}

/// Reads the file at `path`, if it has at most `limit_bytes`.
///
/// # Errors
/// `NotFound`, `FileTooLarge`, or the system's error.
pub fn read(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        let text = format!("{} has more than {limit_bytes} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Reads the file `name` of `disk`, if it has at most `limit_bytes`.
///
/// # Errors
/// As [`read()`].
pub fn read_from(disk: &dyn Disk, name: &str, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(name)?;
    let size = file.size()?;
    if size > limit_bytes {
        let text = format!("{name} has more than {limit_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
