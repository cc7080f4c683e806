//! Who takes the decider's turns, and when.
//!
//! Usually the deciding thread: it takes turns for as long as something waits, and rests until the
//! bell rings or a timer is due. To wake it, and then the thread of the sockets for what it sends,
//! takes longer than most turns of an idle replica do, and each message delay pays for both. So
//! where it rests and there is little to do, whoever brings a message *helps*: it takes one turn on
//! the spot. What is left after that, as all that comes in quick succession, is the deciding
//! thread's. A turn that syncs the disk is always its own: nobody else has the time.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use quorate_core::Time;
use quorate_core::protocol::Protocol;
use quorate_core::state_machine::StateMachine;

use super::decide::{Decider, End};
use super::doorbell::Doorbell;

/// One decider, and whoever takes its next turn.
pub struct Desk<P: Protocol, S> {
    seat: Mutex<Seat<P, S>>,
    bell: Arc<Doorbell>,
}

struct Seat<P: Protocol, S> {
    /// Gone once it has ended.
    decider: Option<Decider<P, S>>,
    /// Why it is to end, if a helper's turn says so.
    end: Option<End>,
    /// When the deciding thread looks by itself; `None`: never. Its, while it rests.
    rests_until: Option<Time>,
}

impl<P, S> Desk<P, S>
where
    P: Protocol + Send + 'static,
    P::Message: Send,
    S: StateMachine + 'static,
{
    /// The desk of `decider`. With `helped`, those who ring may take turns.
    pub fn new(decider: Decider<P, S>, helped: bool) -> Arc<Self> {
        let bell = Arc::clone(&decider.inbox.bell);
        let seat = Seat { decider: Some(decider), end: None, rests_until: None };
        let desk = Arc::new(Self { seat: Mutex::new(seat), bell });
        if helped {
            let helper: Weak<Self> = Arc::downgrade(&desk);
            desk.bell.helped_by(move || helper.upgrade().is_some_and(|desk| desk.help()));
        }
        desk
    }

    /// The deciding thread: takes turns until there will be no other.
    pub fn work(&self) -> End {
        self.bell.answer_here();
        let panicked = || End::Storage("a turn of the replica panicked; see above".to_owned());
        loop {
            let Ok(mut seat) = self.seat.lock() else { return panicked() };
            let Some(mut decider) = seat.decider.take() else { return panicked() };
            if let Some(end) = seat.end.take() {
                return decider.end(end);
            }
            loop {
                match decider.turn() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(end) => return decider.end(end),
                }
            }
            seat.rests_until = decider.deadline();
            let patience = seat.rests_until.map(|deadline| decider.until(deadline));
            seat.decider = Some(decider);
            drop(seat);
            self.bell.wait(patience);
        }
    }

    /// Takes one turn, if the deciding thread rests and there is little to do. Whether that thread may
    /// go on resting; if not, it is to be woken.
    fn help(&self) -> bool {
        let mut seat = match self.seat.try_lock() {
            Ok(seat) => seat,
            // It is at work, or it has to be told.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return false,
        };
        let Seat { decider: Some(decider), end, rests_until } = &mut *seat else { return false };
        if end.is_some() || !decider.has_little_to_do() {
            return false;
        }
        // What is rung for from now on may have come too late for this turn.
        self.bell.hush();
        match decider.single_turn() {
            Ok(done) => {
                let sooner = decider
                    .deadline()
                    .is_some_and(|deadline| rests_until.is_none_or(|until| deadline < until));
                done && !sooner
            }
            Err(why) => {
                *end = Some(why);
                false
            }
        }
    }
}
