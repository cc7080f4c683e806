//! An ACL file, read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use super::{Access, Acl, KeyRule, User};
use crate::commands::table::{COMMANDS, Spec};

/// Most users of a file.
const MAX_USERS: usize = 10_000;
/// Most rules of a user.
const MAX_RULES: usize = 1_000;

/// Why a file is refused. The line counts from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct AclError {
    /// Where.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// The categories of commands: Redis's, without those of which the gateway has no command.
pub const CATEGORIES: [&str; 12] = [
    "keyspace",
    "read",
    "write",
    "string",
    "hash",
    "connection",
    "transaction",
    "fast",
    "slow",
    "admin",
    "dangerous",
    "all",
];

/// Commands that show or change more than one user's own.
const DANGEROUS: [&str; 8] =
    ["acl", "client|list", "config", "flushall", "flushdb", "info", "keys", "command|docs"];
const ADMIN: [&str; 2] = ["acl", "config"];

/// Whether a command or subcommand is of this category.
#[must_use]
pub fn in_category(spec: &Spec, category: &str) -> bool {
    let container = spec.name.split('|').next().unwrap_or(spec.name);
    let is_of = |names: &[&str]| names.contains(&spec.name) || names.contains(&container);
    match category {
        "all" => true,
        "read" => spec.flags.contains(&"readonly"),
        "write" => spec.flags.contains(&"write"),
        "fast" => spec.flags.contains(&"fast"),
        "slow" => !spec.flags.contains(&"fast"),
        "keyspace" => {
            spec.group == "generic" || ["dbsize", "flushall", "flushdb"].contains(&spec.name)
        }
        "transaction" => spec.group == "transactions",
        // What everybody may ask about themselves.
        "dangerous" => is_of(&DANGEROUS) && !OWN.contains(&spec.name),
        "admin" => is_of(&ADMIN) && !OWN.contains(&spec.name),
        group => spec.group == group,
    }
}

/// Subcommands of ACL that tell nothing of others.
const OWN: [&str; 2] = ["acl|cat", "acl|whoami"];

/// Every command and subcommand.
fn all_specs() -> impl Iterator<Item = &'static Spec> {
    COMMANDS.iter().flat_map(|spec| std::iter::once(spec).chain(spec.parts))
}

impl Acl {
    /// Reads an ACL file: a line a user, `user NAME RULE ...`; `#` begins a comment. A user that is
    /// not named may not connect, `default` neither. Rules take effect from left to right:
    ///
    /// | rule | meaning |
    /// |---|---|
    /// | `on`, `off` | the user may connect, or not |
    /// | `nopass` | any password is right |
    /// | `>PASSWORD`, `#SHA256` | one more password, or the hexadecimal hash of one |
    /// | `+NAME`, `-NAME` | the command (`+client`), or one subcommand (`-client\|list`) |
    /// | `+@CATEGORY`, `-@CATEGORY` | all commands of a category; `@all` is every one |
    /// | `allcommands`, `nocommands` | the same as `+@all`, `-@all` |
    /// | `~PATTERN`, `allkeys` | keys that match may be read and written |
    /// | `%R~PATTERN`, `%W~PATTERN`, `%RW~PATTERN` | may be read, written, both |
    /// | `resetkeys` | no keys |
    /// | `reset` | as if nothing had been said before |
    ///
    /// # Errors
    /// [`AclError`], with the line and what is wrong in it.
    pub fn parse(text: &str) -> Result<Self, AclError> {
        let mut users = BTreeMap::new();
        for (at, text) in text.lines().enumerate() {
            let line = at + 1;
            let refused = |what: String| AclError { line, what };
            let mut words = text.split_whitespace();
            match words.next() {
                None => continue,
                Some(word) if word.starts_with('#') => continue,
                Some("user") => {}
                Some(word) => {
                    let what = format!("expected `user NAME RULE ...`, found `{word}`");
                    return Err(refused(what));
                }
            }
            let name = words.next().ok_or_else(|| refused("a user needs a name".to_owned()))?;
            let mut user = User::named(name);
            for (rules, rule) in words.enumerate() {
                if rules == MAX_RULES {
                    return Err(refused(format!("a user has at most {MAX_RULES} rules")));
                }
                user.apply(rule).map_err(refused)?;
            }
            if users.len() == MAX_USERS {
                return Err(refused(format!("at most {MAX_USERS} users")));
            }
            if users.insert(name.to_owned(), Arc::new(user)).is_some() {
                return Err(refused(format!("user `{name}` is there twice")));
            }
        }
        Ok(Self { users })
    }
}

