//! Tests of the mesh, over each transport.

use super::*;

over_each_transport!(
    everybody_reaches_everybody,
    an_impostor_is_refused_as_dialler_and_as_listener,
    a_replica_of_another_chain_is_refused_by_name,
    a_restarted_replica_is_back_whichever_side_dials,
    a_hundred_thousand_small_messages_arrive_in_order,
    large_and_small_messages_arrive_whole_and_in_order,
    a_receiver_that_does_not_read_bounds_everybodys_memory,
    who_comes_late_hears_only_the_newest,
    a_newer_connection_takes_the_older_ones_place,
    a_replica_may_speak_for_itself_only,
    closing_sends_what_is_queued,
    a_replica_killed_without_a_word_is_back_at_once,
);

fn numbered(number: u32, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

fn number(message: &Bytes) -> u32 {
    u32::from_le_bytes(message[..4].try_into().unwrap())
}

/// All pairs of `nodes` are connected.
async fn all_connected(nodes: &[Node]) {
    until("all connected", || {
        nodes.iter().all(|node| node.peers.connected().len() == nodes.len() - 1)
    })
    .await;
}

async fn mesh(plan: &Plan) -> Vec<Node> {
    let mut nodes = Vec::new();
    for number in 0..plan.members.len() as u8 {
        nodes.push(plan.start(number));
    }
    all_connected(&nodes).await;
    nodes
}

async fn everybody_reaches_everybody(transport: TransportName) {
    let plan = Plan::new(transport, 4);
    let mut nodes = mesh(&plan).await;
    for node in &nodes {
        node.peers.broadcast(&Bytes::from_static(b"hello all"));
    }
    for (place, node) in nodes.iter_mut().enumerate() {
        let mut senders = Vec::new();
        for _ in 0..3 {
            let (from, message) = next(&mut node.inbound).await;
            assert_eq!(message, "hello all");
            senders.push(from.index());
        }
        senders.sort_unstable();
        let others: Vec<_> = (0..4).filter(|other| *other != place).collect();
        assert_eq!(senders, others);
        assert_eq!(value(&node.counters.opened), 3, "one connection a pair");
    }
    nodes[0].peers.send(ReplicaId(0), Bytes::from_static(b"self"));
    nodes[0].peers.send(ReplicaId(9), Bytes::from_static(b"nobody"));
    assert_eq!(value(&nodes[0].counters.dropped_outbound), 2);
}

async fn an_impostor_is_refused_as_dialler_and_as_listener(transport: TransportName) {
    let plan = Plan::new(transport, 3);
    let mut zero = plan.start(0);
    let two = plan.start(2);
    // It dials replica 2, and replica 0 dials it.
    let impostor = plan.start_as(1, identity(99), CHAIN);
    until("0 refuses 1", || value(&zero.counters.wrong_key) > 0).await;
    until("2 refuses 1", || value(&two.counters.wrong_key) > 0).await;
    until("0 and 2 are connected", || zero.peers.is_connected(ReplicaId(2))).await;
    two.peers.send(ReplicaId(0), Bytes::from_static(b"unharmed"));
    assert_eq!(next(&mut zero.inbound).await, (ReplicaId(2), Bytes::from_static(b"unharmed")));
    assert!(impostor.peers.connected().is_empty());
    assert!(!zero.peers.is_connected(ReplicaId(1)) && !two.peers.is_connected(ReplicaId(1)));
}

async fn a_replica_of_another_chain_is_refused_by_name(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let zero = plan.start(0);
    let one = plan.start_as(1, identity(1), Digest([8; 32]));
    until("both name it", || {
        value(&zero.counters.wrong_chain) > 0 && value(&one.counters.wrong_chain) > 0
    })
    .await;
    assert!(zero.peers.connected().is_empty() && one.peers.connected().is_empty());
}

async fn a_restarted_replica_is_back_whichever_side_dials(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut nodes = mesh(&plan).await;
    for restarted in [1u8, 0, 1] {
        let place = usize::from(restarted);
        let old = nodes.remove(place);
        old.peers.close().await;
        let other = &nodes[0];
        let gone = ReplicaId(u16::from(restarted));
        until("the other notices", || !other.peers.is_connected(gone)).await;
        nodes.insert(place, plan.start(restarted));
        all_connected(&nodes).await;
        let back = Bytes::from_static(b"back");
        nodes[0].peers.send(ReplicaId(1), back.clone());
        nodes[1].peers.send(ReplicaId(0), back.clone());
        assert_eq!(next(&mut nodes[0].inbound).await, (ReplicaId(1), back.clone()));
        assert_eq!(next(&mut nodes[1].inbound).await, (ReplicaId(0), back));
    }
}

/// The next messages of a peer. Over UDP each arrives when it is complete, so they are sorted by
/// their numbers.
async fn received(transport: TransportName, node: &mut Node, count: usize) -> Vec<Bytes> {
    let mut messages = Vec::new();
    for _ in 0..count {
        messages.push(next(&mut node.inbound).await.1);
    }
    if transport == TransportName::Udp {
        messages.sort_by_key(number);
    }
    messages
}

async fn a_hundred_thousand_small_messages_arrive_in_order(transport: TransportName) {
    const COUNT: u32 = 100_000;
    let mut plan = Plan::new(transport, 2);
    plan.limits.queue_messages = COUNT as usize;
    let mut nodes = mesh(&plan).await;
    for n in 0..COUNT {
        nodes[0].peers.send(ReplicaId(1), numbered(n, 100));
        nodes[1].peers.send(ReplicaId(0), numbered(n, 100));
    }
    for node in &mut nodes {
        let messages = received(transport, node, COUNT as usize).await;
        for (n, message) in (0..COUNT).zip(messages) {
            assert_eq!((number(&message), message.len()), (n, 100));
        }
        assert_eq!(value(&node.counters.dropped_outbound), 0);
    }
}

async fn large_and_small_messages_arrive_whole_and_in_order(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut nodes = mesh(&plan).await;
    let sizes = [4, 100, 2047, 2048, 16_383, 16_384, 16_385, 131_072, 1 << 20, 16 << 20, 5];
    for (n, size) in sizes.iter().enumerate() {
        nodes[0].peers.send(ReplicaId(1), numbered(n as u32, *size));
    }
    let messages = received(transport, &mut nodes[1], sizes.len()).await;
    for ((n, size), message) in sizes.iter().enumerate().zip(messages) {
        assert_eq!(message, numbered(n as u32, *size));
    }
}

async fn a_receiver_that_does_not_read_bounds_everybodys_memory(transport: TransportName) {
    let mut few = Plan::new(transport, 2);
    few.inbound = 4;
    fill(transport, few).await;
    let mut short = Plan::new(transport, 2);
    (short.inbound, short.inbound_bytes) = (8_192, 128 << 10);
    fill(transport, short).await;
}

async fn fill(transport: TransportName, mut plan: Plan) {
    const COUNT: u32 = 8_000;
    const SIZE: usize = 32 << 10;
    plan.limits.queue_bytes = 1 << 20;
    let most_waiting = plan.inbound.min(plan.inbound_bytes as usize / SIZE);
    let mut nodes = mesh(&plan).await;
    for n in 0..COUNT {
        nodes[0].peers.send(ReplicaId(1), numbered(n, SIZE));
        // Lets the connections make progress.
        if n % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let counters = nodes[0].counters.clone();
    assert!(value(&counters.dropped_outbound) > 0);
    // 256 MB were sent. The rest sits in socket buffers and bounded queues.
    assert!(value(&counters.bytes_out) < 64 << 20, "{}", value(&counters.bytes_out));
    let mut last = None;
    let (mut received, mut newest) = (0, false);
    while !newest || received + value(&counters.dropped_outbound) < u64::from(COUNT) {
        let waiting = nodes[1].inbound.len();
        assert!(waiting <= most_waiting, "{waiting} messages wait");
        let (_, message) = next(&mut nodes[1].inbound).await;
        let in_order = last < Some(number(&message)) || transport == TransportName::Udp;
        assert!(in_order, "in order");
        last = Some(number(&message));
        newest |= number(&message) == COUNT - 1;
        received += 1;
    }
    assert_eq!(received + value(&counters.dropped_outbound), u64::from(COUNT));
}

async fn who_comes_late_hears_only_the_newest(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let zero = plan.start(0);
    for n in 0..1000 {
        zero.peers.send(ReplicaId(1), numbered(n, 100));
    }
    let dropped = value(&zero.counters.dropped_outbound);
    assert_eq!(dropped, 1000 - 64);
    let mut one = plan.start(1);
    let messages = received(transport, &mut one, 64).await;
    assert!(messages.iter().map(number).eq(dropped as u32..1000));
}

async fn a_newer_connection_takes_the_older_ones_place(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut one = plan.start(1);
    let me = Role::Peer(ReplicaId(0));
    let mut first = raw_peer(&plan, 1, 0).await;
    raw_hello(&mut first, me).await;
    until("first is in", || one.peers.is_connected(ReplicaId(0))).await;
    let before = one.peers.connections();
    let mut second = raw_peer(&plan, 1, 0).await;
    raw_hello(&mut second, me).await;
    until_hung_up(first).await;
    until("counted", || value(&one.counters.replaced) == 1).await;
    second.write_all(&handshake::framed(Bytes::from_static(b"second"))).await.unwrap();
    assert_eq!(next(&mut one.inbound).await, (ReplicaId(0), Bytes::from_static(b"second")));
    assert!(one.peers.is_connected(ReplicaId(0)));
    let now = one.peers.connections();
    assert!(now.len() == 1 && now[0].0 == before[0].0 && now[0].1 > before[0].1, "{now:?}");
}

async fn a_replica_may_speak_for_itself_only(transport: TransportName) {
    let plan = Plan::new(transport, 3);
    let two = plan.start(2);
    let mut liar = raw_peer(&plan, 2, 0).await;
    raw_hello(&mut liar, Role::Peer(ReplicaId(1))).await;
    until_hung_up(liar).await;
    until("counted", || value(&two.counters.wrong_role) == 1).await;
    assert!(two.peers.connected().is_empty());
}

async fn closing_sends_what_is_queued(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let mut nodes = mesh(&plan).await;
    let one = nodes.pop().unwrap();
    for n in 0..1000 {
        one.peers.send(ReplicaId(0), numbered(n, 1000));
    }
    let closing = tokio::spawn(one.peers.close());
    let messages = received(transport, &mut nodes[0], 1000).await;
    assert!(messages.iter().map(number).eq(0..1000));
    closing.await.unwrap();
}

async fn a_replica_killed_without_a_word_is_back_at_once(transport: TransportName) {
    let mut plan = Plan::new(transport, 2);
    // The idle time must not be how the replica notices.
    plan.limits.idle = Duration::from_secs(3600);
    plan.limits.ping_every = Duration::from_millis(20);
    for killed in [0u8, 1] {
        // Its tasks end with its runtime, and it sends nothing any more.
        let dying = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let old = {
            let _entered = dying.enter();
            plan.start(killed)
        };
        let mut other = plan.start(1 - killed);
        let gone = ReplicaId(u16::from(killed));
        until("both are connected", || {
            other.peers.is_connected(gone) && old.peers.connected().len() == 1
        })
        .await;
        dying.shutdown_background();
        let new = plan.start(killed);
        until("it is back", || new.peers.connected().len() == 1).await;
        let back = Bytes::from_static(b"back");
        new.peers.send(ReplicaId(u16::from(1 - killed)), back.clone());
        assert_eq!(next(&mut other.inbound).await, (gone, back));
        new.peers.close().await;
        other.peers.close().await;
        drop(old);
    }
}
