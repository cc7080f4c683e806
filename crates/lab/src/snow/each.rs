//! Independent runs, on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::StudyError;

/// What comes of each item, in their order: the number of cores changes the time alone. The last
/// item begins first, as the largest is usually there.
///
/// # Errors
/// That of an item.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    run: impl Fn(&T) -> Result<R, StudyError> + Sync,
) -> Result<Vec<R>, StudyError> {
    let left = AtomicUsize::new(items.len());
    let work = || {
        let mut done = Vec::new();
        let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        while let Ok(before) = next() {
            let result = run(&items[before - 1]);
            let failed = result.is_err();
            done.push((before - 1, result));
            if failed {
                left.store(0, Ordering::Relaxed);
            }
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let mut done = thread::scope(|scope| {
        let begun: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = begun.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(each(&items, |item| Ok(item * 2)).unwrap()[999], 1998);
        assert!(each(&[], |item: &u64| Ok(*item)).unwrap().is_empty());
    }

    #[test]
    fn an_error_ends_it() {
        use quorate_core::protocols::snow::parameters::Parameters;
        let wrong = Parameters { sample: 0, ..Parameters::PAPER };
        let found = each(&[1, 2, 3], |_| wrong.checked().map_err(StudyError::from));
        assert!(found.is_err());
    }
}
