//! Networks by the names of docs/networks.md, as the simulation has them.

use quorate_netem::preset::{Preset, WITHIN_PLACE_RTT_MS};
use quorate_snow::setting::World;

/// The preset of this name; a place of its own with 50 µs between any two nodes if there is none.
#[must_use]
pub fn named(name: &str) -> World {
    let mut world = World::uniform(50_000);
    world.delays = match Preset::named(name) {
        Some(Preset::Uniform { delay }) => {
            vec![vec![u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)]]
        }
        Some(Preset::Places(places)) => {
            let count = places.names.len();
            let between = |one: usize, other: usize| {
                let row = places.rtt_ms.get(one.max(other));
                let rtt = row.and_then(|row| row.get(one.min(other)));
                (rtt.copied().unwrap_or(WITHIN_PLACE_RTT_MS) / 2.0 * 1e6) as u64
            };
            let row = |one| (0..count).map(|other| between(one, other)).collect();
            (0..count).map(row).collect()
        }
        None => world.delays,
    };
    world
}
