//! Quorate: lab.
