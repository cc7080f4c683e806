//! `/watch`: what committed commands change, as server-sent events, while it changes.
//!
//! The reader believes this replica; `quorate watch` believes none. Each event is a change as
//! [JSON](crate::watching), under the id `HEIGHT-INDEX`; an id that is a height alone, without an
//! event, says how far the stream is. A reader that comes back with its last id (`Last-Event-ID`,
//! as browsers and libraries send it) goes on behind it.
//!
//! # What a stream may cost
//! There are [`STREAMS`] at once, and [`STREAMS_OF_ADDRESS`] of one address, so that no one reader
//! keeps all others away. One reads the lists that the application keeps anyway, and makes
//! events of them as its reader takes them, in pieces of about [`PIECE_BYTES`], or of one value
//! where that is longer. One piece waits and one is written at most. A reader that takes nothing
//! for [`STALLS`] is left. One that is so slow that the lists are gone is told so by an event
//! `gone`, which is the last.

mod seats;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use quorate_app::kv::feed::{Feed, Found, changes};
use quorate_core::Height;
use quorate_transport::places::Network;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use self::seats::{Full, Seat, Seats};
use super::Facts;
use super::access::Shown;
use crate::watching::Json;

/// Streams at once, in all and of one address.
const STREAMS: usize = 8;
const STREAMS_OF_ADDRESS: usize = 4;
/// Events are sent in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Changes that are looked at before other tasks have their turn.
const LOOKED_AT: usize = 256;
/// A stream without events says how far it is after this.
const QUIET: Duration = Duration::from_secs(15);
/// How long a reader may take nothing.
const STALLS: Duration = Duration::from_secs(60);

/// Where changes are read, and who reads them.
pub(super) struct Watching {
    feed: Arc<Feed>,
    news: watch::Sender<()>,
    seats: Seats,
}

impl Watching {
    pub(super) fn of(feed: &Arc<Feed>) -> Self {
        let news = watch::Sender::new(());
        let rings = news.clone();
        feed.subscribe(move || rings.send_replace(()));
        Self { feed: Arc::clone(feed), news, seats: Seats::default() }
    }
}

/// How many streams a connection has open: it may live on while there is one.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<AtomicUsize>);

impl Open {
    pub(super) fn has_stream(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    fn stream(&self) -> Opened {
        self.0.fetch_add(1, Ordering::AcqRel);
        Opened(self.clone())
    }
}

struct Opened(Open);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// From where on to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    height: Height,
    /// Changes of that block that are known already.
    known: usize,
}

impl Point {
    /// The id of the last event before it, real or not: whoever comes back with it goes on here.
    fn id(self) -> String {
        match self.known.checked_sub(1) {
            None => self.height.0.saturating_sub(1).to_string(),
            Some(index) => format!("{}-{index}", self.height),
        }
    }
}

/// What a reader asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    prefix: Vec<u8>,
    from: Option<Point>,
}

/// `GET /watch?prefix=…&from=…`
pub(super) async fn stream(
    State(facts): State<Arc<Facts>>,
    (open, shown): (Option<Extension<Open>>, Option<Extension<Shown>>),
    Extension(network): Extension<Network>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let refuse = |code: StatusCode, why: &str| (code, format!("{why}\n")).into_response();
    let Some(watching) = &facts.watching else {
        return refuse(StatusCode::NOT_FOUND, "the application has no change feed");
    };
    // No page knows the token.
    if let Some(why) = is_of_a_page(&headers).filter(|_| shown.is_none()) {
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let wanted = match wanted(uri.query().unwrap_or_default(), &headers) {
        Ok(wanted) => wanted,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let seat = match watching.seats.take(network) {
        Ok(seat) => seat,
        Err(full) => {
            let code = match full {
                Full::All => StatusCode::SERVICE_UNAVAILABLE,
                Full::Address => StatusCode::TOO_MANY_REQUESTS,
            };
            return ([(header::RETRY_AFTER, "5")], refuse(code, &full.to_string())).into_response();
        }
    };
    let feed = Arc::clone(&watching.feed);
    let now = || Point { height: feed.through().next(), known: 0 };
    let from = wanted.from.unwrap_or_else(now);
    if let Found::Gone(oldest) = feed.next(from.height) {
        let gone = json!({ "from": from.height.0, "oldest": oldest.0, "remedy": REMEDY });
        return (StatusCode::GONE, super::json(&gone)).into_response();
    }
    let (sender, pieces) = mpsc::channel(1);
    let news = watching.news.subscribe();
    let opened = open.map(|Extension(open)| open.stream());
    let telling = Telling { feed, news, prefix: wanted.prefix, from, sender };
    tokio::spawn(telling.run((seat, opened)));
    let head = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (head, Body::new(Pieces(pieces))).into_response()
}

const REMEDY: &str =
    "read what you need, and watch from the height behind the one that you read at";

/// What to tell a browser's page. Pages of others may not read what is replicated: a browser says
/// where a page comes from, or the page has given this replica's address another name.
fn is_of_a_page(headers: &HeaderMap) -> Option<&'static str> {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if !accepts.unwrap_or_default().contains("text/event-stream") {
        // Images and scripts of a page cannot say so, and would take the places of others.
        return Some("say `Accept: text/event-stream`");
    }
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Some("a browser's page sent this, and pages may not watch");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let named = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let address: Result<IpAddr, _> = named.trim_matches(['[', ']']).parse();
    let is_known = address.is_ok() || named.is_empty() || named == "localhost";
    (!is_known).then_some("name this replica by its address: a page may have made up the name")
}

