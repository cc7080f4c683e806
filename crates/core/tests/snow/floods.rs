//! One node of Avalanche whose peers lie: whatever they send, its memory and its work are bounded,
//! and honest payments pass.

use std::sync::Arc;

use quorate_core::Duration;
use quorate_core::protocols::snow::avalanche::{
    Input, Limits, NotTaken, Settings, Transaction as _, Vertex, VertexId, Vote,
};

use crate::alone::{Alone, against, settings, unknown, vertex};
use crate::network::{Payment, genesis};

/// How long a preferred vertex waits before it may give way, and one with unknown parents before it
/// is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A peer may have four pending vertices.
fn limited() -> Settings {
    let limits = Limits {
        vertices: 64,
        weight: 4096,
        orphans: 8,
        orphans_of_peer: 2,
        spenders: 4,
        ..Limits::NODE
    };
    Settings { limits, ..settings() }
}

fn with(limits: Limits) -> Alone {
    Alone::new(Settings { limits, ..settings() })
}

/// Room is made for a vertex by forgetting what it spends an output of.
#[test]
fn a_vertex_does_not_take_the_room_of_what_it_spends() {
    let mut alone = Alone::new(limited());
    let [_, other] = twice(&mut alone);
    (1..=2).for_each(|number| drop(alone.question(1, &vertex(&[], &[&payment(number)]))));
    let loses = other.transactions()[0].clone();
    let rests = vertex(&[], &[&Payment::new("rests", &[loses.output(0)])]);
    assert_eq!(alone.question(1, &rests), Some(Vote::No(Vec::new())));
    assert!(!alone.node.knows(&other.id()), "it has given way");
    assert!(!alone.node.knows(&rests.id()));
}

/// A payment of its own output.
fn payment(number: u32) -> Payment {
    Payment::new("payment", &[genesis(number)])
}

/// Two vertices with payments of one output: the second is not preferred.
fn twice(alone: &mut Alone) -> [Arc<Vertex<Payment>>; 2] {
    let both = ["one", "other"].map(|name| vertex(&[], &[&Payment::new(name, &[genesis(0)])]));
    both.iter().for_each(|vertex| drop(alone.question(1, vertex)));
    both
}

/// Vertices that were accepted, each on the one before.
fn accepted(alone: &mut Alone, count: usize) -> Vec<Arc<Vertex<Payment>>> {
    let mut chain = vec![vertex(&[], &[&payment(1_000_000)])];
    while chain.len() < count + 2 {
        chain.push(vertex(&[&chain[chain.len() - 1]], &[]));
    }
    chain.iter().for_each(|vertex| alone.polled(vertex, &Vote::Yes));
    chain.truncate(count);
    chain
}

/// No-ops that differ by their parents, all of which were accepted long ago.
fn no_ops(on: &[Arc<Vertex<Payment>>]) -> impl Iterator<Item = Arc<Vertex<Payment>>> + '_ {
    let has = |set: usize, at: usize| set >> at & 1 == 1;
    // One on the first alone would be the second of the chain.
    (1..1 << on.len()).filter(|set: &usize| set.count_ones() > 1).map(move |set| {
        let parents = on.iter().enumerate().filter(|(at, _)| has(set, *at));
        vertex(&parents.map(|(_, parent)| parent).collect::<Vec<_>>(), &[])
    })
}

const REFUSED: Option<Vote> = Some(Vote::No(Vec::new()));

/// Vertices on parents that there are not: each peer has its places, and they are free again.
#[test]
fn a_flood_of_vertices_on_nothing_is_bounded() {
    let mut alone = Alone::new(limited());
    let on_nothing = |number| Arc::new(Vertex::new(vec![unknown(number)], Vec::new()));
    for number in 0..100 {
        alone.question(1, &on_nothing(number));
    }
    assert_eq!((alone.node.held().orphans, alone.node.counts().refused), (2, 98));
    assert_eq!(alone.answers.len(), 98, "those that are refused are answered");
    let all: Vec<Payment> =
        (0..20).map(|n| Payment::new("big", &[genesis(n), genesis(n + 100)])).collect();
    let big = Arc::new(Vertex::new(vec![unknown(100)], all));
    assert_eq!(alone.question(2, &big), None, "the first may be as heavy as any");
    assert_eq!(alone.question(2, &on_nothing(101)), REFUSED);
    alone.question(3, &on_nothing(102));
    assert_eq!(alone.node.held().orphans, 4, "the others have their places");
    alone.now = alone.now.after(PATIENCE);
    alone.step(Input::Timeout);
    assert_eq!((alone.node.held().orphans, alone.node.deadline()), (0, None));
}

