//! One node of Avalanche, poll by poll: what counts in a poll, what its outcome changes, and what
//! a node takes from a peer.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::protocols::snow::avalanche::vertex::MAX_PARENTS;
use quorate_core::protocols::snow::avalanche::{
    Avalanche, Conflict, Input, Malformed, Message, NotTaken, Output, Reason, Settings,
    Transaction as _, TransactionId, Vertex, VertexId, Vote, Why,
};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::{Digest, Duration, ReplicaId, Time};

use crate::network::{Ledger, Payment, genesis};

/// Seven others, of whom five are asked, and four must agree.
const NODES: usize = 8;
const PARAMETERS: Parameters = Parameters { sample: 5, quorum: 4, early: 2, decision: 4 };

/// A question that the node put: its number, the vertex, and who was asked.
pub struct Asked {
    poll: u64,
    vertex: VertexId,
    peers: Vec<ReplicaId>,
}

/// Node 0, its ledger, and what it said.
pub struct Alone {
    pub node: Avalanche<Payment>,
    ledger: Ledger,
    pub now: Time,
    asked: VecDeque<Asked>,
    /// What it answered, by the numbers of the questions.
    pub answers: Vec<(u64, Vote)>,
    sent: usize,
    pub accepted: Vec<TransactionId>,
    rejected: Vec<(TransactionId, Conflict)>,
    pub not_taken: Vec<NotTaken>,
    questions: u64,
}

pub fn settings() -> Settings {
    // Polls one after the other, and no vertices but those of the test.
    let no_op_after = Duration::from_secs(1000);
    Settings { polls: 1, no_op_after, ..Settings::new(PARAMETERS) }
}

pub fn vertex(parents: &[&Arc<Vertex<Payment>>], payments: &[&Payment]) -> Arc<Vertex<Payment>> {
    let parents = parents.iter().map(|parent| parent.id()).collect();
    Arc::new(Vertex::new(parents, payments.iter().map(|payment| (*payment).clone()).collect()))
}

pub fn unknown(number: u64) -> VertexId {
    VertexId(Digest::of("unknown", &number.to_le_bytes()))
}

impl Alone {
    pub fn new(settings: Settings) -> Self {
        let node = Avalanche::new(settings, ReplicaId(0), &[1; NODES], 7).unwrap();
        let (asked, answers, accepted) = Default::default();
        let (rejected, not_taken) = Default::default();
        let (ledger, now) = (Ledger::new(), Time(0));
        let (sent, questions) = (0, 0);
        #[rustfmt::skip]
        let alone = Self {
            node, ledger, now, asked, answers, sent, accepted, rejected, not_taken, questions,
        };
        alone
    }

    pub fn step(&mut self, input: Input<Payment>) {
        let effects = self.node.step(self.now, input, &self.ledger);
        let ledger = &mut self.ledger;
        assert_eq!(self.node.miscounted(), None);
        let outputs = effects.persist(|records| {
            records.into_iter().for_each(|record| ledger.write(record));
            Ok::<(), ()>(())
        });
        for output in outputs.unwrap() {
            match output {
                Output::Send { to, message } => self.note(to, message),
                Output::Serve { .. } => {}
                Output::Accepted { transaction, .. } => self.accepted.push(transaction.id()),
                Output::Rejected { transaction, reason } => {
                    self.rejected.push((transaction, reason));
                }
                Output::NotTaken { reason, .. } => self.not_taken.push(reason),
            }
        }
    }

    fn note(&mut self, to: ReplicaId, message: Message<Payment>) {
        self.sent += 1;
        match message {
            Message::Query { poll, vertex } => {
                assert_eq!(vertex.check(), Ok(()), "it asks about what is no vertex");
                match self.asked.back_mut() {
                    Some(asked) if asked.poll == poll => asked.peers.push(to),
                    _ => {
                        let (vertex, peers) = (vertex.id(), vec![to]);
                        self.asked.push_back(Asked { poll, vertex, peers });
                    }
                }
            }
            Message::Answer { poll, vote } => self.answers.push((poll, vote)),
            Message::Want(_) | Message::Have(_) => {}
        }
    }

