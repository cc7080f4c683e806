//! How fast worlds run, on one thread: four replicas of chained HotStuff without faults, under a
//! steady load, as fast as the network lets them and at 20 views a second; then worlds as `quorate
//! sim` draws them from seeds.
//!
//! `cargo run --release -p quorate-sim --example bench_world [SECONDS [SEEDS]]`: simulated seconds
//! (60), seeds (300). An event is a delivery, a timer, a verdict or an answer. Processor time is
//! this thread's own, so that a busy machine does not blur the figure.

use std::time::Instant;

use mimalloc::MiMalloc;
use quorate_core::{Duration, Time};
use quorate_sim::campaign::{Campaign, Progress, Report};
use quorate_sim::family::HotStuffs;
use quorate_sim::network::Link;
use quorate_sim::swarm::Plan;
use quorate_sim::{Cluster, Config};

/// As in the `quorate` command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long a message takes: a view takes two of them.
const DELAYS_MICROS: [u64; 2] = [1_000, 25_000];

fn main() {
    let argument = |at: usize, usual: u64| {
        std::env::args().nth(at).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (seconds, seeds) = (argument(1, 60), argument(2, 300));
    if seconds > 0 {
        DELAYS_MICROS.iter().for_each(|delay| steady(seconds, *delay));
        worlds();
    }
    if seeds > 0 {
        drawn(seeds);
    }
}

/// One world under a steady load: a request in five views, so that there is always something to
/// order.
fn steady(seconds: u64, delay_micros: u64) {
    let base_timeout = 100 * delay_micros;
    let link = Link::steady(delay_micros);
    let config = Config { encodes: false, link, base_timeout, ..Config::default() };
    let mut cluster = Cluster::new(config);
    let (begun, processor) = (Instant::now(), processor_ns());
    let mut events = 0u64;
    let mut until = Time(0);
    while until < Time(seconds * 1_000_000_000) {
        cluster.request(0, 10, 32);
        until = until.after(Duration::from_micros(10 * delay_micros));
        while cluster.step(until) {
            events += 1;
        }
    }
    let wall = begun.elapsed().as_secs_f64();
    let busy = (processor_ns() - processor) as f64 / 1e9;
    println!(
        "{seconds} simulated seconds of {} views, {events} events, {} commits, {} commands",
        500_000 / delay_micros,
        cluster.oracles.height(),
        cluster.oracles.commands.len()
    );
    println!(
        "{wall:.2} s, {busy:.2} s of processor: {:.0} events/s, {:.0} simulated seconds a second",
        events as f64 / busy,
        seconds as f64 / busy
    );
    let writes: u64 = cluster.slots.iter().map(|slot| slot.disk.writes).sum();
    println!("{writes} turns persisted something, trace {:016x}", cluster.trace_hash());
}

/// The worlds of the first seeds, with all that goes wrong in them.
fn drawn(seeds: u64) {
    // A violation is a panic inside a world, told below.
    std::panic::set_hook(Box::new(|_| {}));
    let campaign = Campaign {
        first: 0,
        seeds,
        time: None,
        threads: 1,
        most_violations: usize::MAX,
        plan: Plan::default(),
    };
    let processor = all_threads_ns();
    let Report { tally, violations, trace, .. } = campaign.run::<HotStuffs>(&Progress::default());
    let busy = (all_threads_ns() - processor) as f64 / 1e9;
    println!(
        "{seeds} seeds, {} violations, {} events, {} simulated seconds, trace of all {trace:016x}",
        violations.len(),
        tally.events,
        tally.simulated / 1_000_000_000
    );
    println!(
        "{busy:.2} s of processor: {:.0} events/s, {:.0} simulated seconds a second",
        tally.events as f64 / busy,
        tally.simulated as f64 / 1e9 / busy
    );
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

/// Processor time of all threads of this process so far, also of those that have ended, in
/// nanoseconds; 0 where the system does not tell it.
fn all_threads_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time, in hundredths of a second: fields 14 and 15, counted behind the name in
    // brackets.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10_000_000
}

/// Processor time of this thread in nanoseconds, where the system tells it; else 0.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}
