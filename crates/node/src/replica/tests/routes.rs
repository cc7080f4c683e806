use quorate_core::base::crypto::PublicKey;
use quorate_transport::ConnectionId;

use crate::replica::routes::Routes;

fn key(number: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    PublicKey(bytes)
}

#[test]
fn one_connection_cannot_bring_keys_without_end() {
    let mut routes = Routes::default();
    for number in 0..10_000 {
        routes.learn(key(number), ConnectionId(1), || false);
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
        routes.learn(key(1), ConnectionId(number), || false);
    }
    let latest: Vec<ConnectionId> = (996..1000).map(ConnectionId).collect();
    assert_eq!(routes.of(&key(1)), latest);
    assert_eq!(routes.len(), (4, 4));
    routes.learn(key(1), ConnectionId(997), || false);
    assert_eq!(routes.of(&key(1)).last(), Some(&ConnectionId(997)));
    assert_eq!(routes.len(), (4, 4));
    for number in 0..1000 {
        routes.forget(ConnectionId(number));
    }
    assert_eq!(routes.len(), (0, 0));
}

/// Old frames are there for everybody to pull: sent again, they must not take a client's answers
/// away.
#[test]
fn frames_that_are_settled_take_no_route_away() {
    let mut routes = Routes::default();
    routes.learn(key(1), ConnectionId(0), || false);
    for number in 1..1000 {
        routes.learn(key(1), ConnectionId(number), || true);
        assert!(routes.of(&key(1)).contains(&ConnectionId(0)));
        assert!(routes.of(&key(1)).contains(&ConnectionId(number)), "it is answered too");
    }
    assert_eq!(routes.len(), (3, 3));
    // One that repeated itself and goes on is as good as any.
    routes.learn(key(1), ConnectionId(999), || false);
    for number in 1000..1010 {
        routes.learn(key(1), ConnectionId(number), || true);
    }
    assert!(routes.of(&key(1)).ends_with(&[ConnectionId(0), ConnectionId(999)]));
    // And is not made less by repeating itself once more.
    routes.learn(key(1), ConnectionId(0), || true);
    assert!(routes.of(&key(1)).contains(&ConnectionId(0)));
    for number in 0..1010 {
        routes.forget(ConnectionId(number));
    }
    assert_eq!(routes.len(), (0, 0));
}