    fn hear(&mut self, from: u16, message: Message<Payment>) {
        self.step(Input::Message { from: ReplicaId(from), message });
    }

    /// A peer asks about a vertex. Returns the vote, if the node answers at once.
    pub fn question(&mut self, from: u16, vertex: &Arc<Vertex<Payment>>) -> Option<Vote> {
        self.questions += 1;
        let (poll, vertex) = (self.questions, Arc::clone(vertex));
        self.hear(from, Message::Query { poll, vertex });
        self.answer_to(poll)
    }

    fn answer_to(&self, poll: u64) -> Option<Vote> {
        let mut answers = self.answers.iter().filter(|(number, _)| *number == poll);
        answers.next().map(|(_, vote)| vote.clone())
    }

    /// The next poll: all agree, or all name these vertices against it.
    fn poll(&mut self, of: &Arc<Vertex<Payment>>, vote: &Vote) {
        let Asked { poll, vertex, peers } = self.asked.pop_front().expect("a poll");
        assert_eq!(vertex, of.id(), "another one is asked about");
        for peer in peers {
            let vote = vote.clone();
            self.hear(peer.0, Message::Answer { poll, vote });
        }
    }

    /// A vertex of a peer, and the poll of it.
    pub fn polled(&mut self, vertex: &Arc<Vertex<Payment>>, vote: &Vote) {
        self.question(1, vertex);
        self.poll(vertex, vote);
    }

    fn why(&self, payment: &Payment) -> Why {
        self.node.why(&payment.id(), &self.ledger).expect("it is pending")
    }

    /// Its confidence, and its successful polls in a row.
    pub fn counts(&self, payment: &Payment) -> (u64, u32) {
        let why = self.why(payment);
        (why.confidence, why.count)
    }

    /// Whether a vertex in memory has the payment.
    fn holds(&self, payment: &Payment) -> bool {
        self.node.vertices().any(|seen| seen.vertex.transactions().contains(payment))
    }

    fn prefers(&self, payment: &Payment) -> bool {
        self.node.prefers(&payment.id()).expect("it is known")
    }
}

pub fn against(vertices: &[&Arc<Vertex<Payment>>]) -> Vote {
    Vote::No(vertices.iter().map(|vertex| vertex.id()).collect())
}

#[test]
fn an_answer_counts_once_and_from_those_who_were_asked() {
    let mut alone = Alone::new(settings());
    let payment = Payment::new("a", &[genesis(0)]);
    let vertex = vertex(&[], &[&payment]);
    assert_eq!(alone.question(1, &vertex), Some(Vote::Yes));
    let Asked { poll, peers, .. } = alone.asked.pop_front().unwrap();
    assert_eq!(peers.len(), 5);
    let yes = |alone: &mut Alone, from| alone.hear(from, Message::Answer { poll, vote: Vote::Yes });
    // One that was asked says it four times; those who were not asked say it too, and for a poll
    // that there never was.
    (0..4).for_each(|_| yes(&mut alone, peers[0].0));
    let strangers = (0..NODES as u16).filter(|id| !peers.contains(&ReplicaId(*id)));
    strangers.for_each(|from| yes(&mut alone, from));
    alone.hear(peers[1].0, Message::Answer { poll: 99, vote: Vote::Yes });
    assert_eq!(alone.counts(&payment), (0, 0));
    assert_eq!(alone.node.counts().unasked, 3 + 3 + 1);
    (1..3).for_each(|at| yes(&mut alone, peers[at].0));
    assert_eq!(alone.counts(&payment), (0, 0), "three of five are below alpha");
    yes(&mut alone, peers[3].0);
    assert_eq!(alone.counts(&payment), (1, 1));
}