#[test]
fn a_flood_of_rivals_is_bounded_and_honest_payments_pass() {
    let mut alone =
        Alone::new(Settings { limits: Limits { spenders: 4, ..Limits::NODE }, ..settings() });
    for number in 0..100 {
        let rival = Payment::new(&number.to_string(), &[genesis(0)]);
        let vote = alone.question(1, &vertex(&[], &[&rival]));
        assert_eq!(vote == Some(Vote::Yes), number == 0, "the first is preferred");
    }
    assert_eq!((alone.node.held().transactions, alone.node.counts().refused), (4, 96));
    assert_eq!(alone.question(2, &vertex(&[], &[&payment(1)])), Some(Vote::Yes));
}

/// What rests on a payment that is not preferred needs no rival of its own: no spender runs out of
/// outputs. The oldest give way, and neither memory nor the queue of polls grows.
#[test]
fn a_flood_on_top_of_a_double_spend_is_bounded() {
    let mut alone = Alone::new(limited());
    let [_, weak] = twice(&mut alone);
    for number in 1..1000 {
        alone.question(1, &vertex(&[&weak], &[&payment(number)]));
        let held = alone.node.held();
        assert!(held.vertices <= 4 && held.weight <= 256 && held.queued <= 129, "{held:?}");
    }
    assert_eq!(alone.node.counts().forgotten, 1001 - 4);
    assert_eq!(alone.question(2, &vertex(&[], &[&payment(1000)])), Some(Vote::Yes));
    // What gave way was not rejected: it is taken when it comes again.
    alone.question(3, &vertex(&[&weak], &[&payment(1)]));
    assert!(alone.node.transaction(&payment(1).id()).is_some());
}

/// A poll walks down all ancestors that are not settled, and these never settle.
#[test]
fn a_chain_on_top_of_a_double_spend_is_bounded() {
    let mut alone = with(Limits { depth: 64, ..Limits::NODE });
    let [_, mut tip] = twice(&mut alone);
    let culprit = against(&[&tip]);
    for depth in 2..5000 {
        tip = vertex(&[&tip], &[]);
        let vote = alone.question(1, &tip);
        if depth <= 64 {
            assert_eq!(vote, Some(culprit.clone()));
        }
    }
    assert_eq!(alone.node.held().vertices, 1 + 64);
}

/// The depth is of what is not settled: the graph as a whole has no end.
#[test]
fn a_chain_that_is_accepted_may_be_as_long_as_it_likes() {
    let mut alone = with(Limits { depth: 8, ..Limits::NODE });
    assert_eq!(accepted(&mut alone, 100).len(), 100);
    assert_eq!((alone.node.counts().refused, alone.node.held().pending), (0, 1));
}

/// Others may stand at other depths: a node builds below the bound, and what is too deep gets its
/// polls.
#[test]
fn a_node_builds_on_what_is_not_too_deep() {
    let mut alone = with(Limits { depth: 16, ..Limits::NODE });
    let mut chain = vec![vertex(&[], &[&payment(0)])];
    while chain.len() < 20 {
        chain.push(vertex(&[&chain[chain.len() - 1]], &[]));
    }
    let votes: Vec<_> = chain.iter().map(|vertex| alone.question(1, vertex)).collect();
    assert_eq!(votes.iter().filter(|vote| **vote == Some(Vote::Yes)).count(), 16);
    alone.step(Input::Submit(vec![payment(1)]));
    let mut own = alone.node.vertices().filter(|seen| !seen.vertex.transactions().is_empty());
    let parents = own.find(|seen| seen.vertex.id() != chain[0].id()).unwrap().vertex.parents();
    assert_eq!(parents, [chain[12].id()], "two below the bound");
}

