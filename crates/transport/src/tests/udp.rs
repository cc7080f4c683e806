//! Tests of UDP alone.

use std::net::UdpSocket;

use super::super::carrier::Carrier as _;
use super::super::udp::Udp;
use super::*;

/// The first datagram of a dialling side, and the one that follows its token.
async fn first_datagrams(token: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let limits = Limits { handshake: PATIENCE, ..Limits::peers() };
    let way = Udp::way(&identity(0), identity(1).key()).unwrap();
    let hello = Hello::peer(CHAIN, ReplicaId(0));
    let mut datagrams = [vec![0; 1 << 16], vec![0; 1 << 16]];
    tokio::select! {
        _ = Udp::dial(&way, &address, hello, limits) => panic!("a connection to nobody"),
        () = async {
            let (count, from) = sink.recv_from(&mut datagrams[0]).await.unwrap();
            datagrams[0].truncate(count);
            let answer = [&[2], &datagrams[0][1..9], token].concat();
            sink.send_to(&answer, from).await.unwrap();
            // It may have asked twice.
            while datagrams[1][0] != 3 {
                datagrams[1].resize(1 << 16, 0);
                let count = sink.recv(&mut datagrams[1]).await.unwrap();
                datagrams[1].truncate(count);
            }
        } => {}
    }
    datagrams.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_up_address_takes_no_place() {
    let mut plan = Plan::new(TransportName::Udp, 2);
    (plan.limits.half_open, plan.limits.half_open_per_address) = (1, 1);
    // A forger that gets a place would keep it until it gives way, and that is counted.
    plan.limits.handshake = Duration::from_secs(3600);
    let node = plan.start(1);
    // The forger does not receive the answer, so it invents a token.
    let (ask, open) = first_datagrams(&[7; 16]).await;
    let forger = UdpSocket::bind("127.0.0.1:0").unwrap();
    forger.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = vec![0; 1 << 16];
    for _ in 0..10 {
        forger.send_to(&open, &plan.members[1].address).unwrap();
        forger.send_to(&ask, &plan.members[1].address).unwrap();
        let count = forger.recv(&mut answer).unwrap();
        assert_eq!(answer[0], 2, "a token, and no handshake");
        assert!(count < ask.len(), "{count}");
    }
    let zero = plan.start(0);
    until("connected", || zero.peers.is_connected(ReplicaId(1))).await;
    assert_eq!(value(&node.counters.gave_way), 0);
}

/// Otherwise anybody could end the connections of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_had_the_session_can_say_that_it_is_gone() {
    let plan = Plan::new(TransportName::Udp, 2);
    let node = plan.start(1);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    // A record of an unknown session.
    let record = [0x2f; 100];
    stranger.send_to(&record, &plan.members[1].address).unwrap();
    let mut answer = [0; 100];
    let count = stranger.recv(&mut answer).unwrap();
    assert_eq!((count, answer[0]), (17, 4));
    // Each address has a mark of its own, so the mark of one is useless against another.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    other.send_to(&record, &plan.members[1].address).unwrap();
    let mut another = [0; 100];
    other.recv(&mut another).unwrap();
    assert_ne!(answer[..17], another[..17]);
    drop(node);
}
