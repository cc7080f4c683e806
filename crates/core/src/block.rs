//! Blocks: the nodes of the tree that the protocol grows.
