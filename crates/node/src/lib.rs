//! Quorate: node.
