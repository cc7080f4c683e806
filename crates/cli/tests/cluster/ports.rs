//! Ports for the replicas of a test.

use std::net::TcpListener;

/// A block of ports that no other test has: the first is held as long as it is in use. Below the
/// range that outgoing connections are given ports from.
pub fn ports(count: u16) -> (TcpListener, u16) {
    // Many small blocks, and a few behind them for 64 replicas.
    let (begin, block_ports, blocks) =
        if count < 64 { (12_000, 64, 300) } else { (31_200, 194, 8) };
    assert!(count < block_ports);
    let first_block = std::process::id() as u16 % blocks;
    for block in 0..blocks {
        let base = begin + (first_block + block) % blocks * block_ports;
        let Ok(held) = TcpListener::bind(("127.0.0.1", base)) else { continue };
        if (1..=count).all(|port| TcpListener::bind(("127.0.0.1", base + port)).is_ok()) {
            return (held, base + 1);
        }
    }
    panic!("no {count} free ports in a row");
}
