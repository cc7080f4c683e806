//! Keeping a run on some of the machine's cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::trial::TrialError;

/// While it lives, this thread is on the first cores it may use, and what it starts stays there.
pub(super) struct Confined(Option<CpuSet>);

impl Confined {
    /// To so many cores; 0: no bounds.
    pub(super) fn to(cores: usize) -> Result<Self, TrialError> {
        if cores == 0 {
            return Ok(Self(None));
        }
        let io =
            |what| move |source: rustix::io::Errno| TrialError::Io { what, source: source.into() };
        let all = sched_getaffinity(None).map_err(io("the cores cannot be learnt"))?;
        let mut some = CpuSet::new();
        let allowed = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        allowed.take(cores).for_each(|core| some.set(core));
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
