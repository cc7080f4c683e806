//! What a node tells over HTTP: `/livez`, `/readyz`, `/metrics`, `/status`, and `/why/ID`: why a
//! transaction is still pending.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorate_node::http::{VERSION, serve_router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Asker, Deed, Shared};
use crate::network::read_digest;
use crate::transaction::TransactionId;

/// How long the deciding thread may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Told = (Arc<Shared>, SyncSender<Deed>);

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, deeds: SyncSender<Deed>) {
    let counters = Arc::clone(&shared.counters);
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/why/{id}", get(why))
        .with_state((shared, deeds));
    serve_router(listener, router, &counters).await;
}

fn json_response(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

async fn ready(State((shared, _)): State<Told>) -> Response {
    match shared.metrics.ready.load(Ordering::Relaxed) {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "not ready: catching up\n").into_response(),
        _ => "ok\n".into_response(),
    }
}

async fn metrics(State((shared, _)): State<Told>) -> Response {
    let text = shared.metrics.text(&shared.counters.all());
    ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
}

async fn status(State((shared, _)): State<Told>) -> Response {
    let connected: Vec<u16> = shared.peers.connected().iter().map(|peer| peer.0).collect();
    let meta = shared.view.meta().ok().flatten();
    json_response(&json!({
        "node": shared.me.0,
        "network": shared.network.name,
        "chain": shared.chain.to_string(),
        "nodes": shared.network.nodes.len(),
        "version": VERSION,
        "process": std::process::id(),
        "ready": shared.metrics.ready.load(Ordering::Relaxed) != 0,
        "peers": connected,
        "accepted": meta.map(|meta| meta.accepted),
        "sum": meta.map(|meta| meta.sum.map(|part| format!("{part:016x}")).concat()),
        "numbers": shared.metrics.json(),
    }))
}

async fn why(State((_, deeds)): State<Told>, Path(id): Path<String>) -> Response {
    let Some(id) = read_digest(&id) else {
        let text = "a transaction's id has 64 hexadecimal digits\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let (sender, answer) = oneshot::channel();
    if deeds.try_send(Deed::Why(TransactionId(id), Asker::Reader(sender))).is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "busy: ask again\n").into_response();
    }
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(known)) => json_response(&json!({ "state": known.state, "why": known.why })),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "busy: ask again\n").into_response(),
    }
}
