//! The UDP transport: DTLS 1.3 (RFC 9147), with retransmission of our own.
//!
//! ```text
//! messages ─► exchange: pieces, packets ─► channel: DTLS ─► datagrams ─► door
//! ```
//!
//! Unlike over TCP and QUIC, a message does not wait for a lost piece of another message. On the
//! other hand the handshake takes three round trips, not one: a token, DTLS, and the proof of the
//! key. That matters little, because connections between replicas last.
//!
//! The modules: [`door`] decides who may connect. [`channel`] seals and opens packets. [`exchange`]
//! sends lost pieces again (with [`packet`], [`outgoing`], [`incoming`] and [`path`]). [`stream`]
//! is the stream that links read and write.

mod channel;
mod datagrams;
mod door;
mod exchange;
pub(super) mod fuzz;
mod incoming;
mod outgoing;
mod packet;
mod path;
mod ranges;
mod stream;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::MAX_REPLICAS;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use self::channel::{Certificate, PROOF_BYTES, Side};
use self::datagrams::{Datagrams, Received};
use self::door::{Door, Nonce, Secret, Session};
use self::stream::Way;
use super::carrier::{Carrier, first_reached, free_socket};
use super::handshake::{Established, HandshakeError, PARTING, greet, within};
use super::hello::Hello;
use super::tls::{Allowed, Identity, TlsError};
use super::{Limits, MeshError};

pub(super) use self::stream::Stream;

/// The first pause before a token is requested again. The pause doubles, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// Sessions that may wait to be accepted.
const WAITING: usize = 64;
/// The answer to a key that is not allowed.
const REFUSED: &[u8] = b"key";

/// The proof of our identity for one side of a channel.
struct Mine {
    identity: Identity,
    certificate: Certificate,
}

impl Mine {
    fn new(identity: &Identity) -> Result<Self, TlsError> {
        Ok(Self { identity: identity.clone(), certificate: Certificate::new()? })
    }
}

/// A UDP socket that accepts sessions.
pub(super) struct Udp {
    arrivals: Mutex<mpsc::Receiver<Session>>,
    allowed: Allowed,
    mine: Arc<Mine>,
    /// The task of the door. It ends once no session is left.
    serving: JoinSet<()>,
}

/// A new session, whose address is verified.
pub(super) struct Arrival {
    session: Session,
    allowed: Allowed,
    mine: Arc<Mine>,
}

/// Whatever is needed to dial one other side.
pub(super) struct Dials {
    mine: Mine,
    keys: Vec<PublicKey>,
}

impl Udp {
    /// Shows `identity` to those who connect to `socket`. They must show a key among `allowed`.
    pub(super) fn new(
        socket: UdpSocket,
        identity: &Identity,
        allowed: Allowed,
        limits: &Limits,
    ) -> Result<Self, MeshError> {
        let (sender, arrivals) = mpsc::channel(WAITING);
        let datagrams = Arc::new(Datagrams::new(socket)?);
        let secret = *identity.restart_secret();
        // One for each place, and some more for sessions that are about to take or leave one.
        let sessions = 2 * limits.half_open + 2 * allowed.len().max(MAX_REPLICAS) + 2 * WAITING;
        let door = Door::new(datagrams, secret, sessions, sender)?;
        let mut serving = JoinSet::new();
        serving.spawn(door.serve());
        let mine = Arc::new(Mine::new(identity)?);
        Ok(Self { arrivals: Mutex::new(arrivals), allowed, mine, serving })
    }
}

impl Carrier for Udp {
    type Stream = Stream;
    type Arrival = Arrival;
    type Way = Dials;

    async fn arrival(&self) -> io::Result<(Arrival, IpAddr)> {
        let session = self.arrivals.lock().await.recv().await;
        let session = session.ok_or(io::ErrorKind::NotConnected)?;
        let address = session.address.ip().to_canonical();
        let (allowed, mine) = (self.allowed.clone(), Arc::clone(&self.mine));
        Ok((Arrival { session, allowed, mine }, address))
    }

