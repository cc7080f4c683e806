//! The Snow family: agreement by repeated sampling of a few peers. **Safety and liveness are
//! probabilistic**: two correct nodes may decide differently, with a probability that the
//! parameters make small. No quorum certifies anything.
//!
//! The source is Team Rocket, Yin, Sekniqi, van Renesse, Sirer, *Scalable and Probabilistic
//! Leaderless BFT Consensus through Metastability* (arXiv 1906.08936), called the white paper here.
//! [`slush`] (section 2.2), [`snowflake`] (2.3) and [`snowball`] (2.4) decide between colours, two
//! or more; [`snowflake_plus`] is the later form with several thresholds; [`avalanche`] is a
//! payment system over a DAG (section 3), [`snowman`] a chain for the replica.
//!
//! Each of the first four is a pure state that is told the outcome of every poll. [`sampling`]
//! draws whom to ask, by stake, from a seed; [`poll`] counts the answers, and ends as soon as they
//! decide. [`analysis`] computes how probable a failure is.
//!
//! An adversary with more than about √n informed nodes can stall undecided conflicts for long
//! (arXiv 2409.02217). Honest payments have no conflict and are not affected.

pub mod analysis;
pub mod avalanche;
pub mod parameters;
pub mod poll;
pub mod random;
pub mod sampling;
pub mod slush;
pub mod snowball;
pub mod snowflake;
pub mod snowflake_plus;
pub mod snowman;
