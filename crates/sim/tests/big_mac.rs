//! The big-MAC attack (Clement, Wong, Alvisi, Dahlin and Marchetti, *Making Byzantine Fault
//! Tolerant Systems Tolerate Byzantine Faults*, NSDI 2009, section 3.2): a client sends requests
//! whose authenticators the primary alone finds right. The primary orders them, nobody else can
//! accept that, and the view is lost, and so is the next one.
//!
//! Requests are signed here, whatever replicas say each other with: what one replica takes for the
//! client's, all do. Where requests carry MACs only, in the laboratory, the attack succeeds.

use std::sync::Arc;

use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::pbft::{Authentication, Settings};
use quorate_sim::family::Pbfts;
use quorate_sim::keys::{CHAIN, Key, authenticator_for, with_authenticators};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

const SECOND: u64 = 1_000_000;

fn start(authentication: Authentication, macs_only: bool) -> Cluster<Pbfts> {
    let pbft = Settings { authentication, ..Settings::default() };
    let mut config = Config { pbft, ..Config::default() };
    if macs_only {
        config.verify = with_authenticators;
    }
    let mut cluster = Cluster::of(config, Trace::default());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(60 * SECOND), "it does not work by itself");
    cluster
}

/// A correct client asks again and again for half a minute, and a faulty one sends each replica a
/// request a second that it alone takes for authentic. How many requests of the first were
/// answered, and how many views were lost.
fn attack(cluster: &mut Cluster<Pbfts>) -> (u64, u64) {
    let (before, view) = (cluster.clients[0].acknowledged, cluster.highest_view().0);
    let faulty = Key::of_client(77);
    for round in 1..=30 {
        for replica in 0..4 {
            let incarnation = 10 * round + replica as u64;
            let frame = Frame::open(faulty.public_key(), incarnation, &CHAIN, |statement| {
                authenticator_for(&faulty, statement, &[replica])
            });
            cluster.intrude(replica, Arc::new(frame));
        }
        cluster.run_for(SECOND / 2);
        if cluster.is_answered() {
            cluster.request(0, 1, 10);
        }
        cluster.run_for(SECOND / 2);
    }
    (cluster.clients[0].acknowledged - before, cluster.highest_view().0 - view)
}

#[test]
fn it_fails_where_requests_are_signed() {
    for authentication in [Authentication::Signatures, Authentication::Macs] {
        let mut cluster = start(authentication, false);
        assert_eq!(attack(&mut cluster), (30, 0));
        assert!(cluster.unsigned >= 120, "every request of the faulty client is refused");
    }
}

/// Not a mode of replicas: it shows that the attack above is one.
#[test]
fn it_succeeds_where_requests_carry_macs_only() {
    let mut cluster = start(Authentication::Macs, true);
    let (answered, lost) = attack(&mut cluster);
    assert!(answered <= 5, "{answered} requests were answered");
    assert!(lost >= 3, "{lost} views were lost");
}