#[test]
fn silence_is_no_vote() {
    let mut alone = Alone::new(settings());
    let payment = Payment::new("a", &[genesis(0)]);
    let vertex = vertex(&[], &[&payment]);
    alone.question(1, &vertex);
    for repeats in 0..=u64::from(settings().repeats) {
        assert_eq!(alone.node.counts().polls_repeated, repeats);
        let Asked { poll, peers, .. } = alone.asked.pop_front().expect("it is asked about again");
        // Three of the five answer.
        for peer in &peers[..3] {
            alone.hear(peer.0, Message::Answer { poll, vote: Vote::Yes });
        }
        alone.now = alone.now.after(settings().poll_timeout);
        alone.step(Input::Timeout);
        assert_eq!(alone.counts(&payment), (0, 0));
    }
    assert_eq!((alone.node.counts().polls_won, alone.node.counts().polls_lost), (0, 1));
}

/// Glacier: an unsuccessful poll begins anew for the vertex, and for the ancestors that the answers
/// name; for no others.
#[test]
fn an_unsuccessful_poll_resets_what_its_answers_name() {
    let parameters = Parameters { early: 4, decision: 4, ..PARAMETERS };
    let mut alone = Alone::new(Settings { parameters, ..settings() });
    let payment = Payment::new("a", &[genesis(0)]);
    let base = vertex(&[], &[&payment]);
    alone.polled(&base, &Vote::Yes);
    let first = vertex(&[&base], &[]);
    alone.polled(&first, &Vote::Yes);
    assert_eq!(alone.counts(&payment), (2, 2));
    let own = vertex(&[&base], &[&Payment::new("b", &[genesis(1)])]);
    alone.polled(&own, &against(&[&own]));
    assert_eq!(alone.counts(&payment), (2, 2), "nobody is against it");
    let other = vertex(&[&base, &first], &[]);
    alone.polled(&other, &against(&[&base]));
    assert_eq!(alone.counts(&payment), (2, 0), "chits stay, the counter does not");
    assert!(alone.accepted.is_empty());
    // The vertex itself begins anew, whatever is named.
    let lonely = Payment::new("c", &[genesis(2)]);
    let third = vertex(&[], &[&lonely]);
    alone.polled(&third, &Vote::Yes);
    let copy = vertex(&[&third], &[&lonely]);
    alone.polled(&copy, &Vote::No(Vec::new()));
    assert_eq!(alone.why(&lonely).confidence, 1);
}

#[test]
fn a_poll_is_one_chit_for_a_transaction_in_two_vertices() {
    let parameters = Parameters { early: 4, decision: 4, ..PARAMETERS };
    let mut alone = Alone::new(Settings { parameters, ..settings() });
    let payment = Payment::new("a", &[genesis(0)]);
    let first = vertex(&[], &[&payment]);
    alone.polled(&first, &Vote::Yes);
    let again = vertex(&[&first], &[&payment]);
    alone.polled(&again, &Vote::Yes);
    assert_eq!(alone.counts(&payment), (2, 2));
}

/// A settled vertex leaves memory before the rejected rival of its payment does. The payment's
/// output goes to the rival then, which is no reason against what stands on the vertex.
#[test]
fn what_stands_on_an_accepted_payment_is_preferred_when_it_leaves_memory() {
    let mut alone = Alone::new(settings());
    let (one, other) = (Payment::new("one", &[genesis(0)]), Payment::new("other", &[genesis(0)]));
    let base = vertex(&[], &[&one]);
    alone.polled(&base, &Vote::Yes);
    alone.polled(&vertex(&[], &[&other]), &against(&[]));
    let above: Vec<_> = (1..=4)
        .map(|at| vertex(&[&base], &[&Payment::new(&at.to_string(), &[genesis(at)])]))
        .collect();
    above.iter().for_each(|vertex| alone.polled(vertex, &Vote::Yes));
    assert_eq!(alone.accepted, [one.id()]);
    assert_eq!(alone.rejected.len(), 1);
    assert!(!alone.node.knows(&base.id()), "it has left memory");
    for vertex in &above {
        assert_eq!(alone.question(2, vertex), Some(Vote::Yes));
    }
}

