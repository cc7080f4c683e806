//! Reads a transcript back: the script's commands, and the lines that say what happened.

use std::collections::BTreeMap;
use std::fmt;

use super::words;

/// Tenths of a millisecond since the start: what a transcript's times are exact to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenths(pub u64);

impl Tenths {
    /// What a message takes on a link that no command has slowed down.
    pub const LINK: Self = Self(10);

    /// Reads milliseconds with at most one decimal: `12`, `12.5`.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(tenth) || tenth.len() != 1 {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(10)?;
        whole.checked_add(tenth.parse().ok()?).map(Self)
    }
}

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 10)?;
        if !self.0.is_multiple_of(10) {
            write!(f, ".{}", self.0 % 10)?;
        }
        Ok(())
    }
}

/// An instant. A script may have something happen when all else at that time is over: that is a
/// later round of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// The time.
    pub time: Tenths,
    /// How many rounds of that time came before.
    pub round: u32,
}

impl Instant {
    /// The last round of a time, whichever it is.
    pub fn last_of(time: Tenths) -> Self {
        Self { time, round: u32::MAX }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A message arrived.
    Delivery {
        /// Who sent it: a place in [`Transcript::participants`].
        from: usize,
        /// Who got it.
        to: usize,
        /// When it was sent, which the link's delay tells; [`Instant::last_of`] a time, as a rule.
        sent: Instant,
        /// What it says.
        words: String,
    },
    /// A replica did something by itself.
    Event {
        /// Which one: a place in [`Transcript::participants`].
        who: usize,
        /// What it did.
        words: String,
    },
    /// A replica did something while the trace was off, no later than that.
    Unseen {
        /// Which one: a place in [`Transcript::participants`].
        who: usize,
        /// What it did.
        words: String,
    },
    /// The script did something to the cluster.
    Note(String),
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it happened; for a note, the earliest time it can have been.
    pub at: Instant,
    /// What it was.
    pub what: What,
}

/// All that a transcript says.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// The comment that the script begins with, in one line.
    pub title: String,
    /// The names of those who take part, in order.
    pub participants: Vec<String>,
    /// What happened, in the order of the text.
    pub records: Vec<Record>,
}

/// A line that is not as a transcript's lines are.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}: `{text}`")]
pub struct TranscriptError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
    /// The line.
    pub text: String,
}

impl Transcript {
    /// Reads a script of `tests/scripts`. Lines of the output that begin with a time are read, and
    /// an error if they cannot be; other output (`status`, `(silence)`) is passed over.
    ///
    /// # Errors
    /// A line of the trace that is neither `time  r0 → r1 r2  words` nor `time  r0 r1  words`, or
    /// is earlier than the one before it.
    pub fn parse(text: &str) -> Result<Self, TranscriptError> {
        let mut reader = Reader::default();
        let mut in_output = false;
        for (index, line) in text.lines().enumerate() {
            match line {
                "----" => in_output = true,
                "" => in_output = false,
                _ if in_output => reader.output(line).map_err(|problem| TranscriptError {
                    line: index + 1,
                    problem,
                    text: line.to_owned(),
                })?,
                _ => match line.strip_prefix('#') {
                    Some(comment) => reader.comment(comment.trim()),
                    None => reader.command(line),
                },
            }
        }
        Ok(reader.transcript)
    }
}

#[derive(Default)]
struct Reader {
    transcript: Transcript,
    /// Whether the comment at the top is over.
    titled: bool,
    slowed: BTreeMap<(usize, usize), Tenths>,
    delays: Vec<Delay>,
    now: Instant,
    /// Messages that the script made up and that have not arrived: from whom to whom.
    made_up: Vec<(usize, usize)>,
    /// Notes whose time the next line tells, as the trace was off when they were given.
    waiting: Vec<String>,
    untraced: bool,
}

