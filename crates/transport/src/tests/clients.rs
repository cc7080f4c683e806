//! Tests of the listener for clients.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_comes_is_answered_and_goes() {
    let mut door = door(Limits::clients()).await;
    let (sender, mut receiver) = door.dial().await;
    assert_eq!(sender.replica(), ReplicaId(3));
    let (id, event) = next(&mut door.inbound).await;
    assert_eq!(event, Event::Opened);
    for size in [1, 100, 5000, 1 << 20] {
        let frame = Bytes::from(vec![9; size]);
        sender.send(frame.clone()).await.unwrap();
        assert_eq!(next(&mut door.inbound).await, (id, Event::Frame(frame.clone())));
        door.listener.send(id, frame.clone()).unwrap();
        assert_eq!(receiver.receive().await.unwrap(), frame);
    }
    assert_eq!(door.listener.connections(), 1);
    drop((sender, receiver));
    assert_eq!(next(&mut door.inbound).await, (id, Event::Closed));
    assert_eq!(door.listener.send(id, Bytes::new()), Err(SendError::Closed));
    assert_eq!(door.listener.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_knows_whom_it_talks_to() {
    let mut door = door(Limits::clients()).await;
    let address = door.address.to_string();
    let limits = Limits::clients();
    let wrong_key = dial(&address, identity(4).key(), CHAIN, limits).await.err().unwrap();
    assert!(matches!(wrong_key, DialError::Key { .. }), "{wrong_key}");
    let chain = Digest([8; 32]);
    let wrong_chain = dial(&address, identity(3).key(), chain, limits).await.err().unwrap();
    assert!(
        matches!(wrong_chain, DialError::Refused { refusal: Refusal::Chain(CHAIN), .. }),
        "{wrong_chain}"
    );
    until("the replica names it too", || value(&door.counters.wrong_chain) == 1).await;
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_and_replicas_at_the_wrong_door_are_refused() {
    let plan = Plan::new(TransportName::Tcp, 2);
    let one = plan.start(1);
    let address = plan.members[1].address.clone();
    // Without a key TLS itself fails, after the client's part of the handshake.
    let limits = Limits::clients();
    assert!(dial(&address, identity(1).key(), CHAIN, limits).await.is_err());
    until("counted", || value(&one.counters.wrong_key) == 1).await;
    let mut door = door(limits).await;
    let mut replica = raw(&door.address.to_string(), identity(3).key(), None).await;
    raw_hello(&mut replica, Role::Peer(ReplicaId(0))).await;
    until_hung_up(replica).await;
    until("counted", || value(&door.counters.wrong_role) == 1).await;
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_let_go() {
    let mut limits = Limits::clients();
    limits.queue_bytes = 1 << 20;
    let mut door = door(limits).await;
    let mut slow = raw(&door.address.to_string(), identity(3).key(), None).await;
    raw_hello(&mut slow, Role::Client).await;
    let (id, event) = next(&mut door.inbound).await;
    assert_eq!(event, Event::Opened);
    let answer = Bytes::from(vec![0; 64 << 10]);
    let mut sent = 0;
    while door.listener.send(id, answer.clone()).is_ok() {
        sent += answer.len();
        assert!(sent < 1 << 30, "the queue has no end");
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut door.inbound).await, (id, Event::Closed));
    assert_eq!(value(&door.counters.slow_client), 1);
    door.serves_somebody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_capped_and_places_given_back() {
    let mut limits = Limits::clients();
    limits.connections_per_address = 2;
    let mut door = door(limits).await;
    let first = door.dial_in().await;
    let second = door.dial_in().await;
    let (_sender, mut refused) = door.dial().await;
    let ended = tokio::time::timeout(PATIENCE, refused.receive()).await;
    assert_eq!(ended.expect("it is turned away"), None);
    assert_eq!(value(&door.counters.too_many_connections), 1);
    drop(first);
    let mut closed = 0;
    while closed == 0 {
        closed += usize::from(next(&mut door.inbound).await.1 == Event::Closed);
    }
    // The place becomes free a moment after the event.
    let mut inbound = door.inbound;
    let address = door.address.to_string();
    let third = loop {
        let refusals = value(&door.counters.too_many_connections);
        let third = dial(&address, identity(3).key(), CHAIN, limits).await.unwrap();
        tokio::select! {
            (_, event) = next(&mut inbound) => {
                assert_eq!(event, Event::Opened);
                break third;
            }
            () = until("refused", || value(&door.counters.too_many_connections) > refusals) => {}
        }
    };
    drop((second, third));
}

/// All connections come from one address, so none gives way to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_capped_in_all() {
    let mut limits = Limits::clients();
    limits.connections = 2;
    let mut door = door(limits).await;
    let first = door.dial_in().await;
    let second = door.dial_in().await;
    let (_sender, mut third) = door.dial().await;
    assert_eq!(third.receive().await, None);
    assert_eq!(value(&door.counters.too_many_connections), 1);
    assert_eq!(door.listener.connections(), 2);
    drop((first, second));
}

/// Silent connections take the places of the handshake, and none of the established ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silent_keep_nobody_out() {
    let mut limits = Limits::clients();
    (limits.half_open, limits.half_open_per_address) = (4, 4);
    // They would keep their places without end.
    limits.handshake = Duration::from_secs(3600);
    let mut door = door(limits).await;
    let (_sender, mut early) = door.dial_in().await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(door.address).await.unwrap());
    }
    until("the oldest gave way", || value(&door.counters.gave_way) == 28).await;
    door.serves_somebody().await;
    assert_eq!(early.try_receive(), None);
    until("the one that was served is gone", || door.listener.connections() == 1).await;
    until_hung_up(silent.remove(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_door_sends_what_is_queued() {
    let mut door = door(Limits::clients()).await;
    let (_sender, mut receiver) = door.dial().await;
    let (id, _) = next(&mut door.inbound).await;
    for n in 0..200u8 {
        door.listener.send(id, Bytes::from(vec![n; 1000])).unwrap();
    }
    let closing = tokio::spawn(door.listener.close());
    for n in 0..200u8 {
        assert_eq!(receiver.receive().await.unwrap(), vec![n; 1000]);
    }
    assert_eq!(receiver.receive().await, None);
    closing.await.unwrap();
    assert_eq!(next(&mut door.inbound).await, (id, Event::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_waits_for_room_and_hears_of_the_end() {
    let mut door = door(Limits::clients()).await;
    let mut limits = Limits::clients();
    limits.queue_bytes = 10_000;
    let address = door.address.to_string();
    let (sender, receiver) = dial(&address, identity(3).key(), CHAIN, limits).await.unwrap();
    let sending = tokio::spawn(async move {
        for n in 0..20_000u32 {
            sender
                .send(Bytes::copy_from_slice(&[&n.to_le_bytes()[..], &[0; 996]].concat()))
                .await?;
        }
        Ok::<_, SendError>(sender)
    });
    let (id, _) = next(&mut door.inbound).await;
    for n in 0..20_000u32 {
        let (_, Event::Frame(frame)) = next(&mut door.inbound).await else { panic!("no frame") };
        assert_eq!(frame[..4], n.to_le_bytes());
    }
    let sender = sending.await.unwrap().unwrap();
    door.listener.disconnect(id);
    let ended = async { while sender.send(Bytes::from_static(b"more")).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("never ended");
    drop(receiver);
}

/// The budget counts the beginnings of long frames. Connections that send nothing else end, and
/// leave room for the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_frames_without_their_ends_share_one_budget() {
    let limits = Limits { held_bytes: 2 << 20, ..Limits::clients() };
    let mut door = door(limits).await;
    let mut flood = Vec::new();
    for _ in 0..8 {
        let mut one = raw(&door.address.to_string(), identity(3).key(), None).await;
        raw_hello(&mut one, Role::Client).await;
        assert_eq!(next(&mut door.inbound).await.1, Event::Opened);
        flood.push(one);
    }
    for one in &mut flood {
        let mut beginning = (1u32 << 20).to_le_bytes().to_vec();
        beginning.resize(512 << 10, 1);
        // The connection may have ended by then.
        let _ = one.write_all(&beginning).await;
        let _ = one.flush().await;
    }
    // Each holds at least half a MiB, so at most four are left.
    until("four have ended", || value(&door.counters.held_too_much) >= 4).await;
    let mut ended = 0;
    while ended < value(&door.counters.held_too_much) {
        assert_eq!(next(&mut door.inbound).await.1, Event::Closed);
        ended += 1;
    }
    door.serves_somebody().await;
}

/// The budget also counts answers that are not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_share_one_budget() {
    let limits = Limits { held_bytes: 4 << 20, ..Limits::clients() };
    let mut door = door(limits).await;
    let mut flood = Vec::new();
    for _ in 0..8 {
        let mut one = raw(&door.address.to_string(), identity(3).key(), None).await;
        raw_hello(&mut one, Role::Client).await;
        let (id, event) = next(&mut door.inbound).await;
        assert_eq!(event, Event::Opened);
        flood.push((one, id));
    }
    // Far less than one queue holds, and more than one socket takes.
    let answer = Bytes::from(vec![0; 512 << 10]);
    let mut sent = 0;
    while value(&door.counters.held_too_much) == 0 {
        for (_, id) in &flood {
            let _ = door.listener.send(*id, answer.clone());
        }
        sent += 1;
        assert!(sent < 1 << 14, "it has no end");
        // The connections need time to take what they are sent, and to end.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(flood);
    door.serves_somebody().await;
}

/// Honest clients whose long frames come at the same time wait for one another, and none ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_frames_wait_for_room_and_all_arrive() {
    const CLIENTS: usize = 8;
    const LENGTH: usize = 1 << 20;
    // Room for two frames, and a long time for slow clients.
    let held_for = Duration::from_secs(3600);
    let limits = Limits { held_bytes: 5 << 19, held_for, ..Limits::clients() };
    let mut door = door(limits).await;
    let begun = Arc::new(AtomicU64::new(0));
    let (go, goes) = tokio::sync::watch::channel(false);
    let mut senders = Vec::new();
    for _ in 0..CLIENTS {
        let mut one = raw(&door.address.to_string(), identity(3).key(), None).await;
        raw_hello(&mut one, Role::Client).await;
        assert_eq!(next(&mut door.inbound).await.1, Event::Opened);
        let (begun, mut goes) = (Arc::clone(&begun), goes.clone());
        senders.push(tokio::spawn(async move {
            let mut frame = (LENGTH as u32).to_le_bytes().to_vec();
            frame.resize(4 + LENGTH, 1);
            let (beginning, rest) = frame.split_at(LENGTH / 2);
            one.write_all(beginning).await.unwrap();
            one.flush().await.unwrap();
            begun.fetch_add(1, Ordering::Relaxed);
            goes.wait_for(|goes| *goes).await.unwrap();
            one.write_all(rest).await.unwrap();
            one.flush().await.unwrap();
            one
        }));
    }
    let waits = || value(&door.counters.waited_for_room);
    until("all have begun", || begun.load(Ordering::Relaxed) + waits() >= CLIENTS as u64).await;
    go.send(true).unwrap();
    for _ in 0..CLIENTS {
        let (_, Event::Frame(frame)) = next(&mut door.inbound).await else { panic!("one ended") };
        assert_eq!(frame.len(), LENGTH);
    }
    assert_eq!(value(&door.counters.held_too_much), 0);
    for sender in senders {
        sender.await.unwrap();
    }
    until("all is given back", || door.listener.held_bytes() == 0).await;
    door.serves_somebody().await;
}

/// Frames that are announced and do not come give way to one that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_do_not_come_give_way_to_one_that_does() {
    let limits =
        Limits { held_bytes: 2 << 20, held_for: Duration::from_millis(1), ..Limits::clients() };
    let mut door = door(limits).await;
    let mut flood = Vec::new();
    for _ in 0..64 {
        let mut one = raw(&door.address.to_string(), identity(3).key(), None).await;
        raw_hello(&mut one, Role::Client).await;
        assert_eq!(next(&mut door.inbound).await.1, Event::Opened);
        // Announced, with as few of its bytes as possible.
        one.write_all(&(1_500_000u32).to_le_bytes()).await.unwrap();
        one.flush().await.unwrap();
        flood.push(one);
    }
    until("all but one wait", || value(&door.counters.waited_for_room) >= 63).await;
    let (sender, _receiver) = door.dial().await;
    let frame = Bytes::from(vec![7; 1 << 20]);
    sender.send(frame.clone()).await.unwrap();
    loop {
        match next(&mut door.inbound).await.1 {
            Event::Frame(arrived) => break assert_eq!(arrived, frame),
            Event::Opened | Event::Closed => {}
        }
    }
    assert!(value(&door.counters.held_too_much) > 0);
    drop(flood);
}
