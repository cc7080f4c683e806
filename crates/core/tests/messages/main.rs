//! What replicas say to each other: how it is encoded, and what of it is refused, for which reason.

use quorate_sim as cluster;

mod agg_qcs;
mod asks;
mod claims;
mod counted;
mod declined;
mod driven;
mod elected;
mod encoding;
mod forge;
mod qcs;
mod restarted;
mod second_votes;
mod single_field;
mod strategies;
mod tcs;
mod votes;
