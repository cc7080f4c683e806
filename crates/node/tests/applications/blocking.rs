//! Calls that do not return.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quorate_core::client::message::Response;
use quorate_core::ledger::execution::command_digest;
use quorate_node::http::{ask, ask_json};

use crate::{DEADLINE, World, answer, ask as ask_replica, status, submit, until, warnings};

/// One replica's application hangs at a command: the others go on, and that replica names command
/// and block, until the call returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_takes_for_ever_is_named_and_the_others_go_on() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let (well, hangs) = (world.serve(0, &replicas[0]).await, world.serve(3, &replicas[3]).await);
    let client = world.client().await;
    submit(&client, b"one").await;
    submit(&client, b"block").await;
    until("the last replica hangs", || world.gate.waiting.load(Ordering::Relaxed) == 1).await;
    for _ in 0..20 {
        submit(&client, b"another").await;
    }
    let began = std::time::Instant::now();
    let said = loop {
        let warnings = warnings(&hangs).await;
        if let Some((_, said)) = warnings.iter().find(|(name, _)| name == "application-blocks") {
            break said.clone();
        }
        assert!(began.elapsed() < DEADLINE, "{warnings:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let command = format!("now at command 2 of session 1, digest {}", command_digest(b"block"));
    assert!(said.contains("the application `kv` has been executing the block at height"), "{said}");
    assert!(said.contains(&command), "{said}");
    let not_ready = status(&hangs).await["not_ready"].as_str().unwrap().to_owned();
    assert!(not_ready.contains(&command), "{not_ready}");
    let metrics = {
        let address = hangs.clone();
        tokio::task::spawn_blocking(move || ask(&address, "/metrics", DEADLINE)).await
    };
    let metrics = metrics.unwrap().unwrap().body;
    assert!(metrics.contains("quorate_warning{name=\"application-blocks\"} 1"), "{metrics}");
    assert!(!metrics.contains("quorate_application_busy_seconds 0\n"), "{metrics}");
    assert_eq!(status(&well).await["ready"], true);
    assert_eq!(of_application(&well).await, [""; 0], "the views that it lost may be told");

    world.gate.open();
    // An idle cluster is silent: a replica that is behind learns of it from the next block.
    let executed = |replica: usize| replicas[replica].metrics().committed_commands_total.get();
    let began = std::time::Instant::now();
    while executed(3) < executed(0) {
        assert!(began.elapsed() < DEADLINE, "{} of {}", executed(3), executed(0));
        submit(&client, b"another").await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    until_well(&hangs).await;
    assert_eq!(of_application(&hangs).await, [""; 0]);
}

/// Views pass until the replica is ready again.
async fn until_well(address: &str) {
    let began = std::time::Instant::now();
    while status(address).await["ready"] != true {
        assert!(began.elapsed() < DEADLINE, "{}", status(address).await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The warnings of an application.
async fn of_application(address: &str) -> Vec<String> {
    let names = warnings(address).await.into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with("application")).collect()
}

/// A question that is answered beside the deciding thread holds up other questions alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_takes_for_ever_is_named() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let address = world.serve(0, &replicas[0]).await;
    let client = Arc::new(world.client().await);
    submit(&client, b"one").await;
    let (send, mut receive) = world.stranger().await;
    ask_replica(&send, 1, b"wait");
    until("it is asked", || world.gate.waiting.load(Ordering::Relaxed) == 1).await;
    let watch = &replicas[0].metrics().watch;
    until("it has lasted", || watch.any_lasting().is_some()).await;
    let status = tokio::task::spawn_blocking(move || ask_json(&address, "/status", DEADLINE));
    let status = status.await.unwrap().unwrap();
    assert_eq!(
        (&status["ready"], &status["warnings"][0]["name"]),
        (&true.into(), &"application-slow".into())
    );
    let said = status["warnings"][0]["what"].as_str().unwrap();
    assert!(said.contains("the application `kv` has been answering a question for"), "{said}");
    world.gate.open();
    assert!(matches!(answer(&mut receive).await, Response::Answer { id: 1, .. }));
    until("it is over", || watch.any_lasting().is_none()).await;
}
