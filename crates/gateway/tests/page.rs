//! `docs/redis.md` lists every command that the gateway answers, and no other.
#![allow(missing_docs)]

use std::fmt::Write as _;

use quorate_gateway::commands::table::{COMMANDS, Spec};

const PAGE: &str = include_str!("../../../docs/redis.md");

fn row(spec: &Spec) -> String {
    let name = spec.name.replace('|', " ").to_ascii_uppercase();
    format!("| `{name}` | {} | {} |\n", spec.group, spec.summary)
}

#[test]
fn the_page_lists_every_command() {
    let mut expected = "| command | group | what it does |\n|---|---|---|\n".to_owned();
    for spec in COMMANDS {
        let parts: String = spec.parts.iter().map(row).collect();
        let _ = write!(expected, "{}{parts}", row(spec));
    }
    let (_, listed) = PAGE.split_once("\n## Commands\n\n").expect("the page has a list");
    assert!(listed == expected, "the list of docs/redis.md is to be:\n{expected}");
}

#[test]
fn the_page_tells_the_limits() {
    use quorate_app::kv;
    let limits = [
        (kv::MAX_KEY_BYTES, "| a key | 64 KiB |", 64 << 10),
        (kv::MAX_VALUE_BYTES, "| a value, a field | 1 MiB", 1 << 20),
        (kv::MAX_PATTERN_BYTES, "| a pattern | 1 KiB |", 1 << 10),
        (kv::MAX_KEYS_LISTED, "`KEYS` lists | 100,000;", 100_000),
        (quorate_gateway::MAX_SUBMITTED_COMMANDS, "in a transaction | 1,024,", 1024),
    ];
    for (limit, words, number) in limits {
        assert!(limit == number && PAGE.contains(words), "{words}: {limit}");
    }
}
