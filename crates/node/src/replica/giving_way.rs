//! Threads that give way to all others.
//!
//! Anybody may ask a replica for blocks, proofs and the application's state, unsigned. A thread
//! that answers takes what nobody else wants of the processor. On Linux its policy is `SCHED_IDLE`
//! (sched(7)): any other thread that is woken takes the processor from it at once. A low niceness
//! is not enough. Replicas that share a machine run under `SCHED_BATCH`, where a woken thread waits
//! until the running one has had its slice, and each hop of a decision would wait for a stranger.

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

/// Lets all other threads go before the calling one. Where the system refuses, it is as before.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "rustix does not have this call")]
fn give_way() {
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call keeps no pointer, and `usual` lives until it returns. 0 is the caller.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const usual);
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    #[allow(unsafe_code, reason = "rustix does not have this call")]
    fn what_strangers_ask_for_waits_for_everybody_else() {
        // SAFETY: no pointers.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let low = super::spawn_low("low", policy).unwrap().join().unwrap();
        assert_eq!((low, policy()), (libc::SCHED_IDLE, libc::SCHED_OTHER));
    }
}
