//! The liveness attack on the white paper's counters.
//!
//! The adversary spends an output, and then once more, in a vertex whose parent is the victim's.
//! The second spend is not preferred by anybody who saw the first; its poll fails everywhere, and
//! resets the counters of all ancestors, the victim among them. There is one a tick.

use std::sync::Arc;

use quorate_core::ReplicaId;
use quorate_core::protocols::snow::avalanche::{Message, Transaction as _, Vertex, VertexId};

use super::ledger::Coin;
use super::{Network, TICK_NS};

/// When the target is chosen.
const BEGIN_NS: u64 = 2_000_000_000;
/// How many nodes a rogue vertex is told to; they tell the others.
const TOLD: u64 = 10;

/// What the adversary knows.
#[derive(Debug, Default)]
pub(super) struct Attack {
    pub(super) target: Option<Coin>,
    parent: Option<VertexId>,
    /// Second spends that wait until the first ones are everywhere.
    ready: Vec<(u64, Coin)>,
    number: u64,
}

impl Network {
    /// One tick's work: a first spend, and the second one of a first that is ten ticks old.
    pub(super) fn attack(&mut self, now: u64) {
        let Some(mut attack) = self.attacked.take() else { return };
        let liar = self.setting.nodes - 1;
        if attack.target.is_none() && now >= BEGIN_NS {
            let coin = self.ledger.mint(now);
            self.step(now, 0, super::Input::Submit(vec![coin.clone()]));
            attack.target = Some(coin);
        }
        if let (Some(target), None) = (&attack.target, attack.parent) {
            attack.parent = self.nodes[0]
                .why(&target.id(), &super::Seen { ledger: &self.ledger, node: 0 })
                .and_then(|why| why.vertices.first().map(|vertex| vertex.vertex));
        }
        // First and second spend leave one after the other: whoever hears of the second first is
        // few.
        if now + 20 * TICK_NS >= BEGIN_NS {
            let first = self.ledger.rogue(now);
            let second = self.ledger.rival(&first);
            self.tell_some(now, liar, &Vertex::new(Vec::new(), vec![first]));
            attack.ready.push((now + 10 * TICK_NS, second));
        }
        let due = attack.ready.iter().take_while(|(at, _)| *at <= now).count();
        for (_, second) in attack.ready.drain(..due).collect::<Vec<_>>() {
            if let Some(parent) = attack.parent {
                attack.number += 1;
                self.tell_some(now, liar, &Vertex::new(vec![parent], vec![second]));
            }
        }
        self.attacked = Some(attack);
    }

    fn tell_some(&mut self, now: u64, liar: usize, vertex: &Vertex<Coin>) {
        let vertex = Arc::new(vertex.clone());
        for _ in 0..TOLD {
            let to = ReplicaId(self.random.below(self.setting.correct() as u64) as u16);
            let message = Message::Query { poll: u64::MAX, vertex: Arc::clone(&vertex) };
            self.send(now, liar, to, message);
        }
    }
}