/// It waits for a vertex when what it spends is rejected: nobody could ever accept it.
#[test]
fn what_rests_on_a_rejected_payment_is_rejected_before_it_is_in_a_vertex() {
    let mut alone = Alone::new(Settings { polls: 2, own_polls: 1, ..settings() });
    let (own, rival) = (Payment::new("own", &[genesis(0)]), Payment::new("rival", &[genesis(0)]));
    let above = Payment::new("above", &[own.output(0), own.output(1)]);
    let highest = Payment::new("highest", &[above.output(0)]);
    alone.step(Input::Submit(vec![own.clone()]));
    let unanswered = alone.asked.pop_front();
    assert!(unanswered.is_some());
    alone.step(Input::Submit(vec![above.clone(), highest.clone()]));
    assert_eq!((alone.asked.len(), alone.node.held().own), (0, 3));
    let base = vertex(&[], &[&rival]);
    alone.polled(&base, &Vote::Yes);
    for at in 1..PARAMETERS.decision {
        let child = vertex(&[&base], &[&Payment::new("child", &[genesis(at)])]);
        alone.polled(&child, &Vote::Yes);
    }
    assert_eq!(alone.accepted, [rival.id()]);
    let rejected = [
        (own.id(), Conflict::Spent { input: genesis(0), by: rival.id() }),
        (above.id(), Conflict::Unfounded(own.id())),
        (highest.id(), Conflict::Unfounded(above.id())),
    ];
    assert_eq!(alone.rejected, rejected);
    assert_eq!(alone.node.held().own, 0);
}

/// Both wait for a vertex: one because it is stuck, the other because it came later, in either
/// order.
#[test]
fn a_payment_and_what_it_spends_are_in_two_vertices() {
    for comes_after in [0, 5] {
        let mut alone = Alone::new(Settings { own_polls: 1, ..settings() });
        let below = Payment::new("below", &[genesis(0)]);
        let above = Payment::new("above", &[below.output(0)]);
        alone.step(Input::Submit(vec![below.clone()]));
        // Nobody answers. Each vertex that is asked about is one that peers take.
        for round in 0..20 {
            if round == comes_after {
                alone.step(Input::Submit(vec![above.clone()]));
            }
            alone.now = alone.now.after(settings().poll_timeout);
            alone.step(Input::Timeout);
        }
        assert!(alone.holds(&below) && alone.holds(&above));
    }
}

/// A faulty peer's vertex has two payments. A rival of one is accepted, and the vertex goes, the
/// other one with it. Own payments on that one are not looked at again and again: a step later
/// none of them waits for a vertex. When it comes back, they are issued.
#[test]
fn what_rests_on_a_forgotten_payment_waits_until_it_is_back() {
    let mut alone = Alone::new(settings());
    let [with, rival] = ["with", "rival"].map(|name| Payment::new(name, &[genesis(0)]));
    let below = Payment::new("below", &[genesis(1)]);
    let above = Payment::new("above", &[below.output(0)]);
    let highest = Payment::new("highest", &[above.output(0)]);
    let base = vertex(&[], &[&rival]);
    alone.polled(&base, &Vote::Yes);
    let both = vertex(&[], &[&with, &below]);
    alone.polled(&both, &against(&[&both]));
    alone.step(Input::Submit(vec![above.clone()]));
    alone.asked.clear();
    for at in 0..PARAMETERS.decision {
        let child = vertex(&[&base], &[&Payment::new("child", &[genesis(10 + at)])]);
        alone.question(1, &child);
    }
    for _ in 0..20 {
        alone.now = alone.now.after(settings().poll_timeout);
        alone.step(Input::Timeout);
        while let Some(Asked { poll, vertex, peers }) = alone.asked.pop_front() {
            let vote = if vertex == both.id() { Vote::No(Vec::new()) } else { Vote::Yes };
            for peer in peers {
                let vote = vote.clone();
                alone.hear(peer.0, Message::Answer { poll, vote });
            }
        }
    }
    assert!(alone.accepted.contains(&rival.id()));
    alone.step(Input::Submit(vec![highest.clone()]));
    assert!(!alone.node.knows(&both.id()));
    for payment in [&above, &highest] {
        let why = alone.why(payment);
        assert!(matches!(why.reason, Reason::Dependency(_)), "{:?}", why.reason);
    }
    let again = vertex(&[], &[&below]);
    alone.question(2, &again);
    for _ in 0..10 {
        alone.now = alone.now.after(settings().poll_timeout);
        alone.step(Input::Timeout);
    }
    assert!(alone.holds(&above) && alone.holds(&highest));
}

