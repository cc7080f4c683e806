//! Nodes that decide between two colours.

use std::cell::RefCell;

use quorate_core::protocols::snow::parameters::Parameters;

use super::{MAX_NODES, nanos, tell, world};
use crate::colours::{Kind, Network, Seen};
use crate::setting::{Adversary, Setting, Stake};

/// Numbers of a node: colour, whether it is faulty, polls in a row, confidence in either colour,
/// polls begun, when it decided in milliseconds (−1: it has not).
pub const NODE_FIELDS: usize = 7;
/// Numbers of the network: simulated milliseconds, correct nodes of either colour, those that
/// decided for either, undecided ones, messages, the upper and the lower half of the trace.
pub const GRID_FIELDS: usize = 9;

#[derive(Default)]
struct Grid {
    network: Option<Network>,
    nodes: Vec<i32>,
    numbers: Vec<f64>,
}

thread_local! {
    static GRID: RefCell<Grid> = RefCell::default();
}

/// Begins anew: `kind` is 0 Slush, 1 Snowflake, 2 Snowball; `adversary` a place in
/// [`Adversary::ALL`]. Returns 1, or 0 with a sentence.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn grid_new(
    kind: u32,
    nodes: u32,
    faulty: u32,
    adversary: u32,
    k: u32,
    alpha: u32,
    beta: u32,
    lost_ppm: u32,
    red_permille: u32,
    seed: u32,
) -> u32 {
    let nodes = nodes.clamp(2, MAX_NODES);
    let setting = Setting {
        nodes: nodes as usize,
        faulty: faulty.min(nodes - 1) as usize,
        adversary: Adversary::ALL
            .get(adversary as usize)
            .map_or(Adversary::Opposite, |(_, it)| *it),
        numbers: Parameters { sample: k, quorum: alpha, early: 1, decision: beta },
        stake: Stake::Equal,
        world: world(lost_ppm.min(1_000_000)),
        seed: u64::from(seed),
    };
    let kind = match kind {
        0 => Kind::Slush,
        1 => Kind::Snowflake,
        _ => Kind::Snowball,
    };
    GRID.with_borrow_mut(|grid| {
        match Network::new(setting, kind, u64::from(red_permille.min(1000))) {
            Ok(network) => grid.network = Some(network),
            Err(refused) => {
                tell(refused);
                return 0;
            }
        }
        grid.show();
        1
    })
}

/// Lets so much time pass. Returns how many correct nodes have not decided.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn grid_advance(ms: f64) -> u32 {
    GRID.with_borrow_mut(|grid| {
        let Some(network) = &mut grid.network else { return 0 };
        network.advance(network.now_ns() + nanos(ms));
        let undecided = network.undecided() as u32;
        grid.show();
        undecided
    })
}

/// Where the nodes are: [`NODE_FIELDS`] numbers each, of 32 bits.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn grid_nodes() -> *const i32 {
    GRID.with_borrow(|grid| grid.nodes.as_ptr())
}

/// Where the [`GRID_FIELDS`] numbers of the network are, of 64 bits with a fraction.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn grid_numbers() -> *const f64 {
    GRID.with_borrow(|grid| grid.numbers.as_ptr())
}

impl Grid {
    fn show(&mut self) {
        let Some(network) = &self.network else { return };
        self.nodes.clear();
        let mut decided = [0_u32; 2];
        for node in network.nodes() {
            let Seen { colour, is_faulty, count, confidence, polls, decided_at } = node;
            if decided_at.is_some() && !is_faulty {
                decided[usize::from(colour.0.min(1))] += 1;
            }
            let ms = decided_at.map_or(-1, |ns| (ns / 1_000_000) as i32);
            self.nodes.extend([i32::from(colour.0), i32::from(is_faulty), count as i32]);
            self.nodes.extend([confidence[0] as i32, confidence[1] as i32, polls as i32, ms]);
        }
        let report = network.report();
        let colours = network.colours();
        self.numbers = vec![
            network.now_ns() as f64 / 1e6,
            colours[0] as f64,
            colours[1] as f64,
            f64::from(decided[0]),
            f64::from(decided[1]),
            network.undecided() as f64,
            report.messages as f64,
            (report.trace >> 32) as f64,
            (report.trace & 0xffff_ffff) as f64,
        ];
    }
}

/// The numbers of the network, for those that are no page.
#[must_use]
pub fn grid_numbers_now() -> Vec<f64> {
    GRID.with_borrow(|grid| grid.numbers.clone())
}

/// The numbers of the nodes, for those that are no page.
#[must_use]
pub fn grid_nodes_now() -> Vec<i32> {
    GRID.with_borrow(|grid| grid.nodes.clone())
}
