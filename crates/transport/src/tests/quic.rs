//! Tests of QUIC alone.

use std::net::UdpSocket;

use super::super::carrier::Carrier as _;
use super::super::quic::Quic;
use super::*;

/// The first datagram of a connection to replica 1.
async fn first_datagram() -> Vec<u8> {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let limits = Limits { handshake: PATIENCE, ..Limits::peers() };
    let way = Quic::way(&identity(0), &[identity(1).key()]).unwrap();
    let hello = Hello::peer(CHAIN, ReplicaId(0));
    let mut datagram = vec![0; 1 << 16];
    let count = tokio::select! {
        _ = Quic::dial(&way, &address, hello, limits) => panic!("a connection to nobody"),
        count = sink.recv(&mut datagram) => count.unwrap(),
    };
    datagram.truncate(count);
    datagram
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_up_address_takes_no_place() {
    let mut plan = Plan::new(TransportName::Quic, 2);
    (plan.limits.half_open, plan.limits.half_open_per_address) = (1, 1);
    // A forger that gets a place would keep it until it gives way, and that is counted.
    plan.limits.handshake = Duration::from_secs(3600);
    let node = plan.start(1);
    let datagram = first_datagram().await;
    assert!(datagram.len() >= 1200, "a first datagram has at least 1200 bytes");
    // The forger does not receive the answer.
    let forger = UdpSocket::bind("127.0.0.1:0").unwrap();
    forger.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = vec![0; 1 << 16];
    for _ in 0..10 {
        forger.send_to(&datagram, &plan.members[1].address).unwrap();
        let count = forger.recv(&mut answer).unwrap();
        // A retry is the third of four long kinds, and is no longer than the datagram.
        assert_eq!(answer[0] >> 4, 0b1111);
        assert!(count < 200, "{count}");
    }
    let zero = plan.start(0);
    until("connected", || zero.peers.is_connected(ReplicaId(1))).await;
    assert_eq!(value(&node.counters.gave_way), 0);
}
