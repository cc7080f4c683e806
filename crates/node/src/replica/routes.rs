//! On which connections clients are answered.
//!
//! Whoever has seen a frame can send it again, and decided frames are there for everybody to pull.
//! So a connection that sent nothing but settled frames is answered, as a client that lost an
//! answer must be, but takes no place from those that brought frames which are still to be
//! executed.

use std::collections::BTreeMap;

use quorate_core::base::crypto::PublicKey;
use quorate_transport::ConnectionId;

/// Most connections of one client key that brought frames to be executed.
const CONNECTIONS_OF_KEY: usize = 4;
/// Most connections of one client key that brought nothing but settled frames.
const REPEATERS_OF_KEY: usize = 2;
/// Most client keys that are answered on one connection: keys cost nothing, so one client could
/// otherwise have without end of them.
const KEYS_OF_CONNECTION: usize = 64;

/// On which connections clients are answered. Both ways round; in each list the oldest gives way.
#[derive(Debug, Default)]
pub struct Routes {
    by_key: BTreeMap<PublicKey, Connections>,
    by_connection: BTreeMap<ConnectionId, Vec<PublicKey>>,
}

/// Where one key is answered.
#[derive(Debug, Default)]
struct Connections {
    /// The repeaters, then the others; each kind has its latest last.
    all: Vec<ConnectionId>,
    repeaters: usize,
}

impl Connections {
    fn remove(&mut self, connection: ConnectionId) {
        if let Some(place) = self.all.iter().position(|known| *known == connection) {
            self.all.remove(place);
            self.repeaters -= usize::from(place < self.repeaters);
        }
    }

    /// Notes where a frame came from. What gave way for it.
    fn learn(&mut self, connection: ConnectionId, is_settled: bool) -> Option<ConnectionId> {
        let place = self.all.iter().position(|known| *known == connection);
        if is_settled && place.is_some_and(|place| place >= self.repeaters) {
            return None;
        }
        self.remove(connection);
        if is_settled {
            self.all.insert(self.repeaters, connection);
            self.repeaters += 1;
            let is_over = self.repeaters > REPEATERS_OF_KEY;
            self.repeaters -= usize::from(is_over);
            return is_over.then(|| self.all.remove(0));
        }
        self.all.push(connection);
        let is_over = self.all.len() - self.repeaters > CONNECTIONS_OF_KEY;
        is_over.then(|| self.all.remove(self.repeaters))
    }
}

impl Routes {
    /// Where the client of `key` is answered.
    #[must_use]
    pub fn of(&self, key: &PublicKey) -> &[ConnectionId] {
        self.by_key.get(key).map_or(&[], |known| known.all.as_slice())
    }

    /// A frame of `key` came through `connection`; `is_settled` says whether it is settled already.
    pub fn learn(
        &mut self,
        key: PublicKey,
        connection: ConnectionId,
        is_settled: impl FnOnce() -> bool,
    ) {
        let known = self.by_key.entry(key).or_default();
        if known.all.len() > known.repeaters && known.all.last() == Some(&connection) {
            return;
        }
        let is_new = !known.all.contains(&connection);
        if let Some(left) = known.learn(connection, is_settled()) {
            Self::drop_key(&mut self.by_connection, left, &key);
        }
        if !is_new {
            return;
        }
        let keys = self.by_connection.entry(connection).or_default();
        keys.push(key);
        let left = (keys.len() > KEYS_OF_CONNECTION).then(|| keys.remove(0));
        if let Some(left) = left {
            self.drop_connection(&left, connection);
        }
    }

    /// `connection` is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        for key in self.by_connection.remove(&connection).unwrap_or_default() {
            self.drop_connection(&key, connection);
        }
    }

    fn drop_connection(&mut self, key: &PublicKey, connection: ConnectionId) {
        if let Some(known) = self.by_key.get_mut(key) {
            known.remove(connection);
            if known.all.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    fn drop_key(
        by_connection: &mut BTreeMap<ConnectionId, Vec<PublicKey>>,
        connection: ConnectionId,
        key: &PublicKey,
    ) {
        if let Some(keys) = by_connection.get_mut(&connection) {
            keys.retain(|known| known != key);
            if keys.is_empty() {
                by_connection.remove(&connection);
            }
        }
    }

    /// How many pairs of key and connection are held, either way round.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let by_key = self.by_key.values().map(|known| known.all.len()).sum();
        (by_key, self.by_connection.values().map(Vec::len).sum())
    }
}
