//! What a node counts, as Prometheus reads it. Every label is a name of this program.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::Refusal;

/// Why a peer's message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Foul {
    /// It cannot be read, or its shape is wrong.
    Malformed,
    /// A transaction in it is not signed.
    Unsigned,
    /// It answers a question that this node never asked.
    UnaskedAnswer,
    /// It answers a question that this node asked somebody else.
    AnotherName,
    /// It brings a vertex that this node did not want.
    UnaskedVertex,
    /// It asks for a vertex that is not known here.
    UnknownVertex,
    /// It came before this node had caught up.
    NotReady,
    /// It asks for more pages or vertices at once than a node needs that catches up.
    TooOften,
    /// It sent what is not signed, a short time ago.
    Distrusted,
}

/// The names of [`Foul`], in its order.
const FOULS: [&str; 9] = [
    "malformed",
    "unsigned",
    "unasked_answer",
    "another_name",
    "unasked_vertex",
    "unknown_vertex",
    "not_ready",
    "too_often",
    "distrusted",
];

/// Reasons why the protocol does not take a client's transaction, beside those of [`Refusal`].
pub const NOT_TAKEN: [&str; 1] = ["busy"];

macro_rules! numbers {
    ($($(#[doc = $help:literal])* $name:ident: $kind:literal,)*) => {
        /// The counts of a node.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[doc = $help])* pub $name: AtomicU64,)*
            fouls: [AtomicU64; FOULS.len()],
            refused: [AtomicU64; Refusal::NAMES.len()],
            not_taken: [AtomicU64; NOT_TAKEN.len()],
        }

        impl Metrics {
            /// Name, kind, help and value of each number.
            fn numbers(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$((stringify!($name), $kind, concat!($($help),*), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

numbers! {
    /// Whether the node has caught up and takes part.
    ready: "gauge",
    /// Transactions that were accepted.
    accepted: "gauge",
    /// Transactions that were rejected since the start.
    rejected: "counter",
    /// Transactions of clients that were taken since the start.
    submitted: "counter",
    /// Vertices that were accepted.
    vertices: "gauge",
    /// Questions sent.
    queries_sent: "counter",
    /// Questions received.
    queries_received: "counter",
    /// Answers received to questions that were asked.
    answers_received: "counter",
    /// Frames sent; each holds all that a turn has for a peer.
    frames_sent: "counter",
    /// Peers that are benched now.
    benched: "gauge",
    /// How often a peer was benched.
    benchings: "counter",
    /// Signatures checked.
    signatures: "counter",
    /// Vertices whose signatures were known to hold.
    known_vertices: "counter",
    /// Batches written to the ledger.
    writes: "counter",
    /// Nanoseconds spent on them.
    write_nanoseconds: "counter",
    /// Nanoseconds in which the deciding thread worked, writes included.
    work_nanoseconds: "counter",
    /// How often the node turned out to be behind while it ran.
    fell_behind: "counter",
    /// Vertices fetched while catching up.
    fetched: "counter",
}

impl Metrics {
    /// Counts one.
    pub fn count(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    /// Counts some.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// A peer's message is not taken.
    pub fn foul(&self, foul: Foul) {
        Self::count(&self.fouls[foul as usize]);
    }

    /// A client's transaction is not taken.
    pub fn refuse(&self, refusal: &Refusal) {
        Self::count(&self.refused[refusal.index()]);
    }

    /// The same, by the place of the reason in [`NOT_TAKEN`].
    pub fn turn_away(&self, reason: usize) {
        if let Some(counter) = self.not_taken.get(reason) {
            Self::count(counter);
        }
    }

    /// The text, beside the transport's counters.
    #[must_use]
    pub fn text(&self, transport: &[(&'static str, u64)]) -> String {
        let mut text = String::with_capacity(8 << 10);
        // Writing to a string does not fail.
        for (name, kind, help, value) in self.numbers() {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let name = format!("quorate_payments_{name}");
            let help = help.trim().trim_end_matches('.');
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{suffix} {value}\n"
            );
        }
        let load = |counters: &[AtomicU64]| -> Vec<u64> {
            counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
        };
        let fouls = FOULS.into_iter().zip(load(&self.fouls)).collect::<Vec<_>>();
        labelled(&mut text, "peer_refused", "Messages of peers that were refused", &fouls);
        let reasons = Refusal::NAMES.into_iter().chain(NOT_TAKEN);
        let counts = load(&self.refused).into_iter().chain(load(&self.not_taken));
        let refused = reasons.zip(counts).collect::<Vec<_>>();
        labelled(&mut text, "refused", "Transactions of clients that were refused", &refused);
        labelled(&mut text, "transport", "What the transport carried and refused", transport);
        text.push_str("# EOF\n");
        text
    }

    /// The same numbers for programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let numbers = self.numbers().into_iter();
        let mut all: serde_json::Map<_, _> =
            numbers.map(|(name, _, _, value)| (name.to_owned(), value.into())).collect();
        for (name, foul) in FOULS.iter().zip(&self.fouls) {
            all.insert(format!("refused_{name}"), foul.load(Ordering::Relaxed).into());
        }
        all.into()
    }
}

fn labelled(text: &mut String, name: &str, help: &str, values: &[(&'static str, u64)]) {
    let name = format!("quorate_payments_{name}");
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
    for (reason, value) in values {
        let _ = writeln!(text, "{name}_total{{reason=\"{reason}\"}} {value}");
    }
}
