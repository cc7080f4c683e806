//! `quorate snow serve`

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use clap::Args;
use quorate_node::http::serve_router;
use quorate_snow::page;
use quorate_transport::Counters;
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::local::runtime;
use crate::output::print;

/// Scripts, styles and the module come from the server itself; nothing else may be loaded.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' \
                      'unsafe-inline'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// How often the end is looked for.
const TICK: Duration = Duration::from_millis(100);

/// Serve the demonstration page until told to stop.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8790", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Runs `snow serve`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let refused = |error: std::io::Error| {
        let what = format!("{}: {error}", arguments.listen);
        Failure::io(what, Path::new("--listen"), "choose another address or port")
    };
    let (runtime, told) = runtime()?;
    let listener = runtime.block_on(TcpListener::bind(arguments.listen)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    print(&format!("http://{address}/\n"))?;
    let counters = Counters::default();
    runtime.block_on(async {
        tokio::select! {
            () = serve_router(listener, router(), &counters) => {}
            () = async {
                while !told.load(Ordering::Relaxed) {
                    tokio::time::sleep(TICK).await;
                }
            } => {}
        }
    });
    Ok(())
}

fn router() -> Router {
    let part = |kind: &'static str, body: Vec<u8>| {
        get(move || async move {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, POLICY),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
            ];
            (headers, body).into_response()
        })
    };
    Router::new()
        .route("/", part("text/html; charset=utf-8", page::html().into_bytes()))
        .route("/snow.css", part("text/css; charset=utf-8", page::style().into()))
        .route("/snow.js", part("text/javascript; charset=utf-8", page::script().into_bytes()))
        .route("/snow.wasm", part("application/wasm", page::MODULE.to_vec()))
}
