//! One QUIC connection with its stream in each direction, as the links use it.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use quinn::{ConnectionError, Endpoint, ReadError, RecvStream, SendStream, StoppedError, VarInt};
use rustls::AlertDescription;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::super::carrier;

/// The received pieces that are taken out of the connection at once.
const PIECES: usize = 32;
/// From this code on, the transport's error codes are TLS alerts (RFC 9001, section 4.8).
const CRYPTO_ERRORS: u64 = 0x100;

type Heard = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// A connection with one stream in each direction. Dropping it ends the connection at once.
pub(crate) struct Stream {
    send: SendStream,
    receive: RecvStream,
    pieces: [Bytes; PIECES],
    /// The first piece that is not consumed.
    first: usize,
    /// The pieces from here on are empty.
    filled: usize,
    /// Resolves once the other side has everything. Polled after all is written.
    heard: Option<Heard>,
    /// The socket, if this connection is its only one.
    _endpoint: Option<Endpoint>,
}

impl Stream {
    pub(super) fn new(send: SendStream, receive: RecvStream, endpoint: Option<Endpoint>) -> Self {
        Self {
            send,
            receive,
            pieces: [const { Bytes::new() }; PIECES],
            first: 0,
            filled: 0,
            heard: None,
            _endpoint: endpoint,
        }
    }

    fn unread(&self) -> Option<&Bytes> {
        self.pieces.get(self.first..self.filled)?.first()
    }
}

/// Converts QUIC's errors into those of a TCP connection, so that the layers above need not know
/// QUIC.
pub(super) fn io_error(error: ConnectionError) -> io::Error {
    let code = match &error {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        _ => return error.into(),
    };
    match code.checked_sub(CRYPTO_ERRORS).map(u8::try_from) {
        Some(Ok(alert)) => {
            io::Error::other(rustls::Error::AlertReceived(AlertDescription::from(alert)))
        }
        _ => error.into(),
    }
}

impl AsyncBufRead for Stream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.unread().is_none() {
            let filled = ready!(pin!(this.receive.read_chunks(&mut this.pieces)).poll(cx));
            (this.first, this.filled) = match filled {
                Ok(filled) => (0, filled.unwrap_or(0)),
                Err(ReadError::ConnectionLost(error)) => return Poll::Ready(Err(io_error(error))),
                Err(error) => return Poll::Ready(Err(error.into())),
            };
        }
        Poll::Ready(Ok(this.unread().map_or(&[], |piece| piece)))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        let this = self.get_mut();
        if let Some(piece) = this.pieces.get_mut(this.first) {
            piece.advance(count);
            if piece.is_empty() {
                // Releases the memory of the datagram.
                *piece = Bytes::new();
                this.first += 1;
            }
        }
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

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, bytes).map_err(io::Error::from)
    }

    /// QUIC sends written bytes by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.heard.is_none() {
            // It fails if the stream has ended already, which is fine.
            let _ = self.send.finish();
            self.heard = Some(Box::pin(self.send.stopped()));
        }
        let Some(heard) = &mut self.heard else { return Poll::Ready(Ok(())) };
        let result = ready!(heard.as_mut().poll(cx));
        self.heard = None;
        Poll::Ready(result.map(|_| ()).map_err(io::Error::from))
    }
}

impl carrier::Stream for Stream {
    fn poll_write_parts(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let staged = if stage.is_empty() {
            0
        } else {
            ready!(Pin::new(&mut self.send).poll_write(cx, stage))?
        };
        if staged < stage.len() || large.is_empty() {
            return Poll::Ready(Ok(staged));
        }
        let mut large = [large.clone()];
        match pin!(self.send.write_chunks(&mut large)).poll(cx) {
            Poll::Ready(Ok(written)) => Poll::Ready(Ok(staged + written.bytes)),
            Poll::Ready(Err(error)) if staged == 0 => Poll::Ready(Err(error.into())),
            // The next call reports the error.
            Poll::Ready(Err(_)) => Poll::Ready(Ok(staged)),
            Poll::Pending if staged == 0 => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(staged)),
        }
    }
}
