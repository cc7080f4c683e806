//! The handshake after TLS: it turns a stream into a connection whose other side is known.

use std::io;
use std::time::Duration;

#[cfg(test)]
use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
#[cfg(test)]
use quorate_core::{Digest, ReplicaId};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use super::Limits;
use super::carrier::Stream;
use super::counters::{Counters, count};
use super::framing::{FrameReader, FrameWriter};
use super::hello::{Hello, MAX_HELLO_BYTES, Met, Refusal, Role};
use super::tls::{self, TlsError};

/// The time that a refused participant has to receive our hello, so that it can name the reason.
pub(super) const PARTING: Duration = Duration::from_secs(1);

/// A connection whose other side is known.
pub(super) struct Established<S> {
    pub(super) stream: S,
    /// Holds the bytes that arrived behind the hello.
    pub(super) reader: FrameReader,
    pub(super) role: Role,
    /// The version of the protocol that both sides speak.
    pub(super) version: u16,
    /// The key that the other side showed.
    pub(super) key: Option<PublicKey>,
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// Nothing answers at the address.
    Unreachable(io::Error),
    Io(io::Error),
    Key,
    /// The other side's hello does not fit; its key, if it showed one.
    Refused(Refusal, Option<PublicKey>),
    TimedOut,
}

impl HandshakeError {
    pub(super) fn count(&self, counters: &Counters) {
        match self {
            Self::Unreachable(_) => count(&counters.dial_failed),
            Self::Io(_) => count(&counters.bad_handshake),
            Self::Key => count(&counters.wrong_key),
            Self::Refused(refusal, _) => refusal.count(counters),
            Self::TimedOut => count(&counters.handshake_timeout),
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        if tls::is_about_a_key(&error) { Self::Key } else { Self::Io(error) }
    }
}

impl From<TlsError> for HandshakeError {
    fn from(error: TlsError) -> Self {
        Self::Io(io::Error::other(error))
    }
}

/// Does `work` within the handshake time of the limits.
pub(super) async fn within<T>(
    limits: &Limits,
    work: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    tokio::time::timeout(limits.handshake, work).await.unwrap_or(Err(HandshakeError::TimedOut))
}

/// Sends our hello and reads the other side's. Ours goes first, so that each side can name what is
/// wrong with the other.
pub(super) async fn greet<S: Stream>(
    mut stream: S,
    key: Option<PublicKey>,
    hello: Hello,
    limits: &Limits,
) -> Result<Established<S>, HandshakeError> {
    let mut writer = FrameWriter::default();
    writer.push(hello.encode());
    stream.write_all(writer.parts().0).await?;
    stream.flush().await?;
    let mut reader = FrameReader::new(MAX_HELLO_BYTES);
    match meet(&mut stream, &mut reader, &hello).await {
        Ok(Ok(Met { role, version })) => {
            reader.set_max_bytes(limits.frame_bytes);
            Ok(Established { stream, reader, role, version, key })
        }
        Ok(Err(refusal)) => {
            // The other side may hang up without reading it.
            let _ = tokio::time::timeout(PARTING, stream.shutdown()).await;
            Err(HandshakeError::Refused(refusal, key))
        }
        Err(error) => Err(error.into()),
    }
}

async fn meet<S: Stream>(
    stream: &mut S,
    reader: &mut FrameReader,
    hello: &Hello,
) -> io::Result<Result<Met, Refusal>> {
    loop {
        match reader.next() {
            Ok(Some(frame)) => return Ok(hello.meet(frame)),
            Ok(None) => {}
            Err(_) => return Ok(Err(Refusal::Garbage)),
        }
        let chunk = stream.fill_buf().await?;
        if chunk.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = chunk.len();
        reader.extend(chunk);
        stream.consume(count);
    }
}

#[cfg(test)]
impl Hello {
    pub(super) fn of(chain: Digest, role: Role) -> Self {
        Self { versions: super::Versions::PROGRAM, chain, role }
    }

    pub(super) fn peer(chain: Digest, me: ReplicaId) -> Self {
        Self::of(chain, Role::Peer(me))
    }
}

/// The hello as a frame, for tests that write to the wire themselves.
#[cfg(test)]
pub(super) fn framed(payload: Bytes) -> Vec<u8> {
    let mut writer = FrameWriter::default();
    writer.push(payload);
    let (stage, large) = writer.parts();
    [stage, large].concat()
}
