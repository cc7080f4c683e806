//! QUIC (RFC 9000): TLS 1.3 over UDP, with the same keys as over TCP.
//!
//! * A connection carries one stream each way, so that messages keep their order as over TCP. The
//!   one who dials opens it.
//! * Who dials must first show that it receives at the address it sends from (section 8.1.2, a
//!   retry): places are given to addresses that were not made up.
//! * A replica that was killed says nothing. When it is back it answers packets of connections it
//!   has forgotten with stateless resets (section 10.3), made with a key that it has again, so that
//!   the other side dials anew at once instead of after [`Limits::idle`].
//! * Whoever dials does so from a socket of its own: the buffer of the one socket that all arrive at
//!   is no bottleneck to connections that this replica dialled.

mod stream;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::udp::UdpSocketState;
use quinn::{
    ClientConfig, Connection, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig,
    Incoming, MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use rustls::pki_types::CertificateDer;

use super::carrier::{Carrier, first_reached, free_socket};
use super::handshake::{Established, HandshakeError, greet, within};
use super::hello::Hello;
use super::tls::{self, Identity, TlsError};
use super::{Limits, MeshError};

pub(super) use stream::Stream;

/// What QUIC asks both sides to speak (ALPN). The version is in the hello.
const SPOKEN: &[u8] = b"quorate";
/// Longest datagram tried, in bytes. How much really fits is found out for each connection: 1452 on
/// Ethernet, this on its jumbo frames and on one machine. Ten of them are given to the system at
/// once, which takes 65,507 bytes and silently drops what is longer.
const MAX_DATAGRAM_BYTES: u16 = 6500;
/// What the other side may send before it was read: as much as TCP's buffers grow to by default.
const RECEIVE_WINDOW_BYTES: u32 = 6 << 20;
/// What may be on its way to the other side: as much.
const SEND_WINDOW_BYTES: u64 = 6 << 20;
/// What may be on its way before anything was heard of: as many of our datagrams as RFC 9002 (section
/// 7.2) allows of Ethernet's. With two of them, that something is over would wait behind the search for
/// their length.
const FIRST_WINDOW_BYTES: u64 = 10 * MAX_DATAGRAM_BYTES as u64;
/// What the system is asked to hold for a socket each way; it may give less.
const SOCKET_BYTES: usize = 4 << 20;
/// The round trip assumed before one was measured. Three of them pass until a first packet without
/// an answer is sent again: a replica that comes up is found as soon as over TCP.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Length of the number that tells a connection from others of the same socket.
const NUMBER_BYTES: usize = 8;
/// What is kept of somebody whose arrival was not looked at yet.
const ARRIVAL_BYTES: u64 = 16 << 10;

/// Where QUIC connections arrive.
pub(super) struct Quic {
    endpoint: Endpoint,
}

impl Quic {
    /// Those who connect to `socket` are shown `identity`, and must show a key among `allowed`.
    pub(super) fn new(
        socket: UdpSocket,
        identity: &Identity,
        allowed: Vec<PublicKey>,
        limits: &Limits,
    ) -> Result<Self, MeshError> {
        let mut tls = tls::server_config(identity, Some(allowed))?;
        tls.alpn_protocols = vec![SPOKEN.to_vec()];
        let tls = QuicServerConfig::try_from(tls).map_err(no_initial_suite)?;
        let mut accepts = ServerConfig::with_crypto(Arc::new(tls));
        accepts
            .transport_config(transport())
            .migration(false)
            .max_incoming(limits.half_open)
            .incoming_buffer_size(ARRIVAL_BYTES)
            .incoming_buffer_size_total(ARRIVAL_BYTES * limits.half_open as u64);
        let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(
            hmac::HMAC_SHA256,
            &identity.restart_secret().0,
        )));
        let numbers = Numbers::new()?;
        config.cid_generator(move || Box::new(numbers.clone()));
        let endpoint = endpoint(config, Some(accepts), socket)?;
        Ok(Self { endpoint })
    }
}

impl Carrier for Quic {
    type Stream = Stream;
    type Arrival = Incoming;
    type Way = ClientConfig;

    async fn arrival(&self) -> io::Result<(Incoming, IpAddr)> {
        loop {
            let Some(arrival) = self.endpoint.accept().await else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            if arrival.remote_address_validated() {
                let address = arrival.remote_address().ip().to_canonical();
                return Ok((arrival, address));
            }
            // It may always be asked to: it has not been yet.
            let _ = arrival.retry();
        }
    }

    async fn receive(
        arrival: Incoming,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        within(&limits, async {
            let connection = arrival.await.map_err(stream::io_error)?;
            let (send, receive) = connection.accept_bi().await.map_err(stream::io_error)?;
            let key = shown(&connection);
            greet(Stream::new(send, receive, None), key, hello, &limits).await
        })
        .await
    }

