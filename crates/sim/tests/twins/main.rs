//! Twins testing: scenarios are counted right, every protocol holds in them, and bugs do not.

mod edges;
mod mutants;
mod protocols;
mod spaces;
mod worlds;
