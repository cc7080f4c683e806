//! How the system divides its processors between this process and others (`[processor]` of
//! node.toml). Where it does not let itself be told, all stays as it is: no answer depends on it.

pub use system::{NetworkCores, wait_for_turns};

#[cfg(target_os = "linux")]
mod system {
    use quorate_node::config::{Cores, Loaded};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Asks that no thread started from here on takes a processor from a thread at work when it is
    /// woken: it waits for its turn, or for another processor, as a thread under Linux's
    /// `SCHED_BATCH` does, at the same share of the time (sched(7)).
    ///
    /// Replicas wake each other with every message. Where several share few processors, whoever
    /// sends to three others would be stopped behind the first, and each be woken for one message
    /// at a time. Whoever was started under another policy than the usual one stays as it is.
    #[allow(unsafe_code, reason = "no library has these calls without changing niceness as well")]
    pub fn wait_for_turns() {
        // SAFETY: neither call keeps a pointer, and `usual` lives until both are done.
        unsafe {
            let usual = libc::sched_param { sched_priority: 0 };
            if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
                libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const usual);
            }
        }
    }

    /// The cores that the threads of a replica's connections run on.
    ///
    /// They are woken with every message, and would run wherever there is room just then: what they
    /// work with would have to follow them. The threads that verify, decide and write are not kept:
    /// they have long turns, and take what is idle.
    #[derive(Clone, Copy)]
    pub struct NetworkCores {
        /// `None`: all there are.
        kept: Option<CpuSet>,
    }

    impl NetworkCores {
        pub fn of(loaded: &Loaded) -> Self {
            let (replica, replicas) =
                (loaded.node.replica.index(), loaded.cluster.members.len().max(1));
            let kept = match loaded.node.processor.network_cores {
                Cores::All => None,
                Cores::Share => sched_getaffinity(None).ok().map(|all| {
                    let cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
                    let cores: Vec<usize> = cores.collect();
                    let mut kept = CpuSet::new();
                    let share = cores.get(share(replica, replicas, cores.len()));
                    share.unwrap_or(&cores).iter().for_each(|core| kept.set(*core));
                    kept
                }),
            };
            Self { kept }
        }

        pub fn count(&self) -> usize {
            let all = std::thread::available_parallelism().map_or(1, usize::from);
            self.kept.map_or(all, |kept| all.min(kept.count() as usize))
        }

        /// The current thread keeps to them.
        pub fn keep_to(&self) {
            if let Some(kept) = &self.kept {
                let _ = sched_setaffinity(None, kept);
            }
        }
    }

    /// Which of so many cores are the share of one of `replicas`: at least one, and those that do
    /// not divide evenly are two replicas'.
    fn share(replica: usize, replicas: usize, cores: usize) -> std::ops::Range<usize> {
        replica * cores / replicas..((replica + 1) * cores).div_ceil(replicas)
    }

    #[cfg(test)]
    mod tests {
        use std::collections::BTreeSet;

        use super::share;

        /// All cores are used, no replica is without, and none has more than one more than another.
        #[test]
        fn replicas_share_all_cores_evenly() {
            assert_eq!([0, 1, 2, 3].map(|replica| share(replica, 4, 2)), [0..1, 0..1, 1..2, 1..2]);
            assert_eq!([0, 1, 2, 3].map(|replica| share(replica, 4, 8)), [0..2, 2..4, 4..6, 6..8]);
            assert_eq!([0, 1, 2, 3].map(|replica| share(replica, 4, 6)), [0..2, 1..3, 3..5, 4..6]);
            for (replicas, cores) in (1..40).flat_map(|n| (1..40).map(move |c| (n, c))) {
                let shares: Vec<_> = (0..replicas).map(|one| share(one, replicas, cores)).collect();
                let lengths: BTreeSet<_> = shares.iter().map(ExactSizeIterator::len).collect();
                let (least, most) = (lengths.first().unwrap(), lengths.last().unwrap());
                assert!(*least >= 1 && most - least <= 1, "{replicas} on {cores}: {shares:?}");
                let used: BTreeSet<_> = shares.into_iter().flatten().collect();
                assert!(used.into_iter().eq(0..cores), "{replicas} on {cores}");
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use quorate_node::config::Loaded;

    pub fn wait_for_turns() {}

    #[derive(Clone, Copy)]
    pub struct NetworkCores;

    impl NetworkCores {
        pub fn of(_: &Loaded) -> Self {
            Self
        }

        pub fn count(&self) -> usize {
            std::thread::available_parallelism().map_or(1, usize::from)
        }

        pub fn keep_to(&self) {}
    }
}
