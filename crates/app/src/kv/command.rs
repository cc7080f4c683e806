//! The commands, and their one binary encoding.
//!
//! A command is an opcode of one byte and its fields: integers little-endian, byte strings behind
//! their length (u32), lists behind their count (u32). Zero bytes are a command as well, the one
//! that does nothing. Decoding copies and allocates nothing: lists are checked once, as a whole,
//! and then walked where they lie.

use quorate_core::base::wire::{DecodeError, put_bytes};

use super::{MAX_KEY_BYTES, MAX_PATTERN_BYTES, MAX_VALUE_BYTES};

/// One command, borrowing from the bytes it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Does nothing; answered by [`super::Reply::Empty`].
    Noop,
    /// Stores a string, whatever was there.
    Set {
        /// Where.
        key: &'a [u8],
        /// What.
        value: &'a [u8],
        /// When.
        condition: Condition,
        /// Answer with the old value instead of `Ok`; refused if that is not a string.
        get: bool,
    },
    /// The string under a key.
    Get(&'a [u8]),
    /// Removes a string and answers with it.
    GetDel(&'a [u8]),
    /// Stores several strings at once.
    MSet(Pairs<'a>),
    /// The strings under several keys; `Nil` where there is none.
    MGet(List<'a>),
    /// Removes keys; answers how many there were.
    Del(List<'a>),
    /// How many of the keys exist; one named twice counts twice.
    Exists(List<'a>),
    /// Adds to the integer that the string under the key spells; no key counts as 0.
    IncrBy {
        /// Where.
        key: &'a [u8],
        /// How much.
        by: i64,
    },
    /// Appends to a string; answers its new length.
    Append {
        /// Where.
        key: &'a [u8],
        /// What.
        value: &'a [u8],
    },
    /// The length of a string; 0 without one.
    StrLen(&'a [u8]),
    /// Sets fields of a hash; answers how many are new.
    HSet {
        /// Where.
        key: &'a [u8],
        /// Fields and their values.
        pairs: Pairs<'a>,
    },
    /// The value of a field.
    HGet {
        /// Where.
        key: &'a [u8],
        /// Which.
        field: &'a [u8],
    },
    /// All fields and values, one after the other, fields ascending.
    HGetAll(&'a [u8]),
    /// Removes fields; answers how many there were. The last field takes the key with it.
    HDel {
        /// Where.
        key: &'a [u8],
        /// Which.
        fields: List<'a>,
    },
    /// How many fields there are.
    HLen(&'a [u8]),
    /// Whether there is such a field.
    HExists {
        /// Where.
        key: &'a [u8],
        /// Which.
        field: &'a [u8],
    },
    /// The values of several fields; `Nil` where there is none.
    HMGet {
        /// Where.
        key: &'a [u8],
        /// Which.
        fields: List<'a>,
    },
    /// Adds to the integer that a field spells; no field counts as 0.
    HIncrBy {
        /// Where.
        key: &'a [u8],
        /// Which.
        field: &'a [u8],
        /// How much.
        by: i64,
    },
    /// `string`, `hash` or `none`.
    Type(&'a [u8]),
    /// How many keys there are.
    DbSize,
    /// All keys that match a glob pattern.
    Keys(&'a [u8]),
    /// Some keys from a cursor on, and the cursor to go on from; see [`super`] for the guarantee.
    Scan(Scan<'a>),
    /// Removes everything.
    FlushAll,
}

/// When a [`Command::Set`] takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// In any case.
    #[default]
    Always,
    /// If there is no such key (Redis: `NX`).
    Absent,
    /// If there is such a key (Redis: `XX`).
    Present,
}

/// What a [`Command::Scan`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// 0 to begin with, later what the reply before said.
    pub cursor: u64,
    /// About how many keys to look at; 1 to [`super::MAX_SCAN_COUNT`] are honoured.
    pub count: u32,
    /// Only keys of this kind.
    pub kind: Option<ValueKind>,
    /// Only keys that match this glob pattern.
    pub pattern: Option<&'a [u8]>,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A byte string.
    Text,
    /// A hash.
    Hash,
}

impl ValueKind {
    /// Redis's name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Hash => "hash",
        }
    }
}

/// Byte strings that lie one after the other, already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a> {
    count: usize,
    body: &'a [u8],
}

impl<'a> List<'a> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The byte strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut fields = Fields { rest: self.body };
        std::iter::from_fn(move || fields.bytes("element", usize::MAX).ok())
    }
}

/// Pairs of byte strings, already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a>(List<'a>);

impl<'a> Pairs<'a> {
    /// How many pairs there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.count / 2
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut flat = self.0.iter();
        std::iter::from_fn(move || Some((flat.next()?, flat.next()?)))
    }
}

mod opcode {
    pub(super) const SET: u8 = 1;
    pub(super) const GET: u8 = 2;
    pub(super) const M_SET: u8 = 3;
    pub(super) const M_GET: u8 = 4;
    pub(super) const DEL: u8 = 5;
    pub(super) const EXISTS: u8 = 6;
    pub(super) const INCR_BY: u8 = 7;
    pub(super) const APPEND: u8 = 8;
    pub(super) const STR_LEN: u8 = 9;
    pub(super) const H_SET: u8 = 10;
    pub(super) const H_GET: u8 = 11;
    pub(super) const H_GET_ALL: u8 = 12;
    pub(super) const H_DEL: u8 = 13;
    pub(super) const H_LEN: u8 = 14;
    pub(super) const H_EXISTS: u8 = 15;
    pub(super) const H_M_GET: u8 = 16;
    pub(super) const TYPE: u8 = 17;
    pub(super) const DB_SIZE: u8 = 18;
    pub(super) const KEYS: u8 = 19;
    pub(super) const SCAN: u8 = 20;
    pub(super) const FLUSH_ALL: u8 = 21;
    pub(super) const GET_DEL: u8 = 22;
    pub(super) const H_INCR_BY: u8 = 23;
}

const SET_GET_FLAG: u8 = 1 << 4;

impl<'a> Command<'a> {
    /// Reads the command that fills `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] names the field: unknown opcodes, lengths above their caps, input that ends
    /// early or goes on.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some((&code, rest)) = bytes.split_first() else {
            return Ok(Self::Noop);
        };
        let mut fields = Fields { rest };
        let command = fields.command(code)?;
        match fields.rest.len() {
            0 => Ok(command),
            count => Err(DecodeError::Trailing { count }),
        }
    }

    /// Whether it leaves the state as it is, so that one replica can answer it.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        !matches!(
            self,
            Self::Set { .. }
                | Self::GetDel(_)
                | Self::MSet(_)
                | Self::Del(_)
                | Self::IncrBy { .. }
                | Self::Append { .. }
                | Self::HSet { .. }
                | Self::HDel { .. }
                | Self::HIncrBy { .. }
                | Self::FlushAll
        )
    }

    /// Whether its reply can be out of all proportion to the command.
    pub(super) const fn is_costly(&self) -> bool {
        matches!(
            self,
            Self::Get(_)
                | Self::GetDel(_)
                | Self::Set { get: true, .. }
                | Self::MGet(_)
                | Self::HGet { .. }
                | Self::HGetAll(_)
                | Self::HMGet { .. }
                | Self::Keys(_)
                | Self::Scan(_)
        )
    }
}

