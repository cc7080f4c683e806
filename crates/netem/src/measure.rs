//! What was asked for against what is observed, by the kernel's own UDP and TCP between two nodes.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::NetError;
use crate::link::Link;
use crate::namespace::Namespace;
use crate::network::Network;

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Probe {
    /// UDP packets.
    pub packets: u64,
    /// How many of them a second.
    pub packets_per_second: u64,
    /// Bytes of each, without headers; at least 16.
    pub payload_bytes: usize,
    /// How long TCP sends as fast as it can; not at all if zero.
    pub bulk: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self { packets: 2_000, packets_per_second: 1_000, payload_bytes: 64, bulk: Duration::ZERO }
    }
}

/// What was observed of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// What was asked for.
    pub asked: Link,
    /// UDP packets that were sent.
    pub sent: u64,
    /// Those of them that arrived, each once.
    pub arrived: u64,
    /// Arrivals beyond these.
    pub again: u64,
    /// Packets that arrived after one that was sent later.
    pub overtaken: u64,
    /// How many packets a second were sent.
    pub packets_per_second: f64,
    /// From the call that sent to the return of the call that received, one way: half of the packets at most.
    pub delay_p50: Duration,
    /// The same of 1 %.
    pub delay_p1: Duration,
    /// The same of 99 %.
    pub delay_p99: Duration,
    /// The mean.
    pub delay_mean: Duration,
    /// Bits a second that one TCP connection received in the second half of the time, without headers.
    pub bulk_bits: Option<f64>,
}

impl Observed {
    /// The share of packets that did not arrive.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// Sends from one node to another, and looks at what arrives. Sender and receiver are threads of this process, so that both read the
/// same clock; that they have to be scheduled is part of what is observed.
///
/// # Errors
/// No such node, or the system does not let us.
pub fn measure(
    network: &Network,
    from: usize,
    to: usize,
    probe: &Probe,
) -> Result<Observed, NetError> {
    let no_link = || NetError::Refused(format!("there is no link from node {from} to node {to}"));
    let links = network.links();
    let asked = links.link(from, to).filter(|_| from != to).ok_or_else(no_link)?;
    let node = |node: usize| network.namespaces().get(node).ok_or_else(no_link);
    measure_between(node(from)?, node(to)?, asked, probe)
}

/// The same between two namespaces, whoever made them; `asked` is what the link between them is to do.
///
/// # Errors
/// The system does not let us.
pub fn measure_between(
    from: &Namespace,
    to: &Namespace,
    asked: &Link,
    probe: &Probe,
) -> Result<Observed, NetError> {
    let (delays, again, overtaken, packets_per_second) = probe_udp(from, to, probe, asked)?;
    let mut sorted = delays;
    sorted.sort_unstable();
    let share = |share: f64| {
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let sum: Duration = sorted.iter().sum();
    let bulk_bits = if probe.bulk.is_zero() { None } else { Some(bulk_tcp(from, to, probe.bulk)?) };
    Ok(Observed {
        sent: probe.packets,
        arrived: sorted.len() as u64,
        again,
        overtaken,
        packets_per_second,
        delay_p50: share(0.5),
        delay_p1: share(0.01),
        delay_p99: share(0.99),
        delay_mean: sum.checked_div(sorted.len() as u32).unwrap_or_default(),
        bulk_bits,
        asked: asked.clone(),
    })
}

/// A socket buffer that outlasts a receiver which is not scheduled for a while.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// How long after the last packet was due another is waited for.
const STRAGGLERS: Duration = Duration::from_millis(500);

/// How long a TCP connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

type Arrivals = (Vec<Duration>, u64, u64, f64);

fn probe_udp(
    from: &Namespace,
    to: &Namespace,
    probe: &Probe,
    link: &Link,
) -> Result<Arrivals, NetError> {
    let failed = NetError::system("probing with UDP");
    let began = Instant::now();
    let (receiver, address) = bind_udp(to)?;
    let (sender, _) = bind_udp(from)?;
    let sent_all = AtomicBool::new(false);
    let patience = link.delay + link.jitter * 4 + STRAGGLERS;
    let result = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receiver, began, probe, &sent_all, patience));
        let sent = send(&sender, address, began, probe);
        sent_all.store(true, Ordering::Release);
        let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.and_then(|(delays, again, overtaken)| Ok((delays, again, overtaken, sent?)))
    });
    result.map_err(failed)
}

fn bind_udp(namespace: &Namespace) -> Result<(UdpSocket, SocketAddr), NetError> {
    let bound = namespace.within(|| {
        let socket = UdpSocket::bind((namespace.address(), 0))?;
        // Beyond the system's limit, as root may; otherwise what the limit is.
        let size = rustix::net::sockopt::set_socket_recv_buffer_size_force;
        let _ = size(&socket, RECEIVE_BUFFER_BYTES);
        let address = socket.local_addr()?;
        Ok((socket, address))
    })?;
    bound.map_err(NetError::system(format!("making a UDP socket at node {}", namespace.node())))
}

