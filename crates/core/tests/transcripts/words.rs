//! What the scripts of all protocols share.

/// A script at work.
pub trait Script {
    /// Does as a line says. What it prints, and the trace.
    fn command(&mut self, line: &str) -> String;
}

/// The words of a command.
pub struct Words<'a>(pub Vec<&'a str>);

impl<'a> Words<'a> {
    pub fn new(line: &'a str) -> Self {
        Self(line.split_whitespace().collect())
    }

    /// A word by its place, the command's name being the first.
    pub fn at(&self, place: usize) -> &'a str {
        self.0.get(place).copied().unwrap_or_else(|| panic!("a word is missing: {:?}", self.0))
    }

    pub fn replica(&self, place: usize) -> usize {
        replica(self.at(place))
    }

    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.value(key).map(|value| value.parse().expect("a number"))
    }

    pub fn is_set(&self, key: &str) -> bool {
        match self.value(key) {
            None => false,
            Some("yes") => true,
            Some(other) => panic!("{key}=yes, not {other}"),
        }
    }

    /// No other options than these.
    pub fn only(&self, keys: &[&str]) -> &Self {
        for (key, _) in self.0.iter().filter_map(|word| word.split_once('=')) {
            assert!(keys.contains(&key), "{} has no option {key}", self.0[0]);
        }
        self
    }
}

pub fn replica(name: &str) -> usize {
    name.strip_prefix('r').and_then(|id| id.parse().ok()).expect("a replica: r0, r1 …")
}
