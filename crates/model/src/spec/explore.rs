//! The specification itself, explored within bounds; and with a bug put in, which must be found.

use super::data::root;
use super::run::PROTOCOLS;
use super::tlc::{Answer, Call, Tlc, TlcError};

/// What must hold.
const INVARIANTS: [&str; 4] =
    ["Agreement", "OneVoteAView", "OneCertificateAView", "CommittedAgree"];

/// One exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// What it is, for people.
    pub name: String,
    /// The variant.
    pub protocol: &'static str,
    /// `ByView`, `Sparingly` or `Freely`.
    pub way: &'static str,
    /// Views gone through.
    pub views: u32,
    /// Blocks that a liar makes upon one certificate in one view.
    pub payloads: u32,
    /// Random executions rather than all: how many, of at most so many steps.
    pub random: Option<(u32, u32)>,
    /// Definitions replaced: a bug.
    pub instead: Vec<(&'static str, &'static str)>,
    /// What is looked for; empty: what must hold.
    pub invariants: Vec<&'static str>,
    /// The invariant that is to be violated.
    pub breaks: Option<&'static str>,
}

impl Exploration {
    fn of(protocol: &'static str, way: &'static str, views: u32) -> Self {
        Self {
            name: format!("{protocol}, {}", words(way)),
            protocol,
            way,
            views,
            payloads: 1,
            random: None,
            instead: Vec::new(),
            invariants: INVARIANTS.to_vec(),
            breaks: None,
        }
    }

    fn reaching(self, what: &str, never: &'static str) -> Self {
        let name = format!("{}: {what}", self.protocol);
        Self { name, invariants: vec![never], breaks: Some(never), ..self }
    }

    fn with_bug(
        self,
        what: &str,
        instead: &[(&'static str, &'static str)],
        breaks: &'static str,
    ) -> Self {
        let name = format!("{}, bug: {what}", self.protocol);
        Self { name, instead: instead.to_vec(), breaks: Some(breaks), ..self }
    }

    /// Asks TLC, and says what it found; an error if that is not what was to be found.
    ///
    /// # Errors
    /// [`TlcError`].
    pub fn run(&self, tlc: &Tlc) -> Result<(Answer, bool), TlcError> {
        let name: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let random = self.random.map(|(count, depth)| (format!("num={count}"), depth.to_string()));
        let mut options = Vec::new();
        if let Some((count, depth)) = &random {
            options = vec!["-simulate", count, "-depth", depth, "-seed", "1"];
        }
        let answer = tlc.ask(&Call {
            name: &name,
            root: &root("Explore", self.protocol),
            configuration: &self.configuration(),
            workers: if self.breaks.is_some() { 1 } else { 2 },
            options: &options,
            module: None,
        })?;
        let as_expected = answer.violated.as_deref() == self.breaks;
        Ok((answer, as_expected))
    }

    fn configuration(&self) -> String {
        let mut text = format!("INIT Start\nNEXT {}\nCHECK_DEADLOCK FALSE\n", self.way);
        if self.random.is_none() {
            text += "SYMMETRY Symmetry\n";
        }
        if self.way != "Freely" {
            text += "VIEW Outlook\n";
        }
        for invariant in &self.invariants {
            text += &format!("INVARIANT {invariant}\n");
        }
        let payloads: Vec<String> = (1..=self.payloads).map(|p| p.to_string()).collect();
        text += "CONSTANTS\n  r1 = r1\n  r2 = r2\n  r3 = r3\n  liar = liar\n";
        text += "  Replicas = {r1, r2, r3, liar}\n  Faulty = {liar}\n";
        text += &format!("  Payloads = {{{}}}\n  MaxView = {}\n", payloads.join(", "), self.views);
        let usual = [
            ("Genesis", "First"),
            ("ViewOf", "BlockView"),
            ("ParentOf", "BlockParent"),
            ("MayVote", "RuleMayVote"),
            ("LockOf", "RuleLockOf"),
            ("CommitOf", "RuleCommitOf"),
        ];
        let replaced = |name: &str| self.instead.iter().any(|(other, _)| *other == name);
        for (name, by) in usual.iter().filter(|(name, _)| !replaced(name)).chain(&self.instead) {
            text += &format!("  {name} <- {by}\n");
        }
        text
    }
}

fn words(way: &str) -> &str {
    match way {
        "ByView" => "view by view",
        "Sparingly" => "sparingly",
        _ => "freely, with restarts",
    }
}

/// All that is explored, some minutes; or what takes seconds.
#[must_use]
pub fn all(quick: bool) -> Vec<Exploration> {
    PROTOCOLS.into_iter().flat_map(|protocol| of_protocol(protocol, quick)).collect()
}

fn of_protocol(protocol: &'static str, quick: bool) -> Vec<Exploration> {
    let chained = protocol == "hotstuff-chained";
    let of = |way, views| Exploration::of(protocol, way, views);
    let sparing = || of("Sparingly", 6);
    let (by_view, sparingly) = match (quick, chained) {
        (true, _) => (3, 5),
        (false, true) => (5, 7),
        (false, false) => (5, 8),
    };
    let free = Exploration { payloads: 2, ..of("Freely", 3) };
    let runs = if quick { 20 } else { 150 };
    let restart = [("Found", "FoundNothing"), ("Remembers", "RemembersAnything")];
    let commit = |three, two| [("CommitOf", if chained { three } else { two })];
    let mut all = vec![
        of("ByView", by_view),
        of("Sparingly", sparingly),
        Exploration {
            name: format!("{}, random", free.name),
            random: Some((runs, 80)),
            ..free.clone()
        },
        sparing().reaching("something is committed", "NoCommit"),
        sparing().reaching("certificates conflict", "NoConflict"),
        sparing().reaching("both", "NoCommitBesideConflict"),
        sparing().with_bug("votes without the rule", &[("MayVote", "AnyVote")], "Agreement"),
        sparing().with_bug(
            "commits over skipped views",
            &commit("SkippingThree", "SkippingTwo"),
            "Agreement",
        ),
        sparing().with_bug(
            "commits one certificate early",
            &commit("EarlyThree", "EarlyTwo"),
            "Agreement",
        ),
        of("ByView", 4).with_bug(
            "a quorum of 2f",
            &[("Quorum", "SmallQuorum")],
            "OneCertificateAView",
        ),
        Exploration { views: 1, ..free }.with_bug("forgets its votes", &restart, "OneVoteAView"),
    ];
    if chained {
        all.push(of("Freely", 1));
        all.push(sparing().with_bug("never locks", &[("LockOf", "NoLock")], "Agreement"));
    }
    all
}