impl User {
    fn apply(&mut self, rule: &str) -> Result<(), String> {
        match rule {
            "on" => self.enabled = true,
            "off" => self.enabled = false,
            "nopass" => {
                self.no_password = true;
                self.describe("nopass");
            }
            "reset" => *self = Self::named(&self.name),
            "allcommands" => self.commands("@all", true)?,
            "nocommands" => self.commands("@all", false)?,
            "allkeys" => self.key("*", true, true),
            "resetkeys" => {
                self.keys.clear();
                self.describe("resetkeys");
            }
            // There are no channels: what is said of them changes nothing.
            "allchannels" | "resetchannels" | "sanitize-payload" | "skip-sanitize-payload" => {}
            _ => self.apply_marked(rule)?,
        }
        Ok(())
    }

    /// A rule whose first character says what it is.
    fn apply_marked(&mut self, rule: &str) -> Result<(), String> {
        let unknown = || {
            format!(
                "unknown rule `{}`: docs/redis.md lists them",
                // A password that lost its mark must not stand in a log.
                rule.chars().take(2).collect::<String>() + "…"
            )
        };
        let mut rest = rule.chars();
        match rest.next() {
            Some('>') => {
                let hash = digest(&SHA256, rest.as_str().as_bytes());
                self.password(hash.as_ref())?;
            }
            Some('#') => {
                let bytes = from_hex(rest.as_str())
                    .ok_or("`#` is followed by 64 hexadecimal digits: the SHA-256 of a password")?;
                self.password(&bytes)?;
            }
            Some('+') => self.commands(rest.as_str(), true)?,
            Some('-') => self.commands(rest.as_str(), false)?,
            Some('~') => self.key(rest.as_str(), true, true),
            Some('&') => {}
            Some('%') => {
                let (flags, pattern) = rest.as_str().split_once('~').ok_or_else(unknown)?;
                let known = !flags.is_empty() && flags.chars().all(|c| "RWrw".contains(c));
                if !known {
                    return Err(unknown());
                }
                let has = |flag: char| flags.chars().any(|c| c.eq_ignore_ascii_case(&flag));
                self.key(pattern, has('r'), has('w'));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn describe(&mut self, rule: &str) {
        self.described.push(' ');
        self.described.push_str(rule);
    }

    fn password(&mut self, hash: &[u8]) -> Result<(), String> {
        let hash = hash.try_into().map_err(|_| "not the hash of a password".to_owned())?;
        self.no_password = false;
        self.passwords.push(hash);
        let hex = hash.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        self.describe(&format!("#{hex}"));
        Ok(())
    }

    fn key(&mut self, pattern: &str, read: bool, write: bool) {
        let access = Access { read, write };
        self.keys.push(KeyRule { pattern: pattern.as_bytes().to_vec(), access });
        let flags = match (read, write) {
            (true, true) => String::new(),
            (read, _) => format!("%{}", if read { "R" } else { "W" }),
        };
        self.describe(&format!("{flags}~{pattern}"));
    }

    fn commands(&mut self, which: &str, allowed: bool) -> Result<(), String> {
        let lower = which.to_ascii_lowercase();
        let named: Vec<&'static Spec> = match lower.strip_prefix('@') {
            Some(category) if CATEGORIES.contains(&category) => {
                all_specs().filter(|spec| in_category(spec, category)).collect()
            }
            Some(_) => {
                let known = CATEGORIES.join(", @");
                return Err(format!("unknown category `{which}`: there are @{known}"));
            }
            None => {
                let part_of = format!("{lower}|");
                let is_it = |spec: &&Spec| spec.name == lower || spec.name.starts_with(&part_of);
                all_specs().filter(is_it).collect()
            }
        };
        if named.is_empty() {
            return Err(format!("the gateway has no command `{which}`: docs/redis.md lists them"));
        }
        for spec in named {
            match allowed {
                true => self.commands.insert(spec.name),
                false => self.commands.remove(spec.name),
            };
        }
        self.allows_all = all_specs().all(|spec| self.commands.contains(spec.name));
        self.describe(&format!("{}{lower}", if allowed { '+' } else { '-' }));
        Ok(())
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..64).step_by(2).map(byte).collect()
}
