//! The closed loop: an answer makes room for the next frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use quorate_core::client::{ClientError, Packed};
use quorate_node::client::Client;

use super::Bench;
use super::record::{Record, Verdict};

/// Puts `outstanding` frames of each session on their way; each is followed by another until the
/// bench stops.
pub(super) fn start(bench: &Arc<Bench>, clients: &[Client], outstanding: usize) {
    for client in clients {
        for _ in 0..outstanding {
            submit(bench.clone(), client.clone());
        }
    }
}

fn submit(bench: Arc<Bench>, client: Client) {
    let turn = bench.next_turn();
    let batch = bench.workload.commands(turn, bench.workload.batch_commands());
    bench.record().submitted(bench.workload.batch_commands() as u64);
    bench.under_way.fetch_add(1, Ordering::Relaxed);
    let submitted = Instant::now();
    let next = client.clone();
    let by_index = bench.workload.is_read_by_index(&batch);
    let done = move |result: Result<Packed, ClientError>| {
        let goes_on = finish(&bench, turn, submitted, &result);
        bench.under_way.fetch_sub(1, Ordering::Relaxed);
        if goes_on {
            submit(bench, next);
        }
    };
    if !by_index {
        return client.submit_then(batch, None, done);
    }
    let orders = client.clone();
    client.read_then(batch.clone(), None, move |result| match result {
        Ok(answers) => done(Ok(answers)),
        // As the gateway does.
        Err(_) => orders.submit_then(batch, None, done),
    });
}

/// Counts a finished batch. Whether another is to follow.
fn finish(
    bench: &Bench,
    turn: usize,
    submitted: Instant,
    result: &Result<Packed, ClientError>,
) -> bool {
    let now = Instant::now();
    let verdict = bench.verdict(turn, result);
    let count = bench.workload.batch_commands() as u64;
    settle(&mut bench.record(), submitted, now, (count, verdict));
    // A session that ended takes nothing more.
    let ended = matches!(result, Err(ClientError::Fatal(_) | ClientError::Retryable(_)));
    !ended && !bench.stop.load(Ordering::Relaxed)
}

/// Counts a batch of `count` commands that was submitted then and came to an end now. What was
/// submitted before measuring began counts as well: in a closed loop there is always something
/// under way.
fn settle(record: &mut Record, submitted: Instant, now: Instant, (count, verdict): (u64, Verdict)) {
    record.finished(now, count, verdict);
    if record.is_measuring() && verdict == Verdict::Right {
        record.latency(submitted, now, count);
    }
}

#[cfg(test)]
mod tests;
