//! Every adversary against every protocol and pacemaker: the oracles look on, honest clients are
//! answered all the same, and the attack is seen to have happened.

mod attacks;
mod clients;
mod matrix;
mod schedule;
mod swarm;
mod sync;
