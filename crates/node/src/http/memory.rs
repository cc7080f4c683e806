//! What this process takes in memory, of what it may take, as Linux says it.

use std::fs::read_to_string;

/// What the process takes, files that are mapped left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// What it takes.
    pub used_bytes: u64,
    /// What it may take: the machine's memory, or the limit of its control group.
    pub limit_bytes: u64,
}

impl Memory {
    /// As it is now; nothing where the system does not say it.
    pub fn now() -> Option<Self> {
        let used_bytes = kibibytes(&read_to_string("/proc/self/status").ok()?, "RssAnon:")?;
        let machine = kibibytes(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
        let limit_bytes = group_limit().map_or(machine, |limit| limit.min(machine));
        Some(Self { used_bytes, limit_bytes })
    }
}

/// The number of a line such as `MemTotal:  16384 kB`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the control group, if it has one. A container sees its own as the root.
fn group_limit() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let limit = |group: &str| {
        let text = read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?;
        text.trim().parse().ok()
    };
    limit(own).or_else(|| limit(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_is_taken_is_counted() {
        const TAKEN: usize = 128 << 20;
        let before = Memory::now().unwrap();
        let taken = vec![1_u8; TAKEN];
        let Memory { used_bytes, limit_bytes } = Memory::now().unwrap();
        assert!(used_bytes < limit_bytes, "{used_bytes} of {limit_bytes}");
        // Other tests of this process come and go meanwhile.
        assert!(used_bytes + (64 << 20) > before.used_bytes + TAKEN as u64, "{used_bytes}");
        assert_eq!(taken.len(), TAKEN);
    }

    #[test]
    fn a_line_is_read_by_its_name() {
        let text = "MemFree:  12 kB\nMemTotal:       16384 kB\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(16 << 20));
        assert_eq!(kibibytes(text, "RssAnon:"), None);
    }
}
