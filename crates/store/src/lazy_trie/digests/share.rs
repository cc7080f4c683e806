//! Updates of subtrees by several threads, in parallel with changes of the lazy-trie. The thread
//! that owns the space changes the lazy-trie, and hands over one subtree after the other with its
//! changes. After that it writes the finished subtrees and helps with the rest.

use super::super::entry::Address;
use super::super::error::Error;
use super::super::memory::View;
use super::super::space::Space;
use super::LeafChange;
use super::forest::{SUBTREES, Slices, Subtree};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// The subtrees between the threads. Each has the number of its hand-over.
#[derive(Default)]
struct Line<'f> {
    /// Subtrees to change.
    waiting: VecDeque<(usize, &'f mut Subtree)>,
    /// Changed subtrees.
    done: [Option<&'f mut Subtree>; SUBTREES],
    /// No more subtrees will come.
    ended: bool,
    /// A thread gave up.
    broken: bool,
    /// The number of threads that wait for a change of the line.
    asleep: usize,
}

/// The data that the threads share.
struct Work<'f> {
    line: Mutex<Line<'f>>,
    moved: Condvar,
    view: View<'f>,
    /// The address of the root.
    root: Address,
}

/// The next step of the thread that owns the space.
enum Next<'f> {
    Finish(&'f mut Subtree),
    Change(usize, &'f mut Subtree),
    Nothing,
}

impl<'f> Work<'f> {
    fn line(&self) -> MutexGuard<'_, Line<'f>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line and wakes the waiting threads. Waking is a system call, so it is skipped if
    /// no thread waits.
    fn move_on(&self, what: impl FnOnce(&mut Line<'f>)) {
        let mut line = self.line();
        what(&mut line);
        if line.asleep > 0 {
            self.moved.notify_all();
        }
    }

    fn wait<'w>(&self, mut line: MutexGuard<'w, Line<'f>>) -> MutexGuard<'w, Line<'f>> {
        line.asleep += 1;
        let mut line = self.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
        line.asleep -= 1;
        line
    }

    fn change(&self, at: usize, subtree: &'f mut Subtree) -> Result<(), Error> {
        subtree.apply(self.view, self.root)?;
        self.move_on(|line| line.done[at] = Some(subtree));
        Ok(())
    }

    /// The work of a helper: it changes subtrees until no more will come.
    fn help(&self) -> Result<(), Error> {
        let shift = Shift(self);
        loop {
            let mut line = self.line();
            while line.waiting.is_empty() && !line.ended {
                line = self.wait(line);
            }
            let Some((at, subtree)) = line.waiting.pop_front() else { break };
            drop(line);
            self.change(at, subtree)?;
        }
        std::mem::forget(shift);
        Ok(())
    }

    /// The next step after `finished` of `count` subtrees. They are finished in the order of their
    /// hand-over, whichever thread changed them.
    fn next(&self, finished: usize, count: usize) -> Next<'f> {
        let mut line = self.line();
        while finished < count && !line.broken {
            if let Some(subtree) = line.done[finished].take() {
                return Next::Finish(subtree);
            }
            if let Some((at, subtree)) = line.waiting.pop_front() {
                return Next::Change(at, subtree);
            }
            line = self.wait(line);
        }
        Next::Nothing
    }

    /// Finishes the subtrees that were handed over, and changes waiting ones meanwhile.
    fn finish(
        &self,
        count: usize,
        mut finish: impl FnMut(&mut Subtree) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut finished = 0;
        loop {
            match self.next(finished, count) {
                Next::Finish(subtree) => {
                    finish(subtree)?;
                    finished += 1;
                }
                Next::Change(at, subtree) => self.change(at, subtree)?,
                Next::Nothing => return Ok(()),
            }
        }
    }
}

/// Reports an error or a panic to the other threads, which would otherwise wait for this one's
/// subtree.
struct Shift<'w, 'f>(&'w Work<'f>);

impl Drop for Shift<'_, '_> {
    fn drop(&mut self) {
        self.0.move_on(|line| line.broken = true);
    }
}

/// Hands subtrees to the line.
struct Hand<'w, 'f> {
    work: &'w Work<'f>,
    /// The number of subtrees handed over.
    count: usize,
}

impl<'f> Hand<'_, 'f> {
    fn over(&mut self, subtree: &'f mut Subtree) {
        self.work.move_on(|line| line.waiting.push_back((self.count, subtree)));
        self.count += 1;
    }
}

impl Drop for Hand<'_, '_> {
    /// Ends the line, so that waiting threads end, whatever the cause.
    fn drop(&mut self) {
        self.work.move_on(|line| line.ended = true);
    }
}