/// The vertex above is accepted by its own counter, while the one below waits. Then that is
/// rejected.
#[test]
fn a_vertex_may_be_accepted_whose_parent_is_rejected_later() {
    let mut alone = Alone::new(settings());
    let (one, other) = (Payment::new("one", &[genesis(0)]), Payment::new("other", &[genesis(0)]));
    let first = vertex(&[], &[&one]);
    let mut number = 0;
    let mut on = |alone: &mut Alone, base: &Arc<Vertex<Payment>>, count: u32, vote: &Vote| {
        for _ in 0..count {
            number += 1;
            let above = Payment::new("above", &[genesis(number)]);
            alone.polled(&vertex(&[base], &[&above]), vote);
        }
    };
    let second = vertex(&[], &[&other]);
    [&first, &second].into_iter().for_each(|vertex| drop(alone.question(1, vertex)));
    alone.poll(&first, &Vote::Yes);
    alone.poll(&second, &against(&[&second]));
    // It has more confidence than its rival ever gets here, and is not accepted.
    on(&mut alone, &first, 3, &Vote::Yes);
    on(&mut alone, &first, 1, &against(&[&first]));
    on(&mut alone, &first, 3, &Vote::Yes);
    assert_eq!(alone.accepted, []);
    let honest = Payment::new("honest", &[genesis(100)]);
    let child = vertex(&[&second], &[&honest]);
    alone.polled(&child, &Vote::Yes);
    // What stands on it has rivals, so that it stays in memory.
    for at in 1..PARAMETERS.decision {
        let both = ["mine", "theirs"].map(|name| Payment::new(name, &[genesis(200 + at)]));
        let [mine, theirs] = both.each_ref().map(|payment| vertex(&[&child], &[payment]));
        alone.polled(&theirs, &against(&[&theirs]));
        alone.polled(&mine, &Vote::Yes);
    }
    assert_eq!(alone.accepted, [honest.id()]);
    on(&mut alone, &first, 4, &Vote::Yes);
    assert!(alone.accepted.contains(&one.id()));
    assert_eq!(alone.rejected.first().map(|(id, _)| *id), Some(other.id()));
    alone.step(Input::Timeout);
    assert!(!alone.node.knows(&second.id()));
}

