//! What wallets hand in: whether it is taken. One that pays again while its last payment is pending
//! must not spend the same output.

use quorate_core::planted;
use quorate_core::protocols::snow::avalanche::Avalanche;
use quorate_transport::ConnectionId;

use super::super::attend::{refuse, say};
use super::Decider;
use crate::ask::Answer;
use crate::ledger::{LedgerError, OutputState, misfit};
use crate::refusal::Refusal;
use crate::transaction::OutputId;
use crate::verify::Signed;

impl Decider {
    /// Whether a wallet's transaction fits what is accepted and what is pending, these included;
    /// tells why not.
    pub(super) fn may_submit(
        &mut self,
        connection: ConnectionId,
        number: u64,
        transaction: &Signed,
        others: &[Signed],
    ) -> bool {
        if self.catch_up.is_some() {
            self.turn_away(
                connection,
                number,
                0,
                "busy",
                "the node is catching up: ask again, or another",
            );
            return false;
        }
        let look_up = |output: &OutputId| {
            let pending = self.protocol.transaction(&output.transaction);
            let made = pending.and_then(|of| of.outputs().get(output.index as usize));
            Ok::<_, LedgerError>(self.past.state(output).or_else(|| {
                made.map(|made| OutputState::Unspent { to: made.to, amount: made.amount, slot: 0 })
            }))
        };
        match misfit(transaction, look_up) {
            // The protocol says what it knows already.
            Ok(Some(Refusal::Spent { by, .. })) if by == transaction.id() => true,
            Ok(Some(refusal)) => {
                refuse(&self.shared, connection, number, &refusal);
                false
            }
            _ => match second_spend(&self.protocol, transaction, others) {
                Some(refusal) => {
                    refuse(&self.shared, connection, number, &refusal);
                    false
                }
                None => true,
            },
        }
    }

    pub(super) fn turn_away(
        &self,
        connection: ConnectionId,
        number: u64,
        reason: usize,
        name: &str,
        why: &str,
    ) {
        self.shared.metrics.turn_away(reason);
        let answer = Answer::Refused(name.to_owned(), why.to_owned());
        say(&self.shared, connection, number, &answer);
    }
}

/// Why a wallet's transaction is not taken that spends what another pending one spends, which this
/// node knows, or which is among these: its owner would be a double spender, and neither might ever
/// be decided.
fn second_spend(
    protocol: &Avalanche<Signed>,
    transaction: &Signed,
    others: &[Signed],
) -> Option<Refusal> {
    let id = transaction.id();
    // One that is under way already is handed in once more by whoever waits for it.
    if protocol.transaction(&id).is_some() {
        return None;
    }
    let spender = |output: &OutputId| {
        let mut others = others.iter().filter(|other| other.id() != id);
        let here = others.find(|other| other.inputs().contains(output)).map(|other| other.id());
        here.or_else(|| protocol.pending_spender(output, &id))
    };
    let second = transaction.inputs().iter().find_map(|output| Some((*output, spender(output)?)));
    let second = second.map(|(output, by)| Refusal::Pending { output, by });
    planted!("payments-second-spend-taken", None, second)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use quorate_core::base::crypto::ClientSigner as _;
    use quorate_core::protocols::snow::avalanche::vertex::Worth;
    use quorate_core::protocols::snow::avalanche::{Input, InputId, Past, Settings, VertexId};
    use quorate_core::protocols::snow::parameters::Parameters;
    use quorate_core::{Digest, ReplicaId, Time};
    use quorate_crypto::{Ed25519, SecretKey};

    use super::*;
    use crate::address::Address;
    use crate::transaction::{Body, Output, TransactionId};
    use crate::verify::verify;

    /// A ledger in which everything is still to be spent.
    struct Rich;

    impl Past for Rich {
        fn has_vertex(&self, _: &VertexId) -> bool {
            false
        }

        fn has_transaction(&self, transaction: &TransactionId) -> bool {
            *transaction == TransactionId::default()
        }

        fn spender(&self, _: &InputId) -> Option<TransactionId> {
            None
        }

        fn output(&self, _: &InputId) -> Option<Worth> {
            let owner = Address::of(&SecretKey::from_seed(&[1; 32]).public_key());
            Some(Worth { owner: Digest(owner.0), amount: 5 })
        }
    }

    /// A payment of these outputs to somebody.
    fn payment(outputs: &[u32], to: u8) -> Signed {
        let key = SecretKey::from_seed(&[1; 32]);
        let to = Address::of(&SecretKey::from_seed(&[to; 32]).public_key());
        let output =
            |index: &u32| (OutputId { index: *index, ..OutputId::default() }, key.public_key());
        let inputs: Vec<_> = outputs.iter().map(output).collect();
        let outputs = vec![Output { to, amount: 5 * outputs.len() as u64 }];
        let chain = Digest([7; 32]);
        let payment = Body::new(&inputs, outputs).unwrap().sign(&chain, &[&key]).unwrap();
        verify(&Ed25519::default(), &chain, vec![payment]).remove(0).unwrap()
    }

    #[test]
    fn a_second_payment_of_a_pending_ones_output_is_refused_by_name() {
        let parameters = Parameters { sample: 3, quorum: 3, early: 2, decision: 5 };
        let settings = Settings::new(parameters);
        let mut node = Avalanche::new(settings, ReplicaId(0), &[1; 4], 1).unwrap();
        let (first, second, other) = (payment(&[0], 2), payment(&[0, 1], 3), payment(&[2], 3));
        // In one frame with it.
        let pending = Refusal::Pending { output: first.inputs()[0], by: first.id() };
        assert_eq!(second_spend(&node, &second, std::slice::from_ref(&first)), Some(pending));
        let effects = node.step(Time(0), Input::Submit(vec![first.clone()]), &Rich);
        effects.persist(|_| Ok::<_, Infallible>(())).unwrap();
        assert_eq!(second_spend(&node, &second, &[]), Some(pending));
        let text = pending.to_string();
        assert!(text.contains(&first.id().to_string()) && text.contains("wait until"), "{text}");
        // The same once more is no second spend, nor is another output.
        assert_eq!(second_spend(&node, &first, std::slice::from_ref(&first)), None);
        assert_eq!(second_spend(&node, &other, &[second]), None);
    }
}
