//! Lies to clients, and clients that lie.

use quorate_adversary::lying_client::{Lie, LyingClient};
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::Decode as _;
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::rules;
use quorate_core::{Sequence, SessionId};
use quorate_sim::keys::{CHAIN, Key};
use quorate_sim::{Cluster, Config};

use crate::matrix::{LIARS, must_answer};

#[test]
fn clients_believe_no_lie_that_f_replicas_tell() {
    let make = quorate_adversary::named("lying-replies").expect("it has a name");
    for place in LIARS {
        for rules in rules::ALL {
            let what = format!("{}, {place:?}", rules.facts().name);
            let pacemaker = quorate_core::protocols::hotstuff::pacemaker::Kind::TimeoutCertificates;
            let mut cluster = crate::matrix::cluster(rules, pacemaker, place, make);
            must_answer(&mut cluster, 20, &what);
            assert!(place.1.iter().all(|liar| cluster.deeds(*liar).answers >= 20), "{what}");
            // The liars' words alone would have been enough for a client that counts to f.
            assert_eq!(cluster.oracles.executed_of(0), cluster.clients[0].acknowledged, "{what}");
        }
    }
}

/// The lying client's name in its commands; the cluster's own clients are c0 and c1.
const LIAR: usize = 7;

#[test]
fn a_client_that_lies_harms_itself_alone() {
    for rules in rules::ALL {
        let what = rules.facts().name;
        let mut cluster = Cluster::new(Config { rules, clients: 2, ..Config::default() });
        must_answer(&mut cluster, 2, what);
        let key = Key::of_client(LIAR);
        let open = Frame::open(key.public_key(), 5, &CHAIN, |s| {
            quorate_core::base::crypto::Signer::sign(&key, s)
        });
        let open = std::sync::Arc::new(open);
        (0..4).for_each(|to| cluster.submit_to(to, open.clone()));
        cluster.run_for(1_000_000);
        // The two clients of the cluster have opened theirs before.
        let session = SessionId(3);
        let mut liar = LyingClient { signer: &key, chain: CHAIN, session, next: Sequence(1) };
        for number in 1..=20u64 {
            cluster.oracles.asked.insert(format!("c{LIAR}"), number);
            let [one, two] = ["a", "b"].map(|twin| format!("c{LIAR}:{number} {twin}"));
            let (one, two) = ([one.as_bytes()], [two.as_bytes()]);
            for lie in Lie::ALL {
                for (at, frame) in liar.lie(lie, &one, &two).into_iter().enumerate() {
                    // Each twin goes to its own half first.
                    for to in 0..4 {
                        cluster.submit_to((to + 2 * at) % 4, frame.clone());
                    }
                }
            }
            must_answer(&mut cluster, 1, what);
            cluster.run_for(100_000);
            assert_eq!(cluster.oracles.executed_of(LIAR), number, "{what}: one of two twins");
            liar.next = liar.next.next();
        }
        assert!(cluster.unsigned >= 20 * 4, "{what}: {}", cluster.unsigned);
        assert!(cluster.run_until(10_000_000, Cluster::is_level), "{what}");
    }
}

#[test]
fn a_frame_that_is_too_large_is_refused_by_its_count() {
    let key = Key::of_client(LIAR);
    let liar = LyingClient { signer: &key, chain: CHAIN, session: SessionId(1), next: Sequence(1) };
    let error = Frame::from_bytes(liar.oversized()).expect_err("more commands than any may have");
    assert!(error.to_string().contains("commands in a frame"), "{error}");
    let honest = liar.frame(&[b"c7:1 "]).expect("a small frame");
    assert!(Frame::from_bytes(honest.encoded_bytes().clone()).is_ok());
}
