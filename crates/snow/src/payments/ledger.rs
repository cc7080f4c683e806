//! Who accepted what.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::Digest;
use quorate_core::protocols::snow::avalanche::{
    InputId, Past, Record, Transaction, TransactionId, Vertex, VertexId,
};

use super::Report;

/// A payment that spends one output of the genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coin {
    number: u32,
    input: [InputId; 1],
}

impl Transaction for Coin {
    fn id(&self) -> TransactionId {
        name(self.number)
    }

    fn inputs(&self) -> &[InputId] {
        &self.input
    }
}

impl Coin {
    /// Its number, in the order of submission.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The genesis is number 0.
pub(super) fn name(number: u32) -> TransactionId {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    TransactionId(Digest(bytes))
}

fn number(id: &TransactionId) -> usize {
    let [a, b, c, d, ..] = id.0.0;
    u32::from_be_bytes([a, b, c, d]) as usize
}

/// Two spends of one output that were accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The output's number.
    pub output: u32,
    /// The node that accepted the second one.
    pub node: usize,
}

#[derive(Clone, Debug)]
struct Payment {
    output: u32,
    submitted: u64,
    is_first: bool,
    is_rogue: bool,
    by: Vec<u64>,
    count: usize,
    /// When the first and the last so far accepted it.
    times: (u64, u64),
}

/// All payments, and all nodes' view of them.
#[derive(Debug)]
pub(super) struct Ledger {
    nodes: usize,
    correct: usize,
    payments: Vec<Payment>,
    /// The payments that spend an output.
    spends: Vec<Vec<u32>>,
    vertices: BTreeMap<VertexId, (Arc<Vertex<Coin>>, Vec<u64>)>,
    pub(super) violation: Option<Violation>,
}

fn has(bits: &[u64], node: usize) -> bool {
    bits[node / 64] >> (node % 64) & 1 == 1
}

impl Ledger {
    pub(super) fn new(nodes: usize, correct: usize) -> Self {
        let mut ledger = Self {
            nodes,
            correct,
            payments: Vec::new(),
            spends: Vec::new(),
            vertices: BTreeMap::new(),
            violation: None,
        };
        ledger.add(u32::MAX, 0, true, false);
        ledger
    }

    fn add(&mut self, output: u32, submitted: u64, is_first: bool, is_rogue: bool) -> Coin {
        let number = self.payments.len() as u32;
        let (by, times) = (vec![0; self.nodes.div_ceil(64)], (0, 0));
        self.payments.push(Payment { output, submitted, is_first, is_rogue, by, count: 0, times });
        Coin { number, input: [InputId { transaction: name(0), index: output }] }
    }

    /// A payment of an output that nobody else spends.
    pub(super) fn mint(&mut self, now: u64) -> Coin {
        self.spends.push(vec![self.payments.len() as u32]);
        self.add(self.spends.len() as u32 - 1, now, true, false)
    }

    /// One of the adversary's own.
    pub(super) fn rogue(&mut self, now: u64) -> Coin {
        let coin = self.mint(now);
        self.payments[coin.number as usize].is_rogue = true;
        coin
    }

    /// Another payment of the same output.
    pub(super) fn rival(&mut self, coin: &Coin) -> Coin {
        let Payment { output, submitted, .. } = self.payments[coin.number as usize];
        self.spends[output as usize].push(self.payments.len() as u32);
        self.add(output, submitted, false, true)
    }

    pub(super) fn output_of(&self, payment: u32) -> Option<u32> {
        let found = self.payments.get(payment as usize).map(|payment| payment.output);
        found.filter(|output| *output != u32::MAX)
    }

    pub(super) fn is_contested(&self, payment: u32) -> bool {
        let output = self.output_of(payment).map(|output| output as usize);
        output.and_then(|at| self.spends.get(at)).is_some_and(|spends| spends.len() > 1)
    }

    pub(super) fn write(&mut self, now: u64, node: usize, record: Record<Coin>) {
        match record {
            Record::Transaction(coin) => {
                let payment = &mut self.payments[coin.number as usize];
                payment.by[node / 64] |= 1 << (node % 64);
                if node < self.correct {
                    let first = if payment.count == 0 { now } else { payment.times.0 };
                    payment.times = (first, now);
                    payment.count += 1;
                    let output = payment.output;
                    let spends = self.spends[output as usize].iter();
                    let accepted = spends.filter(|of| self.payments[**of as usize].count > 0);
                    if accepted.count() > 1 {
                        self.violation = Some(Violation { output, node });
                    }
                }
            }
            Record::Vertex(vertex) => {
                let bits = || (Arc::clone(&vertex), vec![0; self.nodes.div_ceil(64)]);
                let (_, by) = self.vertices.entry(vertex.id()).or_insert_with(bits);
                by[node / 64] |= 1 << (node % 64);
            }
        }
    }

    pub(super) fn vertex(&self, id: &VertexId) -> Option<Arc<Vertex<Coin>>> {
        self.vertices.get(id).map(|(vertex, _)| Arc::clone(vertex))
    }

    /// From its submission until the last correct node accepted it; none if one has not.
    pub(super) fn latency(&self, coin: &Coin) -> Option<u64> {
        let payment = &self.payments[coin.number as usize];
        (payment.count == self.correct).then(|| payment.times.1 - payment.submitted)
    }

    pub(super) fn tell(&self, load_ns: u64, report: &mut Report) {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut within = 0;
        for payment in self.payments.iter().skip(1) {
            let contested = payment.is_rogue
                || !payment.is_first
                || self.spends[payment.output as usize].len() > 1;
            let by_all = payment.count == self.correct;
            within += u64::from(by_all && payment.times.1 <= load_ns);
            if contested {
                report.contested += u64::from(payment.is_first);
                report.contested_accepted += u64::from(by_all);
                continue;
            }
            report.honest += 1;
            report.honest_by_all += u64::from(by_all);
            if payment.count > 0 {
                first.push(payment.times.0 - payment.submitted);
            }
            if by_all {
                last.push(payment.times.1 - payment.submitted);
            }
        }
        first.sort_unstable();
        last.sort_unstable();
        (report.first_ns, report.last_ns) = (first, last);
        report.rate = within as f64 / (load_ns.max(1) as f64 / 1e9);
        report.violation = self.violation.clone();
    }
}

/// The ledger as one node sees it.
pub(super) struct Seen<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) node: usize,
}

impl Past for Seen<'_> {
    fn has_vertex(&self, vertex: &VertexId) -> bool {
        self.ledger.vertices.get(vertex).is_some_and(|(_, by)| has(by, self.node))
    }

    fn has_transaction(&self, transaction: &TransactionId) -> bool {
        let number = number(transaction);
        number == 0 || self.ledger.payments.get(number).is_some_and(|of| has(&of.by, self.node))
    }

    fn spender(&self, input: &InputId) -> Option<TransactionId> {
        let spends = self.ledger.spends.get(input.index as usize)?;
        let accepted = |of: &&u32| has(&self.ledger.payments[**of as usize].by, self.node);
        spends.iter().find(accepted).map(|of| name(*of))
    }
}
