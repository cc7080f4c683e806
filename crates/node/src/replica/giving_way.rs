//! Threads that give way to all others.
//!
//! Anybody may ask a replica for blocks, proofs and the application's state, unsigned. A thread
//! that answers has a low niceness: a woken thread takes the processor from it.
//!
//! Under `SCHED_BATCH` that is not enough. Replicas that share a machine run under it, and there a
//! woken thread waits until the running one has had its slice, so each hop of a decision would wait
//! for a stranger. There the policy of such a thread is `SCHED_IDLE` (sched(7)). It is not the
//! policy everywhere: the thread shares locks with the deciding one, and beside busy programs of
//! others an idle thread may hold one for seconds.

use std::thread::JoinHandle;

/// Starts a thread for what strangers ask for.
///
/// # Errors
/// The system gave none.
pub fn spawn_low<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    super::spawn(name, move || {
        give_way();
        run()
    })
}

/// Less of a busy processor than other threads have, by a factor of about nine.
#[cfg(target_os = "linux")]
const LOWER_BY: i32 = 10;

/// Lets all other threads go before the calling one. Where the system refuses, it is as before.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "rustix does not have these calls")]
fn give_way() {
    // SAFETY: no pointers. 0 is the calling thread.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_BATCH {
        // Of this thread alone, on Linux.
        let _ = rustix::process::nice(LOWER_BY);
        return;
    }
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call keeps no pointer, and `usual` lives until it returns.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const usual);
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    #[allow(unsafe_code, reason = "rustix does not have these calls")]
    fn what_strangers_ask_for_waits_for_everybody_else() {
        // SAFETY: no pointers.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let low = move || super::spawn_low("low", policy).unwrap().join().unwrap();
        let usual = policy();
        let waits = std::thread::spawn(move || {
            let usual = libc::sched_param { sched_priority: 0 };
            // SAFETY: the call keeps no pointer, and `usual` lives until it returns.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const usual) };
            low()
        });
        assert_eq!(waits.join().unwrap(), libc::SCHED_IDLE);
        let preempted = super::spawn_low("low", policy).unwrap().join().unwrap();
        let expected = if usual == libc::SCHED_BATCH { libc::SCHED_IDLE } else { usual };
        assert_eq!((preempted, policy()), (expected, usual));
    }
}
