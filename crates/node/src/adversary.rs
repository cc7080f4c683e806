//! Who may stand between a replica and its links: adversaries, in a laboratory.
//!
//! The feature `laboratory` decides. A build without it does not link `quorate-adversary`: there is
//! no [`Schedule`], and configuration that names one is refused.

#[cfg(feature = "laboratory")]
pub use quorate_adversary::Schedule;

/// How a schedule is written, to be read behind "expected".
#[must_use]
pub fn expected() -> String {
    #[cfg(feature = "laboratory")]
    {
        let [(first, _), (second, _), ..] = quorate_adversary::ALL;
        format!("\"none\", or adversaries and when they act, such as \"{first}@10s..25s,{second}\"")
    }
    #[cfg(not(feature = "laboratory"))]
    "\"none\"".to_owned()
}

#[cfg(not(feature = "laboratory"))]
pub use absent::{NotInThisBuild, Schedule};

#[cfg(not(feature = "laboratory"))]
mod absent {
    use std::fmt;
    use std::str::FromStr;

    /// Which adversaries act when: this build has none.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Schedule {}

    /// There are no adversaries in this build.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[error("this build has no adversaries (the feature `laboratory` of `quorate` brings them)")]
    pub struct NotInThisBuild;

    impl FromStr for Schedule {
        type Err = NotInThisBuild;

        fn from_str(_: &str) -> Result<Self, NotInThisBuild> {
            Err(NotInThisBuild)
        }
    }

    impl fmt::Display for Schedule {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }
}
