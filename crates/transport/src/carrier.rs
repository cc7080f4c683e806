//! What TCP with TLS, QUIC and UDP with DTLS have in common: somebody arrives or is dialled, is known by its key
//! then, and there is a stream of bytes each way. What goes over the stream is the same for all.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use tokio::io::{AsyncBufRead, AsyncWrite, ReadBuf};

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

/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Reads what is buffered: [`tokio::io::AsyncRead::poll_read`] of streams that have a buffer of their own.
pub(super) fn poll_read_buffered<S: AsyncBufRead>(
    mut stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    into: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let available = ready!(stream.as_mut().poll_fill_buf(cx))?;
    let count = available.len().min(into.remaining());
    into.put_slice(available.get(..count).unwrap_or_default());
    stream.consume(count);
    Poll::Ready(Ok(()))
}

/// Tries the addresses that `address` (`host:port`) stands for, and takes the first that is reached. All together have the
/// limit's time.
pub(super) async fn first_reached<T, Trying>(
    address: &str,
    limits: &Limits,
    connect: impl Fn(SocketAddr) -> Trying,
) -> Result<T, HandshakeError>
where
    Trying: Future<Output = Result<T, HandshakeError>>,
{
    let found = tokio::net::lookup_host(address).await.map_err(HandshakeError::Unreachable)?;
    let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
    let patience = limits.handshake / addresses.len().max(1) as u32;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match tokio::time::timeout(patience, connect(address)).await {
            Ok(Err(HandshakeError::Unreachable(error))) => last = error,
            Ok(done) => return done,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(HandshakeError::Unreachable(last))
}

/// A UDP socket with any free port, for `address`.
pub(super) fn free_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let here: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((here, 0))
}
