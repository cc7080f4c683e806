//! Tests of members that come and go while the mesh runs, over each transport.

use super::*;

over_each_transport!(who_joins_is_reached, who_leaves_gets_the_rest_and_is_refused);

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