/// The fields that are left of a command.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn command(&mut self, code: u8) -> Result<Command<'a>, DecodeError> {
        Ok(match code {
            opcode::SET => self.set()?,
            opcode::GET => Command::Get(self.key()?),
            opcode::GET_DEL => Command::GetDel(self.key()?),
            opcode::M_SET => Command::MSet(self.pairs("key", MAX_KEY_BYTES)?),
            opcode::M_GET => Command::MGet(self.keys()?),
            opcode::DEL => Command::Del(self.keys()?),
            opcode::EXISTS => Command::Exists(self.keys()?),
            opcode::INCR_BY => Command::IncrBy { key: self.key()?, by: self.integer()? },
            opcode::APPEND => Command::Append { key: self.key()?, value: self.value()? },
            opcode::STR_LEN => Command::StrLen(self.key()?),
            opcode::H_SET => Command::HSet {
                key: self.key()?,
                pairs: self.pairs("hash field", MAX_VALUE_BYTES)?,
            },
            opcode::H_GET => Command::HGet { key: self.key()?, field: self.field()? },
            opcode::H_GET_ALL => Command::HGetAll(self.key()?),
            opcode::H_DEL => Command::HDel { key: self.key()?, fields: self.fields()? },
            opcode::H_LEN => Command::HLen(self.key()?),
            opcode::H_EXISTS => Command::HExists { key: self.key()?, field: self.field()? },
            opcode::H_M_GET => Command::HMGet { key: self.key()?, fields: self.fields()? },
            opcode::H_INCR_BY => {
                Command::HIncrBy { key: self.key()?, field: self.field()?, by: self.integer()? }
            }
            opcode::TYPE => Command::Type(self.key()?),
            opcode::DB_SIZE => Command::DbSize,
            opcode::KEYS => Command::Keys(self.bytes("pattern", MAX_PATTERN_BYTES)?),
            opcode::SCAN => Command::Scan(self.scan()?),
            opcode::FLUSH_ALL => Command::FlushAll,
            _ => return Err(DecodeError::Invalid { field: "opcode" }),
        })
    }

    fn set(&mut self) -> Result<Command<'a>, DecodeError> {
        let [flags] = self.array()?;
        let condition = match flags & !SET_GET_FLAG {
            0 => Condition::Always,
            1 => Condition::Absent,
            2 => Condition::Present,
            _ => return Err(DecodeError::Invalid { field: "SET flags" }),
        };
        let get = flags & SET_GET_FLAG != 0;
        Ok(Command::Set { key: self.key()?, value: self.value()?, condition, get })
    }

    fn scan(&mut self) -> Result<Scan<'a>, DecodeError> {
        let cursor = u64::from_le_bytes(self.array()?);
        let count = u32::from_le_bytes(self.array()?);
        let kind = match self.array()? {
            [0] => None,
            [1] => Some(ValueKind::Text),
            [2] => Some(ValueKind::Hash),
            _ => return Err(DecodeError::Invalid { field: "kind of value" }),
        };
        let pattern = match self.array()? {
            [0] => None,
            [1] => Some(self.bytes("pattern", MAX_PATTERN_BYTES)?),
            _ => return Err(DecodeError::Invalid { field: "pattern" }),
        };
        Ok(Scan { cursor, count, kind, pattern })
    }

    fn key(&mut self) -> Result<&'a [u8], DecodeError> {
        self.bytes("key", MAX_KEY_BYTES)
    }

    fn value(&mut self) -> Result<&'a [u8], DecodeError> {
        self.bytes("value", MAX_VALUE_BYTES)
    }

    fn field(&mut self) -> Result<&'a [u8], DecodeError> {
        self.bytes("hash field", MAX_VALUE_BYTES)
    }

    fn keys(&mut self) -> Result<List<'a>, DecodeError> {
        self.list(|_| ("key", MAX_KEY_BYTES))
    }

    fn fields(&mut self) -> Result<List<'a>, DecodeError> {
        self.list(|_| ("hash field", MAX_VALUE_BYTES))
    }

    fn pairs(&mut self, name: &'static str, cap: usize) -> Result<Pairs<'a>, DecodeError> {
        let list = self.list(|at| match at % 2 {
            0 => (name, cap),
            _ => ("value", MAX_VALUE_BYTES),
        })?;
        match list.count % 2 {
            0 => Ok(Pairs(list)),
            _ => Err(DecodeError::Invalid { field: "pairs: an odd count" }),
        }
    }

    /// A list that is not empty; `limit` names each element and says how long it may be.
    fn list(
        &mut self,
        limit: impl Fn(usize) -> (&'static str, usize),
    ) -> Result<List<'a>, DecodeError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        if count == 0 {
            return Err(DecodeError::Invalid { field: "list: it is empty" });
        }
        let start = self.rest;
        for at in 0..count {
            let (name, cap) = limit(at);
            self.bytes(name, cap)?;
        }
        Ok(List { count, body: &start[..start.len() - self.rest.len()] })
    }

    fn integer(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated { missing: N - self.rest.len() });
        };
        self.rest = rest;
        Ok(*array)
    }

    fn bytes(&mut self, field: &'static str, cap: usize) -> Result<&'a [u8], DecodeError> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        if length > cap {
            return Err(DecodeError::TooLong { field, length, cap });
        }
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(DecodeError::Truncated { missing: length - self.rest.len() });
        };
        self.rest = rest;
        Ok(bytes)
    }
}