impl Reader {
    fn comment(&mut self, comment: &str) {
        if !self.titled {
            let title = &mut self.transcript.title;
            if !title.is_empty() {
                title.push(' ');
            }
            title.push_str(comment);
        }
    }

    fn command(&mut self, line: &str) {
        self.titled = true;
        let words: Vec<&str> = line.split_whitespace().collect();
        let value =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        match words.as_slice() {
            ["cluster", ..] => {
                let count = value("replicas").and_then(|n| n.parse().ok()).unwrap_or(4_u16);
                for id in 0..count.min(64) {
                    self.participant(&format!("r{id}"));
                }
            }
            ["slow", from, to, ..] => {
                if let Some(delay) = value("to").and_then(Tenths::parse) {
                    let link = (self.participant(from), self.participant(to));
                    self.slowed.insert(link, delay);
                    self.note(format!("{from} → {to} takes {delay} ms"));
                }
            }
            ["request", ..] if !self.untraced => {
                let count = match value("commands") {
                    None | Some("1") => "a command".to_owned(),
                    Some(count) => format!("{count} commands"),
                };
                let to = value("to").map_or_else(String::new, |to| format!(" to {to}"));
                self.note(format!("a client sends {count}{to}"));
            }
            ["send", _, from, to] => {
                let link = (self.participant(from), self.participant(to));
                self.made_up.push(link);
            }
            ["crash", who] if self.untraced => self.unseen(who, "crashes"),
            ["start" | "rejoin", who] if self.untraced => self.unseen(who, "starts"),
            ["isolate", who] => self.note(format!("{who} is cut off")),
            ["cut", from, to] => self.note(format!("{from} → {to} is cut")),
            ["heal"] => self.note("all links work".into()),
            ["lose", "nothing"] => {
                self.delays.clear();
                self.note("nothing is lost from now on".into());
            }
            ["lose", what @ ("pre-prepares" | "prepares" | "commits"), ..] => {
                // Of PBFT, by the block's height.
                let which = which(&value).replace(" of view ", " of b");
                self.note(format!("{what}{which} are lost"));
            }
            ["lose", what, ..] => {
                self.note(format!("{}{} are lost", what.replace('-', " "), which(&value)))
            }
            ["delay", what, ..] => {
                let by = value("by").and_then(Tenths::parse).unwrap_or_default();
                self.note(format!("{what}{} take {by} ms longer", which(&value)));
                let named =
                    |key| value(key).map(|names| names.split(',').map(str::to_owned).collect());
                let (from, to) = (named("from"), named("to"));
                let view = value("of").and_then(|view| view.parse().ok());
                let kind = what.trim_end_matches('s').to_owned();
                self.delays.push(Delay { kind, view, from, to, by });
            }
            ["equivocate", who, ..] => {
                let to = value("to").unwrap_or("some").replace(',', " and ");
                self.note(format!("{who} sends {to} other blocks"));
            }
            ["liar", who] => self.note(format!("{who} lies from now on")),
            ["trace", "off"] => self.untraced = true,
            _ => {}
        }
    }

    fn note(&mut self, words: String) {
        if self.untraced {
            self.waiting.push(words);
        } else {
            self.transcript.records.push(Record { at: self.now, what: What::Note(words) });
        }
    }

    fn unseen(&mut self, who: &str, words: &str) {
        let (who, words) = (self.participant(who), words.to_owned());
        self.transcript.records.push(Record { at: self.now, what: What::Unseen { who, words } });
    }

    fn output(&mut self, line: &str) -> Result<(), &'static str> {
        let (time, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
        let Some(time) = Tenths::parse(time) else { return Ok(()) };
        if time < self.now.time {
            return Err("time runs backwards");
        }
        let (who, rest) = self.names(rest);
        if who.is_empty() {
            return Err("a name like r0 or c0 must follow the time");
        }
        let Some(rest) = rest.strip_prefix("→ ") else {
            for who in who {
                self.push(time, time, What::Event { who, words: rest.to_owned() });
            }
            return Ok(());
        };
        let (to, words) = self.names(rest);
        if to.is_empty() {
            return Err("a name like r0 or c0 must follow the arrow");
        }
        for (from, to) in who.iter().flat_map(|from| to.iter().map(|to| (*from, *to))) {
            self.delivered(time, from, to, words);
        }
        Ok(())
    }

