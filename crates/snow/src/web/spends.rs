//! Payments over Avalanche's graph, and what a visitor spends twice.

use std::cell::RefCell;

use quorate_core::protocols::snow::avalanche::Counters;
use quorate_core::protocols::snow::parameters::Parameters;

use super::{nanos, tell, world};
use crate::payments::view::{Leaning, Picture, State};
use crate::payments::{Load, Network};
use crate::setting::{Adversary, Setting, Stake};

/// The most nodes: a picture looks at the vertices of each.
const MAX_NODES: u32 = 128;
/// Numbers of a vertex: its payment (−1: a no-op), when it came in milliseconds, state, confidence,
/// polls in a row, which of the visitor's spends it has (0: none; 2i + 1 and 2i + 2 of the i-th
/// pair), how many parents, and their places.
pub const VERTEX_FIELDS: usize = 7 + MAX_PARENTS;
const MAX_PARENTS: usize = 4;
/// How often the picture looks at the nodes, which forget what was decided.
const LOOK_NS: u64 = 50_000_000;

#[derive(Default)]
struct Spends {
    network: Option<Network>,
    picture: Picture,
    seen_by: usize,
    twice: Vec<[u32; 2]>,
    vertices: Vec<i32>,
    leanings: Vec<u8>,
}

thread_local! {
    static SPENDS: RefCell<Spends> = RefCell::default();
}

/// Begins anew. Returns 1, or 0 with a sentence.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_new(
    nodes: u32,
    faulty: u32,
    adversary: u32,
    k: u32,
    alpha: u32,
    beta_1: u32,
    beta_2: u32,
    rate: u32,
    seed: u32,
) -> u32 {
    let nodes = nodes.clamp(2, MAX_NODES);
    let setting = Setting {
        nodes: nodes as usize,
        faulty: faulty.min(nodes - 1) as usize,
        adversary: Adversary::ALL
            .get(adversary as usize)
            .map_or(Adversary::Opposite, |(_, it)| *it),
        numbers: Parameters { sample: k, quorum: alpha, early: beta_1, decision: beta_2 },
        stake: Stake::Equal,
        world: world(0),
        seed: u64::from(seed),
    };
    let load = Load {
        rate: u64::from(rate.min(100)),
        issuers: setting.correct(),
        double_permille: 0,
        load_ns: u64::MAX,
        rest_ns: 0,
        batch: 1,
        counters: Counters::Glacier,
    };
    SPENDS.with_borrow_mut(|spends| match Network::new(setting, load) {
        Ok(network) => {
            *spends = Spends { network: Some(network), ..Spends::default() };
            spends.show();
            1
        }
        Err(refused) => {
            tell(refused);
            0
        }
    })
}

/// Lets so much time pass, at most a minute. Returns how many vertices there are.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_advance(ms: f64) -> u32 {
    SPENDS.with_borrow_mut(|spends| {
        let mut left = nanos(ms.min(60_000.0));
        while let (Some(network), 1..) = (&mut spends.network, left) {
            let step = left.min(LOOK_NS);
            network.advance(network.now_ns() + step);
            spends.picture.update(network, spends.seen_by);
            left -= step;
        }
        spends.show();
        spends.picture.places().len() as u32
    })
}

/// Spends one output twice: at one node now, at another one later. Returns the number of the pair,
/// or −1 if there is no network or too many pairs.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_twice(here: u32, there: u32, later_ms: f64) -> i32 {
    SPENDS.with_borrow_mut(|spends| {
        let Some(network) = &mut spends.network else { return -1 };
        if spends.twice.len() >= 1000 {
            return -1;
        }
        let pair = network.spend_twice(here as usize, there as usize, nanos(later_ms));
        spends.twice.push(pair);
        spends.show();
        spends.twice.len() as i32 - 1
    })
}

/// Payments a second from now on.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_rate(rate: u32) {
    SPENDS.with_borrow_mut(|spends| {
        if let Some(network) = &mut spends.network {
            network.set_rate(u64::from(rate.min(100)));
        }
    });
}

