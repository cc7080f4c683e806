//! Tests of the folder lock, and of the atomic replacement of small files.

use quorate_store::atomic_file;
use quorate_store::disk::{CrashDisk, Disk, Fate, FileDisk};
use quorate_store::lock::{FolderLock, LockError};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_folder_has_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let lock = FolderLock::acquire(&data).unwrap();
    let error = FolderLock::acquire(&data).unwrap_err();
    assert!(
        matches!(error, LockError::Held { pid: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    assert!(error.to_string().contains("stop that process"), "{error}");
    assert_eq!(lock.folder(), data);
    drop(lock);
    FolderLock::acquire(&data).unwrap();
    assert!(matches!(
        FolderLock::acquire(folder.path().join("deep/data/lock")),
        Err(LockError::Io { .. })
    ));
}

#[test]
fn a_file_is_replaced_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys/node.key");
    for (content, mode) in [(&b"first"[..], 0o600), (b"the second, longer", 0o640), (b"", 0o600)] {
        atomic_file::write(&path, content, mode).unwrap();
        assert_eq!(atomic_file::read(&path, 18).unwrap(), content);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
    atomic_file::write(&path, b"12345", 0o600).unwrap();
    assert_eq!(atomic_file::read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(FileDisk::open(folder.path().join("keys")).unwrap().list().unwrap(), ["node.key"]);
    assert_eq!(
        atomic_file::write("/..".as_ref(), b"", 0o600).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn after_a_power_cut_the_file_is_the_old_or_the_new() {
    let crash = CrashDisk::new();
    let (old, new) = (vec![1; 1300], vec![2; 2600]);
    atomic_file::replace(&crash, "state", &old).unwrap();
    let first = crash.operations();
    atomic_file::replace(&crash, "state", &new).unwrap();
    let last = crash.operations();
    for cut in first..=last {
        let mixed = (0..16).map(|n| Fate::Mixed { seed: (cut as u64) << 8 | n });
        for fate in
            [Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost].into_iter().chain(mixed)
        {
            let disk = crash.materialise(cut, fate);
            let found = disk.content("state").unwrap();
            assert!(
                found == new || (cut < last && found == old),
                "cut {cut}, {fate:?}: {} bytes",
                found.len()
            );
            atomic_file::replace(&disk, "state", b"next").unwrap();
            assert_eq!(disk.content("state").unwrap(), b"next");
        }
    }
}

#[test]
fn names_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(folder.path()).unwrap();
    for name in ["", ".", "..", "a/b", "../x", "a\0b"] {
        assert_eq!(disk.create(name, 0).err().unwrap().kind(), ErrorKind::InvalidInput, "{name:?}");
        assert!(
            disk.open(name).is_err()
                && disk.remove(name).is_err()
                && disk.rename(name, "x").is_err()
        );
    }
}
