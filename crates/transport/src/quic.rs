//! The QUIC transport (RFC 9000): TLS 1.3 over UDP, with the same keys as over TCP.
//!
//! * A connection carries one stream in each direction, so messages keep their order as over TCP.
//!   The dialling side opens it.
//! * The dialling side must first show that it receives at the address it sends from (section
//!   8.1.2, a retry). So forged addresses take no places.
//! * A replica that was killed cannot close its connections. After a restart it answers packets of
//!   forgotten connections with stateless resets (section 10.3), made with a key that survives the
//!   restart. So the other side dials again at once instead of after [`Limits::idle`].
//! * Each dialled connection has a socket of its own. So the buffer of the one socket for arriving
//!   connections does not limit the connections that this replica dialled.

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
use super::tls::{self, Allowed, Identity, TlsError};
use super::{Limits, MeshError};

pub(super) use stream::Stream;

/// The protocol name that both sides negotiate (ALPN). The hello names the version.
const SPOKEN: &[u8] = b"quorate";
/// The longest datagram tried, in bytes. Each connection probes which length fits: 1452 on
/// Ethernet, this one on jumbo frames and within one machine. The system gets ten of them in one
/// call. One call takes at most 65,507 bytes; the system silently drops a longer one.
const MAX_DATAGRAM_BYTES: u16 = 6500;
/// The bytes that the other side may send before they are read. TCP's buffers grow to the same size
/// by default.
const RECEIVE_WINDOW_BYTES: u32 = 6 << 20;
/// The bytes that may be on their way to the other side: the same number.
const SEND_WINDOW_BYTES: u64 = 6 << 20;
/// The bytes that may be on their way before the first acknowledgement: ten datagrams, as RFC 9002
/// (section 7.2) allows for datagrams of Ethernet's length. With a window of two, the end of a
/// connection would have to wait for the probes of the datagram length.
const FIRST_WINDOW_BYTES: u64 = 10 * MAX_DATAGRAM_BYTES as u64;
/// The socket buffer requested from the system in each direction. The system may grant less.
const SOCKET_BYTES: usize = 4 << 20;
/// The round trip assumed before the first measurement. An unanswered first packet is sent again
/// after three of them, so a starting replica is found as soon as over TCP.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// The length of a connection ID, which tells apart the connections of one socket.
const NUMBER_BYTES: usize = 8;
/// The bytes kept of a connection that has not been accepted yet.
const ARRIVAL_BYTES: u64 = 16 << 10;

/// A QUIC endpoint that accepts connections.
pub(super) struct Quic {
    endpoint: Endpoint,
}

impl Quic {
    /// Shows `identity` to those who connect to `socket`. They must show a key among `allowed`.
    pub(super) fn new(
        socket: UdpSocket,
        identity: &Identity,
        allowed: Allowed,
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
            // A retry is always allowed here: there has been none yet.
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

    fn way(identity: &Identity, keys: &[PublicKey]) -> Result<ClientConfig, TlsError> {
        let mut tls = tls::client_config(Some(identity), Some(keys))?;
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

/// Dials the first of `address`'s addresses that answers.
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

/// Creates a QUIC endpoint on the current tokio runtime.
fn endpoint(
    mut config: EndpointConfig,
    accepts: Option<ServerConfig>,
    socket: UdpSocket,
) -> io::Result<Endpoint> {
    config.max_udp_payload_size(MAX_DATAGRAM_BYTES).map_err(io::Error::other)?;
    socket.set_nonblocking(true)?;
    // The system may grant less. That is slower, and not wrong.
    if let Ok(state) = UdpSocketState::new((&socket).into()) {
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BYTES);
    }
    Endpoint::new(config, accepts, socket, Arc::new(TokioRuntime))
}

/// Generates connection IDs, and accepts every ID as one of its own. So packets of connections from
/// before a restart are answered. The library's default would ignore them.
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
        // The link sends pings on the stream and watches for their absence, as over TCP.
        .max_idle_timeout(None);
    Arc::new(config)
}

/// The key that the other side showed.
fn shown(connection: &Connection) -> Option<PublicKey> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    tls::key_of(shown.first()?)
}

/// This cannot happen: [`tls`] includes the cipher suite of QUIC's initial packets.
fn no_initial_suite(error: quinn::crypto::rustls::NoInitialCipherSuite) -> TlsError {
    TlsError::from(rustls::Error::General(error.to_string()))
}

/// A bare connection, for tests that misbehave.
#[cfg(test)]
pub(super) async fn raw(
    address: &str,
    identity: &Identity,
    key: PublicKey,
    limits: &Limits,
) -> Result<Stream, HandshakeError> {
    let way = Quic::way(identity, &[key]).expect("a way");
    let (endpoint, connection) = connect(&way, address, limits).await?;
    let (send, receive) = connection.open_bi().await.map_err(stream::io_error)?;
    Ok(Stream::new(send, receive, Some(endpoint)))
}
