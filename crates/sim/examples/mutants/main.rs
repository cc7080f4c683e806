//! Proves that the test tools find bugs: each known bug of `quorate_core::mutant` is turned on, and
//! the tools look for it, until an oracle cries out or the time is up.
//!
//! `make mutants` builds and runs it; by hand, with `RUSTFLAGS="--cfg quorate_mutants"` and a
//! target folder of its own:
//!
//! `mutants [--seconds N] [--only NAME,…] [--seeds FROM] [-o markdown]`
//!
//! First no mutant is on, and the same tools must find nothing in the same time.
#![forbid(unsafe_code)]

#[cfg(quorate_mutants)]
mod attacks;
#[cfg(quorate_mutants)]
mod epochs;
#[cfg(quorate_mutants)]
mod forger;
#[cfg(quorate_mutants)]
mod hunt;
#[cfg(quorate_mutants)]
mod pbft;
#[cfg(quorate_mutants)]
mod reads;
#[cfg(quorate_mutants)]
mod report;
#[cfg(quorate_mutants)]
mod schedules;
#[cfg(quorate_mutants)]
mod twins;
#[cfg(quorate_mutants)]
mod two_delay;

#[cfg(quorate_mutants)]
fn main() -> std::process::ExitCode {
    report::main()
}

#[cfg(not(quorate_mutants))]
fn main() -> std::process::ExitCode {
    eprintln!(
        r#"no mutant is compiled in: build with RUSTFLAGS="--cfg quorate_mutants" (make mutants)"#
    );
    std::process::ExitCode::FAILURE
}
