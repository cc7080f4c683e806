//! Replies, answers and snapshots that are too long.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::client::message::{Response, Unproven};
use quorate_core::ledger::execution::command_digest;
use quorate_node::client::QueryError;
use quorate_node::replica::Running;
use quorate_node::replica::decide::End;

use crate::{DEADLINE, World, answer, ask, status, submit, until, until_warned, warnings};

/// Why each replica ended: its application.
fn faults(replicas: Vec<Running>) -> Vec<String> {
    let fault = |replica: Running| match replica.join() {
        End::Application(reason) => reason,
        other => panic!("{other:?}"),
    };
    replicas.into_iter().map(fault).collect()
}

/// As a command at which the application panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_too_long_is_named_and_its_command_can_be_skipped() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let client = Arc::new(world.client().await);
    submit(&client, b"one").await;
    let waits = Arc::clone(&client);
    let long = tokio::spawn(async move { submit(&waits, b"long").await });
    until("all have ended", || replicas.iter().all(Running::has_ended)).await;
    let named = format!("command 2 of session 1, digest {}", command_digest(b"long"));
    for said in faults(replicas) {
        assert!(said.starts_with("application `kv`: "), "{said}");
        assert!(said.contains("gave a reply of 8388609 bytes") && said.contains(&named), "{said}");
    }
    let replicas = world.start_all(&[b"long"]).await;
    assert_eq!(long.await.unwrap(), Bytes::new());
    assert_eq!(submit(&client, b"two").await, "done");
    assert!(replicas.iter().all(|replica| !replica.has_ended()));
}

/// The client alone is refused, as by an application that panics on its question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_long_is_refused_and_told() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let address = world.serve(0, &replicas[0]).await;
    let client = world.client().await;
    submit(&client, b"one").await;
    let (send, mut receive) = world.stranger().await;
    ask(&send, 1, b"long");
    let refused = Response::Unproven { id: 1, reason: Unproven::Unavailable };
    assert_eq!(answer(&mut receive).await, refused);
    ask(&send, 2, b"how many?");
    assert!(matches!(answer(&mut receive).await, Response::Answer { id: 2, .. }));
    let refused = client.query(Bytes::from_static(b"long")).await.unwrap_err();
    assert!(matches!(refused, QueryError::TooFew { answered: 0, .. }), "{refused}");
    let told = warnings(&address).await;
    let bad = told.iter().find(|(name, _)| name == "bad-answers");
    let Some((_, said)) = bad else { panic!("{told:?}") };
    assert!(said.contains("panicked on 0 questions, and gave"), "{said}");
    assert_eq!(submit(&client, b"two").await, "done");
}

/// A snapshot that no replica could take over stops the replica that was to write it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_breaks_the_contract_is_named() {
    for (command, expected) in [
        (&b"fat"[..], "a chunk of the application's snapshot has 2097153 bytes, more than 2097152"),
        (b"brittle", "the application `kv` panicked, handing out a chunk of a snapshot: "),
    ] {
        let world = World { snapshot_every: Some(3), ..World::new() };
        let replicas = world.start_all(&[]).await;
        let client = world.client().await;
        let submitting = tokio::spawn(async move {
            submit(&client, command).await;
            loop {
                submit(&client, b"another").await;
            }
        });
        // Two that have ended leave no quorum: the others may not come to a snapshot.
        let ended = |replica: &&Running| replica.has_ended();
        until("two have ended", || replicas.iter().filter(ended).count() > 1).await;
        submitting.abort();
        for said in faults(replicas.into_iter().filter(Running::has_ended).collect()) {
            assert!(said.contains("application `kv`") && said.contains(expected), "{said}");
        }
    }
}

/// The state nears its limit, and its snapshots theirs: each is told until it is not so any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_and_a_snapshot_near_their_limits_are_told() {
    let limits = World { snapshot_every: Some(3), max_snapshot_bytes: Some(100), ..World::new() };
    let replicas = limits.start_all(&[]).await;
    let address = limits.serve(0, &replicas[0]).await;
    let client = limits.client().await;
    submit(&client, b"one").await;
    let full = async || warnings(&address).await.iter().any(|(name, _)| name == "state-full");
    assert!(!full().await);
    submit(&client, b"full").await;
    until_warned(&address, &["state-full"]).await;
    let began = Instant::now();
    while replicas[0].metrics().snapshot_bytes.get() == 0 {
        assert!(began.elapsed() < DEADLINE, "no snapshot is written");
        submit(&client, b"another").await;
    }
    until_warned(&address, &["state-full", "snapshot-large"]).await;
    submit(&client, b"empty").await;
    while full().await {
        assert!(began.elapsed() < DEADLINE, "it is not full any more");
        submit(&client, b"another").await;
    }
}

/// How large the state has grown is told, also by a process that has not written it itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_the_last_snapshot_is_told() {
    let world = World { snapshot_every: Some(3), ..World::new() };
    let mut replicas = world.start_all(&[]).await;
    let client = world.client().await;
    let written = |replica: &Running| replica.metrics().snapshot_bytes.get();
    while replicas[..2].iter().any(|replica| written(replica) == 0) {
        submit(&client, b"another").await;
    }
    let address = world.serve(1, &replicas[1]).await;
    let state = &status(&address).await["state"];
    assert!(state["snapshot_bytes"].as_u64() > Some(100), "{state}");
    assert_eq!(state["snapshot_limit_bytes"], world.testnet.cluster.limits.max_snapshot_bytes);
    let first = replicas.remove(0);
    first.stop();
    let size = written(&first);
    let ended = tokio::task::spawn_blocking(move || first.join());
    assert_eq!(ended.await.unwrap(), End::Stopped);
    let again = world.start(0, &[]).await;
    // Another may have been written while it stopped.
    assert!(written(&again) >= size, "{} and {size}", written(&again));
}
