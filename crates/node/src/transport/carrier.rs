//! What TCP with TLS and QUIC have in common: somebody arrives or is dialled, is known by its key
//! then, and there is a stream of bytes each way. What goes over the stream is the same for both.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use quorate_core::crypto::PublicKey;
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::Limits;
use super::handshake::{Established, HandshakeError};
use super::hello::Hello;
use super::tls::{Identity, TlsError};

/// Bytes both ways. [`AsyncWrite::poll_shutdown`] is ready once the other side's system has all
/// that was written, or will be given it whatever becomes of this end.
pub(super) trait Stream: AsyncBufRead + AsyncWrite + Unpin + Send + 'static {
    /// Writes some of `stage` and of `large` behind it. How many bytes.
    fn poll_write_parts(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>>;
}

/// A way for participants to reach each other. The instance is where they arrive; dropping it, no
/// more do.
pub(super) trait Carrier: Send + 'static {
    /// What a connection is made of.
    type Stream: Stream;
    /// Somebody at the door.
    type Arrival: Send + 'static;
    /// What it takes to dial one other side.
    type Way: Send + Sync + 'static;

    /// Waits for somebody. Dropping the future loses nobody.
    fn arrival(&self) -> impl Future<Output = io::Result<(Self::Arrival, IpAddr)>> + Send;

    /// Lets somebody in: TLS and hello, within the limit's time.
    fn receive(
        arrival: Self::Arrival,
        hello: Hello,
        limits: Limits,
    ) -> impl Future<Output = Result<Established<Self::Stream>, HandshakeError>> + Send;

    /// The way to whoever shows `key`; it is shown `identity`.
    fn way(identity: &Identity, key: PublicKey) -> Result<Self::Way, TlsError>;

    /// Dials `address` (`host:port`): TLS and hello, within the limit's time.
    fn dial(
        way: &Self::Way,
        address: &str,
        hello: Hello,
        limits: Limits,
    ) -> impl Future<Output = Result<Established<Self::Stream>, HandshakeError>> + Send;

    /// Nobody arrives any more. The future waits until the other sides of connections that ended
    /// know of it, as far as they answer.
    fn close(self) -> impl Future<Output = ()> + Send;
}
