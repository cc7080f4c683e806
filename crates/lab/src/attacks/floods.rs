//! A file a flood of clients: what it attacks, and what answers it.

pub(super) mod bad_signatures;
pub(super) mod beyond_rate;
pub(super) mod command_docs;
pub(super) mod half_open;
pub(super) mod http_slots;
pub(super) mod junk_frames;
pub(super) mod long_frames;
pub(super) mod made_up_addresses;
pub(super) mod patterns;
pub(super) mod pull_slots;
pub(super) mod replayed_frames;
pub(super) mod slow_loris;
pub(super) mod unread_answers;
pub(super) mod verified_reads;
pub(super) mod web_page;
