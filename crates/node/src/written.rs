//! Files that people hand to each other, or that say how far something has come. One is there as a
//! whole or not at all, whenever this is killed, and is on disk when these functions return.
//!
//! The text is first in a draft beside the file. The draft's name is drawn at random, and the draft
//! is created anew. So no other process writes to it, no link that somebody laid there is followed,
//! and a draft that a killed process left, which may be another name of the file itself, is never
//! opened again.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use crate::config::{Finding, Place};

/// Writes a file that is not there, or says this already.
///
/// # Errors
/// [`Finding`], also if the file is there and says something else.
pub fn write_once(path: &Path, text: &str) -> std::result::Result<(), Finding> {
    if std::fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
        // Whoever wrote it may have been killed before it was on disk.
        return sync_folder(path).map_err(|error| failed(&error, path));
    }
    write_new(path, text)
}

/// Writes a file that is not there.
///
/// # Errors
/// [`Finding`], also if the file is there.
pub fn write_new(
    path: &Path,
    text: &(impl AsRef<[u8]> + ?Sized),
) -> std::result::Result<(), Finding> {
    write_with(path, text.as_ref(), |draft| std::fs::hard_link(draft, path)).map_err(|error| {
        match error.kind() {
            ErrorKind::AlreadyExists => Finding {
                what: "there is another file of this name already".to_owned(),
                place: Place::File(path.to_owned()),
                remedy: "name another one, or move this one away: it is never written over"
                    .to_owned(),
            },
            _ => failed(&error, path),
        }
    })
}

/// Writes a file in the place of the one that may be there. A link of that name is replaced, and
/// not followed.
///
/// # Errors
/// [`Finding`]
pub fn replace(
    path: &Path,
    text: &(impl AsRef<[u8]> + ?Sized),
) -> std::result::Result<(), Finding> {
    let draft = draft_of(path).and_then(|draft| {
        write_draft(&draft, text.as_ref())?;
        std::fs::rename(&draft, path).inspect_err(|_| drop(std::fs::remove_file(&draft)))
    });
    draft.and_then(|()| sync_folder(path)).map_err(|error| failed(&error, path))
}

/// Removes a file that may be there.
pub(crate) fn remove(path: &Path) -> std::result::Result<(), Finding> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&error, path)),
        _ => Ok(()),
    }
}

/// Removes all that is in a folder, but for the file of this name.
pub(crate) fn empty_but_for(folder: &Path, name: &str) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false if entry.file_name() == name => {}
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Writes a file that is not there by means of a draft, to which `link` gives its name.
fn write_with(path: &Path, text: &[u8], link: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let draft = draft_of(path)?;
    let placed = write_draft(&draft, text).and_then(|()| match link(&draft) {
        Err(error) if has_no_links(&error) => write_draft(path, text),
        other => other,
    });
    // The draft may not be there: its creation may be what failed.
    let removed = std::fs::remove_file(&draft);
    placed.and(removed)?;
    sync_folder(path)
}

/// Some file systems of memory sticks and shared folders have no hard links. There a file may be
/// left in part by a process that is killed; the next one says that it is there.
fn has_no_links(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}

/// A name beside `path` that nobody knows before.
fn draft_of(path: &Path) -> Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| Error::other(error.to_string()))?;
    let mut draft = path.file_name().ok_or(ErrorKind::InvalidFilename)?.to_owned();
    draft.push(format!(".draft-{:016x}", u64::from_le_bytes(random)));
    Ok(path.with_file_name(draft))
}

/// Creates a file with this text; if that fails halfway, there is none.
fn write_draft(draft: &Path, text: &[u8]) -> Result<()> {
    let mut file = File::create_new(draft)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(std::fs::remove_file(draft)))
}

/// The names in the folder of `path` are on disk, where the file system can do that.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match File::open(folder)?.sync_all() {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

pub(crate) fn failed(error: &impl std::fmt::Display, path: &Path) -> Finding {
    Finding {
        what: format!("it could not be written: {error}"),
        place: Place::File(path.to_owned()),
        remedy: "see to the cause, remove what was made, and try again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_written_once_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        write_once(&file, "one").unwrap();
        write_once(&file, "one").unwrap();
        let refused = write_once(&file, "two").unwrap_err();
        assert!(refused.what.contains("another file of this name"), "{}", refused.what);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
        assert_eq!(names(folder.path()), ["a.toml"]);
    }

    /// A process that was killed after it gave the draft the file's name leaves two names of one
    /// file. A later process with its id, such as the first of a container, once wrote to both.
    #[test]
    fn a_draft_that_was_left_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        let left = folder.path().join(format!("a.toml.draft-{}", std::process::id()));
        std::fs::write(&file, "one").unwrap();
        std::fs::hard_link(&file, &left).unwrap();
        write_once(&file, "two").unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
        // Nor is what a draft's name leads to.
        write_draft(&left, b"two").unwrap_err();
        let (key, link) = (folder.path().join("key"), folder.path().join("link"));
        std::fs::write(&key, "secret").unwrap();
        std::os::unix::fs::symlink(&key, &link).unwrap();
        assert_eq!(write_draft(&link, b"two").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "secret");
    }

    #[test]
    fn where_there_are_no_hard_links_a_file_is_written_all_the_same_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        for kind in [ErrorKind::PermissionDenied, ErrorKind::Unsupported] {
            write_with(&file, b"one", |_| Err(kind.into())).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
            let again = write_with(&file, b"two", |_| Err(kind.into())).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
            assert_eq!(names(folder.path()), ["a.toml"]);
            std::fs::remove_file(&file).unwrap();
        }
        // Any other failure is one.
        write_with(&file, b"one", |_| Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_replaced_file_is_not_what_a_link_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key) = (folder.path().join("a.toml"), folder.path().join("key"));
        std::fs::write(&key, "secret").unwrap();
        std::os::unix::fs::symlink(&key, &file).unwrap();
        for text in ["one", "two"] {
            replace(&file, text).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "secret");
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert_eq!(names(folder.path()), ["key"]);
    }
}
