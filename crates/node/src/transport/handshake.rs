//! From a TCP connection to one whose other side is known.

use std::io;
use std::sync::Arc;

#[cfg(test)]
use bytes::Bytes;
use quorate_core::crypto::PublicKey;
use quorate_core::{Digest, ReplicaId};
use rustls::{AlertDescription, ClientConfig, ConnectionCommon, ServerConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Limits;
use super::counters::{Counters, count};
use super::framing::{FrameReader, FrameWriter};
use super::hello::{Hello, MAX_HELLO_BYTES, Refusal, Role};
use super::tls;

/// TLS reads 4 KiB at a time; this turns many small system calls into one.
const PEER_READ_BYTES: usize = 64 << 10;
const CLIENT_READ_BYTES: usize = 16 << 10;
/// Ciphertext that may wait for the socket: what one system call can take.
const TLS_BUFFER_BYTES: usize = 256 << 10;

pub(super) type Stream = TlsStream<BufReader<TcpStream>>;

/// A connection whose other side is known.
pub(super) struct Established {
    pub(super) stream: Stream,
    /// Holds what arrived behind the hello.
    pub(super) reader: FrameReader,
    pub(super) role: Role,
    /// What the other side showed.
    pub(super) key: Option<PublicKey>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum HandshakeError {
    Io(io::Error),
    Key,
    Refused(Refusal),
    TimedOut,
}

impl HandshakeError {
    pub(super) fn count(&self, counters: &Counters) {
        match self {
            Self::Io(_) => count(&counters.bad_handshake),
            Self::Key => count(&counters.wrong_key),
            Self::Refused(refusal) => refusal.count(counters),
            Self::TimedOut => count(&counters.handshake_timeout),
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        if tls::is_about_the_key(&error) || is_alert_about_our_key(&error) {
            return Self::Key;
        }
        Self::Io(error)
    }
}

/// The other side's way of saying that it does not know our key.
fn is_alert_about_our_key(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        inner,
        Some(rustls::Error::AlertReceived(
            AlertDescription::AccessDenied
                | AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
        ))
    )
}

/// Accepts: TLS and hello, within the limit's time.
pub(super) async fn accept(
    tcp: TcpStream,
    config: Arc<ServerConfig>,
    hello: Hello,
    limits: &Limits,
) -> Result<Established, HandshakeError> {
    within(limits, async {
        let tcp = buffered(tcp, &hello)?;
        let mut stream = TlsAcceptor::from(config).accept(tcp).await?;
        widen(stream.get_mut().1);
        greet(stream.into(), hello, limits).await
    })
    .await
}

/// Dials: TLS and hello, within the limit's time.
pub(super) async fn connect(
    tcp: TcpStream,
    config: Arc<ClientConfig>,
    hello: Hello,
    limits: &Limits,
) -> Result<Established, HandshakeError> {
    within(limits, async {
        let tcp = buffered(tcp, &hello)?;
        let mut stream = TlsConnector::from(config).connect(tls::no_name(), tcp).await?;
        widen(stream.get_mut().1);
        greet(stream.into(), hello, limits).await
    })
    .await
}

async fn within<T>(
    limits: &Limits,
    work: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    tokio::time::timeout(limits.handshake, work).await.unwrap_or(Err(HandshakeError::TimedOut))
}

fn buffered(tcp: TcpStream, hello: &Hello) -> io::Result<BufReader<TcpStream>> {
    tcp.set_nodelay(true)?;
    let bytes = match hello.role {
        Role::Server(_) => CLIENT_READ_BYTES,
        Role::Peer(_) | Role::Client => PEER_READ_BYTES,
    };
    Ok(BufReader::with_capacity(bytes, tcp))
}

fn widen<Side>(connection: &mut ConnectionCommon<Side>) {
    connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
}

/// Says hello and reads the other side's. Ours goes first, so that each side can name what is
/// wrong with the other.
async fn greet(
    mut stream: Stream,
    hello: Hello,
    limits: &Limits,
) -> Result<Established, HandshakeError> {
    let mut writer = FrameWriter::default();
    writer.push(hello.encode());
    stream.write_all(writer.parts().0).await?;
    stream.flush().await?;
    let mut reader = FrameReader::new(MAX_HELLO_BYTES);
    let theirs = loop {
        match reader.next() {
            Ok(Some(frame)) => break frame,
            Ok(None) => {}
            Err(_) => return Err(HandshakeError::Refused(Refusal::Garbage)),
        }
        let chunk = stream.fill_buf().await?;
        if chunk.is_empty() {
            return Err(HandshakeError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        let count = chunk.len();
        reader.extend(chunk);
        stream.consume(count);
    };
    reader.set_max_bytes(limits.frame_bytes);
    let role = Hello::read(theirs, &hello.chain).map_err(HandshakeError::Refused)?;
    let key = stream.get_ref().1.peer_certificates().and_then(|shown| tls::key_of(shown.first()?));
    Ok(Established { stream, reader, role, key })
}

impl Hello {
    pub(super) fn peer(chain: Digest, me: ReplicaId) -> Self {
        Self { chain, role: Role::Peer(me) }
    }
}

/// The frame alone, for tests that write to the wire themselves.
#[cfg(test)]
pub(super) fn framed(payload: Bytes) -> Vec<u8> {
    let mut writer = FrameWriter::default();
    writer.push(payload);
    let (stage, large) = writer.parts();
    [stage, large].concat()
}