fn wanted(query: &str, headers: &HeaderMap) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let bad = || format!("`{name}={value}` cannot be read");
        let value = decoded(value).ok_or_else(bad)?;
        match name {
            "prefix" => wanted.prefix = value,
            "from" => {
                let height = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                let height = Height(height.ok_or_else(bad)?).max(Height(1));
                wanted.from = Some(Point { height, known: 0 });
            }
            _ => return Err(format!("`{name}` is not known: there are prefix and from")),
        }
    }
    if let Some(last) = headers.get("last-event-id") {
        let last = last.to_str().ok().and_then(behind);
        wanted.from = Some(last.ok_or("the Last-Event-ID is none of this feed's")?);
    }
    Ok(wanted)
}

/// Where a stream goes on behind this id.
fn behind(id: &str) -> Option<Point> {
    match id.split_once('-') {
        None => Some(Point { height: Height(id.parse().ok()?).next(), known: 0 }),
        Some((height, index)) => {
            let index: usize = index.parse().ok()?;
            Some(Point { height: Height(height.parse().ok()?), known: index.checked_add(1)? })
        }
    }
}

/// Undoes the percent-encoding of a query's value (RFC 3986, section 2.1; `+` is a space, as forms
/// send it).
fn decoded(value: &str) -> Option<Vec<u8>> {
    let mut bytes = value.bytes();
    let mut out = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (16 * digit()? + digit()?) as u8
            }
            b'+' => b' ',
            other => other,
        });
    }
    Some(out)
}

/// What is sent to a reader, as it takes it.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A stream at work.
struct Telling {
    feed: Arc<Feed>,
    news: watch::Receiver<()>,
    prefix: Vec<u8>,
    from: Point,
    sender: mpsc::Sender<Bytes>,
}

/// The reader has gone, or takes nothing.
struct Left;

impl Telling {
    /// Tells until the reader leaves. What it holds is let go of then.
    async fn run(mut self, _holds: (Seat, Option<Opened>)) {
        while self.go_on().await.is_ok() {}
    }

    async fn go_on(&mut self) -> Result<(), Left> {
        self.news.borrow_and_update();
        let Height(from) = self.from.height;
        match self.feed.next(Height(from)) {
            Found::Gone(oldest) => {
                let gone = json!({ "from": from, "oldest": oldest.0, "remedy": REMEDY });
                self.send(format!("event: gone\ndata: {gone}\n\n").into_bytes()).await?;
                Err(Left)
            }
            Found::Here((_, Some((height, list)))) => {
                let known = if height == self.from.height { self.from.known } else { 0 };
                self.tell(height, list, known).await?;
                self.from = Point { height: height.next(), known: 0 };
                Ok(())
            }
            Found::Here((through, None)) => {
                if through >= self.from.height {
                    self.from = Point { height: through.next(), known: 0 };
                }
                let quiet = tokio::time::sleep(QUIET);
                tokio::select! {
                    changed = self.news.changed() => changed.map_err(|_| Left),
                    () = quiet => self.send(format!("id: {}\n\n", self.from.id()).into_bytes()).await,
                    () = self.sender.closed() => Err(Left),
                }
            }
        }
    }

