//! Quorate: crypto.
