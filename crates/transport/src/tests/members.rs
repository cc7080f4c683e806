//! Tests of members that come and go while the mesh runs, over each transport.

use super::*;

over_each_transport!(
    who_joins_is_reached,
    who_leaves_gets_the_rest_and_is_refused,
    a_key_is_rotated_and_the_former_one_refused,
);

/// All of the plan but those with these numbers.
fn without(plan: &Plan, left_out: &[usize]) -> Vec<Option<Member>> {
    let members = plan.members.iter().cloned().enumerate();
    members.map(|(number, member)| (!left_out.contains(&number)).then_some(member)).collect()
}

/// Whether these are connected with each other, and with nobody else.
fn are_alone(nodes: &[Node], together: &[usize]) -> bool {
    together.iter().all(|number| {
        let others = together.iter().filter(|other| *other != number);
        let others: Vec<_> = others.map(|other| ReplicaId(*other as u16)).collect();
        nodes[*number].peers.connected() == others
    })
}

async fn who_joins_is_reached(transport: TransportName) {
    let plan = Plan::new(transport, 4);
    let nodes: Vec<Node> = (0..4).map(|number| plan.start(number)).collect();
    until("all are connected", || are_alone(&nodes, &[0, 1, 2, 3])).await;
    // Replica 0 dials, replica 2 is dialled, replica 3 is beyond the others' ids.
    for joins in [0, 2, 3] {
        let others: Vec<usize> = (0..4).filter(|number| *number != joins).collect();
        for number in &others {
            nodes[*number].peers.change_members(without(&plan, &[joins]));
        }
        until("it is left alone", || are_alone(&nodes, &others)).await;
        for number in others {
            nodes[number].peers.change_members(without(&plan, &[]));
        }
        until("it is reached", || are_alone(&nodes, &[0, 1, 2, 3])).await;
    }
}

async fn who_leaves_gets_the_rest_and_is_refused(transport: TransportName) {
    let mut plan = Plan::new(transport, 4);
    let mut nodes: Vec<Node> = (0..4).map(|number| plan.start(number)).collect();
    until("all are connected", || are_alone(&nodes, &[0, 1, 2, 3])).await;
    for number in [0, 2, 3] {
        nodes[number].peers.send(ReplicaId(1), Bytes::from_static(b"farewell"));
        nodes[number].peers.change_members(without(&plan, &[1]));
    }
    for _ in 0..3 {
        assert_eq!(next(&mut nodes[1].inbound).await.1, "farewell");
    }
    until("the others are among themselves", || are_alone(&nodes, &[0, 2, 3])).await;
    // It goes on dialling those above it, who know its key no more.
    let refused = value(&nodes[2].counters.wrong_key);
    until("it is refused", || value(&nodes[2].counters.wrong_key) > refused).await;
    assert!(are_alone(&nodes, &[0, 2, 3]));
    let dropped = value(&nodes[0].counters.dropped_outbound);
    nodes[0].peers.broadcast(&Bytes::from_static(b"to members"));
    assert_eq!(value(&nodes[0].counters.dropped_outbound), dropped, "nothing is sent to nobody");

    // Somebody else gets its id.
    nodes.remove(1).peers.close().await;
    plan.members[1].key = identity(50).key();
    nodes.insert(1, plan.start_as(1, identity(50), CHAIN));
    for number in [0, 2, 3] {
        nodes[number].peers.change_members(without(&plan, &[]));
    }
    until("the other one is reached", || are_alone(&nodes, &[0, 1, 2, 3])).await;
    nodes[3].peers.send(ReplicaId(1), Bytes::from_static(b"welcome"));
    while next(&mut nodes[1].inbound).await != (ReplicaId(3), Bytes::from_static(b"welcome")) {}
}

/// The members with another key of one of them, and the former one beside it or not.
fn with_key(plan: &Plan, number: usize, key: u8, former: Option<u8>) -> Vec<Option<Member>> {
    let mut members = without(plan, &[]);
    let former = former.map(|number| identity(number).key());
    let member = members[number].as_mut().unwrap();
    (member.key, member.former) = (identity(key).key(), former);
    members
}