    /// Tells of the changes of a block but for the first ones, which are known.
    async fn tell(&self, height: Height, list: Bytes, known: usize) -> Result<(), Left> {
        let mut piece = Vec::new();
        // This replica made the list, so that it can be read.
        for (index, change) in changes(list).map_while(Result::ok).enumerate().skip(known) {
            if index % LOOKED_AT == 0 {
                tokio::task::yield_now().await;
                if self.sender.is_closed() {
                    return Err(Left);
                }
            }
            if !change.is_within(&self.prefix) {
                continue;
            }
            piece.extend_from_slice(format!("id: {height}-{index}\ndata: ").as_bytes());
            let mut json = Json::of(height, index, &change);
            while !json.write(&mut piece, PIECE_BYTES) {
                self.send(std::mem::take(&mut piece)).await?;
            }
            piece.extend_from_slice(b"\n\n");
            if piece.len() >= PIECE_BYTES {
                self.send(std::mem::take(&mut piece)).await?;
            }
        }
        if piece.is_empty() { Ok(()) } else { self.send(piece).await }
    }

    async fn send(&self, piece: Vec<u8>) -> Result<(), Left> {
        let sent = tokio::time::timeout(STALLS, self.sender.send(piece.into())).await;
        sent.map_err(|_| Left)?.map_err(|_| Left)
    }
}

#[cfg(test)]
mod tests {
    use quorate_app::kv::feed::{Bounds, Change};
    use quorate_core::base::wire::Encode as _;

    use super::*;

    fn asked(query: &str, headers: &[(&'static str, &str)]) -> Result<Wanted, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        wanted(query, &map)
    }

    #[test]
    fn a_query_says_what_is_watched_and_from_where() {
        assert_eq!(asked("", &[]), Ok(Wanted::default()));
        let from = |height, known| Some(Point { height: Height(height), known });
        let wanted = |prefix: &[u8], from| Ok(Wanted { prefix: prefix.to_vec(), from });
        assert_eq!(asked("prefix=a%2fb+c%ff&from=7", &[]), wanted(b"a/b c\xff", from(7, 0)));
        // The id of the last event counts, and what was told is not told again.
        assert_eq!(asked("from=1", &[("last-event-id", "9-2")]), wanted(b"", from(9, 3)));
        assert_eq!(asked("from=1", &[("last-event-id", "9")]), wanted(b"", from(10, 0)));
        for bad in ["from=x", "from=", "prefix=%4", "prefix=%zz", "other=1"] {
            assert!(asked(bad, &[]).is_err(), "{bad}");
        }
        for bad in ["", "-", "9-", "x", "9-18446744073709551615"] {
            assert!(asked("", &[("last-event-id", bad)]).is_err(), "{bad}");
        }
    }

    /// What a quiet stream says never sends its reader back, nor past a change.
    #[test]
    fn an_id_leads_to_where_the_stream_is() {
        for (height, known, id) in [(9, 3, "9-2"), (9, 1, "9-0"), (9, 0, "8"), (1, 0, "0")] {
            let point = Point { height: Height(height), known };
            assert_eq!(point.id(), id);
            assert_eq!(behind(id), Some(point));
        }
    }

    /// A long list of what a reader does not watch is not read to its end for nobody.
    #[tokio::test]
    async fn a_stream_ends_when_its_reader_has_left() {
        let mut list = Vec::new();
        Change::Removed { key: Bytes::from_static(b"key") }.encode(&mut list);
        let feed = Arc::new(Feed::new(Bounds::default()));
        let (sender, pieces) = mpsc::channel(1);
        let from = Point { height: Height(1), known: 0 };
        let news = watch::Sender::new(()).subscribe();
        let telling = Telling { feed, news, prefix: b"other".to_vec(), from, sender };
        assert!(telling.tell(Height(1), list.clone().into(), 0).await.is_ok());
        drop(pieces);
        assert!(telling.tell(Height(1), list.into(), 0).await.is_err());
    }

    #[test]
    fn pages_may_not_watch() {
        let refused = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            if name != "accept" {
                headers.insert("accept", "text/event-stream".parse().expect("a header"));
            }
            headers.insert(name, value.parse().expect("a header"));
            is_of_a_page(&headers).is_some()
        };
        // What images and scripts say.
        assert!(refused("accept", "*/*") && refused("accept", "image/avif,image/webp"));
        assert!(refused("origin", "http://127.0.0.1:80"));
        assert!(refused("sec-fetch-site", "same-origin"));
        // A name that a page's owner has given to this address.
        assert!(refused("host", "attacker.example:9000"));
        for host in ["127.0.0.1:9000", "[::1]:9000", "[::1]", "localhost:9000", "localhost"] {
            assert!(!refused("host", host), "{host}");
        }
    }
}
