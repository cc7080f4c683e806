//! Who may do what: users, their passwords, commands and keys, in the words of Redis's ACL files.
//!
//! A file has a line a user, `user NAME RULE ...`; [`Acl::parse`] says which rules there are. Users
//! are replaced all at once, when the file is read again. Without a file everybody is the user
//! `default`, who may do all.

pub mod gate;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

pub use parse::{AclError, CATEGORIES, in_category};

use crate::commands::table::Spec;
use crate::resp::Args;

/// The user of a connection that has said nothing.
pub const DEFAULT: &str = "default";

/// All users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    users: BTreeMap<String, Arc<User>>,
}

impl Default for Acl {
    /// The user `default`, without a password, who may do all.
    fn default() -> Self {
        let all = User { allows_all: true, ..User::named(DEFAULT) };
        let all = User { enabled: true, no_password: true, keys: vec![KeyRule::all()], ..all };
        Self { users: BTreeMap::from([(DEFAULT.to_owned(), Arc::new(all))]) }
    }
}

impl Acl {
    /// The user of this name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// All, by name.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Whether anybody has to say a password.
    #[must_use]
    pub fn has_passwords(&self) -> bool {
        self.newcomer().is_none()
    }

    /// The user of a new connection; none if it has to say who it is first.
    #[must_use]
    pub fn newcomer(&self) -> Option<Arc<User>> {
        self.user(DEFAULT).filter(|user| user.enabled && user.no_password).cloned()
    }

    /// The user with this name, if the password is right and the user enabled.
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // Hashed in any case: the time does not tell whether there is such a user.
        let given = digest(&SHA256, password);
        let user = self.user(std::str::from_utf8(name).ok()?)?;
        let equals = |kept: &[u8; 32]| verify_slices_are_equal(kept, given.as_ref()).is_ok();
        let is_right = user.no_password || user.passwords.iter().any(equals);
        (user.enabled && is_right).then(|| Arc::clone(user))
    }
}

/// One user.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    enabled: bool,
    no_password: bool,
    /// SHA-256 of each password.
    passwords: Vec<[u8; 32]>,
    /// Every command is allowed, also one that `commands` does not name.
    allows_all: bool,
    /// The names of the allowed commands and subcommands.
    commands: BTreeSet<&'static str>,
    keys: Vec<KeyRule>,
    /// The rules, as they were given; passwords as their hashes.
    described: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.name)
    }
}

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    read: bool,
    write: bool,
}

/// Keys of a pattern, and what may be done to them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRule {
    pattern: Vec<u8>,
    access: Access,
}

impl KeyRule {
    fn all() -> Self {
        Self { pattern: b"*".to_vec(), access: Access { read: true, write: true } }
    }

    fn is_all(&self) -> bool {
        self.pattern == b"*" && self.access.read && self.access.write
    }

    fn allows(&self, key: &[u8], wanted: Access) -> bool {
        let enough = self.access.read >= wanted.read && self.access.write >= wanted.write;
        enough && (self.pattern == b"*" || quorate_app::kv::matches(&self.pattern, key))
    }
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The user may not run the command.
    Command,
    /// The user may not do that to one of the keys.
    Key,
}

/// Commands that tell what a key held, besides those that only read.
const ACCESSES: [&str; 7] = ["decr", "decrby", "getdel", "getset", "hincrby", "incr", "incrby"];

/// What a command does to its keys.
fn access(spec: &Spec, args: Args<'_>) -> Access {
    let write = spec.flags.contains(&"write");
    let tells = spec.name == "set" && (3..args.len()).any(|at| args.is(at, "get"));
    Access { read: !write || tells || ACCESSES.contains(&spec.name), write }
}

impl User {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            enabled: false,
            no_password: false,
            passwords: Vec::new(),
            allows_all: false,
            commands: BTreeSet::new(),
            keys: Vec::new(),
            described: String::new(),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the user may connect.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether a connection that was let in as `before` would be let in as this one.
    #[must_use]
    pub fn has_passwords_of(&self, before: &Self) -> bool {
        self.no_password == before.no_password && self.passwords == before.passwords
    }

    /// The line of the file; passwords as their hashes.
    #[must_use]
    pub fn line(&self) -> String {
        let state = if self.enabled { "on" } else { "off" };
        format!("user {} {state}{}", self.name, self.described)
    }

    /// Whether the user may run this command or subcommand with these arguments.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn may(&self, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
        if !self.allows_all && !self.commands.contains(spec.name) {
            return Err(Denied::Command);
        }
        if spec.keys.0 == 0 || self.keys.iter().any(KeyRule::is_all) {
            return Ok(());
        }
        let wanted = access(spec, args);
        let allowed = |key: &[u8]| {
            // What is allowed to read and what is allowed to write may come of two rules.
            let (read, write) = (wanted.read, wanted.write);
            let allows = |wanted| self.keys.iter().any(|rule| rule.allows(key, wanted));
            (!read || allows(Access { read: true, write: false }))
                && (!write || allows(Access { read: false, write: true }))
        };
        match spec.keys_of(args, 0).all(allowed) {
            true => Ok(()),
            false => Err(Denied::Key),
        }
    }
}