/// Payments that nobody has anything against take one peer's share, and no more.
#[test]
fn what_one_peer_brings_leaves_room_for_the_others() {
    let mut alone = Alone::new(limited());
    for number in 0..100 {
        let vote = alone.question(1, &vertex(&[], &[&payment(number)]));
        assert_eq!(vote == Some(Vote::Yes), number < 4, "{number}: {vote:?}");
    }
    assert_eq!(alone.question(2, &vertex(&[], &[&payment(100)])), Some(Vote::Yes));
    alone.step(Input::Submit(vec![payment(101)]));
    assert_eq!(alone.node.counts().issued, 1);
    // What is accepted is billed to nobody.
    assert_eq!(alone.node.held().pending, 6);
}

/// Twelve sixteenths are for peers, three for what passes their valves, one for the node's own.
#[test]
fn whatever_peers_bring_a_node_issues_its_own() {
    let limits = Limits { vertices: 64, weight: 600, ..Limits::NODE };
    let mut alone = with(limits);
    for peer in 1..8 {
        for number in 0..10 {
            alone.question(peer, &vertex(&[], &[&payment(100 * u32::from(peer) + number)]));
        }
    }
    let full = alone.node.held();
    assert!(full.weight <= 600 - 600 / 4, "{full:?}");
    assert_eq!(alone.question(7, &vertex(&[], &[&payment(1)])), REFUSED);
    alone.step(Input::Submit(vec![payment(2)]));
    assert_eq!(alone.node.counts().issued, 1);
}

/// No-ops that everybody prefers, and that nobody needs. They give way when they have waited; a
/// payment that is preferred does not, or its owner could spend once more.
#[test]
fn preferred_vertices_give_way_once_they_have_waited_and_payments_do_not() {
    let mut alone = Alone::new(limited());
    let base = accepted(&mut alone, 4);
    let mut no_ops = no_ops(&base);
    let mut next = || no_ops.next().unwrap();
    let first = vertex(&[], &[&payment(0)]);
    assert_eq!(alone.question(2, &first), Some(Vote::Yes));
    for _ in 0..3 {
        assert_eq!(alone.question(2, &next()), Some(Vote::Yes));
    }
    assert_eq!(alone.question(2, &next()), REFUSED, "its share is full");
    alone.now = alone.now.after(PATIENCE);
    for _ in 0..3 {
        assert_eq!(alone.question(2, &next()), Some(Vote::Yes));
    }
    assert_eq!(alone.question(2, &next()), REFUSED, "the others have not waited");
    assert_eq!(alone.node.prefers(&payment(0).id()), Some(true));
    // In a second vertex it is not lost with the first.
    alone.question(3, &vertex(&[&base[0]], &[&payment(0)]));
    assert_eq!(alone.question(2, &next()), Some(Vote::Yes));
    assert!(!alone.node.knows(&first.id()));
    assert_eq!(alone.node.prefers(&payment(0).id()), Some(true));
}

/// The same payments in vertex after vertex, each with other parents.
#[test]
fn vertices_are_bounded_by_what_they_weigh() {
    let limits = Limits { weight: 1500, ..limited().limits };
    let mut alone = with(limits);
    let payments: Vec<_> =
        (0..20).map(|n| Payment::new(&n.to_string(), &[genesis(n), genesis(n + 100)])).collect();
    let payments: Vec<&Payment> = payments.iter().collect();
    let mut tip = vertex(&[], &payments);
    for peer in 1..8 {
        for _ in 0..10 {
            alone.question(peer, &tip);
            assert!(alone.node.held().weight <= 1500, "{:?}", alone.node.held());
            tip = vertex(&[&tip], &payments);
        }
        tip = vertex(&[], &payments[usize::from(peer)..]);
    }
    // The first of a peer may be as heavy as any: of seven of about 250 four fit.
    assert_eq!(alone.node.held().vertices, 4);
}