/// Whose view is shown from now on.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_look(node: u32) {
    SPENDS.with_borrow_mut(|spends| {
        let nodes = spends.network.as_ref().map_or(0, Network::nodes);
        spends.seen_by = (node as usize).min(nodes.saturating_sub(1));
        spends.picture.look_elsewhere();
        spends.show();
    });
}

/// Simulated milliseconds.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_now() -> f64 {
    SPENDS.with_borrow(|spends| {
        spends.network.as_ref().map_or(0.0, |network| network.now_ns() as f64 / 1e6)
    })
}

/// Whether two spends of one output were accepted.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_unsafe() -> u32 {
    SPENDS.with_borrow(|spends| spends.network.as_ref().is_some_and(Network::is_unsafe).into())
}

/// Where the vertices are: [`VERTEX_FIELDS`] numbers each, of 32 bits.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_vertices() -> *const i32 {
    SPENDS.with_borrow(|spends| spends.vertices.as_ptr())
}

/// Where the leanings are: a byte a node for the first spend of the pair, then for the second.
/// 0: it has not heard of it; 1: against; 2: for; 3: accepted.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_leanings(pair: u32) -> *const u8 {
    SPENDS.with_borrow_mut(|spends| {
        spends.leanings.clear();
        if let (Some(network), Some(twice)) = (&spends.network, spends.twice.get(pair as usize)) {
            for payment in twice {
                let of = |node| leaning(network.leaning(node, *payment));
                spends.leanings.extend((0..network.nodes()).map(of));
            }
        }
        spends.leanings.as_ptr()
    })
}

/// Says of a spend of a pair why the node that is looked at has not accepted it. Returns the bytes
/// of the sentence; 0 if it is not pending there.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn spends_why(pair: u32, which: u32) -> u32 {
    SPENDS.with_borrow(|spends| {
        let payment = spends.twice.get(pair as usize).and_then(|pair| pair.get(which as usize));
        let (Some(network), Some(payment)) = (&spends.network, payment) else { return 0 };
        let Some(why) = network.why(spends.seen_by, *payment) else { return 0 };
        // Names of payments mean nothing to a visitor.
        let reason = match why.reason {
            quorate_core::protocols::snow::avalanche::Reason::Rival { .. } => {
                "the other spend is preferred".to_owned()
            }
            reason => reason.to_string(),
        };
        tell(format!(
            "confidence {}, {} of {} polls in a row; {reason}",
            why.confidence, why.count, why.needed
        ));
        super::message_length()
    })
}

fn leaning(leaning: Leaning) -> u8 {
    match leaning {
        Leaning::Unknown => 0,
        Leaning::Against => 1,
        Leaning::For => 2,
        Leaning::Accepted => 3,
    }
}

impl Spends {
    fn show(&mut self) {
        let Some(network) = &self.network else { return };
        self.picture.update(network, self.seen_by);
        self.vertices.clear();
        for place in self.picture.places() {
            let state = match place.state {
                State::Unknown => 0,
                State::Preferred => 1,
                State::Disliked => 2,
                State::Accepted => 3,
                State::Rejected => 4,
            };
            let payment = place.payment.map_or(-1, |payment| payment as i32);
            let pairs = self.twice.iter().flatten();
            let twice = place.payment.and_then(|of| pairs.into_iter().position(|it| *it == of));
            let twice = twice.map_or(0, |at| at as i32 + 1);
            let added = (place.added_ns / 1_000_000) as i32;
            let (confidence, count) = (place.confidence as i32, place.count as i32);
            self.vertices.extend([payment, added, state, confidence, count, twice]);
            let parents = &place.parents[..place.parents.len().min(MAX_PARENTS)];
            self.vertices.push(parents.len() as i32);
            let at = |place: usize| parents.get(place).map_or(-1, |parent| *parent as i32);
            self.vertices.extend((0..MAX_PARENTS).map(at));
        }
    }
}

/// The numbers of the vertices, for those that are no page.
#[must_use]
pub fn spends_vertices_now() -> Vec<i32> {
    SPENDS.with_borrow(|spends| spends.vertices.clone())
}

/// The leanings last asked for, for those that are no page.
#[must_use]
pub fn spends_leanings_now() -> Vec<u8> {
    SPENDS.with_borrow(|spends| spends.leanings.clone())
}