#[test]
fn the_first_of_two_rivals_is_preferred_until_the_other_has_more_confidence() {
    let mut alone = Alone::new(Settings {
        parameters: Parameters { early: 9, decision: 9, ..PARAMETERS },
        ..settings()
    });
    let (one, other) = (Payment::new("one", &[genesis(0)]), Payment::new("other", &[genesis(0)]));
    let first = vertex(&[], &[&one]);
    alone.polled(&first, &Vote::Yes);
    alone.polled(&vertex(&[&first], &[]), &Vote::Yes);
    let second = vertex(&[], &[&other]);
    assert_eq!(alone.question(2, &second), Some(against(&[&second])));
    assert!(alone.prefers(&one) && !alone.prefers(&other), "the first is preferred");
    assert_eq!(
        alone.why(&other).reason,
        Reason::Rival { input: genesis(0), rival: one.id() },
        "and it says so"
    );
    // What rests on the second is not preferred either, and the answer names the culprit.
    let above = vertex(&[&second], &[]);
    assert_eq!(alone.question(2, &above), Some(against(&[&second])));
    for (poll, vertex) in [&second, &above].into_iter().enumerate() {
        alone.poll(vertex, &Vote::Yes);
        assert_eq!(alone.counts(&other).0, poll as u64 + 1);
        assert!(alone.prefers(&one) && !alone.prefers(&other), "not more than the first one's");
    }
    alone.polled(&vertex(&[&above], &[]), &Vote::Yes);
    assert!(!alone.prefers(&one) && alone.prefers(&other));
    assert_eq!(alone.counts(&one), (2, 0), "the counter is of the last one that succeeded");
}

/// β₁ is for what never had a rival.
#[test]
fn one_of_two_rivals_needs_beta_2_and_the_other_is_rejected() {
    let mut alone = Alone::new(settings());
    let (one, other) = (Payment::new("one", &[genesis(0)]), Payment::new("other", &[genesis(0)]));
    let first = vertex(&[], &[&one]);
    let second = vertex(&[], &[&other]);
    alone.question(1, &first);
    alone.question(2, &second);
    alone.poll(&first, &Vote::Yes);
    alone.poll(&second, &Vote::No(Vec::new()));
    let mut tip = first;
    // The unsuccessful poll of the rival began the set's counter anew.
    for count in 1..=PARAMETERS.decision {
        assert_eq!((count, alone.accepted.len()), (count, 0));
        let next = vertex(&[&tip], &[]);
        alone.polled(&next, &Vote::Yes);
        tip = next;
    }
    assert_eq!(alone.accepted, [one.id()]);
    let spent = Conflict::Spent { input: genesis(0), by: one.id() };
    assert_eq!(alone.rejected, [(other.id(), spent)]);
    // Its vertex has left memory. A third spender is measured against the ledger.
    alone.polled(&vertex(&[&tip], &[]), &Vote::Yes);
    alone.step(Input::Timeout);
    let late = Payment::new("late", &[genesis(0)]);
    let third = vertex(&[], &[&late]);
    assert!(matches!(alone.question(3, &third), Some(Vote::No(_))));
    assert_eq!(alone.rejected.last(), Some(&(late.id(), spent)));
    alone.step(Input::Submit(vec![Payment::new("later", &[genesis(0)])]));
    assert_eq!(alone.not_taken, [NotTaken::Spent { input: genesis(0), by: one.id() }]);
}

/// A payment without a rival is accepted early, but not before the vertices that its own vouches
/// for.
#[test]
fn early_acceptance_waits_for_the_parents() {
    let mut alone = Alone::new(settings());
    let (one, other) = (Payment::new("one", &[genesis(0)]), Payment::new("other", &[genesis(0)]));
    let first = vertex(&[], &[&one]);
    alone.polled(&first, &Vote::Yes);
    alone.polled(&vertex(&[], &[&other]), &Vote::No(Vec::new()));
    alone.polled(&vertex(&[&first], &[]), &Vote::Yes);
    let honest = Payment::new("honest", &[genesis(1)]);
    let mut tip = vertex(&[&first], &[&honest]);
    alone.polled(&tip, &Vote::Yes);
    for count in 3..=PARAMETERS.decision {
        assert_eq!((count, alone.accepted.len()), (count, 0));
        let next = vertex(&[&tip], &[]);
        alone.polled(&next, &Vote::Yes);
        tip = next;
        if count + 1 == PARAMETERS.decision {
            assert_eq!(alone.why(&honest).reason, Reason::Parents);
        }
    }
    assert_eq!(alone.accepted, [one.id(), honest.id()]);
}

