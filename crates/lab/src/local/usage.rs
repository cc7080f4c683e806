//! What a process and its files take of the machine.

use std::path::Path;
use std::time::Duration;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads.
    pub processor: Duration,
    /// Memory it holds now (its resident set), in bytes.
    pub memory_bytes: u64,
}

impl Usage {
    /// Of the process with this number; `None` where the system does not tell.
    #[must_use]
    pub fn of(process: u32) -> Option<Self> {
        let folder = format!("/proc/{process}");
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("{folder}/task")).ok()?.flatten() {
            // A thread may end between the two calls.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            nanoseconds += text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = resident.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(Self { processor: Duration::from_nanos(nanoseconds), memory_bytes: kib << 10 })
    }
}

/// Bytes on disk of all files below `folder`: what they take, not how long they are.
#[must_use]
pub fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
