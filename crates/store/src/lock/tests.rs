//! Tests of the end of a lock.

use super::FolderLock;

/// A process forked by another thread has the handle until it executes its program.
#[test]
fn a_lock_ends_when_it_is_dropped_whoever_else_has_the_handle() {
    let folder = tempfile::tempdir().unwrap();
    let lock = FolderLock::acquire(folder.path()).unwrap();
    let inherited = lock.file.try_clone().unwrap();
    assert!(FolderLock::acquire(folder.path()).is_err());
    drop(lock);
    FolderLock::acquire(folder.path()).unwrap();
    drop(inherited);
}
