//! The lines of a trace: what several replicas did alike at one instant is one line.

use quorate_core::Time;

/// Something that happened to a replica.
#[derive(Debug)]
pub struct Line {
    pub at: Time,
    /// Who sent the message, if it is the arrival of one.
    pub from: Option<usize>,
    /// To whom it happened.
    pub who: usize,
    pub words: String,
}

/// The lines as text. Nothing that happens at one instant at one replica can be the cause of what
/// happens at another, so that only the order at each is kept.
pub fn written(lines: Vec<Line>) -> Vec<String> {
    let mut groups: Vec<(Line, Vec<usize>)> = Vec::new();
    for line in lines {
        let of_instant = groups.iter().rposition(|(first, _)| first.at != line.at);
        let from = of_instant.map_or(0, |before| before + 1);
        let own = groups[from..].iter().rposition(|(_, who)| who.contains(&line.who));
        let alike = groups[from..]
            .iter()
            .position(|(first, _)| first.from == line.from && first.words == line.words);
        match alike.filter(|alike| own.is_none_or(|own| own < *alike)) {
            Some(alike) => groups[from + alike].1.push(line.who),
            None => {
                let who = vec![line.who];
                groups.push((line, who));
            }
        }
    }
    groups.into_iter().map(|(line, who)| text(&line, who)).collect()
}

fn text(line: &Line, mut who: Vec<usize>) -> String {
    who.sort_unstable();
    let names: Vec<String> = who.iter().map(|slot| format!("r{slot}")).collect();
    let (at, names) = (line.at.0 as f64 / 1e6, names.join(" "));
    match line.from {
        Some(from) => format!("{at:>7.1}  r{from} → {names}  {}", line.words),
        None => format!("{at:>7.1}  {names}  {}", line.words),
    }
}
