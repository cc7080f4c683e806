use quorate_core::crypto::PublicKey;

use crate::replica::routes::Routes;
use crate::transport::ConnectionId;

fn key(number: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    PublicKey(bytes)
}

#[test]
fn one_connection_cannot_bring_keys_without_end() {
    let mut routes = Routes::default();
    for number in 0..10_000 {
        routes.learn(key(number), ConnectionId(1));
        assert_eq!(routes.of(&key(number)), [ConnectionId(1)]);
    }
    assert_eq!(routes.len(), (64, 64));
    assert!(routes.of(&key(0)).is_empty());
    routes.forget(ConnectionId(1));
    assert_eq!(routes.len(), (0, 0));
}

#[test]
fn one_key_cannot_be_on_connections_without_end() {
    let mut routes = Routes::default();
    for number in 0..1000 {
        routes.learn(key(1), ConnectionId(number));
    }
    let latest: Vec<ConnectionId> = (996..1000).map(ConnectionId).collect();
    assert_eq!(routes.of(&key(1)), latest);
    assert_eq!(routes.len(), (4, 4));
    routes.learn(key(1), ConnectionId(997));
    assert_eq!(routes.of(&key(1)).last(), Some(&ConnectionId(997)));
    assert_eq!(routes.len(), (4, 4));
    for number in 0..1000 {
        routes.forget(ConnectionId(number));
    }
    assert_eq!(routes.len(), (0, 0));
}
