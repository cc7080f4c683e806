//! The names of the transports.

use std::fmt;

/// The transport of connections between replicas. All transports use the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportName {
    /// TLS 1.3 over TCP.
    Tcp,
    /// QUIC (RFC 9000), over UDP; TLS 1.3 is part of it.
    Quic,
    /// DTLS 1.3 (RFC 9147) over UDP, with retransmission of Quorate's own.
    Udp,
}

impl TransportName {
    /// All of them, in the order of [`Self::NAMES`].
    pub const ALL: &'static [Self] = &[Self::Tcp, Self::Quic, Self::Udp];

    /// All names, as in configuration files.
    pub const NAMES: &'static [&'static str] =
        &[Self::Tcp.name(), Self::Quic.name(), Self::Udp.name()];

    /// The transport called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|transport| transport.name() == name)
    }

    /// The name of the transport.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
