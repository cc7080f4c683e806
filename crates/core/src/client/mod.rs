//! The client's side: what it says to replicas and when it believes what they answer.

pub mod message;
