//! Tests of the warnings about a peer that cannot be reached.

use std::io::ErrorKind;

use tokio::net::TcpSocket;

use super::super::carrier::Carrier;
use super::super::handshake::HandshakeError;
use super::super::quic::Quic;
use super::super::tcp::Tcp;
use super::super::udp::Udp;
use super::super::unreached::Unreached;
use super::*;

/// The error of dialling `address` over `C`.
async fn failure<C: Carrier>(address: &str, key: u8, patience: Duration) -> HandshakeError {
    let limits = Limits { handshake: patience, ..Limits::peers() };
    let way = C::way(&identity(0), &[identity(key).key()]).unwrap();
    let hello = Hello::peer(Digest([9; 32]), ReplicaId(0));
    C::dial(&way, address, hello, limits).await.err().expect("no failure")
}

/// As if the other side used another transport: nothing else uses the port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_over_the_transport_is_named_with_the_remedy() {
    let deaf = TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    let refused = failure::<Tcp>(&address, 1, PATIENCE).await;
    assert!(
        matches!(&refused, HandshakeError::Unreachable(error) if error.kind() == ErrorKind::ConnectionRefused),
        "{refused:?}"
    );
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    for silent in [
        failure::<Quic>(&address, 1, Duration::from_millis(100)).await,
        failure::<Udp>(&address, 1, Duration::from_millis(100)).await,
    ] {
        assert!(
            matches!(&silent, HandshakeError::Unreachable(error) if error.kind() == ErrorKind::TimedOut),
            "{silent:?}"
        );
    }
    let text = |transport, kind: ErrorKind| {
        let error = HandshakeError::Unreachable(kind.into());
        Unreached::new(ReplicaId(1), "host:7000", transport).text(&error)
    };
    assert_eq!(
        text(TransportName::Quic, ErrorKind::TimedOut),
        "replica 1 at host:7000 is not reached: nothing answers over QUIC (timed out); is it started, does \
         its cluster.toml say transport = \"quic\" as the one here, and do firewalls let UDP through?"
    );
    assert_eq!(
        text(TransportName::Udp, ErrorKind::TimedOut),
        "replica 1 at host:7000 is not reached: nothing answers over UDP (timed out); is it started, does \
         its cluster.toml say transport = \"udp\" as the one here, and do firewalls let UDP through?"
    );
    assert_eq!(
        text(TransportName::Tcp, ErrorKind::ConnectionRefused),
        "replica 1 at host:7000 is not reached: nothing answers over TCP (connection refused); is it \
         started, does its cluster.toml say transport = \"tcp\" as the one here, and do firewalls let TCP \
         through?"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_and_another_chain_are_told_apart() {
    let tcp = Plan::new(TransportName::Tcp, 2);
    let quic = Plan::new(TransportName::Quic, 2);
    let udp = Plan::new(TransportName::Udp, 2);
    let _nodes = [tcp.start(1), quic.start(1), udp.start(1)];
    let [tcp, quic, udp] = [&tcp, &quic, &udp].map(|plan| &plan.members[1].address);
    for (key, chain) in [
        (failure::<Tcp>(tcp, 7, PATIENCE).await, failure::<Tcp>(tcp, 1, PATIENCE).await),
        (failure::<Quic>(quic, 7, PATIENCE).await, failure::<Quic>(quic, 1, PATIENCE).await),
        (failure::<Udp>(udp, 7, PATIENCE).await, failure::<Udp>(udp, 1, PATIENCE).await),
    ] {
        assert!(matches!(key, HandshakeError::Key), "{key:?}");
        assert!(
            matches!(chain, HandshakeError::Refused(Refusal::Chain(theirs), _) if theirs == CHAIN),
            "{chain:?}"
        );
    }
}
