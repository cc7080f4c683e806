//! Quotas of stored bytes: what `client allow --quota` says, and what keys have stored.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::str::FromStr;

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::Rules;
use quorate_core::ledger::clients::Clients;
use quorate_core::ledger::directive::Refusal;
use quorate_node::client::rights::{self, NotTold};
use quorate_node::config::{Application, ByteSize, Finding, Place};

use super::super::member::Known;
use crate::failure::Failure;
use crate::output::warn;

/// What `--quota` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quota {
    /// The key has none any more.
    None,
    /// The key has this one, bytes.
    Bytes(NonZeroU64),
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let ByteSize(bytes) = text
            .parse::<ByteSize>()
            .map_err(|error| format!("{error}; or `none`, which takes the quota away"))?;
        let bytes = NonZeroU64::new(bytes);
        bytes.map(Self::Bytes).ok_or_else(|| {
            "it is zero: `none` takes the quota away, and --read-only lets the key write nothing"
                .to_owned()
        })
    }
}

/// The quota of a key after `client allow`, which was given this `--quota`: without one it keeps
/// what the list says. Standard error tells whether it stays or goes.
///
/// The directive has the serial behind this list's, so it is refused if another one comes first:
/// no quota that somebody changes meanwhile is taken over, or lost.
pub(super) fn decided(
    given: Option<Quota>,
    known: &Known,
    clients: &Clients,
    key: &PublicKey,
) -> Result<Option<NonZeroU64>, Failure> {
    let before = clients.grant(key).and_then(|grant| grant.stored_bytes);
    match (given, before) {
        (Some(Quota::Bytes(bytes)), _) => {
            check_enforced(known)?;
            return Ok(Some(bytes));
        }
        (Some(Quota::None), Some(before)) => {
            eprintln!("this order takes the quota of {} away", ByteSize(before.get()));
        }
        (None, Some(before)) => eprintln!(
            "the quota of {} stays: --quota SIZE changes it, --quota none takes it away",
            ByteSize(before.get())
        ),
        (_, None) => {}
    }
    Ok(before.filter(|_| given.is_none()))
}

/// Refuses a quota where nobody sees to it, and warns where it is not known whether somebody does.
fn check_enforced(known: &Known) -> Result<(), Failure> {
    let application = known.cluster.application;
    if application == Application::Ordering {
        let what = "the ordering application stores no keys, so a quota would never end anything";
        let remedy = "leave --quota out; --rate bounds what the key may have ordered";
        return Err(known.failed(&what, remedy));
    }
    let current = known.chain.committee().rules();
    if current.core < Rules::QUOTAS {
        return Err(super::refused(known, &Refusal::NoQuotasYet { current }.into()));
    }
    if application == Application::Service {
        warn(&[Finding {
            what: format!(
                "Quorate itself does not enforce the quota: the service `{}` is told it with each \
                 command, and has to see to it",
                known.cluster.application_name()
            ),
            place: Place::Flag("--quota".to_owned()),
            remedy: "see that it does (\"Who sent a command\" in docs/own-service.md); a process \
                     behind a pipe is told in protocol 2 alone"
                .to_owned(),
        }]);
    }
    Ok(())
}

/// What the keys of the list have stored, bytes, where the application keeps account of it.
pub(super) fn stored(known: &Known, clients: &Clients) -> Option<BTreeMap<PublicKey, u64>> {
    let committee = known.chain.committee();
    let counts = committee.rules().core >= Rules::QUOTAS;
    if known.cluster.application != Application::Kv || !counts {
        return None;
    }
    let keys: Vec<_> = clients.entries().map(|(key, _)| *key).collect();
    let told: Result<_, NotTold> = known.runtime.block_on(rights::stored(committee, &keys));
    match told {
        Ok(stored) => Some(keys.into_iter().zip(stored).collect()),
        Err(error) => {
            let place = Place::File(known.home.cluster_file());
            let remedy = "see that the replicas run (`quorate status`), and have the newest release \
                          (`quorate upgrade status`)";
            let (what, remedy) = (error.to_string(), remedy.to_owned());
            warn(&[Finding { what, place, remedy }]);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_size_or_none() {
        let bytes = |bytes| Ok(Quota::Bytes(NonZeroU64::new(bytes).expect("not zero")));
        assert_eq!("64MiB".parse::<Quota>(), bytes(64 << 20));
        assert_eq!("none".parse::<Quota>(), Ok(Quota::None));
        for (text, says) in [("5", "`none`"), ("None", "`none`"), ("0B", "--read-only")] {
            let said = text.parse::<Quota>().expect_err(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