#[test]
fn a_payment_is_accepted_after_those_whose_outputs_it_spends() {
    let mut alone = Alone::new(settings());
    let below = Payment::new("below", &[genesis(0)]);
    let above = Payment::new("above", &[below.output(0)]);
    let first = vertex(&[], &[&below]);
    alone.polled(&first, &Vote::No(Vec::new()));
    // It does not vouch for the vertex of what it spends.
    let second = vertex(&[], &[&above]);
    alone.polled(&second, &Vote::Yes);
    alone.polled(&vertex(&[&second], &[]), &Vote::Yes);
    assert_eq!(alone.accepted, []);
    assert_eq!(alone.why(&above).reason, Reason::Dependency(below.id()));
    alone.polled(&vertex(&[&first], &[]), &Vote::Yes);
    alone.polled(&vertex(&[&first, &second], &[]), &Vote::Yes);
    assert_eq!(alone.accepted, [below.id(), above.id()]);
}

#[test]
fn what_is_no_vertex_is_refused_by_name_and_not_preferred() {
    let payment = |name: &str, inputs: &[_]| Payment::new(name, inputs);
    let base = payment("base", &[genesis(0)]);
    let twice = payment("twice", &[genesis(0), genesis(0)]);
    let shared = payment("shared", &[genesis(1), genesis(0)]);
    let within = payment("within", &[base.output(0)]);
    let parents = (0..=MAX_PARENTS as u64).map(unknown).collect();
    let many: Vec<_> = (0..257).map(|n| payment(&n.to_string(), &[genesis(n)])).collect();
    let wide = payment("wide", &(0..257).map(genesis).collect::<Vec<_>>());
    let cases: [(Vertex<Payment>, Malformed); 7] = [
        (Vertex::new(parents, Vec::new()), Malformed::Parents(MAX_PARENTS + 1)),
        (Vertex::new(Vec::new(), many), Malformed::Transactions(257)),
        (Vertex::new(Vec::new(), vec![wide]), Malformed::Inputs(257)),
        (Vertex::new(Vec::new(), vec![twice.clone()]), Malformed::SpentTwice(genesis(0))),
        (Vertex::new(Vec::new(), vec![base.clone(), shared]), Malformed::SpentTwice(genesis(0))),
        (Vertex::new(Vec::new(), vec![base.clone(); 2]), Malformed::Repeated(base.id())),
        (Vertex::new(Vec::new(), vec![base.clone(), within]), Malformed::SpentWithin(base.id())),
    ];
    let mut alone = Alone::new(settings());
    for (count, (vertex, expected)) in (1..).zip(cases) {
        assert_eq!(vertex.check(), Err(expected));
        assert_eq!(alone.question(1, &Arc::new(vertex)), Some(Vote::No(Vec::new())));
        assert_eq!(alone.node.counts().refused, count, "{expected}");
    }
    assert_eq!((alone.node.held().vertices, alone.asked.len()), (0, 0));
    alone.step(Input::Submit(vec![twice]));
    assert_eq!(alone.not_taken, [NotTaken::Malformed]);
}

/// Questions and answers about what there is not.
#[test]
fn what_nobody_knows_costs_nothing() {
    let mut alone = Alone::new(settings());
    for number in 0..1000 {
        alone.hear(1, Message::Want(unknown(number)));
        alone.hear(1, Message::Answer { poll: number, vote: Vote::Yes });
        let vertex = Arc::new(Vertex::new(vec![unknown(number)], Vec::new()));
        alone.hear(1, Message::Have(vertex));
    }
    assert_eq!((alone.sent, alone.node.counts().unasked), (0, 2000));
    assert_eq!(alone.node.held(), Default::default());
    assert_eq!(alone.node.deadline(), None);
}
