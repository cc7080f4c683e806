//! The fuzz target that `QUORATE_FUZZ_TARGET` names, under libFuzzer.
#![no_main]

use std::sync::OnceLock;

use quorate_fuzz::{TARGETS, Target, named};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("QUORATE_FUZZ_TARGET").unwrap_or_default();
        named(&name).unwrap_or_else(|| {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("QUORATE_FUZZ_TARGET is `{name}`; there are: {}", names.join(" "));
            std::process::exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
