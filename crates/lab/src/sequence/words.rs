//! From a transcript's words to a picture's: shorter, and with a kind that says how to draw them.

/// How an arrow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block, or a certificate by itself: a leader asks for votes.
    Proposal,
    /// A vote, of whatever phase.
    Vote,
    /// Someone gave up a view.
    TimeOut,
    /// Everything that only spreads what is known.
    Other,
}

/// How an event is marked on a lifeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It entered the view that the label names.
    View,
    /// It made a block.
    Propose,
    /// It voted.
    Vote,
    /// It holds a certificate.
    Certificate,
    /// It committed blocks.
    Commit,
    /// It gave up a view.
    GiveUp,
    /// It stopped.
    Down,
    /// It began, or began again.
    Up,
    /// Anything else.
    Plain,
}

/// An event, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What is drawn on the lifeline.
    pub mark: Mark,
    /// The view, if the mark is one.
    pub view: Option<String>,
    /// What stands beside it.
    pub text: String,
}

/// What a transcript calls the vote of a replica that has seen a block's certificate.
const SECOND: &str = "a second time for ";

/// A message's words and how to draw its arrow.
pub fn message(words: &str) -> (Kind, String) {
    let kind = match words.split(' ').next().unwrap_or_default() {
        first if first == "proposal" || first.contains("QC(") => Kind::Proposal,
        "pre-prepare" => Kind::Proposal,
        // PBFT's, which tells whose view changes it is made of.
        "new-view" if words.contains(" (of ") => Kind::Proposal,
        "vote" | "prepare" | "commit" => Kind::Vote,
        "time-out" | "view-change" => Kind::TimeOut,
        _ => Kind::Other,
    };
    let words = words.strip_suffix(", too late").unwrap_or(words);
    let words = match words.rsplit_once(" + ") {
        Some((words, bodies)) if bodies.ends_with("bodies") => words,
        _ => words,
    };
    let label =
        match words.split_once(" (").and_then(|(head, rest)| Some((head, rest.strip_suffix(')')?)))
        {
            Some((head, inner)) => std::iter::once(head)
                .chain(inner.split(", ").filter(|part| !part.ends_with(" frames")))
                .collect::<Vec<_>>()
                .join(" · "),
            None => words.to_owned(),
        };
    // Of a view change, what was prepared: the transcript has the rest.
    let label = match (kind, label.split_once(" · P: ")) {
        (Kind::TimeOut, Some((_, sets))) => {
            let head = label.split(" · ").next().unwrap_or_default();
            let prepared = sets.split(" · ").next().unwrap_or_default();
            let blocks: Vec<_> = prepared.split(' ').filter(|word| word.starts_with('b')).collect();
            if blocks.is_empty() {
                head.to_owned()
            } else {
                format!("{head} · {}", blocks.join(" "))
            }
        }
        _ => label,
    };
    let label = label.replace("time-out of view ", "time-out ").replace(" 1 frames", " 1 frame");
    (kind, label.replace(SECOND, "2nd "))
}

/// What an event adds to what its replica did at the same instant; nothing for what is left out.
pub fn add(lines: &mut Vec<Line>, words: &str) {
    let Some((mark, text)) = event(words) else { return };
    if let Some(last) = lines.last_mut() {
        match (last.mark, mark) {
            (Mark::View, Mark::Vote | Mark::Propose | Mark::Plain) if last.text.is_empty() => {
                last.text = text;
                return;
            }
            (Mark::Propose | Mark::View, Mark::Vote) => {
                let block = last.text.strip_prefix("proposes ").unwrap_or_default();
                if let Some(vote) = text.strip_suffix(block).filter(|_| !block.is_empty()) {
                    last.text = format!("{}, {}", last.text, vote.trim_end());
                    return;
                }
            }
            (Mark::Commit, Mark::Commit) => {
                last.text = format!("{}, {}", last.text, text.trim_start_matches("commits "));
                return;
            }
            _ => {}
        }
    }
    lines.push(match mark {
        Mark::View => Line { mark, view: Some(text), text: String::new() },
        _ => Line { mark, view: None, text },
    });
}

fn event(words: &str) -> Option<(Mark, String)> {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    let last = rest.rsplit(' ').next().unwrap_or_default();
    Some(match verb {
        "starts" => (Mark::Up, words.split(',').next()?.to_owned()),
        "crashes" | "halts:" => (Mark::Down, words.to_owned()),
        "enters" => (Mark::View, format!("v{last}")),
        "proposes" => (Mark::Propose, format!("proposes {last}")),
        "votes" => (Mark::Vote, words.replace("votes for ", "votes ").replace(SECOND, "2nd ")),
        "has" => (Mark::Certificate, rest.to_owned()),
        "commits" => (Mark::Commit, words.split(" at height").next()?.to_owned()),
        "gives" => (Mark::GiveUp, words.replace("gives up view ", "gives up v")),
        "refuses" if last == "Malformed(Stale)" => return None,
        "refuses" => {
            let reason = last.strip_prefix("Malformed(").and_then(|r| r.strip_suffix(')'));
            (Mark::Plain, words.replace(last, &spelled(reason.unwrap_or(last))))
        }
        "sees" => (Mark::Plain, words.split(" in view").next()?.to_owned()),
        "prunes" => (Mark::Plain, words.replace("prunes 1 blocks", "prunes 1 block")),
        "does" => {
            let reason = words.split_once(": ").map_or("", |(_, reason)| reason);
            (Mark::Plain, format!("no vote: {}", spelled(reason)))
        }
        _ => (Mark::Plain, words.to_owned()),
    })
}

/// `AlreadyVoted` as `already voted`.
fn spelled(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The block that words are about, as its view and how many of that view came before it: `b4''` is
/// the third of view 4.
pub fn block(words: &str) -> Option<(u64, usize)> {
    blocks(words).next().map(|(_, _, block)| block)
}

/// All blocks named in words: where the name begins, where it ends, and the block.
pub fn blocks(words: &str) -> impl Iterator<Item = (usize, usize, (u64, usize))> {
    let bytes = words.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            at += 1;
            let before = start.checked_sub(1).and_then(|before| bytes.get(before));
            if bytes.get(start) != Some(&b'b') || before.is_some_and(u8::is_ascii_alphanumeric) {
                continue;
            }
            let run = |from: usize, test: fn(&u8) -> bool| {
                bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|b| test(b)).count())
            };
            let digits = run(at, u8::is_ascii_digit);
            let Some(view) = words.get(at..at + digits).and_then(|d| d.parse().ok()) else {
                continue;
            };
            let primes = run(at + digits, |b| *b == b'\'');
            at += digits + primes;
            return Some((start, at, (view, primes)));
        }
        None
    })
}
