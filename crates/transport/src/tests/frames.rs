//! Tests of framing and of the outbox, without sockets.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::super::framing::{FrameReader, FrameWriter, Oversized, STAGE_BYTES};
use super::super::outbox::{Outbox, Room, Taken};
use super::*;

fn written(writer: &FrameWriter) -> Vec<u8> {
    let (stage, large) = writer.parts();
    [stage, large].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The frames do not depend on how writes and reads are cut.
    #[test]
    fn frames_survive_any_cutting(
        sizes in prop::collection::vec(prop_oneof![0..300usize, 1000..40_000usize], 0..20),
        cuts in prop::collection::vec(1..9000usize, 1..10),
    ) {
        let frames: Vec<_> = sizes.iter().enumerate()
            .map(|(n, size)| Bytes::from(vec![n as u8; *size])).collect();
        let mut cuts = cuts.iter().cycle();
        let mut wire = Vec::new();
        let mut writer = FrameWriter::default();
        for frame in &frames {
            while writer.is_full() {
                let all = written(&writer);
                let count = all.len().min(*cuts.next().unwrap());
                wire.extend_from_slice(&all[..count]);
                writer.advance(count);
            }
            writer.push(frame.clone());
        }
        wire.extend(written(&writer));
        let mut reader = FrameReader::new(40_000);
        let mut read = Vec::new();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            reader.extend(chunk);
            rest = after;
            while let Some(frame) = reader.next().unwrap() {
                read.push(frame);
            }
        }
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn no_bytes_upset_the_readers(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut reader = FrameReader::new(64);
        reader.extend(&bytes);
        while let Ok(Some(frame)) = reader.next() {
            prop_assert!(frame.len() <= 64);
        }
        let hello = Hello::of(CHAIN, Role::Client).encode();
        prop_assert!(Hello::of(CHAIN, Role::Client).meet(bytes.clone().into()).is_err());
        for end in 0..hello.len() {
            prop_assert_eq!(Hello::of(CHAIN, Role::Client).meet(hello.slice(..end)), Err(Refusal::Garbage));
        }
    }
}

#[test]
fn an_announced_length_allocates_nothing() {
    let mut reader = FrameReader::new(1000);
    reader.extend(&1001u32.to_le_bytes());
    assert_eq!(reader.next(), Err(Oversized));
    let mut reader = FrameReader::new(usize::MAX);
    reader.extend(&u32::MAX.to_le_bytes());
    assert_eq!(reader.next(), Ok(None));
    assert!(reader.capacity() < 4096, "{}", reader.capacity());
}

#[test]
fn small_messages_share_a_write_and_large_ones_are_not_copied() {
    let outbox = Outbox::new(Room { bytes: 1 << 30, messages: 1 << 20 });
    let number = outbox.connect(3);
    for _ in 0..10_000 {
        outbox.push(Bytes::from_static(&[5; 96])).unwrap();
    }
    let mut writer = FrameWriter::default();
    let waker = std::task::Waker::noop();
    let taken = outbox.take(number, &mut writer, waker, false);
    let frames = (STAGE_BYTES as u64).div_ceil(100);
    assert_eq!(taken, Taken::Some { frames, bytes: 96 * frames, left: 10_000 - frames });
    assert_eq!(writer.parts().0.len() as u64, 100 * frames);
    assert!(writer.is_full());
    writer.advance(writer.parts().0.len());
    assert!(writer.is_empty() && !writer.is_full(), "there is room again");
    let large = Bytes::from(vec![1; 1 << 20]);
    writer.push(large.clone());
    assert_eq!(writer.parts().1.as_ptr(), large.as_ptr());
}

#[test]
fn a_full_outbox_drops_the_oldest_or_refuses() {
    let outbox = Outbox::new(Room { bytes: 1000, messages: 5 });
    let number = outbox.connect(3);
    let message = |n: u8, size| Bytes::from(vec![n; size]);
    let dropped: u64 = (0..8).map(|n| outbox.push_dropping(message(n, 10), false)).sum();
    assert_eq!(dropped, 3);
    assert_eq!(outbox.push_dropping(message(8, 990), false), 4);
    assert_eq!(outbox.push(message(9, 1)), Err(SendError::Full));
    // One message longer than the room is sent alone.
    assert_eq!(outbox.push_dropping(message(10, 5000), false), 2);
    let mut writer = FrameWriter::default();
    let waker = std::task::Waker::noop();
    let expected = Taken::Some { frames: 1, bytes: 5000, left: 0 };
    assert_eq!(outbox.take(number, &mut writer, waker, false), expected);
    assert_eq!(outbox.push_or_break(message(1, 600)), Ok(()));
    assert_eq!(outbox.push_or_break(message(2, 600)), Err(SendError::Full));
    assert_eq!(outbox.push_or_break(message(3, 6)), Err(SendError::Closed));
    assert_eq!(outbox.take(number, &mut FrameWriter::default(), waker, false), Taken::Overflowed);
    assert_eq!(outbox.connect(3), number + 1);
    assert_eq!(outbox.take(number, &mut FrameWriter::default(), waker, false), Taken::Replaced);
}

