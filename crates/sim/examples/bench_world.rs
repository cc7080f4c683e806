//! How fast a world runs: four replicas of chained HotStuff without faults, under a steady load.
//!
//! `cargo run --release -p quorate-sim --example bench_world [SECONDS]`: simulated seconds (60).
//! An event is a delivery, a timer, a verdict or an answer. Processor time is this thread's own, so that a busy
//! machine does not blur the figure.

use std::time::Instant;

use quorate_core::{Duration, Time};
use quorate_sim::{Cluster, Config};

/// Simulated time from one request to the next: a view takes two milliseconds, so that there is always something to order.
const PAUSE_MICROS: u64 = 10_000;

fn main() {
    let seconds: u64 = std::env::args().nth(1).map_or(60, |text| text.parse().expect("seconds"));
    let config = Config { encodes: false, ..Config::default() };
    let mut cluster = Cluster::new(config);
    let (begun, processor) = (Instant::now(), processor_ns());
    let mut events = 0u64;
    let mut until = Time(0);
    while until < Time(seconds * 1_000_000_000) {
        cluster.request(0, 10, 32);
        until = until.after(Duration::from_micros(PAUSE_MICROS));
        while cluster.step(until) {
            events += 1;
        }
    }
    let wall = begun.elapsed().as_secs_f64();
    let busy = (processor_ns() - processor) as f64 / 1e9;
    println!(
        "{seconds} simulated seconds, {events} events, {} commits, {} commands",
        cluster.oracles.height(),
        cluster.oracles.commands.len()
    );
    println!(
        "{wall:.2} s, {busy:.2} s of processor: {:.0} events/s, {:.0} simulated seconds a second",
        events as f64 / busy,
        seconds as f64 / busy
    );
    let writes: u64 = cluster.slots.iter().map(|slot| slot.disk.writes).sum();
    println!("{writes} turns persisted something");
    worlds();
}

/// How long it takes to make a world, its four disks begun.
fn worlds() {
    let processor = processor_ns();
    let count = 2_000;
    for seed in 0..count {
        let config = Config { seed, encodes: false, ..Config::default() };
        assert_eq!(Cluster::new(config).slots.len(), 4);
    }
    let each = (processor_ns() - processor) as f64 / 1e3 / count as f64;
    println!("{each:.0} µs of processor to make a world");
}

/// Processor time of this process in nanoseconds, where the system tells it; else 0.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}
