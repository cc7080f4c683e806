//! The rules of every variant against its paper's words, over random trees. The words are spelled
//! out in plain indices ([`model::Model`]) and share nothing with production.

use quorate_sim as cluster;

mod basic;
mod chained;
mod facts;
mod fast;
mod hotstuff_2;
mod model;
mod quorums;
mod roots;
mod simplified;
mod tree;
mod two_chain;
