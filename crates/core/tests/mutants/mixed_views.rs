//! A time-out says: "I gave up on this view, and know no certificate above that one". It says so of
//! one view. Counted together with those of other views, q of them prove nothing: their senders may
//! have come far since, and committed what the certificate knows nothing of.

use quorate_core::base::crypto::{Check, Scheme, Share, Signer};
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc, TimeOut};
use quorate_core::protocols::hotstuff::rules::TwoChain;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{Input, Ledger, Protocol};
use quorate_core::{ReplicaId, Time, View};

use crate::cluster::keys::{Key, Mock, replica_seal};
use crate::cluster::mutant::{Fx, Mutation, believed};
use crate::script::{Bug, play};

/// Counts the last time-outs it has heard, of whatever view, for the view it gives up itself.
struct Mixes {
    me: ReplicaId,
    heard: Vec<Option<(TimeOut, Qc)>>,
}

impl Mixes {
    /// The certificate that it takes to be one of `view`.
    fn certificate(&self, driver: &HotStuff, view: View) -> Option<Tc> {
        let own = self.own(driver, view);
        let others = self.heard.iter().flatten();
        let mut time_outs: Vec<&(TimeOut, Qc)> = others.chain([&own]).collect();
        let quorum = driver.domain().committee().quorum();
        if time_outs.len() < quorum {
            return None;
        }
        time_outs.drain(..time_outs.len() - quorum);
        time_outs.sort_by_key(|(time_out, _)| time_out.replica);
        let entries: Vec<_> = time_outs.iter().map(|(t, _)| (t.replica, t.high_qc_view)).collect();
        let signatures: Vec<_> = time_outs.iter().map(|(t, _)| t.signature).collect();
        let highest = time_outs.iter().map(|(_, qc)| qc.clone()).max_by_key(Qc::rank);
        let mut bytes = view.to_bytes();
        put_list(&mut bytes, &entries);
        put_list(&mut bytes, &signatures);
        put_list(&mut bytes, highest.as_slice());
        Some(Tc::from_bytes(bytes.into()).expect("a certificate"))
    }

    fn own(&self, driver: &HotStuff, view: View) -> (TimeOut, Qc) {
        let qc = driver.high_qc().clone();
        let statement = driver.domain().time_out(view, qc.view(), &qc.block());
        let signature = Key::of_replica(self.me.index()).sign(&statement);
        (TimeOut { view, high_qc_view: qc.view(), replica: self.me, signature }, qc)
    }
}

impl Mutation for Mixes {
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx {
        if let Input::Message { from, message } = &input
            && let Message::TimeOut { time_out, high_qc, .. } = message.get()
        {
            self.heard[from.index()] = Some((*time_out, high_qc.clone()));
        }
        let mut fx = driver.step(now, input, ledger);
        let view = driver.status().view;
        if driver.safety().timed_out >= view
            && let Some(tc) = self.certificate(driver, view)
        {
            let high_qc = driver.high_qc().clone();
            let message =
                Message::Advance { high_qc, high_tc: Some(tc), decided: None, is_answer: false };
            let from = driver.status().leader.expect("a leader");
            if let Some(message) = believed(driver, from, message) {
                fx.merge(driver.step(now, Input::Message { from, message }, ledger));
            }
        }
        fx
    }
}

/// A check that does not ask of which view a time-out was.
fn verify_of_any_view(_: usize, checks: &[Check]) -> Vec<bool> {
    let holds = Mock.verify(checks);
    checks.iter().zip(holds).map(|(check, holds)| holds || holds_of_any_view(check)).collect()
}

/// Kinds and offsets as `crypto::Statement` documents its bytes.
fn holds_of_any_view(check: &Check) -> bool {
    let Check::Replica(Share { signer, statement, signature }) = check else { return false };
    let mut bytes = statement.as_bytes().to_vec();
    bytes[57] == 2
        && (1..100u64).any(|view| {
            bytes[58..66].copy_from_slice(&view.to_le_bytes());
            replica_seal(*signer, &bytes) == *signature
        })
}

fn mixes(id: usize) -> Option<Box<dyn Mutation>> {
    let (me, heard) = (ReplicaId(3), vec![None; 4]);
    if id == 3 { Some(Box::new(Mixes { me, heard })) } else { None }
}

#[test]
fn a_certificate_of_time_outs_of_several_views_loses_a_committed_block() {
    let collects = Bug { mutation: mixes, ..Bug::none(&TwoChain) };
    let broken = play("mixed_views", &Bug { verify: verify_of_any_view, ..collects });
    assert!(broken.says("r2 commits b8 at height 7"));
    assert!(broken.says("r1 commits b11 at height 7"));
    assert!(broken.says("(agreement: r1 committed another block at 7)"));

    // Whoever looks at the signatures refuses it.
    let refused = play("mixed_views_refused", &collects);
    refused.repeats(&broken);
    assert!(refused.says("r0 refuses r3: BadSignature"));
    assert!(refused.says("r1 refuses r3: BadSignature"));

    // Who counts view by view never makes it.
    let apart = play("mixed_views_apart", &Bug::none(&TwoChain));
    apart.repeats(&broken);
    assert!(!apart.says("refuses r3: BadSignature"));

    for safe in [refused, apart] {
        assert!(!safe.says("agreement"));
        assert!(safe.says("r1 commits b8 at height 7"));
        assert!(safe.says("(all answered)"));
    }
}
