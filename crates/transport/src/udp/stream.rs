//! A UDP connection: a socket, a [channel](Channel) on it, and an [exchange](Exchange) of messages
//! through the channel. Any poll drives it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use quorate_core::planted;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::super::Limits;
use super::super::carrier::{self, Stream as _};
use super::channel::{Certificate, Channel, Side, Yield};
use super::datagrams::{Burst, Datagrams, Received};
use super::door::{self, Secret, Session};
use super::exchange::Exchange;
use super::incoming::Misbehaved;
use super::outgoing::{FIRST_WINDOW_BYTES, LENGTH_BYTES};

/// While this many bytes are not acknowledged, no more are accepted.
const KEPT_BYTES: usize = 8 << 20;
/// The bytes that may be under way in addition to the longest message.
const WINDOW_BYTES: usize = 8 << 20;
/// The most bursts received before something is sent.
const BURSTS: usize = 32;
/// The most turns in a row.
const TURNS: usize = 4;
/// A session is believed to be gone only if nothing of it was heard for this long.
const GONE_AFTER: Duration = Duration::from_secs(1);
/// The pause when the system has no room for more datagrams.
const AFTER_FULL: Duration = Duration::from_millis(1);

/// The source of datagrams.
pub(super) enum Way {
    /// A socket of this connection's own. Sent datagrams have the prefix [`door::opening`] until
    /// the other side's first one has arrived.
    Own {
        datagrams: Arc<Datagrams>,
        address: SocketAddr,
        received: Box<Received>,
        opening: Vec<u8>,
    },
    /// A socket that other connections share.
    Shared(Session),
}

impl Way {
    fn target(&self) -> Target<'_> {
        match self {
            Self::Own { datagrams, address, opening, .. } => {
                Target { datagrams, address: *address, opening }
            }
            Self::Shared(session) => {
                Target { datagrams: &session.datagrams, address: session.address, opening: &[] }
            }
        }
    }
}

/// The destination of datagrams.
#[derive(Clone, Copy)]
struct Target<'a> {
    datagrams: &'a Datagrams,
    address: SocketAddr,
    /// The prefix of datagrams.
    opening: &'a [u8],
}

/// Sealed datagrams for the system, several in one call.
#[derive(Default)]
struct Outlet {
    bytes: Vec<u8>,
    /// The length of the first datagram; the last may be shorter.
    each: usize,
    /// The last datagram is shorter, so no other can follow it.
    is_closed: bool,
    /// The system has no room.
    is_full: bool,
}

impl Outlet {
    fn push(&mut self, target: Target<'_>, datagram: &[u8]) {
        if !target.opening.is_empty() {
            let datagram = [target.opening, datagram].concat();
            target.datagrams.send(target.address, &datagram, datagram.len());
            return;
        }
        let together = target.datagrams.together(self.each);
        let fits = datagram.len() <= self.each && self.bytes.len() < self.each * together;
        if self.is_closed || !fits {
            self.flush(target);
        }
        if self.is_full {
            // Treated as if the network had lost it.
            return;
        }
        if self.bytes.is_empty() {
            self.each = datagram.len();
        }
        self.is_closed = datagram.len() < self.each;
        self.bytes.extend_from_slice(datagram);
    }

    fn flush(&mut self, target: Target<'_>) {
        if self.bytes.is_empty() {
            return;
        }
        self.is_full = !target.datagrams.send(target.address, &self.bytes, self.each);
        if !self.is_full {
            self.bytes.clear();
            (self.each, self.is_closed) = (0, false);
        }
    }
}

/// A channel, and the exchange through it.
struct Inside {
    channel: Channel,
    exchange: Exchange,
    outlet: Outlet,
    packet: Vec<u8>,
    /// Whether and when a datagram of the other side was opened.
    heard: bool,
    heard_at: Instant,
}

impl Inside {
    /// Handles the channel's output: datagrams to send, and packets.
    fn yield_all(&mut self, target: Target<'_>, now: Instant) -> io::Result<()> {
        let Self { channel, exchange, outlet, heard, heard_at, .. } = self;
        let mut result = Ok(());
        channel.yield_all(|out| match out {
            Yield::Sealed(datagram) => outlet.push(target, datagram),
            Yield::Opened(packet) if result.is_ok() => {
                (*heard, *heard_at) = (true, now);
                result = exchange.receive(now, packet);
            }
            Yield::Opened(_) => {}
        })?;
        result.map_err(misbehaved)
    }

    /// Handles a datagram.
    fn receive(&mut self, target: Target<'_>, now: Instant, datagram: &[u8]) -> io::Result<()> {
        self.channel.open(datagram)?;
        self.yield_all(target, now)
    }

