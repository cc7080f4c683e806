//! The interface that TCP with TLS, QUIC, and UDP with DTLS implement. Each accepts and dials
//! connections, learns the key of the other side, and offers one stream of bytes in each direction.
//! The layers above are the same for all of them.

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

/// A stream of bytes in both directions. [`AsyncWrite::poll_shutdown`] is ready once the other
/// side's system has everything that was written, or will get it even if this end is gone.
pub(super) trait Stream: AsyncBufRead + AsyncWrite + Unpin + Send + 'static {
    /// Writes a part of `stage`, and of `large` behind it. Returns the number of bytes written.
    fn poll_write_parts(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>>;
}

/// A transport. An instance accepts connections at one socket; dropping it stops that.
pub(super) trait Carrier: Send + 'static {
    /// The stream of an established connection.
    type Stream: Stream;
    /// A connection that was accepted and not yet authenticated.
    type Arrival: Send + 'static;
    /// Whatever is needed to dial one other side.
    type Way: Send + Sync + 'static;

    /// Waits for the next connection. Dropping the future loses none.
    fn arrival(&self) -> impl Future<Output = io::Result<(Self::Arrival, IpAddr)>> + Send;

    /// Authenticates an accepted connection: TLS and hello, within the time of the limits.
    fn receive(
        arrival: Self::Arrival,
        hello: Hello,
        limits: Limits,
    ) -> impl Future<Output = Result<Established<Self::Stream>, HandshakeError>> + Send;

    /// Prepares to dial the holder of one of `keys` and to show it `identity`.
    fn way(identity: &Identity, keys: &[PublicKey]) -> Result<Self::Way, TlsError>;

    /// Dials `address` (`host:port`): TLS and hello, within the time of the limits.
    fn dial(
        way: &Self::Way,
        address: &str,
        hello: Hello,
        limits: Limits,
    ) -> impl Future<Output = Result<Established<Self::Stream>, HandshakeError>> + Send;

    /// Accepts no more. The future waits until the other sides of ended connections have noticed
    /// the end, as far as they answer.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Reads from the buffer: [`tokio::io::AsyncRead::poll_read`] for streams that have a buffer of
/// their own.
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

/// Tries the addresses that `address` (`host:port`) resolves to, and returns the first that can be
/// reached. All attempts together have the time of the limits.
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

/// A UDP socket on any free port, for datagrams to `address`.
pub(super) fn free_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let here: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((here, 0))
}
