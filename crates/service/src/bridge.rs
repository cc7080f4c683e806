//! A bridge for programs in any language: HTTP with JSON, over TCP or a Unix socket.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /submit` | `{"commands": [TEXT, ...]}` | `{"replies": [TEXT, ...]}`: ordered, executed once, in this order; f + 1 replicas gave these replies |
//! | `POST /query` | `{"question": TEXT}` | `{"answer": TEXT}`: f + 1 replicas gave it, from a state that may be old |
//! | `GET /status` | | `{"session": ..., "replicas": [...]}` |
//!
//! Bytes that are no text are hexadecimal, in `commands_hex`, `question_hex`; every answer has
//! `replies_hex` or `answer_hex` too, and `null` for texts that are none. An error is
//! `{"error": TEXT, "class": CLASS}`: *request* (mend it), *retryable* (not executed; send it
//! again), *ambiguous* (perhaps executed) or *fatal* (nothing of this bridge will be executed any
//! more; it ends).
//!
//! The bridge authenticates nobody. It listens on loopback, or on a socket that only its owner may
//! open, and refuses requests of a browser's page. All that a client may take is
//! bounded ([`Limits`]): connections, the time for a request and for its answer, and the length of
//! a body. A client beyond them is refused or cut off.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use quorate_core::client::{ClientError, NotExecuted};
use quorate_node::client::{Client, QueryError, State as Session};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pause after the system refused to accept: mostly, no file descriptors are left.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Commands of a request at most: each costs more memory than its bytes.
const MOST_COMMANDS: usize = 1 << 16;
/// Bytes of a request's head at most.
const HEAD_BYTES: usize = 64 << 10;

/// What clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more are closed.
    pub connections: usize,
    /// Time for a request's head, counted from the connection's or the last answer's moment.
    pub head_within: Duration,
    /// Time for its body.
    pub body_within: Duration,
    /// Bytes of its body.
    pub body_bytes: usize,
    /// How long a connection lives.
    pub life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            head_within: Duration::from_secs(30),
            body_within: Duration::from_secs(10),
            body_bytes: 4 << 20,
            life: Duration::from_secs(600),
        }
    }
}

/// Where a bridge listens.
pub enum Door {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Both directions of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Door {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

struct Bridge {
    client: Client,
    limits: Limits,
}

/// Serves `door` with `client` until `stop` completes; then connections have a second to end.
pub async fn serve(door: Door, client: Client, limits: Limits, stop: impl Future<Output = ()>) {
    let router = Router::new()
        .route("/submit", post(submit))
        .route("/query", post(query))
        .route("/status", get(status))
        .with_state(Arc::new(Bridge { client, limits }));
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = door.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        let Ok(stream) = accepted else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        // Without a place the connection is closed at once.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let _place = place;
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_within)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off or takes too long is its own concern.
            let _ = tokio::time::timeout(limits.life, connection).await;
        });
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
}

/// Why a request has no answer, as it is told.
struct Trouble {
    status: StatusCode,
    class: &'static str,
    what: String,
}

impl Trouble {
    fn request(status: StatusCode, what: impl Into<String>) -> Self {
        Self { status, class: "request", what: what.into() }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        let (status, class) = match error {
            ClientError::Retryable(NotExecuted::DoesNotFit) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "request")
            }
            ClientError::Retryable(_) => (StatusCode::SERVICE_UNAVAILABLE, "retryable"),
            ClientError::Ambiguous(_) => (StatusCode::GATEWAY_TIMEOUT, "ambiguous"),
            ClientError::Fatal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "fatal"),
        };
        Self { status, class, what: error.to_string() }
    }
}

impl From<QueryError> for Trouble {
    fn from(error: QueryError) -> Self {
        let (status, class) = match error {
            QueryError::TooLong(_) => (StatusCode::PAYLOAD_TOO_LARGE, "request"),
            QueryError::Unequal { .. } | QueryError::TooFew { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "retryable")
            }
        };
        Self { status, class, what: error.to_string() }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.what, "class": self.class });
        (self.status, as_json(&body)).into_response()
    }
}

