//! Why a store cannot be used: what, where, what to do, and the exit code.

use std::path::{Path, PathBuf};

use quorate_node::config::{Finding, Place};
use quorate_store::lazy_trie::{Damage, Error};
use quorate_store::lock::LockError;
use quorate_store::wal;

use super::HEAD;
use crate::failure::{Exit, Failure};

/// For what is damaged in the space.
const SAVE: &str = "restore the folder from a copy, or save what can be read into a new store: quorate store dump \
                    FOLDER -o json --to FILE, then quorate store put NEW_FOLDER --create --from FILE";
/// For what is damaged in the log.
const GIVE_UP: &str =
    "restore the folder from a copy, or go on from before the damage with --best-effort";
const WRONG_FOLDER: &str = "name the folder of a store of this version, with store.head in it";

fn finding(what: impl ToString, place: &Path, remedy: &str) -> Finding {
    Finding {
        what: what.to_string(),
        place: Place::File(place.to_owned()),
        remedy: remedy.to_owned(),
    }
}

/// There is no store in a folder.
pub fn no_store(folder: &Path) -> Failure {
    let what = match std::fs::metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such folder".to_owned()
        }
        Err(error) => format!("the folder cannot be looked into: {error}"),
        Ok(metadata) if !metadata.is_dir() => "this is no folder".to_owned(),
        Ok(_) => format!("this is no folder of a store: it has no file {HEAD}"),
    };
    Failure::new(Exit::Usage, finding(what, folder, WRONG_FOLDER))
}

/// An error of the store in `folder`.
pub fn of(error: &Error, folder: &Path) -> Failure {
    let at = |file: &str| place(folder, file);
    let (exit, finding) = match error {
        Error::Lock(LockError::Held { pid, .. }) => {
            let holder = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            let what = format!("the store is in use by {holder}");
            (Exit::Locked, finding(what, folder, "stop that process, or wait for its end"))
        }
        Error::Lock(LockError::Io { source, .. }) => {
            let what = format!("the folder cannot be locked: {source}");
            let remedy =
                "make it writable for this user: opening a store writes to its lock and its log";
            (Exit::Failed, finding(what, folder, remedy))
        }
        Error::Io { file, action, source } => {
            let what = format!("cannot {action} {file}: {source}");
            let remedy = "see to the permissions of the folder, its free space and the disk";
            (Exit::Failed, finding(what, &at(file), remedy))
        }
        Error::Log(error) => of_log(error, folder),
        Error::Damaged { file, offset, what } => {
            let remedy = if at(file) == folder { GIVE_UP } else { SAVE };
            (
                Exit::Corrupt,
                finding(format!("damaged at offset {offset}: {what}"), &at(file), remedy),
            )
        }
        Error::Missing { file, .. } => {
            let remedy =
                if at(file) == folder { GIVE_UP } else { "restore the folder from a copy" };
            (Exit::Corrupt, finding(format!("{file} is missing"), &at(file), remedy))
        }
        Error::Foreign { file, what } => {
            let what = format!("this is no file of this store: {what}");
            (Exit::Usage, finding(what, &at(file), WRONG_FOLDER))
        }
        Error::Version { file, found, supported } => {
            let what = format!("format version {found}, this program reads {supported}");
            (Exit::Usage, finding(what, &at(file), "use the program version that wrote it"))
        }
        Error::TooLarge { .. } => {
            (Exit::Usage, finding(error, folder, "keep it within the limit, or cut it into items"))
        }
        Error::Options { field: "value_digest", .. } if is_replica_state(folder) => {
            let what =
                "this is the state of a replica, whose digests are the key-value application's";
            let remedy = "read it through the cluster (quorate gateway, quorate get --verified), or \
                          start the replica with storage.state = \"disk\"; docs/store.md, State of \
                          a replica";
            (Exit::Usage, finding(what, folder, remedy))
        }
        Error::Options { reason, .. } => {
            let remedy = "open it as what it is, or name another folder";
            (Exit::Usage, finding(reason, folder, remedy))
        }
        Error::NotAuthenticated => {
            let what = "the store is not authenticated: it has no root and no proofs";
            let remedy = "copy it into one that is: quorate store dump FOLDER -o json --to FILE, then \
                          quorate store put NEW_FOLDER --create --authenticated --from FILE";
            (Exit::Usage, finding(what, folder, remedy))
        }
        other => (Exit::Failed, finding(other, folder, "see docs/store.md")),
    };
    Failure::new(exit, finding)
}

/// Whether the folder is below `state` in a replica's data folder.
fn is_replica_state(folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.ancestors().any(|above| {
        above.file_name().is_some_and(|name| name == "state")
            && above.parent().is_some_and(|data| data.join("wal").is_dir())
    })
}

fn of_log(error: &wal::Error, folder: &Path) -> (Exit, Finding) {
    let at = |file: &str| place(folder, file);
    match error {
        wal::Error::Damaged { file, offset, damage } => {
            let what = format!("damaged at offset {offset}: {damage}");
            (Exit::Corrupt, finding(what, &at(file), GIVE_UP))
        }
        wal::Error::MissingSegment { file } => {
            (Exit::Corrupt, finding("a segment of the log is missing", &at(file), GIVE_UP))
        }
        wal::Error::MissingSafetyRecord { file } => {
            (Exit::Corrupt, finding("no slot of this segment is sound", &at(file), GIVE_UP))
        }
        wal::Error::PastEnd { .. } | wal::Error::Retired { .. } => {
            (Exit::Corrupt, finding(error, folder, GIVE_UP))
        }
        wal::Error::Foreign { file }
        | wal::Error::Version { file, .. }
        | wal::Error::Identity { file, .. } => (
            Exit::Usage,
            finding(error, &at(file), "move this file out of the folder, or use another folder"),
        ),
        other => {
            let remedy = "see to the permissions of the folder, its free space and the disk";
            (Exit::Failed, finding(other, folder, remedy))
        }
    }
}

/// What a check found.
pub fn damage(damage: &Damage, folder: &Path) -> Finding {
    let what = format!("damaged at offset {}: {}", damage.offset, damage.what);
    finding(what, &place(folder, &damage.file), SAVE)
}

/// The file that an error names; the folder if it names something else, such as the log as a whole.
fn place(folder: &Path, file: &str) -> PathBuf {
    let names_a_file = !file.contains([' ', '/']);
    if names_a_file { folder.join(file) } else { folder.to_owned() }
}
