//! Tests of the versions that two sides agree on.

use proptest::prelude::*;

use super::super::hello::Met;
use super::super::unreached::Unreached;
use super::*;

fn versions(oldest: u16, newest: u16) -> Versions {
    Versions::new(oldest, newest).unwrap()
}

/// A hello of a program from before there were ranges.
pub(super) fn hello_without_range(version: u16) -> Vec<u8> {
    let ranged = Hello::of(CHAIN, Role::Client).encode().to_vec();
    [&ranged[..8], &version.to_le_bytes(), &ranged[12..]].concat()
}

#[test]
fn the_highest_common_version_is_spoken() {
    for (ours, theirs, agreed) in [
        ((3, 3), (3, 3), Some(3)),
        ((3, 5), (4, 9), Some(5)),
        ((3, 9), (4, 5), Some(5)),
        ((3, 5), (5, 8), Some(5)),
        ((3, 5), (6, 8), None),
        ((7, 8), (3, 5), None),
    ] {
        let (ours, theirs) = (versions(ours.0, ours.1), versions(theirs.0, theirs.1));
        assert_eq!(ours.common(theirs), agreed, "{ours} and {theirs}");
        assert_eq!(theirs.common(ours), agreed, "{theirs} and {ours}");
    }
}

#[test]
fn who_must_be_upgraded_is_named_with_both_ranges() {
    let refused = |ours, theirs| Refusal::Versions { theirs, ours }.to_string();
    assert_eq!(
        refused(versions(5, 6), versions(3, 4)),
        "speaks versions 3–4 of the protocol, and this one 5–6: upgrade it first"
    );
    assert_eq!(
        refused(versions(3, 4), versions(5, 6)),
        "speaks versions 5–6 of the protocol, and this one 3–4: upgrade this one first"
    );
    let ours = Hello::of(CHAIN, Role::Client);
    assert_eq!(
        ours.meet(hello_without_range(2).into()).unwrap_err().to_string(),
        "speaks versions 2–2 of the protocol, and this one 3–4: upgrade it first"
    );
}

/// What a program from before there were ranges reads of a hello: magic and one version.
#[test]
fn a_program_without_ranges_finds_another_version() {
    let hello = Hello { versions: versions(3, 7), ..Hello::of(CHAIN, Role::Client) }.encode();
    assert_eq!(&hello[..8], b"quorate\x01");
    assert_eq!(u16::from_le_bytes([hello[8], hello[9]]), 7);
}

#[test]
fn a_later_hello_may_say_more_and_a_known_one_may_not() {
    let ours = Hello { versions: versions(3, 5), ..Hello::of(CHAIN, Role::Client) };
    for (newest, is_read) in [(4, false), (5, false), (6, true)] {
        let theirs = Hello { versions: versions(4, newest), ..ours };
        let more = [&theirs.encode()[..], b"and more"].concat();
        let met = Ok(Met { role: Role::Client, version: newest.min(5) });
        assert_eq!(ours.meet(theirs.encode()), met);
        let expected = if is_read { met } else { Err(Refusal::Garbage) };
        assert_eq!(ours.meet(more.into()), expected, "newest {newest}");
    }
}

#[test]
fn ranges_that_are_none_are_garbage() {
    let ours = Hello::of(CHAIN, Role::Client);
    for (oldest, newest) in [(4, 3), (0, 3), (2, 3), (u16::MAX, 3)] {
        let mut hello = ours.encode().to_vec();
        hello[8..10].copy_from_slice(&u16::to_le_bytes(newest));
        hello[10..12].copy_from_slice(&u16::to_le_bytes(oldest));
        assert_eq!(ours.meet(hello.into()), Err(Refusal::Garbage), "{oldest}-{newest}");
    }
    for text in ["", "3", "3-", "-3", "4-3", "2-3", "3–4", "3-65536", "a-b"] {
        text.parse::<Versions>().unwrap_err();
    }
    assert_eq!("3-4".parse(), Ok(versions(3, 4)));
}

#[test]
fn there_is_one_hello_of_a_client() {
    let ours = Hello::of(CHAIN, Role::Client);
    let mut hello = ours.encode().to_vec();
    let met = Met { role: Role::Client, version: Versions::PROGRAM.newest() };
    assert_eq!(ours.meet(hello.clone().into()), Ok(met));
    *hello.last_mut().unwrap() = 1;
    assert_eq!(ours.meet(hello.into()), Err(Refusal::Garbage));
}

proptest! {
    /// Both sides come to the same version, or both refuse.
    #[test]
    fn both_sides_agree(ranges in prop::array::uniform2((3u16..20, 0u16..8))) {
        let [one, other] = ranges.map(|(oldest, more)| Hello {
            versions: versions(oldest, oldest + more),
            ..Hello::of(CHAIN, Role::Client)
        });
        let (here, there) = (one.meet(other.encode()), other.meet(one.encode()));
        prop_assert_eq!(here.map(|met| met.version).ok(), there.map(|met| met.version).ok());
        if let Ok(Met { version, .. }) = here {
            for range in [one.versions, other.versions] {
                prop_assert!((range.oldest()..=range.newest()).contains(&version));
            }
        }
    }
}