fn as_json(value: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value}\n"))
}

async fn submit(State(bridge): State<Arc<Bridge>>, request: Request) -> Result<Response, Trouble> {
    let mut body = object(request, &bridge.limits).await?;
    let is_long = |list: &Value| list.as_array().is_some_and(|list| list.len() > MOST_COMMANDS);
    if body.values().any(is_long) {
        let what = format!("a request has at most {MOST_COMMANDS} commands");
        return Err(Trouble::request(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    let commands = match (body.remove("commands"), body.remove("commands_hex")) {
        (Some(Value::Array(texts)), None) => texts.into_iter().map(text).collect(),
        (None, Some(Value::Array(texts))) => texts.into_iter().map(unhex).collect(),
        _ => None,
    };
    let commands: Vec<Bytes> = commands.filter(|_| body.is_empty()).ok_or_else(|| {
        let what = "expected {\"commands\": [TEXT, ...]} or {\"commands_hex\": [HEX, ...]}";
        Trouble::request(StatusCode::BAD_REQUEST, what)
    })?;
    let replies = bridge.client.submit(commands).await?;
    let texts: Vec<Value> = replies.iter().map(|reply| shown(reply)).collect();
    let hexes: Vec<Value> = replies.iter().map(|reply| hex(reply).into()).collect();
    Ok(as_json(&json!({ "replies": texts, "replies_hex": hexes })).into_response())
}

async fn query(State(bridge): State<Arc<Bridge>>, request: Request) -> Result<Response, Trouble> {
    let mut body = object(request, &bridge.limits).await?;
    let question = match (body.remove("question"), body.remove("question_hex")) {
        (Some(question), None) => text(question),
        (None, Some(question)) => unhex(question),
        _ => None,
    };
    let question = question.filter(|_| body.is_empty()).ok_or_else(|| {
        let what = "expected {\"question\": TEXT} or {\"question_hex\": HEX}";
        Trouble::request(StatusCode::BAD_REQUEST, what)
    })?;
    let answer = bridge.client.query(question).await?;
    let told = json!({ "answer": shown(&answer), "answer_hex": hex(&answer) });
    Ok(as_json(&told).into_response())
}

async fn status(State(bridge): State<Arc<Bridge>>) -> Result<Response, Infallible> {
    let session = match bridge.client.state() {
        Session::Opening => json!("opening"),
        Session::Open(session) => json!(session.0),
        Session::Ended(fatal) => json!(fatal.to_string()),
    };
    let contacts = bridge.client.contacts();
    let replicas: Vec<Value> = contacts
        .iter()
        .map(|contact| json!({ "outcomes": contact.heard, "trouble": contact.trouble }))
        .collect();
    Ok(as_json(&json!({ "session": session, "replicas": replicas })).into_response())
}

/// The JSON object that a request's body is. Browsers say where a page comes from; a page must not
/// submit commands on its reader's machine.
async fn object(request: Request, limits: &Limits) -> Result<Map<String, Value>, Trouble> {
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        let what = "a browser's page sent this, and pages may not use the bridge";
        return Err(Trouble::request(StatusCode::FORBIDDEN, what));
    }
    let body = to_bytes(request.into_body(), limits.body_bytes);
    let body = match tokio::time::timeout(limits.body_within, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let what = format!("{error}; at most {} bytes are taken", limits.body_bytes);
            return Err(Trouble::request(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        Err(_) => {
            let what = "the request did not come whole in time";
            return Err(Trouble::request(StatusCode::REQUEST_TIMEOUT, what));
        }
    };
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Trouble::request(StatusCode::BAD_REQUEST, "the body is no JSON object")),
        Err(error) => {
            let what = format!("the body is no JSON: {error}");
            Err(Trouble::request(StatusCode::BAD_REQUEST, what))
        }
    }
}

fn text(value: Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(text.into()),
        _ => None,
    }
}

fn unhex(value: Value) -> Option<Bytes> {
    let (pairs, odd) = value.as_str()?.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.filter(|_| odd.is_empty()).map(Bytes::from)
}

fn shown(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Null, Into::into)
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'))
        .collect()
}
