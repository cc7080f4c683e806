//! Keeping a run on some of the machine's cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::trial::TrialError;

/// While it lives, this thread is on some of the cores it may use, and what it starts stays there.
pub(super) struct Confined(Option<CpuSet>);

impl Confined {
    /// To the first so many cores; 0: no bounds.
    pub(super) fn to(cores: usize) -> Result<Self, TrialError> {
        if cores == 0 {
            return Ok(Self(None));
        }
        Self::to_those(|allowed| allowed.iter().copied().take(cores).collect())
    }

    /// To one core: the last for `number` 0, and so on in turn.
    pub(super) fn to_one(number: usize) -> Result<Self, TrialError> {
        Self::to_those(|allowed| {
            allowed.iter().rev().cycle().nth(number).copied().into_iter().collect()
        })
    }

    fn to_those(choose: impl FnOnce(&[usize]) -> Vec<usize>) -> Result<Self, TrialError> {
        let io =
            |what| move |source: rustix::io::Errno| TrialError::Io { what, source: source.into() };
        let all = sched_getaffinity(None).map_err(io("the cores cannot be learnt"))?;
        let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        let mut some = CpuSet::new();
        choose(&allowed).into_iter().for_each(|core| some.set(core));
        sched_setaffinity(None, &some).map_err(io("the cores cannot be chosen"))?;
        Ok(Self(Some(all)))
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            // It was allowed before.
            let _ = sched_setaffinity(None, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let all = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect()
    }

    /// On a thread of its own: its cores are what is tried.
    #[test]
    fn one_core_is_the_last_then_the_one_before_and_so_on_in_turn() {
        let tried = std::thread::spawn(|| {
            let all = allowed();
            for number in 0..2 * all.len() {
                let confined = Confined::to_one(number).unwrap();
                assert_eq!(allowed(), [all[all.len() - 1 - number % all.len()]]);
                drop(confined);
                assert_eq!(allowed(), all);
            }
            let confined = Confined::to(1).unwrap();
            assert_eq!(allowed(), all[..1]);
            let within = Confined::to_one(1).unwrap();
            assert_eq!(allowed(), all[..1]);
            drop((within, confined));
        });
        tried.join().unwrap();
    }
}