over_each_transport!(
    ranges_that_overlap_work_together,
    ranges_that_do_not_meet_are_refused,
    a_replica_is_upgraded_and_goes_back,
);

fn speaking(plan: &Plan, number: u8, versions: Versions) -> Node {
    plan.start_speaking(number, identity(number), CHAIN, versions)
}

async fn ranges_that_overlap_work_together(transport: TransportName) {
    let plan = Plan::new(transport, 3);
    let nodes = [(3, 3), (3, 4), (4, 6)].map(|(oldest, newest)| versions(oldest, newest));
    let mut nodes: Vec<Node> =
        (0..).zip(nodes).map(|(number, range)| speaking(&plan, number, range)).collect();
    until("one reaches both", || nodes[1].peers.connected().len() == 2).await;
    assert_eq!(nodes[1].peers.version(ReplicaId(0)), Some(3));
    assert_eq!(nodes[1].peers.version(ReplicaId(2)), Some(4));
    until("told", || nodes[2].peers.version(ReplicaId(1)) == Some(4)).await;
    until("counted", || value(&nodes[0].counters.wrong_version) > 0).await;
    assert_eq!(nodes[0].peers.version(ReplicaId(2)), None);
    nodes[1].peers.broadcast(&Bytes::from_static(b"to both"));
    for other in [0, 2] {
        let received = next(&mut nodes[other].inbound).await;
        assert_eq!(received, (ReplicaId(1), Bytes::from_static(b"to both")));
    }
    // What version 3 does not have goes to the others alone.
    nodes[1].peers.broadcast_since(4, &Bytes::from_static(b"since 4"));
    nodes[1].peers.broadcast_behind(&Bytes::from_static(b"at last"));
    for (other, text) in [(0, &b"at last"[..]), (2, b"since 4"), (2, b"at last")] {
        let received = next(&mut nodes[other].inbound).await;
        assert_eq!(received, (ReplicaId(1), Bytes::from_static(text)));
    }
}

async fn ranges_that_do_not_meet_are_refused(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let (old, new) = (speaking(&plan, 0, versions(3, 4)), speaking(&plan, 1, versions(5, 6)));
    for node in [&old, &new] {
        until("counted", || value(&node.counters.wrong_version) > 0).await;
        assert_eq!(value(&node.counters.opened), 0);
    }
}

/// A replica comes back with a wider range, and then with the one it had.
async fn a_replica_is_upgraded_and_goes_back(transport: TransportName) {
    let plan = Plan::new(transport, 2);
    let one = speaking(&plan, 1, versions(3, 4));
    for (range, agreed) in [((3, 3), 3), ((3, 4), 4), ((3, 3), 3)] {
        let mut zero = speaking(&plan, 0, versions(range.0, range.1));
        let before = value(&one.counters.opened);
        until("both know", || {
            zero.peers.version(ReplicaId(1)) == Some(agreed)
                && one.peers.version(ReplicaId(0)) == Some(agreed)
        })
        .await;
        assert!(value(&one.counters.opened) >= before);
        one.peers.send(ReplicaId(0), Bytes::from_static(b"hello"));
        assert_eq!(next(&mut zero.inbound).await, (ReplicaId(1), Bytes::from_static(b"hello")));
        zero.peers.close().await;
        until("gone", || !one.peers.is_connected(ReplicaId(0))).await;
    }
    assert_eq!(value(&one.counters.wrong_version), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_agrees_with_a_replica_or_is_told_why_not() {
    let (limits, key) = (Limits::clients(), identity(3).key());
    let newest = Versions::PROGRAM.newest();
    let wider = door_speaking(versions(newest, newest + 2), limits).await;
    let connection = connect(&wider.address.to_string(), key, CHAIN, limits).await.unwrap();
    assert_eq!(connection.version(), newest);
    let later = door_speaking(versions(newest + 1, newest + 2), limits).await;
    let refused = connect(&later.address.to_string(), key, CHAIN, limits).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("speaks versions 5–6 of the protocol, and this one 3–4"), "{refused}");
    assert!(refused.ends_with("upgrade this one first"), "{refused}");
    until("counted", || value(&later.counters.wrong_version) == 1).await;
}

#[test]
fn the_warning_names_both_ranges_and_who_is_behind() {
    let refusal = Refusal::Versions { theirs: versions(3, 4), ours: versions(5, 6) };
    let error = handshake::HandshakeError::Refused(refusal, None);
    assert_eq!(
        Unreached::new(ReplicaId(1), "host:7000", TransportName::Tcp).text(&error),
        "replica 1 at host:7000 is not reached: it speaks versions 3–4 of the protocol, and this one \
         5–6: upgrade it first; `quorate version` names the versions of a program, and \
         docs/operations.md, \"Upgrade\", the order"
    );
}
