//! The list of clients: replicated state that says who may send commands.
//!
//! [Directives](super::directive) change it; its [digest](Clients::digest) is part of every state
//! root, so all replicas judge a client alike. As long as nobody has made a list, anybody may send
//! commands, and the list costs nothing.
//!
//! - The [`Admission`] says what the list is for: with [`Admission::Open`] it names exceptions,
//!   with [`Admission::Listed`] all who may send commands.
//! - A key is *granted* something, or *revoked*. A revoked key may do nothing, whatever the
//!   admission; that is forgotten by order alone, so that an open cluster can bar a key.
//! - A [`Grant`] says what a key may do. The ledger sees to [`write`](Grant::write). The
//!   application sees to the [prefixes](Grant::prefixes), since it alone knows what a command
//!   touches ([`Caller`](super::state_machine::Caller)), and to the [quota](Grant::stored_bytes),
//!   since it alone knows what a command stores. Each replica sees to the
//!   [rate](Grant::commands_per_second) for itself, since time is no part of the state.
//!
//! The list is bounded by [`MAX_BYTES`] of its encoding, which fits the header of a snapshot. A
//! directive that would make it longer is refused. One that revokes a granted key never is: that
//! makes the list shorter.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::crypto::PublicKey;
use crate::base::types::Digest;
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::outcome::Rejection;

/// Most bytes of the list's encoding: 24,000 keys without prefixes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most prefixes of one grant.
pub const MAX_PREFIXES: usize = 16;
/// Longest prefix, bytes.
pub const MAX_PREFIX_BYTES: usize = 256;

/// Bytes of a list's encoding beside its entries.
const HEAD_BYTES: usize = 1 + 8 + 4;
/// Bytes of the shortest entry.
const LEAST_ENTRY_BYTES: usize = 32 + 1;

/// Whom the cluster takes commands from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Anybody whose key is not revoked.
    #[default]
    Open,
    /// Keys that are granted something, and nobody else.
    Listed,
}

/// What a key may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whether it may have commands ordered. Without this it may only ask replicas, as anybody may.
    pub write: bool,
    /// The keys of the application that its commands may touch begin with one of these. None: they
    /// may touch all.
    pub prefixes: Vec<Bytes>,
    /// How many commands a second one replica takes from it, at most. `None`: as many as come.
    pub commands_per_second: Option<NonZeroU32>,
    /// How many bytes of the application's state it may fill, by the application's own measure.
    /// `None`: as many as the state has room for. Under rules from [`Rules::QUOTAS`] on alone.
    ///
    /// [`Rules::QUOTAS`]: crate::base::membership::Rules::QUOTAS
    pub stored_bytes: Option<NonZeroU64>,
}

/// What the list says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It may do this.
    Granted(Arc<Grant>),
    /// It may do nothing.
    Revoked,
}

/// The list of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    admission: Admission,
    /// The serial of the last directive that was carried out.
    serial: u64,
    list: BTreeMap<PublicKey, Entry>,
    /// Bytes of the entries' encoding.
    bytes: usize,
    /// Whether a key may touch a part of the application's keys only.
    has_prefixes: bool,
    digest: Digest,
}

/// The list would be longer than [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list of clients would be longer than {MAX_BYTES} bytes")]
pub struct Full;

impl Default for Grant {
    /// All that a key may do in a cluster without a list.
    fn default() -> Self {
        Self { write: true, prefixes: Vec::new(), commands_per_second: None, stored_bytes: None }
    }
}

impl Grant {
    /// Whether commands may touch this key of the application.
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

impl Clients {
    /// The list that a chain begins with: these keys may do everything.
    ///
    /// # Errors
    /// [`Full`].
    pub fn first(
        admission: Admission,
        keys: impl IntoIterator<Item = PublicKey>,
    ) -> Result<Self, Full> {
        let everything = Arc::new(Grant::default());
        let granted = |key| (key, Entry::Granted(Arc::clone(&everything)));
        Self::of(admission, 0, keys.into_iter().map(granted).collect())
    }

    fn of(
        admission: Admission,
        serial: u64,
        list: BTreeMap<PublicKey, Entry>,
    ) -> Result<Self, Full> {
        let bytes = list.values().map(Entry::bytes).sum();
        if HEAD_BYTES + bytes > MAX_BYTES {
            return Err(Full);
        }
        let is_partial = |entry: &Entry| match entry {
            Entry::Granted(grant) => !grant.prefixes.is_empty(),
            Entry::Revoked => false,
        };
        let has_prefixes = list.values().any(is_partial);
        let digest = Digest::default();
        let mut clients = Self { admission, serial, list, bytes, has_prefixes, digest };
        clients.seal();
        Ok(clients)
    }

    /// Computes the digest, after a change.
    fn seal(&mut self) {
        let is_absent = self.admission == Admission::Open && self.serial == 0;
        self.digest = match is_absent && self.list.is_empty() {
            true => Digest::default(),
            false => Digest::of("quorate clients", &self.to_bytes()),
        };
    }

    /// The digest of the list; zero as long as nobody has made one.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether the list says nothing: anybody may do everything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.admission == Admission::Open && self.list.is_empty()
    }

    /// Whether a key may touch a part of the application's keys only. Who asks without a signature
    /// cannot be told from it.
    #[must_use]
    pub fn has_prefixes(&self) -> bool {
        self.has_prefixes
    }

    /// Whom the cluster takes commands from.
    #[must_use]
    pub fn admission(&self) -> Admission {
        self.admission
    }

    /// The serial that the next directive must have.
    #[must_use]
    pub fn next_serial(&self) -> u64 {
        self.serial.saturating_add(1)
    }

