//! INFO.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::Shared;

/// The version of Redis whose dialect is spoken.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// The sections named in `wanted`, or all.
pub(super) fn text(shared: &Shared, wanted: &[&[u8]]) -> String {
    let everything = wanted.is_empty()
        || wanted.iter().any(|word| {
            ["all", "default", "everything"]
                .iter()
                .any(|all| word.eq_ignore_ascii_case(all.as_bytes()))
        });
    let mut text = String::new();
    for (name, lines) in sections(shared) {
        let named = wanted.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if !everything && !named {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let _ = write!(text, "# {name}\r\n");
        for (field, value) in lines {
            let _ = write!(text, "{field}:{value}\r\n");
        }
    }
    text
}

type Lines = Vec<(&'static str, String)>;

fn sections(shared: &Shared) -> [(&'static str, Lines); 5] {
    let uptime_s = shared.started.elapsed().as_secs();
    let server = vec![
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("quorate_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", shared.address.port().to_string()),
        ("uptime_in_seconds", uptime_s.to_string()),
        ("uptime_in_days", (uptime_s / 86_400).to_string()),
    ];
    let clients = vec![
        ("connected_clients", shared.client_count().to_string()),
        ("maxclients", shared.max_clients.to_string()),
        ("blocked_clients", "0".to_owned()),
    ];
    let persistence = vec![("loading", "0".to_owned()), ("aof_enabled", "1".to_owned())];
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let stats = vec![
        ("total_connections_received", count(&shared.connections).to_string()),
        ("total_commands_processed", count(&shared.commands).to_string()),
        ("rejected_connections", count(&shared.rejected).to_string()),
    ];
    // Behind every gateway is the whole replicated store, and all of them take writes.
    let replication = vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())];
    [
        ("Server", server),
        ("Clients", clients),
        ("Persistence", persistence),
        ("Stats", stats),
        ("Replication", replication),
    ]
}
