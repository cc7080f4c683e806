//! How the system divides its processors between this process and others.

/// Asks that no thread started from here on takes a processor from a thread at work when it is
/// woken: it waits for its turn, or for another processor, as a thread under Linux's `SCHED_BATCH`
/// does, at the same share of the time (sched(7)).
///
/// Replicas wake each other with every message. Where several share few processors, whoever sends to
/// three others would be stopped behind the first, and each be woken for one message at a time.
/// Whoever was started under another policy than the usual one stays as it is, and so does a process
/// that may not change it.
pub fn wait_for_turns() {
    #[cfg(target_os = "linux")]
    linux::wait_for_turns();
}

#[cfg(target_os = "linux")]
mod linux {
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
}
