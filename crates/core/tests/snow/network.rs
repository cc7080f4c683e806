//! Some nodes of Avalanche, with messages that take a while each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::protocols::snow::avalanche::{
    Avalanche, Input, InputId, Message, Output, Past, Record, Settings, Transaction, TransactionId,
    Vertex, VertexId, Vote,
};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::protocols::snow::random::Random;
use quorate_core::{Digest, Duration, ReplicaId, Time};

/// The vertices of a node.
type Vertices = BTreeMap<VertexId, Arc<Vertex<Payment>>>;

/// A payment without money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    id: TransactionId,
    inputs: Vec<InputId>,
}

impl Payment {
    pub fn new(name: &str, inputs: &[InputId]) -> Self {
        let mut bytes = name.as_bytes().to_vec();
        inputs.iter().for_each(|input| bytes.extend_from_slice(input.to_string().as_bytes()));
        Self { id: TransactionId(Digest::of("test payment", &bytes)), inputs: inputs.to_vec() }
    }

    pub fn output(&self, index: u32) -> InputId {
        InputId { transaction: self.id, index }
    }
}

impl Transaction for Payment {
    fn id(&self) -> TransactionId {
        self.id
    }

    fn inputs(&self) -> &[InputId] {
        &self.inputs
    }
}

/// What everybody begins with.
pub fn genesis(index: u32) -> InputId {
    Payment::new("genesis", &[]).output(index)
}

/// A ledger in memory.
#[derive(Clone, Debug)]
pub struct Ledger {
    vertices: BTreeMap<VertexId, Arc<Vertex<Payment>>>,
    pub transactions: BTreeSet<TransactionId>,
    spenders: BTreeMap<InputId, TransactionId>,
}

impl Ledger {
    pub fn new() -> Self {
        let transactions = BTreeSet::from([genesis(0).transaction]);
        Self { vertices: BTreeMap::new(), transactions, spenders: BTreeMap::new() }
    }

    /// Never two accepted of one conflict set.
    pub fn write(&mut self, record: Record<Payment>) {
        match record {
            Record::Vertex(vertex) => drop(self.vertices.insert(vertex.id(), vertex)),
            Record::Transaction(transaction) => {
                for input in transaction.inputs() {
                    assert!(self.transactions.contains(&input.transaction), "spends nothing");
                    let before = self.spenders.insert(*input, transaction.id());
                    assert_eq!(before, None, "spent twice: {input}");
                }
                assert!(self.transactions.insert(transaction.id()), "accepted twice");
            }
        }
    }
}

impl Past for Ledger {
    fn has_vertex(&self, vertex: &VertexId) -> bool {
        self.vertices.contains_key(vertex)
    }

    fn has_transaction(&self, transaction: &TransactionId) -> bool {
        self.transactions.contains(transaction)
    }

    fn spender(&self, input: &InputId) -> Option<TransactionId> {
        self.spenders.get(input).copied()
    }
}

/// A message on its way: when it arrives, its number, from whom, to whom.
type Way = (Time, u64, ReplicaId, ReplicaId);

/// All nodes.
pub struct Network {
    pub nodes: Vec<(Avalanche<Payment>, Ledger)>,
    pub now: Time,
    ways: BTreeMap<Way, Message<Payment>>,
    sent: u64,
    random: Random,
    /// Of a thousand messages so many are lost.
    pub lost_permille: u64,
    pub rejected: Vec<BTreeSet<TransactionId>>,
    pub not_taken: Vec<(usize, TransactionId)>,
    /// A node that lies, and the vertices that it told.
    liar: Option<(usize, Vertices)>,
}

pub fn small() -> Settings {
    Settings::new(Parameters { sample: 5, quorum: 4, early: 4, decision: 20 })
}

impl Network {
    pub fn new(nodes: u16, settings: Settings, seed: u64) -> Self {
        Self::of(nodes, |_| settings, seed)
    }

    /// Nodes with settings of their own.
    pub fn of(nodes: u16, settings: impl Fn(u16) -> Settings, seed: u64) -> Self {
        let stakes = vec![1; usize::from(nodes)];
        let seed_of = |me: u16| seed ^ u64::from(me) << 32;
        let node = |me| Avalanche::new(settings(me), ReplicaId(me), &stakes, seed_of(me));
        Self {
            nodes: (0..nodes).map(|me| (node(me).unwrap(), Ledger::new())).collect(),
            now: Time(0),
            ways: BTreeMap::new(),
            sent: 0,
            random: Random::new(seed),
            lost_permille: 0,
            rejected: vec![BTreeSet::new(); usize::from(nodes)],
            not_taken: Vec::new(),
            liar: None,
        }
    }

