//! Tests with hostile replicas, and with strangers on the port for replicas. Their acts are
//! counted, and the others are served.

use super::*;

over_each_transport!(
    random_bytes_harm_nobody,
    who_says_nothing_is_let_go,
    an_oversized_frame_ends_the_connection,
    a_frame_cut_off_is_never_delivered,
    bytes_that_trickle_in_do_not_hold_a_place,
    pings_keep_a_silent_connection_alive,
    another_version_is_refused_by_name_and_told_ours,
    garbage_for_a_hello_is_refused,
    the_half_open_keep_no_replica_out,
    the_known_hold_no_place,
);

const ZERO: Role = Role::Peer(ReplicaId(0));

/// Replica 1, alone. Replica 0 is the hostile one.
fn one(plan: &Plan) -> Node {
    plan.start(1)
}

/// A correct replica 0 is served.
async fn serves(plan: &Plan, node: &mut Node) {
    let zero = plan.start(0);
    until("connected", || zero.peers.is_connected(ReplicaId(1))).await;
    zero.peers.send(ReplicaId(1), Bytes::from_static(b"well"));
    while next(&mut node.inbound).await.1 != "well" {}
    zero.peers.close().await;
}

async fn random_bytes_harm_nobody(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut node = one(&plan);
    let address = plan.members[1].address.as_str();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut state = 1u64;
    for length in [0, 1, 5, 21, 100, 1200, 1452, 8000] {
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        match transport {
            TransportName::Tcp => {
                let mut tcp = TcpStream::connect(address).await.unwrap();
                // The replica may hang up before everything is written.
                let _ = tcp.write_all(&bytes).await;
            }
            TransportName::Quic => {
                // As it is, and as a first packet of the right version.
                for head in [&[][..], &[0xc0, 0, 0, 0, 1, 8]] {
                    let count = head.len().min(bytes.len());
                    bytes[..count].copy_from_slice(&head[..count]);
                    udp.send_to(&bytes, address).unwrap();
                }
            }
            TransportName::Udp => {
                // As it is, and as each kind of datagram: asks, openings, records.
                for kind in [None, Some(1), Some(2), Some(3), Some(4), Some(22), Some(0x2f)] {
                    if let (Some(first), Some(kind)) = (bytes.first_mut(), kind) {
                        *first = kind;
                    }
                    udp.send_to(&bytes, address).unwrap();
                }
            }
        }
    }
    serves(&plan, &mut node).await;
}

async fn who_says_nothing_is_let_go(transport: TransportName) {
    let mut plan = Plan::new(transport, 2);
    plan.limits.handshake = Duration::from_millis(300);
    let node = one(&plan);
    let member = &plan.members[1];
    match transport {
        TransportName::Tcp => {
            let silent = TcpStream::connect(&member.address).await.unwrap();
            until("counted", || value(&node.counters.handshake_timeout) == 1).await;
            drop(silent);
        }
        TransportName::Quic => {
            // Nothing after the TLS handshake, and no stream: the other side cannot see a stream
            // without data.
            let limits = Limits { handshake: PATIENCE, ..plan.limits };
            let (address, zero) = (&member.address, identity(0));
            let silent = super::super::quic::raw(address, &zero, member.key, &limits).await.ok();
            until("counted", || value(&node.counters.handshake_timeout) == 1).await;
            drop(silent);
        }
        TransportName::Udp => {
            // Nothing after the proof.
            let limits = Limits { handshake: PATIENCE, ..plan.limits };
            let (address, zero) = (&member.address, identity(0));
            let silent = super::super::udp::raw(address, &zero, member.key, &limits).await.ok();
            until("counted", || value(&node.counters.handshake_timeout) == 1).await;
            drop(silent);
        }
    }
    assert!(node.peers.connected().is_empty());
}

async fn an_oversized_frame_ends_the_connection(transport: TransportName) {
    for length in [Limits::peers().frame_bytes as u32 + 1, u32::MAX] {
        let plan = Plan::new(transport, 2);
        let mut node = one(&plan);
        let mut stream = raw_peer(&plan, 1, 0).await;
        raw_hello(&mut stream, ZERO).await;
        let good = handshake::framed(Bytes::from_static(b"good"));
        stream.write_all(&[good.as_slice(), &length.to_le_bytes()].concat()).await.unwrap();
        until_hung_up(stream).await;
        assert_eq!(next(&mut node.inbound).await, (ReplicaId(0), Bytes::from_static(b"good")));
        until("counted", || value(&node.counters.oversized_frame) == 1).await;
        serves(&plan, &mut node).await;
    }
}

