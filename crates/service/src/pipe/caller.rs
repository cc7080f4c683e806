//! The caller of a command, as a process is told.

use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::Caller;

use super::process::list;

/// Appends a caller: its key 32, and 0 if the list of clients does not name it, or 1, its quota (8
/// bytes, most significant first; 0: none) and its prefixes, each behind its length. Nothing for a
/// command that nobody sent, as in a trial.
pub(super) fn write_caller(out: &mut Vec<u8>, caller: Option<&Caller<'_>>) {
    let Some(Caller { key, grant }) = caller else { return };
    out.extend_from_slice(&key.0);
    let Some(Grant { prefixes, stored_bytes, .. }) = grant else { return out.push(0) };
    out.push(1);
    out.extend_from_slice(&stored_bytes.map_or(0, std::num::NonZeroU64::get).to_be_bytes());
    list(out, prefixes.iter().map(|prefix| &prefix[..]));
}
