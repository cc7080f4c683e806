//! Quorate: app.
