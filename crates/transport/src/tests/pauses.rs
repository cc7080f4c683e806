//! Tests of pauses in reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{BufReader, DuplexStream};

use super::super::carrier::Stream;
use super::super::framing::FrameReader;
use super::super::handshake::{Established, framed};
use super::super::link::{End, Link};
use super::super::outbox::Outbox;
use super::super::pause::Pause;
use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// A stream in memory, buffered as the transports are.
type Pipe = BufReader<DuplexStream>;

impl Stream for Pipe {
    fn poll_write_parts(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, if stage.is_empty() { large } else { stage })
    }
}

/// The shortest idle time there is: during a pause silence counts for nothing.
#[tokio::test]
async fn a_paused_connection_writes_does_not_read_and_ends_with_the_other_side() {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    far.write_all(&framed(Bytes::from_static(b"unheard"))).await.unwrap();
    let millisecond = Duration::from_millis(1);
    let limits = Limits { idle: millisecond, ping_every: millisecond, ..Limits::clients() };
    let established = Established {
        stream: BufReader::new(near),
        reader: FrameReader::new(1 << 20),
        role: Role::Client,
        version: 1,
        key: None,
    };
    let (outbox, counters) = (Arc::new(Outbox::new(limits.room())), Arc::<Counters>::default());
    let pause = Arc::<Pause>::default();
    pause.last(LONG);
    let link = Link::new(established, Arc::clone(&outbox), &limits, Arc::clone(&counters));
    let (sender, mut inbound) = inbound(8, 1 << 20);
    let link = link.pausing(pause);
    let running = tokio::spawn(async move { link.run(&sender, &silent(), |frame| frame).await });
    let mut pings = [1; 4 * 50];
    far.read_exact(&mut pings).await.unwrap();
    assert_eq!(pings, [0; 4 * 50]);
    outbox.push(Bytes::from_static(b"heard")).unwrap();
    let mut word = [0; 4];
    while word == [0; 4] {
        far.read_exact(&mut word).await.unwrap();
    }
    assert_eq!(word, 5u32.to_le_bytes());
    assert_eq!((value(&counters.frames_in), inbound.try_recv().is_none()), (0, true));
    drop(far);
    assert_eq!(running.await.unwrap(), End::Closed);
    assert_eq!(value(&counters.frames_in), 0);
}

/// A client that is not heard finds its socket full, at last, and others are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_client_has_to_wait_and_others_do_not() {
    let mut door = door(Limits::clients()).await;
    let little = Limits { queue_messages: 1, ..Limits::clients() };
    let address = door.address.to_string();
    let dialled = dial(&address, identity(3).key(), CHAIN, little).await;
    let (sender, mut receiver) = dialled.unwrap();
    let (flooder, event) = next(&mut door.inbound).await;
    assert_eq!(event, Event::Opened);
    door.listener.pause(flooder, LONG);
    let flood = tokio::spawn(async move {
        let frame = Bytes::from(vec![7; 1 << 20]);
        let mut sent = 0u32;
        while sender.send(frame.clone()).await.is_ok() {
            sent += 1;
            // As much as no socket holds.
            assert!(sent < 1 << 10, "nothing holds it back");
        }
    });
    for _ in 0..20 {
        door.serves_somebody().await;
        door.listener.send(flooder, Bytes::from_static(b"later")).unwrap();
        assert_eq!(receiver.receive().await.unwrap(), "later");
    }
    assert_eq!(value(&door.counters.frames_in), 20, "those of others");
    assert!(!flood.is_finished());
    door.listener.disconnect(flooder);
    while next(&mut door.inbound).await != (flooder, Event::Closed) {}
    flood.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_and_what_was_sent_meanwhile_arrives() {
    let mut door = door(Limits::clients()).await;
    let (sender, _receiver) = door.dial().await;
    let (id, event) = next(&mut door.inbound).await;
    assert_eq!(event, Event::Opened);
    door.listener.pause(id, Duration::from_millis(20));
    for number in 0..10 {
        sender.send(Bytes::from(vec![number; 10])).await.unwrap();
    }
    for number in 0..10 {
        let frame = Event::Frame(Bytes::from(vec![number; 10]));
        assert_eq!(next(&mut door.inbound).await, (id, frame));
    }
}
