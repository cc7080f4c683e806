//! What is told of a mutant.

/// A bug that is known from a paper or from public code.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What `mutant!` and the table call it.
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Where it is from: a source that `docs/protocols/README.md` lists by this name, or another.
    pub source: &'static str,
    /// The one variant whose rules it is in; or [`EPOCHS`], where it shows only if members change.
    pub variant: Option<&'static str>,
}

/// Stands for a variant: the worlds in which members change.
pub const EPOCHS: &str = "epochs";

pub(super) const fn mutant(name: &'static str, what: &'static str, source: &'static str) -> Mutant {
    Mutant { name, what, source, variant: None }
}

pub(super) const fn of(
    variant: &'static str,
    name: &'static str,
    what: &'static str,
    source: &'static str,
) -> Mutant {
    Mutant { name, what, source, variant: Some(variant) }
}