/// Whether nobody misses anybody.
fn are_all_connected(nodes: &[Node]) -> bool {
    are_alone(nodes, &(0..nodes.len()).collect::<Vec<_>>())
}

/// The others accept both keys while some have heard of the new one and others have not.
async fn a_key_is_rotated_and_the_former_one_refused(transport: TransportName) {
    // Replica 0 dials, replica 3 is dialled, replica 1 is both.
    for rotates in [0, 3, 1] {
        let plan = Plan::new(transport, 4);
        let proven = identity(rotates);
        let start = |number: u8| {
            let own = if number == rotates { proven.clone() } else { identity(number) };
            plan.start_as(number, own, CHAIN)
        };
        let mut nodes: Vec<Node> = (0..4).map(start).collect();
        until("all are connected", || are_all_connected(&nodes)).await;
        let (at, others) = (rotates as usize, (0..4).filter(|number| *number != rotates as usize));
        let others: Vec<usize> = others.collect();
        let opened = |nodes: &[Node]| value(&nodes[at].counters.opened);

        // Some have heard of the new key, and not the one that has it; then it goes over, too.
        let both = with_key(&plan, at, 40, Some(rotates));
        nodes[others[0]].peers.change_members(both.clone());
        until("nobody is cut off", || are_all_connected(&nodes)).await;
        proven.change(&SecretKey::from_seed(&[40; 32])).unwrap();
        for number in &others {
            nodes[*number].peers.change_members(both.clone());
        }
        until("they are still connected", || are_all_connected(&nodes)).await;

        // From now on the new key alone counts: connections by the former one end.
        let before = opened(&nodes);
        for number in &others {
            nodes[*number].peers.change_members(with_key(&plan, at, 40, None));
        }
        until("each connection is made anew", || opened(&nodes) >= before + 3).await;
        until("all are connected by the new key", || are_all_connected(&nodes)).await;
        nodes[others[1]].peers.send(ReplicaId(at as u16), Bytes::from_static(b"by the new key"));
        while next(&mut nodes[at].inbound).await.1 != "by the new key" {}

        // Whoever has the former key is nobody.
        nodes.remove(at).peers.close().await;
        let refused: Vec<u64> = nodes.iter().map(|node| value(&node.counters.wrong_key)).collect();
        nodes.insert(at, plan.start_as(rotates, identity(rotates), CHAIN));
        for (number, refused) in others.iter().zip(refused) {
            let counters = &nodes[*number].counters;
            until("the former key is refused", || value(&counters.wrong_key) > refused).await;
            assert!(!nodes[*number].peers.is_connected(ReplicaId(at as u16)));
        }
    }
}

/// While a server that has a former key delays its hello, that key stops to count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_that_is_late_does_not_save_a_former_key() {
    let mut plan = Plan::new(TransportName::Tcp, 2);
    let PeerSocket::Tcp(listener) = plan.sockets[1].socket() else { unreachable!() };
    let allowed = tls::Allowed::new(vec![identity(0).key()]);
    let config = Arc::new(tls::server_config(&identity(1), Some(allowed)).unwrap());
    plan.members = with_key(&plan, 1, 40, Some(1)).into_iter().flatten().collect();
    let node = plan.start(0);
    let (tcp, _) = listener.accept().await.unwrap();
    let mut stream = tokio_rustls::TlsAcceptor::from(config).accept(tcp).await.unwrap();
    // Its hello comes behind its handshake.
    stream.read_u8().await.unwrap();
    node.peers.change_members(with_key(&plan, 1, 40, None));
    node.peers.send(ReplicaId(1), Bytes::from_static(b"for the new key"));
    raw_hello(&mut stream, Role::Peer(ReplicaId(1))).await;
    let heard = until_hung_up(stream).await;
    assert!(!heard.ends_with(b"for the new key"));
    assert!(!node.peers.is_connected(ReplicaId(1)));
}
