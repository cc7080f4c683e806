//! Known bugs, put in on purpose: what proves that the test tools find them.
//!
//! `mutant!("name", wrong, right)` reads as `right`. Only where the compiler was told
//! `--cfg quorate_mutants` (which the program `quorate` refuses to be built with) is there a
//! choice: then `wrong` is taken while the mutant of that name is chosen. `make mutants` builds
//! this crate so and runs the simulator against each of `ALL`, one at a time.
//!
//! No mutant is in the membership, in HotStuff's rules or in the drive loop: there the simulator
//! decorates them (`crates/sim/src/planted.rs`).
//!
//! [`planted!`](crate::planted) is the same for the crates around the core, and for what a single
//! test of the core sees. Their bugs are listed in `ci/mutants.txt`, each with the test that sees
//! it, and `make mutants-outside` runs those tests.

#[cfg(not(quorate_mutants))]
macro_rules! mutant {
    ($name:literal, $wrong:expr, $right:expr $(,)?) => {
        $right
    };
}

#[cfg(quorate_mutants)]
macro_rules! mutant {
    ($name:literal, $wrong:expr, $right:expr $(,)?) => {
        if const { $crate::mutant::index_of($name) } == $crate::mutant::chosen() {
            $wrong
        } else {
            $right
        }
    };
}

/// `planted!("name", wrong, right)` reads as `right`.
#[cfg(not(quorate_mutants))]
#[macro_export]
macro_rules! planted {
    ($name:literal, $wrong:expr, $right:expr $(,)?) => {
        $right
    };
}

/// `planted!("name", wrong, right)` reads as `wrong` where the environment's `QUORATE_MUTANT` is
/// the name, and as `right` elsewhere.
#[cfg(quorate_mutants)]
#[macro_export]
macro_rules! planted {
    ($name:literal, $wrong:expr, $right:expr $(,)?) => {
        if $crate::mutant::is_planted($name) { $wrong } else { $right }
    };
}

/// Whether the environment asks for the mutant of that name, in a crate around this one.
#[cfg(quorate_mutants)]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "only tests of planted bugs are built so")]
pub fn is_planted(name: &str) -> bool {
    static PLANTED: OnceLock<String> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("QUORATE_MUTANT").unwrap_or_default()) == name
}

#[cfg(quorate_mutants)]
mod entry;
#[cfg(quorate_mutants)]
mod list;
#[cfg(quorate_mutants)]
mod two_delay;

#[cfg(quorate_mutants)]
pub use entry::{EPOCHS, Mutant};
#[cfg(quorate_mutants)]
pub use list::ALL;

#[cfg(quorate_mutants)]
use std::sync::OnceLock;
#[cfg(quorate_mutants)]
use std::sync::atomic::{AtomicUsize, Ordering};

/// No mutant's place in the list.
#[cfg(quorate_mutants)]
const NONE: usize = usize::MAX;

#[cfg(quorate_mutants)]
static CHOSEN: AtomicUsize = AtomicUsize::new(NONE);

/// The place of the mutant in `ALL` that is on, in every thread.
#[cfg(quorate_mutants)]
pub(crate) fn chosen() -> usize {
    CHOSEN.load(Ordering::Relaxed)
}

/// Turns the mutant called `name` on, and the one before off; `None`: no mutant is on. For the
/// whole process, between two worlds. Says whether there is such a mutant.
#[cfg(quorate_mutants)]
pub fn choose(name: Option<&str>) -> bool {
    let at = name.map(|name| ALL.iter().position(|mutant| mutant.name == name));
    CHOSEN.store(at.flatten().unwrap_or(NONE), Ordering::Relaxed);
    at != Some(None)
}

/// The name of the mutant that is on; empty if none is.
#[cfg(quorate_mutants)]
#[must_use]
pub fn name() -> &'static str {
    ALL.get(chosen()).map_or("", |mutant| mutant.name)
}

/// Whether a mutant is on.
#[cfg(quorate_mutants)]
#[must_use]
pub fn is_on() -> bool {
    chosen() != NONE
}

/// Where a mutant is in `ALL`. Evaluated by the compiler, which so refuses a name that is not
/// there.
#[cfg(quorate_mutants)]
pub(crate) const fn index_of(name: &str) -> usize {
    let mut at = 0;
    while at < ALL.len() {
        if equal(ALL[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("not in mutant::ALL")
}

#[cfg(quorate_mutants)]
const fn equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
