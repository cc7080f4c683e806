//! One connection to a replica: made, used, lost and made again.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use quorate_core::ReplicaId;
use quorate_core::client::message::{MAX_REPLY_BYTES, Response};
use quorate_core::frame::SharedFrame;
use quorate_core::wire::Decode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep};

/// A connection's byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection being made.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Makes connections to replicas.
pub trait Dial: Send + Sync {
    /// Connects to a replica, and makes sure that it is that replica.
    fn dial(&self, replica: ReplicaId) -> DialFuture;
}

/// Most bytes waiting to be written to one replica. One that takes in nothing is left, and told
/// everything it needs when it is back.
const WRITE_BACKLOG_BYTES: usize = 64 << 20;
/// Most bytes of a response: its kind, its numbers and its replies.
const MAX_RESPONSE_BYTES: usize = MAX_REPLY_BYTES + 64;
/// Room for reading, at least.
const READ_BYTES: usize = 64 << 10;
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const REDIAL_LEAST: Duration = Duration::from_millis(50);
const REDIAL_MOST: Duration = Duration::from_secs(2);

/// What a link has to tell.
pub(super) enum News {
    Connected,
    Disconnected,
    Response(Response),
}

/// The connection to one replica.
pub(super) struct Link {
    replica: ReplicaId,
    state: State,
    /// Ends a dial, or the pause before one.
    timer: Pin<Box<Sleep>>,
    redial_after: Duration,
}

enum State {
    Pausing,
    Dialling(DialFuture),
    Up(Connection),
}

struct Connection {
    stream: Box<dyn Stream>,
    incoming: BytesMut,
    outgoing: VecDeque<Bytes>,
    outgoing_bytes: usize,
    flushed: bool,
}

impl Link {
    pub(super) fn new(replica: ReplicaId) -> Self {
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { replica, state: State::Pausing, timer, redial_after: REDIAL_LEAST }
    }

    /// Goes on with making the connection or reading from it. `Pending` if there is no news.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, dial: &dyn Dial) -> Poll<News> {
        loop {
            match &mut self.state {
                State::Pausing => {
                    ready!(self.timer.as_mut().poll(cx));
                    self.timer.as_mut().reset(Instant::now() + DIAL_TIMEOUT);
                    self.state = State::Dialling(dial.dial(self.replica));
                }
                State::Dialling(dialling) => match dialling.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => {
                        self.state = State::Up(Connection::new(stream));
                        return Poll::Ready(News::Connected);
                    }
                    Poll::Ready(Err(_)) => self.pause(),
                    Poll::Pending => {
                        ready!(self.timer.as_mut().poll(cx));
                        self.pause();
                    }
                },
                State::Up(connection) => match ready!(connection.poll_response(cx)) {
                    Ok(response) => {
                        self.redial_after = REDIAL_LEAST;
                        return Poll::Ready(News::Response(response));
                    }
                    Err(_) => {
                        self.pause();
                        return Poll::Ready(News::Disconnected);
                    }
                },
            }
        }
    }

    /// Puts a frame behind what is to be written. The frame's bytes are shared, not copied.
    pub(super) fn send(&mut self, header: &Bytes, frame: &SharedFrame) {
        let State::Up(connection) = &mut self.state else { return };
        let body = frame.encoded_bytes();
        connection.outgoing_bytes += header.len() + body.len();
        connection.outgoing.extend([header.clone(), body.clone()]);
        connection.flushed = false;
    }

    /// Writes what can be written. `Ready` if the connection was lost over it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Up(connection) = &mut self.state else { return Poll::Pending };
        let lost = match connection.poll_write_out(cx) {
            Poll::Ready(result) => result.is_err(),
            Poll::Pending => connection.outgoing_bytes > WRITE_BACKLOG_BYTES,
        };
        if lost {
            self.pause();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn pause(&mut self) {
        self.state = State::Pausing;
        self.timer.as_mut().reset(Instant::now() + self.redial_after);
        self.redial_after = (self.redial_after * 2).min(REDIAL_MOST);
    }
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            incoming: BytesMut::new(),
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            flushed: true,
        }
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Response>> {
        loop {
            if let Some(message) = self.next_message()? {
                let response = Response::from_bytes(message);
                return Poll::Ready(response.map_err(io::Error::other));
            }
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The next whole message: its length is in front of it (u32, little-endian). Empty ones only
    /// show that the connection is alive.
    fn next_message(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(length) = self.incoming.first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MAX_RESPONSE_BYTES {
                let cap = MAX_RESPONSE_BYTES;
                let text = format!("response of {length} bytes, above the cap of {cap}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if self.incoming.len() < 4 + length {
                return Ok(None);
            }
            self.incoming.advance(4);
            if length > 0 {
                return Ok(Some(self.incoming.split_to(length).freeze()));
            }
        }
        Ok(None)
    }

    /// Reads once. The buffer grows with what has come, not with what was announced.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.incoming.capacity() - self.incoming.len() < READ_BYTES / 4 {
            self.incoming.reserve(READ_BYTES.max(self.incoming.len()));
        }
        pin!(self.stream.read_buf(&mut self.incoming)).poll(cx)
    }

    /// Writes everything out. `Ready(Ok)` when nothing is left.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            for (slice, bytes) in slices.iter_mut().zip(&self.outgoing) {
                *slice = IoSlice::new(bytes);
            }
            let used = self.outgoing.len().min(slices.len());
            let stream = Pin::new(&mut self.stream);
            let written = ready!(stream.poll_write_vectored(cx, &slices[..used]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written(written);
        }
        if !self.flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn written(&mut self, mut bytes: usize) {
        self.outgoing_bytes -= bytes;
        while let Some(front) = self.outgoing.front_mut() {
            if bytes < front.len() {
                return front.advance(bytes);
            }
            bytes -= front.len();
            self.outgoing.pop_front();
        }
    }
}
