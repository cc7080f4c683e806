//! Commands read ahead of being executed.

use quorate_core::base::wire::DecodeError;
use quorate_merkle::Hash;

use super::command::{Command, Condition};
use super::value::place;

/// A command as it was read, and the place of the key that it is about.
pub(super) struct Decoded<'a> {
    pub(super) command: Result<Command<'a>, DecodeError>,
    /// If it is about one key; otherwise of no meaning.
    pub(super) place: Hash,
}

impl<'a> Decoded<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let command = Command::decode(bytes);
        let key = command.as_ref().ok().and_then(key);
        Self { command, place: key.map(place).unwrap_or_default() }
    }

    /// The place that it looks up when it is executed, if it is one. With a quota to be paid from,
    /// also what is overwritten is looked up.
    pub(super) fn looks_at(&self, is_paid: bool) -> Option<&Hash> {
        match &self.command {
            Ok(Command::Set { condition: Condition::Always, get: false, .. }) if !is_paid => None,
            Err(_) => None,
            Ok(command) => key(command).map(|_| &self.place),
        }
    }
}

/// Whether all keys that a command touches are among those that `covers` names. A command about the
/// whole keyspace touches all.
pub(super) fn is_within(command: &Command<'_>, covers: impl Fn(&[u8]) -> bool) -> bool {
    match *command {
        Command::Noop => true,
        Command::MSet(pairs) => pairs.iter().all(|(key, _)| covers(key)),
        Command::MGet(keys) | Command::Del(keys) | Command::Exists(keys) => keys.iter().all(covers),
        _ => key(command).is_some_and(covers),
    }
}

/// The key that a command is about; `None` if it is about several, or none.
const fn key<'a>(command: &Command<'a>) -> Option<&'a [u8]> {
    match *command {
        Command::Set { key, .. }
        | Command::Get(key)
        | Command::GetDel(key)
        | Command::IncrBy { key, .. }
        | Command::Append { key, .. }
        | Command::StrLen(key)
        | Command::HSet { key, .. }
        | Command::HGet { key, .. }
        | Command::HGetAll(key)
        | Command::HDel { key, .. }
        | Command::HLen(key)
        | Command::HExists { key, .. }
        | Command::HMGet { key, .. }
        | Command::HIncrBy { key, .. }
        | Command::Type(key) => Some(key),
        Command::Noop
        | Command::MSet(_)
        | Command::MGet(_)
        | Command::Del(_)
        | Command::Exists(_)
        | Command::DbSize
        | Command::Keys(_)
        | Command::Scan(_)
        | Command::FlushAll => None,
    }
}
