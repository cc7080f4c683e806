//! Subtrees changed by several threads: side by side, and beside the one that has the space. That one changes the lazy-trie, and hands over what it did
//! to the items of one subtree after the other; when it is through, it writes the subtrees that are changed, and helps with the others.

use super::super::entry::Address;
use super::super::error::Error;
use super::super::memory::View;
use super::super::space::Space;
use super::LeafChange;
use super::forest::{SUBTREES, Slices, Subtree};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Subtrees between the hands they pass through, each by when it was handed over.
#[derive(Default)]
struct Line<'f> {
    /// To be changed.
    waiting: VecDeque<(usize, &'f mut Subtree)>,
    /// Changed.
    done: [Option<&'f mut Subtree>; SUBTREES],
    /// No further will come.
    ended: bool,
    /// A thread gave up.
    broken: bool,
    /// Threads that wait for something to move.
    asleep: usize,
}

/// What threads share.
struct Work<'f> {
    line: Mutex<Line<'f>>,
    moved: Condvar,
    view: View<'f>,
    /// What leads to the subtrees.
    root: Address,
}

/// What there is to do for the thread that has the space.
enum Next<'f> {
    Finish(&'f mut Subtree),
    Change(usize, &'f mut Subtree),
    Nothing,
}

impl<'f> Work<'f> {
    fn line(&self) -> MutexGuard<'_, Line<'f>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves something in the line, and wakes those who wait: that is a call of the system, and where one thread does it all nobody waits.
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

    /// What a helper does: changes subtrees until no more will come.
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

    /// What comes next when `finished` of `count` are. They are finished in the order in which they were handed over, whoever changed them.
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

    /// Finishes what was handed over, and changes what waits until then.
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

/// Ends with an error or a panic, of which the others hear: they would wait for what was being changed.
struct Shift<'w, 'f>(&'w Work<'f>);

impl Drop for Shift<'_, '_> {
    fn drop(&mut self) {
        self.0.move_on(|line| line.broken = true);
    }
}

/// Puts subtrees into the line.
struct Hand<'w, 'f> {
    work: &'w Work<'f>,
    /// So many were.
    count: usize,
}

impl<'f> Hand<'_, 'f> {
    fn over(&mut self, subtree: &'f mut Subtree) {
        self.work.move_on(|line| line.waiting.push_back((self.count, subtree)));
        self.count += 1;
    }
}

impl Drop for Hand<'_, '_> {
    /// Who waits for more goes home, whatever has ended this.
    fn drop(&mut self) {
        self.work.move_on(|line| line.ended = true);
    }
}

/// Why a round could not be made whole.
pub(in super::super) enum Broken {
    /// The lazy-trie could not be changed. Subtrees that were changed before have what undoes it, the others have no changes any more.
    Edit(Error),
    /// The subtrees are of no use any more.
    Subtrees(Error),
}

/// A round of changes, and what the thread that has the space does with them.
pub(super) struct Round<'r, T, E, F> {
    pub(super) slices: &'r Slices<'r, T>,
    /// Makes the changes of a subtree to the lazy-trie, and says what they are to leaves.
    pub(super) edit: E,
    /// Takes a subtree that was changed.
    pub(super) finish: F,
}

impl<T, E, F> Round<'_, T, E, F>
where
    E: FnMut(&mut Space, &[T], &mut Vec<LeafChange>) -> Result<(), Error>,
    F: FnMut(&mut Space, &mut Subtree) -> Result<(), Error>,
{
    /// Changes the lazy-trie, a subtree after the other; `each` is given those whose leaves are to change.
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
            // Items aside have no leaves.
            if !subtree.changes.is_empty() {
                each(subtree);
            }
        }
        Ok(())
    }

    /// Makes all changes by this thread.
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

    /// Makes all changes by this thread and so many others, which read through `view`.
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
        // Where there may be no room for all of them, nothing is to be undone.
        let at_once = !space.is_short();
        let work = Work { line: Mutex::default(), moved: Condvar::new(), view, root };
        std::thread::scope(|scope| {
            let mut hand = Hand { work: &work, count: 0 };
            let named = |_| Builder::new().name("store-hash".to_string());
            // Where there is no thread to be had, there is one that works.
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
            // Nothing more is begun.
            work.line().waiting.drain(..).for_each(|(_, subtree)| subtree.changes.clear());
            let changed = helpers.into_iter().fold(own, |result, helper| {
                result.and(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            changed.map_err(Broken::Subtrees)?;
            edited.map_err(Broken::Edit)
        })
    }
}

/// Makes the changes of each item one.
fn unite(changes: &mut Vec<LeafChange>) {
    // The first knows what was there, the last what is there now.
    changes.dedup_by(|later, first| {
        let same = later.hash == first.hash;
        if same {
            first.leaf = later.leaf;
        }
        same
    });
}
