//! The callers of commands, as a process is told.

use std::collections::BTreeMap;

use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::{Caller, Decided};

use super::process::list;

/// Appends the callers of a block as a list behind its length, each caller once, and the commands
/// as a list in which each stands behind the number of its caller (4 bytes, from 0).
///
/// A caller may take four kilobytes and its command one byte. In front of each command, callers
/// would make a message of hundreds of megabytes out of a small block.
pub(super) fn write_called(out: &mut Vec<u8>, block: &Decided<'_>) {
    let (mut callers, mut commands) = (Vec::new(), Vec::new());
    let mut numbers: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut last: Option<(Option<&Caller<'_>>, u32)> = None;
    for (at, command) in block.commands.iter().enumerate() {
        let caller = block.callers.get(at);
        let number = match last {
            Some((before, number)) if is_same(before, caller) => number,
            _ => {
                let written = written(caller);
                // A block has fewer commands than that.
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(written).or_insert_with_key(|written| {
                    list(&mut callers, [&written[..]]);
                    next
                })
            }
        };
        last = Some((caller, number));
        list(&mut commands, [&[&number.to_be_bytes()[..], command].concat()[..]]);
    }
    list(out, [&callers[..]]);
    out.append(&mut commands);
}

/// Whether the sender of a command has prefixes or a quota: the application has to see to them.
pub(super) fn has_limits(block: &Decided<'_>) -> bool {
    let grants = block.callers.iter().filter_map(|caller| caller.grant);
    grants.into_iter().any(|grant| grant.stored_bytes.is_some() || !grant.prefixes.is_empty())
}

/// Whether two are the same where they lie, as those of one frame are.
fn is_same(one: Option<&Caller<'_>>, other: Option<&Caller<'_>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    let grant = |caller: &Caller<'_>| caller.grant.map(std::ptr::from_ref);
    std::ptr::eq(one.key, other.key) && grant(one) == grant(other)
}

/// A caller: its key 32, and 0 if the list of clients does not name it, or 1, its quota (8 bytes,
/// most significant first; 0: none) and its prefixes, each behind its length. Nothing for a command
/// that nobody sent, as in a trial.
fn written(caller: Option<&Caller<'_>>) -> Vec<u8> {
    let Some(Caller { key, grant }) = caller else { return Vec::new() };
    let mut out = key.0.to_vec();
    let Some(Grant { prefixes, stored_bytes, .. }) = grant else {
        out.push(0);
        return out;
    };
    out.push(1);
    out.extend_from_slice(&stored_bytes.map_or(0, std::num::NonZeroU64::get).to_be_bytes());
    list(&mut out, prefixes.iter().map(|prefix| &prefix[..]));
    out
}

#[cfg(test)]
mod tests {
    use quorate_core::base::crypto::PublicKey;

    use super::*;

    #[test]
    fn prefixes_and_quotas_are_limits_and_rates_are_the_replicas_own() {
        let key = PublicKey([1; 32]);
        let limited = |grant: Option<&Grant>| {
            let callers = [Caller { key: &key, grant: None }, Caller { key: &key, grant }];
            let commands: [&[u8]; 2] = [b"a", b"b"];
            let (height, view) = Default::default();
            has_limits(&Decided { height, view, rules: 1, commands: &commands, callers: &callers })
        };
        let rate =
            Grant { commands_per_second: Some(std::num::NonZeroU32::MIN), ..Grant::default() };
        assert!(!limited(None) && !limited(Some(&rate)));
        let quota = Grant { stored_bytes: Some(std::num::NonZeroU64::MIN), ..Grant::default() };
        let prefixes = Grant { prefixes: vec!["app:".into()], ..Grant::default() };
        assert!(limited(Some(&quota)) && limited(Some(&prefixes)));
    }
}
