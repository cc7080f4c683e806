//! How fast Twins scenarios run, on one thread: 4 replicas, 1 twin, at most 2 groups, mock
//! signatures, each of the six protocols.
//!
//! `cargo run --release -p quorate-sim --example bench_twins [VIEWS [SAMPLE]]`: scripted views (7),
//! scenarios of each protocol (1000). What came of them is printed too: it must not change with the
//! speed.

use std::sync::atomic::AtomicBool;

use mimalloc::MiMalloc;
use quorate_sim::twins::campaign::{Campaign, Progress, Source};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Numbers, Plan, Shape, Signatures, Space, Variant};

/// As in the `quorate` command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let argument = |at: usize, usual: u128| {
        std::env::args().nth(at).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (views, sample) = (argument(1, 7) as usize, argument(2, 1000));
    let shape = Shape::new(4, 1).expect("one of four may lie");
    let kind = Kind { shape, partitions: 2, views, by_phase: false, one_way: false };
    let space = Space::new(kind).expect("counts within bounds");
    let numbers = Numbers::sample(space.count(), sample, 1);
    let source = Source::Numbered(Box::new(space), numbers);
    let (mut scenarios, mut busy) = (0, 0.0);
    for variant in Variant::named("all") {
        let name = variant.name;
        let plan = Plan::new(variant, Signatures::mixed(4));
        let campaign = Campaign { plan: &plan, source: &source, threads: 1, max_failures: 1 };
        let before = all_threads_s();
        let totals = campaign.run(Progress::default(), &AtomicBool::new(false), |_| {}).totals;
        busy += all_threads_s() - before;
        scenarios += totals.scenarios;
        println!("{name}: {totals:?}");
    }
    println!(
        "{scenarios} scenarios, {busy:.2} s of processor: {:.0} a second",
        scenarios as f64 / busy
    );
}

/// Processor time of all threads of this process so far, also of those that have ended, in seconds;
/// 0 where the system does not tell it.
fn all_threads_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time, in hundredths of a second: fields 14 and 15, counted behind the name in
    // brackets.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
