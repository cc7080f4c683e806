//! Every fuzz target on its files in `corpus/`, on inputs from seeds and on nothing at all.
//! `QUORATE_FUZZ_INPUTS` sets how many seeds each target takes.

use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;

use quorate_fuzz::{TARGETS, Target, named};

fn corpus(target: &Target) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(target.name)
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn run(target: &Target, what: &str, bytes: &[u8]) {
    if let Err(panic) = catch_unwind(|| (target.run)(bytes)) {
        eprintln!("{}: this was {what}", target.name);
        resume_unwind(panic);
    }
}

fn check(name: &str) {
    let target = named(name).expect("a target of that name");
    run(target, "the empty input", &[]);
    for entry in std::fs::read_dir(corpus(target)).expect("a folder of inputs") {
        let path = entry.expect("a file").path();
        run(target, &path.display().to_string(), &std::fs::read(&path).expect("a file"));
    }
    let seeds = std::env::var("QUORATE_FUZZ_INPUTS").ok().and_then(|count| count.parse().ok());
    for seed in 0..seeds.unwrap_or(target.seeds) {
        let mut state = seed.wrapping_mul(0x1234_5678_9abc_def1);
        let length = next(&mut state) % target.longest;
        let bytes: Vec<u8> = (0..length).map(|_| next(&mut state) as u8).collect();
        run(target, &format!("seed {seed}"), &bytes);
    }
}

macro_rules! targets {
    ($($test:ident = $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn every_target_is_run_here_and_has_inputs() {
            let tested = [$($name),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
            for target in TARGETS {
                assert!(corpus(target).is_dir(), "{}", target.name);
            }
        }
    };
}

targets! {
    client_blocks = "client-blocks",
    client_proofs = "client-proofs",
    client_session = "client-session",
    configuration = "configuration",
    decoders = "decoders",
    gateway = "gateway",
    gateway_resp = "gateway-resp",
    journal = "journal",
    key_generation = "key-generation",
    kv_requests = "kv-requests",
    kv_snapshot = "kv-snapshot",
    payments = "payments",
    peer_hello = "peer-hello",
    peer_messages = "peer-messages",
    signatures = "signatures",
    store_c = "store-c",
    store_log = "store-log",
    store_operations = "store-operations",
    store_pages = "store-pages",
    transport_frames = "transport-frames",
    twins_files = "twins-files",
    udp_channel = "udp-channel",
    udp_door = "udp-door",
    udp_exchange = "udp-exchange",
}