    /// Sends everything that is ready.
    fn transmit(&mut self, target: Target<'_>, now: Instant) -> io::Result<()> {
        self.outlet.flush(target);
        while self.channel.is_open()
            && !self.outlet.is_full
            && self.exchange.transmit(now, &mut self.packet)
        {
            self.channel.seal(&self.packet)?;
            self.yield_all(target, now)?;
        }
        self.outlet.flush(target);
        Ok(())
    }
}

/// Whether to believe a datagram that says that the other side, which was silent for `silence`, has
/// forgotten the session.
fn believes(mark: Option<Secret>, datagram: &[u8], silence: Duration) -> bool {
    let said = door::gone(datagram);
    planted!("gone-whoever-says-so", said.is_some(), said.is_some() && said == mark)
        && planted!("gone-while-it-is-heard", true, silence >= GONE_AFTER)
}

/// A UDP connection. Dropping it ends it at once.
pub(crate) struct Stream {
    way: Way,
    inside: Inside,
    /// The mark that the other side sends when it has forgotten this connection.
    mark: Option<Secret>,
    /// The rest of the message that is being read.
    reading: Bytes,
    timer: Pin<Box<Sleep>>,
    /// The error that ended the connection.
    failed: Option<(io::ErrorKind, String)>,
}

impl Stream {
    pub(super) fn new(way: Way, side: Side, certificate: &Certificate) -> Self {
        let now = Instant::now();
        Self {
            way,
            inside: Inside {
                channel: Channel::new(side, certificate, now),
                exchange: Exchange::new(now, FIRST_WINDOW_BYTES),
                outlet: Outlet::default(),
                packet: Vec::new(),
                heard: false,
                heard_at: now,
            },
            mark: None,
            reading: Bytes::new(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            failed: None,
        }
    }

    /// Waits until the channel is open.
    pub(super) async fn opened(&mut self) -> io::Result<&Channel> {
        poll_fn(|cx| {
            self.drive(cx);
            if self.inside.channel.is_open() {
                return Poll::Ready(Ok(()));
            }
            self.over().map_or(Poll::Pending, Poll::Ready)
        })
        .await?;
        Ok(&self.inside.channel)
    }

    /// The next whole message.
    pub(super) async fn message(&mut self) -> io::Result<Bytes> {
        poll_fn(|cx| Pin::new(&mut *self).poll_fill_buf(cx).map_ok(|_| ())).await?;
        let mut message = std::mem::take(&mut self.reading);
        if message.len() < LENGTH_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        message.advance(LENGTH_BYTES);
        Ok(message)
    }

    /// Queues a message.
    pub(super) fn send(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes();
        self.inside.exchange.write([&length[..], message].concat().into());
    }

    /// Ends the connection once the other side has everything.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut *self).poll_shutdown(cx)).await
    }

    /// Sets the mark that the other side sends when it has forgotten this connection.
    pub(super) fn expect(&mut self, mark: Secret) {
        self.mark = Some(mark);
    }

    /// The mark that the other side of a shared socket must be told.
    pub(super) fn mark(&self) -> Secret {
        match &self.way {
            Way::Own { .. } => Secret::default(),
            Way::Shared(session) => session.mark,
        }
    }

    /// The identity of the other end is known: it may now send messages of `longest` bytes, in any
    /// order.
    pub(super) fn open_up(&mut self, limits: &Limits) {
        let longest = limits.frame_bytes + LENGTH_BYTES;
        if let Err(error) = self.inside.exchange.open_up(longest, longest + WINDOW_BYTES) {
            self.fail(misbehaved(error));
        }
        if !limits.retransmission {
            self.inside.exchange.give_up_lost();
        }
    }

    /// Sends everything written, even if the other side has not allowed it.
    #[cfg(test)]
    pub(super) fn disregard_limits(&mut self) {
        self.inside.exchange.disregard_limits();
    }

    fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert((error.kind(), error.to_string()));
    }

    /// The reason for the end, if the connection has ended.
    fn over(&self) -> Option<io::Result<()>> {
        if let Some((kind, text)) = &self.failed {
            return Some(Err(io::Error::new(*kind, text.clone())));
        }
        self.inside.channel.is_closed().then(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Receives, sends, and sets the timer for the next turn.
    fn drive(&mut self, cx: &mut Context<'_>) {
        // Turns that are due again at once must not occupy the thread.
        for _ in 0..TURNS {
            if self.failed.is_some() {
                return;
            }
            match self.turn(cx) {
                Err(error) => return self.fail(error),
                Ok(None) => return,
                Ok(Some(next)) => self.timer.as_mut().reset(next.into()),
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Takes one turn. Returns the time at which the next one is due at the latest.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<Option<Instant>> {
        let now = Instant::now();
        self.inside.channel.tick(now)?;
        self.inside.yield_all(self.way.target(), now)?;
        self.receive(cx, now)?;
        self.inside.transmit(self.way.target(), now)?;
        let Inside { channel, exchange, outlet, .. } = &mut self.inside;
        let due = match (channel.is_open(), outlet.is_full) {
            (_, true) => Some(now + AFTER_FULL),
            (true, false) => exchange.deadline(now),
            (false, false) => None,
        };
        Ok(due.into_iter().chain(channel.deadline()).min())
    }

    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<()> {
        for _ in 0..BURSTS {
            match &mut self.way {
                Way::Own { datagrams, address, received, opening } => {
                    let Poll::Ready(burst) = datagrams.poll_receive(cx, received) else {
                        return Ok(());
                    };
                    let Burst { from, bytes, each } = burst?;
                    for datagram in bytes.chunks(each).filter(|_| from == *address) {
                        if door::is_dtls(datagram) {
                            let target = Target { datagrams, address: *address, opening };
                            self.inside.receive(target, now, datagram)?;
                            if self.inside.channel.is_open() {
                                opening.clear();
                            }
                        } else if believes(
                            self.mark,
                            datagram,
                            now.saturating_duration_since(self.inside.heard_at),
                        ) {
                            return Err(io::ErrorKind::ConnectionReset.into());
                        }
                    }
                }
                Way::Shared(session) => {
                    let Poll::Ready(burst) = session.poll_receive(cx) else { return Ok(()) };
                    let (bytes, each) = burst.ok_or(io::ErrorKind::ConnectionReset)?;
                    for datagram in bytes.chunks(each).filter(|datagram| door::is_dtls(datagram)) {
                        let target = Target {
                            datagrams: &session.datagrams,
                            address: session.address,
                            opening: &[],
                        };
                        self.inside.receive(target, now, datagram)?;
                    }
                    if std::mem::take(&mut self.inside.heard) {
                        session.note_heard();
                    }
                }
            }
            // More packets may have arrived than one acknowledgement names.
            if self.inside.exchange.owes(now) {
                self.inside.transmit(self.way.target(), now)?;
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }
}

fn misbehaved(Misbehaved(what): Misbehaved) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the other side breaks the protocol: {what}"),
    )
}

impl Drop for Stream {
    /// Acknowledges received packets and announces the end. If that is lost, the other side's
    /// time-out ends the connection.
    fn drop(&mut self) {
        if self.failed.is_none() && self.inside.channel.is_open() {
            let (now, target) = (Instant::now(), self.way.target());
            self.inside.exchange.hurry(now);
            let _ = self
                .inside
                .transmit(target, now)
                .and_then(|()| self.inside.channel.close())
                .and_then(|()| self.inside.yield_all(target, now));
            self.inside.outlet.flush(target);
        }
    }
}

impl AsyncBufRead for Stream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.reading.is_empty() {
            let mut next = this.inside.exchange.take();
            if next.is_none() {
                this.drive(cx);
                next = this.inside.exchange.take();
            }
            match next {
                Some(message) => this.reading = message,
                None if this.inside.exchange.has_ended() => {}
                None => match this.over() {
                    None => return Poll::Pending,
                    // The end is the same as after the loss of the other side.
                    Some(result) => result?,
                },
            }
        }
        Poll::Ready(Ok(&this.reading))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        self.get_mut().reading.advance(count);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        carrier::poll_read_buffered(self, cx, into)
    }
}

impl Stream {
    /// Whether more may be written.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.inside.exchange.kept() >= KEPT_BYTES {
            self.drive(cx);
        }
        match self.over() {
            Some(result) => Poll::Ready(result),
            None if self.inside.exchange.kept() >= KEPT_BYTES => Poll::Pending,
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut *this).poll_write_parts(cx, bytes, &Bytes::new()))?;
        this.drive(cx);
        Poll::Ready(Ok(written))
    }

    /// Sends written bytes, as far as the other side and the path accept them now.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.drive(cx);
        Poll::Ready(this.over().unwrap_or(Ok(())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.inside.exchange.finish();
        this.drive(cx);
        match this.inside.exchange.is_finished() {
            true => Poll::Ready(Ok(())),
            false => this.over().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

impl carrier::Stream for Stream {
    fn poll_write_parts(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_room(cx))?;
        this.inside.exchange.write(Bytes::copy_from_slice(stage));
        this.inside.exchange.write(large.clone());
        Poll::Ready(Ok(stage.len() + large.len()))
    }
}
