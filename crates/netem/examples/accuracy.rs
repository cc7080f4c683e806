//! Compares requested links with observed ones on this machine, and measures the capacity of one
//! thread. It prints the tables of docs/networks.md.
//!
//! `--shared` is for machines with other users: at most 5,000 packets a second with priority, and
//! no TCP without a bandwidth.

use std::time::Duration;

use quorate_netem::measure::{Probe, TABLE_HEAD, measure};
use quorate_netem::{Link, NetError, Network, Settings, Topology};

/// Links, packets a second, and whether TCP is tried.
const ROWS: [(&str, u64, bool); 12] = [
    ("", 1_000, true),
    ("delay=1ms", 1_000, false),
    ("delay=10ms", 1_000, false),
    ("delay=100ms", 1_000, true),
    ("delay=100ms", 50_000, false),
    ("delay=50ms jitter=5ms", 1_000, false),
    ("delay=50ms jitter=5ms distribution=normal", 1_000, false),
    ("delay=10ms loss=1%", 50_000, true),
    ("delay=10ms loss=0.1%", 50_000, true),
    ("delay=10ms reorder=5%", 1_000, false),
    ("delay=10ms bandwidth=10Mbit", 500, true),
    ("delay=10ms bandwidth=100Mbit", 1_000, true),
];

fn main() -> Result<(), NetError> {
    let shared = std::env::args().any(|argument| argument == "--shared");
    println!("{TABLE_HEAD}");
    for (link, packets_per_second, tcp) in ROWS {
        let link = Link::parse(link).map_err(|error| NetError::Refused(error.to_string()))?;
        let network = Network::up(&Topology::uniform(2, &link)?, &Settings::default())?;
        let packets_per_second = packets_per_second.min(if shared { 5_000 } else { u64::MAX });
        let tcp = tcp && (!shared || link.rate_bits.is_some());
        let bulk = if tcp { Duration::from_secs(4) } else { Duration::ZERO };
        let packets = packets_per_second * 4;
        let probe = Probe { packets, packets_per_second, bulk, ..Probe::default() };
        let observed = measure(&network, 0, 1, &probe)?;
        let report = network.report()?;
        println!("{observed}");
        eprintln!(
            "    emulator: late {:?} (p50), {:?} (p99), {:?} at most; lost by it {}; no room {}, \
             refused {}",
            report.late_p50,
            report.late_p99,
            report.late_max,
            report.links[1].lost,
            report.no_room,
            report.refused
        );
    }
    println!(
        "\n| as fast as it goes | packets | processor time a packet | one core carries \
         |\n|---|---|---|---|"
    );
    for (what, payload_bytes, link) in [
        ("UDP, 64 bytes", 64, ""),
        ("UDP, 1,400 bytes", 1400, ""),
        ("UDP, 64 bytes, 100 ms", 64, "delay=100ms"),
    ] {
        let link = Link::parse(link).map_err(|error| NetError::Refused(error.to_string()))?;
        let network = Network::up(
            &Topology::uniform(2, &link)?,
            &Settings { before_others: !shared, ..Settings::default() },
        )?;
        let probe = Probe {
            packets: 500_000,
            packets_per_second: 10_000_000,
            payload_bytes,
            bulk: Duration::ZERO,
        };
        measure(&network, 0, 1, &probe)?;
        let report = network.report()?;
        let each = report.processor.as_secs_f64() / report.carried.max(1) as f64;
        println!(
            "| {what} | {} | {:.2} µs | {:.0} packets/s |",
            report.carried,
            each * 1e6,
            1.0 / each
        );
    }
    Ok(())
}