/// Bodies that travel ahead leave one by one, when the socket has taken the rest, and are the first
/// to be dropped.
#[test]
fn what_is_behind_waits_for_everything_else() {
    let outbox = Outbox::new(Room { bytes: 1000, messages: 5 });
    let number = outbox.connect(3);
    let message = |size| Bytes::from(vec![7; size]);
    let dropped = [(300, true), (301, true), (10, false), (11, false)]
        .map(|(size, behind)| outbox.push_dropping(message(size), behind));
    assert_eq!(dropped, [0; 4]);
    let take = |is_idle| {
        outbox.take(number, &mut FrameWriter::default(), std::task::Waker::noop(), is_idle)
    };
    assert_eq!(take(false), Taken::Some { frames: 2, bytes: 21, left: 2 });
    assert_eq!(take(false), Taken::Behind);
    assert_eq!(take(true), Taken::Some { frames: 1, bytes: 300, left: 1 });
    assert_eq!(outbox.push_dropping(message(12), false), 0);
    assert_eq!(take(true), Taken::Some { frames: 1, bytes: 12, left: 1 });
    assert_eq!(outbox.push_dropping(message(900), false), 1, "the one behind makes room");
    outbox.push_dropping(message(20), true);
    outbox.close();
    assert_eq!(take(true), Taken::Some { frames: 1, bytes: 900, left: 1 });
    assert_eq!(take(false), Taken::Behind, "it is sent before the end");
    assert_eq!(take(true), Taken::Some { frames: 1, bytes: 20, left: 0 });
    assert_eq!(take(false), Taken::Finished);
}

/// Messages taken out release their room, in the long run too.
#[test]
fn an_outbox_that_is_emptied_has_all_its_room_again() {
    let outbox = Outbox::new(Room { bytes: 1000, messages: 5 });
    let number = outbox.connect(3);
    let waker = std::task::Waker::noop();
    for round in 0..100 {
        let mut pushed = 0;
        while outbox.push(Bytes::from(vec![round; 250])) == Ok(()) {
            pushed += 1;
        }
        assert_eq!(pushed, 4, "in round {round}");
        let mut writer = FrameWriter::default();
        let expected = Taken::Some { frames: 4, bytes: 1000, left: 0 };
        assert_eq!(outbox.take(number, &mut writer, waker, false), expected);
    }
}

/// The task that polls the connection is not woken for its own messages. Any other sender wakes it.
#[test]
fn the_owner_of_a_connection_is_not_woken_by_what_it_sends() {
    let outbox = Outbox::new(Room { bytes: 100, messages: 5 });
    let number = outbox.connect(3);
    let woken = Arc::new(Woken::default());
    let (waker, mut writer) = (std::task::Waker::from(Arc::clone(&woken)), FrameWriter::default());
    assert_eq!(outbox.take(number, &mut writer, &waker, false), Taken::Nothing);
    assert_eq!(outbox.put_or_break(Bytes::from_static(b"mine")), Ok(()));
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(outbox.push(Bytes::from_static(b"theirs")), Ok(()));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(
        outbox.take(number, &mut writer, &waker, false),
        Taken::Some { frames: 2, bytes: 10, left: 0 }
    );
    assert_eq!(outbox.put_or_break(Bytes::from(vec![1; 101])), Ok(()), "alone it goes");
    assert_eq!(outbox.put_or_break(Bytes::from_static(b"more")), Err(SendError::Full));
    assert_eq!(outbox.put_or_break(Bytes::from_static(b"")), Err(SendError::Closed));
    assert_eq!(outbox.take(number, &mut writer, &waker, false), Taken::Overflowed);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The count changes whenever an outbox that shares it changes.
#[test]
fn connections_and_their_ends_are_counted() {
    let changes = Arc::new(AtomicU64::new(0));
    let room = Room { bytes: 100, messages: 5 };
    let outboxes = [0, 1].map(|_| Outbox::telling(room, Arc::clone(&changes)));
    let first = outboxes[0].connect(3);
    assert_eq!((changes.load(Ordering::Acquire), outboxes[0].is_connected()), (1, true));
    outboxes[1].connect(3);
    outboxes[0].disconnect(first);
    assert_eq!((changes.load(Ordering::Acquire), outboxes[0].is_connected()), (3, false));
}

/// A peer gets blocks of megabytes and little in between: written blocks are released.
#[test]
fn a_long_message_that_was_written_is_kept_no_longer() {
    struct Counted(Arc<()>);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            assert!(Arc::strong_count(&self.0) > 1);
            &[7; 1 << 20]
        }
    }
    let kept = Arc::new(());
    let mut writer = FrameWriter::default();
    writer.push(Bytes::from_owner(Counted(Arc::clone(&kept))));
    while !writer.is_empty() {
        assert_eq!(Arc::strong_count(&kept), 2);
        let (stage, large) = writer.parts();
        let count = (stage.len() + large.len()).min(100_000);
        writer.advance(count);
    }
    assert_eq!(Arc::strong_count(&kept), 1);
}
