//! Exhaustive model checking: every execution within a bound, rather than those that seeds come
//! upon.
//!
//! Four replicas, one of which lies in every way that signatures allow; the correct ones run what
//! production runs. Two models of HotStuff:
//!
//! - [`rounds`]: the real rules, block tree and certificates under a scheduler that goes view by
//!   view and decides what is proposed, who votes, who learns of which certificate and who gives
//!   up. Deep: it sees conflicting certificates and commits, and finds the [mutants](mutant).
//! - [`driver`]: the real `HotStuff` driver under a network that loses, repeats and reorders.
//!   Shallow: a few views, but with everything the driver does between messages.
//!
//! [`pbft`] has the same two of PBFT's view changes. [`two_delay`] has the rules of the protocol of
//! two delays.
//!
//! [`spec`] holds recorded runs of production against the TLA+ specification in `specs/`.
//!
//! `docs/model.md` says what all of them leave out, and what they found.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod driver;
pub mod mutant;
pub mod pbft;
pub mod report;
pub mod rounds;
pub mod spec;
pub mod two_delay;
pub mod values;
