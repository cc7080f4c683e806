//! Control groups of Linux, of either version: what a replica gets of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use rustix::process::Pid;

use crate::needs;

/// What a group bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Memory,
    Disk,
}

/// A group without processes yet. What it holds when it is dropped goes to its parent.
pub struct Group {
    folder: PathBuf,
    /// Whether it is one of version 1.
    is_first: bool,
}

impl Group {
    /// Makes a group, where this process may make any; otherwise the test is skipped.
    pub fn new(of: Of) -> Option<Self> {
        let [first, second] = match of {
            Of::Memory => ["memory", "memory"],
            Of::Disk => ["blkio", "io"],
        };
        // Two tests may have one each at the same time.
        let name = format!("quorate-test-{second}-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let (folder, is_first) = match enabled.split_whitespace().any(|one| one == second) {
            true => (root.join(name), false),
            false => (root.join(first).join(name), true),
        };
        let made = folder.parent().is_some_and(Path::exists) && fs::create_dir(&folder).is_ok();
        if !made {
            let because = "no control group can be made";
            needs::optional("alerts of a machine", because, "run `make test` as root on Linux");
            return None;
        }
        Some(Self { folder, is_first })
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.folder.join(file);
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    pub fn take(&self, process: Pid) {
        self.write("cgroup.procs", &process.as_raw_nonzero().to_string());
    }

    /// Bounds memory that is taken from now on.
    pub fn bound_memory(&self, bytes: Option<u64>) {
        let bytes = bytes.map(|bytes| bytes.to_string());
        match self.is_first {
            true => self.write("memory.limit_in_bytes", bytes.as_deref().unwrap_or("-1")),
            false => self.write("memory.max", bytes.as_deref().unwrap_or("max")),
        }
    }

    /// Lets the disk below a folder take so many writes a second. Returns whether it is a disk.
    pub fn bound_writes(&self, folder: &Path, a_second: Option<u32>) -> bool {
        let Some(disk) = disk_of(folder) else {
            let because = "the folder for temporary files is on no disk";
            needs::optional("alerts of a slow disk", because, "set TMPDIR to a folder on one");
            return false;
        };
        let many = a_second.map(|many| many.to_string());
        match self.is_first {
            true => {
                let many = many.as_deref().unwrap_or("0");
                self.write("blkio.throttle.write_iops_device", &format!("{disk} {many}"));
            }
            false => {
                let many = many.as_deref().unwrap_or("max");
                self.write("io.max", &format!("{disk} wiops={many}"));
            }
        }
        true
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let parent = self.folder.with_file_name("cgroup.procs");
        let processes = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        // Each may have ended by now.
        processes.lines().for_each(|process| drop(fs::write(&parent, process)));
        // A group of ended processes is in nobody's way.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The number of the whole disk on which a folder lies, as `MAJOR:MINOR`.
fn disk_of(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).ok()?.dev();
    let entry = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let entry = fs::canonicalize(entry).ok()?;
    let disk = match entry.join("partition").exists() {
        true => entry.parent()?,
        false => &entry,
    };
    Some(fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned())
}