    /// The names that a text begins with, and what follows them.
    fn names<'a>(&mut self, text: &'a str) -> (Vec<usize>, &'a str) {
        let (mut names, mut rest) = (Vec::new(), text.trim_start());
        while let Some((name, behind)) = rest.split_once(' ').filter(|(word, _)| is_name(word)) {
            names.push(self.participant(name));
            rest = behind.trim_start();
        }
        (names, rest)
    }

    fn delivered(&mut self, time: Tenths, from: usize, to: usize, words: &str) {
        let delivery = |sent| What::Delivery { from, to, sent, words: words.to_owned() };
        if let Some(made_up) = self.made_up.iter().position(|link| *link == (from, to))
            && time == self.now.time
        {
            self.made_up.remove(made_up);
            let sent = self.now;
            self.now.round += 1;
            return self.push(time, time, delivery(sent));
        }
        let link = self.slowed.get(&(from, to)).copied().unwrap_or(Tenths::LINK);
        let names = &self.transcript.participants;
        let late = self.delays.iter().find(|delay| delay.concerns(names, from, to, words));
        let delay = link.0 + late.map_or(0, |late| late.by.0);
        let sent = Tenths(time.0.saturating_sub(delay));
        self.push(time, sent, delivery(Instant::last_of(sent)));
    }

    /// Writes down what began at `from` and was seen at `time`.
    fn push(&mut self, time: Tenths, from: Tenths, what: What) {
        self.untraced = false;
        if time > self.now.time {
            for words in self.waiting.drain(..) {
                let at = Instant { time: from.max(self.now.time), round: 0 };
                self.transcript.records.push(Record { at, what: What::Note(words) });
            }
            self.now = Instant { time, round: 0 };
        }
        self.transcript.records.push(Record { at: self.now, what });
    }

    fn participant(&mut self, name: &str) -> usize {
        let names = &mut self.transcript.participants;
        names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
    }
}

/// Messages of a kind that take longer than their link does.
struct Delay {
    kind: String,
    /// Of which view; of any if absent.
    view: Option<u64>,
    /// From whom; from anybody if absent.
    from: Option<Vec<String>>,
    /// To whom; to anybody if absent.
    to: Option<Vec<String>>,
    by: Tenths,
}

impl Delay {
    fn concerns(&self, names: &[String], from: usize, to: usize, words: &str) -> bool {
        let among = |list: &Option<Vec<String>>, who: usize| {
            list.as_ref().is_none_or(|list| names.get(who).is_some_and(|name| list.contains(name)))
        };
        let view = || match self.kind.as_str() {
            "proposal" | "vote" => words::block(words).map(|(view, _)| view),
            _ => words.split([' ', ',']).find_map(|word| word.parse().ok()),
        };
        words.starts_with(self.kind.as_str())
            && self.view.is_none_or(|of| view() == Some(of))
            && among(&self.from, from)
            && among(&self.to, to)
    }
}

/// Which messages a command is about, as words to follow their kind.
fn which<'a>(value: &dyn Fn(&str) -> Option<&'a str>) -> String {
    let named = |key| {
        value(key)
            .map_or_else(String::new, |names| format!(" {key} {}", names.replace(',', " and ")))
    };
    let view = value("of").map_or_else(String::new, |view| format!(" of view {view}"));
    format!("{view}{}{}", named("from"), named("to"))
}

/// `r3` is a replica, `c0` a client.
fn is_name(word: &str) -> bool {
    let number = word.strip_prefix(['r', 'c']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}
