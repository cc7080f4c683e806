//! Quorate: store.