async fn a_frame_cut_off_is_never_delivered(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut node = one(&plan);
    let mut stream = raw_peer(&plan, 1, 0).await;
    raw_hello(&mut stream, ZERO).await;
    let frame = handshake::framed(Bytes::from(vec![1; 1000]));
    stream.write_all(&frame[..900]).await.unwrap();
    stream.shutdown().await.unwrap();
    until_hung_up(stream).await;
    until("it is over", || value(&node.counters.closed) == 1).await;
    assert!(node.inbound.is_empty());
    serves(&plan, &mut node).await;
}

async fn bytes_that_trickle_in_do_not_hold_a_place(transport: TransportName) {
    let mut plan = Plan::new(transport, 2);
    plan.limits.idle = Duration::from_millis(100);
    plan.limits.ping_every = Duration::from_millis(20);
    let node = one(&plan);
    let mut stream = raw_peer(&plan, 1, 0).await;
    raw_hello(&mut stream, ZERO).await;
    let frame = handshake::framed(Bytes::from(vec![1; 100_000]));
    for byte in frame.chunks(1) {
        if stream.write_all(byte).await.is_err() || value(&node.counters.idle) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until("counted", || value(&node.counters.idle) == 1).await;
}

async fn pings_keep_a_silent_connection_alive(transport: TransportName) {
    let mut plan = Plan::new(transport, 2);
    plan.limits.ping_every = Duration::from_millis(1);
    let mut node = one(&plan);
    let mut stream = raw_peer(&plan, 1, 0).await;
    raw_hello(&mut stream, ZERO).await;
    // The replica's hello, then pings.
    let mut bytes = vec![0; handshake::framed(hello_of_one().encode()).len() + 4 * 50];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes.ends_with(&[0; 4 * 50]));
    for _ in 0..50 {
        stream.write_all(&[0; 4]).await.unwrap();
    }
    stream.write_all(&handshake::framed(Bytes::from_static(b"x"))).await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(next(&mut node.inbound).await, (ReplicaId(0), Bytes::from_static(b"x")));
}

fn hello_of_one() -> Hello {
    Hello::peer(CHAIN, ReplicaId(1))
}

async fn another_version_is_refused_by_name_and_told_ours(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut node = one(&plan);
    let mut stream = raw_peer(&plan, 1, 0).await;
    let newer = Versions::PROGRAM.newest() + 1;
    let versions = Versions::new(newer, newer).unwrap();
    let mut hello = Hello { versions, ..Hello::of(CHAIN, ZERO) }.encode().to_vec();
    // A hello of another version may continue in another format.
    hello.extend_from_slice(b"and more");
    stream.write_all(&handshake::framed(hello.into())).await.unwrap();
    stream.flush().await.unwrap();
    let bytes = until_hung_up(stream).await;
    assert_eq!(bytes, handshake::framed(hello_of_one().encode()));
    until("counted", || value(&node.counters.wrong_version) == 1).await;
    serves(&plan, &mut node).await;
}

async fn garbage_for_a_hello_is_refused(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut node = one(&plan);
    let long = handshake::framed(Bytes::from(vec![0; 10_000]));
    for garbage in [vec![0; 4], b"GET / HTTP/1.1\r\n\r\n".to_vec(), long] {
        let mut stream = raw_peer(&plan, 1, 0).await;
        stream.write_all(&garbage).await.unwrap();
        stream.flush().await.unwrap();
        until_hung_up(stream).await;
    }
    until("counted", || value(&node.counters.bad_handshake) == 3).await;
    serves(&plan, &mut node).await;
}

/// Connections in the handshake take places, also from an address of replicas. They give them up as
/// soon as others need them.
async fn the_half_open_keep_no_replica_out(transport: TransportName) {
    let mut plan = Plan::new(transport, 2);
    (plan.limits.half_open, plan.limits.half_open_per_address) = (4, 4);
    // They would keep their places without end.
    plan.limits.handshake = Duration::from_secs(3600);
    let mut node = one(&plan);
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(raw_peer(&plan, 1, 0).await);
    }
    until("the oldest gave way", || value(&node.counters.gave_way) >= 8).await;
    serves(&plan, &mut node).await;
    drop(held);
}

/// Established replicas hold no place of the handshake.
async fn the_known_hold_no_place(transport: TransportName) {
    let mut plan = Plan::new(transport, 4);
    (plan.limits.half_open, plan.limits.half_open_per_address) = (1, 1);
    let last = plan.start(3);
    let mut others = Vec::new();
    for number in 0..3 {
        others.push(plan.start(number));
        until("in", || last.peers.connected().len() == usize::from(number) + 1).await;
    }
    assert_eq!(value(&last.counters.too_many_connections), 0);
}
