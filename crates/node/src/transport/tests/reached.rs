//! What is said of a peer that cannot be reached.

use std::io::ErrorKind;

use super::super::carrier::Carrier;
use super::super::handshake::HandshakeError;
use super::super::quic::Quic;
use super::super::tcp::Tcp;
use super::super::unreached::Unreached;
use super::*;

/// How dialling over `C` fails where the other side uses `theirs`.
async fn failure<C: Carrier>(theirs: TransportName, key: u8) -> HandshakeError {
    let plan = Plan::new(theirs, 2);
    let _one = plan.start(1);
    let limits = Limits { handshake: Duration::from_millis(500), ..Limits::peers() };
    let way = C::way(&identity(0), identity(key).key(), &limits).unwrap();
    let hello = Hello::peer(Digest([9; 32]), ReplicaId(0));
    C::dial(&way, &plan.members[1].address, hello, limits).await.err().expect("no failure")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_transport_on_the_other_side_is_named_with_the_remedy() {
    let refused = failure::<Tcp>(TransportName::Quic, 1).await;
    assert!(
        matches!(&refused, HandshakeError::Unreachable(error) if error.kind() == ErrorKind::ConnectionRefused)
    );
    let silent = failure::<Quic>(TransportName::Tcp, 1).await;
    assert!(matches!(silent, HandshakeError::Unreachable(_)), "{silent:?}");
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
        text(TransportName::Tcp, ErrorKind::ConnectionRefused),
        "replica 1 at host:7000 is not reached: nothing answers over TCP (connection refused); is it \
         started, does its cluster.toml say transport = \"tcp\" as the one here, and do firewalls let TCP \
         through?"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_and_another_chain_are_told_apart() {
    for (key, chain) in [
        (failure::<Tcp>(TransportName::Tcp, 7).await, failure::<Tcp>(TransportName::Tcp, 1).await),
        (
            failure::<Quic>(TransportName::Quic, 7).await,
            failure::<Quic>(TransportName::Quic, 1).await,
        ),
    ] {
        assert!(matches!(key, HandshakeError::Key), "{key:?}");
        assert!(
            matches!(chain, HandshakeError::Refused(Refusal::Chain(theirs)) if theirs == CHAIN),
            "{chain:?}"
        );
    }
}