    fn way(identity: &Identity, key: PublicKey) -> Result<ClientConfig, TlsError> {
        let mut tls = tls::client_config(Some(identity), key)?;
        tls.alpn_protocols = vec![SPOKEN.to_vec()];
        let tls = QuicClientConfig::try_from(tls).map_err(no_initial_suite)?;
        let mut dials = ClientConfig::new(Arc::new(tls));
        dials.transport_config(transport());
        Ok(dials)
    }

    async fn dial(
        way: &ClientConfig,
        address: &str,
        hello: Hello,
        limits: Limits,
    ) -> Result<Established<Stream>, HandshakeError> {
        let (endpoint, connection) = connect(way, address, &limits).await?;
        within(&limits, async {
            let (send, receive) = connection.open_bi().await.map_err(stream::io_error)?;
            let key = shown(&connection);
            greet(Stream::new(send, receive, Some(endpoint)), key, hello, &limits).await
        })
        .await
    }

    fn close(self) -> impl Future<Output = ()> + Send {
        self.endpoint.set_server_config(None);
        async move { self.endpoint.wait_idle().await }
    }
}

/// Dials the first address that `address` stands for and that answers.
async fn connect(
    way: &ClientConfig,
    address: &str,
    limits: &Limits,
) -> Result<(Endpoint, Connection), HandshakeError> {
    first_reached(address, limits, |address| connect_to(way, address)).await
}

async fn connect_to(
    way: &ClientConfig,
    address: SocketAddr,
) -> Result<(Endpoint, Connection), HandshakeError> {
    let socket = free_socket(address);
    let endpoint = socket.and_then(|socket| endpoint(EndpointConfig::default(), None, socket));
    let endpoint = endpoint.map_err(HandshakeError::Unreachable)?;
    let name = tls::no_name().to_str().into_owned();
    let connecting = endpoint.connect_with(way.clone(), address, &name);
    let connecting =
        connecting.map_err(|error| HandshakeError::Unreachable(io::Error::other(error)))?;
    let connection = connecting.await.map_err(stream::io_error)?;
    Ok((endpoint, connection))
}

/// An end of connections, on the current tokio runtime.
fn endpoint(
    mut config: EndpointConfig,
    accepts: Option<ServerConfig>,
    socket: UdpSocket,
) -> io::Result<Endpoint> {
    config.max_udp_payload_size(MAX_DATAGRAM_BYTES).map_err(io::Error::other)?;
    socket.set_nonblocking(true)?;
    // The system may allow less, which is less fast and no less right.
    if let Ok(state) = UdpSocketState::new((&socket).into()) {
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BYTES);
    }
    Endpoint::new(config, accepts, socket, Arc::new(TokioRuntime))
}

/// Makes numbers of connections, and takes any number for one of its own: after a restart, those
/// from before are to be answered as well. What the library has by default would ignore them.
#[derive(Clone)]
struct Numbers {
    secret: [u8; 32],
    made: u64,
}

impl Numbers {
    fn new() -> io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        Ok(Self { secret, made: 0 })
    }
}

impl ConnectionIdGenerator for Numbers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.made += 1;
        let made = self.made.to_le_bytes();
        let Digest(number) = Digest::of("connection number", &[&self.secret[..], &made].concat());
        ConnectionId::new(number.first_chunk::<NUMBER_BYTES>().unwrap_or(&[0; NUMBER_BYTES]))
    }

    fn cid_len(&self) -> usize {
        NUMBER_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(MAX_DATAGRAM_BYTES);
    let mut congestion = CubicConfig::default();
    congestion.initial_window(FIRST_WINDOW_BYTES);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .congestion_controller_factory(Arc::new(congestion))
        .initial_rtt(FIRST_ROUND_TRIP)
        .mtu_discovery_config(Some(discovery))
        // Pings and their absence are watched over the stream, as over TCP.
        .max_idle_timeout(None);
    Arc::new(config)
}

/// The key that the other side showed.
fn shown(connection: &Connection) -> Option<PublicKey> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    tls::key_of(shown.first()?)
}

/// Never: [`tls`] has the cipher suite that QUIC begins with.
fn no_initial_suite(error: quinn::crypto::rustls::NoInitialCipherSuite) -> TlsError {
    TlsError::from(rustls::Error::General(error.to_string()))
}

/// A connection without anything on top, for tests that misbehave.
#[cfg(test)]
pub(super) async fn raw(
    address: &str,
    identity: &Identity,
    key: PublicKey,
    limits: &Limits,
) -> Result<Stream, HandshakeError> {
    let way = Quic::way(identity, key).expect("a way");
    let (endpoint, connection) = connect(&way, address, limits).await?;
    let (send, receive) = connection.open_bi().await.map_err(stream::io_error)?;
    Ok(Stream::new(send, receive, Some(endpoint)))
}