    async fn receive(
        Arrival { session, allowed, mine }: Arrival,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        within(&limits, async {
            let mut stream = Stream::new(Way::Shared(session), Side::Server, &mine.certificate);
            stream.opened().await?;
            let proof = stream.message().await?;
            let key = stream.opened().await?.proven(&proof);
            let Some(key) = key.filter(|key| allowed.contains(key)) else {
                stream.send(REFUSED);
                let _ = tokio::time::timeout(PARTING, stream.finish()).await;
                return Err(HandshakeError::Key);
            };
            let proof = stream.opened().await?.proof(&mine.identity)?;
            let mark = stream.mark();
            stream.send(&[&proof[..], &mark].concat());
            met(stream, key, hello, &limits).await
        })
        .await
    }

    fn way(identity: &Identity, keys: &[PublicKey]) -> Result<Dials, TlsError> {
        Ok(Dials { mine: Mine::new(identity)?, keys: keys.to_vec() })
    }

    async fn dial(
        way: &Dials,
        address: &str,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        let opened = connect(address, &limits).await?;
        within(&limits, async {
            let (stream, key) = proven(opened, way).await?;
            met(stream, key, hello, &limits).await
        })
        .await
    }

    fn close(self) -> impl Future<Output = ()> + Send {
        // No one else takes arrivals by now. The sessions that are open continue to receive.
        self.arrivals.into_inner().close();
        let serving = self.serving;
        async move { drop(serving) }
    }
}

/// Exchanges hellos over a connection whose other end has proved `key`.
async fn met(
    stream: Stream,
    key: PublicKey,
    hello: Hello,
    limits: &Limits,
) -> Result<Established<Stream>, HandshakeError> {
    let mut established = greet(stream, Some(key), hello, limits).await?;
    established.stream.open_up(limits);
    Ok(established)
}

/// A connection attempt that has its token.
struct Opened {
    datagrams: Arc<Datagrams>,
    address: SocketAddr,
    opening: Vec<u8>,
}

/// Opens the channel, and exchanges proofs of the keys. Returns the one of the other end.
async fn proven(opened: Opened, way: &Dials) -> Result<(Stream, PublicKey), HandshakeError> {
    let Opened { datagrams, address, opening } = opened;
    let received = Box::default();
    let own = Way::Own { datagrams, address, received, opening };
    let mut stream = Stream::new(own, Side::Client, &way.mine.certificate);
    let proof = stream.opened().await?.proof(&way.mine.identity)?;
    stream.send(&proof);
    let answer = stream.message().await?;
    let shown = answer.split_at_checked(PROOF_BYTES);
    let Some((proof, mark)) = shown else { return Err(HandshakeError::Key) };
    let shown = stream.opened().await?.proven(proof);
    let key = shown.filter(|key| way.keys.contains(key)).ok_or(HandshakeError::Key)?;
    if let Ok(mark) = Secret::try_from(mark) {
        stream.expect(mark);
    }
    Ok((stream, key))
}

/// Asks the addresses of `address` for a token. The first that answers is used.
async fn connect(address: &str, limits: &Limits) -> Result<Opened, HandshakeError> {
    let asks = |address| async move { ask(address).await.map_err(HandshakeError::Unreachable) };
    first_reached(address, limits, asks).await
}

/// Asks for a token until there is an answer.
async fn ask(address: SocketAddr) -> io::Result<Opened> {
    let datagrams = Arc::new(Datagrams::new(free_socket(address)?)?);
    datagrams.writable().await?;
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let question = door::ask(nonce);
    let (mut received, mut pause) = (Received::default(), FIRST_PAUSE);
    loop {
        datagrams.send(address, &question, question.len());
        let answer = datagrams.answer(&mut received, address, |bytes| door::token(bytes, nonce));
        if let Ok(token) = tokio::time::timeout(pause, answer).await {
            let opening = door::opening(nonce, token?).to_vec();
            return Ok(Opened { datagrams, address, opening });
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// A bare connection, for tests that misbehave.
#[cfg(test)]
pub(super) async fn raw(
    address: &str,
    identity: &Identity,
    key: PublicKey,
    limits: &Limits,
) -> Result<Stream, HandshakeError> {
    let way = Udp::way(identity, &[key]).expect("a way");
    let (mut stream, _) = proven(connect(address, limits).await?, &way).await?;
    stream.disregard_limits();
    Ok(stream)
}