    /// This node does nothing from now on but what [`Network::tell`] says, and to be against
    /// everything that it is asked about.
    pub fn lies(&mut self, node: usize) {
        self.liar = Some((node, BTreeMap::new()));
    }

    /// The liar asks a node about a vertex.
    pub fn tell(&mut self, to: usize, vertex: &Arc<Vertex<Payment>>) {
        let Some((liar, told)) = &mut self.liar else { return };
        let (liar, poll) = (*liar, u64::MAX);
        told.insert(vertex.id(), Arc::clone(vertex));
        let message = Message::Query { poll, vertex: Arc::clone(vertex) };
        self.send(liar, ReplicaId(to as u16), message);
    }

    /// What the liar says to a message.
    fn lie(&mut self, liar: usize, to: ReplicaId, message: &Message<Payment>) {
        let told = self.liar.as_ref().map(|(_, told)| told);
        let answer = match message {
            Message::Query { poll, .. } => {
                Message::Answer { poll: *poll, vote: Vote::No(Vec::new()) }
            }
            Message::Want(vertex) => match told.and_then(|told| told.get(vertex)) {
                Some(vertex) => Message::Have(Arc::clone(vertex)),
                None => return,
            },
            Message::Answer { .. } | Message::Have(_) => return,
        };
        self.send(liar, to, answer);
    }

    pub fn input(&mut self, node: usize, input: Input<Payment>) {
        let (avalanche, ledger) = &mut self.nodes[node];
        let fx = avalanche.step(self.now, input, ledger);
        assert_eq!(avalanche.miscounted(), None, "node {node}");
        let outputs = fx.persist(|records| {
            records.into_iter().for_each(|record| ledger.write(record));
            Ok::<(), ()>(())
        });
        for output in outputs.unwrap() {
            match output {
                Output::Send { to, message } => self.send(node, to, message),
                Output::Serve { to, vertex } => {
                    let vertex = Arc::clone(&self.nodes[node].1.vertices[&vertex]);
                    self.send(node, to, Message::Have(vertex));
                }
                Output::Accepted { .. } => {}
                Output::Rejected { transaction, .. } => {
                    self.rejected[node].insert(transaction);
                }
                Output::NotTaken { transaction, .. } => self.not_taken.push((node, transaction)),
            }
        }
    }

    fn send(&mut self, from: usize, to: ReplicaId, message: Message<Payment>) {
        self.sent += 1;
        if self.random.below(1000) >= self.lost_permille {
            let at = self.now.after(Duration::from_micros(5_000 + self.random.below(10_000)));
            self.ways.insert((at, self.sent, ReplicaId(from as u16), to), message);
        }
    }

    pub fn submit(&mut self, node: usize, payments: &[&Payment]) {
        self.input(
            node,
            Input::Submit(payments.iter().map(|payment| (*payment).clone()).collect()),
        );
    }

    /// Lets so much time pass.
    pub fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            let due = |(avalanche, _): &(Avalanche<_>, _)| avalanche.deadline();
            let timer =
                self.nodes.iter().enumerate().filter_map(|(at, node)| Some((due(node)?, at)));
            let timer = timer.min();
            let way = self.ways.first_key_value().map(|(way, _)| *way);
            match (way, timer) {
                (Some(way), timer) if timer.is_none_or(|(due, _)| way.0 <= due) && way.0 <= end => {
                    self.now = self.now.max(way.0);
                    let message = self.ways.remove(&way).unwrap();
                    match self.liar {
                        Some((liar, _)) if way.3.index() == liar => self.lie(liar, way.2, &message),
                        _ => self.input(way.3.index(), Input::Message { from: way.2, message }),
                    }
                }
                (_, Some((due, node))) if due <= end => {
                    self.now = self.now.max(due);
                    self.input(node, Input::Timeout);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// How many accepted it.
    pub fn accepted(&self, payment: &Payment) -> usize {
        let has = |(_, ledger): &&(_, Ledger)| ledger.transactions.contains(&payment.id());
        self.nodes.iter().filter(has).count()
    }

    /// Messages sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}
