//! On which connections clients are answered.

use std::collections::BTreeMap;

use quorate_core::crypto::PublicKey;

use crate::transport::ConnectionId;

/// Most connections that one client key is answered on.
const CONNECTIONS_OF_KEY: usize = 4;
/// Most client keys that are answered on one connection: keys cost nothing, so one client could
/// otherwise have without end of them.
const KEYS_OF_CONNECTION: usize = 64;

/// On which connections clients are answered. Both ways round; each list has its latest last, and
/// its oldest gives way.
#[derive(Debug, Default)]
pub struct Routes {
    by_key: BTreeMap<PublicKey, Vec<ConnectionId>>,
    by_connection: BTreeMap<ConnectionId, Vec<PublicKey>>,
}

impl Routes {
    /// Where the client of `key` is answered.
    #[must_use]
    pub fn of(&self, key: &PublicKey) -> &[ConnectionId] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// The client of `key` spoke through `connection`.
    pub fn learn(&mut self, key: PublicKey, connection: ConnectionId) {
        let connections = self.by_key.entry(key).or_default();
        if connections.last() == Some(&connection) {
            return;
        }
        let is_new = !connections.contains(&connection);
        connections.retain(|known| *known != connection);
        connections.push(connection);
        let left = (connections.len() > CONNECTIONS_OF_KEY).then(|| connections.remove(0));
        if let Some(left) = left {
            Self::remove(&mut self.by_connection, &left, &key);
        }
        if !is_new {
            return;
        }
        let keys = self.by_connection.entry(connection).or_default();
        keys.push(key);
        let left = (keys.len() > KEYS_OF_CONNECTION).then(|| keys.remove(0));
        if let Some(left) = left {
            Self::remove(&mut self.by_key, &left, &connection);
        }
    }

    /// `connection` is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        for key in self.by_connection.remove(&connection).unwrap_or_default() {
            Self::remove(&mut self.by_key, &key, &connection);
        }
    }

    fn remove<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, Vec<V>>, key: &K, value: &V) {
        if let Some(values) = map.get_mut(key) {
            values.retain(|known| known != value);
            if values.is_empty() {
                map.remove(key);
            }
        }
    }

    /// How many pairs of key and connection are held, either way round.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.by_key.values().map(Vec::len).sum(), self.by_connection.values().map(Vec::len).sum())
    }
}
