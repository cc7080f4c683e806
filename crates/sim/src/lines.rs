//! The lines of a trace.

use quorate_core::Time;
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;

/// Something that happened to a replica.
#[derive(Debug)]
pub struct Line {
    /// When.
    pub at: Time,
    /// When the message was sent that arrives.
    pub sent: Option<Time>,
    /// To whom it happened.
    pub who: usize,
    /// What kind of thing that is.
    pub kind: Kind,
    /// What it was, in words.
    pub words: String,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It did something.
    Event,
    /// A message of this one arrived.
    Delivery(usize),
    /// It refused a message of this one.
    Refusal(usize, Refused),
}

impl Line {
    /// Something that a replica did.
    pub fn event(at: Time, who: usize, words: String) -> Self {
        Self { at, sent: None, who, kind: Kind::Event, words }
    }
}

/// Each by itself, in the order in which they happened.
pub fn apart(lines: &[Line]) -> Vec<String> {
    let text = |Line { at, who, kind, words, .. }: &Line| {
        let at = millis(*at);
        match kind {
            Kind::Event => format!("{at}  r{who} {words}"),
            Kind::Delivery(from) => format!("{at}  r{from} → r{who}  {words}"),
            Kind::Refusal(from, reason) => format!("{at}  r{who} refuses r{from}: {reason:?}"),
        }
    };
    lines.iter().map(text).collect()
}

/// What several replicas did alike at one instant is one line, and a message is refused in its own.
/// Nothing that happens at one instant at one replica can be the cause of what happens at another,
/// so that only the order at each is kept.
pub fn together(lines: Vec<Line>) -> Vec<String> {
    let mut groups: Vec<(Line, Vec<usize>)> = Vec::new();
    for line in with_refusals(lines) {
        let before = groups.iter().rposition(|(first, _)| first.at != line.at);
        let from = before.map_or(0, |before| before + 1);
        let own = groups[from..].iter().rposition(|(_, who)| who.contains(&line.who));
        let alike = groups[from..]
            .iter()
            .position(|(first, _)| first.kind == line.kind && first.words == line.words);
        match alike.filter(|alike| own.is_none_or(|own| own < *alike)) {
            Some(alike) => groups[from + alike].1.push(line.who),
            None => {
                let who = vec![line.who];
                groups.push((line, who));
            }
        }
    }
    groups.into_iter().map(|(line, who)| grouped(&line, who)).collect()
}

/// Refusals as part of the line that tells of the message.
fn with_refusals(lines: Vec<Line>) -> Vec<Line> {
    let mut merged: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        match (line.kind, merged.last_mut()) {
            (Kind::Refusal(from, reason), Some(last))
                if last.kind == Kind::Delivery(from)
                    && (last.at, last.who) == (line.at, line.who) =>
            {
                last.words.push_str(", ");
                last.words.push_str(&because(reason));
            }
            _ => merged.push(line),
        }
    }
    merged
}

fn because(reason: Refused) -> String {
    match reason {
        Refused::Malformed(Malformed::Stale) => "too late".into(),
        Refused::Malformed(reason) => format!("refused: {reason}"),
        reason => format!("refused: {reason:?}"),
    }
}

fn grouped(line: &Line, mut who: Vec<usize>) -> String {
    who.sort_unstable();
    let names: Vec<String> = who.iter().map(|slot| format!("r{slot}")).collect();
    let (at, names, words) = (millis(line.at), names.join(" "), &line.words);
    match line.kind {
        Kind::Event => format!("{at}  {names}  {words}"),
        Kind::Delivery(from) => format!("{at}  r{from} → {names}  {words}"),
        Kind::Refusal(from, reason) => {
            format!("{at}  {names}  what r{from} said is {}", because(reason))
        }
    }
}

fn millis(at: Time) -> String {
    format!("{:>7.1}", at.0 as f64 / 1e6)
}