/// Nothing gives way to what cannot come in.
#[test]
fn no_room_is_made_for_what_is_refused_anyway() {
    let mut alone = Alone::new(limited());
    let [_, weak] = twice(&mut alone);
    for number in 1..3 {
        alone.question(1, &vertex(&[&weak], &[&payment(number)]));
    }
    let full = alone.node.held();
    for number in 0..10 {
        // On a parent that there is not, of an output that there is not, and too heavy.
        alone.question(1, &Arc::new(Vertex::new(vec![unknown(number)], Vec::new())));
        let unfounded = Payment::new("unfounded", &[payment(99).output(0)]);
        alone.question(1, &vertex(&[], &[&unfounded]));
        let heavy: Vec<_> = (100..120).map(payment).collect();
        alone.question(1, &vertex(&[], &heavy.iter().collect::<Vec<_>>()));
    }
    let held = alone.node.held();
    assert_eq!((held.vertices, alone.node.counts().forgotten), (full.vertices, 0));
}

/// Thousands of no-ops that nobody needs are possible parents. A payment gets its polls from what
/// stands on it, so those come first that have one below them.
#[test]
fn in_a_crowd_of_no_ops_vertices_stand_on_pending_payments() {
    let mut alone = Alone::new(settings());
    let base = accepted(&mut alone, 9);
    let crowd: Vec<_> = no_ops(&base).collect();
    assert_eq!(crowd.len(), 511 - 9);
    crowd.iter().for_each(|no_op| assert_eq!(alone.question(1, no_op), Some(Vote::Yes)));
    let vertex_of = |alone: &Alone, payment: &Payment| -> (VertexId, Vec<VertexId>) {
        let has = |of: &Vertex<Payment>| of.transactions().contains(payment);
        let seen = alone.node.vertices().find(|seen| has(seen.vertex)).expect("it is issued");
        (seen.vertex.id(), seen.vertex.parents().to_vec())
    };
    alone.step(Input::Submit(vec![payment(1)]));
    let (first, _) = vertex_of(&alone, &payment(1));
    alone.step(Input::Submit(vec![payment(2)]));
    let (_, parents) = vertex_of(&alone, &payment(2));
    assert!(parents.contains(&first) && parents.len() == 4, "{parents:?}");
}

/// What clients hand in is bounded by what it weighs.
#[test]
fn own_transactions_are_bounded_by_what_they_weigh() {
    let mut alone = with(Limits { weight: 440, ..Limits::NODE });
    alone.step(Input::Submit((0..20).map(payment).collect()));
    assert_eq!(alone.node.held().own, 10);
    assert_eq!(alone.not_taken, [NotTaken::Busy; 10]);
}

/// Refused for want of room, a node's own payment is not given up for long.
#[test]
fn what_found_no_room_is_issued_soon() {
    let mut alone = with(Limits { vertices: 64, weight: 44, ..Limits::NODE });
    let heavy = Payment::new("heavy", &[genesis(0), genesis(1)]);
    alone.question(1, &vertex(&[], &[&heavy]));
    alone.step(Input::Submit(vec![payment(100)]));
    assert_eq!(alone.node.counts().issued, 0, "{:?}", alone.node.held());
    let soon = alone.now.after(settings().stuck_after);
    assert!(alone.node.deadline().is_some_and(|due| due <= soon));
}

#[test]
fn a_node_names_who_else_spends_an_output() {
    let mut alone = Alone::new(settings());
    let [one, other] = ["one", "other"].map(|name| Payment::new(name, &[genesis(0)]));
    let spender =
        |alone: &Alone, than: &Payment| alone.node.pending_spender(&genesis(0), &than.id());
    assert_eq!(spender(&alone, &other), None);
    // Of a client, though it waits for its vertex.
    let below = [payment(1), payment(2), payment(3)];
    alone.step(Input::Submit(below.to_vec()));
    alone.step(Input::Submit(vec![one.clone()]));
    assert_eq!((spender(&alone, &other), spender(&alone, &one)), (Some(one.id()), None));
    // Of a peer.
    let mut alone = Alone::new(settings());
    alone.question(1, &vertex(&[], &[&one]));
    assert_eq!((spender(&alone, &other), spender(&alone, &one)), (Some(one.id()), None));
}