/// The reason why a round failed.
pub(in super::super) enum Broken {
    /// The lazy-trie could not be changed. Changed subtrees have the changes that undo it; the
    /// others have none.
    Edit(Error),
    /// The subtrees are unusable.
    Subtrees(Error),
}

/// A round of changes, with the functions of the thread that owns the space.
pub(super) struct Round<'r, T, E, F> {
    pub(super) slices: &'r Slices<'r, T>,
    /// Applies the changes of a subtree to the lazy-trie, and returns them as changes of leaves.
    pub(super) edit: E,
    /// Takes a changed subtree.
    pub(super) finish: F,
}

impl<T, E, F> Round<'_, T, E, F>
where
    E: FnMut(&mut Space, &[T], &mut Vec<LeafChange>) -> Result<(), Error>,
    F: FnMut(&mut Space, &mut Subtree) -> Result<(), Error>,
{
    /// Changes the lazy-trie, subtree by subtree. `each` gets those whose leaves change.
    fn edit<'f>(
        &mut self,
        space: &mut Space,
        subtrees: &'f mut [Subtree; SUBTREES],
        mut each: impl FnMut(&'f mut Subtree),
    ) -> Result<(), Error> {
        let parts = subtrees.iter_mut().zip(self.slices).filter(|(_, slice)| !slice.is_empty());
        for (subtree, slice) in parts {
            if let Err(error) = (self.edit)(space, slice, &mut subtree.changes) {
                subtree.changes.clear();
                return Err(error);
            }
            unite(&mut subtree.changes);
            // Items without digests have no leaves.
            if !subtree.changes.is_empty() {
                each(subtree);
            }
        }
        Ok(())
    }

    /// Applies all changes in this thread.
    ///
    /// # Errors
    /// [`Broken`].
    pub(super) fn alone(
        mut self,
        space: &mut Space,
        subtrees: &mut [Subtree; SUBTREES],
        root: Address,
    ) -> Result<(), Broken> {
        if let Err(error) = self.edit(space, subtrees, |_| {}) {
            subtrees.iter_mut().for_each(|subtree| subtree.changes.clear());
            return Err(Broken::Edit(error));
        }
        let mut changed = subtrees.iter_mut().filter(|subtree| !subtree.changes.is_empty());
        let changed = changed.try_for_each(|subtree| {
            subtree.apply(space.view(), root)?;
            (self.finish)(space, subtree)
        });
        changed.map_err(Broken::Subtrees)
    }

    /// Applies all changes in this thread and the helpers, which read through `view`.
    ///
    /// # Errors
    /// [`Broken`].
    pub(super) fn shared<'f>(
        mut self,
        space: &mut Space,
        subtrees: &'f mut [Subtree; SUBTREES],
        (view, root): (View<'f>, Address),
        helpers: usize,
    ) -> Result<(), Broken> {
        // If there may be no room for all of them, nothing must need an undo.
        let at_once = !space.is_short();
        let work = Work { line: Mutex::default(), moved: Condvar::new(), view, root };
        std::thread::scope(|scope| {
            let mut hand = Hand { work: &work, count: 0 };
            let named = |_| Builder::new().name("store-hash".to_string());
            // If no thread can be started, this one does all the work.
            let helpers: Vec<_> = (0..helpers)
                .map(named)
                .filter_map(|thread| thread.spawn_scoped(scope, || work.help()).ok())
                .collect();
            let mut held = Vec::new();
            let edited = self.edit(space, subtrees, |subtree| {
                if at_once {
                    hand.over(subtree);
                } else {
                    held.push(subtree);
                }
            });
            match &edited {
                Ok(()) => held.into_iter().for_each(|subtree| hand.over(subtree)),
                Err(_) => held.into_iter().for_each(|subtree| subtree.changes.clear()),
            }
            let count = hand.count;
            drop(hand);
            let own = match &edited {
                Ok(()) => work.finish(count, |subtree| (self.finish)(space, subtree)),
                Err(_) => Ok(()),
            };
            // No new work is begun.
            work.line().waiting.drain(..).for_each(|(_, subtree)| subtree.changes.clear());
            let changed = helpers.into_iter().fold(own, |result, helper| {
                result.and(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            changed.map_err(Broken::Subtrees)?;
            edited.map_err(Broken::Edit)
        })
    }
}

/// Merges the changes of each item into one.
fn unite(changes: &mut Vec<LeafChange>) {
    // The first change knows the old state, the last one the new state.
    changes.dedup_by(|later, first| {
        let same = later.hash == first.hash;
        if same {
            first.leaf = later.leaf;
        }
        same
    });
}
