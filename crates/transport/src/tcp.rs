//! The TCP transport, with TLS 1.3.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use rustls::{ClientConfig, ConnectionCommon, ServerConfig};
use tokio::io::{AsyncWrite as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Limits;
use super::carrier::{self, Carrier};
use super::handshake::{Established, HandshakeError, greet, within};
use super::hello::{Hello, Role};
use super::tls::{self, Allowed, Identity, TlsError};
use crate::Door;

/// TLS reads 4 KiB at a time. This buffer turns many small system calls into one.
const PEER_READ_BYTES: usize = 64 << 10;
const CLIENT_READ_BYTES: usize = 16 << 10;
/// Ciphertext that may wait for the socket: as much as one system call can take.
const TLS_BUFFER_BYTES: usize = 256 << 10;

pub(super) type Stream = TlsStream<BufReader<TcpStream>>;

/// A TCP listener that accepts connections.
pub(super) struct Tcp {
    door: Door,
    accepts: Arc<ServerConfig>,
}

impl Tcp {
    /// Shows `identity` to those who connect to `listener`. They must show a key among `allowed`,
    /// or none.
    pub(super) fn new(
        listener: TcpListener,
        identity: &Identity,
        allowed: Option<Allowed>,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            door: Door::new(listener),
            accepts: Arc::new(tls::server_config(identity, allowed)?),
        })
    }
}

impl Carrier for Tcp {
    type Stream = Stream;
    type Arrival = (TcpStream, Arc<ServerConfig>);
    type Way = Arc<ClientConfig>;

    async fn arrival(&self) -> io::Result<(Self::Arrival, IpAddr)> {
        let (tcp, address) = self.door.accept().await?;
        Ok(((tcp, Arc::clone(&self.accepts)), address.ip()))
    }

    async fn receive(
        (tcp, config): Self::Arrival,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        within(&limits, async {
            let tcp = buffered(tcp, &hello, &limits)?;
            let mut stream = TlsAcceptor::from(config).accept(tcp).await?;
            widen(stream.get_mut().1);
            let key = shown(stream.get_ref().1);
            greet(stream.into(), key, hello, &limits).await
        })
        .await
    }

    fn way(identity: &Identity, keys: &[PublicKey]) -> Result<Self::Way, TlsError> {
        Ok(Arc::new(tls::client_config(Some(identity), Some(keys))?))
    }

    async fn dial(
        way: &Self::Way,
        address: &str,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        let connecting = tokio::time::timeout(limits.handshake, TcpStream::connect(address)).await;
        let tcp = connecting
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(HandshakeError::Unreachable)?;
        within(&limits, async {
            let tcp = buffered(tcp, &hello, &limits)?;
            let connecting = TlsConnector::from(Arc::clone(way)).connect(tls::no_name(), tcp);
            let mut stream = connecting.await?;
            widen(stream.get_mut().1);
            let key = shown(stream.get_ref().1);
            greet(stream.into(), key, hello, &limits).await
        })
        .await
    }

    /// The system informs the other sides.
    fn close(self) -> impl Future<Output = ()> + Send {
        drop(self);
        std::future::ready(())
    }
}

impl carrier::Stream for Stream {
    fn poll_write_parts(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        stage: &[u8],
        large: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(stage), IoSlice::new(large)])
    }
}

fn buffered(tcp: TcpStream, hello: &Hello, limits: &Limits) -> io::Result<BufReader<TcpStream>> {
    tcp.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    if let Some(bytes) = limits.not_sent_bytes {
        // The system may not know it.
        let _ = socket2::SockRef::from(&tcp).set_tcp_notsent_lowat(bytes);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = limits;
    let bytes = match hello.role {
        Role::Server(_) => CLIENT_READ_BYTES,
        Role::Peer(_) | Role::Client => PEER_READ_BYTES,
    };
    Ok(BufReader::with_capacity(bytes, tcp))
}

fn widen<Side>(connection: &mut ConnectionCommon<Side>) {
    connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
}

fn shown<Side>(connection: &ConnectionCommon<Side>) -> Option<PublicKey> {
    connection.peer_certificates().and_then(|shown| tls::key_of(shown.first()?))
}
