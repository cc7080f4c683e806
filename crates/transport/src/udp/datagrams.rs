//! A UDP socket that moves several datagrams in a system call and lets none be fragmented.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;

/// The socket buffer requested from the system in each direction. The system may grant less.
const SOCKET_BYTES: usize = 4 << 20;
/// The buffer for one receive call: longer than any datagram, or several datagrams of one sender.
const RECEIVED_BYTES: usize = 64 << 10;
/// The most bytes that one send call takes.
const SENT_BYTES: usize = 65_507;

/// A UDP socket.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
}

/// The buffer that datagrams are received into.
pub(super) struct Received {
    bytes: Box<[u8]>,
}

impl Default for Received {
    fn default() -> Self {
        Self { bytes: vec![0; RECEIVED_BYTES].into() }
    }
}

/// Datagrams of one sender, received in one call.
pub(super) struct Burst<'a> {
    pub(super) from: SocketAddr,
    pub(super) bytes: &'a [u8],
    /// The length of each datagram; the last one may be shorter.
    pub(super) each: usize,
}

impl Datagrams {
    /// Prepares `socket` on the current tokio runtime.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        // The system may grant less. That is slower, and not wrong.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BYTES);
        Ok(Self { socket: tokio::net::UdpSocket::from_std(socket)?, state })
    }

    /// Waits until the socket is writable. The state of a new socket is not known at once.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Receives datagrams.
    pub(super) fn poll_receive<'a>(
        &self,
        cx: &mut Context<'_>,
        into: &'a mut Received,
    ) -> Poll<io::Result<Burst<'a>>> {
        let meta = loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            let mut meta = [RecvMeta::default()];
            let mut buffers = [IoSliceMut::new(&mut into.bytes)];
            let read = || self.state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut meta);
            match self.socket.try_io(Interest::READABLE, read) {
                Ok(_) => break meta[0],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The network's report about an earlier datagram. Time-outs handle that case as
                // well.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        };
        let bytes = into.bytes.get(..meta.len).unwrap_or_default();
        Poll::Ready(Ok(Burst { from: meta.addr, bytes, each: meta.stride.max(1) }))
    }

    /// Waits for a datagram of `from` that `understood` accepts.
    pub(super) async fn answer<T>(
        &self,
        into: &mut Received,
        from: SocketAddr,
        understood: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        loop {
            let found = poll_fn(|cx| {
                self.poll_receive(cx, into).map_ok(|burst| {
                    let mut datagrams = burst.bytes.chunks(burst.each);
                    (burst.from == from).then(|| datagrams.find_map(&understood)).flatten()
                })
            });
            if let Some(found) = found.await? {
                return Ok(found);
            }
        }
    }

    /// The number of datagrams of this length that one call sends.
    pub(super) fn together(&self, each: usize) -> usize {
        self.state.max_gso_segments().min(SENT_BYTES / each.max(1)).max(1)
    }

    /// Sends datagrams of `each` bytes; the last one may be shorter. A datagram that cannot be sent
    /// is lost, as on any network. Returns `false` if there is no room for now.
    pub(super) fn send(&self, to: SocketAddr, bytes: &[u8], each: usize) -> bool {
        let segment_size = (bytes.len() > each).then_some(each);
        let sent =
            Transmit { destination: to, ecn: None, contents: bytes, segment_size, src_ip: None };
        let write = || self.state.try_send(UdpSockRef::from(&self.socket), &sent);
        match self.socket.try_io(Interest::WRITABLE, write) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(()) => true,
        }
    }
}
