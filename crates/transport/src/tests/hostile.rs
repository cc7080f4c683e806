//! Tests with hostile clients. Their acts are counted, and the others are served.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_and_broken_handshakes_harm_nobody() {
    let mut door = door(Limits::clients()).await;
    let mut state = 1u64;
    for length in [0, 1, 5, 100, 10_000] {
        let mut tcp = TcpStream::connect(door.address).await.unwrap();
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        // The replica may hang up before everything is written.
        let _ = tcp.write_all(&bytes).await;
    }
    until("all counted", || value(&door.counters.bad_handshake) == 5).await;
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_nothing_is_let_go() {
    let mut limits = Limits::clients();
    limits.handshake = Duration::from_millis(50);
    let door = door(limits).await;
    let silent = TcpStream::connect(door.address).await.unwrap();
    until("counted", || value(&door.counters.handshake_timeout) == 1).await;
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_frame_ends_the_connection() {
    for length in [Limits::clients().frame_bytes as u32 + 1, u32::MAX] {
        let mut door = door(Limits::clients()).await;
        let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
        raw_hello(&mut stream, Role::Client).await;
        let good = handshake::framed(Bytes::from_static(b"good"));
        stream.write_all(&[good.as_slice(), &length.to_le_bytes()].concat()).await.unwrap();
        until_hung_up(stream).await;
        let (id, event) = next(&mut door.inbound).await;
        assert_eq!(event, Event::Opened);
        let good = Event::Frame(Bytes::from_static(b"good"));
        assert_eq!(next(&mut door.inbound).await, (id, good));
        assert_eq!(next(&mut door.inbound).await, (id, Event::Closed));
        assert_eq!(value(&door.counters.oversized_frame), 1);
        door.serves_somebody().await;
    }
}

/// A frame of the greatest length passes over a real connection, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_frame_is_taken() {
    let mut door = door(Limits::clients()).await;
    let longest = Bytes::from(vec![7; Limits::clients().frame_bytes]);
    let (sender, mut receiver) = door.dial().await;
    let (id, event) = next(&mut door.inbound).await;
    assert_eq!(event, Event::Opened);
    sender.send(longest.clone()).await.unwrap();
    assert_eq!(next(&mut door.inbound).await, (id, Event::Frame(longest.clone())));
    door.listener.send(id, longest.clone()).unwrap();
    let received = tokio::time::timeout(PATIENCE, receiver.receive()).await.unwrap();
    assert_eq!(received, Some(longest));
    assert_eq!(value(&door.counters.oversized_frame), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_cut_off_is_never_delivered() {
    let mut door = door(Limits::clients()).await;
    let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
    raw_hello(&mut stream, Role::Client).await;
    let frame = handshake::framed(Bytes::from(vec![1; 1000]));
    stream.write_all(&frame[..900]).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    assert_eq!(next(&mut door.inbound).await.1, Event::Opened);
    assert_eq!(next(&mut door.inbound).await.1, Event::Closed);
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_trickle_in_do_not_hold_a_place() {
    let mut limits = Limits::clients();
    limits.idle = Duration::from_millis(100);
    limits.ping_every = Duration::from_millis(20);
    let door = door(limits).await;
    let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
    raw_hello(&mut stream, Role::Client).await;
    let frame = handshake::framed(Bytes::from(vec![1; 100_000]));
    for byte in frame.chunks(1) {
        if stream.write_all(byte).await.is_err() || value(&door.counters.idle) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until("counted", || value(&door.counters.idle) == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_keep_a_silent_connection_alive() {
    let mut limits = Limits::clients();
    limits.ping_every = Duration::from_millis(1);
    let mut door = door(limits).await;
    let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
    raw_hello(&mut stream, Role::Client).await;
    // The replica's hello, then pings.
    let mut bytes = vec![0; handshake::framed(hello_of_three().encode()).len() + 4 * 50];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes.ends_with(&[0; 4 * 50]));
    for _ in 0..50 {
        stream.write_all(&[0; 4]).await.unwrap();
    }
    stream.write_all(&handshake::framed(Bytes::from_static(b"x"))).await.unwrap();
    assert_eq!(next(&mut door.inbound).await.1, Event::Opened);
    assert_eq!(next(&mut door.inbound).await.1, Event::Frame(Bytes::from_static(b"x")));
}

fn hello_of_three() -> Hello {
    Hello::of(CHAIN, Role::Server(ReplicaId(3)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_by_name_and_told_ours() {
    let mut door = door(Limits::clients()).await;
    let newer = Versions::PROGRAM.newest() + 1;
    let ranges = [(newer, newer), (newer, u16::MAX), (u16::MAX, u16::MAX)];
    let ranges = ranges.map(|(oldest, newest)| {
        let versions = Versions::new(oldest, newest).unwrap();
        Hello { versions, ..Hello::of(CHAIN, Role::Client) }.encode().to_vec()
    });
    // Of the versions before there were ranges.
    let hellos = ranges.into_iter().chain([0, 1, 2].map(super::versions::hello_without_range));
    for (refused, mut hello) in (1..).zip(hellos) {
        let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
        // A hello of another version may continue in another format.
        hello.extend_from_slice(b"and more");
        stream.write_all(&handshake::framed(hello.into())).await.unwrap();
        let bytes = until_hung_up(stream).await;
        assert_eq!(bytes, handshake::framed(hello_of_three().encode()));
        until("counted", || value(&door.counters.wrong_version) == refused).await;
    }
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_for_a_hello_is_refused() {
    let mut door = door(Limits::clients()).await;
    let long = handshake::framed(Bytes::from(vec![0; 10_000]));
    for garbage in [vec![0; 4], b"GET / HTTP/1.1\r\n\r\n".to_vec(), long] {
        let mut stream = raw(&door.address.to_string(), identity(3).key(), None).await;
        stream.write_all(&garbage).await.unwrap();
        until_hung_up(stream).await;
    }
    until("counted", || value(&door.counters.bad_handshake) == 3).await;
    door.serves_somebody().await;
}