/// Sends evenly, and says how many a second it were.
fn send(socket: &UdpSocket, to: SocketAddr, began: Instant, probe: &Probe) -> std::io::Result<f64> {
    let mut packet = vec![0; probe.payload_bytes.max(16)];
    let first = Instant::now();
    for number in 0..probe.packets {
        let due_ns =
            u128::from(number) * 1_000_000_000 / u128::from(probe.packets_per_second.max(1));
        let due = Duration::from_nanos(due_ns as u64);
        if let Some(early) = due.checked_sub(first.elapsed()).filter(|early| !early.is_zero()) {
            std::thread::sleep(early);
        }
        let (stamp, rest) = packet.split_at_mut(8);
        rest[..8].copy_from_slice(&number.to_le_bytes());
        stamp.copy_from_slice(&(began.elapsed().as_nanos() as u64).to_le_bytes());
        // A packet that its own kernel has no room for is lost, like any other.
        let _ = socket.send_to(&packet, to);
    }
    Ok(probe.packets as f64 / first.elapsed().as_secs_f64())
}

fn receive(
    socket: &UdpSocket,
    began: Instant,
    probe: &Probe,
    sent_all: &AtomicBool,
    patience: Duration,
) -> std::io::Result<(Vec<Duration>, u64, u64)> {
    socket.set_read_timeout(Some(patience))?;
    let mut seen = vec![false; usize::try_from(probe.packets).unwrap_or(0)];
    let mut delays = Vec::with_capacity(seen.len());
    let (mut again, mut overtaken, mut newest) = (0, 0, 0);
    let mut packet = vec![0; probe.payload_bytes.max(16)];
    while delays.len() < seen.len() || probe.packets == 0 {
        let waits_for_last = sent_all.load(Ordering::Acquire);
        match socket.recv(&mut packet) {
            Err(_) if waits_for_last => break,
            Err(_) => continue,
            Ok(_) => {}
        }
        let arrived = began.elapsed();
        let word = |at: usize| packet.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        let (Some(stamp), Some(number)) = (word(0), word(8)) else { continue };
        let number = u64::from_le_bytes(number);
        let sent = Duration::from_nanos(u64::from_le_bytes(stamp));
        match seen.get_mut(number as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                again += 1;
                continue;
            }
        }
        overtaken += u64::from(number < newest);
        newest = newest.max(number);
        delays.push(arrived.saturating_sub(sent));
    }
    Ok((delays, again, overtaken))
}

/// Bits a second of one TCP connection in the second half of `time`.
fn bulk_tcp(source: &Namespace, sink: &Namespace, time: Duration) -> Result<f64, NetError> {
    let failed = || NetError::system("sending in bulk with TCP");
    let listener = sink.within(|| TcpListener::bind((sink.address(), 0)))?.map_err(failed())?;
    let address = listener.local_addr().map_err(failed())?;
    let mut stream =
        source.within(|| TcpStream::connect_timeout(&address, CONNECT_WITHIN))?.map_err(failed())?;
    let (mut accepted, _) = listener.accept().map_err(failed())?;
    // Whatever the link does: neither side waits for ever.
    stream.set_write_timeout(Some(time)).map_err(failed())?;
    accepted.set_read_timeout(Some(time)).map_err(failed())?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let block = vec![0; 64 << 10];
            let began = Instant::now();
            while began.elapsed() < time && stream.write_all(&block).is_ok() {}
        });
        let mut block = vec![0; 256 << 10];
        let (mut bytes, began) = (0_u64, Instant::now());
        while began.elapsed() < time {
            match accepted.read(&mut block) {
                Ok(0) | Err(_) => break,
                Ok(read) if began.elapsed() > time / 2 => bytes += read as u64,
                Ok(_) => {}
            }
        }
        // Closed before the sender is waited for, who may stand before a full window.
        drop(accepted);
        Ok(bytes as f64 * 8.0 / (time / 2).as_secs_f64())
    })
}

/// A line of a table in Markdown: see [`TABLE_HEAD`].
impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let asked = match self.asked.to_string() {
            none if none.is_empty() => "nothing".to_owned(),
            asked => asked,
        };
        write!(
            f,
            "| {asked} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} % | {} |",
            self.packets_per_second,
            ms(self.delay_mean),
            ms(self.delay_p1),
            ms(self.delay_p50),
            ms(self.delay_p99),
            self.loss() * 100.0,
            self.bulk_bits.map_or("".to_owned(), |bits| format!("{:.1} Mbit/s", bits / 1e6)),
        )
    }
}

/// The head of a table of [`Observed`] lines.
pub const TABLE_HEAD: &str = "\
| asked for, one way | packets/s | delay mean, ms | p1 | p50 | p99 | lost | TCP |
|---|---|---|---|---|---|---|---|";