/// Writers of commands: each appends one encoding to `out`.
///
/// They do not check the caps; [`Command::decode`] does, at every replica.
pub mod encode {
    use super::{Condition, SET_GET_FLAG, Scan, ValueKind, opcode, put_bytes};

    macro_rules! of_key {
        ($($(#[$doc:meta])* $name:ident = $code:ident;)*) => {$(
            $(#[$doc])*
            pub fn $name(out: &mut Vec<u8>, key: &[u8]) {
                out.push(opcode::$code);
                put_bytes(out, key);
            }
        )*};
    }

    of_key! {
        /// [`super::Command::Get`].
        get = GET;
        /// [`super::Command::GetDel`].
        get_del = GET_DEL;
        /// [`super::Command::StrLen`].
        str_len = STR_LEN;
        /// [`super::Command::HGetAll`].
        h_get_all = H_GET_ALL;
        /// [`super::Command::HLen`].
        h_len = H_LEN;
        /// [`super::Command::Type`].
        kind = TYPE;
        /// [`super::Command::Keys`], by a pattern.
        keys = KEYS;
    }

    macro_rules! of_list {
        ($($(#[$doc:meta])* $name:ident = $code:ident;)*) => {$(
            $(#[$doc])*
            pub fn $name<'a>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'a [u8]>) {
                out.push(opcode::$code);
                list(out, keys);
            }
        )*};
    }

    of_list! {
        /// [`super::Command::MGet`].
        m_get = M_GET;
        /// [`super::Command::Del`].
        del = DEL;
        /// [`super::Command::Exists`].
        exists = EXISTS;
        /// [`super::Command::MSet`]: keys and values in turn.
        m_set = M_SET;
    }

    macro_rules! of_key_and_list {
        ($($(#[$doc:meta])* $name:ident = $code:ident;)*) => {$(
            $(#[$doc])*
            pub fn $name<'a>(
                out: &mut Vec<u8>,
                key: &[u8],
                fields: impl IntoIterator<Item = &'a [u8]>,
            ) {
                out.push(opcode::$code);
                put_bytes(out, key);
                list(out, fields);
            }
        )*};
    }

    of_key_and_list! {
        /// [`super::Command::HSet`]: fields and values in turn.
        h_set = H_SET;
        /// [`super::Command::HDel`].
        h_del = H_DEL;
        /// [`super::Command::HMGet`].
        h_m_get = H_M_GET;
    }

    /// [`super::Command::Set`].
    pub fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8], condition: Condition, get: bool) {
        out.extend_from_slice(&[opcode::SET, condition as u8 | if get { SET_GET_FLAG } else { 0 }]);
        put_bytes(out, key);
        put_bytes(out, value);
    }

    /// [`super::Command::IncrBy`].
    pub fn incr_by(out: &mut Vec<u8>, key: &[u8], by: i64) {
        out.push(opcode::INCR_BY);
        put_bytes(out, key);
        out.extend_from_slice(&by.to_le_bytes());
    }

    /// [`super::Command::Append`].
    pub fn append(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        out.push(opcode::APPEND);
        put_bytes(out, key);
        put_bytes(out, value);
    }

    /// [`super::Command::HGet`].
    pub fn h_get(out: &mut Vec<u8>, key: &[u8], field: &[u8]) {
        out.push(opcode::H_GET);
        put_bytes(out, key);
        put_bytes(out, field);
    }

    /// [`super::Command::HExists`].
    pub fn h_exists(out: &mut Vec<u8>, key: &[u8], field: &[u8]) {
        out.push(opcode::H_EXISTS);
        put_bytes(out, key);
        put_bytes(out, field);
    }

    /// [`super::Command::HIncrBy`].
    pub fn h_incr_by(out: &mut Vec<u8>, key: &[u8], field: &[u8], by: i64) {
        out.push(opcode::H_INCR_BY);
        put_bytes(out, key);
        put_bytes(out, field);
        out.extend_from_slice(&by.to_le_bytes());
    }

    /// [`super::Command::Scan`].
    pub fn scan(out: &mut Vec<u8>, scan: &Scan<'_>) {
        out.push(opcode::SCAN);
        out.extend_from_slice(&scan.cursor.to_le_bytes());
        out.extend_from_slice(&scan.count.to_le_bytes());
        out.push(match scan.kind {
            None => 0,
            Some(ValueKind::Text) => 1,
            Some(ValueKind::Hash) => 2,
        });
        match scan.pattern {
            None => out.push(0),
            Some(pattern) => {
                out.push(1);
                put_bytes(out, pattern);
            }
        }
    }

    /// [`super::Command::DbSize`].
    pub fn db_size(out: &mut Vec<u8>) {
        out.push(opcode::DB_SIZE);
    }

    /// [`super::Command::FlushAll`].
    pub fn flush_all(out: &mut Vec<u8>) {
        out.push(opcode::FLUSH_ALL);
    }

    fn list<'a>(out: &mut Vec<u8>, elements: impl IntoIterator<Item = &'a [u8]>) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0u32;
        for element in elements {
            put_bytes(out, element);
            count += 1;
        }
        out[at..at + 4].copy_from_slice(&count.to_le_bytes());
    }
}
