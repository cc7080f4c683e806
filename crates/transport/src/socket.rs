//! The socket on which a replica accepts connections of the others.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tokio::net::TcpListener;

use crate::TransportName;

/// The socket for connections of other replicas. Its kind decides the transport.
#[derive(Debug)]
pub enum PeerSocket {
    /// TLS 1.3 over TCP.
    Tcp(TcpListener),
    /// QUIC.
    Quic(UdpSocket),
    /// DTLS 1.3 over UDP.
    Udp(UdpSocket),
}

impl PeerSocket {
    /// Binds `address` (`host:port`; port 0: any free one).
    ///
    /// # Errors
    /// The system's error.
    pub async fn bind(transport: TransportName, address: &str) -> io::Result<Self> {
        Ok(match transport {
            TransportName::Tcp => Self::Tcp(TcpListener::bind(address).await?),
            TransportName::Quic => {
                Self::Quic(tokio::net::UdpSocket::bind(address).await?.into_std()?)
            }
            TransportName::Udp => {
                Self::Udp(tokio::net::UdpSocket::bind(address).await?.into_std()?)
            }
        })
    }

    /// The transport of this socket.
    #[must_use]
    pub fn transport(&self) -> TransportName {
        match self {
            Self::Tcp(_) => TransportName::Tcp,
            Self::Quic(_) => TransportName::Quic,
            Self::Udp(_) => TransportName::Udp,
        }
    }

    /// The local address.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Quic(socket) | Self::Udp(socket) => socket.local_addr(),
        }
    }
}
