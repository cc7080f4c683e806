//! What this process takes in memory, of what it may take, as Linux says it.

use std::fs::read_to_string;

/// What the process takes, files that are mapped left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// What it takes.
    pub used_bytes: u64,
    /// What it may take: the machine's memory, or the lowest limit of the control groups that it is
    /// in.
    pub limit_bytes: u64,
}

impl Memory {
    /// As it is now; nothing where the system does not say it.
    pub fn now() -> Option<Self> {
        let used_bytes = kibibytes(&read_to_string("/proc/self/status").ok()?, "RssAnon:")?;
        let machine = kibibytes(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limit = lowest_limit(&groups, |file| read_to_string(file).ok());
        let limit_bytes = limit.map_or(machine, |limit| limit.min(machine));
        Some(Self { used_bytes, limit_bytes })
    }
}

/// The number of a line such as `MemTotal:  16384 kB`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest limit of a control group and of those around it, if one has any. `groups` is
/// `/proc/self/cgroup`. A container may see its own group as the root.
///
/// Version 2 of control groups has one hierarchy; version 1 has one of its own for memory. Some
/// systems have both, and one of them has the limits.
fn lowest_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limit = |file: String| read(&file)?.trim().parse().ok();
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let around = group.match_indices('/').map(|(end, _)| &group[..end]);
        let all = around.chain([group.trim_end_matches('/')]);
        all.filter_map(|group| limit(format!("{root}{group}/{file}"))).min()
    });
    limits.min()
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
    fn the_lowest_limit_around_counts_in_either_version() {
        let files = [
            ("/sys/fs/cgroup/memory.max", "900\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "700\n"),
            ("/sys/fs/cgroup/system.slice/quorate/memory.max", "max\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/quorate/memory.limit_in_bytes", "500\n"),
        ];
        let read = |file: &str| {
            let found = files.iter().find(|(name, _)| *name == file)?;
            Some(found.1.to_owned())
        };
        assert_eq!(lowest_limit("0::/system.slice/quorate\n", read), Some(700));
        assert_eq!(lowest_limit("0::/\n", read), Some(900));
        assert_eq!(lowest_limit("5:cpu:/\n4:memory:/quorate\n0::/gone\n", read), Some(500));
        assert_eq!(lowest_limit("4:hugetlb,memory:/\n", read), Some(9_223_372_036_854_771_712));
        assert_eq!(lowest_limit("5:cpu:/quorate\n", read), None);
        assert_eq!(lowest_limit("", read), None);
    }

    #[test]
    fn a_line_is_read_by_its_name() {
        let text = "MemFree:  12 kB\nMemTotal:       16384 kB\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(16 << 20));
        assert_eq!(kibibytes(text, "RssAnon:"), None);
    }
}
