//! The client's side: what it says to replicas and when it believes what they answer.
//!
//! A [`Session`] is the logic of one client as a state machine without clock or sockets: it opens
//! a session, numbers commands, groups them in frames, sends a frame again until it is answered,
//! and believes an [`Outcome`](message::Outcome) only when f + 1 replicas say exactly the same.
//! `quorate-node` drives it over TLS, a simulator on virtual time.
//!
//! Duties of a driver: feed it every connection made or lost and every response; do what the
//! [`Output`]s say, in order; call again when [`Session::deadline`] is due. Sends to a replica that
//! is not connected may be dropped: a new connection is told everything it needs.

mod answers;
pub mod decided;
mod error;
mod pace;
pub mod proven;
pub mod read_index;
pub mod reads;
mod session;
pub mod succession;
mod votes;

pub use crate::ledger::message;
pub use crate::ledger::packed::{DoesNotFit, Packed};
pub use error::{ClientError, Fatal, NotExecuted, Unknown};
pub use session::{BatchId, Input, Output, Route, Session, SessionConfig};
