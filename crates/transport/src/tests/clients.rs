//! The door for clients.

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
    // Without a key TLS itself fails, after the client's side of the handshake.
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
    let first = door.dial().await;
    let second = door.dial().await;
    let (_sender, mut refused) = door.dial().await;
    let ended = tokio::time::timeout(PATIENCE, refused.receive()).await;
    assert_eq!(ended.expect("it is turned away"), None);
    assert_eq!(value(&door.counters.too_many_connections), 1);
    drop(first);
    let mut closed = 0;
    while closed == 0 {
        closed += usize::from(next(&mut door.inbound).await.1 == Event::Closed);
    }
    // The place is given back a moment after the event.
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

/// From one address all come from the same, so that nobody gives way to anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_capped_in_all() {
    let mut limits = Limits::clients();
    limits.connections = 2;
    let door = door(limits).await;
    let first = door.dial().await;
    let second = door.dial().await;
    let (_sender, mut third) = door.dial().await;
    assert_eq!(third.receive().await, None);
    assert_eq!(value(&door.counters.too_many_connections), 1);
    assert_eq!(door.listener.connections(), 2);
    drop((first, second));
}

/// Those who say nothing take the places of the handshake, and none of those who have passed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silent_keep_nobody_out() {
    let mut limits = Limits::clients();
    (limits.half_open, limits.half_open_per_address) = (4, 4);
    // They would keep their places for ever.
    limits.handshake = Duration::from_secs(3600);
    let mut door = door(limits).await;
    let (_sender, mut early) = door.dial().await;
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

/// Beginnings of long frames are held until the rest comes: those who send nothing else end, and
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
        // It may have ended by then.
        let _ = one.write_all(&beginning).await;
        let _ = one.flush().await;
    }
    // Each takes up half a MiB at the least, so that four at the most are left.
    until("four have ended", || value(&door.counters.held_too_much) >= 4).await;
    let mut ended = 0;
    while ended < value(&door.counters.held_too_much) {
        assert_eq!(next(&mut door.inbound).await.1, Event::Closed);
        ended += 1;
    }
    door.serves_somebody().await;
}

/// Answers that are not read are held too.
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
    // Far less for each than its queue holds, and beyond what its socket takes.
    let answer = Bytes::from(vec![0; 512 << 10]);
    let mut sent = 0;
    while value(&door.counters.held_too_much) == 0 {
        for (_, id) in &flood {
            let _ = door.listener.send(*id, answer.clone());
        }
        sent += 1;
        assert!(sent < 1 << 14, "it has no end");
        tokio::task::yield_now().await;
    }
    drop(flood);
    door.serves_somebody().await;
}
