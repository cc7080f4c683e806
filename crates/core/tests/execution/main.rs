//! What happens to frames between their arrival and their answers: mempool, session table,
//! execution. The expectations are computed by models that share no code with the crate.

mod asking;
mod clients;
mod executing;
mod fixtures;
mod generation;
mod kept;
mod mempool;
mod model;
mod quotas;
mod rules;
mod sessions;
mod snapshots;
mod tentative;