    /// The keys of the list, ascending, and what it says of each.
    pub fn entries(&self) -> impl Iterator<Item = (&PublicKey, &Entry)> {
        self.list.iter()
    }

    /// What the list says of a key.
    #[must_use]
    pub fn entry(&self, key: &PublicKey) -> Option<&Entry> {
        self.list.get(key)
    }

    /// What a key is granted, if the list names it.
    #[must_use]
    pub fn grant(&self, key: &PublicKey) -> Option<&Arc<Grant>> {
        match self.list.get(key)? {
            Entry::Granted(grant) => Some(grant),
            Entry::Revoked => None,
        }
    }

    /// Whether a key may have commands ordered.
    ///
    /// # Errors
    /// [`Rejection`]: why not.
    pub fn admits(&self, key: &PublicKey) -> Result<(), Rejection> {
        match (self.list.get(key), self.admission) {
            (Some(Entry::Revoked), _) => Err(Rejection::Revoked),
            (Some(Entry::Granted(grant)), _) if !grant.write => Err(Rejection::ReadOnly),
            (None, Admission::Listed) => Err(Rejection::NotListed),
            _ => Ok(()),
        }
    }

    /// The list after the next directive, which lets this be the entry of `key`; `None`: there is
    /// none any more.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn with_entry(&self, key: PublicKey, entry: Option<Entry>) -> Result<Self, Full> {
        let mut list = self.list.clone();
        match entry {
            Some(entry) => list.insert(key, entry),
            None => list.remove(&key),
        };
        Self::of(self.admission, self.next_serial(), list)
    }

    /// The list after the next directive, which sets the admission.
    pub(super) fn with_admission(&self, admission: Admission) -> Self {
        let mut clients = Self { admission, serial: self.next_serial(), ..self.clone() };
        clients.seal();
        clients
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Revoked => LEAST_ENTRY_BYTES,
            Self::Granted(grant) => {
                let quota = grant.stored_bytes.map_or(0, |_| size_of::<u64>());
                LEAST_ENTRY_BYTES + quota + grant.to_bytes().len()
            }
        }
    }
}

impl Encode for Admission {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Open => 0,
            Self::Listed => 1,
        });
    }
}

impl Decode for Admission {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Open),
            1 => Ok(Self::Listed),
            _ => Err(DecodeError::Invalid { field: "admission of clients" }),
        }
    }
}

/// All but the [quota](Grant::stored_bytes): what has one says so, and what it is, in front.
impl Encode for Grant {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.write.into());
        self.commands_per_second.map_or(0, NonZeroU32::get).encode(out);
        (self.prefixes.len() as u32).encode(out);
        self.prefixes.iter().for_each(|prefix| put_bytes(out, prefix));
    }
}

impl Decode for Grant {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let write = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Invalid { field: "grant: whether it may write" }),
        };
        let commands_per_second = NonZeroU32::new(reader.u32()?);
        let count = reader.length("prefixes of a grant", MAX_PREFIXES)?;
        let prefix = |_| match reader.byte_string("prefix of a grant", MAX_PREFIX_BYTES)? {
            prefix if prefix.is_empty() => {
                Err(DecodeError::Invalid { field: "prefix of a grant: it is empty" })
            }
            // What is kept for long must not hold on to the buffer that it came in.
            prefix => Ok(Bytes::copy_from_slice(&prefix)),
        };
        let prefixes = (0..count).map(prefix).collect::<Result<_, _>>()?;
        Ok(Self { write, prefixes, commands_per_second, stored_bytes: None })
    }
}

/// Admission, serial u64, count u32, and by ascending keys: key 32, 0 if it is revoked, or 1 and
/// the grant, or 2, the quota u64 and the grant.
impl Encode for Clients {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(HEAD_BYTES + self.bytes);
        self.admission.encode(out);
        self.serial.encode(out);
        (self.list.len() as u32).encode(out);
        for (key, entry) in &self.list {
            key.encode(out);
            match entry {
                Entry::Revoked => out.push(0),
                Entry::Granted(grant) => {
                    match grant.stored_bytes {
                        None => out.push(1),
                        Some(quota) => {
                            out.push(2);
                            quota.get().encode(out);
                        }
                    }
                    grant.encode(out);
                }
            }
        }
    }
}

/// A quota that stands in front of its grant.
pub(super) fn decode_quota(reader: &mut Reader) -> Result<NonZeroU64, DecodeError> {
    NonZeroU64::new(reader.u64()?).ok_or(DecodeError::Invalid { field: "quota: it is zero" })
}

impl Decode for Clients {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (admission, serial) = (Admission::decode(reader)?, reader.u64()?);
        let count = reader.length("clients", MAX_BYTES / LEAST_ENTRY_BYTES)?;
        let mut list = BTreeMap::new();
        for _ in 0..count {
            let key = PublicKey::decode(reader)?;
            if list.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(DecodeError::Invalid { field: "clients: out of order" });
            }
            let entry = match reader.u8()? {
                0 => Entry::Revoked,
                1 => Entry::Granted(Arc::new(Grant::decode(reader)?)),
                2 => {
                    let stored_bytes = Some(decode_quota(reader)?);
                    Entry::Granted(Arc::new(Grant { stored_bytes, ..Grant::decode(reader)? }))
                }
                _ => return Err(DecodeError::Invalid { field: "entry of a client" }),
            };
            list.insert(key, entry);
        }
        Self::of(admission, serial, list)
            .map_err(|Full| DecodeError::Invalid { field: "clients: too many bytes" })
    }
}
