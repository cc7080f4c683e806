//! Who takes the turns of what is done by a thread of its own, and when.
//!
//! Usually that thread does: it takes turns for as long as something waits, and rests until its
//! bell rings or a timer is due. To wake it, and then the thread of the sockets for what it sends,
//! takes longer than most turns of an idle replica do, and each message delay pays for both. So
//! where it rests and there is little to do, whoever brings a message *helps*: it takes one turn on
//! the spot. What is left after that is the thread's.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Instant;

use super::doorbell::Doorbell;

/// What is done in turns.
pub trait Work: Send + 'static {
    /// Why there will be no other turn.
    type End: Send;

    /// Takes one turn. Whether there was anything to do; if not, the thread may rest until the
    /// [deadline](Self::deadline).
    ///
    /// # Errors
    /// Why there will be no other.
    fn turn(&mut self) -> Result<bool, Self::End>;

    /// Takes one turn in the place of the thread, without waiting for anything. Whether it is done
    /// with what there was.
    ///
    /// # Errors
    /// As for [`turn`](Self::turn).
    fn single_turn(&mut self) -> Result<bool, Self::End>;

    /// Whether a turn is soon over.
    fn has_little_to_do(&self) -> bool;

    /// When a turn is due even if nothing comes.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// One work, and whoever takes its next turn.
pub struct Desk<W: Work> {
    seat: Mutex<Seat<W>>,
    bell: Arc<Doorbell>,
}

struct Seat<W: Work> {
    /// Gone once it has ended.
    work: Option<W>,
    /// Why it is to end, if a helper's turn says so.
    end: Option<W::End>,
    /// When the thread looks by itself, while it rests; `None`: never.
    rests_until: Option<Instant>,
}

impl<W: Work> Desk<W> {
    /// The desk of `work`, whose thread answers `bell`. If it is `helped`, those who ring and can
    /// spare the time take turns.
    pub fn new(work: W, bell: Arc<Doorbell>, helped: bool) -> Arc<Self> {
        let seat = Seat { work: Some(work), end: None, rests_until: None };
        let desk = Arc::new(Self { seat: Mutex::new(seat), bell });
        if helped {
            let helper = Arc::downgrade(&desk);
            desk.bell.helped_by(move || helper.upgrade().is_some_and(|desk| desk.help()));
        }
        desk
    }

    /// The thread's part: takes turns until there will be no other. Returns the work and why it
    /// ended, or nothing if a helper's turn panicked.
    pub fn run(&self) -> Option<(W, W::End)> {
        self.bell.answer_here();
        loop {
            let mut seat = match self.seat.lock() {
                Ok(seat) => seat,
                Err(poisoned) => {
                    // What it has open is closed before anybody learns of it.
                    drop(poisoned.into_inner().work.take());
                    return None;
                }
            };
            let mut work = seat.work.take()?;
            if let Some(end) = seat.end.take() {
                return Some((work, end));
            }
            loop {
                match work.turn() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(end) => return Some((work, end)),
                }
            }
            seat.rests_until = work.deadline();
            let patience =
                seat.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
            seat.work = Some(work);
            drop(seat);
            self.bell.wait(patience);
        }
    }

    /// Takes one turn, if the thread rests and there is little to do. Whether it may go on resting;
    /// if not, it is to be woken.
    fn help(&self) -> bool {
        let mut seat = match self.seat.try_lock() {
            Ok(seat) => seat,
            // Somebody is at it, and may have looked already; or the thread has to see that it
            // panicked.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return false,
        };
        let Seat { work: Some(work), end, rests_until } = &mut *seat else { return false };
        if end.is_some() || !work.has_little_to_do() {
            return false;
        }
        // What is rung for from now on may come too late for this turn.
        self.bell.hush();
        match work.single_turn() {
            Ok(done) => {
                let is_before = |due: Instant| rests_until.is_none_or(|until| due < until);
                done && !work.deadline().is_some_and(is_before)
            }
            Err(why) => {
                *end = Some(why);
                false
            }
        }
    }
}
