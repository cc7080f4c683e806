//! Quorate: core.
