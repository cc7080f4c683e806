//! What the protocol asks of payments before they join a conflict set.

mod fixtures;

use std::sync::Arc;

use fixtures::{genesis, signed};
use quorate_core::protocols::snow::avalanche::vertex::{Transaction as _, Worth};
use quorate_core::protocols::snow::avalanche::{
    Avalanche, Input, InputId, Message, Output, Past, Settings, TransactionId, Vertex, VertexId,
    Vote,
};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::{Digest, ReplicaId, Time};
use quorate_payments::{Genesis, OutputId, Signed};

/// A ledger that holds the genesis alone.
struct Beginning(Genesis);

impl Past for Beginning {
    fn has_vertex(&self, _: &VertexId) -> bool {
        false
    }

    fn has_transaction(&self, transaction: &TransactionId) -> bool {
        *transaction == self.0.id()
    }

    fn spender(&self, _: &InputId) -> Option<TransactionId> {
        None
    }

    fn output(&self, input: &InputId) -> Option<Worth> {
        let (_, output) = self.0.outputs().find(|(id, _)| id == input)?;
        Some(Worth { owner: Digest(output.to.0), amount: output.amount })
    }
}

/// What a node answers to a question about a vertex with this transaction, and whether it took it.
fn asked(transaction: Signed) -> (Vote, bool) {
    let past = Beginning(genesis(2, 1, 100));
    let parameters = Parameters { sample: 3, quorum: 3, early: 2, decision: 5 };
    let me = ReplicaId(0);
    let mut node = Avalanche::new(Settings::new(parameters), me, &[1; 4], 1).unwrap();
    let id = transaction.id();
    let vertex = Arc::new(Vertex::new(Vec::new(), vec![transaction]));
    let message = Message::Query { poll: 7, vertex };
    let input = Input::Message { from: ReplicaId(1), message };
    let effects = node.step(Time(0), input, &past);
    let outputs = effects.persist(|_| Ok::<_, std::convert::Infallible>(())).unwrap();
    let vote = outputs.into_iter().find_map(|output| match output {
        Output::Send { message: Message::Answer { poll: 7, vote }, .. } => Some(vote),
        _ => None,
    });
    (vote.unwrap(), node.transaction(&id).is_some())
}

#[test]
fn what_no_ledger_could_accept_is_nobodys_rival() {
    let made: Vec<OutputId> = genesis(2, 1, 100).outputs().map(|(id, _)| id).collect();
    assert_eq!(asked(signed(&[(made[0], 0)], &[(1, 60), (0, 40)])), (Vote::Yes, true));
    let unknown = OutputId { index: 2, ..made[0] };
    for transaction in [
        // Overspending, unbalanced, another's output, an output that nobody made.
        signed(&[(made[0], 0)], &[(1, 101)]),
        signed(&[(made[0], 0)], &[(1, 99)]),
        signed(&[(made[0], 1)], &[(1, 100)]),
        signed(&[(unknown, 0)], &[(1, 100)]),
    ] {
        assert_eq!(asked(transaction), (Vote::No(Vec::new()), false));
    }
}
